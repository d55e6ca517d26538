"""The MLS plan: what every wave does, in order.

A streamed tile of depth 2 is brought one block ahead: at the head of an iteration the waves wait for their own loads
of its block, meet, and issue those of the next one into the stage that all of them have left. With depth 1 they meet,
load, wait and meet again. Nothing else needs a wait: what a wave reads from LDS it awaits itself, where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import Exponent, Output, Product
from tilegen.ir.mls_plan import (
    WAVES,
    Barrier,
    MlsOperation,
    MlsPlan,
    ReadItem,
    TileOperand,
    WaitLoads,
    WaveProduct,
    within,
)
from tilegen.ir.plan import (
    FragmentOperand,
    If,
    ItemTable,
    Let,
    Operation,
    Ring,
)
from tilegen.ir.scheduled import Phase, Scheduled, Straight, Stream
from tilegen.ir.tile import TileProgram
from tilegen.ir.uniform import Int, Sym, Uniform, op
from tilegen.passes.guard import with_parts
from tilegen.passes.synchronise.context import Context, carried, prune, rename, storage, symbols_in
from tilegen.passes.synchronise.geometry import position, tile_geometry
from tilegen.passes.synchronise.hopper import check_factors, domain_notes, tensors_of, tiles_in_shared
from tilegen.passes.synchronise.in_order import InOrder
from tilegen.passes.synchronise.loops import Layout
from tilegen.passes.synchronise.rows import check_rows
from tilegen.passes.synchronise.sequences import sequence_table, unit_lets
from tilegen.passes.synchronise.sides import initial_states, sides
from tilegen.passes.synchronise.stores import Stores
from tilegen.passes.synchronise.values import Values
from tilegen.passes.synchronise.work import ITEM, decode, split_lets, total_items
from tilegen.passes.synchronise_mls.restore import restore
from tilegen.passes.synchronise_mls.rings import aim, fetch, read_from, rings

STEP = 16  # columns and contracted positions of a matrix instruction


def synchronise(s: Scheduled, guard: Uniform | None = None) -> MlsPlan:
    """The plan of a scheduled program. Raises TilegenError for what cannot be, and for tiles that LDS does not hold."""
    check_rows(s)
    check_factors(s)
    tiles = {t: tile_geometry(s.program.tile.move(t), s) for t in tiles_in_shared(s)}
    held, top = rings(s, tiles)
    # what the values ask of a ring is whether consumers hold parts of their own: here they never do
    parts = {r.tile: Ring(r.tile, r.tile, r.depth, 1, 0, 0, 0, 0, "", 0, r.span) for r in held}
    context = Context(s, tiles, parts, storage(s))
    values = Values(context)
    body = _Waves(context, values, Stores(context, 0)).build()
    program = s.program.tile
    table = _items(s, body) if program.ragged else None
    if table is not None:
        body = (ReadItem(table.fields, s.order.span), *body)
    return MlsPlan(
        name=program.name,
        source=program.source,
        tensors=tensors_of(program),
        scalars=_scalars(program, body, table),
        rings=held,
        fragments=values.fragments(),
        body=body,
        waves=WAVES * s.workers.count,
        lds_bytes=top,
        items=total_items(s),
        title=program.title,
        blocks=tuple((r.axis, r.block) for r in s.roles if r.block > 1),
        table=table,
        notes=domain_notes(s),
        guard=guard,
    )


def _items(s: Scheduled, body: tuple[MlsOperation, ...]) -> ItemTable:
    """How the host lists items of sequences, and what of each the kernel uses."""
    lets = (*unit_lets(s), *split_lets(s))
    return sequence_table(s, ITEM, lets, Int(1), symbols_in(body), Int(1))


def _scalars(
    program: TileProgram, body: tuple[MlsOperation, ...], table: ItemTable | None
) -> tuple[tuple[str, bool], ...]:
    used = symbols_in(body) - set(table.fields if table else ())
    found = [(z.name, False) for z in program.sizes if z.name in used]
    return (*found, *((x.name, x.dtype.is_float) for x in program.scalars if x.name in used))


@dataclass
class _Waves(InOrder):
    """Builds the one sequence."""

    brought: set[str] = field(default_factory=set)  # resident tiles whose loads all waves have waited for
    loops: int = 0

    def build(self) -> tuple[MlsOperation, ...]:
        s = self.c.scheduled
        self.out = [] if s.program.tile.ragged else [*decode(s, ITEM)]
        self.out += initial_states(self.c, self.values)
        self.out += [aim(t, self.c) for t in self.c.tiles]
        for tile in (t for t in self.c.tiles if not self.c.streamed(t)):
            self.out += [fetch(tile, Int(0), self.c), read_from(tile, Int(0), self.c)]
        for phase in s.phases:
            self.values.moving = frozenset(x.op for x in phase.steps if isinstance(s.op(x.op), Exponent))
            if isinstance(phase, Straight):
                self._arrive([t for x in phase.steps for t in self.c.tiles_of(s.op(x.op))], phase)
                self.body(phase.body, phase, masked=True)
            else:
                self._stream(phase)
                self.out += restore(phase, self.c, self.values)
                self.out += self.values.combine_partials(phase.span)
        if self.c.tiles:  # what an item without blocks has brought and not read
            self.out.append(WaitLoads(s.span))
        constants: tuple[MlsOperation, ...] = tuple(self.values.constants())
        return prune(within((*constants, *self.out)))

    def _arrive(self, tiles: list[str], phase: Phase) -> None:
        """Resident tiles are there: this wave's loads done, then everybody's."""
        if set(tiles) - self.brought:
            self.out += [WaitLoads(phase.span), Barrier(phase.span)]
            self.brought |= {t for t in self.c.tiles if not self.c.streamed(t)}

    # ---- the streamed loop ----

    def _stream(self, phase: Stream) -> None:
        s = self.c.scheduled
        plan = self.begin_loop(phase)
        assert not plan.peeled, "distances are 0 on this machine"
        streamed = list(
            dict.fromkeys(t for x in phase.steps for t in self.c.tiles_of(s.op(x.op)) if self.c.streamed(t))
        )
        residents = [t for x in phase.steps for t in self.c.tiles_of(s.op(x.op)) if not self.c.streamed(t)]
        depth = min((s.tile(t).depth for t in streamed), default=1)
        if self.loops and streamed:  # the stages are left by the loop before
            self.out.append(Barrier(phase.span))
        self.loops += 1
        if depth > 1:
            first = self._fetches(streamed, plan, Int(0), depth)
            self.out.append(If(op("gt", plan.count, 0), within(first), phase.span))
        if not streamed or depth == 1:
            self._arrive(residents, phase)
        for part in plan.segments:
            self.out.append(self.segment(phase, plan, part, streamed, depth))
        self.brought |= set(residents)

    def iteration(self, phase: Stream, plan: Layout, masked: bool, streamed: list[str], depth: int) -> None:
        axis, span, time = phase.axis, phase.span, Sym(plan.time)
        block = self.c.scheduled.role(axis).block
        if streamed and depth > 1:
            self.out += [WaitLoads(span), Barrier(span)]
            ahead = op("add", time, 1)
            more = self._fetches(streamed, plan, ahead, depth)
            self.out.append(If(op("lt", ahead, plan.count), within(more), span))
        elif streamed:
            self.out += [Barrier(span), *self._fetches(streamed, plan, time, depth), WaitLoads(span), Barrier(span)]
        self.out.append(Let(f"{axis}.0", op("mul", plan.block(time), block), span))
        self.out += [read_from(t, op("mod", time, depth), self.c) for t in streamed]
        self.body(phase.body, phase, masked)

    def _fetches(self, tiles: list[str], plan: Layout, time: Uniform, depth: int) -> tuple[MlsOperation, ...]:
        """Loads of the block that is visited at a time, into its stage."""
        axis = plan.stream.axis
        block = self.c.scheduled.role(axis).block
        begin, stage = f"{axis}.0", op("mod", time, depth)
        loads: list[MlsOperation] = [Let(begin, op("mul", plan.block(time), block), plan.stream.span)]
        loads += [fetch(t, stage, self.c) for t in tiles]
        return rename(within(loads), begin, f"{axis}.next")

    # ---- what is computed ----

    def store(self, o: Output) -> None:
        stored: list[Operation] = []
        self.stores.emit(o, self.values, stored)
        first = self._first_of(o)
        self.out += stored if first == Int(1) else [If(first, tuple(stored), o.span, o.statement)]

    def _first_of(self, o: Output) -> Uniform:
        """Whether the item is the first of those that differ only in axes that an output does not have: it is stored
        once."""
        s = self.c.scheduled
        reach = with_parts(s.program.tile, o.axes)
        first: Uniform = Int(1)
        for role in s.roles:
            if role.role == "grid" and role.axis not in reach:
                first = op("and", first, op("eq", position(role.axis, s), 0))
        return first

    def product(self, o: Product, masked: bool) -> None:
        c = self.c
        a, b = sides(o, c)
        (contracted,) = o.over
        right = self._operand(b, contracted, by_group=False)
        g = c.tiles[b]
        n = g.rows if right.along == "cols" else g.cols
        depth = g.depth(contracted)
        left: TileOperand | FragmentOperand
        if a in c.tiles:
            left = self._operand(a, contracted, by_group=True)
        else:
            operand = self.values.operand(a)
            assert isinstance(operand, FragmentOperand)
            left = operand
        if depth % STEP:
            fail(Code.K_STEP, o.span, product=o.statement, axis=contracted, got=str(depth), wanted="a multiple of 16")
        accumulator = self.values.accumulator(o, n)
        begins, clean = not carried(o, c.stream), masked and c.scanned(b)
        made = WaveProduct(o.name, accumulator, left, right, n, depth, o.dtype, begins, clean, o.span, o.statement)
        self.out.append(made)

    def _operand(self, tile: str, contracted: str, *, by_group: bool) -> TileOperand:
        along = "cols" if self.c.tiles[tile].col_axis == contracted else "rows"
        return TileOperand(tile, along, by_group)
