"""Which work items a CTA goes through in the checks' runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilegen.checks.compiled import Numbers
from tilegen.checks.sequences import starts_of
from tilegen.ir import plan as ir
from tilegen.ir.deal import items_of


def names_of(plan: ir.Plan, symbols: Mapping[str, int], cta: int, group: int) -> dict[str, int]:
    """What is bound where a role of a CTA begins, for one of its warpgroups."""
    rank = {ir.CLUSTER_RANK: cta % plan.cluster} if plan.cluster > 1 else {}
    return {**symbols, **rank, "warpgroup": group}


def cluster_of(plan: ir.Plan, cta: int) -> range:
    """The CTAs that run together with one, itself among them."""
    first = cta - cta % plan.cluster
    return range(first, first + plan.cluster)


def items(
    plan: ir.Plan,
    work: ir.Work,
    names: Mapping[str, int],
    symbols: Mapping[str, int],
    cta: int,
    ctas: int,
    numbers: Numbers,
) -> Iterator[dict[str, int]]:
    """What each item of the CTA, or of its cluster, binds. A table can pair any two items; a round-robin is one of its
    deals.

    `names`: what is bound where the loop stands, `symbols`: what the launch gives.
    """
    table = plan.table
    cta, ctas = cta // plan.cluster, ctas // plan.cluster
    if table is not None and table.sequences is not None:
        every, costs = items_of(table, symbols, starts_of(table.sequences, symbols))
        for item in range(cta, len(costs), ctas):
            yield {bound: int(v[item] if v.ndim else v) for bound, v in every.items()}
        return
    last = numbers(work.total, names)
    step = max(last, 1) if work.mode == "single" else ctas
    for item in range(cta, last, step):
        values = {**names, work.index: item}
        if table is not None:
            values[table.item] = item  # by the table's own name for it
        for let in table.lets if table is not None else ():
            values[let.name] = numbers(let.value, values)
        yield values
