"""Each rule of a well-formed plan, broken in a good plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.plan import edits
from tests.plan.breaches import BREACHES, DOUBLE, HERE, PACK, SUM, A, C, G, swept
from tests.plan.plans import F32, attention, gemm
from tilegen.ir import plan as ir
from tilegen.ir.plan_verify import InvalidPlan, verify
from tilegen.ir.uniform import Int, Sym, op, opposite


@pytest.mark.parametrize("plan", [gemm(), gemm(stages=4), gemm(consumers=3), gemm(1, 1), attention()])
def test_good_plans_pass(plan: ir.Plan) -> None:
    verify(plan)


def test_sweeps_and_votes_pass() -> None:
    verify(swept(DOUBLE, SUM, PACK, vote=(ir.Map("m", ir.Element("m"), HERE),)))


def test_a_vote_may_not_be_taken() -> None:
    plan = swept(DOUBLE, SUM, vote=(ir.Map("alpha", ir.Literal(1.0), HERE), ir.Map("m", ir.Element("alpha"), HERE)))
    verify(plan)
    with pytest.raises(InvalidPlan, match="alpha has no value here on every path"):
        verify(edits.before(plan, C, ir.QuadReduce, ir.Map("m", ir.Element("alpha"), HERE)))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        pytest.param(*case, id=f"{group}-{name}".replace(" ", "_"))
        for group, cases in BREACHES.items()
        for name, case in cases.items()
    ],
)
def test_a_breach_is_found(plan: ir.Plan, message: str) -> None:
    with pytest.raises(InvalidPlan) as caught:
        verify(plan)
    messages = [v.message for v in caught.value.violations]
    assert any(message in m for m in messages), messages
    assert len(caught.value.diagnostics) == len(messages)
    assert all(d.code == "INVALID_PLAN" for d in caught.value.diagnostics)


def test_a_breach_is_shown_inside_the_printed_plan(golden: Callable[..., None]) -> None:
    with pytest.raises(InvalidPlan) as caught:
        verify(edits.drop(edits.drop(A, C, ir.QuadReduce), C, ir.MmaFence, 1))
    golden(str(caught.value))


def test_a_branch_may_rely_on_what_an_equal_branch_wrote() -> None:
    some = op("gt", op("ceildiv", "Sk", 64), 0)
    use = ir.If(some, (ir.Map("m", ir.Element("alpha"), HERE),), HERE)
    verify(edits.before(A, C, ir.QuadReduce, use))
    other = replace(use, condition=op("gt", "Sk", 0))
    with pytest.raises(InvalidPlan, match="alpha has no value here on every path"):
        verify(edits.before(A, C, ir.QuadReduce, other))


def test_a_value_may_be_written_by_either_of_two_branches() -> None:
    some = op("gt", "K", 0)
    write = ir.RowFold("m", "c", "max", "quad", HERE)
    branches = [ir.If(c, (write,), HERE) for c in (some, opposite(some), op("le", "K", 1))]
    rows = tuple(ir.Fragment(n, "row", 64, 1, F32, n, HERE) for n in ("m", "r"))
    plan = edits.role(G, C, fragments=(*G.roles[1].fragments, *rows))
    read = ir.Map("r", ir.Element("m"), HERE)
    verify(edits.before(plan, C, ir.WriteShared, *branches[:2], read))
    with pytest.raises(InvalidPlan, match="m has no value here on every path"):
        verify(edits.before(plan, C, ir.WriteShared, branches[0], branches[2], read))


def test_a_product_that_overwrites_on_a_condition_begins_its_accumulator() -> None:
    """Whether the condition holds in time is for the runs to show."""
    first = edits.alter(edits.drop(G, C, ir.Init), C, ir.Mma, zero=op("eq", "t", 0))
    with pytest.raises(InvalidPlan, match="c has no value here on every path"):
        verify(first)
    none = ir.If(op("ge", 0, op("ceildiv", "K", 64)), (ir.Init("c", 0.0, HERE),), HERE)
    verify(edits.before(first, C, ir.WriteShared, none))


def test_a_loop_may_rely_on_what_an_equal_loop_wrote() -> None:
    loop = ir.For("u", Int(0), op("ceildiv", "K", 64), (ir.Map("r", ir.Element("m"), HERE),), "", HERE)
    write = replace(loop, body=(ir.RowFold("m", "c", "max", "quad", HERE),))
    rows = tuple(ir.Fragment(n, "row", 64, 1, F32, n, HERE) for n in ("m", "r"))
    plan = edits.role(G, C, fragments=(*G.roles[1].fragments, *rows))
    verify(edits.before(plan, C, ir.WriteShared, write, loop))
    for other in (replace(loop, start=Int(1)), *loop.body):
        with pytest.raises(InvalidPlan, match="m has no value here on every path"):
            verify(edits.before(plan, C, ir.WriteShared, write, other))


def test_a_loop_may_not_rely_on_the_last_item() -> None:
    steps = ir.Let("steps", op("sub", op("ceildiv", "K", 64), "item"), HERE)
    write = ir.For("u", Int(0), Sym("steps"), (ir.RowFold("m", "c", "max", "quad", HERE),), "", HERE)
    read = replace(write, body=(ir.Map("r", ir.Element("m"), HERE),))
    rows = tuple(ir.Fragment(n, "row", 64, 1, F32, n, HERE) for n in ("m", "r"))
    plan = edits.role(G, C, fragments=(*G.roles[1].fragments, *rows))
    verify(edits.before(plan, C, ir.WriteShared, steps, write, read))
    with pytest.raises(InvalidPlan, match="m has no value here on every path"):
        verify(edits.before(plan, C, ir.WriteShared, steps, read, write))


def one_behind() -> ir.Plan:
    """gemm whose products stay in flight for one round: slots are released a round late, by cursors of their own."""
    plan = edits.role(
        gemm(stages=3),
        C,
        cursors=(*G.roles[1].cursors, ir.Cursor("fa", "a"), ir.Cursor("fb", "b")),
    )
    free = (
        ir.ArriveEmpty(ir.Slot("a", "fa"), HERE),
        ir.Advance("fa", HERE),
        ir.ArriveEmpty(ir.Slot("b", "fb"), HERE),
        ir.Advance("fb", HERE),
    )
    move = (ir.Advance("ca", HERE), ir.Advance("cb", HERE))

    def loop(o: ir.For) -> tuple[ir.Operation, ...]:
        issue = o.body[:5]
        return (
            ir.If(
                op("gt", o.stop, 0),
                (
                    *issue,
                    *move,
                    replace(o, start=Int(1), body=(*issue, *move, ir.MmaWait(1, ("t0",), HERE), *free)),
                    ir.MmaWait(0, ("t0",), HERE),
                    *free,
                ),
                HERE,
            ),
        )

    return edits.change(plan, C, ir.For, loop)


def test_products_may_stay_in_flight_for_one_round() -> None:
    verify(one_behind())


def test_a_slot_of_a_product_one_round_behind_is_not_released_early() -> None:
    early = edits.change(one_behind(), C, ir.MmaWait, lambda o: (), 0)
    with pytest.raises(InvalidPlan, match="more in flight"):
        verify(early)
    loop_wait = edits.drop(one_behind(), C, ir.MmaWait)
    moved = edits.after(loop_wait, C, ir.Advance, ir.MmaWait(1, ("t0",), HERE), nth=5)
    with pytest.raises(InvalidPlan, match="t0 is in flight and still reads the slot"):
        verify(moved)
