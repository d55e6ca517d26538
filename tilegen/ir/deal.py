"""Deal out work items to CTAs ahead of a launch: what `Work(mode "table")` reads.

For items made of sequences (`plan.Sequences`) this is the model of what the device does itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tilegen.ir.deal_limits import BUCKETS, MOST_CTAS
from tilegen.ir.plan import ItemTable, Sequences
from tilegen.ir.uniform import evaluate, evaluate_all

_Numbers = npt.NDArray[np.int64]
_SHORT = 256  # items of one cost that are dealt sooner one by one than all at once


class DealError(ValueError):
    """A table of sequences whose numbers make no deal: a negative number of units, a rank that no unit has."""


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


# ---- items made of sequences -------------------------------------------------------------------------


def with_given(q: Sequences, values: Mapping[str, int]) -> dict[str, int]:
    """`values` and what the host works out for the device from them."""
    found = dict(values)
    for let in q.given:
        found[let.name] = evaluate(let.value, found)
    return found


def rounds_of(table: ItemTable, values: Mapping[str, int], ctas: int) -> int:
    """Rows of a column of the device's table: the rounds of as many items as there can be, and the end mark."""
    return -(-evaluate(table.total, values) // ctas) + 1


def starts_fault(q: Sequences, values: Mapping[str, int], starts: Mapping[str, _Numbers]) -> tuple[int, ...] | None:
    """The first thing wrong with the starts of sequences: which of `lengths`, at which entry, its value, the one before
    it (0 at the first), the tokens. They begin at 0, never fall, and end at the number of tokens."""
    count = evaluate(q.count, values)
    found: list[tuple[int, ...]] = []
    for n, lengths in enumerate(q.lengths):
        at = np.asarray(starts[lengths.starts], np.int64)
        tokens = evaluate(lengths.tokens, values)
        before = np.concatenate([[0], at[:-1]])
        wrong = at < before
        wrong[0] |= at[0] != 0
        wrong[count] |= at[count] != tokens
        found += [(int(p), n, int(at[p]), int(before[p]), tokens) for p in np.flatnonzero(wrong)[:1]]
    if not found:
        return None
    entry, which, *rest = min(found)
    return which, entry, *rest


def items_of(
    table: ItemTable, values: Mapping[str, int], starts: Mapping[str, _Numbers]
) -> tuple[dict[str, _Numbers], _Numbers]:
    """Every name that an item binds, an entry an item in the order of dealing; and the items' costs.

    `starts`: the tensors of that name, without faults. Raises DealError.
    """
    q = table.sequences
    assert q is not None
    values = with_given(q, values)
    constants = {name: np.asarray(v, np.int64) for name, v in values.items()}
    of_sequence: dict[str, _Numbers] = {q.position: np.arange(evaluate(q.count, values), dtype=np.int64)}
    for lengths in q.lengths:
        at = np.asarray(starts[lengths.starts], np.int64)
        of_sequence |= {lengths.start: at[:-1], lengths.length: np.diff(at)}
    count = len(of_sequence[q.position])
    units = np.broadcast_to(evaluate_all(q.units, constants | of_sequence), (count,))
    if (units < 0).any():
        raise DealError("a sequence has fewer than no units")
    sequence = np.repeat(np.arange(count), units)
    of_unit = {name: v[sequence] for name, v in of_sequence.items()}
    of_unit[q.unit] = np.arange(len(sequence)) - np.repeat(np.cumsum(units) - units, units)
    zero = np.asarray(0, np.int64)
    costs = np.broadcast_to(
        evaluate_all(table.cost, _followed(table, {**constants, **{x.name: zero for x in q.ranking}, **of_unit})),
        (len(sequence),),
    )
    order = np.argsort(_buckets(costs), kind="stable")
    all_units = {**values, q.all_units: len(sequence)}
    bound = {**constants, q.all_units: np.asarray(len(sequence), np.int64)}
    bound[table.item] = np.arange(evaluate(q.items, all_units), dtype=np.int64)
    for let in q.ranking if len(sequence) else ():
        bound[let.name] = evaluate_all(let.value, bound)
    if not len(sequence):
        return {}, costs
    ranks = np.broadcast_to(bound[q.rank], bound[table.item].shape)
    if ((ranks < 0) | (ranks >= len(order))).any():
        raise DealError("an item has a rank that no unit has")
    unit = order[ranks]
    bound |= {name: v[unit] for name, v in of_unit.items()}
    return _followed(table, bound), costs[unit]


def _followed(table: ItemTable, bound: dict[str, _Numbers]) -> dict[str, _Numbers]:
    for let in table.lets:
        bound[let.name] = evaluate_all(let.value, bound)
    return bound


def _buckets(costs: _Numbers) -> _Numbers:
    """The bucket of each cost, 0 for the costliest: exact costs where there are few, else about so."""
    if not len(costs):
        return costs
    most, extent = costs.max(), costs.max() - costs.min() + 1
    scale = np.float32(1) if extent <= BUCKETS else np.float32(BUCKETS) / np.float32(extent)
    found = ((most - costs).astype(np.float32) * scale).astype(np.int64)
    buckets: _Numbers = np.minimum(found, BUCKETS - 1)
    return buckets


def deal_sequences(
    table: ItemTable, values: Mapping[str, int], starts: Mapping[str, _Numbers], ctas: int
) -> npt.NDArray[np.int32]:
    """int32[rounds, ctas, width], as the device makes it; what it leaves unwritten is 0."""
    bound, costs = items_of(table, values, starts)
    total, count = evaluate(table.total, values), len(costs)
    rows: npt.NDArray[np.int32] = np.zeros((count + 1, table.width), np.int32)
    rows[:, 0] = [*range(count), total]
    for n, name in enumerate(table.fields):
        rows[:count, 1 + n] = bound[name] if count else 0
    dealt: npt.NDArray[np.int32] = np.zeros((rounds_of(table, values, ctas), ctas, table.width), np.int32)
    loads, numbers = np.zeros(ctas, np.float32), np.arange(ctas)
    for n in range(-(-count // ctas) + 1):
        rank = np.empty(ctas, np.int64)
        keys = loads.view(np.int32) & -MOST_CTAS | numbers  # loads that differ in the last bits only are alike
        rank[np.argsort(keys)] = numbers  # the costliest item to the CTA with the least work
        items = np.minimum(n * ctas + rank, count)
        dealt[n] = rows[items]
        loads += np.where(items < count, np.append(costs, 0)[items], 0).astype(np.float32)
    return dealt
