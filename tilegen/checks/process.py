"""One process of a CTA: a role as one of its warpgroups (or its elected thread) runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tilegen.checks.accumulators import Accumulators
from tilegen.checks.barriers import MBarrier, Meeting, TurnBarrier, in_cluster
from tilegen.checks.items import items, names_of
from tilegen.checks.machine import Event, Machine, Step, StopRun, part_of
from tilegen.checks.regions import operands
from tilegen.checks.shared import Flight, Site
from tilegen.diagnostics.catalogue import Code
from tilegen.ir import plan as ir
from tilegen.ir.plan_text import Path

_WAITS = (ir.WaitFull, ir.WaitClean, ir.WaitEmpty, ir.OrderWait, ir.CtaSync)
# the most frequent of those that touch a warpgroup's own registers only
_IN_REGISTERS = frozenset((
    ir.Map, ir.FmaOob, ir.Mask, ir.RowFold, ir.QuadReduce, ir.Relayout, ir.CopyOperand, ir.Init, ir.MmaFence,
))  # fmt: skip


class Waiting(NamedTuple):
    """What a process waits for: a generation of an mbarrier, its turn, or a meeting of all."""

    site: Site
    barrier: MBarrier | TurnBarrier | Meeting
    generation: int = 0

    @property
    def over(self) -> bool:
        if isinstance(self.barrier, TurnBarrier):
            return self.barrier.passed is not None
        return self.barrier.done > self.generation


@dataclass
class _Product:
    token: str
    flights: list[Flight]


@dataclass
class Process:
    """`run` yields what the process waits for whenever it may not go on."""

    machine: Machine
    role: ir.RolePlan
    role_index: int
    index: int  # of the warpgroup in its role
    ctas: int
    symbols: Mapping[str, int]
    cursors: dict[str, int] = field(default_factory=dict)
    open_products: list[_Product] = field(default_factory=list)
    products: list[list[_Product]] = field(default_factory=list)
    open_stores: list[Flight] = field(default_factory=list)
    stores: list[list[Flight]] = field(default_factory=list)
    copy_groups: int = 0  # that it has closed
    copying: list[tuple[int, Site]] = field(default_factory=list)  # copies not awaited, each with its group's number
    waits: dict[tuple[str, int], int] = field(default_factory=dict)  # (ring, part): full waits done
    at: tuple[ir.Operation, Path] | None = None  # what it is doing

    def __post_init__(self) -> None:
        self.group = self.machine.group(self.role)
        self.copies = self.machine.copies_agent()
        own = self.role.name if self.role.warpgroups == 1 else f"{self.role.name} {self.index}"
        self.name = own + in_cluster(self.machine.rank if self.machine.plan.cluster > 1 else None)
        self.cursors = {c.name: 0 for c in self.role.cursors}
        self.values = names_of(self.machine.plan, self.symbols, self.machine.cta, self.index)
        self.accumulators = Accumulators(self.role, self.role_index, self.machine.regions)

    def run(self) -> Iterator[Waiting]:
        """The whole role. Raises StopRun after a fault that leaves nothing to go by."""
        try:
            yield from self._body(self.role.body, ("role", self.role_index))
        except ZeroDivisionError:
            assert self.at is not None
            self.machine.fault(Code.DIVISION_BY_ZERO, Site(self.name, *self.at))
            raise StopRun from None
        for flight in (*self.open_stores, *(f for g in self.stores for f in g)):
            self.machine.fault(Code.PIPELINE_STORES, flight.site)
        for _, site in self.copying:
            self.machine.fault(Code.PIPELINE_COPIES, site)

    def _body(self, body: tuple[ir.Operation, ...], path: Path) -> Iterator[Waiting]:
        values, number = self.values, self.machine.numbers
        for position, operation in enumerate(body):
            here = (*path, position)
            self.at = (operation, here)
            match operation:
                case ir.Let(name, value):
                    values[name] = number(value, values)
                case ir.If(condition, inner):
                    if number(condition, values):
                        yield from self._body(inner, here)
                case ir.For(name, start, stop, inner):
                    for turn in range(number(start, values), number(stop, values)):
                        values[name] = turn
                        yield from self._body(inner, here)
                case ir.Work():
                    for bound in items(
                        self.machine.plan, operation, values, self.symbols, self.machine.cta, self.ctas, number
                    ):
                        values.update(bound)
                        self.accumulators.start()
                        yield from self._body(operation.body, here)
                case ir.Sweep(inner) | ir.IfVote(_, inner):  # the warps that take a vote's branch write there once more
                    yield from self._body(inner, here)
                case ir.Advance(cursor):
                    self.cursors[cursor] += 1
                case _:
                    if self.machine.observe is not None:
                        self.machine.observe(
                            Step(self.name, self.machine.rank, self.index, operation, here, dict(self.cursors))
                        )
                    if id(operation) in self.accumulators.touched and not self.accumulators.run(operation, values):
                        self.machine.fault(Code.PIPELINE_ACCUMULATOR, Site(self.name, operation, here))
                    if type(operation) in _IN_REGISTERS:
                        continue
                    site = Site(self.name, operation, here)
                    if isinstance(operation, _WAITS):
                        yield from self._step(operation, site)
                    else:
                        self._effect(operation, site)

    def _step(self, operation: ir.Operation, site: Site) -> Iterator[Waiting]:
        match operation:
            case ir.WaitFull(slot):
                barrier, generation = self._barrier(slot, "full", site)
                yield from self._wait(site, barrier, generation)
                key = (slot.ring, barrier.name.part)
                self.waits[key] = self.waits.get(key, 0) + 1
            case ir.WaitClean(slot):
                barrier, generation = self._barrier(slot, "clean", site)
                yield from self._wait(site, barrier, generation)
            case ir.WaitEmpty(slot):
                barrier, generation = self._barrier(slot, "empty", site)
                if generation > 0:  # opposite parity: the first fills find the ring empty
                    yield from self._wait(site, barrier, generation - 1)
            case ir.OrderWait(first):
                yield from self._take_turn(site, self.machine.turn(first + self.index))
            case ir.CtaSync():
                yield from self._meet(site)

    def _effect(self, operation: ir.Operation, site: Site) -> None:
        """Operations that never wait."""
        match operation:
            case ir.OrderPass(first):
                self._pass_turn(site, self.machine.turn(first + (self.index + 1) % self.role.warpgroups))
            case ir.OrderStart(first) if self.index == self.role.warpgroups - 1:
                self._pass_turn(site, self.machine.turn(first))
            case ir.Expect(slot, size):
                barrier, generation = self._barrier(slot, "full", site)
                barrier.expected[generation] = barrier.expected.get(generation, 0) + size
                self.group.stamp_lead()
                self.machine.arrive(site, barrier, generation, self.group.lead, self.group.lead, 1)
            case ir.TmaLoad():
                self._load(operation, site)
            case ir.CopyTile():
                self._copy(operation, site)
            case ir.SignalCopies(slot):
                barrier, generation = self._barrier(slot, "full", site)
                barrier.expected.setdefault(generation, 0)
                self.group.stamp()
                everyone, each = self.group.union(), self.group.common()
                self.machine.arrive(site, barrier, generation, everyone, each, self.role.threads)
            case ir.ArriveEmpty(slot):
                self._release(slot, site)
            case ir.ArriveClean(slot):
                barrier, generation = self._barrier(slot, "clean", site)
                self.group.stamp()
                _, count = self.role.warps_of_group
                self.machine.arrive(site, barrier, generation, self.group.union(), self.group.common(), count)
            case ir.ScanSlot(slot):
                # a read and a write of the same threads; what the slot holds stays what it is called
                pieces, content = self._slot(operation, slot)
                self._event(site, self.cursors[slot.cursor])
                stamps, clock = self.group.stamp(), self.group.common()
                self.machine.memory.read(site, pieces, content, (), clock)
                self.machine.memory.write(site, pieces, content, stamps, clock, False)
            case ir.GroupSync():
                self.group.stamp()
                self.group.meet()
            case ir.FenceAsync():
                self.group.fence()
            case ir.CopyCommit():
                self._event(site)
                self.copy_groups += 1
            case ir.CopyWait(pending):
                self._event(site)
                last = self.copy_groups - pending
                self.group.finished(self.copies, last)
                self.copying = [c for c in self.copying if c[0] > last]
            case ir.WarpMma():
                self._multiply(operation, site)
            case ir.Mma():
                self._issue(operation, site)
            case ir.MmaCommit():
                if self.open_products:
                    self.products.append(self.open_products)
                    self.open_products = []
            case ir.MmaWait(pending):
                self._retire(pending)
            case ir.ReadShared(_, slot):
                pieces, content = self._slot(operation, slot)
                self._event(site, self.cursors[slot.cursor])
                self.machine.memory.read(site, pieces, content, self.group.stamp(), self.group.common())
            case ir.WriteShared(buffer):
                pieces = self.machine.regions.of_access(self.role, operation, operation.stage, self.index, self.index)
                self._event(site)
                stamps, clock = self.group.stamp(), self.group.common()
                content = (buffer, operation.stage, self.index)
                self.machine.memory.write(site, pieces, content, stamps, clock, False)
            case ir.TmaStore(_, _, buffer):
                pieces = self.machine.regions.of_access(self.role, operation, operation.stage, self.index, self.index)
                self._event(site)
                content = (buffer, operation.stage, self.index)
                flight = self.machine.memory.fly(site, pieces, content, self.group.lead)
                self.open_stores.append(flight)
            case ir.StoreCommit():
                self.stores.append(self.open_stores)
                self.open_stores = []
            case ir.StoreWait(pending):
                done = self.stores[: max(len(self.stores) - pending, 0)]
                self.stores = self.stores[len(done) :]
                stamps = self.group.stamp_lead()
                for flight in (f for store in done for f in store):
                    self.machine.memory.land(flight, stamps)

    # ---- rings ----

    def _barrier(self, slot: ir.Slot, kind: str, site: Site) -> tuple[MBarrier, int]:
        position = self.cursors[slot.cursor]
        self._event(site, position)
        return self.machine.barrier(slot, kind, position, self.index)

    def _wait(self, site: Site, barrier: MBarrier, generation: int) -> Iterator[Waiting]:
        if not barrier.knows_before(self.group.common(), generation):
            self.machine.fault(Code.PIPELINE_SKIPPED, site, barrier=str(barrier.name), generation=generation)
        waiting = Waiting(site, barrier, generation)
        while not waiting.over:
            yield waiting
        if barrier.done > generation + 1:
            self.machine.fault(Code.PIPELINE_LAPPED, site, barrier=str(barrier.name), generation=generation)
            raise StopRun
        self.group.learn(barrier.ends[generation])
        barrier.waits.setdefault(generation, []).append((self.group.stamp(), site))

    def _release(self, slot: ir.Slot, site: Site) -> None:
        ring, position = self.machine.plan.ring(slot.ring), self.cursors[slot.cursor]
        self._event(site, position)
        count = self.role.releases(ring)
        if self.role.frees_by_warp(ring):
            self.group.stamp()
            everyone, each = self.group.union(), self.group.common()
        else:
            self.group.stamp_lead()
            everyone = each = self.group.lead
        for cta in self.machine.sharers(ring):
            barrier, generation = cta.barrier(slot, "empty", position, self.index)
            self.machine.arrive(site, barrier, generation, everyone, each, count)

    def _load(self, load: ir.TmaLoad, site: Site) -> None:
        ring, position = self.machine.plan.ring(load.slot.ring), self.cursors[load.slot.cursor]
        self._event(site, position)
        stage, part, content = self._place(load.slot)
        sharers = self.machine.sharers(ring)
        pieces = self.machine.regions.of_access(
            self.role, load, stage, part, self.index, sharers.index(self.machine) if ring.sharers else 0
        )
        for cta in sharers:
            barrier, generation = cta.barrier(load.slot, "full", position, self.index)
            barrier.loaded[generation] = barrier.loaded.get(generation, 0) + load.bytes
            if barrier.done > generation:
                self.machine.bytes_fault(site, barrier, generation)
                raise StopRun
            if cta is not self.machine:
                self._check_remote(site, barrier, generation)
            # over when the barrier's phase ends, and known to those who wait for that
            stamps = ((barrier.agent, generation + 1),)
            cta.memory.write(site, pieces, content, stamps, self.group.lead, True)
            barrier.phase.clock.join(self.group.lead)
            self.machine.settle(barrier)

    def _check_remote(self, site: Site, barrier: MBarrier, generation: int) -> None:
        """Bytes that come to another CTA count in the phase that its barrier is in then."""
        barrier.arrived.setdefault(generation, set()).add(site.process)
        if barrier.done != generation or not barrier.knows_before(self.group.lead, generation):
            some_order = ", in some order of events" if barrier.done == generation else ""
            current = f"{barrier.done if not some_order else generation - 1}{some_order}"
            self.machine.fault(
                Code.PIPELINE_ARRIVALS, site, barrier=str(barrier.name), generation=generation, current=current
            )
            raise StopRun

    def _copy(self, copy: ir.CopyTile, site: Site) -> None:
        # writes of threads: over for those who learn of the signal, which comes after them
        self._event(site, self.cursors[copy.slot.cursor])
        pieces, content = self._slot(copy, copy.slot)
        clock = self.group.common()
        stamps = self.group.stamp()
        if not self.machine.plan.ring(copy.slot.ring).barriers and copy.width in ir.ASYNCHRONOUS:
            # there is no signal: over for those who learn that the process has waited for its group
            stamps = ((self.copies, self.copy_groups + 1),)
            self.copying.append((self.copy_groups + 1, site))
        self.machine.memory.write(site, pieces, content, stamps, clock, False)

    def _slot(
        self, operation: ir.TmaLoad | ir.CopyTile | ir.ReadShared | ir.ScanSlot, slot: ir.Slot
    ) -> tuple[tuple[int, ...], tuple[str, int, int]]:
        """Pieces that an operation touches in a slot, and what they hold in this generation."""
        stage, part, content = self._place(slot)
        return self.machine.regions.of_access(self.role, operation, stage, part, self.index), content

    def _place(self, slot: ir.Slot) -> tuple[int, int, tuple[str, int, int]]:
        ring = self.machine.plan.ring(slot.ring)
        position = self.cursors[slot.cursor]
        part = part_of(ring, slot, self.index)
        return position % ring.depth, part, (ring.name, part, position)

    # ---- products ----

    def _issue(self, mma: ir.Mma, site: Site) -> None:
        # a product needs all four warps: it starts when each has come here (as libraries that release a slot by
        # one thread of a warpgroup rely on)
        # What its own threads have written is another matter: they have to meet before.
        before = self.group.common()
        self.group.stamp()
        self.group.meet()
        flights = []
        for operand, extent in operands(mma):
            if isinstance(operand, ir.BufferOperand):
                pieces = self.machine.regions.of_operand(operand, extent, mma.dtype, 0, self.index, self.index)
                self._event(site)
                flights.append(self.machine.memory.fly(site, pieces, (operand.buffer, 0, self.index), before))
                continue
            stage, part, content = self._place(operand.slot)
            pieces = self.machine.regions.of_operand(operand, extent, mma.dtype, stage, part, self.index)
            self._event(site, self.cursors[operand.slot.cursor])
            flights.append(self.machine.memory.fly(site, pieces, content, self.group.lead))
        self.open_products.append(_Product(mma.token, flights))

    def _retire(self, pending: int) -> None:
        done = self.products[: max(len(self.products) - pending, 0)]
        self.products = self.products[len(done) :]
        stamps = self.group.stamp_lead()
        self.group.rest.known[stamps[0][0]] = stamps[0][1]  # every warp waits, and knows the product to be over
        for flight in (f for products in done for p in products for f in p.flights):
            self.machine.memory.land(flight, stamps)

    def _multiply(self, mma: ir.WarpMma, site: Site) -> None:
        """Reads of threads, over when the operation is."""
        for operand, extent in operands(mma):
            assert isinstance(operand, ir.SlotOperand)
            stage, part, content = self._place(operand.slot)
            pieces = self.machine.regions.of_operand(operand, extent, mma.dtype, stage, part, self.index)
            self._event(site, self.cursors[operand.slot.cursor])
            self.machine.memory.read(site, pieces, content, self.group.stamp(), self.group.common())

    # ---- turns and meetings ----

    def _meet(self, site: Site) -> Iterator[Waiting]:
        self._event(site)
        meeting = self.machine.meeting
        self.group.stamp()
        waiting = Waiting(site, meeting, meeting.done)
        meeting.arrive(site, self.group.union())
        while not waiting.over:
            yield waiting
        assert meeting.over is not None
        self.group.learn(meeting.over)

    def _take_turn(self, site: Site, turn: TurnBarrier) -> Iterator[Waiting]:
        self._event(site)
        waiting = Waiting(site, turn)
        while not waiting.over:
            yield waiting
        assert turn.passed is not None
        turn.last_wait = self.group.stamp()
        self.group.learn(turn.passed)
        self.group.meet()
        turn.passed = turn.site = None

    def _pass_turn(self, site: Site, turn: TurnBarrier) -> None:
        self._event(site)
        self.group.stamp()
        if turn.passed is not None or not self.group.common().knows(turn.last_wait):
            self.machine.fault(Code.PIPELINE_TURNS, site)
            raise StopRun
        turn.passed, turn.site = self.group.union(), site

    def _event(self, site: Site, position: int = -1) -> None:
        self.machine.events.append(Event(self.machine.cta, self.name, site.operation, site.path, position))
