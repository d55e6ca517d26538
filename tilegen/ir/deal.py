"""Deal out work items to CTAs ahead of a launch: what `Work(mode "table")` reads."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tilegen.ir.plan import ItemTable
from tilegen.ir.uniform import evaluate, evaluate_all


def deal(table: ItemTable, values: Mapping[str, int], ctas: int) -> npt.NDArray[np.int32]:
    """int32[rounds, ctas, width]: column c lists the items of CTA c in order, then the end mark, at least once.

    `values`: every size and integer scalar. Items go in their order, each to the CTA that is free first.
    """
    total = evaluate(table.total, values)
    bound = {name: np.asarray(v, np.int64) for name, v in values.items()}
    bound[table.item] = np.arange(total, dtype=np.int64)
    for let in table.lets:
        bound[let.name] = evaluate_all(let.value, bound)
    costs = np.broadcast_to(evaluate_all(table.cost, bound), (total,)).tolist()
    lists: list[list[int]] = [[] for _ in range(ctas)]
    free = [(0, c) for c in range(ctas)]
    for item, cost in enumerate(costs):
        load, c = heapq.heappop(free)
        lists[c].append(item)
        heapq.heappush(free, (load + cost, c))
    rows: npt.NDArray[np.int32] = np.zeros((total + 1, table.width), np.int32)
    rows[:, 0] = np.arange(total + 1)
    for n, name in enumerate(table.fields):
        rows[:total, 1 + n] = bound[name]
    order = np.full((max(map(len, lists)) + 1, ctas), total)
    for c, items in enumerate(lists):
        order[: len(items), c] = items
    dealt: npt.NDArray[np.int32] = rows[order]
    return dealt
