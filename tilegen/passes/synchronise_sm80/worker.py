"""The one sequence of an sm_80 plan: every warp copies, waits, meets the others, multiplies and does the rest.

A streamed tile is brought `depth - 1` blocks ahead. At the head of an iteration each thread waits for its own copies of
the block at hand, all threads meet, and the copies of a later block begin, to the slots that everybody has left with
the iteration before. A group of copies is closed once an iteration, whether there was anything left to copy or not, so
that the number of groups which may still be under way is a constant. With a depth of 1 the threads meet, copy, wait and
meet again. What does not run along the streamed axis is copied first, in the first group.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.ir.folded import Exponent, FoldedOp, Output, Product, Rescale
from tilegen.ir.plan import (
    Advance,
    BufferOperand,
    CopyCommit,
    CopyWait,
    CtaSync,
    Cursor,
    For,
    Fragment,
    If,
    Init,
    Let,
    Operation,
    QuadReduce,
    ScanSlot,
    Slot,
    WarpMma,
    Work,
)
from tilegen.ir.scheduled import Batch, Item, Phase, Step, Straight, Stream
from tilegen.ir.uniform import Int, Sym, Uniform, op
from tilegen.passes.synchronise.context import Context, carried, prune, rename
from tilegen.passes.synchronise.copier import copies, fill_cursor
from tilegen.passes.synchronise.loops import Layout, Rounds, Segment, layout
from tilegen.passes.synchronise.mend import mend
from tilegen.passes.synchronise.operands import operands
from tilegen.passes.synchronise.sides import beginnings, begins, initial_value, nothing_to_rescale
from tilegen.passes.synchronise.stores import Stores
from tilegen.passes.synchronise.values import Values
from tilegen.passes.synchronise.work import ITEM, decode, total_items
from tilegen.syntax.span import Span


@dataclass
class Worker:
    """Builds the body of the role."""

    c: Context
    values: Values
    stores: Stores
    out: list[Operation] = field(default_factory=list)
    partials: dict[str, str] = field(default_factory=dict)  # row folds that each lane still holds a part of: kind
    there: bool = False  # whether the tiles that are no streamed ones are known to be there

    def build(self) -> tuple[tuple[Operation, ...], tuple[Cursor, ...], tuple[Fragment, ...]]:
        """The sequence, its cursors and its fragments."""
        s, c = self.c.scheduled, self.c
        residents = [t for t in c.tiles if not c.streamed(t)]
        self.out = list(decode(s, ITEM))
        self._initial_states()
        for tile in residents:
            self.out += self._bring(tile)
        for phase in s.phases:
            self.values.moving = frozenset(x.op for x in phase.steps if isinstance(s.op(x.op), Exponent))
            if isinstance(phase, Straight):
                self._arrive([t for x in phase.steps for t in c.tiles_of(s.op(x.op))], phase.span)
                self._body(phase.body, phase, masked=True)
            else:
                self._stream(phase)
                self.out += mend(phase, c, self.values)
                self._combine_partials(phase.span)
        if residents and not self.there:  # an item without blocks has brought them and not read them
            self.out += [CopyCommit(s.span), CopyWait(0, s.span)]
        self.out += [Advance(_read_cursor(t), c.tiles[t].move.span, t) for t in residents]
        work = Work(ITEM, total_items(s), "single", tuple(self.out), s.span)
        cursors = [Cursor(name(t), t) for t in c.tiles for name in (fill_cursor, _read_cursor)]
        return prune((*self.values.constants(), work)), tuple(cursors), self.values.fragments()

    def _initial_states(self) -> None:
        """The states of folds that begin with a constant: the others begin with their loop (`beginnings`)."""
        again = sum(isinstance(p, Stream) for p in self.c.scheduled.phases) > 1
        for o in self.c.scheduled.program.ops:
            if not carried(o, self.c.stream):
                continue
            name = self.values.state(o)
            if not begins(o):
                self.out.append(Init(name, initial_value(o), o.span, o.statement))
                if isinstance(o, Exponent) and again:
                    self.out.append(Init(self.values.shift(o), 0.0, o.span, o.statement))

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
        plan = layout(phase, s, apart=False)  # every warp comes to every meeting
        self.out += (*plan.lets, *plan.own_lets)
        hoisted = beginnings(phase, self.c, self.values)
        self.values.hoist_loads(phase, hoisted)
        self.out += hoisted
        read = dict.fromkeys(t for x in phase.steps for t in self.c.tiles_of(s.op(x.op)))
        streamed = [t for t in read if self.c.streamed(t)]
        depth = min((s.tile(t).depth for t in streamed), default=1)
        for time in range(depth - 1):
            self.out += self._ahead(streamed, plan, Int(time))
        if depth == 1:
            self._arrive([t for t in read if not self.c.streamed(t)], phase.span)
        for part in plan.segments:
            self.out.append(self._segment(phase, plan, part, streamed, depth))

    def _segment(
        self, phase: Stream, plan: Layout, part: Segment | Rounds, streamed: list[str], depth: int
    ) -> Operation:
        if isinstance(part, Rounds):
            inner = tuple(self._segment(phase, plan, x, streamed, depth) for x in part.segments)
            return For(part.var, Int(0), Int(part.count), (*part.lets, *inner), part.label, phase.span)
        saved, self.out = self.out, []
        self._iteration(phase, plan, part.masked, streamed, depth)
        body, self.out = tuple(self.out), saved
        return For(plan.time, part.start, part.stop, body, part.label, phase.span)

    def _iteration(self, phase: Stream, plan: Layout, masked: bool, streamed: list[str], depth: int) -> None:
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
        self._body(phase.body, phase, masked)
        self.out += [Advance(_read_cursor(t), self.c.tiles[t].move.span, t) for t in streamed]

    # ---- what is computed ----

    def _body(self, items: tuple[Item, ...], phase: Phase, masked: bool) -> None:
        active = {x.op for i in items for x in (i.steps if isinstance(i, Batch) else (i,))}
        self.values.new_iteration()
        for item in items:
            if isinstance(item, Batch):
                for step in item.steps:
                    self._product(step)
                continue
            o = self.c.scheduled.op(item.op)
            if isinstance(o, Rescale) and nothing_to_rescale(o, phase, active, self.c, self.values):
                continue
            self._step(o, masked)

    def _step(self, o: FoldedOp, masked: bool) -> None:
        if isinstance(o, Output):
            self.stores.emit(o, self.values, self.out)
            return
        made = self.values.lower(o, masked)
        self.out += made.operations
        if made.partial:
            self.partials[made.partial[0]] = made.partial[1]

    def _combine_partials(self, span: Span) -> None:
        for name, kind in self.partials.items():
            self.out.append(QuadReduce(name, kind, span, self.c.scheduled.op(name).statement))
        self.partials.clear()

    def _product(self, step: Step) -> None:
        o = self.c.scheduled.op(step.op)
        assert isinstance(o, Product)
        x = operands(o, self.c, self.values)
        assert not isinstance(x.a, BufferOperand), "factors stay in registers"
        begins_here = not carried(o, self.c.stream)
        self.out.append(WarpMma(x.accumulator, x.a, x.b, x.n, o.dtype, begins_here, o.span, o.statement))


def _read_cursor(tile: str) -> str:
    return f"{tile}_read"


def _read_slot(tile: str) -> Slot:
    return Slot(tile, _read_cursor(tile))
