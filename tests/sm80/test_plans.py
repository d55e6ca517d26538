"""Plans for sm_80: what their rules and checks find where one synchronisation is wrong, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.passes.specs import loaded, sample, text_of
from tests.plan import edits
from tilegen.checks import resources
from tilegen.checks.movement.check import check_movement
from tilegen.checks.pipeline import check
from tilegen.checks.trials import check_all
from tilegen.diagnostics.core import TilegenError
from tilegen.ir import plan as ir
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.plan_text import print_plan
from tilegen.ir.plan_verify import InvalidPlan, verify
from tilegen.ir.plan_walk import all_operations
from tilegen.ir.tile import ParamValue
from tilegen.ir.uniform import Int, Sym
from tilegen.passes.pipeline import lower, lower_all

W = "worker"
SIZES = {"M": 257, "N": 256, "K": 320, "B": 1, "Hk": 1, "G": 1, "Sq": 200, "Sk": 330, "sm_count": 4}


def planned(name: str, schedule: str = "", **params: ParamValue) -> ir.Plan:
    """A sample's plan, with a schedule for sm_80 if one is given."""
    if not schedule:
        return lower(sample(name, **params), "sm_80")
    text = text_of(name)
    end = text.rindex("}")
    return lower(loaded(f"{text[:end]} schedule sm_80 {{ {schedule} }} }}", **params), "sm_80")


GEMM = planned("gemm")
CAUSAL = planned("fa3_fwd", D=64, causal=True)


@pytest.mark.parametrize(("name", "params"), [("gemm", {}), ("fa3_fwd", {"D": 64, "causal": True})])
def test_plan_texts(name: str, params: dict[str, ParamValue], golden: Callable[..., None]) -> None:
    golden(print_plan(planned(name, **params)))


def test_plans_survive_json() -> None:
    assert plan_from_json(plan_to_json(CAUSAL)) == CAUSAL


@pytest.mark.parametrize("name", ["row_softmax", "attention_chunks", "swiglu"])
def test_every_check_passes(name: str) -> None:
    program = sample(name)
    plan = lower(program, "sm_80")
    movement = check_movement(plan, program)
    assert not resources.check(plan) and not check_all(plan) and not movement.diagnostics and not movement.unknown


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_rings_of_any_depth(depth: int) -> None:
    """Of one slot, too: the threads then meet before they copy and after."""
    plan = planned("gemm", f"stages a {depth}, b {depth}  block m 128, n 64, k 64")
    assert {r.depth for r in plan.rings} == {depth}
    assert not check_all(plan)


def test_blocks_are_smaller_where_there_is_no_room() -> None:
    small, large = (next(b for b in planned("fa3_fwd", D=D).buffers if b.name == "k") for D in (128, 256))
    assert (small.rows, small.stages) == (128, 2)
    assert (large.rows, large.stages) == (32, 2)
    deep = {b.name: (b.rows, b.stages) for b in planned("fa3_fwd", "stages k 1, v 2", D=256, causal=True).buffers}
    assert (deep["k"], deep["v"]) == ((32, 1), (32, 2))


def test_warps_have_as_many_rows_as_registers_allow() -> None:
    assert [planned(name).roles[0].together for name in ("gemm", "swiglu", "fa3_fwd")] == [2, 1, 1]
    assert [planned("gemm", f"warp_rows {n}").threads for n in (16, 32)] == [256, 128]


def test_every_alignment_has_a_plan() -> None:
    widths = [
        {o.width for _, _, o in all_operations(p) if isinstance(o, ir.CopyTile)}
        for p in lower_all(sample("gemm"), "sm_80")
    ]
    assert widths == [{16}, {8}, {4}, {2}]


# ---- what is wrong is found --------------------------------------------------------------------------


def codes(plan: ir.Plan) -> set[str]:
    verify(plan)
    return {d.code for d in check(plan, SIZES)}


@pytest.mark.parametrize("plan", [GEMM, CAUSAL], ids=["gemm", "causal"])
def test_a_right_plan_runs_through(plan: ir.Plan) -> None:
    assert codes(plan) == set()


@pytest.mark.parametrize("plan", [GEMM, CAUSAL], ids=["gemm", "causal"])
def test_threads_that_do_not_meet_read_what_others_have_not_copied(plan: ir.Plan) -> None:
    assert "PIPELINE_UNORDERED" in codes(edits.drop(plan, W, ir.CtaSync))


def test_copies_that_are_awaited_too_late() -> None:
    assert "PIPELINE_UNORDERED" in codes(edits.alter(GEMM, W, ir.CopyWait, pending=2))


def test_copies_that_are_not_awaited() -> None:
    assert {"PIPELINE_UNORDERED", "PIPELINE_COPIES"} <= codes(edits.drop(GEMM, W, ir.CopyWait))


def test_a_group_that_is_not_closed_everywhere_shifts_the_others() -> None:
    plan = edits.drop(GEMM, W, ir.CopyCommit)
    assert "PIPELINE_UNORDERED" in codes(plan)


def test_a_slot_is_not_looked_through_while_others_read_it() -> None:
    """The meeting behind a scan is the fifth of a causal loop's."""
    scan = next(o for _, _, o in all_operations(CAUSAL) if isinstance(o, ir.ScanSlot))

    def without_meeting(body: tuple[ir.Operation, ...]) -> tuple[ir.Operation, ...]:
        out: list[ir.Operation] = []
        for o in body:
            if isinstance(o, ir.CtaSync) and out and out[-1] == scan:
                continue
            if isinstance(o, ir.Work | ir.For | ir.If):
                o = replace(o, body=without_meeting(o.body))
            out.append(o)
        return tuple(out)

    plan = replace(CAUSAL, roles=tuple(replace(r, body=without_meeting(r.body)) for r in CAUSAL.roles))
    assert plan != CAUSAL
    assert "PIPELINE_UNORDERED" in codes(plan)


def test_a_meeting_that_not_everybody_comes_to() -> None:
    def by_one(o: ir.CtaSync) -> tuple[ir.Operation, ...]:
        return (ir.If(Sym("warpgroup"), (o,), o.span),)

    found = check(edits.change(GEMM, W, ir.CtaSync, by_one), SIZES)
    (deadlock,) = [d for d in found if d.code == "PIPELINE_DEADLOCK"]
    assert "where all threads meet" in deadlock.message


def test_tiles_that_are_never_read_are_awaited() -> None:
    """An item without blocks has brought the queries."""
    plan = edits.drop(CAUSAL, W, ir.CopyWait, nth=2)
    assert {d.code for d in check(plan, SIZES | {"Sk": 0})} == {"PIPELINE_COPIES"}


def broken(plan: ir.Plan) -> str:
    with pytest.raises(InvalidPlan) as caught:
        verify(plan)
    return " ".join(v.message for v in caught.value.violations)


def test_rules_on_groups_of_copies() -> None:
    span = GEMM.roles[0].body[0].span
    early = edits.before(GEMM, W, ir.CopyCommit, ir.CopyWait(0, span))
    assert "copies have begun that are in no group yet" in broken(early)
    copy = replace(next(o for _, _, o in all_operations(GEMM) if isinstance(o, ir.CopyTile)), index=(Int(0),) * 2)
    late = edits.after(GEMM, W, ir.StoreRows, copy, ir.Advance("a_fill", span))
    assert "the role ends with copies that are in no group" in broken(late)
    assert "no number of groups" in broken(edits.alter(GEMM, W, ir.CopyWait, pending=-1))


def test_rules_on_rings_without_barriers() -> None:
    top = GEMM.shared_bytes
    with_barriers = edits.ring(GEMM, "a", release="warp", full=top, empty=top + 24, full_arrivals=1, empty_arrivals=1)
    assert "a has barriers, and worker is a worker" in broken(replace(with_barriers, shared_bytes=top + 48))
    assert "is none of" in broken(edits.ring(GEMM, "a", release="both"))
    hopper = lower(sample("gemm"))
    assert "a has no barriers, and producer is a producer" in broken(edits.ring(hopper, "a", release="none"))


def test_rules_on_workers() -> None:
    (worker,) = GEMM.roles
    twice = replace(GEMM, roles=(worker, replace(worker, name="other", first=2)), threads=512, registers_at_entry=128)
    assert "stands beside no other role" in broken(twice)
    span = worker.body[0].span
    assert "a worker does not do this" in broken(edits.after(GEMM, W, ir.CtaSync, ir.GroupSync(1, span)))
    hopper = lower(sample("gemm"))
    assert "a consumer does not do this" in broken(edits.after(hopper, "consumer", ir.MmaFence, ir.CtaSync(span)))


def test_rules_on_warpgroups_that_are_the_same_threads() -> None:
    (worker,) = GEMM.roles
    assert worker.together == 2
    assert "are not run 3 together" in broken(edits.role(GEMM, W, together=3))
    consumer = edits.role(lower(sample("gemm")), "consumer", together=2)
    assert "2 warpgroups of a consumer are not run 2 together" in broken(consumer)
    steered = edits.before(GEMM, W, ir.CtaSync, ir.Let("mine", Sym("warpgroup"), worker.body[0].span))
    assert "it depends on the warpgroup, of which 2 are the same threads" in broken(steered)


def test_registers_are_those_of_all_warpgroups_of_a_thread() -> None:
    one, both = (resources.register_needs(planned("gemm", f"warp_rows {n}"))[0] for n in (16, 32))
    assert both.registers - both.overhead == 2 * (one.registers - one.overhead) == 128


def test_a_slot_that_is_filled_twice() -> None:
    copy = next(o for _, _, o in all_operations(GEMM) if isinstance(o, ir.CopyTile))
    assert "a second copy to the same position" in broken(edits.after(GEMM, W, ir.CopyTile, copy))


def test_a_cursor_that_moves_on_from_nothing() -> None:
    span = GEMM.roles[0].body[0].span
    moved = edits.after(GEMM, W, ir.CopyWait, ir.Advance("a_read", span))
    assert "nothing in this body was done with the position" in broken(moved)


# ---- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directive", "said"),
    [
        ("late O by 1", "late"),
        ("take_turns over s, O", "take_turns"),
        ("stale_max", "stale_max"),
        ("persistent static", "persistent"),
        ("place p shared", "place"),
        ("hint k keep", "hint"),
        ("stages O 2", "stages O"),
        ("skip_rows", "skip_rows"),
    ],
)
def test_directives_that_this_target_has_not_are_refused(directive: str, said: str) -> None:
    with pytest.raises(TilegenError) as caught:
        planned("fa3_fwd", directive, D=64)
    (d,) = caught.value.diagnostics
    assert d.code == "DIRECTIVE_UNSUPPORTED"
    assert d.message.startswith(f"the directive `{said}` is understood") and "sm_80" in d.message


@pytest.mark.parametrize(
    ("directive", "said", "why"),
    [
        ("via k tma", "via k tma", "TMA"),
        ("via O tma", "via O tma", "TMA"),
        ("multicast k over i", "multicast", "clusters"),
        ("registers 240, 24", "registers", "warps"),
        ("dependent_launch", "dependent_launch", "launches"),
        ("prefetch 2", "prefetch", "`stages`"),
        ("waves 4", "waves", "`consumers`"),
    ],
)
def test_directives_for_what_this_machine_has_not_say_so(directive: str, said: str, why: str) -> None:
    with pytest.raises(TilegenError) as caught:
        planned("fa3_fwd", directive, D=64)
    (d,) = caught.value.diagnostics
    assert d.code == "DIRECTIVE_OF_OTHERS"
    assert d.message.startswith(f"the directive `{said}` is not for sm_80: ") and why in d.message


@pytest.mark.parametrize("rows", [16, 32])
def test_advice_for_what_is_too_large_is_what_this_target_takes(rows: int) -> None:
    plan = edits.role(planned("gemm", f"warp_rows {rows}"), W, registers=40)
    found = {d.code: " ".join(d.fixes) for d in resources.check(replace(plan, shared_bytes=166913))}
    assert not any(word in text for text in found.values() for word in ("`registers`", "`late`", "alias"))
    assert ("`warp_rows 16`" in found["REGISTERS_FULL"]) == (rows == 32)
    assert "smaller block" in found["SHARED_MEMORY_FULL"] and "smaller blocks" in found["REGISTERS_FULL"]


@pytest.mark.parametrize(("schedule", "rows"), [("", 24), ("", 48), ("consumers 1 over i  block i 64", 32)])
def test_rows_that_a_warp_cannot_have_are_refused(schedule: str, rows: int) -> None:
    with pytest.raises(TilegenError) as caught:
        planned("fa3_fwd", f"{schedule}  warp_rows {rows}", D=64)
    assert [d.code for d in caught.value.diagnostics] == ["WARP_ROWS"]


def test_sequences_of_different_lengths_are_refused() -> None:
    with pytest.raises(TilegenError) as caught:
        planned("fa3_varlen", D=64)
    assert [d.code for d in caught.value.diagnostics] == ["SM80_UNSUPPORTED"]


def test_what_no_choice_has_room_for_is_refused_with_its_sizes() -> None:
    (fault,) = resources.check(planned("fa3_fwd", "block j 128  stages k 4, v 4", D=256))
    assert (fault.code, fault.wanted) == ("SHARED_MEMORY_FULL", "at most 166912")
