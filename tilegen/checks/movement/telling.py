"""Which CTAs of a launch tell apart what plans mix up: batch from head, a query's head from a key's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilegen.checks.compiled import Numbers
from tilegen.checks.items import items, names_of
from tilegen.checks.paths import Paths
from tilegen.ir import plan as ir
from tilegen.ir.plan_walk import all_operations
from tilegen.ir.uniform import Sym

MOST = 24  # CTAs that are looked at
_MOVES = ir.TmaLoad | ir.TmaStore | ir.CopyTile | ir.StoreRows | ir.StoreVector | ir.LoadVector


def telling(plan: ir.Plan, paths: Paths, numbers: Numbers, symbols: Mapping[str, int], ctas: int) -> int:
    """Of CTAs all over the launch, that which goes into the most loops and branches; of several, one with an item whose
    positions differ most from each other and from 0, which an index that is left out would be."""
    names = _positions(plan)
    work = next(o for _, _, o in all_operations(plan) if isinstance(o, ir.Work))

    def worth(cta: int) -> tuple[int, int]:
        try:
            every = list(_items(plan, work, names, numbers, symbols, cta, ctas))
            return len(paths.entered(symbols, cta, ctas)), max((len(set(item) - {0}) for item in every), default=0)
        except ZeroDivisionError:  # the run tells of it
            return 0, 0

    return max(range(0, ctas, -(-ctas // MOST)), key=worth)


def _positions(plan: ir.Plan) -> frozenset[str]:
    """Names that stand for an index alone."""
    found: set[str] = set()
    for _, _, o in all_operations(plan):
        if isinstance(o, _MOVES):
            index = o.coordinates if isinstance(o, ir.TmaLoad | ir.TmaStore) else o.index
            found.update(e.name for e in index if isinstance(e, Sym))
    return frozenset(found)


def _items(
    plan: ir.Plan,
    work: ir.Work,
    names: frozenset[str],
    numbers: Numbers,
    symbols: Mapping[str, int],
    cta: int,
    ctas: int,
) -> Iterator[list[int]]:
    """What these names are in each item of a CTA."""
    begun = names_of(plan, symbols, cta, 0)
    for bound in items(plan, work, begun, symbols, cta, ctas, numbers):
        known = {**begun, **bound}
        for o in work.body:
            if isinstance(o, ir.Let):
                known[o.name] = numbers(o.value, known)
        yield [known[name] for name in names if name in known]
