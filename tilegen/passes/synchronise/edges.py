"""Edges between what runs under a product and the wait for the product.

The assembler moves element-wise instructions across a wait for products, but not across the end of a basic block. A
wait for a slot ends one. So what a plan computes under a product stays there if the wait for a slot that the next
iteration begins with comes before the wait for the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilegen.ir.plan import (
    Advance,
    For,
    IfVote,
    Map,
    Mask,
    Mma,
    MmaCommit,
    MmaWait,
    Operation,
    QuadReduce,
    Relayout,
    RowFold,
    Sweep,
    WaitClean,
    WaitFull,
)

_WORK = (Map, Mask, RowFold, QuadReduce, Relayout, Sweep)


def edge_at(before: Sequence[Operation]) -> bool:
    """Whether a wait for products behind these operations needs an edge: there is work since the last issue or wait,
    and no branch behind it."""
    for o in reversed(before):
        if isinstance(o, Mma | MmaCommit | MmaWait | IfVote):
            return False
        if isinstance(o, _WORK):
            return True
    return False


def due_next(loops: Sequence[Operation]) -> tuple[str, ...]:
    """Tiles whose waits the loops' bodies begin with and can as well end with: one for each edge that is wanted.

    A slot is waited for ahead once the one before it has been released.
    """
    found: dict[str, None] = {}
    for loop in _innermost(loops):
        order = [o.slot for o in loop.body if isinstance(o, WaitFull | WaitClean)]
        taken: set[str] = set()
        for n, o in enumerate(loop.body):
            if isinstance(o, MmaWait) and edge_at(loop.body[:n]):
                passed = {a.cursor for a in loop.body[:n] if isinstance(a, Advance)}
                free = (s.ring for s in order if s.cursor in passed and s.ring not in taken)
                tile = next(free, None)
                if tile is not None:
                    taken.add(tile)
                    found[tile] = None
    return tuple(found)


def _innermost(body: Sequence[Operation]) -> Iterator[For]:
    for o in body:
        if isinstance(o, For):
            inner = list(_innermost(o.body))
            yield from inner or (o,)
