"""The checker's one run against every interleaving: the same verdict on good plans, known faults and random ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.plan import edits
from tests.plan.plans import at, gemm
from tilegen.checks.explorer import Explorer
from tilegen.checks.pipeline import run
from tilegen.ir import plan as ir
from tilegen.ir.uniform import Int, Uniform, op

HERE = at(1)
P, C = "producer", "consumer"
SLOT = ir.Slot("a", "ca")
ONE_CTA = {"M": 128, "N": 64, "K": 64, "sm_count": 1}


def tiny(stages: int, consumers: int, steps: int, read: str = "product", turns: bool = False) -> ir.Plan:
    """One ring, filled and read `steps` times; read by a product, or by threads ("warp" releases, or a meeting)."""
    plan = gemm(stages, consumers)
    ring = plan.rings[0]
    body: tuple[ir.Operation, ...]
    mma = next(o for r in plan.roles for o in _all(r.body) if isinstance(o, ir.Mma))
    assert isinstance(mma.a, ir.SlotOperand)
    product = (replace(mma, b=replace(mma.a, warpgroup=0)), ir.MmaCommit(("t0",), HERE), ir.MmaWait(0, ("t0",), HERE))
    threads = (ir.ReadShared("c", SLOT, 0, HERE),)
    inner = {"product": product, "warp": threads, "meet": (*threads, ir.GroupSync(5, HERE))}[read]
    if turns:
        inner = (ir.OrderWait(1, HERE), *inner[:-1], ir.OrderPass(1, HERE), inner[-1])
    body = (ir.WaitFull(SLOT, HERE), *inner, ir.ArriveEmpty(SLOT, HERE), ir.Advance("ca", HERE))
    fill = next(o for o in _all(plan.roles[0].body) if isinstance(o, ir.For)).body[:4]
    if read == "warp":
        ring = replace(ring, release="warp", empty_arrivals=4 * consumers)

    def role(r: ir.RolePlan, loop: tuple[ir.Operation, ...]) -> ir.RolePlan:
        start = (ir.OrderStart(1, HERE),) if turns and r.kind == "consumer" else ()
        work = ir.Work("item", Int(1), "static", (ir.For("t", Int(0), Int(steps), loop, "", HERE),), HERE)
        return replace(r, cursors=r.cursors[:1], body=(*start, work))

    return replace(plan, rings=(ring,), roles=(role(plan.roles[0], fill), role(plan.roles[1], body)), grid=Int(1))


def _all(body: tuple[ir.Operation, ...]) -> list[ir.Operation]:
    return [x for o in body for x in (o, *_all(getattr(o, "body", ())))]


def verdicts(plan: ir.Plan) -> tuple[list[str], list[str] | None]:
    """What the checker says, and the way to the nearest fault."""
    return [f"{d.code}: {d.message}" for d in run(plan, ONE_CTA, [0]).diagnostics], Explorer(
        plan, ONE_CTA
    ).shortest_fault()


@pytest.mark.parametrize(
    ("stages", "consumers", "steps", "read", "turns"),
    [
        (1, 1, 3, "product", False),
        (2, 1, 5, "product", False),
        (2, 2, 3, "product", False),
        (3, 1, 4, "product", False),
        (1, 2, 3, "product", True),
        (1, 1, 3, "warp", False),
        (2, 1, 4, "meet", False),
    ],
)
def test_good_plans_are_good_in_every_interleaving(
    stages: int, consumers: int, steps: int, read: str, turns: bool
) -> None:
    assert verdicts(tiny(stages, consumers, steps, read, turns)) == ([], None)


def test_a_missed_wait_is_shown_as_the_shortest_way_there() -> None:
    found, way = verdicts(edits.drop(tiny(2, 1, 2), C, ir.WaitFull))
    assert "PIPELINE_UNORDERED" in found[0] or "PIPELINE_STALE" in found[0]
    assert way is not None
    assert way[-1] == "a product reads a slot that does not hold its tile"
    assert len(way) == 1


def test_threads_that_lag_behind_the_one_that_releases() -> None:
    """One thread releases for its warpgroup, and nothing made it wait for the others."""
    plan = tiny(1, 1, 3, "meet")
    found, way = verdicts(edits.drop(plan, C, ir.GroupSync))
    assert found
    assert way is not None


KINDS = (ir.WaitFull, ir.WaitEmpty, ir.Expect, ir.ArriveEmpty, ir.Advance, ir.MmaWait, ir.OrderWait, ir.OrderPass)


def mutated(plan: ir.Plan, rng: random.Random) -> ir.Plan:
    """One or two random faults: an operation left out, done twice, moved, or done in some rounds or warpgroups only;
    a count changed."""
    for _ in range(rng.choice((1, 1, 2))):
        role = rng.choice((P, C))
        body = next(r for r in plan.roles if r.name == role).body
        kinds = [k for k in KINDS if any(isinstance(o, k) for o in _all(body))]
        if not kinds:
            continue
        kind = rng.choice(kinds)
        where = op_condition(rng)
        match rng.randrange(6):
            case 0:
                plan = edits.drop(plan, role, kind)
            case 1:
                plan = edits.change(plan, role, kind, lambda o: (o, o))
            case 2 | 3:
                plan = _moved(plan, role, kind, rng)
            case 4:
                plan = edits.change(plan, role, kind, lambda o, c=where: (ir.If(c, (o,), HERE),))
            case 5:
                count = max(1, plan.rings[0].empty_arrivals + rng.choice((-1, 1)))
                plan = edits.ring(plan, "a", empty_arrivals=count)
    return plan


def op_condition(rng: random.Random) -> Uniform:
    return rng.choice((op("gt", "t", 0), op("mod", "t", 2), op("eq", "warpgroup", 0)))


def _moved(plan: ir.Plan, role: str, kind: type[ir.Operation], rng: random.Random) -> ir.Plan:
    """An operation of the loop's body put elsewhere in it."""

    def shuffle(loop: ir.For) -> tuple[ir.Operation, ...]:
        body = list(loop.body)
        chosen = [n for n, o in enumerate(body) if isinstance(o, kind)]
        if not chosen:
            return (loop,)
        operation = body.pop(rng.choice(chosen))
        body.insert(rng.randrange(len(body) + 1), operation)
        return (replace(loop, body=tuple(body)),)

    return edits.change(plan, role, ir.For, shuffle)


@pytest.mark.parametrize("seed", range(120))
def test_random_faults_get_the_same_verdict(seed: int) -> None:
    rng = random.Random(seed)
    shapes = ((1, 1, 3, "product", False), (2, 1, 4, "product", False), (1, 2, 2, "product", False))
    shapes += ((1, 2, 2, "product", True), (1, 1, 3, "warp", False), (2, 1, 4, "meet", False))
    plan = mutated(tiny(*shapes[seed % len(shapes)]), rng)
    found, way = verdicts(plan)
    assert found or way is None, way
    # an arrival or a turn that counts elsewhere than the plan says may do no harm in so short a run
    assert way or all(d.split(":")[0] in ("PIPELINE_ARRIVALS", "PIPELINE_TURNS") for d in found), found
