"""The consumers' sequence: waits where data is first needed, releases after the await of its last reader.

Products are asynchronous: a group's accumulators, register operands and slots are in flight until a wait retires
it. Here every later use of one of them is preceded by that wait, as late as the schedule's `wait` allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tilegen.ir.folded import (
    Exponent,
    FoldedOp,
    Output,
    Product,
    Rescale,
)
from tilegen.ir.plan import (
    Advance,
    ArriveEmpty,
    Cursor,
    FenceAsync,
    For,
    Fragment,
    GroupSync,
    If,
    Init,
    Let,
    Mma,
    MmaCommit,
    MmaFence,
    MmaWait,
    Operation,
    OrderPass,
    OrderStart,
    OrderWait,
    SetRegisters,
    Slot,
    WaitClean,
    WaitFull,
    Work,
)
from tilegen.ir.scheduled import Batch, Item, Phase, Step, Straight, Stream
from tilegen.ir.uniform import Int, Sym, Uniform, op
from tilegen.passes.stale import ScaledSum, scaled_sum
from tilegen.passes.synchronise.beginnings import begun_by_products, is_first
from tilegen.passes.synchronise.context import Context, carried, prune, rename
from tilegen.passes.synchronise.copier import copied
from tilegen.passes.synchronise.edges import due_next, edge_at
from tilegen.passes.synchronise.loops import Layout, Rounds, Segment, keeps_one, layout
from tilegen.passes.synchronise.mend import mend
from tilegen.passes.synchronise.operands import operands
from tilegen.passes.synchronise.sides import beginnings, initial_states, nothing_to_rescale
from tilegen.passes.synchronise.stores import Stores
from tilegen.passes.synchronise.values import Values
from tilegen.passes.synchronise.work import ITEM, decode, total_items
from tilegen.syntax.span import Span

ORDER_ID = 1  # named barrier 0 is __syncthreads


@dataclass(frozen=True)
class _Group:
    """A committed wgmma group in flight."""

    tokens: tuple[str, ...]
    registers: frozenset[str]  # storage of its accumulators and register operands
    tiles: tuple[str, ...]  # a reader each
    lagging: bool  # awaited one iteration later: the only reader of its streamed tiles


@dataclass
class Consumer:
    """Builds the body of the consumer role."""

    c: Context
    values: Values
    stores: Stores
    out: list[Operation] = field(default_factory=list)
    groups: list[_Group] = field(default_factory=list)
    waited: set[str] = field(default_factory=set)  # tiles whose slot is known full
    readers: dict[str, int] = field(default_factory=dict)  # streamed tiles: readers left in this iteration
    lagging: set[str] = field(default_factory=set)  # tiles released one iteration late
    ahead: tuple[str, ...] = ()  # tiles awaited at the end of an iteration, for the one after it
    more: Uniform | None = None  # in a loop: whether another iteration follows
    now: tuple[Layout, Uniform] | None = None  # the loop, and its time
    begun: frozenset[str] = frozenset()  # accumulators that begin with their first product

    def build(self) -> tuple[tuple[Operation, ...], tuple[Cursor, ...], tuple[Fragment, ...]]:
        s, c = self.c.scheduled, self.c
        span = s.span
        self.lagging = {
            t
            for phase in s.phases
            for item in phase.body
            if isinstance(item, Batch) and item.wait == "next"
            for step in item.steps
            for t in c.tiles_of(s.op(step.op))
            if c.streamed(t)
        }
        self.out = [] if c.tabled else list(decode(s, ITEM))
        self.begun = begun_by_products(s, c.stream)
        self.out += initial_states(self.c, self.values, self.begun)
        last_use = self._last_phase_of_residents()
        for n, phase in enumerate(s.phases):
            self._phase(phase, [t for t, at in last_use.items() if at == n and not self.stores.keeps(t)])
            if isinstance(phase, Stream):
                self.out += mend(phase, self.c, self.values)
                self.out += self.values.combine_partials(phase.span)
            for tile in [t for t, at in last_use.items() if at == n and not self.stores.keeps(t)]:
                self._release_resident(tile)
        for tile in [t for t in last_use if self.stores.keeps(t)]:
            self._release_resident(tile)
        body = (Work(ITEM, total_items(s), s.order.persistent or "single", tuple(self.out), span),)
        before: list[Operation] = []
        if s.workers.consumer_registers is not None:
            before.append(SetRegisters(s.workers.consumer_registers, True, s.workers.span))
        before += self.values.constants()
        if s.turns:
            before.append(OrderStart(ORDER_ID, s.workers.span))
        after = self.stores.finish()
        cursors = [Cursor(f"{t}_read", t) for t in c.rings]
        cursors += [Cursor(f"{t}_free", t) for t in c.rings if t in self.lagging]
        return prune((*before, *body, *after)), tuple(cursors), self.values.fragments()

    # ---- states and residents ----

    def _fill(self, phase: Stream, plan: Layout) -> None:
        """Zeros for accumulators that begin with their first product, where there is none."""
        products = [o for x in phase.steps if (o := self.c.scheduled.op(x.op)).name in self.begun]
        fills = tuple(Init(self.values.state(o), 0.0, o.span, o.statement) for o in products)
        if fills:
            self.out.append(If(op("le", plan.count, 0), fills, phase.span))

    def _last_phase_of_residents(self) -> dict[str, int]:
        last: dict[str, int] = {}
        for n, phase in enumerate(self.c.scheduled.phases):
            for step in phase.steps:
                for t in self.c.tiles_of(self.c.scheduled.op(step.op)):
                    if not self.c.streamed(t):
                        last[t] = n
        return last

    def _release_resident(self, tile: str) -> None:
        if tile not in self.waited:
            return
        self.waited.discard(tile)
        self._release(tile)

    def _release(self, tile: str, passed: bool = False) -> None:
        """passed: the cursor of what is read has gone on already, when the product was issued."""
        span = self.c.tiles[tile].move.span
        cursor = f"{tile}_free" if tile in self.lagging else f"{tile}_read"
        self.out.append(ArriveEmpty(Slot(tile, cursor), span, tile))
        self.out.append(Advance(cursor, span, tile))
        if tile in self.lagging and not passed:
            self.out.append(Advance(f"{tile}_read", span, tile))

    def _wait_full(self, tile: str) -> None:
        if tile in self.waited:
            return
        self.waited.add(tile)
        wait = WaitClean if self.c.scanned(tile) else WaitFull
        span = self.c.tiles[tile].move.span
        self.out.append(wait(Slot(tile, f"{tile}_read"), span, tile))
        if copied(tile, self.c.scheduled) and not self.c.streamed(tile) and self._is_factor(tile):
            self.out.append(FenceAsync(span, tile))  # once, whatever loop reads it first

    def _is_factor(self, tile: str) -> bool:
        return any(isinstance(o, Product) and tile in (o.a, o.b) for o in self.c.scheduled.program.ops)

    def _wait_to_pass(self, tile: str, left: Uniform, span: Span) -> None:
        """Before a slot is freed unread, with `left` more to pass by: it need not have been looked through.

        But a wait tells a phase from the one before it alone, and the scanner goes from slot to slot: with a slot of
        the last round waited for, the next that is read in the same stage is one round on, and no more.
        """
        depth = self.c.rings[tile].depth
        if not self.c.scanned(tile) or depth == 1:
            self._wait_full(tile)
            return
        self.waited.add(tile)
        slot, where = Slot(tile, f"{tile}_read"), self.c.tiles[tile].move.span
        self.out.append(WaitFull(slot, where, tile))
        self.out.append(If(op("ge", left, depth - 1), (WaitClean(slot, where, tile),), span))

    # ---- products in flight ----

    def _retire(self, registers: Iterable[str], span: Span) -> None:
        """Wait for every group that has one of these registers in flight, and for those before it."""
        wanted = set(registers)
        hit = [n for n, g in enumerate(self.groups) if g.registers & wanted]
        if hit:
            self._retire_up_to(hit[-1], span)

    def _retire_up_to(self, index: int, span: Span) -> None:
        if self.more is not None and edge_at(self.out):
            self._wait_ahead(1)
        done, self.groups = self.groups[: index + 1], self.groups[index + 1 :]
        tokens = tuple(t for g in done for t in g.tokens)
        statement = ", ".join(dict.fromkeys(self.c.scheduled.op(t).statement for t in tokens))
        self.out.append(MmaWait(len(self.groups), tokens, span, statement))
        for g in done:
            if g.lagging:
                for tile in dict.fromkeys(g.tiles):
                    if self.c.streamed(tile):
                        self._release(tile, passed=True)
                continue
            for tile in g.tiles:
                self._read_done(tile)

    def _retire_all(self, span: Span) -> None:
        if self.groups:
            self._retire_up_to(len(self.groups) - 1, span)

    def _read_done(self, tile: str) -> None:
        """One reader of a tile has finished; the last one releases a streamed slot."""
        if not self.c.streamed(tile):
            return
        self.readers[tile] -= 1
        if self.readers[tile] == 0:
            self.waited.discard(tile)
            self._release(tile)

    def _wait_ahead(self, most: int) -> None:
        """Wait for `most` of the slots that the next iteration begins with, if there is one."""
        assert self.more is not None
        for tile in [t for t in self.ahead if t not in self.waited][:most]:
            wait = self._nested(partial(self._wait_full, tile))
            self.out.append(If(self.more, wait, self.c.tiles[tile].move.span, tile))

    # ---- phases ----

    def _phase(self, phase: Phase, ending: list[str]) -> None:
        """`ending`: residents that no later phase reads."""
        self.values.moving = frozenset(x.op for x in phase.steps if isinstance(self.c.scheduled.op(x.op), Exponent))
        if isinstance(phase, Straight):
            self._body(phase.body, phase, time=None, masked=True)
            self._retire_all(phase.span)
            return
        for step in phase.steps:  # residents: ready before the loop whether it runs or not
            for t in self.c.tiles_of(self.c.scheduled.op(step.op)):
                if not self.c.streamed(t):
                    self._wait_full(t)
        plan = layout(phase, self.c.scheduled)
        self.out += plan.own_lets if self.c.tabled else (*plan.lets, *plan.own_lets)
        self.out += beginnings(phase, self.c, self.values)
        self.values.hoist_loads(phase, self.out)
        if plan.peeled:
            self._peeled(phase, plan, ending)
        else:
            self._pass_by(phase, plan, Int(0), plan.skipped)
            self._all_loops(phase, plan)
            self._pass_by(phase, plan, plan.stop, plan.count)
        self._fill(phase, plan)

    def _nested(self, build: Callable[[], None]) -> tuple[Operation, ...]:
        saved, self.out = self.out, []
        build()
        inner, self.out = self.out, saved
        return tuple(inner)

    def _peeled(self, phase: Stream, plan: Layout, ending: list[str]) -> None:
        lagging = keeps_one(phase)
        start = f"{phase.axis}.0"
        some = op("gt", plan.count, 0)

        def until_drain() -> None:
            self._pass_by(phase, plan, Int(0), plan.skipped)
            first = self._nested(
                lambda: self._iteration(phase, plan, plan.skipped, masked=plan.guarded, only=None if lagging else 0)
            )
            self.out += rename(first, start, f"{start}_first")
            self._all_loops(phase, plan)
            if lagging:
                self._retire_all(phase.span)
                self._pass_by(phase, plan, plan.stop, plan.count)

        def drain() -> None:
            last = self._nested(lambda: self._iteration(phase, plan, plan.stop, masked=plan.guarded, only=phase.reach))
            self.out += rename(last, start, f"{start}_last")
            self._pass_by(phase, plan, plan.stop, plan.count)

        self.out.append(If(some, self._nested(until_drain), phase.span))
        if lagging:
            return
        # a tile that the last steps do not read is free before them, so that the next item's can come under them
        late = {t for x in phase.steps if x.distance for t in self.c.tiles_of(self.c.scheduled.op(x.op))}
        for tile in ending:
            if tile not in late:
                self._release_resident(tile)
        self.out.append(If(some, self._nested(drain), phase.span))

    def _pass_by(self, phase: Stream, plan: Layout, start: Uniform, stop: Uniform) -> None:
        """Iterations that none of this warpgroup's rows needs: its turns are taken, the slots are freed."""
        if start == stop:
            return
        turns = any(x.op in self.c.scheduled.turns for x in phase.steps)
        # The drain has had a turn of its own: turns now come one iteration late, and the others must not wait for
        # slots that are freed behind them.
        behind = stop == plan.count and phase.reach > 0

        def turn() -> None:
            self.out.append(OrderWait(ORDER_ID, phase.span))
            self.out.append(OrderPass(ORDER_ID, phase.span))

        def tiles(distance: int) -> list[str]:
            steps = [x for x in phase.steps if x.distance == distance]
            found = [t for x in steps for t in self.c.tiles_of(self.c.scheduled.op(x.op)) if self.c.streamed(t)]
            return list(dict.fromkeys(found))

        def passing() -> None:
            for distance in range(phase.reach + 1):
                for tile in tiles(distance):
                    if start == Int(0):
                        self._wait_to_pass(tile, op("sub", op("sub", stop, plan.time), 1), phase.span)
                    else:
                        self._wait_full(tile)
                if distance == 0 and turns and not behind:
                    turn()
                elif tiles(distance):  # one thread frees the slot: every warp must have seen it full
                    self.out.append(GroupSync(self.stores.group_id, phase.span))
                for tile in tiles(distance):
                    self.waited.discard(tile)
                    self._release(tile)
                if distance == 0 and turns and behind:
                    turn()

        body = self._nested(passing)
        self.out.append(For(plan.time, start, stop, body, "blocks that no row of these needs", phase.span))

    def _all_loops(self, phase: Stream, plan: Layout) -> None:
        """The loops; with work under a product, once more with the waits that keep it there."""
        build = partial(self._loops, phase, plan, plan.segments)
        loops = self._nested(build)
        self.ahead = due_next(loops)
        if self.ahead:
            self.more = op("lt", plan.begin, plan.stop)
            self._wait_ahead(len(self.ahead))
            self.more = None
            loops = self._nested(build)
            self.waited -= set(self.ahead)
            self.ahead = ()
        self.out += loops

    def _loops(self, phase: Stream, plan: Layout, segments: Sequence[Segment | Rounds]) -> None:
        for part in segments:
            flying, waited = list(self.groups), set(self.waited)
            if isinstance(part, Rounds):
                inner = self._nested(partial(self._loops, phase, plan, part.segments))
                body = (*part.lets, *inner)
                self.out.append(For(part.var, Int(0), Int(part.count), body, part.label, phase.span))
            else:
                step = partial(
                    self._iteration,
                    phase,
                    plan,
                    Sym(plan.time),
                    masked=part.masked,
                    keeps=part.late,
                    only=None,
                )
                self.out.append(For(plan.time, part.start, part.stop, self._nested(step), part.label, phase.span))
            # a loop leaves in flight what it found in flight, so that any number of rounds is the same
            assert [g.tokens for g in self.groups] == [g.tokens for g in flying] and waited == self.waited

    def _count_readers(self, phase: Stream, only: int | None) -> None:
        for step in (x for i in phase.body if not (isinstance(i, Batch) and i.wait == "next") for x in _steps(i)):
            if only is None or step.distance == only:
                for t in self.c.tiles_of(self.c.scheduled.op(step.op)):
                    if self.c.streamed(t):
                        self.readers[t] = self.readers.get(t, 0) + 1

    def _iteration(
        self, phase: Stream, plan: Layout, time: Uniform, *, masked: bool, only: int | None, keeps: bool = False
    ) -> None:
        """One time of the loop: all steps, or those with distance `only`."""
        self._count_readers(phase, only)
        axis = plan.stream.axis
        block = self.c.scheduled.role(axis).block
        at = op("sub", time, plan.shift)  # the iteration whose values are computed now
        self.out.append(Let(f"{axis}.0", op("mul", plan.block(at), block), phase.span))
        steps = tuple(
            item
            if only is None
            else Batch(tuple(x for x in item.steps if x.distance == only), item.wait, item.span)
            if isinstance(item, Batch)
            else item
            for item in phase.body
            if only is None or isinstance(item, Batch) or item.distance == only
        )
        self.now = (plan, time)
        if time == Sym(plan.time):
            self.more = op("lt", op("add", time, 1), plan.stop)
        self._body(steps, phase, time, masked, keeps)
        if not keeps_one(phase):
            self._retire_all(phase.span)
        if self.more is not None:
            self._wait_ahead(len(self.ahead))
            self.more = None

    def _body(
        self, items: tuple[Item, ...], phase: Phase, time: Uniform | None, masked: bool, keeps: bool = False
    ) -> None:
        turns = set(self.c.scheduled.turns)
        batches = [i for i in items if isinstance(i, Batch) and i.steps]
        taking = [b for b in batches if any(x.op in turns for x in b.steps)]
        active = {x.op for i in items for x in _steps(i)}
        self.values.new_iteration()
        kept = self._kept(phase) if (keeps or not masked) and isinstance(phase, Stream) else []
        for item in items:
            group = next((g for g in kept if isinstance(item, Step) and item.op in g.members), None)
            if group is not None:
                if isinstance(item, Step) and item.op == group.exponent.name:
                    group = replace(group, rescales=tuple(o for o in group.rescales if o.source in active))
                    apart = self._reads_in_flight(group)
                    for made in self.values.keep_exponent(group, apart=apart):
                        self._retire(made.registers, item.span)
                        self.out += made.operations
                continue
            if isinstance(item, Batch):
                if item.steps:
                    self._batch(item, first=taking[:1] == [item], last=taking[-1:] == [item])
            else:
                o = self.c.scheduled.op(item.op)
                if isinstance(o, Rescale) and nothing_to_rescale(o, phase, active, self.c, self.values):
                    continue
                self._step(item, o, masked)

    def _reads_in_flight(self, group: ScaledSum) -> bool:
        """Whether a product in flight reads, from registers, what the group's weights are packed into."""
        casts = [o.name for o in group.casts]
        held = {r for name in casts for r in self.values.registers_of(name)}
        return any(g.registers & held for g in self.groups) and not set(casts) & set(self.c.scheduled.placed)

    def _kept(self, phase: Stream) -> list[ScaledSum]:
        """Scaled sums that keep their exponent in a variant of the loop without masks."""
        s = self.c.scheduled
        return [g for e in s.stale if (g := scaled_sum(e, phase, s.program)) is not None]

    # ---- steps ----

    def _batch(self, batch: Batch, *, first: bool, last: bool) -> None:
        s = self.c.scheduled
        products = [s.op(x.op) for x in batch.steps]
        for o in products:
            assert isinstance(o, Product)
            for tile in self.c.tiles_of(o):
                self._wait_full(tile)
        # what threads have copied is for tensor cores to see once it is known to be there
        fenced = [t for o in products for t in self.c.tiles_of(o) if self.c.streamed(t) and copied(t, s)]
        if fenced:
            self.out.append(FenceAsync(batch.span, ", ".join(dict.fromkeys(fenced))))
        if first:
            self.out.append(OrderWait(ORDER_ID, batch.span, products[0].statement))
        elif any(n in s.placed for o in products if isinstance(o, Product) for n in (o.a, o.b)):
            # every warp's rows must be there: a turn brings them together too
            self.out.append(GroupSync(self.stores.group_id, batch.span, products[0].statement))
        self.out.append(MmaFence(batch.span, products[0].statement))
        registers: set[str] = set()
        tiles: list[str] = []
        for step, o in zip(batch.steps, products, strict=True):
            assert isinstance(o, Product)
            mma, held = self._mma(o, step)
            self.out.append(mma)
            registers |= held
            tiles += self.c.tiles_of(o)
        tokens = tuple(o.name for o in products)
        self.out.append(MmaCommit(tokens, batch.span, products[0].statement))
        if last:
            self.out.append(OrderPass(ORDER_ID, batch.span, products[-1].statement))
        group = _Group(tokens, frozenset(registers), tuple(tiles), batch.wait == "next")
        if batch.wait == "next":
            # the readers of this iteration finish one iteration later; the slot is read no more here
            for tile in dict.fromkeys(tiles):
                if self.c.streamed(tile):
                    self.waited.discard(tile)
                    self.out.append(Advance(f"{tile}_read", self.c.tiles[tile].move.span, tile))
            previous = list(self.groups)
            self.groups.append(group)
            if previous:
                self._retire_up_to(len(previous) - 1, batch.span)
            return
        self.groups.append(group)
        if batch.wait == "now":
            self._retire_all(batch.span)

    def _mma(self, o: Product, step: Step) -> tuple[Mma, set[str]]:
        x = operands(o, self.c, self.values)
        held = {self.values.register(x.accumulator)}
        if x.computed is not None:
            held.add(self.values.register(x.computed))
        zero: bool | Uniform = not carried(o, self.c.stream)
        if o.name in self.begun and self.now is not None:
            zero = is_first(step, self.now[1], self.now[0])
        return Mma(o.name, x.accumulator, x.a, x.b, x.n, o.dtype, zero, o.span, o.statement), held

    def _step(self, step: Step, o: FoldedOp, masked: bool) -> None:
        """One operation that is no product."""
        if isinstance(o, Output):
            self._retire(self.values.registers_of(o.source), o.span)
            self.stores.emit(o, self.values, self.out)
            return
        for tile in self.c.tiles_of(o):
            self._wait_full(tile)
        made = self.values.lower(o, masked)
        self._retire(made.registers, o.span)
        self.out += made.operations
        for tile in made.read_tiles:
            self._read_done(tile)


def _steps(item: Item) -> tuple[Step, ...]:
    return item.steps if isinstance(item, Batch) else (item,)
