"""The scanner's sequence: slots of scanned tiles, looked through once they are full and before the consumers read them.

It runs in the warps beside the producer's, which have nothing else to do, a ring's depth ahead of the consumers.
Like any reader it frees a slot when it is done: consumers that pass the slot by do not wait until it is.
"""

from __future__ import annotations

from tilegen.ir.plan import (
    Advance,
    ArriveClean,
    ArriveEmpty,
    Cursor,
    FenceAsync,
    For,
    If,
    Operation,
    RolePlan,
    ScanSlot,
    Slot,
    WaitFull,
    Work,
)
from tilegen.ir.scheduled import Stream
from tilegen.ir.uniform import Int, Sym
from tilegen.passes.synchronise.context import Context, prune
from tilegen.passes.synchronise.copier import warps_beside
from tilegen.passes.synchronise.loops import layout
from tilegen.passes.synchronise.work import ITEM, decode, total_items

SCANNED = "scanned"  # in the names of the cuts between blocks


def scanner(c: Context) -> tuple[RolePlan, ...]:
    """The role, if any tile is scanned."""
    s = c.scheduled
    body: list[Operation] = [] if c.tabled else list(decode(s, ITEM))
    cursors: dict[str, Cursor] = {}
    for phase in s.phases:
        tiles = [t for x in phase.steps for t in c.tiles_of(s.op(x.op)) if c.scanned(t)]
        if isinstance(phase, Stream) and tiles:
            body += _phase(phase, tuple(dict.fromkeys(tiles)), c)
            cursors.update((t, Cursor(_cursor(t), t)) for t in tiles)
    if not cursors:
        return ()
    work = Work(ITEM, total_items(s), s.order.persistent or "single", tuple(body), s.span)
    role = RolePlan(
        "scanner",
        "scanner",
        0,
        1,
        None,
        False,
        tuple(cursors.values()),
        (),
        prune((work,)),
        warps_beside(c.rings, s)[0],
    )
    return (role,)


def _cursor(tile: str) -> str:
    return f"{tile}_scan"


def _phase(phase: Stream, tiles: tuple[str, ...], c: Context) -> list[Operation]:
    plan = layout(phase, c.scheduled)
    body: list[Operation] = []
    for tile in tiles:
        span, slot = c.tiles[tile].move.span, Slot(tile, _cursor(tile))
        look = (ScanSlot(slot, span, tile), FenceAsync(span, tile))
        body += [
            WaitFull(slot, span, tile),
            If(plan.straddles(Sym(plan.time), SCANNED), look, span, tile),
            ArriveClean(slot, span, tile),
            ArriveEmpty(slot, span, tile),
            Advance(_cursor(tile), span, tile),
        ]
    lets: tuple[Operation, ...] = () if c.tabled else (*plan.lets, *plan.cuts(SCANNED))
    return [*lets, For(plan.time, Int(0), plan.count, tuple(body), "", phase.span)]
