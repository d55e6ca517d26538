"""What a fault of a pipeline is told with: the shortest interleaving that does harm."""

from __future__ import annotations

from tests.plan import edits
from tests.plan.plans import attention, gemm
from tilegen.checks.trials import check_all
from tilegen.ir import plan as ir


def ways(plan: ir.Plan) -> list[str]:
    """The notes of the first fault, from the head of the way on."""
    first = check_all(plan, shown=True)[0]
    words = [note.text for note in first.notes]
    start = next((n for n, w in enumerate(words) if w.startswith("the shortest way")), len(words))
    return words[start:]


def test_a_slot_filled_unasked() -> None:
    head, *steps = ways(edits.drop(gemm(1), "producer", ir.WaitEmpty))
    assert head == "the shortest way to harm that the slots of a show:"
    assert steps[0].startswith("1. producer 0: expect full a")
    assert steps[-1].endswith("an arrival too many")
    assert [s.split(".")[0] for s in steps] == [str(n + 1) for n in range(len(steps))]


def test_a_slot_read_unasked_needs_no_other_step() -> None:
    _, *steps = ways(edits.drop(gemm(2), "consumer", ir.WaitFull))
    assert steps[-1].endswith("a product reads a slot that does not hold its tile")


def test_where_nothing_is_found_soon_nothing_is_told() -> None:
    first = check_all(edits.drop(attention(), "consumer", ir.OrderStart), shown=True)[0]
    assert first.code == "PIPELINE_DEADLOCK"
    assert not any(note.text.startswith("the shortest way") for note in first.notes)
