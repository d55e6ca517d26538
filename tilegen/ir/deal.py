"""Deal out work items to CTAs ahead of a launch: what `Work(mode "table")` reads."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tilegen.ir.plan import ItemTable
from tilegen.ir.uniform import evaluate, evaluate_all

_Numbers = npt.NDArray[np.int64]
_SHORT = 256  # items of one cost that are dealt sooner one by one than all at once


def deal(table: ItemTable, values: Mapping[str, int], ctas: int) -> npt.NDArray[np.int32]:
    """int32[rounds, ctas, width]: column c lists the items of CTA c in order, then the end mark, at least once.

    `values`: every size and integer scalar. Items go in their order, each to the CTA that is free first.
    """
    total = evaluate(table.total, values)
    bound = {name: np.asarray(v, np.int64) for name, v in values.items()}
    bound[table.item] = np.arange(total, dtype=np.int64)
    for let in table.lets:
        bound[let.name] = evaluate_all(let.value, bound)
    takers = _takers(np.broadcast_to(evaluate_all(table.cost, bound), (total,)), ctas)
    rows: npt.NDArray[np.int32] = np.zeros((total + 1, table.width), np.int32)
    rows[:, 0] = np.arange(total + 1)
    for n, name in enumerate(table.fields):
        rows[:total, 1 + n] = bound[name]
    counts = np.bincount(takers, minlength=ctas)
    order = np.full((counts.max() + 1, ctas), total)
    by_cta = np.argsort(takers, kind="stable")
    places = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    order[places, takers[by_cta]] = by_cta
    dealt: npt.NDArray[np.int32] = rows[order]
    return dealt


def _takers(costs: _Numbers, ctas: int) -> _Numbers:
    """The CTA that each item goes to: of those that are free first, the lowest."""
    takers = np.empty(len(costs), np.int64)
    ends = [*(np.flatnonzero(np.diff(costs)) + 1).tolist(), len(costs)]
    free = [(0, c) for c in range(ctas)]  # a heap: when a CTA is free, and which
    start = 0
    for end in ends if len(costs) else ():
        cost = int(costs[start])
        if end - start > _SHORT and cost > 0:
            loads = np.array([load for load, _ in sorted(free, key=lambda f: f[1])])
            takers[start:end] = _takers_of_equal(loads, cost, end - start)
            loads += cost * np.bincount(takers[start:end], minlength=ctas)
            free = [(load, c) for c, load in enumerate(loads.tolist())]
            heapq.heapify(free)
        else:
            for item in range(start, end):
                load, c = free[0]
                takers[item] = c
                heapq.heapreplace(free, (load + cost, c))
        start = end
    return takers


def _takers_of_equal(loads: _Numbers, cost: int, count: int) -> _Numbers:
    """The CTAs that `count` items of one cost go to: each CTA is free at its load, and every `cost` from then on."""

    def times(limit: int) -> _Numbers:
        """How often each CTA is free before `limit`."""
        return np.maximum(-((loads - limit) // cost), 0)

    low, high = int(loads.min()), int(loads.max()) + cost * (count // len(loads) + 1)
    while low < high:  # the least limit before which there are enough
        middle = (low + high) // 2
        low, high = (low, middle) if times(middle).sum() >= count else (middle + 1, high)
    each = times(low)
    nth = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
    who = np.repeat(np.arange(len(loads)), each)
    first = np.argsort(np.repeat(loads, each) + cost * nth, kind="stable")  # of two free at once, the lower
    return who[first[:count]]
