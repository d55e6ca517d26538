"""Items dealt to CTAs: each goes to the one that is free first, however many there are."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilegen.ir.deal import deal
from tilegen.ir.plan import ItemTable, Let
from tilegen.ir.uniform import Int, Sym, op
from tilegen.syntax.span import Span

SPAN = Span("x.tile", 1, 1, 1, 2)


def table(cost: object) -> ItemTable:
    """N items; their cost may use `run`, the item's number div R."""
    lets = (Let("run", op("floordiv", "item", "R"), SPAN),)
    return ItemTable("item", Sym("N"), lets, cost, ("run",))  # type: ignore[arg-type]


def lists(costs: list[int], ctas: int) -> list[list[int]]:
    """One by one, by a heap of when each CTA is free."""
    out: list[list[int]] = [[] for _ in range(ctas)]
    free = [(0, c) for c in range(ctas)]
    for item, cost in enumerate(costs):
        load, c = heapq.heappop(free)
        out[c].append(item)
        heapq.heappush(free, (load + cost, c))
    return out


COSTS = {
    "all alike": (Int(7), lambda run: 7),
    "free": (Int(0), lambda run: 0),
    "falling": (op("sub", Int(5000), op("mul", "run", Int(3))), lambda run: 5000 - 3 * run),
    "mixed": (op("mod", op("mul", "run", Int(7919)), Int(1000)), lambda run: run * 7919 % 1000),
}


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 5000),
    run=st.sampled_from([1, 3, 300, 1500]),
    ctas=st.sampled_from([1, 2, 7, 132]),
    kind=st.sampled_from(sorted(COSTS)),
)
def test_every_item_goes_to_the_cta_that_is_free_first(n: int, run: int, ctas: int, kind: str) -> None:
    cost, of = COSTS[kind]
    dealt = deal(table(cost), {"N": n, "R": run}, ctas)
    wanted = lists([of(item // run) for item in range(n)], ctas)
    assert dealt.shape[:2] == (max(map(len, wanted)) + 1, ctas)
    for c, items in enumerate(wanted):
        assert dealt[: len(items), c, :2].tolist() == [[item, item // run] for item in items]
        assert (dealt[len(items) :, c, :2] == [n, 0]).all()  # the end mark, at least once


@pytest.mark.parametrize("kind", ["all alike", "falling"])
def test_a_million_items_are_shared_out_evenly(kind: str) -> None:
    """Case 25's neighbours: a batch of 65536 with 16 heads."""
    cost, of = COSTS[kind]
    n, run = 65536 * 16, 65536 * 4
    dealt = deal(table(cost), {"N": n, "R": run}, 132)
    items, each = dealt[..., 0], np.array([of(r) for r in range(n // run)])
    live = items < n
    assert (np.sort(items[live]) == np.arange(n)).all()
    loads = np.where(live, each[np.minimum(items // run, len(each) - 1)], 0).sum(0)
    assert loads.max() - loads.min() <= each.max()
