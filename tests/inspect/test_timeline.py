"""The drawn run: every wait ends when what it waits for is there, and a stage has one content at a time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.passes.specs import loaded, sample, schedule_of, text_of
from tests.plan.plans import attention, gemm
from tilegen.inspect.budget import areas, budgets
from tilegen.inspect.timeline import LOAD, Lane, timeline
from tilegen.ir import plan as ir
from tilegen.passes.pipeline import lower

TOGETHER = "block m 128, n 64, k 64 consumers 2 over m stages a 2, b 3 multicast b over m persistent static"
PLANS = {
    "gemm": gemm(stages=3, consumers=2),
    "attention": attention(),
    "by warps": lower(sample("gemm"), "sm_80"),
    "cluster": lower(loaded(schedule_of(text_of("gemm"), TOGETHER))),
}


def spans(lane: Lane, *kinds: str) -> list[tuple[int, int]]:
    return [(b.start, b.stop) for b in lane.bars if b.kind in kinds]


@pytest.mark.parametrize("name", PLANS)
def test_a_stage_is_filled_once_everybody_has_let_go_of_it(name: str) -> None:
    drawn = timeline(PLANS[name])
    assert not drawn.cut
    rings = {r.name: r for r in PLANS[name].rings}
    again = 0
    for lane in drawn.stages:
        fills, holds = spans(lane, "fill"), spans(lane, "held")
        again += len(fills) > 1
        for (_, there), (refilled, _) in pairwise(fills):
            between = [(a, b) for a, b in holds if there <= a < refilled]
            assert between
            assert all(b <= refilled for _, b in between)
        for start, stop in fills:
            assert stop - start > LOAD
            assert not any(a < stop and b > start for a, b in holds)
        assert lane.name.split("[")[0] in rings
    assert again


@pytest.mark.parametrize("name", PLANS)
def test_a_role_does_one_thing_at_a_time(name: str) -> None:
    for lane in timeline(PLANS[name]).roles:
        own = sorted((b.start, b.stop) for b in lane.bars if b.row == 0)
        assert all(stop <= start for (_, stop), (start, _) in pairwise(own))


def test_every_cta_of_a_cluster_is_drawn() -> None:
    drawn = timeline(PLANS["cluster"])
    for rank in range(2):
        assert sum(lane.name.endswith(f"CTA {rank} of the cluster") for lane in drawn.roles) == 3
        assert sum(lane.name.endswith(f"CTA {rank} of the cluster") for lane in drawn.stages) == 5


def test_the_tensor_cores_make_one_product_at_a_time() -> None:
    lanes = timeline(PLANS["attention"]).roles
    flights = sorted((b.start, b.stop) for lane in lanes for b in lane.bars if b.kind == "product" and b.row)
    assert len({lane.name for lane in lanes if lane.rows == 2}) > 1
    assert all(stop <= start for (_, stop), (start, _) in pairwise(flights))


def test_the_run_that_is_drawn_is_one_that_the_guard_allows() -> None:
    from dataclasses import replace

    from tilegen.ir.uniform import Int, Sym, op

    free = timeline(gemm()).sizes
    bound = replace(gemm(), guard=op("le", Sym("K"), Int(64)))
    assert free["K"] > 64
    assert timeline(bound).sizes["K"] <= 64


def test_shared_memory_is_covered_from_end_to_end() -> None:
    plan = PLANS["gemm"]
    every = areas(plan)
    own = [area for area in every if not area.guest]
    assert own[0].start == 0
    assert all(a.stop <= b.start for a, b in pairwise(own))
    tiles = [area for area in every if area.kind == "tile"]
    assert len(tiles) == sum(b.stages * b.parts for b in plan.buffers)
    assert own[-1].kind == "free"
    assert own[-1].stop == 232448


def test_registers_are_counted_where_a_role_needs_most() -> None:
    plan = PLANS["attention"]
    for budget, role in zip(budgets(plan), plan.roles, strict=True):
        assert isinstance(role, ir.RolePlan)
        assert budget.threads == 128 * role.warpgroups
        held = sum(h.registers for h in budget.held)
        assert held + budget.free == max(budget.granted, held)
        if budget.where:
            assert budget.where.registers == held == max(s.registers for s in budget.statements)
