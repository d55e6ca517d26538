"""Watches a launch: what the hardware leaves undefined becomes a fault, whatever the emulator happens to compute.

Each hook is called where an instruction has its effect, with addresses that are in bounds; a launch that is not watched
has none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tilegen.diagnostics.catalogue import Code
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.module import Operand, Register
from tilegen.emulate.ptx.spaces import RANK_SHIFT, WINDOW_SHIFT
from tilegen.emulate.ptx.types import Array
from tilegen.emulate.ptx.unit import WARP, WARPGROUP
from tilegen.emulate.ptx.watch.clocks import BEFORE, HAPPENED, VISIBLE, Clocks, Told
from tilegen.emulate.ptx.watch.context import Context
from tilegen.emulate.ptx.watch.declared import Tile
from tilegen.emulate.ptx.watch.flow import Descriptor, Flow
from tilegen.emulate.ptx.watch.origins import Load, WrongTileError
from tilegen.emulate.ptx.watch.outputs import Outputs
from tilegen.emulate.ptx.watch.registers import Flight, Product, bits, registers_of
from tilegen.emulate.ptx.watch.shadow import CHUNK, Access, Conflict, Shadow, parts_of
from tilegen.emulate.ptx.watch.tags import NO_REGISTER, Key
from tilegen.emulate.ptx.wgmma_layout import chunk_indices
from tilegen.targets.hopper.tensor_map import TensorMap

if TYPE_CHECKING:
    from tilegen.emulate.ptx.cluster import Cluster
    from tilegen.emulate.ptx.machine import Machine
    from tilegen.emulate.ptx.program import Run
    from tilegen.emulate.ptx.unit import Group, Unit

_LANES = (1 << WARP) - 1


@dataclass
class _Barrier:
    """An mbarrier: who made it, what those say that came in the running phase, and in phases that are over."""

    agent: int
    made_by: int
    made_at: int
    running: Told
    over: Array


@dataclass
class _Cores:
    """The tensor cores of a warpgroup: products issued, those at each commit of each warp, what each one tells."""

    issued: int = 0
    committed: list[list[int]] = field(default_factory=lambda: [[] for _ in range(4)])
    know: list[Array] = field(default_factory=list)


class Watch:
    """Of one launch; `begin` starts each cluster anew."""

    def __init__(self, machine: Machine, context: Context) -> None:
        self.machine, self.context = machine, context
        self._masks: dict[int, int] = {}  # registers of each run, by its first instruction
        self.flow: Flow | None = None
        self.outputs = Outputs(context)

    def begin(self, cluster: Cluster) -> None:
        """A new cluster of CTAs, or a single one: nobody knows anything, and nothing was written."""
        if self.flow is None and self.context.declared is not None:
            machine = self.machine
            self.flow = Flow(self.context.declared, self.context, machine.program.code, machine.predicates)
        warps = -(-self.machine.threads // WARP)
        self.mbarriers = cluster.mbarriers
        units = -(-self.machine.threads // WARPGROUP)
        self.clocks = Clocks(warps, units)
        self.shadow = Shadow(len(self.machine.shared) // CHUNK, self.clocks.readers, self._conflict)
        self.loads: list[Load] = []
        self._loading: dict[int, tuple[int, int, int]] = {}  # of each mbarrier its last load: phase, pc, thread
        self._mbarriers: dict[int, _Barrier] = {}
        self._named: dict[tuple[int, int] | None, Told] = {}
        self._met: dict[tuple[int, int] | None, Array] = {}  # last at each: up to which event of each warp
        self._cores = [_Cores() for _ in range(units)]
        self._flights = [Flight() for _ in range(units)]
        self._stores = [[0, 0] for _ in range(warps)]  # groups committed, and known to be read
        self._storing = [0] * warps  # lanes that have issued stores
        self._open = [False] * warps  # a store is not committed
        self._copies = [0] * warps
        self._groups: list[list[int]] = [[] for _ in range(warps)]  # copies at each commit
        bases = [self.machine.dynamic_base + (rank << RANK_SHIFT) for rank in range(self.machine.ctas)]
        if self.flow is not None:
            self.flow.begin(self.shadow, units)
        self._atomic = {(base + at) // CHUNK for base in bases for at in self.context.atomic}

    # ---- faults ----

    def _conflict(self, found: Conflict) -> NoReturn:
        where = self._place(found.at)
        access = found.access
        if found.code is Code.EMULATED_UNWRITTEN:
            raise FaultError(f"{access.deed} reads {where}, which nothing has written", code=found.code)
        place = self.machine.program.code[found.earlier_pc].place
        earlier = f"{found.earlier or 'a read'} (PTX line {place.line})"
        notes = ((self.context.statement(place.source), "the earlier access"),)
        if found.code is Code.EMULATED_PROXY:
            what = f"{access.deed} touches {where}, and no fence.proxy.async lies between it and {earlier}"
        else:
            what = f"{access.deed} touches {where}, and nothing orders it after {earlier}"
        raise FaultError(what, code=found.code, notes=notes)

    def _place(self, address: int) -> str:
        """An address in shared memory, in words."""
        rank, at = divmod(address, self.machine.offset_bits + 1)
        whose = f" in CTA {rank} of the cluster" if self.machine.ctas > 1 else ""
        return self.context.place(at - self.machine.dynamic_base) + whose

    def _role(self, warp: int) -> str:
        """A warp, in words."""
        rank, own = divmod(warp, -(-self.machine.threads_apart // WARP))
        whose = f" of CTA {rank} of the cluster" if self.machine.ctas > 1 else ""
        return self.context.role(own) + whose

    def _warps(self, unit: Unit, bits: int) -> Iterator[tuple[int, int]]:
        """(warp, lanes of it) of a set of threads of a warpgroup."""
        first = unit.base // WARP
        for w in range(0, unit.size, WARP):
            lanes = bits >> w & _LANES
            if lanes:
                yield first + w // WARP, lanes

    @staticmethod
    def _by_warp(threads: Array) -> Iterator[tuple[int, Array]]:
        """(warp, which of `threads`) for each warp among them; `threads` rise."""
        if not len(threads):
            return
        warps = threads // WARP
        first, last = int(warps[0]), int(warps[-1])
        if first == last:
            yield first, np.arange(len(threads))
            return
        for w in range(first, last + 1):
            chosen = np.flatnonzero(warps == w)
            if len(chosen):
                yield w, chosen

    @staticmethod
    def _lanes(threads: Array) -> int:
        lanes = 0
        for t in threads:
            lanes |= 1 << int(t) % WARP
        return lanes

    # ---- registers ----

    def run(self, unit: Unit, group: Group, run: Run) -> None:
        """Steps and the control instruction behind them are about to be executed by a group."""
        mask = self._masks.get(run.start)
        code = self.machine.program.code
        if mask is None:
            mask = 0
            for at in range(run.start, run.end):
                mask |= registers_of(code[at])
            if run.control is not None and code[run.end].opcode != "wgmma":
                mask |= registers_of(code[run.end])
            self._masks[run.start] = mask
        flight = self._flights[unit.base // WARPGROUP]
        flight.touched |= mask
        if self.flow is not None and group.bits & 1:
            end = run.end + (run.control is not None)
            self.flow.run(unit.base // WARPGROUP, run.start, end, unit.lanes(group.bits).threads)
        if flight.flying & mask:
            warps = [w - unit.base // WARP for w, _ in self._warps(unit, group.bits)]
            for at in range(run.start, run.end + (run.control is not None)):
                found = flight.of(warps, registers_of(code[at])) if code[at].opcode != "wgmma" else None
                if found is not None:
                    self.machine.fault(at, self._touches(found), int(unit.lanes(group.bits).threads[0]))

    def passed_by(self, unit: Unit, group: Group, target: int) -> None:
        """Some threads of a group, or all, are about to take a branch to an instruction."""
        if self.flow is not None and group.bits & 1:
            self.flow.passed_by(unit.base // WARPGROUP, group.pc, target)

    def _touches(self, product: Product) -> FaultError:
        place = self.machine.program.code[product.pc].place
        return FaultError(
            f"touches a register that the product of PTX line {place.line} has in flight",
            code=Code.EMULATED_IN_FLIGHT,
            notes=((self.context.statement(place.source), "the product was issued here"),),
        )

    # ---- warps ----

    def meet(self, unit: Unit, bits: int) -> None:
        """Whole warps are at one place (bar.warp.sync)."""
        self.clocks.meet(w for w, _ in self._warps(unit, bits))

    def fence(self, threads: Array) -> None:
        """fence.proxy.async, or the fence behind mbarrier.init."""
        for w, _ in self._by_warp(threads):
            self.clocks.fence(w)

    @staticmethod
    def _key(number: int | None, unit: Unit) -> tuple[int, int] | None:
        return None if number is None else (unit.cta.rank, number)

    def come(self, number: int | None, unit: Unit, bits: int) -> None:
        """Threads arrive at a named barrier (None: the cluster's)."""
        key = self._key(number, unit)
        told = self._named.setdefault(key, Told(self.clocks.nothing()))
        for w, _ in self._warps(unit, bits):
            if key in self._met and (self._met[key] > self.clocks.before(w)[: self.clocks.warps]).any():
                raise FaultError(
                    f"{self._role(w)} comes to barrier {number}, and nothing orders that after the last meeting there",
                    code=Code.EMULATED_BARRIER,
                )
            self.clocks.meet((w,))
            self.clocks.publish(w, slice(None), told)

    def go(self, number: int | None, unit: Unit, bits: int) -> None:
        """A named barrier lets threads go."""
        for w, _ in self._warps(unit, bits):
            self.clocks.learn(w, self._named[self._key(number, unit)].know)

    def over(self, number: int, rank: int) -> None:
        """A named barrier of a CTA has let everybody go that waited."""
        if (told := self._named.pop((rank, number), None)) is not None:
            self._met[rank, number] = told.know[HAPPENED, : self.clocks.warps]

    # ---- mbarriers ----

    def made(self, address: int, thread: int) -> None:
        """mbarrier.init."""
        w = thread // WARP
        nothing = self.clocks.nothing
        agent, now = self.clocks.barrier(address), self.clocks.time(w)
        self._mbarriers[address] = _Barrier(agent, w, now, Told(nothing()), nothing())
        self.clocks.touch(w, np.array([thread % WARP]))

    def _mbarrier(self, address: int, warp: int, proxy: int = HAPPENED) -> _Barrier:
        self.mbarriers.get(address)  # a fault where none was initialised
        barrier = self._mbarriers[address]
        if self.clocks.know[warp, proxy, barrier.made_by] < barrier.made_at:
            what = "is not known to be initialised" if proxy == HAPPENED else "has no fence behind its initialisation"
            raise FaultError(
                f"the mbarrier at {self._place(address)} {what} where {self._role(warp)} uses it",
                code=Code.EMULATED_RACE if proxy == HAPPENED else Code.EMULATED_PROXY,
            )
        return barrier

    def arrive(self, addresses: Array, threads: Array) -> None:
        """Threads (rising) arrive on mbarriers."""
        for w, chosen in self._by_warp(threads):
            for address in {int(a) for a in addresses[chosen]}:
                if address not in self._mbarriers:
                    continue
                lanes = threads[chosen][addresses[chosen] == address] % WARP
                self.clocks.publish(w, lanes, self._mbarrier(address, w).running)

    def before(self, threads: Array) -> dict[int, Array]:
        """What has come before what the warps of these threads do now."""
        return {w: self.clocks.before(w) for w, _ in self._by_warp(threads)}

    def arrives(self, address: int, warp: int, before: Array) -> None:
        """An arrival that a warp made after what it says counts in the phase that runs now."""
        barrier = self._mbarriers.get(address)
        if barrier is None:
            return
        later = np.maximum(barrier.over[BEFORE], barrier.over[HAPPENED]) > before
        later[[warp, self.clocks.copy + warp, barrier.agent]] = False
        if later.any():
            raise FaultError(
                f"{self._role(warp)} arrives on the mbarrier at {self._place(address)} in its phase "
                f"{self.mbarriers.phases(address)}, and nothing orders that after the end of the phase before",
                code=Code.EMULATED_ARRIVAL,
            )

    def phase(self, address: int, number: int) -> None:
        """Phase `number` (from 1) of an mbarrier is over."""
        barrier = self._mbarriers.get(address)
        if barrier is not None:
            np.maximum(barrier.over, barrier.running.know, out=barrier.over)
            barrier.over[HAPPENED, barrier.agent] = number
            barrier.running = Told(self.clocks.nothing())

    def waited(self, address: int, unit: Unit, bits: int) -> None:
        """A wait on an mbarrier has succeeded."""
        for w, _ in self._warps(unit, bits):
            if address in self._mbarriers:
                self.clocks.learn(w, self._mbarrier(address, w).over)

    # ---- threads' accesses ----

    def load(self, threads: Array, addresses: Array, nbytes: int, pc: int) -> None:
        """Threads (rising) read at these addresses, if those are shared ones."""
        threads, addresses = _shared(threads, addresses)
        for chosen, access in self._by_threads(threads, pc, "reads"):
            self.shadow.read(self._chunks(addresses[chosen], nbytes), access)

    def store(self, threads: Array, addresses: Array, nbytes: int, pc: int) -> None:
        """Threads (rising) write at these addresses, if those are shared ones."""
        threads, addresses = _shared(threads, addresses)
        for chosen, access in self._by_threads(threads, pc, "writes"):
            self.shadow.write(self._chunks(addresses[chosen], nbytes), access)

    def atomic(self, threads: Array, addresses: Array, pc: int) -> None:
        """Threads change words atomically: nobody races with that but accesses that are not atomic."""
        threads, addresses = _shared(threads, addresses)
        self._atomic.update((addresses // CHUNK).tolist())

    def _by_threads(self, threads: Array, pc: int, verb: str) -> Iterator[tuple[Array, Access]]:
        """The accesses of threads (rising): which of them, and as what. Of a warp they are several where its lanes have
        gone apart, as they may be in other rounds of a loop."""
        for w, chosen in self._by_warp(threads):
            times = self.clocks.touch(w, threads[chosen] % WARP)
            deed = f"what {self._role(w)} {verb}"
            for time in dict.fromkeys(times.tolist()):
                yield chosen[times == time], Access(pc, w, time, self.clocks.know[w], False, deed)

    def _chunks(self, addresses: Array, nbytes: int) -> Array:
        found: Array = np.unique(addresses // CHUNK).astype(np.intp)
        if nbytes > CHUNK:
            more = [found + n for n in range(1, nbytes // CHUNK)]
            found = np.unique(np.concatenate([found, *more]))
        found = found[found < len(self.shadow.origin)]  # what lies outside is a fault of the access itself
        if self._atomic and not self._atomic.isdisjoint(found.tolist()):
            found = np.array([c for c in found.tolist() if c not in self._atomic], np.intp)
        return found

    # ---- copies by threads ----

    def copy(self, threads: Array, addresses: Array, nbytes: int, pc: int) -> None:
        """cp.async is issued."""
        for w, chosen in self._by_warp(threads):
            self._copies[w] += 1
            deed = f"a copy by {self._role(w)}"
            access = Access(pc, self.clocks.copy + w, self._copies[w], self.clocks.know[w].copy(), False, deed)
            chunks = self._chunks(addresses[chosen], nbytes)
            parts = parts_of(chunks, addresses[chosen], nbytes) if nbytes < CHUNK else None
            self.shadow.write(chunks, access, parts=parts)

    def commit_copies(self, threads: Array) -> None:
        for w, _ in self._by_warp(threads):
            self._groups[w].append(self._copies[w])

    def wait_copies(self, threads: Array, left: int | None) -> None:
        """The copies of these threads are over, but for those of the last `left` groups (None: all are)."""
        for w, _ in self._by_warp(threads):
            groups = self._groups[w]
            done = self._copies[w] if left is None else groups[-1 - left] if len(groups) > left else 0
            agent = self.clocks.copy + w
            self.clocks.know[w, HAPPENED, agent] = max(int(self.clocks.know[w, HAPPENED, agent]), done)

    def copies_arrive(self, addresses: Array, threads: Array) -> None:
        """An mbarrier will be told of the copies that these threads have issued."""
        for w, chosen in self._by_warp(threads):
            for address in {int(a) for a in addresses[chosen]}:
                running = self._mbarrier(address, w).running.know
                agent = self.clocks.copy + w
                running[HAPPENED, agent] = max(int(running[HAPPENED, agent]), self._copies[w])
                np.maximum(running[BEFORE], self.clocks.before(w), out=running[BEFORE])

    # ---- TMA ----

    def tma_load(
        self, thread: int, chunks: Array, mbarrier: int, pc: int, name: str, tm: TensorMap, at: Sequence[int]
    ) -> None:
        """A box is on its way to shared memory."""
        w = thread // WARP
        barrier = self._mbarrier(mbarrier, w, VISIBLE)
        load = self._load(name, tm, at)
        deed = f"the load of {load.words}"
        origin = len(self.loads)
        self.loads.append(load)
        know = self.clocks.know[w].copy()
        np.maximum(barrier.running.know, know, out=barrier.running.know)
        phase = self.mbarriers.get(mbarrier).phase + 1
        self._loading[mbarrier] = phase, pc, thread
        self.shadow.write(chunks, Access(pc, barrier.agent, phase, know, True, deed, origin), np.arange(len(chunks)))

    def landed(self, mbarrier: int, phase: int) -> None:
        """A box has landed that was issued in a phase of an mbarrier, and is counted by the one that runs now."""
        running = self.mbarriers.get(mbarrier).phase
        if running != phase:
            raise FaultError(
                f"the box lands in phase {running} of the mbarrier at {self._place(mbarrier)}; "
                f"it was issued in phase {phase}, which its bytes did not hold up",
                code=Code.EMULATED_PHASE,
            )

    def tma_store(
        self, thread: int, chunks: Array, held: Array, pc: int, name: str, tm: TensorMap, at: Sequence[int]
    ) -> None:
        """A box is to be read by the store engine. held: of each 16 bytes whether any are stored."""
        w = thread // WARP
        load = self._load(name, tm, at)
        deed = f"the store to {load.words}"
        self._open[w] = True
        self._storing[w] |= 1 << thread % WARP
        access = Access(pc, self.clocks.store + w, self._stores[w][0] + 1, self.clocks.know[w], True, deed)
        self.shadow.read(chunks[held], access)
        if self.flow is not None:
            try:
                self.flow.tma_store(chunks, load)
            except WrongTileError as wrong:
                raise FaultError(f"the store to {load.words} {wrong.what}", thread, Code.EMULATED_TILE) from None

    def _load(self, name: str, tm: TensorMap, at: Sequence[int]) -> Load:
        number = name.rsplit("_", 1)[-1]
        found = None
        if self.context.declared is not None and number.isdigit():
            found = self.context.declared.maps.get(int(number))
        return Load(name, tm, tuple(at), found)

    def commit_stores(self, threads: Array) -> None:
        """cp.async.bulk.commit_group."""
        for w in self._storers(threads):
            self._stores[w][0] += 1
            self._open[w] = False

    def wait_stores(self, threads: Array, left: int) -> None:
        """All but the last `left` groups of these threads' stores have read shared memory."""
        for w in self._storers(threads):
            committed, read = self._stores[w]
            self._stores[w][1] = read = max(read, committed - left)
            self.clocks.know[w, HAPPENED, self.clocks.store + w] = read

    def _storers(self, threads: Array) -> Iterator[int]:
        """Warps whose issuing lanes are among these threads."""
        for w, chosen in self._by_warp(threads):
            if self._storing[w] and self._storing[w] & ~self._lanes(threads[chosen]) == 0:
                yield w

    def exit(self, unit: Unit, bits: int) -> None:
        """Threads are done."""
        for w, lanes in self._warps(unit, bits):
            committed, read = self._stores[w]
            if self._storing[w] & lanes and (self._open[w] or committed > read):
                raise FaultError(
                    f"{self._role(w)} ends while a store of its own may still be reading shared memory",
                    code=Code.EMULATED_UNAWAITED,
                )

    def end(self) -> None:
        """The cluster has ended."""
        for address, (phase, pc, thread) in self._loading.items():
            if self.mbarriers.phases(address) < phase:
                what = "the CTA ends, and nothing has waited for this box: its mbarrier's phase is not over"
                fault = FaultError(what, thread, Code.EMULATED_UNAWAITED)
                self.machine.fault(pc, fault)

    # ---- products ----

    def registers_fenced(self, unit: Unit) -> None:
        """wgmma.fence."""
        flight = self._flights[unit.base // WARPGROUP]
        flight.touched, flight.fenced = 0, True

    def product(
        self,
        unit: Unit,
        pc: int,
        right: Descriptor,
        left: Descriptor | None,
        fragment: Array | None,
        accumulator: Array,
        accumulate: bool,
    ) -> None:
        """A product is issued. left: its first factor in shared memory, else `fragment`, the registers that hold it."""
        u = unit.base // WARPGROUP
        warps = range(unit.base // WARP, unit.base // WARP + 4)
        d = bits(accumulator)
        a = 0 if fragment is None else bits(fragment)
        self._check_registers(self._flights[u], d, a)
        cores = self._cores[u]
        cores.issued += 1
        self._flights[u].issue(Product(cores.issued, pc, d, a))
        know = self.clocks.know[warps.start : warps.stop]
        least, told = know.min(axis=0), know.max(axis=0)  # what all know before it, and any behind its wait
        for w in warps:
            self.clocks.know[w, HAPPENED, w] += 1
        self.clocks.meet(warps)
        cores.know.append(told if not cores.know else np.maximum(told, cores.know[-1]))
        deed = f"a product of {self._role(unit.base // WARP)}"
        access = Access(pc, self.clocks.tensor + u, cores.issued, least, True, deed)
        own = int(self.machine.rank_bits[unit.base]) // CHUNK
        for operand in (left, right):
            if operand is not None:
                self.shadow.read(chunk_indices(*operand) + own, access)
        if self.flow is not None:
            b = right, self._tile(right)
            factor = None if left is None else (left, self._tile(left))
            try:
                self.flow.product(u, pc, b, factor, fragment, accumulator, accumulate, own, self.loads)
            except WrongTileError as wrong:
                raise FaultError(f"{deed}: {wrong.what}", code=Code.EMULATED_TILE) from None

    def _tile(self, operand: Descriptor) -> Tile | None:
        """The tile that is declared for the place of an operand."""
        assert self.context.declared is not None
        start = (operand[0] & 0x3FFF) << 4
        return self.context.declared.tiles.get(self.context.area(start - self.machine.dynamic_base))

    def store_global(self, threads: Array, addresses: Array, width: int, registers: Sequence[Operand], pc: int) -> None:
        """Threads (rising) store registers to global memory, `width` bytes each, one behind the other."""
        self.outputs.by_threads(addresses, width * len(registers))
        if self.flow is not None and (u := _leading(threads)) is not None:
            with self._telling(u):
                self.flow.store(u, pc, _keys(registers), threads, addresses, width)

    def store_shared(self, threads: Array, addresses: Array, width: int, registers: Sequence[Operand], pc: int) -> None:
        """The same to shared memory, or by generic addresses."""
        u = None if self.flow is None else _leading(threads)
        inside = u is not None and int(addresses.max()) // CHUNK < len(self.shadow.origin)
        before = self.shadow.origin[(addresses // CHUNK).astype(np.intp)] if inside else None
        self.store(threads, addresses, width * len(registers), pc)
        if self.flow is not None and u is not None and before is not None:
            with self._telling(u):
                self.flow.wrote(u, pc, _keys(registers), threads, addresses, width, before)

    def store_matrices(self, threads: Array, addresses: Array, registers: Sequence[Operand], pc: int) -> None:
        """stmatrix: addresses [warps, rows of matrices]."""
        self.store(threads.reshape(-1, WARP)[:, : addresses.shape[1]].reshape(-1), addresses.reshape(-1), CHUNK, pc)
        if self.flow is not None and (u := _leading(threads)) is not None:
            with self._telling(u):
                self.flow.wrote_matrices(u, pc, _keys(registers), addresses.reshape(len(addresses), -1, 8))

    @contextmanager
    def _telling(self, unit: int) -> Iterator[None]:
        """What a warpgroup does with a wrong tile is a fault of its role's."""
        try:
            yield
        except WrongTileError as wrong:
            raise FaultError(f"{self._role(unit * 4)} {wrong.what}", code=Code.EMULATED_TILE) from None

    def _check_registers(self, flight: Flight, d: int, a: int) -> None:
        for p in flight.products:
            if p.accumulator & a or (p.accumulator & d and p.accumulator != d) or p.fragment & d:
                raise self._touches(p)
        if not flight.fenced or flight.touched & (d | a):
            raise FaultError(
                "no wgmma.fence lies between what threads did with these registers and the product",
                code=Code.EMULATED_REGISTER_FENCE,
            )

    def commit_products(self, unit: Unit, bits: int) -> None:
        cores = self._cores[unit.base // WARPGROUP]
        for w, _ in self._warps(unit, bits):
            cores.committed[w - unit.base // WARP].append(cores.issued)

    def wait_products(self, unit: Unit, bits: int, left: int) -> None:
        """All but the last `left` groups of products are over."""
        u = unit.base // WARPGROUP
        cores = self._cores[u]
        for w, _ in self._warps(unit, bits):
            groups = cores.committed[w - unit.base // WARP]
            number = groups[-1 - left] if len(groups) > left else 0
            if number:
                self.clocks.learn(w, cores.know[number - 1])
                know = self.clocks.know[w]
                know[HAPPENED, self.clocks.tensor + u] = max(int(know[HAPPENED, self.clocks.tensor + u]), number)
                self._flights[u].wait((w - unit.base // WARP,), number)


def _leading(threads: Array) -> int | None:
    """The warpgroup of these threads (rising), if its first one is among them: the way that tags are followed."""
    unit, first = divmod(int(threads[0]), WARPGROUP)
    return unit if not first and int(threads[-1]) // WARPGROUP == unit else None


def _keys(registers: Sequence[Operand]) -> list[Key]:
    return [(r.width, r.index) if isinstance(r, Register) else NO_REGISTER for r in registers]


def _shared(threads: Array, addresses: Array) -> tuple[Array, Array]:
    """Those that access shared memory, and where in its window: generic addresses of other spaces are left out."""
    window = addresses >> np.uint64(WINDOW_SHIFT)
    if not window.any():
        return (threads, addresses) if int(addresses.max()) >> 32 == 0 else (threads[:0], addresses[:0])
    here = window == 1
    return threads[here], addresses[here] & np.uint64(0xFFFFFFFF)
