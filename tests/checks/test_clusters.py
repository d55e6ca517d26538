"""Plans for clusters: right ones pass all checks, and each fault is found: in time, in place, in the plan's rules."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest

from tests.checks.test_explorer import mutated, tiny
from tests.mutations.plan_kinds import put, sites
from tests.passes.specs import loaded, schedule_of, text_of
from tests.plan import edits
from tests.plan.plans import at
from tilegen.checks.explorer import Explorer
from tilegen.checks.movement.check import Judgement, check_movement
from tilegen.checks.pipeline import check, run
from tilegen.checks.trials import check_all
from tilegen.diagnostics.core import Diagnostic
from tilegen.ir import plan as ir
from tilegen.ir.plan_verify import InvalidPlan, verify
from tilegen.ir.tile import TileProgram
from tilegen.ir.uniform import Int, op
from tilegen.passes.pipeline import lower

HERE = at(1)
P, C = "producer", "consumer"
BLOCKS = "block m 128, n 128, k 64 consumers 2 over m stages a 3, b 3 persistent static"
SIZES = {"M": 700, "N": 300, "K": 500, "sm_count": 4}  # three items a cluster, ragged along every axis
SECOND = op("eq", ir.CLUSTER_RANK, 1)


@cache
def built(directives: str) -> tuple[TileProgram, ir.Plan]:
    program = loaded(schedule_of(text_of("gemm"), f"{BLOCKS} {directives}"))
    return program, lower(program)


B, BOTH = built("multicast b over m")[1], built("multicast b over m, a over n")[1]


@pytest.mark.parametrize(
    "directives",
    [
        "multicast b over m",
        "multicast a over n by 4",
        "multicast b over m, a over n",
        "group m by 4 multicast b over m",
    ],
)
def test_nothing_is_said_of_plans_that_are_right(directives: str) -> None:
    program, plan = built(directives)
    assert check_all(plan) == []
    assert check_movement(plan, program) == Judgement((), ())


def test_ctas_share_as_many_tiles_as_there_are_axes() -> None:
    assert BOTH.cluster == 4
    assert (BOTH.ring("b").sharers, BOTH.ring("a").sharers) == (ir.Sharers(2, 1), ir.Sharers(2, 2))
    assert [ir.Sharers(2, 1).ranks(r) for r in range(4)] == [(0, 1), (0, 1), (2, 3), (2, 3)]
    assert [ir.Sharers(2, 2).ranks(r) for r in range(4)] == [(0, 2), (1, 3), (0, 2), (1, 3)]


def test_the_ctas_of_a_cluster_run_together() -> None:
    trace = run(B, SIZES, [3])
    assert {e.cta for e in trace.events} == {2, 3}
    loads = [e.cta for e in trace.events if isinstance(e.operation, ir.TmaLoad)]
    assert loads.count(2) == loads.count(3) > 0


def conditional(plan: ir.Plan, role: str, kind: type[ir.Operation], nth: int = 0) -> ir.Plan:
    """An operation done by the first CTA of the cluster alone."""
    first = op("eq", ir.CLUSTER_RANK, 0)
    return edits.change(plan, role, kind, lambda o: (ir.If(first, (o,), HERE),), nth)


# b's loads are the second and the third, its waits and arrivals the second
IN_TIME: dict[str, tuple[ir.Plan, str, str]] = {
    "own consumers counted alone": (
        edits.ring(B, "b", empty_arrivals=2),
        "PIPELINE_ARRIVALS",
        "empty barrier of b, stage 0, CTA 0 of the cluster",
    ),
    "a CTA does not load its share": (
        conditional(B, P, ir.TmaLoad, 1),
        "PIPELINE_BYTES",
        "b: the bytes loaded into a slot",
    ),
    "a CTA frees none": (
        conditional(conditional(B, C, ir.ArriveEmpty, 1), C, ir.ArriveEmpty, 3),
        "PIPELINE_DEADLOCK",
        "which consumer 0, CTA 1 of the cluster has not released",
    ),
    "bytes of the own share expected alone": (
        edits.alter(B, P, ir.Expect, 1, bytes=8192),
        "PIPELINE_BYTES",
        "b: the bytes loaded into a slot",
    ),
    "steps apart": (
        edits.change(B, P, ir.For, lambda o: (replace(o, stop=op("sub", o.stop, SECOND)),)),
        "PIPELINE_DEADLOCK",
        "producer, CTA 1 of the cluster has",
    ),
    "a CTA does not wait for room": (
        conditional(B, P, ir.WaitEmpty, 1),
        "PIPELINE_ARRIVALS",
        "full barrier of b, stage 0",
    ),
    "nobody waits for room": (edits.drop(B, P, ir.WaitEmpty, 1), "PIPELINE_ARRIVALS", "CTA 1 of the cluster"),
    "all bring the same share": (
        edits.alter(B, P, ir.TmaLoad, 1, share=0),
        "PIPELINE_UNORDERED",
        "b: nothing orders this access",
    ),
}


@pytest.mark.parametrize(("plan", "code", "message"), IN_TIME.values(), ids=[n.replace(" ", "_") for n in IN_TIME])
def test_a_fault_in_time_is_found_as_what_it_is(plan: ir.Plan, code: str, message: str) -> None:
    found = check(plan, SIZES)
    assert any(d.code == code and message in d.message for d in found), [(d.code, d.message) for d in found]


def misplaced(kind: type, nth: int, **fields: object) -> tuple[Diagnostic, ...]:
    """What is said of the plan with an operation changed; without fields, of one whose branch is always taken."""
    program, plan = built("multicast b over m")
    site = list(sites(plan, kind))[nth]
    new = (replace(site.operation, **fields),) if fields else site.operation.body
    return check_movement(put(plan, site, *new), program).diagnostics


def test_a_share_of_the_wrong_columns_is_found() -> None:
    load = [s.operation for s in sites(B, ir.TmaLoad)][1]
    column = op("sub", load.coordinates[0], op("mul", op("mod", ir.CLUSTER_RANK, 2), 64))
    codes = {x.code for x in misplaced(ir.TmaLoad, 1, coordinates=(column, *load.coordinates[1:]))}
    assert codes & {"MOVEMENT_BOXES", "MOVEMENT_PLACE"}


def test_a_block_that_is_another_cta_s_is_not_stored_again() -> None:
    branch = next(n for n, s in enumerate(sites(B, ir.If)) if isinstance(s.operation.body[0], ir.StoreRows))
    found = misplaced(ir.If, branch)
    assert [d.code for d in found] == ["MOVEMENT_STORE"]
    assert "is written 2 times" in found[0].got


LOAD = next(o for o in (s.operation for s in sites(B, ir.TmaLoad)) if o.share)
RULES: dict[str, tuple[ir.Plan, str]] = {
    "size": (replace(B, cluster=16), "a cluster has 1 to 8 CTAs, not 16"),
    "part": (edits.ring(B, "b", sharers=ir.Sharers(2, 2)), "2 CTAs, 2 ranks apart, are no part of a cluster of 2"),
    "table": (
        replace(B, table=ir.ItemTable("work.item", Int(1), (), Int(1), ())),
        "a table deals items out to CTAs",
    ),
    "no cluster": (replace(B, cluster=1), "nothing named cluster.rank is in scope"),
    "no share": (edits.alter(B, P, ir.TmaLoad, 1, share=0), "shares lie apart in rings that CTAs fill together"),
    "a share for nobody": (edits.alter(B, P, ir.TmaLoad, 0, share=1024), "shares lie apart in rings"),
    "share outside": (edits.alter(B, P, ir.TmaLoad, 1, share=16384), "do not lie in a stage of b"),
    "share across a swizzle": (edits.alter(B, P, ir.TmaLoad, 1, share=8256), "offset 8256 is no multiple of 1024"),
    "arrivals": (edits.ring(B, "b", empty_arrivals=2), "empty barriers take 2 arrivals, 4 come"),
    "bytes": (edits.alter(B, P, ir.Expect, 1, bytes=8192), "b holds 16384 bytes, not 8192"),
    "copies": (
        replace(edits.ring(built("via b cp_async")[1], "b", sharers=ir.Sharers(2, 1)), cluster=2),
        "threads copy to their own CTA alone",
    ),
}


@pytest.mark.parametrize(("plan", "message"), RULES.values(), ids=[n.replace(" ", "_") for n in RULES])
def test_a_breach_of_a_rule_is_told(plan: ir.Plan, message: str) -> None:
    with pytest.raises(InvalidPlan) as error:
        verify(plan)
    assert any(message in v.message for v in error.value.violations), error.value


# ---- against every interleaving ------------------------------------------------------------------------


def together(stages: int, steps: int) -> ir.Plan:
    """Two CTAs with a consumer each that fill a ring together."""
    plan = tiny(stages, 1, steps)
    plan = edits.ring(plan, "a", sharers=ir.Sharers(2, 1), empty_arrivals=2)
    (load,) = [s.operation for s in sites(plan, ir.TmaLoad)]
    plan = edits.alter(plan, P, ir.TmaLoad, bytes=load.bytes // 2, share=load.bytes // 2)
    return replace(plan, cluster=2, grid=Int(2))


def verdicts(plan: ir.Plan) -> tuple[list[str], list[str] | None]:
    sizes = {"M": 128, "N": 64, "K": 64, "sm_count": 2}
    found = [f"{d.code}: {d.message}" for d in run(plan, sizes, [0]).diagnostics]
    return found, Explorer(plan, sizes, ctas=2).shortest_fault()


@pytest.mark.parametrize(("stages", "steps"), [(1, 2), (1, 3)])
def test_good_plans_are_good_in_every_interleaving(stages: int, steps: int) -> None:
    assert verdicts(together(stages, steps)) == ([], None)


@pytest.mark.parametrize("seed", range(24))
def test_random_faults_get_the_same_verdict(seed: int) -> None:
    rng = random.Random(seed)
    plan = mutated(together(1, 2), rng)
    if seed % 3 == 0:
        kind = rng.choice((ir.WaitEmpty, ir.WaitFull, ir.ArriveEmpty, ir.Expect))
        role = P if kind in (ir.WaitEmpty, ir.Expect) else C
        if any(True for s in sites(plan, kind)):
            plan = conditional(plan, role, kind)
    found, way = verdicts(plan)
    assert found or way is None, way
    assert way or all(d.split(":")[0] in ("PIPELINE_ARRIVALS", "PIPELINE_TURNS") for d in found), found
