"""Whether a plan runs under a product what the schedule asks to run there."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.plan import (
    FmaOob,
    For,
    IfVote,
    Map,
    Mask,
    Mma,
    MmaWait,
    Operation,
    Plan,
    Relayout,
    RowFold,
    Sweep,
    WriteShared,
)
from tilegen.ir.plan_walk import operations
from tilegen.ir.schedule import Directive, Under

_WORK = (Map, FmaOob, Mask, RowFold, Relayout, WriteShared, Sweep, IfVote)


def check_under(plan: Plan, given: tuple[Directive, ...]) -> None:
    """Raises TilegenError for an `under` that no order of waits allows: work that stands outside its product.

    A value that is computed where it is read has no work of its own, and goes with its reader.
    """
    made = {o.statement for n, r in enumerate(plan.roles) for _, o in operations(r, n) if isinstance(o, (*_WORK, Mma))}
    for d in given:
        if isinstance(d, Under):
            inside = list(_under(plan, d.product))
            missing = [n for n in d.names if not inside or not all(n in found or n not in made for found in inside)]
            if missing:
                fail(Code.NOT_UNDER, d.span, product=d.product, name=missing[0])


def _under(plan: Plan, product: str) -> Iterator[set[str]]:
    """For each streamed loop that holds the product: statements that work between its issue and its wait."""
    for index, role in enumerate(plan.roles):
        for _, loop in operations(role, index):
            if isinstance(loop, For):
                tokens = {o.token for o in loop.body if isinstance(o, Mma) and o.statement == product}
                if tokens:
                    yield _between(loop.body, tokens)


def _between(body: tuple[Operation, ...], tokens: set[str]) -> set[str]:
    flying: set[str] = set()
    found: set[str] = set()
    for o in body:
        if isinstance(o, Mma) and o.token in tokens:
            flying.add(o.token)
        elif isinstance(o, MmaWait):
            flying -= set(o.retires)
        elif flying and isinstance(o, _WORK):
            found.add(o.statement)
    return found
