"""What runs under a product: kept there by the wait for the next slot, with and without the other order's bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.emit.running import random, run
from tests.passes.specs import loaded, schedule_of, text_of
from tests.passes.test_plans import loops, ops, position
from tests.plan.edits import drop
from tilegen.checks.trials import check_all
from tilegen.ir import plan as ir
from tilegen.ir.dtypes import DType
from tilegen.ir.plan_verify import verify
from tilegen.passes.pipeline import lower
from tilegen.targets.hopper.build import build
from tilegen.targets.hopper.emit.expectations import expectations

ATTENTION = text_of("fa3_fwd")
BASE = "block i 128, j 32 consumers 2 over i walk j down"
UNDER = "late O by 1 issue s, O under O: p"
MORE = (
    "",
    "take_turns over s, O skip_rows persistent static",
    "stages k 1, v 1 take_turns over s, O",
    "stages k 3, v 2 persistent table",
)


@cache
def planned(order: str = UNDER, more: str = "", causal: bool = True, D: int = 64) -> ir.Plan:
    return lower(loaded(schedule_of(ATTENTION, f"{BASE} {order} {more}"), D=D, causal=causal))


def ahead(body: tuple[ir.Operation, ...]) -> int:
    """Where a loop's body waits for the slot that the next iteration begins with."""
    (found,) = [n for n, o in enumerate(body) if isinstance(o, ir.If)]
    return found


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("causal", [False, True])
def test_the_next_slot_is_awaited_before_the_product(more: str, causal: bool) -> None:
    plan = planned(UNDER, more, causal)
    for loop in loops(plan):
        (wait,) = loop.body[ahead(loop.body)].body  # type: ignore[union-attr]
        assert isinstance(wait, ir.WaitFull)
        assert wait.slot.ring == "k"
        weights = position(loop.body, ir.Map, out="p")
        assert weights < ahead(loop.body) < position(loop.body, ir.MmaWait, retires=("O_acc",))
        assert [o.slot.ring for o in loop.body if isinstance(o, ir.WaitFull | ir.WaitClean)] == ["v"]


def test_other_orders_wait_where_they_need_the_slot() -> None:
    for order in ("", "late O by 1", "late O by 1 batch O, s", "late O by 1 issue O, s"):
        for loop in loops(planned(order)):
            assert not any(isinstance(o, ir.If) for o in loop.body)


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("causal", [False, True])
def test_the_early_wait_makes_no_cycle(more: str, causal: bool) -> None:
    assert check_all(planned(UNDER, more, causal)) == []


def test_the_checker_misses_the_early_wait() -> None:
    """Without it the first product of an iteration reads a slot that may not be full yet."""
    for nth in (1, 2, 3):  # before the loops, in the masked one, in the other
        found = check_all(drop(planned(), "consumer", ir.If, nth))
        assert "PIPELINE_UNORDERED" in {d.code for d in found}, nth


SPECS = {
    "plain exponentials": "p[i, j] = exp(s[i, j])",
    "two values": "r[i, j] = tanh(s[i, j]) p[i, j] = exp(r[i, j])",
}


@pytest.mark.parametrize("equations", SPECS.values(), ids=SPECS)
def test_any_spec_whose_schedule_says_so(equations: str) -> None:
    plan = lower(
        loaded(f"""kernel k {{
          size M, N
          input Q: bf16[M, 64]
          input K: bf16[N, 64]
          input V: bf16[N, 64]
          output O: f32[M, 64]
          axis i in M, j in N
          tile q[i, d] = Q[i, d]
          tile k[j, d] = K[j, d]
          tile v[j, e] = V[j, e]
          s[i, j] = sum[d](q[i, d] * k[j, d])
          {equations}
          O[i, e] = sum[j](bf16(p[i, j]) * v[j, e])
          schedule hopper {{ block i 128, j 64 consumers 2 over i {UNDER} }}
        }}""")
    )
    assert all(ahead(loop.body) for loop in loops(plan))
    assert check_all(plan) == []
    assert build(plan).diagnostics == ()


def test_the_machine_code_holds_to_it() -> None:
    """With the wait where other orders have it, the assembler moves exponentials behind the product."""
    plan = planned("late O by 1 issue s, O under O: p", "take_turns over s, O")
    assert build(plan).diagnostics == ()
    assert {d.code for d in build(without_edges(plan)).diagnostics} == {"GATE_UNDER"}


def without_edges(plan: ir.Plan) -> ir.Plan:
    """The plan with the wait for the next slot behind the product's."""
    for nth in range(len(loops(plan))):
        loop = loops(plan)[nth]
        at = ahead(loop.body)
        wait = position(loop.body, ir.MmaWait, retires=("O_acc",))
        assert at < wait
        moved = (*loop.body[:at], *loop.body[at + 1 : wait + 1], loop.body[at], *loop.body[wait + 1 :])
        plan = _with_body(plan, loop, moved)
    verify(plan)
    return plan


def _with_body(plan: ir.Plan, loop: ir.For, body: tuple[ir.Operation, ...]) -> ir.Plan:
    def walk(o: ir.Operation) -> ir.Operation:
        if o is loop:
            return replace(loop, body=body)
        return replace(o, body=tuple(map(walk, o.body))) if isinstance(o, ir.Work | ir.If | ir.For) else o

    return replace(plan, roles=tuple(replace(r, body=tuple(map(walk, r.body))) for r in plan.roles))


SIZES = ({"Sq": 70, "Sk": 0}, {"Sq": 70, "Sk": 20}, {"Sq": 140, "Sk": 110}, {"Sq": 40, "Sk": 170})


@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "x".join(map(str, s.values())))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("more", ["", "stale_max"])
def test_the_bits_are_those_of_the_other_order(more: str, causal: bool, sizes: Mapping[str, int]) -> None:
    """Also where rows outgrow a kept exponent while a product is in flight: scores grow on the way."""
    shapes = {"Q": (1, sizes["Sq"], 2, 64), "K": (1, sizes["Sk"], 1, 64), "V": (1, sizes["Sk"], 1, 64)}
    inputs = {name: random(shape, DType.BF16, n) for n, (name, shape) in enumerate(shapes.items())}
    inputs["K"] *= np.linspace(40, 1, sizes["Sk"]).reshape(1, -1, 1, 1).astype(inputs["K"].dtype)
    orders = (UNDER, "late O by 1 batch O, s")
    one, other = (run(planned(o, f"{MORE[1]} {more}", causal), inputs, {"scale": 0.125}) for o in orders)
    for name, values in one.items():
        assert np.array_equal(values.view(np.uint8), other[name].view(np.uint8)), name


# ---- an exponent that is kept ------------------------------------------------------------------------


def test_a_vote_is_the_edge_of_a_kept_exponent() -> None:
    """Weights are packed beside the operand in flight, and take its place behind the wait."""
    plan = planned(UNDER, "stale_max take_turns over s, O", causal=False)
    (loop,) = loops(plan)
    votes = [n for n, o in enumerate(loop.body) if isinstance(o, ir.IfVote)]
    wait = position(loop.body, ir.MmaWait, retires=("O_acc",))
    assert votes[0] < wait < position(loop.body, ir.CopyOperand) < votes[1]
    (rescaled,) = loop.body[votes[1]].body  # type: ignore[union-attr]
    assert isinstance(rescaled, ir.Map)
    assert rescaled.out == "O_acc"
    assert not any(isinstance(o, ir.If) for o in loop.body), "the vote ends a block: no other edge is needed"
    built = build(plan)
    assert built.diagnostics == ()
    gate = next(g for g in expectations(plan).loops if g.under)
    assert [(u.statement, u.product, u.least) for u in gate.under] == [("p", "O", 16)]


def test_other_orders_pack_the_operand_itself() -> None:
    for order in ("late O by 1", "late O by 1 batch O, s"):
        assert not ops(planned(order, "stale_max"), ir.CopyOperand)
