"""A plan run with the hardware's own rules and at times that are meant to do harm, on numpy arrays.

It judges mutants and shares nothing with the checks: mbarriers know a parity, counts and bytes; a warpgroup is its
first warp and the rest of it, each at its own pace; TMA and tensor cores read and write when a seed says so, through a
view of shared memory of their own that only a fence brings threads' writes to; what is in flight is poisoned.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.passes.interpret import Role
from tests.passes.interpreter.slots import outside
from tests.passes.interpreter.state import F32, ROWS, Array, Shared, row_positions, stored_cols
from tilegen.ir import plan as ir
from tilegen.ir.deal import deal, deal_sequences
from tilegen.ir.uniform import evaluate, symbols

STEPS = 60_000  # of one CTA
LEAD_ROWS = 16


class Harm(Exception):  # noqa: N818 - a verdict
    """What happens on a GPU: a hang, an illegal access, a launch that fails."""


@dataclass
class Barrier:
    count: int
    missing: int
    bytes: int = 0
    phases: int = 0

    def arrive(self, count: int, size: int = 0) -> None:
        self.missing -= count
        self.bytes += size
        if self.missing < 0:
            raise Harm("an arrival too many")
        if self.missing == 0 and self.bytes == 0:
            self.phases += 1
            self.missing = self.count


@dataclass
class Event:
    """Something that an engine does in its own time. `owner`: whose order it keeps, if any."""

    what: Callable[[], None]
    owner: object = None


@dataclass
class _Product:
    """A unit's part of a product. `twins`: the parts of all of its warpgroup's units, which are done together."""

    part: Callable[[], None]
    twins: list[_Product]
    before: _Product | None
    done: bool = False

    def execute(self) -> None:
        """It and those before it, which an engine does in their order."""
        if self.done:
            return
        for twin in self.twins:
            if twin.before is not None:
                twin.before.execute()
        for twin in self.twins:
            if not twin.done:
                twin.done = True
                twin.part()


@dataclass
class Cta:
    plan: ir.Plan
    rng: random.Random
    generic: Array = field(init=False)
    engines: Array = field(init=False)  # shared memory as TMA and tensor cores see it
    barriers: dict[int, Barrier] = field(default_factory=dict)
    named: dict[int, list[int]] = field(default_factory=dict)  # threads arrived, times met
    events: list[Event] = field(default_factory=list)
    spoiled: set[str] = field(default_factory=set)
    products: dict[tuple[str, int, int], list[_Product]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = max(
            [self.plan.shared_bytes, *(b.offset + b.stage_bytes * b.stages * b.parts for b in self.plan.buffers)]
        )
        self.generic = np.full(size + 4096, 0xFF, np.uint8)
        self.engines = self.generic.copy()
        for ring in self.plan.rings:
            for group in ring.barriers:
                for n in range(ring.depth * ring.parts):
                    self.barriers[group.offset + 8 * n] = Barrier(group.arrivals, group.arrivals)

    def barrier(self, ring: ir.Ring, kind: str, part: int, position: int) -> Barrier:
        group = next(g for g in ring.barriers if g.kind == kind)
        return self.barriers[group.offset + 8 * (position % ring.depth * ring.parts + part)]

    def named_barrier(self, number: int, threads: int, wanted: int) -> int:
        """Arrivals at a named barrier; which meeting they are for."""
        state = self.named.setdefault(number, [0, 0])
        state[0] += threads
        meeting = state[1]
        if state[0] > wanted:
            raise Harm("too many threads at a named barrier")
        if state[0] == wanted:
            state[0], state[1] = 0, meeting + 1
        return meeting


Wait = Callable[[], bool] | None


class Unit(Role):
    """The first warp of a warpgroup, the rest of one, or a role of one thread or of few warps."""

    def __init__(
        self, cta: Cta, role: ir.RolePlan, tensors: dict[str, Array], group: int, number: int, ctas: int, lead: bool
    ) -> None:
        super().__init__(cta.plan, role, Shared(cta.plan), tensors, group, number, ctas, True)
        self.machine, self.lead = cta, lead
        self.alone = role.elected or role.warps is not None
        first = 0 if lead or self.alone else LEAD_ROWS
        self.own = slice(first, LEAD_ROWS if lead and not self.alone else ROWS)
        self.threads = 32 if lead else 96
        self.warps_here = role.warps_of_group[1] if self.alone else (1 if lead else 3)
        self.written: list[tuple[Array, str]] = []
        self.shadow: dict[str, Array] = {}
        self.last: _Product | None = None
        self.groups: list[tuple[list[_Product], list[str]]] = []
        self.open: list[tuple[_Product, str]] = []
        self.touched: set[str] = set()
        self.stores: list[list[list[bool]]] = []
        self.open_stores: list[list[bool]] = []
        self.met = 0

    # ---- control ----

    def walk(self, body: tuple[ir.Operation, ...]) -> Iterator[Wait]:
        for o in body:
            match o:
                case ir.Work():
                    for row in self._rows_of_work(o):
                        fields = self.plan.table.fields if self.plan.table else ()
                        given = dict(zip((o.index, *fields), row, strict=False))
                        self.names |= {name: given[name] for name in (o.index, *o.fields)}
                        yield from self.walk(o.body)
                case ir.For(name, start, stop, inner):
                    for n in range(self.int(start), self.int(stop)):
                        self.names[name] = n
                        yield from self.walk(inner)
                case ir.If(condition, inner):
                    if self.int(condition):
                        yield from self.walk(inner)
                case _:
                    yield from self.step(o)

    def _rows_of_work(self, o: ir.Work) -> list[list[int]]:
        total = self.int(o.total)
        if o.mode == "single":
            return [[self.cta]] if self.cta < total else []
        if o.mode != "table":
            return [[n] for n in range(self.cta, total, self.ctas)]
        table = self.plan.table
        assert table is not None
        if table.sequences is None:
            dealt = deal(table, self.names, self.ctas)[:, self.cta]
        else:
            starts = {x.starts: self.tensors[x.starts] for x in table.sequences.lengths}
            dealt = deal_sequences(table, self.names, starts, self.ctas)[:, self.cta]
        end = next(n for n, row in enumerate(dealt) if row[0] >= total)
        return [list(map(int, row)) for row in dealt[:end]]

    def step(self, o: ir.Operation) -> Iterator[Wait]:
        match o:
            case ir.WaitFull(slot):
                yield self._phase(slot, "full", 0)
            case ir.WaitClean(slot):
                yield self._phase(slot, "clean", 0)
            case ir.WaitEmpty(slot):
                yield self._phase(slot, "empty", 1)
            case ir.OrderWait(first):
                yield self._meet(first + self.warpgroup, 256)
            case ir.OrderPass(first):
                self.machine.named_barrier(first + (self.warpgroup + 1) % self.role.warpgroups, self.threads, 256)
                yield None
            case ir.OrderStart(first):
                if self.warpgroup == self.role.warpgroups - 1:
                    self.machine.named_barrier(first, self.threads, 256)
                yield None
            case ir.GroupSync(first):
                if not self.alone:
                    yield self._meet(first + self.warpgroup, 128)
            case ir.Mma():
                self.met += 1
                twins = self.machine.products.setdefault((self.role.name, self.warpgroup, self.met), [])
                self._issue(o, twins)
                wanted = 1 if self.alone else 2
                yield lambda: len(twins) == wanted
            case ir.MmaWait(pending):
                self._retire(pending)
                yield None
            case ir.StoreWait(pending, read):
                if self.lead or self.alone:
                    old = self.stores[: max(len(self.stores) - pending, 0)]
                    which = 0 if read else 1
                    yield lambda: all(flags[which] for group in old for flags in group)
            case _:
                self.body((o,))
                if not isinstance(o, ir.Let | ir.LetFloat | ir.Init | ir.Map | ir.Mask | ir.RowFold):
                    yield None

    def _phase(self, slot: ir.Slot, kind: str, opposite: int) -> Wait:
        ring = self.plan.ring(slot.ring)
        position = self.place(slot)
        barrier = self.machine.barrier(ring, kind, self.part(slot), position)
        parity = (position // ring.depth + opposite) & 1
        return lambda: barrier.phases & 1 != parity

    def _meet(self, number: int, wanted: int) -> Wait:
        meeting = self.machine.named_barrier(number, self.threads, wanted)
        return lambda: self.machine.named[number][1] > meeting

    # ---- movement ----

    def base(self, buffer: ir.Buffer, stage: int, part: int) -> int:
        at = buffer.offset + (stage * buffer.parts + part) * buffer.stage_bytes
        if buffer.swizzle and at % (8 * buffer.swizzle):
            raise Harm("a swizzled tile that begins inside a pattern")
        return at

    def slot_base(self, slot: ir.Slot) -> tuple[ir.Buffer, int]:
        ring = self.plan.ring(slot.ring)
        buffer = self.plan.buffer(ring.buffer)
        return buffer, self.base(buffer, self.place(slot) % ring.depth, self.part(slot))

    def do_Expect(self, o: ir.Expect) -> None:
        self.machine.barrier(self.plan.ring(o.slot.ring), "full", self.part(o.slot), self.place(o.slot)).arrive(
            1, o.bytes
        )

    def do_TmaLoad(self, o: ir.TmaLoad) -> None:
        d = self.plan.descriptor(o.descriptor)
        tensor = self.tensors[d.tensor]
        where = self.box(d, o.coordinates, tensor)
        inside = np.logical_and.reduce([(w >= 0) & (w < n) for w, n in zip(where, tensor.shape, strict=True)])
        clipped = tuple(np.clip(w, 0, max(n - 1, 0)) for w, n in zip(where, tensor.shape, strict=True))
        fill = outside(d, tensor)
        values = np.where(inside, tensor[clipped], fill) if tensor.size else np.full(inside.shape, fill)
        data = np.ascontiguousarray(values.astype(tensor.dtype)).reshape(-1).view(np.uint8)
        _, at = self.slot_base(o.slot)
        start = at + o.offset
        barrier = self.machine.barrier(self.plan.ring(o.slot.ring), "full", self.part(o.slot), self.place(o.slot))
        self._fits(start, len(data))
        if self.machine.rng.random() < 0.5:
            self.machine.engines[start : start + len(data)] = 0xFF
            self.machine.generic[start : start + len(data)] = 0xFF

        def complete() -> None:
            self.machine.engines[start : start + len(data)] = data
            self.machine.generic[start : start + len(data)] = data
            barrier.arrive(0, -len(data))

        self.machine.events.append(Event(complete))

    def _fits(self, start: int, size: int) -> None:
        if start < 0 or start + size > len(self.machine.generic):
            raise Harm("an access behind shared memory")

    def do_WaitFull(self, o: ir.WaitFull) -> None:
        raise AssertionError("a step of its own")

    def do_ArriveEmpty(self, o: ir.ArriveEmpty) -> None:
        ring = self.plan.ring(o.slot.ring)
        by_warp = ring.release == "warp" or self.role.kind == "scanner"
        count = self.warps_here if by_warp else int(self.lead or self.alone)
        if count:
            self.machine.barrier(ring, "empty", self.part(o.slot), self.place(o.slot)).arrive(count)

    def do_ArriveClean(self, o: ir.ArriveClean) -> None:
        ring = self.plan.ring(o.slot.ring)
        self.machine.barrier(ring, "clean", self.part(o.slot), self.place(o.slot)).arrive(self.warps_here)

    def do_ScanSlot(self, o: ir.ScanSlot) -> None:
        buffer, at = self.slot_base(o.slot)
        size = buffer.rows * stored_cols(buffer) * buffer.dtype.bytes
        held = self.machine.generic[at : at + size].view(buffer.dtype.numpy)
        bad = ~np.isfinite(held.astype(F32))
        if bad.any():
            held[bad] = 0
            self.machine.spoiled.add(o.slot.ring)
        self.written.append((np.arange(at, at + size), o.slot.ring))

    def do_IfSpoiled(self, o: ir.IfSpoiled) -> None:
        if o.ring in self.machine.spoiled:
            self.body(o.body)

    def do_FenceAsync(self, o: ir.FenceAsync) -> None:
        for where, _ in self.written:
            self.machine.engines[where] = self.machine.generic[where]
        self.written.clear()

    def do_ReadShared(self, o: ir.ReadShared) -> None:
        buffer, at = self.slot_base(o.slot)
        rows = o.row_offset * self.warpgroup + row_positions(o.digit)
        cols = np.arange(self.fragment(o.out).cols)
        where = self._address(buffer, at, rows[:, None], cols[None, :])
        held = self._take(self.machine.generic, where, buffer)
        self.write(o.out, held if self.fragment(o.out).layout == "pair" else held.astype(F32))

    def _address(self, b: ir.Buffer, at: int, rows: Array, cols: Array) -> Array:
        size = b.dtype.bytes
        return at + cols // b.chunk * (b.rows * b.line) + rows * b.line + cols % b.chunk * size

    def _take(self, memory: Array, where: Array, b: ir.Buffer) -> Array:
        self._fits(int(where.min()), int(where.max()) + b.dtype.bytes - int(where.min()))
        if int(where.min()) % b.dtype.bytes:
            raise Harm("a misaligned access")
        size = b.dtype.bytes
        whole = memory[: len(memory) // size * size].view(b.dtype.numpy)
        return whole[where // size]

    def do_WriteShared(self, o: ir.WriteShared) -> None:
        b = self.plan.buffer(o.buffer)
        rounded = self.read(o.source)[:, o.first : o.first + b.cols]
        rounded = np.pad(rounded, ((0, 0), (0, stored_cols(b) - rounded.shape[1]))).astype(b.dtype.numpy)
        at = self.base(b, o.stage, self.warpgroup)
        rows, cols = np.arange(ROWS)[self.own, None], np.arange(stored_cols(b))[None, :]
        where = self._address(b, at, rows, cols)
        whole = self.machine.generic[: len(self.machine.generic) // b.dtype.bytes * b.dtype.bytes].view(b.dtype.numpy)
        whole[where // b.dtype.bytes] = rounded[self.own]
        every = (where.reshape(-1, 1) + np.arange(b.dtype.bytes)).reshape(-1)
        self.written.append((every, o.buffer))

    def do_TmaStore(self, o: ir.TmaStore) -> None:
        if not (self.lead or self.alone):
            return
        d = self.plan.descriptor(o.descriptor)
        tensor, b = self.tensors[d.tensor], self.plan.buffer(o.buffer)
        where = self.box(d, o.coordinates, tensor)
        start = self.base(b, o.stage, self.warpgroup) + o.offset
        size = where[0].size * tensor.dtype.itemsize
        self._fits(start, size)
        flags = [False, False]
        self.open_stores.append(flags)
        taken: list[Array] = []

        def read() -> None:
            taken.append(self.machine.engines[start : start + size].copy())
            flags[0] = True
            self.machine.events.append(Event(write))

        def write() -> None:
            values = taken[0].view(tensor.dtype).reshape(where[0].shape)
            inside = np.logical_and.reduce([(w >= 0) & (w < n) for w, n in zip(where, tensor.shape, strict=True)])
            tensor[tuple(w[inside] for w in where)] = values[inside]
            flags[1] = True

        self.machine.events.append(Event(read))

    def do_StoreCommit(self, o: ir.StoreCommit) -> None:
        self.stores.append(self.open_stores)
        self.open_stores = []

    # ---- tensors ----

    def do_LoadVector(self, o: ir.LoadVector) -> None:
        index = [self.int(i) for i in o.index]
        if any(i < 0 for i in index):
            raise Harm("an access in front of a tensor")
        super().do_LoadVector(o)

    def do_StoreRows(self, o: ir.StoreRows) -> None:
        index = [self.int(i) for i in o.index]
        source = self.read(o.fragment)
        cols = max(min(source.shape[1], self.int(o.col_limit) - index[o.col_dim]), 0)
        self._store(o.tensor, index, o.row_dim, o.row_limit, o.shared, (o.col_dim, cols), source)

    def do_StoreVector(self, o: ir.StoreVector) -> None:
        index = [self.int(i) for i in o.index]
        self._store(o.tensor, index, o.dim, o.limit, o.shared, None, self.read(o.fragment)[:, :1])

    def _store(
        self,
        name: str,
        index: list[int],
        row_dim: int,
        limit: Any,
        shared: tuple[ir.RowStep, ...],
        cols: tuple[int, int] | None,
        source: Array,
    ) -> None:
        tensor = self.tensors[name]
        rows = np.arange(ROWS)[self.own]
        at: list[Any] = [np.full(len(rows), i) for i in index]
        keep = np.ones(len(rows), np.bool_)
        if shared:
            for x in shared:
                at[x.dim] = index[x.dim] + row_positions(x.digit)[self.own]
                keep &= at[x.dim] < self.int(x.limit)
        else:
            at[row_dim] = index[row_dim] + rows
            keep &= at[row_dim] < self.int(limit)
        at = [a[keep] for a in at]
        values = source[self.own][keep]
        if not keep.any() or (cols is not None and cols[1] == 0):
            return
        for n, (a, extent) in enumerate(zip(at, tensor.shape, strict=True)):
            last = a.max() + (cols[1] - 1 if cols is not None and n == cols[0] else 0)
            if a.min() < 0 or last >= extent:
                raise Harm(f"a store outside {name}")
        if cols is None:
            tensor[tuple(at)] = values[:, 0].astype(tensor.dtype)
            return
        wide = [a[:, None] for a in at]
        wide[cols[0]] = wide[cols[0]] + np.arange(cols[1])[None, :]
        tensor[tuple(wide)] = values[:, : cols[1]].astype(tensor.dtype)

    # ---- products ----

    def write(self, name: str, value: Array) -> None:
        super().write(name, value)
        self.touched.add(self.fragment(name).storage or name)

    def read(self, name: str) -> Array:
        self.touched.add(self.fragment(name).storage or name)
        return super().read(name)

    def do_MmaFence(self, o: ir.MmaFence) -> None:
        self.touched.clear()

    def _issue(self, o: ir.Mma, twins: list[_Product]) -> None:
        storage = self.fragment(o.accumulator).storage or o.accumulator
        overwrites = o.zero if isinstance(o.zero, bool) else bool(self.int(o.zero))
        if storage not in self.shadow:
            if storage not in self.registers and not overwrites:
                raise Harm(f"{o.accumulator} is added to before it holds anything")
            held = self.registers.get(storage, np.zeros((ROWS, o.n), F32))
            self.shadow[storage] = np.full_like(held, np.nan) if storage in self.touched else held.copy()
        self.registers[storage] = np.full((ROWS, o.n), np.nan, F32)
        b_at = self.slot_base(o.b.slot)
        a_at = None
        if isinstance(o.a, ir.SlotOperand):
            a_at = self.slot_base(o.a.slot)
        elif isinstance(o.a, ir.BufferOperand):
            buffer = self.plan.buffer(o.a.buffer)
            a_at = buffer, self.base(buffer, 0, self.warpgroup)
        unfenced = isinstance(o.a, ir.FragmentOperand) and (
            (self.fragment(o.a.fragment).storage or o.a.fragment) in self.touched
        )
        depth = 16 * len(o.b.offsets)

        def execute() -> None:
            if a_at is None:
                assert isinstance(o.a, ir.FragmentOperand)
                name = self.fragment(o.a.fragment).storage or o.a.fragment
                a = self.registers[name].astype(F32)
                if unfenced:
                    a = np.full_like(a, np.nan)
            else:
                assert not isinstance(o.a, ir.FragmentOperand)
                a = self._operand(o.a, *a_at, ROWS)
            b = self._operand(o.b, *b_at, o.n)
            with np.errstate(all="ignore"):
                total = a[:, :depth].astype(F32) @ b.T.astype(F32)
                self.shadow[storage] = total if overwrites else self.shadow[storage] + total

        product = _Product(execute, twins, self.last)
        twins.append(product)
        self.last = product
        self.open.append((product, storage))
        if self.alone or len(twins) == 2:
            self.machine.events.append(Event(product.execute))

    def _operand(self, operand: ir.SlotOperand | ir.BufferOperand, buffer: ir.Buffer, at: int, extent: int) -> Array:
        """Extent x depth, gathered as the descriptor's strides say."""
        size = buffer.dtype.bytes
        if isinstance(operand, ir.SlotOperand):
            at += operand.warpgroup * self.warpgroup
        steps = np.asarray(operand.offsets)
        outer, k = np.arange(extent)[:, None], np.arange(16)[None, :]
        if operand.major == "k":
            inside = outer // 8 * operand.stride + outer % 8 * buffer.line + k * size
        else:
            width = buffer.chunk
            inside = k // 8 * operand.stride + k % 8 * buffer.line
            inside = inside + outer // width * operand.leading + outer % width * size
        where = at + steps[:, None, None] + inside[None]
        taken = self._take(self.machine.engines, where, buffer)
        return np.moveaxis(taken, 0, 1).reshape(extent, -1)

    def do_MmaCommit(self, o: ir.MmaCommit) -> None:
        self.groups.append(([p for p, _ in self.open], [s for _, s in self.open]))
        self.open = []

    def _retire(self, pending: int) -> None:
        while len(self.groups) > pending:
            products, storages = self.groups.pop(0)
            for product in products:
                product.execute()
            later = {s for _, names in self.groups for s in names} | {s for _, s in self.open}
            for s in storages:
                if s not in later and s in self.shadow:
                    self.registers[s] = self.shadow.pop(s)


def launch_rules(plan: ir.Plan) -> None:
    """What the driver and the machine refuse, or never start. Raises Harm."""
    for d in plan.descriptors:
        if any(not 1 <= x.box <= 256 for x in d.dims):
            raise Harm("a box of more than 256 positions")
        width = d.dims[0].box * plan.tensor(d.tensor).dtype.bytes
        if width % 16 or (d.swizzle and width > d.swizzle):
            raise Harm("the inner side of a box")
    if plan.shared_bytes > 232448:
        raise Harm("too much shared memory")
    asked = sum(128 * r.warpgroups * (r.registers or plan.registers_at_entry) for r in plan.roles if r.warps is None)
    if asked > plan.registers_at_entry * plan.threads:
        raise Harm("setmaxnreg waits for ever")
    for ring in plan.rings:
        if any(g.offset % 8 for g in ring.barriers):
            raise Harm("a misaligned mbarrier")


def run(
    plan: ir.Plan,
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
    arrays: Mapping[str, Array],
    seed: int,
    sms: int,
) -> dict[str, Array]:
    """The outputs, NaN where nothing is stored. Raises Harm, or Misuse of the interpreter."""
    launch_rules(plan)
    rng = random.Random(seed)
    tensors = dict(arrays)
    names = {**sizes, "sm_count": sms, **{k: v for k, v in scalars.items() if isinstance(v, int)}}
    if plan.table is not None and plan.table.sequences is not None:
        for x in plan.table.sequences.lengths:
            names |= dict.fromkeys(symbols(x.tokens), int(arrays[x.starts][-1]))
    floats = {k: F32(v) for k, v in scalars.items()}
    for t in plan.tensors:
        if t.output:
            tensors[t.name] = np.full(tuple(evaluate(d, names) for d in t.dims), np.nan, t.dtype.numpy)
    ctas = evaluate(plan.grid, names)
    for number in range(ctas):
        cta = Cta(plan, rng)
        units = []
        for role in plan.roles:
            for group in range(role.warpgroups):
                parts = (True,) if role.elected or role.warps is not None else (True, False)
                for lead in parts:
                    unit = Unit(cta, role, tensors, group, number, ctas, lead)
                    unit.names |= {**names, "warpgroup": group}
                    unit.floats |= floats
                    units.append(unit)
        _run(cta, units, rng)
    return {t.name: tensors[t.name] for t in plan.tensors if t.output}


def _run(cta: Cta, units: list[Unit], rng: random.Random) -> None:
    running: dict[int, tuple[Iterator[Wait], Wait]] = {n: (u.walk(u.role.body), None) for n, u in enumerate(units)}
    slow_engines = rng.random()
    weights = [rng.random() ** 3 + 0.001 for _ in units]
    for _ in range(STEPS):
        ready = [n for n, (_, wait) in running.items() if wait is None or wait()]
        if cta.events and (not ready or rng.random() > slow_engines):
            cta.events.pop(rng.randrange(len(cta.events))).what()
            continue
        if not running:
            break
        if not ready:
            raise Harm("nobody can go on")
        if rng.random() < 0.02:
            weights = [rng.random() ** 3 + 0.001 for _ in units]
        n = rng.choices(ready, [weights[r] for r in ready])[0]
        walk = running[n][0]
        for _ in range(rng.choice((1, 1, 4, 16))):  # a while of its own
            try:
                wait = next(walk)
            except StopIteration:
                del running[n]
                break
            running[n] = (walk, wait)
            if wait is not None and not wait():
                break
    else:
        raise Harm("no end")
    if any(u.stores and not all(f[1] for g in u.stores for f in g) for u in units) or any(u.open_stores for u in units):
        raise Harm("the CTA ends under a store")
    if any(b.bytes for b in cta.barriers.values()):
        raise Harm("the CTA ends under a load")
