"""The one sequence of an sm_80 plan: every warp copies, waits, meets the others, multiplies and does the rest.

A streamed tile is brought `depth - 1` blocks ahead. At the head of an iteration each thread waits for its own copies of
the block at hand, all threads meet, and the copies of a later block begin, to the slots that everybody has left with
the iteration before. A group of copies is closed once an iteration, whether there was anything left to copy or not, so
that the number of groups which may still be under way is a constant. With a depth of 1 the threads meet, copy, wait and
meet again. What does not run along the streamed axis is copied first, in the first group.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.folded import Exponent, Output, Product
from tilegen.ir.plan import (
    Advance,
    BufferOperand,
    CopyCommit,
    CopyWait,
    CtaSync,
    Cursor,
    Fragment,
    If,
    Let,
    Operation,
    ScanSlot,
    Slot,
    WarpMma,
    Work,
)
from tilegen.ir.scheduled import Straight, Stream
from tilegen.ir.uniform import Int, Sym, Uniform, op
from tilegen.passes.synchronise.context import carried, prune, rename
from tilegen.passes.synchronise.copier import copies, fill_cursor
from tilegen.passes.synchronise.in_order import InOrder
from tilegen.passes.synchronise.loops import Layout
from tilegen.passes.synchronise.mend import mend
from tilegen.passes.synchronise.operands import operands
from tilegen.passes.synchronise.sides import initial_states
from tilegen.passes.synchronise.work import ITEM, decode, total_items
from tilegen.syntax.span import Span


@dataclass
class Worker(InOrder):
    """Builds the body of the role."""

    there: bool = False  # whether the tiles that are no streamed ones are known to be there

    def build(self) -> tuple[tuple[Operation, ...], tuple[Cursor, ...], tuple[Fragment, ...]]:
        """The sequence, its cursors and its fragments."""
        s, c = self.c.scheduled, self.c
        residents = [t for t in c.tiles if not c.streamed(t)]
        self.out = list(decode(s, ITEM))
        self.out += initial_states(c, self.values)
        for tile in residents:
            self.out += self._bring(tile)
        for phase in s.phases:
            self.values.moving = frozenset(x.op for x in phase.steps if isinstance(s.op(x.op), Exponent))
            if isinstance(phase, Straight):
                self._arrive([t for x in phase.steps for t in c.tiles_of(s.op(x.op))], phase.span)
                self.body(phase.body, phase, masked=True)
            else:
                self._stream(phase)
                self.out += mend(phase, c, self.values)
                self.out += self.values.combine_partials(phase.span)
        if residents and not self.there:  # an item without blocks has brought them and not read them
            self.out += [CopyCommit(s.span), CopyWait(0, s.span)]
        self.out += [Advance(_read_cursor(t), c.tiles[t].move.span, t) for t in residents]
        work = Work(ITEM, total_items(s), "single", tuple(self.out), s.span)
        cursors = [Cursor(name(t), t) for t in c.tiles for name in (fill_cursor, _read_cursor)]
        return prune((*self.values.constants(), work)), tuple(cursors), self.values.fragments()

    # ---- movement ----

    def _bring(self, tile: str) -> list[Operation]:
        """Copies of a tile at the positions at hand, to its next slot."""
        return [*copies(tile, self.c), Advance(fill_cursor(tile), self.c.tiles[tile].move.span, tile)]

    def _arrive(self, tiles: list[str], span: Span) -> None:
        """Tiles that are no streamed ones are there: each thread's copies, then everybody's."""
        if tiles and not self.there:
            self.out += [CopyCommit(span), CopyWait(0, span), CtaSync(span)]
            self.there = True

    def _ahead(self, tiles: list[str], plan: Layout, time: Uniform) -> list[Operation]:
        """Copies of the block that is visited at a time, if there is one, closed in a group."""
        axis, span = plan.stream.axis, plan.stream.span
        block = self.c.scheduled.role(axis).block
        begin = f"{axis}.0"
        bring: list[Operation] = [Let(begin, op("mul", plan.block(time), block), span)]
        for tile in tiles:
            bring += self._bring(tile)
        return [
            If(op("lt", time, plan.count), rename(tuple(bring), begin, f"{axis}.ahead"), span),
            CopyCommit(span),
        ]

    # ---- the streamed loop ----

    def _stream(self, phase: Stream) -> None:
        s = self.c.scheduled
        plan = self.begin_loop(phase)
        read = dict.fromkeys(t for x in phase.steps for t in self.c.tiles_of(s.op(x.op)))
        streamed = [t for t in read if self.c.streamed(t)]
        depth = min((s.tile(t).depth for t in streamed), default=1)
        for time in range(depth - 1):
            self.out += self._ahead(streamed, plan, Int(time))
        if depth == 1:
            self._arrive([t for t in read if not self.c.streamed(t)], phase.span)
        for part in plan.segments:
            self.out.append(self.segment(phase, plan, part, streamed, depth))

    def iteration(self, phase: Stream, plan: Layout, masked: bool, streamed: list[str], depth: int) -> None:
        axis, span, time = phase.axis, phase.span, Sym(plan.time)
        if streamed and depth > 1:
            self.out += [CopyWait(depth - 2, span), CtaSync(span)]
            self.out += self._ahead(streamed, plan, op("add", time, depth - 1))
        elif streamed:
            self.out += [CtaSync(span), *self._ahead(streamed, plan, time), CopyWait(0, span), CtaSync(span)]
        self.out.append(Let(f"{axis}.0", op("mul", plan.block(time), self.c.scheduled.role(axis).block), span))
        scanned = [t for t in streamed if masked and self.c.scanned(t)]
        if scanned:
            self.out += [ScanSlot(_read_slot(t), self.c.tiles[t].move.span, t) for t in scanned]
            self.out.append(CtaSync(span))
        self.body(phase.body, phase, masked)
        self.out += [Advance(_read_cursor(t), self.c.tiles[t].move.span, t) for t in streamed]

    # ---- what is computed ----

    def store(self, o: Output) -> None:
        self.stores.emit(o, self.values, self.out)

    def product(self, o: Product, masked: bool) -> None:
        x = operands(o, self.c, self.values)
        assert not isinstance(x.a, BufferOperand), "factors stay in registers"
        begins_here = not carried(o, self.c.stream)
        self.out.append(WarpMma(x.accumulator, x.a, x.b, x.n, o.dtype, begins_here, o.span, o.statement))


def _read_cursor(tile: str) -> str:
    return f"{tile}_read"


def _read_slot(tile: str) -> Slot:
    return Slot(tile, _read_cursor(tile))
