"""First factors of products that stand in shared memory: what the plan then holds, and what the checks find without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.passes.specs import loaded, schedule_of, text_of
from tests.plan import edits
from tilegen.checks.resources import check as check_resources
from tilegen.checks.resources import register_needs
from tilegen.checks.trials import check_all
from tilegen.ir import plan as ir
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.plan_text import print_plan
from tilegen.ir.plan_verify import InvalidPlan, verify
from tilegen.ir.plan_walk import all_operations
from tilegen.passes.pipeline import lower

ROWS = "block i 128, j 64  consumers 2 over i"
BATCH = f"{ROWS}  stages k 2, v 2  late O by 1  batch O, s  stale_max"
TURNS = f"{BATCH}  take_turns over s, O"
ISSUE = f"{ROWS}  stages k 2, v 2  late O by 1  issue s, O  stale_max"


def attention(directives: str) -> ir.Plan:
    return lower(loaded(schedule_of(text_of("fa3_fwd"), directives), D=64))


def codes(plan: ir.Plan) -> set[str]:
    return {d.code for d in check_all(plan)}


def consumer(plan: ir.Plan) -> list[ir.Operation]:
    return [o for role, _, o in all_operations(plan) if role.name == "consumer"]


def test_the_text_of_a_plan(golden: Callable[..., None]) -> None:
    golden(print_plan(attention(f"{TURNS}  place p shared")))


@pytest.mark.parametrize("directives", [ROWS, BATCH, TURNS, ISSUE])
def test_plans_pass_every_check(directives: str) -> None:
    plan = attention(f"{directives}  place p shared")
    assert check_all(plan) == check_resources(plan) == []
    assert plan_from_json(plan_to_json(plan)) == plan


def test_registers_are_what_there_is_without() -> None:
    assert print_plan(attention(f"{BATCH}  place p registers")) == print_plan(attention(BATCH))


def test_each_warpgroup_has_a_part_and_no_registers() -> None:
    here, there = attention(f"{BATCH}  place p shared"), attention(BATCH)
    buffer = here.buffer("p_bf16")
    assert (buffer.rows, buffer.cols, buffer.parts, buffer.stages, buffer.host) == (64, 64, 2, 1, None)
    assert here.shared_bytes - there.shared_bytes == buffer.stage_bytes * 2 == 2 * 64 * 64 * 2
    assert "p_bf16" not in {f.name for f in here.role("consumer").fragments}
    assert register_needs(there)[1].registers - register_needs(here)[1].registers == 64 // 4


@pytest.mark.parametrize("width", [16, 48, 64, 80, 128, 192])
def test_operands_lie_where_they_are_written(width: int) -> None:
    """The bytes of each k step are those of its 16 columns, in every chunk of the buffer."""
    plan = attention(f"block i 64, j {width}  consumers 1 over i  stages k 1, v 1  place p shared")
    (a,) = {o.a for o in consumer(plan) if isinstance(o, ir.Mma) and isinstance(o.a, ir.BufferOperand)}
    buffer = plan.buffer("p_bf16")
    assert (a.swizzle, a.stride) == (buffer.line, 8 * buffer.line)
    for n, offset in enumerate(a.offsets):
        chunk, column = divmod(16 * n, buffer.chunk)
        assert offset == chunk * 64 * buffer.line + column * 2
    assert 16 * len(a.offsets) == width


def test_warps_meet_between_the_fence_and_the_product() -> None:
    """By their turn, where they take turns, or by a barrier of their own."""
    for directives, meeting in ((BATCH, ir.GroupSync), (TURNS, ir.OrderWait), (ISSUE, ir.GroupSync)):
        (loop,) = (
            o for o in consumer(attention(f"{directives}  place p shared"))
            if isinstance(o, ir.For) and o.label == "blocks inside the domain"
        )  # fmt: skip
        kinds = [type(o) for o in loop.body]
        product = next(
            n for n, o in enumerate(loop.body) if isinstance(o, ir.Mma) and isinstance(o.a, ir.BufferOperand)
        )
        assert meeting in kinds[:product]
        vote = kinds.index(ir.IfVote)
        assert kinds[vote + 1] is ir.FenceAsync


def test_nothing_is_written_under_a_product_that_reads_it() -> None:
    """With a commit each, the product of the last iteration is awaited before the weights of this one are written."""
    plan = attention(f"{ISSUE}  place p shared")
    (loop,) = (o for o in consumer(plan) if isinstance(o, ir.For) and o.label == "blocks inside the domain")
    kinds = [type(o) for o in loop.body]
    waits = [o for o in loop.body[: kinds.index(ir.Sweep)] if isinstance(o, ir.MmaWait)]
    assert {t for o in waits for t in o.retires} == {"s", "O_acc"}


# ---- mistakes ------------------------------------------------------------------------------------------

LATE = attention(f"{BATCH}  place p shared")
BLOCKS = range(3)  # places that write the weights of a block: first, inside, last end; and products that read them


def test_there_is_a_fence_and_a_meeting_for_each() -> None:
    for kind in (ir.FenceAsync, ir.GroupSync):
        assert sum(isinstance(o, kind) for o in consumer(LATE)) == len(BLOCKS)


@pytest.mark.parametrize("nth", BLOCKS)
def test_a_missing_fence_is_found(nth: int) -> None:
    assert codes(edits.drop(LATE, "consumer", ir.FenceAsync, nth)) == {"PIPELINE_FENCE"}


def test_a_fence_before_a_vote_that_writes_again_is_found() -> None:
    fence = next(o for o in consumer(LATE) if isinstance(o, ir.FenceAsync))
    early = edits.drop(LATE, "consumer", ir.FenceAsync, BLOCKS[-1])

    def moved(body: tuple[ir.Operation, ...]) -> tuple[ir.Operation, ...]:
        out: list[ir.Operation] = []
        for o in body:
            if isinstance(o, ir.Work | ir.For | ir.If):
                o = replace(o, body=moved(o.body))
            elif isinstance(o, ir.IfVote):
                out.append(fence)
            out.append(o)
        return tuple(out)

    assert codes(edits.role(early, "consumer", body=moved(early.role("consumer").body))) == {"PIPELINE_FENCE"}


@pytest.mark.parametrize("nth", BLOCKS)
def test_a_missing_meeting_is_found(nth: int) -> None:
    assert codes(edits.drop(LATE, "consumer", ir.GroupSync, nth)) == {"PIPELINE_UNORDERED"}


def test_a_write_under_the_product_that_reads_it_is_found() -> None:
    write = next(o for o in consumer(LATE) if isinstance(o, ir.WriteShared))
    wrong = edits.before(LATE, "consumer", ir.MmaWait, replace(write, source="s.copy"), nth=1)
    role = wrong.role("consumer")
    like = next(f for f in role.fragments if f.name == "s")
    copy = replace(like, name="s.copy", storage="s.copy")
    wrong = edits.role(wrong, "consumer", fragments=(*role.fragments, copy))
    wrong = edits.before(wrong, "consumer", ir.Work, ir.Init("s.copy", 0.0, write.span))
    with pytest.raises(InvalidPlan, match="O_acc is in flight and reads p_bf16"):
        verify(wrong)
    assert "PIPELINE_UNORDERED" in codes(wrong)


def test_operands_that_lie_elsewhere_are_found() -> None:
    verify(LATE)
    for fields, words in (
        ({"buffer": "r"}, "no buffer r"),
        ({"offsets": (0, 32, 64, 8192)}, "reads bytes"),
        ({"swizzle": 64}, "swizzle 64 differs"),
        ({"offsets": (0, 32, 64)}, "k steps"),
    ):
        wrong = edits.operand(LATE, "a", 1, **fields)
        with pytest.raises(InvalidPlan, match=words):
            verify(wrong)
    with pytest.raises(InvalidPlan, match="needs a part for each"):
        verify(edits.buffer(LATE, "p_bf16", parts=1))
