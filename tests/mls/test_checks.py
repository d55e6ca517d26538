"""Checks on the text of a program: each fires on the fault that it is for, and on nothing else."""

from __future__ import annotations

import pytest

from tests.mls.programs import COPY, GEMM, SOFTMAX, head, program
from tilegen.targets.mls.checks import check


def found(text: str) -> list[str]:
    return [f"{d.code}: {d.message}" for d in check(program(text))]


def edited(text: str, old: str, new: str, count: int = 1) -> str:
    assert old in text, old
    return text.replace(old, new, count)


@pytest.mark.parametrize("text", [COPY, GEMM, SOFTMAX])
def test_right_programs_pass(text: str) -> None:
    assert found(text) == []


# ---- carry ----

ADD = "    s_add_u32 s20, s8, s16               ; descriptor\n"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("s_addc_u32 s21, s9, s17", "s_add_u32 s21, s9, s17", "wants s_addc_u32"),
        ("s_addc_u32 s21, s9, s17", "s_mov_b32 s21, s9", "wants s_addc_u32"),
        (ADD, ADD + "    s_cmp_eq_u32 s2, 0\n", "`s_cmp_eq_u32 s2, 0` in line"),
        ("s_addc_u32 s17, s17, s17", "s_add_u32 s17, s17, s17", "wants s_addc_u32"),
        ("s_addc_u32 s17, s17, 0", "s_nop 0", "wants s_addc_u32"),
        ("s_add_u32 s20, s8, s16", "s_add_i32 s20, s8, s16", "leaves its overflow in scc"),
    ],
)
def test_a_lost_carry_is_named(old: str, new: str, why: str) -> None:
    faults = found(edited(COPY, old, new))
    assert [f for f in faults if not f.startswith("MLS_CARRY")] == []
    assert any("tile x: the carry of `s_add_" in f and why in f for f in faults), faults


def test_a_carry_that_a_loop_loses_is_named() -> None:
    """The low word moves on in a loop, and the high word was copied once."""
    text = (
        head("walk", 1, 1024, "0 X: input bf16[2]")
        + """\
    s_load_dwordx2 s[8:9], s[0:1], 0
    s_mov_b32 s14, 32
    s_mov_b32 s15, 0
    s_mov_b32 m0, 0
    s_waitcnt lgkmcnt(0)
    s_mov_b32 s12, s8
    s_mov_b32 s13, s9
next:
    s_add_u32 s12, s12, 2048
    {high}
    s_nop 0
    matrix_load_16x32_b16 s[12:15], m0 t lds {{x: X[line, run]}}
    s_waitcnt vmcnt(0)
    s_cmp_lg_u32 s12, 0
    s_cbranch_scc1 next
    s_endpgm
"""
    )
    assert found(text.format(high="s_addc_u32 s13, s13, 0")) == []
    faults = found(text.format(high="s_nop 0"))
    assert len(faults) == 1
    assert "the carry of `s_add_u32 s12, s12, 2048` is lost: the high word is made by `s_load" in faults[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v_addc_co_u32 v4, s[54:55], v4, s13, s[54:55]", "v_add_co_u32 v4, s[54:55], v4, s13"),
        ("v_addc_co_u32 v4, s[54:55], v4, s13, s[54:55]", "v_addc_co_u32 v4, s[54:55], v4, s13, vcc"),
    ],
)
def test_the_carry_of_a_lane_is_followed_too(old: str, new: str) -> None:
    assert any(f.startswith("MLS_CARRY") for f in found(edited(GEMM, old, new)))


# ---- tail ----


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (
            "    s_cmp_ge_i32 s18, 16                 ; nothing is there\n    s_cbranch_scc1 end\n",
            "",
            "255 of 16 lines",
        ),
        ("    s_cmp_ge_i32 s19, 32\n    s_cbranch_scc1 end\n", "", "255 of 32 positions"),
        ("s_cmp_ge_i32 s18, 16 ", "s_cmp_ge_i32 s18, 17 ", "16 of 16 lines"),
        ("s_cmp_ge_i32 s19, 32", "s_cmp_gt_i32 s19, 32", "32 of 32 positions"),
    ],
)
def test_a_load_that_may_bring_nothing_is_named(old: str, new: str, what: str) -> None:
    faults = found(edited(COPY, old, new))
    assert all(f.startswith("MLS_TAIL: tile x: the filter of this load may remove") for f in faults)
    assert any(what in f for f in faults)


def test_a_clamp_guards_as_well_as_a_branch() -> None:
    assert any(
        f.startswith("MLS_TAIL") for f in found(edited(SOFTMAX, "s_min_i32 s23, s23, 15", "s_min_i32 s23, s23, 16"))
    )


# ---- dirty LDS ----


@pytest.mark.parametrize(
    "line", ["    ds_write_b128 v1, v[12:15] {a}\n", "    ds_write_b128 v1, v[12:15] offset:2064 {b}\n"]
)
def test_a_tile_that_nothing_zeroes_is_named(line: str) -> None:
    faults = found(edited(GEMM, line, ""))
    assert faults
    assert all(f.startswith("MLS_DIRTY_LDS: tile ") and "nothing writes" in f for f in faults)


# ---- waits, hazards, barriers ----


def test_a_register_that_is_not_waited_for_is_named() -> None:
    faults = found(edited(COPY, "    s_waitcnt lgkmcnt(0)\n    s_mul_i32", "    s_mul_i32"))
    assert all(f.startswith("MLS_NOT_WAITED") for f in faults)
    assert "it touches s13, which is being loaded" in faults[0]
    faults = found(edited(GEMM, "s_waitcnt lgkmcnt(2)", "s_waitcnt lgkmcnt(3)"))
    assert faults
    assert all(f.startswith("MLS_NOT_WAITED") for f in faults)


def test_a_wait_that_counts_is_enough_for_what_is_older() -> None:
    assert found(edited(GEMM, "s_waitcnt lgkmcnt(2)", "s_waitcnt lgkmcnt(1)")) == []
    text = edited(COPY, "    s_waitcnt lgkmcnt(0)\n    s_mul_i32", "    s_waitcnt lgkmcnt(1)\n    s_mul_i32")
    assert found(text), "scalar loads come in any order: only a wait for all is one"


def test_a_scalar_that_comes_too_late_is_named() -> None:
    faults = found(edited(COPY, "    s_mov_b32 m0, 0\n    s_nop 0\n", "    s_mov_b32 m0, 0\n"))
    assert len(faults) == 1
    assert faults[0].startswith("MLS_HAZARD: it takes m0, written 0 instructions before: at least 1")
    faults = found(edited(COPY, "s_mov_b32 m0, 0\n", "v_readfirstlane_b32 m0, v0\n    s_nop 2\n"))
    assert "written 4 instructions before: at least 5" in faults[0]


def test_a_barrier_that_some_waves_pass_by_is_named() -> None:
    faults = found(edited(GEMM, "    s_lshl_b32 s40, s23, 1 ", "    s_barrier\n    s_lshl_b32 s40, s23, 1 "))
    assert any(f.startswith("MLS_HANG: not every wave comes to this barrier") for f in faults)


def test_a_branch_that_all_waves_take_alike_may_hold_a_barrier() -> None:
    text = edited(GEMM, "    s_cbranch_scc1 none\n", "    s_cbranch_scc1 none\n    s_barrier\n")
    assert found(text) == []


def test_a_tile_without_wait_or_barrier_is_named() -> None:
    faults = found(edited(GEMM, "    s_barrier\n", ""))
    assert sorted(f.split(",")[0] for f in faults) == ["MLS_RACE: tile a is read here", "MLS_RACE: tile b is read here"]
    assert all("no s_barrier" in f for f in faults)
    faults = found(edited(GEMM, "    s_waitcnt vmcnt(0)\n", ""))
    assert all("no s_waitcnt vmcnt" in f for f in faults)
    assert len(faults) == 2
