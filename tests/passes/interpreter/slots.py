"""What a plan moves by way of slots and staging buffers in shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.passes.interpreter.state import F32, FILL, Array, Misuse, State, row_positions, stored_cols
from tilegen.ir import plan as ir
from tilegen.ir.uniform import Uniform


def outside(d: ir.Descriptor, tensor: Array) -> Any:
    """What a tensor map fills a box with."""
    if d.fill == "nan":
        return np.uint16(FILL).view(tensor.dtype) if tensor.itemsize == 2 else tensor.dtype.type(np.nan)
    return tensor.dtype.type(0)


class Slots(State):
    def do_Advance(self, o: ir.Advance) -> None:
        self.cursors[o.cursor] = self.cursors.get(o.cursor, 0) + 1

    def do_Expect(self, o: ir.Expect) -> None:
        b = self.plan.buffer(self.plan.ring(o.slot.ring).buffer)
        filled = self.shared.slots.setdefault((o.slot.ring, self.part(o.slot)), [])
        assert len(filled) == self.place(o.slot), "slots are filled in order, once each"
        filled.append(np.full(b.rows * stored_cols(b), np.nan, b.dtype.numpy))

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
        tensor, chunks = self.tensors[o.tensor], stored_cols(b) // b.chunk
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
        flat = self.staged[o.buffer, o.stage].reshape(-1)[start : start + where[0].size]
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

    def do_ArriveEmpty(self, o: ir.ArriveEmpty) -> None:
        if (o.slot.ring, self.place(o.slot)) not in self.ready:
            raise Misuse(f"{o.slot.ring} at {self.place(o.slot)} is released before it is waited for, or twice")
        self.ready.discard((o.slot.ring, self.place(o.slot)))

    def do_ReadShared(self, o: ir.ReadShared) -> None:
        first = o.row_offset * self.warpgroup
        rows = first + row_positions(o.digit)
        tile = self.tile(o.slot, self.place(o.slot))[rows, : self.fragment(o.out).cols]
        self.write(o.out, tile if self.fragment(o.out).layout == "pair" else tile.astype(F32))

    def do_WriteShared(self, o: ir.WriteShared) -> None:
        b = self.plan.buffer(o.buffer)
        if b.host is not None and any(ring == b.host for ring, _ in self.ready) is False:
            raise Misuse(f"{o.buffer} uses the bytes of {b.host} after its release")
        rounded = self.read(o.source)[:, o.first : o.first + b.cols].astype(b.dtype.numpy)
        rounded = np.pad(rounded, ((0, 0), (0, stored_cols(b) - rounded.shape[1])))
        self.staged[o.buffer, o.stage] = np.moveaxis(rounded.reshape(b.rows, -1, b.chunk), 1, 0).copy()
