"""Conditions of schedules: parameters decide at build time, sizes and integer scalars leave a guard for the launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sema.faults import loaded, reported, underlined, with_changes
from tilegen.ir.tile import TileProgram
from tilegen.ir.tile_text import print_program
from tilegen.ir.tile_verify import InvalidProgram, verify
from tilegen.ir.uniform import Op, Sym, condition_text, evaluate, op

OLD = "schedule hopper { block i 64, j 64 consumers 1 over i }"
VARLEN = (Path(__file__).parents[2] / "samples" / "fa3_varlen.tile").read_text(encoding="utf-8")


def spec(*conditions: str) -> str:
    """One schedule for each; "" is one without a condition."""
    blocks = (f"schedule hopper {f'if {c}' if c else ''} {{ block i {64 * n} }}" for n, c in enumerate(conditions, 1))
    return with_changes((OLD, " ".join(blocks)))


def guards(program: TileProgram) -> list[str | None]:
    return [s.guard and condition_text(s.guard) for s in program.schedules if s.target == "hopper"]


@pytest.mark.parametrize(
    ("conditions", "params", "wanted"),
    [
        (["M <= 1024", ""], {}, ["M <= 1024", None]),
        (["D == 64 and M <= 1024", ""], {}, ["M <= 1024", None]),
        (["D == 64 and M <= 1024", ""], {"D": 128}, [None]),
        (["D == 64 or M <= 1024", "M < 9 or N < 9"], {}, [None]),
        (["D == 64 or M <= 1024", "M < 9 or N < 9"], {"D": 128}, ["M <= 1024", "M < 9 or N < 9"]),
        (["M <= 16 * D and N > w + 1"], {}, ["M <= 1024 and N > w + 1"]),
        (["64 < M <= 1024"], {}, ["64 < M and M <= 1024"]),
        (["D < M <= 1024 and 3 < D < 100"], {}, ["64 < M and M <= 1024"]),
        (["not (64 < M <= 1024 and (flag or N == 3))"], {}, ["64 >= M or M > 1024 or N != 3"]),
        (["not (64 < M <= 1024 and (flag or N == 3))"], {"flag": True}, ["64 >= M or M > 1024"]),
        (["(M < 3 or N < 3) and w != -1"], {}, ["(M < 3 or N < 3) and w != -1"]),
        (["M * N / M < 3 * N + 2", ""], {}, ["N < (N * 3) + 2", None]),
        (["M < M + 1 and N < 8", ""], {}, ["N < 8", None]),
        (["M < M", "N < 8"], {}, ["N < 8"]),
        (["T == bf16 and M < 8", "T != bf16 and N < 8"], {}, ["M < 8"]),
        (["flag and M < 8", ""], {}, [None]),
    ],
)
def test_parameters_are_decided_and_the_rest_is_a_guard(
    conditions: list[str], params: dict[str, int | bool], wanted: list[str | None]
) -> None:
    program = loaded(spec(*conditions), params)
    verify(program)
    assert guards(program) == wanted
    again = loaded(print_program(program))  # what is printed is read as the same
    assert guards(again) == wanted
    assert [s.guard for s in again.schedules] == [s.guard for s in program.schedules]


def test_a_guard_holds_where_the_condition_does() -> None:
    (schedule, *_) = loaded(spec("not (64 < M <= 1024 and N * 2 >= w) and D == 64")).schedules
    assert schedule.guard is not None
    for M in (64, 65, 1024, 1025):
        for N in (0, 3, 4):
            wanted = not (64 < M <= 1024 and N * 2 >= 7)
            assert bool(evaluate(schedule.guard, {"M": M, "N": N, "w": 7})) == wanted


def test_each_variant_has_one_schedule_and_all_else_of_the_program() -> None:
    program = loaded(spec("M < 8", "N < 8", ""))
    variants = program.variants("hopper")
    assert [guards(v) for v in variants] == [["M < 8"], ["N < 8"], [None]]
    assert {v.definitions for v in variants} == {program.definitions}
    assert [v.schedules[0].target for v in program.variants("mls")] == ["mls"]
    bare = loaded(with_changes((OLD, "")))
    assert bare.variants("hopper") == (bare,)


@pytest.mark.parametrize(
    ("condition", "code", "marked"),
    [
        ("M < 8 and x < 1", "SCHEDULE_CONDITION", "x"),
        ("M < 8.5", "SCHEDULE_CONDITION", "M < 8.5"),
        ("M / 2 < 8", "SCHEDULE_CONDITION", "M / 2 < 8"),
        ("min(M, 2) < 8", "SCHEDULE_CONDITION", "min(M, 2) < 8"),
        ("not M", "SCHEDULE_CONDITION", "M"),
        ("flag and (M < 8 or w)", "SCHEDULE_CONDITION", "w"),  # also where it does not count
        ("D == 128 and M < NN", "UNKNOWN_NAME", "NN"),
        ("i < 8", "WRONG_KIND", "i"),
        ("A < 8", "WRONG_KIND", "A"),
        ("s < 8", "WRONG_KIND", "s"),
        ("M < 8 and D", "BAD_CONSTANT", "D"),
        ("T and M < 8", "BAD_CONSTANT", "T"),
    ],
)
def test_what_cannot_choose_a_schedule_is_marked(condition: str, code: str, marked: str) -> None:
    text = spec(condition, "")
    (found,) = reported(text)
    assert (found.code, found.span and underlined(text, found.span)) == (code, marked)


def test_a_scalar_that_only_chooses_among_schedules_has_a_use() -> None:
    text = spec("few == 1", "").replace("scalar w", "scalar few: i32 = 0 scalar w")
    assert guards(loaded(text)) == ["few == 1", None]
    (unused,) = reported(spec("").replace("scalar w", "scalar few: i32 = 0 scalar w"))
    assert unused.code == "UNUSED"


@pytest.mark.parametrize(
    ("condition", "marked", "what"),
    [
        ("Sq <= 1024", "Sq", "the lengths of sequences"),
        ("D <= 64 and G > 1 and Sk * 2 <= 1024", "Sk", "the lengths of sequences"),
        ("D == 32 and Sq < 9", "Sq", "the lengths of sequences"),  # also where the parameters rule it out
        ("Hk * B < 132", "B", "the number of sequences"),
        ("few < 9", "few", "the number of sequences"),
    ],
)
def test_sequences_do_not_choose_since_one_would_change_anothers_bits(condition: str, marked: str, what: str) -> None:
    text = VARLEN.replace("schedule hopper if D <= 64 {", f"schedule hopper if {condition} {{")
    text = text.replace("  ragged Sq", "  scalar few: i32 = 2 * B\n  ragged Sq")
    found = [d for d in reported(text) if d.code != "UNUSED"]
    (fault,) = found
    assert (fault.code, fault.span and underlined(text, fault.span)) == ("SCHEDULE_RAGGED", marked)
    assert what in fault.message
    assert "bits of a sequence" in fault.rule
    assert any("i32 scalar" in fix for fix in fault.fixes)
    assert [note.text for note in fault.notes] == ["cu_q says where each sequence begins"] or marked == "Sk"


def test_dense_sizes_and_given_scalars_of_a_ragged_kernel_choose() -> None:
    text = VARLEN.replace("schedule hopper if D <= 64 {", "schedule hopper if G * Hk <= 8 and few == 1 {")
    program = loaded(text.replace("  ragged Sq", "  scalar few: i32 = 0\n  ragged Sq"))
    assert guards(program) == ["G * Hk <= 8 and few == 1", None]


@pytest.mark.parametrize(
    "conditions",
    [
        ["", "M < 8"],
        ["", ""],
        ["M < 8", "M < 8"],
        ["M <= 8", "M < 9"],
        ["M < 8", "M < 7 and N < 7"],
        ["M < 8", "N < 7 and (M < 3 or M == 5)"],
        ["D <= 128", "D <= 64 and M < 8"],
        ["D < 128 and M < 8", "D == 64 and M < 3 and flag"],
        ["flag and M < 8", "M < 8 and flag and T == bf16"],
        ["T == bf16", "not (T != bf16) and M < 3"],
        ["M < 8", "N < 8", "M < 3 or N < 3"],
        ["2 * M + 1 <= N", "2 * M + 5 <= N"],
        ["M < 8 or N < 8", "8 > M"],
    ],
)
@pytest.mark.parametrize("params", [{}, {"D": 128}, {"flag": True}])
def test_a_schedule_behind_those_that_cover_it_is_told(conditions: list[str], params: dict[str, int | bool]) -> None:
    text = spec(*conditions)
    found = reported(text, params)
    assert [d.code for d in found] == ["SCHEDULE_UNREACHABLE"]
    (fault,) = found
    assert fault.span is not None
    assert fault.span.column == text.splitlines()[fault.span.line - 1].rindex("hopper") + 1
    assert fault.notes
    assert all(note.text == "taken before it" for note in fault.notes)


@pytest.mark.parametrize(
    "conditions",
    [
        ["D <= 64", "D <= 128 and M < 8", "D <= 128"],
        ["M < 7", "M < 8", ""],
        ["M < 8 and N < 8", "M < 8", "N < 8"],
        ["flag", "not flag and M < 8", ""],
        ["T == bf16", "T == f16 and M < 8", ""],
        ["M < 8", "M > 8", "M == 8"],
        ["M < 8 and flag", "M < 3 or N < 3"],
    ],
)
@pytest.mark.parametrize("params", [{}, {"D": 128}, {"flag": True}])
def test_a_schedule_that_some_kernel_and_launch_takes_is_not(
    conditions: list[str], params: dict[str, int | bool]
) -> None:
    loaded(spec(*conditions), params)


def test_schedules_of_another_target_are_not_in_the_way() -> None:
    loaded(with_changes((OLD, "schedule mls if M < 8 { waves 2 } schedule hopper { block i 64 }")))


def test_the_verifier_knows_what_a_guard_may_speak_of() -> None:
    from dataclasses import replace

    program = loaded(spec("M < 8", ""))
    (first, *rest) = program.schedules
    for name in ("x", "i", "nothing"):
        wrong = replace(program, schedules=(replace(first, guard=op("lt", name, 8)), *rest))
        with pytest.raises(InvalidProgram, match=f"a guard on \\['{name}'\\]"):
            verify(wrong)
    ragged = loaded(VARLEN)
    with pytest.raises(InvalidProgram, match="of sequences"):
        verify(replace(ragged, schedules=(replace(ragged.schedules[0], guard=op("lt", "Sq", 8)),)))


def test_the_variant_of_certain_sizes() -> None:
    program = loaded(spec("M < 8", "N < 8 and w == 3"))
    for values, wanted in (((7, 7, 3), "M < 8"), ((8, 7, 3), "N < 8 and w == 3")):
        taken = program.variant("hopper", dict(zip(("M", "N", "w"), values, strict=True)))
        assert guards(taken) == [wanted]
    assert program.variant("hopper", {"M": 8, "N": 7, "w": 4}).schedules == ()


def test_what_compares_nothing_is_printed_as_it_is() -> None:
    """As a plan file may have it, which is refused elsewhere."""
    assert condition_text(Op("and", (Op("f32", (Sym("N"),)), op("lt", "N", 3)))) == "f32(N) and N < 3"
