"""Good plans run through; each fault of a pipeline, put into a good plan, is found as what it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan import edits
from tests.plan.plans import at, attention, gemm
from tilegen.checks.pipeline import check, run
from tilegen.diagnostics.core import Diagnostic
from tilegen.ir import plan as ir
from tilegen.ir.dtypes import DType
from tilegen.ir.uniform import Int, Sym, Uniform, op

HERE = at(1)
P, C = "producer", "consumer"
G, A = gemm(), attention()
CA, CB = ir.Slot("a", "ca"), ir.Slot("b", "cb")
# three items for the one CTA, five steps each: every ring goes round more than twice
SIZES = {"M": 128, "N": 192, "K": 320, "sm_count": 1}
HEAD = {"Sq": 384, "Sk": 320, "sm_count": 1}


@pytest.mark.parametrize("stages", [1, 2, 3, 7])
@pytest.mark.parametrize("consumers", [1, 2, 3])
@pytest.mark.parametrize("k", [0, 1, 64, 65, 640])
def test_products_of_any_depth_and_length_run_through(stages: int, consumers: int, k: int) -> None:
    sizes = {"M": 500, "N": 130, "K": k, "sm_count": 4}
    trace = run(gemm(stages, consumers), sizes, range(4))
    assert trace.diagnostics == ()


@pytest.mark.parametrize("sk", [0, 1, 64, 65, 129, 500])
@pytest.mark.parametrize("sq", [0, 1, 128, 300, 1000])
def test_attention_of_any_length_runs_through(sq: int, sk: int) -> None:
    assert check(attention(), {"Sq": sq, "Sk": sk, "sm_count": 2}) == []


def test_the_trace_tells_what_was_moved() -> None:
    trace = run(G, SIZES, [0])
    loads = [e for e in trace.events if isinstance(e.operation, ir.TmaLoad) and e.operation.descriptor == "A"]
    assert [e.position for e in loads] == list(range(15))
    assert {e.process for e in trace.events} == {"producer", "consumer 0", "consumer 1"}
    stores = [e for e in trace.events if isinstance(e.operation, ir.TmaStore)]
    assert len(stores) == 6


def test_work_is_shared_out() -> None:
    sizes = {"M": 128 * 7, "N": 64, "K": 64, "sm_count": 3}
    stores = [
        sum(isinstance(e.operation, ir.TmaStore) for e in run(G, sizes, [cta]).events if e.process == "consumer 0")
        for cta in range(3)
    ]
    assert stores == [3, 2, 2]


def faults(plan: ir.Plan) -> list[Diagnostic]:
    return check(plan, HEAD if plan.name == "attention" else SIZES)


def behind(stages: int) -> ir.Plan:
    """gemm that releases the slots of a step only after the next step's product is issued."""
    free = (
        ir.ArriveEmpty(ir.Slot("a", "fa"), HERE),
        ir.Advance("fa", HERE),
        ir.ArriveEmpty(ir.Slot("b", "fb"), HERE),
        ir.Advance("fb", HERE),
    )
    move = (ir.Advance("ca", HERE), ir.Advance("cb", HERE))

    def loop(o: ir.For) -> tuple[ir.Operation, ...]:
        issue = o.body[:5]
        wait = ir.MmaWait(1, ("t0",), HERE)
        return (
            *issue,
            *move,
            replace(o, start=Int(1), body=(*issue, *move, wait, *free)),
            ir.MmaWait(0, ("t0",), HERE),
            *free,
        )

    plan = edits.role(gemm(stages), C, cursors=(*G.roles[1].cursors, ir.Cursor("fa", "a"), ir.Cursor("fb", "b")))
    return edits.change(plan, C, ir.For, loop)


def test_a_release_one_step_late_needs_two_stages() -> None:
    assert faults(behind(2)) == []
    (d,) = faults(behind(1))
    assert d.code == "PIPELINE_DEADLOCK"
    assert (
        "producer waits for round 0 of the empty barrier of a, stage 0, which consumer 0 has not released" in d.message
    )
    assert "consumer 0 waits for round 1 of the full barrier of a, stage 0, which producer has not filled" in d.message
    assert [n.span.line for n in d.notes] == [5, 7]
    assert d.notes[0].text.startswith("wait empty a@pa: ")


def conditional(plan: ir.Plan, kind: type[ir.Operation], condition: Uniform, nth: int = 0) -> ir.Plan:
    """An operation of the consumers done under a condition only."""
    return edits.change(plan, C, kind, lambda o: (ir.If(condition, (o,), HERE),), nth)


FIRST = op("eq", "warpgroup", 0)

CASES: dict[str, tuple[ir.Plan, str, str]] = {
    "nobody releases": (edits.drop(G, C, ir.ArriveEmpty), "PIPELINE_DEADLOCK", "0 of 2 arrivals have come, and nobody"),
    "one more arrival awaited": (
        edits.ring(G, "a", empty_arrivals=3),
        "PIPELINE_DEADLOCK",
        "2 of 3 arrivals have come",
    ),
    "one warpgroup does not release": (
        conditional(G, ir.ArriveEmpty, FIRST),
        "PIPELINE_DEADLOCK",
        "which consumer 1 has not released",
    ),
    "the producer ends early": (
        edits.alter(G, P, ir.For, stop=Int(4)),
        "PIPELINE_DEADLOCK",
        "which producer has not filled; producer has ended",
    ),
    "nobody has the first turn": (
        edits.drop(A, C, ir.OrderStart),
        "PIPELINE_DEADLOCK",
        "consumer 0 waits for its turn, which consumer 1 has not handed on",
    ),
    "bytes missing": (edits.drop(G, P, ir.TmaLoad), "PIPELINE_BYTES", "the bytes loaded into a slot"),
    "bytes over": (edits.alter(G, P, ir.Expect, bytes=8192), "PIPELINE_BYTES", "the bytes loaded into a slot"),
    "an arrival too many": (
        edits.before(G, C, ir.Advance, ir.ArriveEmpty(CA, HERE)),
        "PIPELINE_ARRIVALS",
        "empty barrier of a, stage 0 for round 0",
    ),
    "a count too small": (
        edits.ring(G, "a", empty_arrivals=1),
        "PIPELINE_ARRIVALS",
        "for round 0 while it counts round 1",
    ),
    "a release without a wait": (
        edits.drop(edits.drop(gemm(1), C, ir.WaitFull), C, ir.Mma),
        "PIPELINE_ARRIVALS",
        "for round 1 while it counts round 0, in some order of events",
    ),
    "a reader that nobody waits for": (
        edits.ring(conditional(G, ir.ArriveEmpty, FIRST), "a", empty_arrivals=1),
        "PIPELINE_LAPPED",
        "consumer 1 may miss round 0 of the full barrier of a, stage 0",
    ),
    "a wait left out now and then": (
        conditional(gemm(1), ir.WaitFull, op("mod", "t", 2)),
        "PIPELINE_SKIPPED",
        "may take an older round of the full barrier of a",
    ),
    "a slot read unasked": (edits.drop(G, C, ir.WaitFull), "PIPELINE_UNORDERED", "C: nothing orders this access"),
    "a slot filled unasked": (edits.drop(G, P, ir.WaitEmpty), "PIPELINE_UNORDERED", "a: nothing orders this access"),
    "a slot released in flight": (
        edits.after(edits.drop(G, C, ir.MmaWait), C, ir.Advance, ir.MmaWait(0, ("t0",), HERE), nth=1),
        "PIPELINE_UNORDERED",
        "a: nothing orders this access",
    ),
    "a tile rewritten under its store": (
        edits.drop(G, C, ir.StoreWait),
        "PIPELINE_UNORDERED",
        "C: nothing orders this access of consumer 0",
    ),
    "a tile rewritten before all know of the store's end": (
        edits.drop(G, C, ir.GroupSync),
        "PIPELINE_UNORDERED",
        "C: nothing orders this access of consumer 0",
    ),
    "a tile stored before all have written": (
        edits.drop(G, C, ir.GroupSync, 1),
        "PIPELINE_UNORDERED",
        "C: nothing orders this access of consumer 0",
    ),
    "a host filled under a store": (
        edits.after(edits.drop(A, C, ir.StoreWait), C, ir.Work, ir.StoreWait(0, True, HERE)),
        "PIPELINE_UNORDERED",
        "q: nothing orders this access of producer",
    ),
    "a host used before its readers are done": (
        edits.buffer(edits.buffer(A, "o_out", host="k", offset=16384), "k", stages=2),
        "PIPELINE_UNORDERED",
        "O: nothing orders this access of consumer",
    ),
    "a slot not awaited": (
        edits.before(G, C, ir.MmaFence, ir.Advance("cb", HERE)),
        "PIPELINE_UNORDERED",
        "C: nothing orders this access of consumer 0",
    ),
    "an accumulator never begun": (
        edits.alter(edits.drop(G, C, ir.Init), C, ir.Mma, zero=op("lt", "K", 0)),
        "PIPELINE_ACCUMULATOR",
        "C: consumer 0 reads or adds to an accumulator",
    ),
    "an accumulator of the item before": (
        edits.alter(edits.drop(G, C, ir.Init), C, ir.Mma, zero=op("eq", "item", 0)),
        "PIPELINE_ACCUMULATOR",
        "C: consumer 0 reads or adds to an accumulator",
    ),
    "half a tile": (
        edits.alter(edits.alter(G, P, ir.Expect, bytes=8192), P, ir.TmaLoad, bytes=8192),
        "PIPELINE_STALE",
        "C: consumer 1 reads shared memory that does not hold",
    ),
    "an older round": (
        edits.role(
            edits.operand(edits.before(gemm(3), C, ir.For, ir.Advance("old", HERE)), "b", slot=ir.Slot("b", "old")),
            C,
            cursors=(*G.roles[1].cursors, ir.Cursor("old", "b")),
        ),
        "PIPELINE_STALE",
        "C: consumer 0 reads shared memory that does not hold",
    ),
    "no fence": (edits.drop(G, C, ir.FenceAsync), "PIPELINE_FENCE", "C: threads wrote these bytes"),
    "turns out of step": (
        edits.drop(A, C, ir.OrderWait),
        "PIPELINE_TURNS",
        "hands on the turn before the next warpgroup has taken the last one",
    ),
    "stores left": (edits.drop(G, C, ir.StoreWait, 1), "PIPELINE_STORES", "consumer 0 ends while TMA still reads"),
    "a load left": (
        edits.after(
            gemm(7),
            P,
            ir.Work,
            ir.Expect(ir.Slot("a", "pa"), 16384, HERE),
            ir.TmaLoad("A", (Int(0), Int(0)), ir.Slot("a", "pa"), 0, 16384, HERE),
        ),
        "PIPELINE_UNREAD",
        "a is filled once more often than it is waited for",
    ),
}


@pytest.mark.parametrize(("plan", "code", "message"), CASES.values(), ids=[n.replace(" ", "_") for n in CASES])
def test_a_fault_is_found_as_what_it_is(plan: ir.Plan, code: str, message: str) -> None:
    found = faults(plan)
    assert any(d.code == code and message in d.message for d in found), [(d.code, d.message) for d in found]
    assert all(d.span is not None for d in found)


def test_a_product_may_overwrite_where_it_is_the_first() -> None:
    first = edits.alter(edits.drop(G, C, ir.Init), C, ir.Mma, zero=op("eq", "t", 0))
    assert faults(first) == []


def test_reads_by_threads_are_over_for_the_releasing_thread_only_after_a_meeting() -> None:
    read = ir.ReadShared("c", CA, 64, HERE)
    by_warp = edits.change(G, C, ir.Mma, lambda o: (ir.ReadShared("c", CB, 0, HERE),))
    by_warp = edits.change(by_warp, C, ir.MmaCommit, lambda o: ())
    by_warp = edits.change(by_warp, C, ir.MmaWait, lambda o: ())
    assert "PIPELINE_UNORDERED" not in [d.code for d in faults(by_warp)]
    # a is released by one thread of a warpgroup
    alone = edits.change(by_warp, C, ir.ReadShared, lambda o: (read,))
    assert "PIPELINE_UNORDERED" in [d.code for d in faults(alone)]
    met = edits.change(alone, C, ir.ReadShared, lambda o: (read, ir.GroupSync(1, HERE)))
    assert faults(met) == []


def test_a_tile_that_a_sweep_reads_is_judged_as_any_other_read() -> None:
    transient = ir.Fragment("h", "acc", 64, 64, DType.F32, "", HERE)
    sweep = ir.Sweep((ir.ReadShared("h", CB, 0, HERE), ir.RowFold("r", "h", "sum", "thread", HERE)), HERE)
    row = ir.Fragment("r", "row", 64, 1, DType.F32, "r", HERE)
    plan = edits.role(G, C, fragments=(*G.roles[1].fragments, transient, row))
    assert faults(edits.before(plan, C, ir.MmaWait, sweep)) == []
    late = edits.after(plan, C, ir.ArriveEmpty, sweep, nth=1)
    assert "PIPELINE_UNORDERED" in [d.code for d in faults(late)]


def test_an_order_that_happens_to_go_well_is_no_excuse() -> None:
    """With a deep ring the run itself never reads an unfilled slot; the check finds that nothing ensures it."""
    plan = edits.drop(gemm(7), C, ir.WaitFull, 1)
    assert next(d.code for d in faults(plan)) == "PIPELINE_UNORDERED"


def test_every_cta_is_judged_by_its_own_trip_counts() -> None:
    """A ring one slot behind only in the last CTA, which has no work for its second item."""
    plan = edits.change(G, P, ir.For, lambda o: (replace(o, stop=op("sub", o.stop, op("eq", "item", 2))),))
    assert run(plan, {**SIZES, "sm_count": 3}, [0, 1]).diagnostics == ()
    assert [d.code for d in check(plan, {**SIZES, "sm_count": 3})] == ["PIPELINE_DEADLOCK"]


def test_nothing_to_do_is_nothing_wrong() -> None:
    assert check(G, {"M": 0, "N": 64, "K": 64, "sm_count": 4}) == []


def test_single_items() -> None:
    single = edits.alter(edits.alter(G, P, ir.Work, mode="single"), C, ir.Work, mode="single")
    single = replace(single, grid=op("mul", op("ceildiv", Sym("M"), 128), op("ceildiv", Sym("N"), 64)))
    trace = run(single, {**SIZES}, [2])
    assert trace.diagnostics == ()
    assert sum(isinstance(e.operation, ir.TmaStore) for e in trace.events) == 2
