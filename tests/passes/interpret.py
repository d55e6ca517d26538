"""Runs a plan on numpy arrays, one operation after the other, by what tilegen.ir.plan says each of them means.

It knows nothing of instructions, swizzles or time; what it holds plans to is the order that they write down.
A product takes effect either when it is issued or when it is awaited (`lazy`): both must give the same result, or
something touched what was in flight. A slot is read between the wait for it and its release, or the run fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tilegen.ir import plan as ir
from tilegen.ir.deal import deal, deal_sequences
from tilegen.ir.uniform import Uniform, evaluate, symbols

Array = npt.NDArray[Any]
ROWS = 64
FILL = 0x7FF7  # what TMA's NaN fill writes to a 16-bit element, as the emulator has it
QUAD = 4  # lanes that share a row: a row fragment is an array of ROWS x QUAD, one value a lane
F32 = np.float32


class Misuse(AssertionError):  # noqa: N818
    """The plan reads what is not there yet or no more."""


@dataclass
class Shared:
    """Every slot that the producer fills, by its absolute position: as if rings had no end."""

    plan: ir.Plan
    slots: dict[tuple[str, int], list[Array]] = field(default_factory=dict)
    clean: set[tuple[str, int, int]] = field(default_factory=set)  # ring, part and position looked through
    spoiled: set[str] = field(default_factory=set)

    def tile(self, ring: str, part: int, position: int) -> Array:
        """rows x columns of the slot, those past the last one in use among them."""
        filled = self.slots.get((ring, part), [])
        if position >= len(filled):
            raise Misuse(f"{ring}[{part}] at {position} is never filled")
        b = self.plan.buffer(self.plan.ring(ring).buffer)
        chunks: Array = filled[position].reshape(-1, b.rows, b.chunk)
        return np.moveaxis(chunks, 0, 1).reshape(b.rows, -1)


def outside(d: ir.Descriptor, tensor: Array) -> Any:
    """What a tensor map fills a box with."""
    if d.fill == "nan":
        return np.uint16(FILL).view(tensor.dtype) if tensor.itemsize == 2 else tensor.dtype.type(np.nan)
    return tensor.dtype.type(0)


def run(
    plan: ir.Plan,
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
    arrays: Mapping[str, Array],
    *,
    lazy: bool,
    sm_count: int = 3,
) -> dict[str, Array]:
    """The outputs, NaN where nothing is stored. `arrays`: every input in its own type. Of `sizes` the ragged ones are
    left out."""
    tensors = dict(arrays)
    names = {**sizes, "sm_count": sm_count}
    if plan.table is not None and plan.table.sequences is not None:
        for x in plan.table.sequences.lengths:
            names |= dict.fromkeys(symbols(x.tokens), int(arrays[x.starts][-1]))
    names |= {k: v for k, v in scalars.items() if isinstance(v, int)}
    floats = {k: F32(v) for k, v in scalars.items()}
    for t in plan.tensors:
        if t.output:
            shape = tuple(evaluate(d, names) for d in t.dims)
            tensors[t.name] = np.full(shape, np.nan, t.dtype.numpy)
    ctas = evaluate(plan.grid, names)
    for cta in range(ctas):
        shared = Shared(plan)
        for role in plan.roles:
            for warpgroup in range(role.warpgroups):
                state = Role(plan, role, shared, tensors, warpgroup, cta, ctas, lazy)
                state.names |= {**names, "warpgroup": warpgroup}
                state.floats |= floats
                state.body(role.body)
                if state.flying:
                    raise Misuse(f"{role.name} ends with {[t for t, _ in state.flying]} in flight")
    return {t.name: tensors[t.name] for t in plan.tensors if t.output}


@dataclass
class Role:
    """One warpgroup of a role."""

    plan: ir.Plan
    role: ir.RolePlan
    shared: Shared
    tensors: dict[str, Array]
    warpgroup: int
    cta: int
    ctas: int
    lazy: bool
    names: dict[str, int] = field(default_factory=dict)
    floats: dict[str, Any] = field(default_factory=dict)
    registers: dict[str, Array] = field(default_factory=dict)
    cursors: dict[str, int] = field(default_factory=dict)
    staged: dict[str, Array] = field(default_factory=dict)
    ready: set[tuple[str, int]] = field(default_factory=set)  # slots waited for and not released
    issued: list[tuple[str, Callable[[], None]]] = field(default_factory=list)
    flying: list[tuple[tuple[str, ...], list[Callable[[], None]]]] = field(default_factory=list)

    def body(self, operations: Iterable[ir.Operation]) -> None:
        for o in operations:
            method = getattr(self, f"do_{type(o).__name__}", None)
            if method is not None:
                method(o)
            elif not isinstance(o, _ORDER_ONLY):
                raise NotImplementedError(type(o).__name__)

    def int(self, value: Uniform) -> int:
        return evaluate(value, self.names)

    # ---- control ----

    def do_Let(self, o: ir.Let) -> None:
        self.names[o.name] = self.int(o.value)

    def do_LetFloat(self, o: ir.LetFloat) -> None:
        if o.load is not None:
            tensor, index = o.load
            found = self.tensors[tensor][tuple(self.int(i) for i in index)]
            self.floats[o.name] = found if found.dtype == np.int32 else F32(found)
        else:
            assert o.value is not None
            self.floats[o.name] = F32(self.value(o.value, "uniform", 1))

    def do_Work(self, o: ir.Work) -> None:
        total = self.int(o.total)
        rows: list[list[int]] = [[n] for n in range(self.cta, total, self.ctas)]
        if o.mode == "single":
            rows = rows[:1]
        elif o.mode == "table":
            assert self.plan.table is not None
            table = self.plan.table
            if table.sequences is None:
                dealt = deal(table, self.names, self.ctas)[:, self.cta]
            else:
                starts = {x.starts: self.tensors[x.starts] for x in table.sequences.lengths}
                dealt = deal_sequences(table, self.names, starts, self.ctas)[:, self.cta]
            end = next(n for n, row in enumerate(dealt) if row[0] >= total)
            rows = [list(map(int, row)) for row in dealt[:end]]
        for row in rows:
            fields = self.plan.table.fields if self.plan.table else ()
            given = dict(zip((o.index, *fields), row, strict=False))
            self.names |= {name: given[name] for name in (o.index, *o.fields)}
            self.body(o.body)

    def do_For(self, o: ir.For) -> None:
        for n in range(self.int(o.start), self.int(o.stop)):
            self.names[o.var] = n
            self.body(o.body)

    def do_If(self, o: ir.If) -> None:
        if self.int(o.condition):
            self.body(o.body)

    def do_Sweep(self, o: ir.Sweep) -> None:
        self.body(o.body)

    def do_IfVote(self, o: ir.IfVote) -> None:
        """Warp by warp: the rows of warps that do not take the branch keep what they have."""
        taken = self.read(o.fragment).reshape(4, -1).any(axis=1)
        before = {name: array.copy() for name, array in self.registers.items()}
        floats = dict(self.floats)
        staged = {name: array.copy() for name, array in self.staged.items()}
        self.body(o.body)
        for name, array in before.items():
            if len(array) == ROWS:
                stays = np.repeat(~taken, ROWS // 4)
                self.registers[name][stays] = array[stays]
        for name, array in staged.items():
            stays = np.repeat(~taken, ROWS // 4)
            self.staged[name][:, stays] = array[:, stays]
        self.floats = floats

    # ---- movement ----

    def do_Advance(self, o: ir.Advance) -> None:
        self.cursors[o.cursor] = self.cursors.get(o.cursor, 0) + 1

    def part(self, slot: ir.Slot) -> int:
        own = self.warpgroup if self.plan.ring(slot.ring).parts > 1 else 0
        return own if slot.part is None else slot.part

    def place(self, slot: ir.Slot) -> int:
        return self.cursors.get(slot.cursor, 0)

    def do_Expect(self, o: ir.Expect) -> None:
        b = self.plan.buffer(self.plan.ring(o.slot.ring).buffer)
        filled = self.shared.slots.setdefault((o.slot.ring, self.part(o.slot)), [])
        assert len(filled) == self.place(o.slot), "slots are filled in order, once each"
        filled.append(np.full(b.rows * _stored(b), np.nan, b.dtype.numpy))

    def do_TmaLoad(self, o: ir.TmaLoad) -> None:
        d = self.plan.descriptor(o.descriptor)
        tensor = self.tensors[d.tensor]
        where = self.box(d, o.coordinates, tensor)
        inside = np.logical_and.reduce([(w >= 0) & (w < n) for w, n in zip(where, tensor.shape, strict=True)])
        clipped = tuple(np.clip(w, 0, max(n - 1, 0)) for w, n in zip(where, tensor.shape, strict=True))
        fill = outside(d, tensor)
        box = np.where(inside, tensor[clipped], fill) if tensor.size else np.full(inside.shape, fill)
        flat = self.shared.slots[o.slot.ring, self.part(o.slot)][self.place(o.slot)]
        start = o.offset // tensor.dtype.itemsize
        assert box.size * tensor.dtype.itemsize == o.bytes
        flat[start : start + box.size] = box.astype(tensor.dtype).reshape(-1)

    def box(self, d: ir.Descriptor, coordinates: tuple[Uniform, ...], tensor: Array) -> tuple[Array, ...]:
        """Positions in each tensor dimension of the box's elements, in the order in which they lie in shared memory."""
        ranges = [self.int(c) + np.arange(dim.box) for c, dim in zip(coordinates, d.dims, strict=True)]
        grid = np.meshgrid(*reversed(ranges), indexing="ij")[::-1]
        where: list[Array] = [np.zeros(grid[0].shape, np.int64) for _ in tensor.shape]
        for dim, at in zip(d.dims, grid, strict=True):
            unit = dim.chunk if dim.by is None else self.int(dim.by)
            here = at * unit if dim.part == "outer" else at
            if dim.by is not None and dim.part == "inner":  # outside its part: outside the tensor
                here = np.where((at >= 0) & (at < unit), here, -tensor.shape[dim.dim] - unit)
            where[dim.dim] = where[dim.dim] + here
        return tuple(where)

    def do_CopyTile(self, o: ir.CopyTile) -> None:
        b = self.plan.buffer(self.plan.ring(o.slot.ring).buffer)
        tensor, chunks = self.tensors[o.tensor], _stored(b) // b.chunk
        filled = self.shared.slots.setdefault((o.slot.ring, self.part(o.slot)), [])
        assert len(filled) == self.place(o.slot), "slots are filled in order, once each"
        chunk, row, column = np.meshgrid(*map(np.arange, (chunks, b.rows, b.chunk)), indexing="ij")
        where = [np.full(row.shape, self.int(at)) for at in o.index]
        where[o.col_dim] += chunk * b.chunk + column
        inside = (where[o.col_dim] >= 0) & (where[o.col_dim] < self.int(o.col_limit))
        for step in o.rows:
            at = row // step.digit.divide
            where[step.dim] += at % step.digit.modulo if step.digit.modulo else at
            inside &= (where[step.dim] >= 0) & (where[step.dim] < self.int(step.limit))
        clipped = tuple(np.clip(w, 0, max(n - 1, 0)) for w, n in zip(where, tensor.shape, strict=True))
        found = tensor[clipped] if tensor.size else np.zeros(inside.shape, tensor.dtype)
        filled.append(np.where(inside, found, tensor.dtype.type(0)).astype(tensor.dtype).reshape(-1))

    def do_TmaStore(self, o: ir.TmaStore) -> None:
        d = self.plan.descriptor(o.descriptor)
        tensor = self.tensors[d.tensor]
        where = self.box(d, o.coordinates, tensor)
        start = o.offset // tensor.dtype.itemsize
        flat = self.staged[o.buffer].reshape(-1)[start : start + where[0].size]
        inside = np.logical_and.reduce([(w >= 0) & (w < n) for w, n in zip(where, tensor.shape, strict=True)])
        tensor[tuple(w[inside] for w in where)] = flat.reshape(inside.shape)[inside]

    def do_WaitFull(self, o: ir.WaitFull) -> None:
        self.shared.tile(o.slot.ring, self.part(o.slot), self.place(o.slot))
        self.ready.add((o.slot.ring, self.place(o.slot)))

    def do_WaitClean(self, o: ir.WaitClean) -> None:
        if (o.slot.ring, self.part(o.slot), self.place(o.slot)) not in self.shared.clean:
            raise Misuse(f"{o.slot.ring} at {self.place(o.slot)} is never looked through")
        self.ready.add((o.slot.ring, self.place(o.slot)))

    def do_ArriveClean(self, o: ir.ArriveClean) -> None:
        if (o.slot.ring, self.place(o.slot)) not in self.ready:
            raise Misuse(f"{o.slot.ring} at {self.place(o.slot)} is passed on before it is waited for")
        self.shared.clean.add((o.slot.ring, self.part(o.slot), self.place(o.slot)))

    def do_ScanSlot(self, o: ir.ScanSlot) -> None:
        flat = self.shared.slots[o.slot.ring, self.part(o.slot)][self.place(o.slot)]
        bad = ~np.isfinite(flat.astype(F32))
        if bad.any():
            flat[bad] = 0
            self.shared.spoiled.add(o.slot.ring)

    def do_IfSpoiled(self, o: ir.IfSpoiled) -> None:
        if o.ring in self.shared.spoiled:
            self.body(o.body)

    def do_Mend(self, o: ir.Mend) -> None:
        tensor, acc = self.tensors[o.tensor], self.read(o.fragment).copy()
        sees = self.read(o.live) != 0
        index = [self.int(i) for i in o.index]
        cols = min(acc.shape[1], self.int(o.col_limit) - index[o.col_dim])
        for n in range(self.int(o.count)):
            where: list[int | slice] = list(index)
            where[o.dim] = index[o.dim] + n
            where[o.col_dim] = slice(index[o.col_dim], index[o.col_dim] + cols)
            entries = tensor[tuple(where)].astype(F32)
            added = sees[:, n, None] & ~np.isfinite(entries)
            with np.errstate(invalid="ignore"):
                acc[:, :cols] = np.where(added, acc[:, :cols] + entries, acc[:, :cols])
        self.write(o.fragment, acc)

    def do_ArriveEmpty(self, o: ir.ArriveEmpty) -> None:
        if (o.slot.ring, self.place(o.slot)) not in self.ready:
            raise Misuse(f"{o.slot.ring} at {self.place(o.slot)} is released before it is waited for, or twice")
        self.ready.discard((o.slot.ring, self.place(o.slot)))

    def tile(self, slot: ir.Slot, position: int) -> Array:
        if (slot.ring, position) not in self.ready:
            raise Misuse(f"{slot.ring} at {position} is read before it is full or after its release")
        return self.shared.tile(slot.ring, self.part(slot), position)

    def do_ReadShared(self, o: ir.ReadShared) -> None:
        first = o.row_offset * self.warpgroup
        rows = first + _digits(o.digit)
        tile = self.tile(o.slot, self.place(o.slot))[rows, : self.fragment(o.out).cols]
        self.write(o.out, tile if self.fragment(o.out).layout == "pair" else tile.astype(F32))

    def do_WriteShared(self, o: ir.WriteShared) -> None:
        b = self.plan.buffer(o.buffer)
        if b.host is not None and any(ring == b.host for ring, _ in self.ready) is False:
            raise Misuse(f"{o.buffer} uses the bytes of {b.host} after its release")
        rounded = self.read(o.source).astype(b.dtype.numpy)
        rounded = np.pad(rounded, ((0, 0), (0, _stored(b) - rounded.shape[1])))
        self.staged[o.buffer] = np.moveaxis(rounded.reshape(b.rows, -1, b.chunk), 1, 0).copy()

    def do_LoadVector(self, o: ir.LoadVector) -> None:
        tensor = self.tensors[o.tensor]
        index = [self.int(i) for i in o.index]
        limit = self.int(o.limit)
        count = ROWS if self.fragment(o.out).layout == "row" else self.fragment(o.out).cols
        found = np.zeros(count, self.fragment(o.out).dtype.numpy)
        for n, step in enumerate(_digits(o.digit) if self.is_row(o.out) else range(count)):
            at = index[o.dim] + int(step)
            if at < limit:
                found[n] = tensor[(*index[: o.dim], at, *index[o.dim + 1 :])]
        self.write(o.out, np.repeat(found[:, None], QUAD, axis=1) if count == ROWS and self.is_row(o.out) else found)

    def is_row(self, name: str) -> bool:
        return self.fragment(name).layout == "row"

    def do_StoreRows(self, o: ir.StoreRows) -> None:
        tensor, source = self.tensors[o.tensor], self.read(o.fragment)
        index = [self.int(i) for i in o.index]
        cols = min(source.shape[1], self.int(o.col_limit) - index[o.col_dim])
        if o.shared:
            for n, at in self.rows(o.shared, index):
                at[o.col_dim] = slice(index[o.col_dim], index[o.col_dim] + max(cols, 0))
                tensor[tuple(at)] = source[n, : max(cols, 0)].astype(tensor.dtype)
            return
        rows = min(ROWS, self.int(o.row_limit) - index[o.row_dim])
        if rows <= 0 or cols <= 0:
            return
        where: list[int | slice] = list(index)
        where[o.row_dim] = slice(index[o.row_dim], index[o.row_dim] + rows)
        where[o.col_dim] = slice(index[o.col_dim], index[o.col_dim] + cols)
        assert o.row_dim < o.col_dim == tensor.ndim - 1
        tensor[tuple(where)] = source[:rows, :cols].astype(tensor.dtype)

    def do_StoreVector(self, o: ir.StoreVector) -> None:
        tensor, source = self.tensors[o.tensor], self.read(o.fragment)
        index = [self.int(i) for i in o.index]
        if o.shared:
            for n, at in self.rows(o.shared, index):
                tensor[tuple(at)] = source[n, 0].astype(tensor.dtype)
            return
        rows = min(ROWS, self.int(o.limit) - index[o.dim])
        if rows > 0:
            where: list[int | slice] = list(index)
            where[o.dim] = slice(index[o.dim], index[o.dim] + rows)
            tensor[tuple(where)] = source[:rows, 0].astype(tensor.dtype)

    def rows(self, shared: tuple[ir.RowStep, ...], index: list[int]) -> Iterator[tuple[int, list[int | slice]]]:
        """Each row that exists, with its index in the tensor."""
        for n in range(ROWS):
            at: list[int | slice] = list(index)
            for x in shared:
                at[x.dim] = index[x.dim] + int(_digits(x.digit)[n])
            if all(cast("int", at[x.dim]) < self.int(x.limit) for x in shared):
                yield n, at

    # ---- registers ----

    def fragment(self, name: str) -> ir.Fragment:
        return next(f for f in self.role.fragments if f.name == name)

    def read(self, name: str) -> Array:
        storage = self.fragment(name).storage or name
        if storage not in self.registers:
            raise Misuse(f"{name} is read before it is written")
        return self.registers[storage]

    def write(self, name: str, value: Array) -> None:
        f = self.fragment(name)
        shape = {"row": (ROWS, QUAD), "col": (f.cols,)}.get(f.layout, (ROWS, f.cols))
        self.registers[f.storage or name] = np.array(np.broadcast_to(value, shape))

    def value(self, e: ir.ElementExpr, layout: str, cols: int) -> Any:
        """An expression at every element of a fragment of this layout (or of none: "uniform")."""
        match e:
            case ir.Element(name):
                array, held = self.read(name), self.fragment(name).layout
                if layout == "acc" and held == "row":
                    return array[:, _lane_of(cols)]
                return array
            case ir.Literal(value):
                return F32(value)
            case ir.Value(name):
                return self.floats[name]
            case ir.IntValue(value):
                return F32(self.int(value))
            case ir.Coordinate(along, origin, digit):
                line = F32(self.int(origin) + (_digits(digit) if along == "row" else np.arange(cols)))
                return line[:, None] if along == "row" else line
            case ir.Place(row_factor, col_factor, offset, digits):
                first = 2 * np.arange(QUAD)  # the first column that each lane holds
                columns = first if layout == "row" else np.arange(cols)
                rows = row_factor * np.arange(ROWS) + sum((n * _digits(d) for n, d in digits), np.zeros(ROWS, np.int64))
                return F32(rows[:, None] + col_factor * columns + self.int(offset))
            case ir.Past():
                return F32(np.arange(cols) - 2 * _lane_of(cols))
            case ir.Compute(op, args, dtype):
                values = [self.value(a, layout, cols) for a in args]
                if not (op in _COMPARISONS and all(np.asarray(v).dtype == np.int32 for v in values)):
                    values = [np.asarray(v).astype(F32) if np.asarray(v).dtype == np.int32 else v for v in values]
                if op == "round":
                    assert dtype is not None
                    return np.asarray(values[0]).astype(dtype.numpy).astype(F32)
                with np.errstate(all="ignore"):
                    return np.asarray(_COMPUTE[op](*values)).astype(F32)
        raise NotImplementedError(type(e).__name__)

    def do_Init(self, o: ir.Init) -> None:
        self.write(o.fragment, np.asarray(F32(o.value)))

    def do_Map(self, o: ir.Map) -> None:
        f = self.fragment(o.out)
        self.write(o.out, self.value(o.value, f.layout, f.cols))

    def do_FmaOob(self, o: ir.FmaOob) -> None:
        cols = self.fragment(o.out).cols
        operands = [np.broadcast_to(self.value(e, "acc", cols), (ROWS, cols)) for e in (o.a, o.b, o.c)]
        outside = np.zeros((ROWS, cols), np.bool_)
        for e in (o.a, o.b):
            if isinstance(e, ir.Element) and self.fragment(e.fragment).layout == "pair":
                outside |= self.read(e.fragment).view(np.uint16) == FILL
        with np.errstate(all="ignore"):
            a, b, c = (x.astype(np.float64) for x in operands)
            made = (a * b + c).astype(o.dtype.numpy).astype(F32)
        self.write(o.out, np.where(outside, F32(0), made))

    def do_Mask(self, o: ir.Mask) -> None:
        cols = self.fragment(o.fragment).cols
        row, col = np.arange(ROWS)[:, None], np.arange(cols)[None, :]
        live = np.zeros((ROWS, cols), np.bool_)
        layout = self.fragment(o.fragment).layout
        for conditions in o.alternatives:
            every = np.ones((ROWS, cols), np.bool_)
            for c in conditions:
                if isinstance(c, ir.Bound):
                    at_row, at_col = self.counted(row, c.row_chunks), self.counted(col, c.col_chunks)
                    digits = sum((n * _digits(d) for n, d in c.digits), np.zeros(ROWS, np.int64))[:, None]
                    every &= c.row_factor * at_row + digits + c.col_factor * at_col + self.int(c.offset) >= 0
                else:
                    every &= self.value(c, layout, cols) != 0
            live |= every
        self.write(o.fragment, np.where(live, self.read(o.fragment), F32(o.identity)))

    def counted(self, places: Array, chunks: ir.Chunks | None) -> Array:
        if chunks is None:
            return places
        if chunks.digit is not None:
            places = _digits(chunks.digit)[:, None]
        found: Array = (self.int(chunks.origin) + places) // self.int(chunks.length)
        return found

    def do_RowFold(self, o: ir.RowFold) -> None:
        source = self.read(o.source)
        fold = _FOLD[o.kind]
        with np.errstate(all="ignore"):
            lanes = [fold(source[:, _lane_of(source.shape[1]) == n], axis=1) for n in range(QUAD)]
        part = np.stack(lanes, axis=1).astype(F32)
        self.write(o.out, part if o.scope == "thread" else fold(part, axis=1)[:, None])

    def do_QuadReduce(self, o: ir.QuadReduce) -> None:
        self.write(o.fragment, _FOLD[o.kind](self.read(o.fragment), axis=1)[:, None])

    def do_Relayout(self, o: ir.Relayout) -> None:
        out, source = self.fragment(o.out), self.read(o.source)
        more = out.cols - source.shape[1]
        self.write(o.out, np.pad(source, ((0, 0), (0, more))).astype(out.dtype.numpy))

    def do_CopyOperand(self, o: ir.CopyOperand) -> None:
        self.write(o.out, self.read(o.source))

    # ---- products ----

    def do_Mma(self, o: ir.Mma) -> None:
        at = {s.slot: self.place(s.slot) for s in (o.a, o.b) if isinstance(s, ir.SlotOperand)}

        overwrites = o.zero if isinstance(o.zero, bool) else bool(self.int(o.zero))

        def multiply() -> None:
            depth = 16 * len(o.b.offsets)
            if isinstance(o.a, ir.FragmentOperand):
                a = self.read(o.a.fragment)
            elif isinstance(o.a, ir.BufferOperand):
                a = np.moveaxis(self.staged[o.a.buffer], 0, 1).reshape(ROWS, -1)[:, :depth]
            else:
                a = self.tile(o.a.slot, at[o.a.slot])
                a = a if o.a.major == "k" else a.T
                first = ROWS * self.warpgroup if o.a.warpgroup else 0
                a = a[first : first + ROWS, :depth]
            b = self.tile(o.b.slot, at[o.b.slot])
            b = b.T if o.b.major == "k" else b
            b = b[:depth, : o.n]
            assert a.shape == (ROWS, depth)
            assert b.shape == (depth, o.n)
            with np.errstate(all="ignore"):
                total = a.astype(F32) @ b.astype(F32)
            self.write(o.accumulator, total if overwrites else self.read(o.accumulator) + total)

        if self.lazy:
            self.issued.append((o.token, multiply))
        else:
            multiply()
            self.issued.append((o.token, lambda: None))

    def do_MmaCommit(self, o: ir.MmaCommit) -> None:
        assert tuple(t for t, _ in self.issued) == o.tokens
        self.flying.append((o.tokens, [f for _, f in self.issued]))
        self.issued = []

    def do_MmaWait(self, o: ir.MmaWait) -> None:
        retired: list[str] = []
        while len(self.flying) > o.pending:
            tokens, effects = self.flying.pop(0)
            retired += tokens
            for effect in effects:
                effect()
        if retired != list(o.retires):
            raise Misuse(f"a wait that is to retire {list(o.retires)} retires {retired}")


def _digits(digit: ir.Digit | None) -> npt.NDArray[np.int64]:
    """Where each row of a warpgroup is along an axis."""
    rows = np.arange(ROWS)
    if digit is None:
        return rows
    return rows // digit.divide % digit.modulo if digit.modulo else rows // digit.divide


def _stored(b: ir.Buffer) -> int:
    """Columns of whole chunks."""
    return -(-b.cols // b.chunk) * b.chunk


def _lane_of(cols: int) -> npt.NDArray[np.int64]:
    """The lane, of four, that holds each column of an accumulator."""
    return np.arange(cols) % 8 // 2


_ORDER_ONLY = (
    ir.SetRegisters,
    ir.WaitEmpty,
    ir.SignalCopies,
    ir.OrderWait,
    ir.OrderPass,
    ir.OrderStart,
    ir.GroupSync,
    ir.FenceAsync,
    ir.MmaFence,
    ir.StoreCommit,
    ir.StoreWait,
)
_FOLD: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_COMPUTE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "div_rn": np.divide,
    "neg": np.negative,
    "fma": lambda a, b, c: np.float64(a) * np.float64(b) + np.float64(c),
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": lambda a: np.divide(1, a),
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "tanh": np.tanh,
    "tanh_approx": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "abs": np.abs,
    "floor": np.floor,
    "min": np.minimum,
    "max": np.maximum,
    "pow": np.power,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "select": np.where,
    "ratio": lambda a, b: np.where(b == 0, 0, a / np.where(b == 0, 1, b)),
}
