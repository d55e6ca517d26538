"""Which work items a CTA goes through in the checks' runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilegen.checks.compiled import Numbers
from tilegen.checks.sequences import starts_of
from tilegen.ir import plan as ir
from tilegen.ir.deal import items_of


def items(
    plan: ir.Plan,
    work: ir.Work,
    names: Mapping[str, int],
    symbols: Mapping[str, int],
    cta: int,
    ctas: int,
    numbers: Numbers,
) -> Iterator[dict[str, int]]:
    """What each item of the CTA binds. A table can pair any two items; a round-robin is one of its deals.

    `names`: what is bound where the loop stands, `symbols`: what the launch gives.
    """
    table = plan.table
    if table is not None and table.sequences is not None:
        every, costs = items_of(table, symbols, starts_of(table.sequences, symbols))
        for item in range(cta, len(costs), ctas):
            yield {bound: int(v[item] if v.ndim else v) for bound, v in every.items()}
        return
    last = numbers(work.total, names)
    step = max(last, 1) if work.mode == "single" else ctas
    for item in range(cta, last, step):
        values = {**names, work.index: item}
        for let in table.lets if table is not None else ():
            values[let.name] = numbers(let.value, values)
        yield values
