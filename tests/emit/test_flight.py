"""Which registers fences and waits hold: those that are read next or retired, never those still in flight."""

from __future__ import annotations

from dataclasses import replace

from tests.emit.plans import at, attention_plan, gemm_plan
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import (
    For,
    FragmentOperand,
    Mma,
    MmaCommit,
    MmaFence,
    MmaWait,
    Operation,
    Slot,
    SlotOperand,
)
from tilegen.ir.uniform import Int, Sym
from tilegen.targets.hopper.emit import emit
from tilegen.targets.hopper.emit.flight import Flight, fragments

S = at(1)
TILE = SlotOperand(Slot("k", "k"), "k", (0, 32), 0, 16, 1024, 128)


def mma(token: str, a: str = "") -> Mma:
    return Mma(token, f"{token}_acc", FragmentOperand(a) if a else TILE, TILE, 64, DType.BF16, False, S)


def leaves(body: tuple[Operation, ...], o: Operation) -> set[str]:
    return set(Flight(body).leaves[id(o)])


def test_a_wait_leaves_the_newest_groups() -> None:
    wait = MmaWait(1, ("a",), S)
    assert leaves((mma("a"), MmaCommit(("a",), S), mma("b"), MmaCommit(("b",), S), wait), wait) == {"b"}


def test_a_wait_for_all_leaves_none() -> None:
    wait = MmaWait(0, ("a", "b"), S)
    assert leaves((mma("a"), mma("b"), MmaCommit(("a", "b"), S), wait), wait) == set()


def test_a_loop_hands_its_last_group_to_the_next_iteration() -> None:
    fence, wait = MmaFence(S), MmaWait(1, ("a",), S)
    loop = For("t", Int(0), Sym("n"), (fence, mma("a"), MmaCommit(("a",), S), wait), "", S)
    assert leaves((loop,), fence) == {"a"}
    assert leaves((loop,), wait) == {"a"}


def test_a_fence_starts_the_products_up_to_the_next_fence_or_wait() -> None:
    first, second = MmaFence(S), MmaFence(replace(S, line=2))
    body = (first, mma("a", "p"), mma("b"), MmaCommit(("a", "b"), S), second, mma("c"), MmaWait(0, (), S), mma("d"))
    flight = Flight(body)
    assert fragments(flight.starts[id(first)]) == ["a_acc", "b_acc", "p"]
    assert fragments(flight.starts[id(second)]) == ["c_acc"]


def test_a_fence_holds_what_is_accumulated_and_read() -> None:
    """o and p are read by the products behind it; s is overwritten."""
    text = emit(attention_plan())
    assert "mma_fence_o_p(o, p); " in text
    assert "mma_fence(); " in text  # before the first block, where s alone is written


def test_a_wait_does_not_hold_an_accumulator_whose_next_group_runs() -> None:
    """The GEMM's loop retires the group of the step before while c is in flight again."""
    plan = gemm_plan()
    producer, consumer = plan.roles
    work = consumer.body[1]

    def retiring(o: Operation) -> Operation:
        if isinstance(o, For):
            return replace(o, body=tuple(replace(x, retires=("c",)) if isinstance(x, MmaWait) else x for x in o.body))
        return o

    changed = replace(work, body=tuple(map(retiring, work.body)))  # type: ignore[union-attr, type-var, call-arg]
    body = (consumer.body[0], changed)
    text = emit(replace(plan, roles=(producer, replace(consumer, body=body))))  # type: ignore[arg-type]
    assert "await(); " in text
    assert "await_c(c); " in text
    assert "mma_fence(); " in text
