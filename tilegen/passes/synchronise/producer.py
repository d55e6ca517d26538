"""What fills the rings: every tile's loads in the order in which the consumers first need them, those of TMA by the
producer, those of threads by the copier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tilegen.ir.plan import (
    WARPS,
    Advance,
    Cursor,
    Expect,
    For,
    If,
    Let,
    Operation,
    RolePlan,
    SetRegisters,
    Slot,
    TmaLoad,
    WaitEmpty,
    Work,
)
from tilegen.ir.scheduled import Phase, Step, Stream
from tilegen.ir.uniform import Int, Sym, Uniform, op
from tilegen.passes.synchronise.context import Context, prune, rename
from tilegen.passes.synchronise.copier import copied, copy, warps_beside
from tilegen.passes.synchronise.geometry import boxes, corner
from tilegen.passes.synchronise.loops import Layout, layout
from tilegen.passes.synchronise.work import ITEM, decode, total_items


def producer(c: Context) -> tuple[RolePlan, ...]:
    """The role that has TMA bring tiles: one thread's. It is there unless threads copy all tiles."""
    tiles = tuple(t for t in c.rings if not copied(t, c.scheduled))
    if c.rings and not tiles:
        return ()
    return (_role("producer", tiles, load, c, registers=True, warps=None),)


def copier(c: Context) -> tuple[RolePlan, ...]:
    """The role whose threads copy tiles, if any do."""
    tiles = tuple(t for t in c.rings if copied(t, c.scheduled))
    if not tiles:
        return ()
    first, count = warps_beside(c.rings, c.scheduled)[1]
    return (_role("copier", tiles, copy, c, registers=not first, warps=None if count == WARPS else (first, count)),)


_Bring: TypeAlias = Callable[[str, Context], list[Operation]]


def _role(
    name: str, tiles: tuple[str, ...], bring: _Bring, c: Context, *, registers: bool, warps: tuple[int, int] | None
) -> RolePlan:
    """registers: whether it sets those of its warpgroup."""
    s = c.scheduled
    body: list[Operation] = [] if c.tabled else list(decode(s, ITEM))
    filling = _Filling(c, frozenset(tiles), bring)
    for phase in s.phases:
        body += filling.phase(phase)
    work = Work(ITEM, total_items(s), s.order.persistent or "single", tuple(body), s.span)
    count = s.workers.producer_registers if registers else None
    ops: list[Operation] = [] if count is None else [SetRegisters(count, False, s.workers.span)]
    cursors = tuple(Cursor(f"{tile}_fill", tile) for tile in tiles)
    return RolePlan(name, name, 0, 1, count, name == "producer", cursors, (), prune((*ops, work)), warps)


@dataclass
class _Filling:
    """Loads of some of the tiles, phase by phase."""

    c: Context
    tiles: frozenset[str]
    bring: _Bring
    done: set[str] = field(default_factory=set)

    def phase(self, phase: Phase) -> list[Operation]:
        c, s, steps = self.c, self.c.scheduled, phase.steps
        resident = [t for step in steps for t in self._tiles_of(step) if not c.streamed(t)]
        fresh = [t for t in dict.fromkeys(resident) if t not in self.done]
        self.done |= set(fresh)
        loads = [op for t in fresh for op in self.bring(t, c)]
        if not isinstance(phase, Stream):
            return loads
        plan = layout(phase, s)
        by_distance = {d: self._tiles_at(phase, d) for d in range(phase.reach + 1)}
        out: list[Operation] = [] if c.tabled else list(plan.lets)
        if phase.reach == 0:
            out += loads
            every = tuple(self._loads(by_distance[0], Sym(plan.time), plan))
            out.append(For(plan.time, Int(0), plan.count, every, "", phase.span))
            return out
        # the first streamed tiles go before the resident ones: those wait for the last item's readers, these need not
        first = self._loads(by_distance[0], Int(0), plan)
        body: list[Operation] = []
        for distance in dict.fromkeys(step.distance for step in steps if any(map(c.streamed, self._tiles_of(step)))):
            loads_then = tuple(self._loads(by_distance[distance], op("sub", plan.time, distance), plan))
            axis = phase.axis
            body += rename(loads_then, f"{axis}.0", f"{axis}.0_late") if distance else loads_then
        drain = self._loads(by_distance[1], op("sub", plan.count, 1), plan)
        some = op("gt", plan.count, 0)
        out.append(If(some, tuple(first), phase.span))
        out += loads
        out.append(For(plan.time, Int(1), plan.count, tuple(body), "", phase.span))
        out.append(If(some, tuple(drain), phase.span))
        return out

    def _tiles_of(self, step: Step) -> list[str]:
        return [t for t in self.c.tiles_of(self.c.scheduled.op(step.op)) if t in self.tiles]

    def _tiles_at(self, phase: Stream, distance: int) -> list[str]:
        steps = (step for step in phase.steps if step.distance == distance)
        return list(dict.fromkeys(t for step in steps for t in self._tiles_of(step) if self.c.streamed(t)))

    def _loads(self, tiles: list[str], time: Uniform, plan: Layout) -> list[Operation]:
        if not tiles:
            return []
        axis = plan.stream.axis
        block = self.c.scheduled.role(axis).block
        out: list[Operation] = [Let(f"{axis}.0", op("mul", plan.block(time), block), plan.stream.span)]
        for tile in tiles:
            out += self.bring(tile, self.c)
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
            TmaLoad(tile, b.coordinates, slot, b.offset, b.bytes, span, tile, s.tile(tile).hint, g.bytes_apart)
            for b in boxes(g, where, s, Int(part))
        ]
    out.append(Advance(cursor, span, tile))
    return out
