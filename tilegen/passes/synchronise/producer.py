"""The producer's sequence: every tile's loads in the order in which the consumers first need them."""

from __future__ import annotations

from tilegen.ir.plan import (
    Advance,
    Cursor,
    Expect,
    For,
    If,
    Let,
    Operation,
    SetRegisters,
    Slot,
    TmaLoad,
    WaitEmpty,
    Work,
)
from tilegen.ir.scheduled import Phase, Stream
from tilegen.ir.uniform import Int, Sym, Uniform, op
from tilegen.passes.synchronise.context import Context, prune, rename
from tilegen.passes.synchronise.geometry import boxes, corner
from tilegen.passes.synchronise.loops import Layout, layout
from tilegen.passes.synchronise.work import ITEM, decode, total_items


def producer(c: Context) -> tuple[tuple[Operation, ...], tuple[Cursor, ...]]:
    """(body, cursors) of the producer role."""
    s = c.scheduled
    span = s.span
    body: list[Operation] = [] if c.tabled else list(decode(s, ITEM))
    resident_done: set[str] = set()
    for phase in s.phases:
        body += _phase(phase, c, resident_done)
    work = Work(ITEM, total_items(s), s.order.persistent or "single", tuple(body), span)
    ops: list[Operation] = []
    if s.workers.producer_registers is not None:
        ops.append(SetRegisters(s.workers.producer_registers, False, s.workers.span))
    ops.append(work)
    cursors = tuple(Cursor(f"{name}_fill", name) for name in c.rings)
    return prune(tuple(ops)), cursors


def _phase(phase: Phase, c: Context, done: set[str]) -> list[Operation]:
    s = c.scheduled
    steps = phase.steps
    resident = [t for step in steps for t in c.tiles_of(s.op(step.op)) if not c.streamed(t)]
    fresh = [t for t in dict.fromkeys(resident) if t not in done]
    done |= set(fresh)
    loads = [op for t in fresh for op in load(t, c)]
    if not isinstance(phase, Stream):
        return loads
    plan = layout(phase, s)
    by_distance = {d: _tiles_at(phase, d, c) for d in range(phase.reach + 1)}
    out: list[Operation] = [] if c.tabled else list(plan.lets)
    if phase.reach == 0:
        out += loads
        out.append(
            For(plan.time, Int(0), plan.count, tuple(_loads(by_distance[0], Sym(plan.time), plan, c)), "", phase.span)
        )
        return out
    # the first streamed tiles go before the resident ones: those wait for the last item's readers, these need not
    first = _loads(by_distance[0], Int(0), plan, c)
    body: list[Operation] = []
    for distance in dict.fromkeys(step.distance for step in steps if any(map(c.streamed, c.tiles_of(s.op(step.op))))):
        loads_then = tuple(_loads(by_distance[distance], op("sub", plan.time, distance), plan, c))
        axis = phase.axis
        body += rename(loads_then, f"{axis}.0", f"{axis}.0_late") if distance else loads_then
    drain = _loads(by_distance[1], op("sub", plan.count, 1), plan, c)
    some = op("gt", plan.count, 0)
    out.append(If(some, tuple(first), phase.span))
    out += loads
    out.append(For(plan.time, Int(1), plan.count, tuple(body), "", phase.span))
    out.append(If(some, tuple(drain), phase.span))
    return out


def _tiles_at(phase: Stream, distance: int, c: Context) -> list[str]:
    names = [
        t
        for step in phase.steps
        if step.distance == distance
        for t in c.tiles_of(c.scheduled.op(step.op))
        if c.streamed(t)
    ]
    return list(dict.fromkeys(names))


def _loads(tiles: list[str], time: Uniform, plan: Layout, c: Context) -> list[Operation]:
    if not tiles:
        return []
    axis = plan.stream.axis
    block = c.scheduled.role(axis).block
    out: list[Operation] = [Let(f"{axis}.0", op("mul", plan.block(time), block), plan.stream.span)]
    for tile in tiles:
        out += load(tile, c)
    return out


def load(tile: str, c: Context) -> list[Operation]:
    """Wait for room, announce the bytes, issue the boxes, for each part; then move on."""
    s, g, ring = c.scheduled, c.tiles[tile], c.rings[tile]
    span = g.move.span
    cursor = f"{tile}_fill"
    out: list[Operation] = []
    where = corner(g.move, s)
    for part in range(ring.parts):
        slot = Slot(tile, cursor, part)
        out.append(WaitEmpty(slot, span, tile))
        out.append(Expect(slot, ring.bytes, span, tile))
        out += [
            TmaLoad(tile, b.coordinates, slot, b.offset, b.bytes, span, tile, s.tile(tile).hint)
            for b in boxes(g, where, s, Int(part))
        ]
    out.append(Advance(cursor, span, tile))
    return out
