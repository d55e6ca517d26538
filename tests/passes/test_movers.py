"""Tiles that threads copy: the numbers that TMA brings, roles in one warpgroup, and what plans must not say."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.movers import with_mover
from tests.passes import interpret
from tests.passes.specs import loaded, schedule_of, text_of
from tests.plan import edits
from tilegen.checks.movement.check import check_movement
from tilegen.checks.pipeline import check
from tilegen.checks.resources import register_needs
from tilegen.ir import plan as ir
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.plan_verify import InvalidPlan, verify
from tilegen.ir.plan_walk import all_operations
from tilegen.ir.tile import ParamValue
from tilegen.ir.uniform import Sym, evaluate, op
from tilegen.ir.variants import alignment, chosen, when
from tilegen.oracle import random_inputs, scalar_values
from tilegen.passes.pipeline import lower, lower_all, program_of

GEMM = text_of("gemm")
SMALL = "block m 128, n 64 consumers 2 over m stages a 3, b 3"
CASES: dict[str, tuple[str, dict[str, ParamValue], dict[str, int], tuple[str, ...]]] = {
    "all": ("fa3_fwd", {"D": 64, "causal": True}, {"B": 1, "Sq": 201, "Sk": 170, "Hk": 1, "G": 2}, ()),
    "beside TMA": ("fa3_fwd", {"D": 64, "causal": True}, {"B": 1, "Sq": 201, "Sk": 170, "Hk": 1, "G": 1}, ("k", "v")),
    "full": ("fa3_fwd", {"D": 128}, {"B": 1, "Sq": 201, "Sk": 170, "Hk": 1, "G": 1}, ()),
    "padded lines": ("fa3_fwd", {"D": 72}, {"B": 1, "Sq": 70, "Sk": 90, "Hk": 1, "G": 1}, ()),
    "rows of two axes": ("attention_decode", {}, {"B": 1, "Sq": 3, "Sk": 157, "Hk": 1, "G": 5}, ()),
    "a tile beside an accumulator": ("attention_bias", {}, {"B": 1, "Sq": 70, "Sk": 96, "Hk": 1, "G": 1}, ()),
    "no product": ("row_softmax", {}, {"M": 140, "N": 200}, ()),
}


@pytest.mark.parametrize(("name", "params", "sizes", "tiles"), CASES.values(), ids=CASES)
def test_copies_bring_what_boxes_bring(
    name: str, params: dict[str, ParamValue], sizes: dict[str, int], tiles: tuple[str, ...]
) -> None:
    text = text_of(name)
    program = loaded(text, **params).variants("hopper")[-1]
    by_threads = loaded(with_mover(text, "cp_async", tiles, **params), **params).variants("hopper")[-1]
    scalars, inputs = scalar_values(program, sizes, {}), random_inputs(program, sizes, 3)
    plan = lower(by_threads)
    wanted = interpret.run(lower(program), sizes, scalars, inputs, lazy=True)
    for output, found in interpret.run(plan, sizes, scalars, inputs, lazy=True).items():
        assert np.array_equal(found, wanted[output], equal_nan=True)
    assert check(plan, {**sizes, "sm_count": 2}) == []
    assert plan_from_json(plan_to_json(plan)) == plan
    judged = check_movement(plan, by_threads)
    assert not judged.diagnostics
    assert judged.unknown == check_movement(lower(program), program).unknown


@cache
def copied(directives: str = "via a cp_async, b cp_async") -> ir.Plan:
    return lower(loaded(schedule_of(GEMM, f"{SMALL} {directives}")))


def test_roles_share_a_warpgroup() -> None:
    causal = loaded(with_mover(text_of("fa3_fwd"), "cp_async", ("k", "v"), D=64, causal=True), D=64, causal=True)
    roles = [(r.name, r.warps, r.registers) for r in lower(causal.variants("hopper")[-1]).roles]
    assert roles[:3] == [("producer", None, 32), ("copier", (2, 2), None), ("scanner", (1, 1), None)]
    assert [(r.name, r.warps, r.registers) for r in copied().roles] == [("copier", None, 40), ("consumer", None, 232)]
    assert all(ring.full_arrivals == 128 for ring in copied().rings)
    mixed = copied("via b cp_async")
    assert {ring.name: ring.full_arrivals for ring in mixed.rings} == {"a": 1, "b": 64}
    assert [d.name for d in mixed.descriptors] == ["a"]
    assert register_needs(copied())[0].registers <= 40


def test_products_see_copies_behind_a_fence() -> None:
    """Threads write in one view of memory, tensor cores read in another."""
    plan = copied()
    for _, _, o in all_operations(plan):
        if isinstance(o, ir.For | ir.If) and any(isinstance(p, ir.Mma) for p in o.body):
            kinds = [type(p) for p in o.body]
            assert kinds.index(ir.WaitFull) < kinds.index(ir.FenceAsync) < kinds.index(ir.Mma)
    by_threads = lower(loaded(with_mover(text_of("row_softmax"), "cp_async")))
    assert not any(
        isinstance(o, ir.FenceAsync) for _, _, o in all_operations(by_threads)
    )  # threads read what they wrote


SIZES = {"M": 128, "N": 64, "K": 320, "sm_count": 1}
FAULTS = {
    "no fence": (edits.drop(copied(), "consumer", ir.FenceAsync, 1), "PIPELINE_FENCE"),
    "signalled before it is copied": (
        edits.change(
            edits.drop(copied(), "copier", ir.SignalCopies, 1),
            "copier",
            ir.CopyTile,
            lambda o: (ir.SignalCopies(o.slot, True, o.span), o),
            1,
        ),
        "PIPELINE_UNORDERED",
    ),
    "no room waited for": (edits.drop(copied(), "copier", ir.WaitEmpty), "PIPELINE_LAPPED"),
    "no signal": (edits.drop(copied(), "copier", ir.SignalCopies), "PIPELINE_DEADLOCK"),
    "an arrival too many": (
        replace(copied(), rings=(replace(copied().ring("a"), full_arrivals=129), copied().ring("b"))),
        "PIPELINE_DEADLOCK",
    ),
    "an arrival too few": (
        replace(copied(), rings=(replace(copied().ring("a"), full_arrivals=127), copied().ring("b"))),
        "PIPELINE_ARRIVALS",
    ),
}


@pytest.mark.parametrize(("plan", "code"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_movement_is_found(plan: ir.Plan, code: str) -> None:
    assert check(copied(), SIZES) == []
    assert code in {d.code for d in check(plan, SIZES)}


def test_a_copy_from_elsewhere_is_found() -> None:
    program = loaded(schedule_of(GEMM, f"{SMALL} via a cp_async, b cp_async"))
    plan = lower(program)
    assert not check_movement(plan, program).diagnostics
    shifted = edits.change(
        plan, "copier", ir.CopyTile, lambda o: (replace(o, index=(op("add", o.index[0], 1), o.index[1])),)
    )
    assert "MOVEMENT_PLACE" in {d.code for d in check_movement(shifted, program).diagnostics}


BUFFER = copied().buffer("a")
SIGNAL = ir.SignalCopies(ir.Slot("a", "a_read"), True, BUFFER.span)
BREACHES = {
    "arrivals": (
        replace(copied(), rings=(replace(copied().ring("a"), full_arrivals=1), copied().ring("b"))),
        "full barriers take 1 arrivals, 128 come",
    ),
    "swizzle": (
        replace(copied(), buffers=(replace(BUFFER, swizzle=64, line=64, chunk=32), copied().buffer("b"))),
        "swizzle",
    ),
    "signalled as what it is not": (
        edits.alter(copied(), "copier", ir.SignalCopies, asynchronous=False),
        "what is signalled is not what the copies before it are",
    ),
    "filled without waiting": (edits.drop(copied(), "copier", ir.WaitEmpty), "without waiting until it is empty"),
    "copied twice": (edits.change(copied(), "copier", ir.CopyTile, lambda o: (o, o)), "a second copy"),
    "width": (edits.alter(copied(), "copier", ir.CopyTile, width=12), "bf16 is not copied 12 bytes at once"),
    "rows": (edits.alter(copied(), "copier", ir.CopyTile, rows=(ir.RowStep(0, ir.Digit(2, 0), Sym("M")),)), "follow"),
    "columns": (edits.alter(copied(), "copier", ir.CopyTile, col_dim=0), "columns run along the innermost dimension"),
    "index": (edits.alter(copied(), "copier", ir.CopyTile, index=()), "0 indices for 2 dimensions"),
    "a consumer": (edits.after(copied(), "consumer", ir.FenceAsync, SIGNAL), "a consumer does not do this"),
    "elected": (edits.role(copied(), "copier", elected=True), "a copier is run by one elected thread"),
    "warps that are not there": (edits.role(copied(), "copier", warps=(2, 4)), "has no warps 2 to 5"),
    "nobody's first warp": (edits.role(copied(), "copier", warps=(2, 2), registers=None), "first warp of warpgroup 0"),
}  # fmt: skip


@pytest.mark.parametrize(("plan", "message"), BREACHES.values(), ids=BREACHES)
def test_a_breach_is_found(plan: ir.Plan, message: str) -> None:
    with pytest.raises(InvalidPlan) as caught:
        verify(plan)
    messages = [v.message for v in caught.value.violations]
    assert any(message in m for m in messages), messages


# ---- which mover -----------------------------------------------------------------------------------


def test_a_launch_takes_the_widest_copies_that_its_arrays_allow() -> None:
    plans = lower_all(loaded(schedule_of(GEMM, "block m 128, n 64 via a auto, b auto")))
    assert [[r.name for r in p.roles] for p in plans] == [["producer", "consumer"], *[["copier", "consumer"]] * 3]
    assert when(plans, 0) == "if alignment(A) >= 16 and alignment(B) >= 16"
    names = alignment("A").name, alignment("B").name
    for A, B, taken in ((16, 16, 0), (16, 8, 1), (8, 16, 1), (4, 16, 2), (2, 2, 3), (16, 2, 3)):
        assert chosen(plans, dict(zip(names, (A, B), strict=True))) == taken
    widths = [{o.width for _, _, o in all_operations(p) if isinstance(o, ir.CopyTile)} for p in plans]
    assert widths == [set(), {8}, {4}, {2}]
    assert [any("loads and stores" in note for note in p.notes) for p in plans] == [False, False, False, True]


def stored(plan: ir.Plan) -> set[str]:
    return {d.name for d in plan.descriptors if d.store}


def test_an_output_leaves_by_tma_where_its_arrays_allow() -> None:
    """Rows must begin and end at multiples of 16 bytes: of arrays, when it is launched."""
    plans = lower_all(loaded(schedule_of(GEMM, "block m 128, n 64 via C auto")))
    assert [stored(p) for p in plans] == [{"C"}, set()]
    assert [when(plans, n) for n in (0, 1)] == ["if alignment(C) >= 16 and N mod 8 == 0", "otherwise"]
    assert [chosen(plans, {"N": N, "alignment(C)": C}) for N, C in ((8, 16), (9, 16), (8, 8))] == [0, 1, 1]
    plans = lower_all(loaded(schedule_of(GEMM, "block m 128, n 64 via a auto, C auto")))
    assert [(stored(p), p.descriptors[0].name) for p in plans] == [({"C"}, "a"), (set(), "a"), *[(set(), "b")] * 3]
    assert when(plans, 0) == "if alignment(A) >= 16 and alignment(C) >= 16 and N mod 8 == 0"


def columns(n: int) -> str:
    text = GEMM.replace("size   M, N, K", "size M, K").replace("[M, N]", f"[M, {n}]").replace("[K, N]", f"[K, {n}]")
    return schedule_of(text.replace("n in N", f"n in {n}"), "block m 64, n 64 consumers 1 over m via C auto")


def test_extents_that_are_known_decide_at_once() -> None:
    whole = lower_all(loaded(columns(320)))
    assert [when(whole, n) for n in (0, 1)] == ["if alignment(C) >= 16", "otherwise"]
    assert [stored(p) for p in whole] == [{"C"}, set()]
    assert [stored(p) for p in lower_all(loaded(columns(300)))] == [set()]


def test_a_sequence_with_another_behind_it_is_stored_in_rows() -> None:
    text = schedule_of(text_of("fa3_varlen"), "block i 64, j 64 consumers 1 over i via O auto")
    assert [stored(p) for p in lower_all(loaded(text, D=64))] == [set()]


def test_an_output_in_rows_takes_no_tiles_memory() -> None:
    text = schedule_of(text_of("fa3_fwd"), "block i 128, j 64 consumers 2 over i  alias O, q  via O auto")
    by_tma, in_rows = lower_all(loaded(text, D=64))
    assert stored(by_tma) == {"O"} and not stored(in_rows)
    assert by_tma.shared_bytes == in_rows.shared_bytes


def test_what_only_tma_takes_is_left_out_of_rows() -> None:
    text = schedule_of(
        text_of("fa3_fwd"), "block i 128, j 64 consumers 2 over i  stages O 1  hint O stream  via O auto"
    )
    by_tma, in_rows = lower_all(loaded(text, D=128))
    assert stored(by_tma) == {"O"} and not stored(in_rows)
    assert by_tma.buffer("O.staging").stages == 1


@pytest.mark.parametrize(
    ("text", "params"),
    [
        (schedule_of(text_of("fa3_fwd"), "block i 128, j 64 consumers 2 over i  alias O, q  OUTPUTS"), {"D": 64}),
        (schedule_of(text_of("attention_decode"), "block i I, r R, j 64 consumers 1 over i, r  OUTPUTS"), {"D": 64}),
    ],
    ids=["rows of an axis", "rows of two axes"],
)
def test_an_output_with_one_number_a_row_is_stored_in_rows(text: str, params: dict[str, ParamValue]) -> None:
    """By all launches: it makes no variant, nor does it ask anything of one that another output makes."""
    (alone,) = lower_all(loaded(text.replace("alias O, q", "").replace("OUTPUTS", "via LSE auto"), **params))
    assert not stored(alone) and alone.guard is None
    by_tma, in_rows = lower_all(loaded(text.replace("OUTPUTS", "via LSE auto, O auto"), **params))
    assert (stored(by_tma), stored(in_rows)) == ({"O"}, set())
    assert [when((by_tma, in_rows), n) for n in (0, 1)] == ["if alignment(O) >= 16", "otherwise"]


def test_where_there_is_no_tma_an_output_is_stored_in_rows() -> None:
    text = GEMM.replace("schedule hopper {", "schedule sm_80 { via C auto } schedule hopper {")
    plans = lower_all(loaded(text), "sm_80")
    assert not any(stored(p) for p in plans) and not any("alignment(C)" in when(plans, n) for n in range(len(plans)))


def test_a_schedule_keeps_its_own_condition() -> None:
    text = GEMM.replace("schedule hopper {", "schedule hopper if M <= 64 { via a auto } schedule hopper {")
    plans = lower_all(loaded(text))
    assert when(plans, 0) == "if M <= 64 and alignment(A) >= 16"
    assert when(plans, 3) == "else if M <= 64"
    assert when(plans, 4) == "else if alignment(C) >= 16 and N mod 8 == 0"
    assert when(plans, 5) == "otherwise"
    assert chosen(plans, {"M": 65, "N": 8, "alignment(A)": 2, "alignment(C)": 16}) == 4
    assert chosen(plans, {"M": 65, "N": 7, "alignment(A)": 2, "alignment(C)": 16}) == 5
    own = [program_of(loaded(text), "hopper", n).schedule("hopper") for n in range(6)]
    assert [s.guard is None for s in own if s] == [False] * 4 + [True] * 2
    with pytest.raises(IndexError):
        program_of(loaded(text), "hopper", 6)


@pytest.mark.parametrize(("shift", "width"), [(0, 16), (8, 16), (4, 8), (2, 4), (1, 2)])
def test_columns_that_begin_elsewhere_narrow_the_copies(shift: int, width: int) -> None:
    """A copy needs its own address aligned; TMA takes whole 16 bytes alone."""
    text = schedule_of(GEMM.replace("B[k, n]", f"B[k, n + {shift}]"), "block m 128, n 64, k 64 via b cp_async")
    program = loaded(text.replace("T[K, N]", f"T[K, N + {shift}]"))
    assert {o.width for _, _, o in all_operations(lower(program)) if isinstance(o, ir.CopyTile)} == {width}
    plans = lower_all(program)
    assert [{o.width for _, _, o in all_operations(p) if isinstance(o, ir.CopyTile)} for p in plans] == [
        {w} for w in (16, 8, 4, 2) if w <= width
    ]
    assert [p.guard is None for p in plans] == [False] * (len(plans) - 1) + [True]
    widest = lower_all(loaded(program.source.text.replace("via b cp_async", "via b auto")))[0]
    assert {r.name for r in widest.roles} == (
        {"producer", "consumer"} if width == 16 else {"producer", "copier", "consumer"}
    )


def test_only_arrays_that_are_copied_wider_have_to_be_aligned() -> None:
    """B begins anywhere in its rows: A alone decides."""
    text = schedule_of(GEMM.replace("B[k, n]", "B[k, n + 3]"), "block m 128, n 64, k 64 via a cp_async, b cp_async")
    program = loaded(text.replace("T[K, N]", "T[K, N + 3]"))
    plans = lower_all(program)
    assert [when(plans, n) for n in range(4)] == [
        "if alignment(A) >= 16", "else if alignment(A) >= 8", "else if alignment(A) >= 4", "otherwise"
    ]  # fmt: skip
    widths = [{o.slot.ring: o.width for _, _, o in all_operations(p) if isinstance(o, ir.CopyTile)} for p in plans]
    assert widths == [{"a": w, "b": 2} for w in (16, 8, 4, 2)]


LAST = """kernel k(T: f16 | bf16 = bf16) {
  size B, M, S
  input cu: i32[B + 1]
  input X: T[B, M, S]
  output Y: f32[B, M]
  ragged S over B by cu
  axis b in B, m in M, s in S
  tile x[m, s] = X[b, m, s]
  Y[b, m] = max[s](x[m, s])
  schedule hopper if M <= 64 { via x cp_async }
  schedule hopper { block m 64  consumers 1 over m  via x auto }
}"""


def test_columns_of_sequences_begin_anywhere() -> None:
    """A plan of each schedule, whose own is found again."""
    program = loaded(LAST)
    plans = lower_all(program)
    assert [when(plans, n) for n in range(len(plans))] == ["if M <= 64", "otherwise"]
    assert [program_of(program, "hopper", n).schedule("hopper") for n in range(2)] == list(program.schedules)


def test_f32_has_no_copies_narrower_than_an_element() -> None:
    plans = lower_all(loaded(with_mover(text_of("copy"), "cp_async", T="f32"), T="f32"))
    assert [{o.width for _, _, o in all_operations(p) if isinstance(o, ir.CopyTile)} for p in plans] == [{16}, {8}, {4}]
    assert plans[-1].guard is None
    assert evaluate(plans[1].guard, {"alignment(X)": 8})  # type: ignore[arg-type]
