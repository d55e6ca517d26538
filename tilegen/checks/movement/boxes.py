"""Which element of a tensor lies where in a tile of shared memory, by the boxes of TMA or by copies of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.checks.movement.algebra import digits
from tilegen.checks.movement.places import COL, ROW, Pos, U, joined, pos_of
from tilegen.ir import plan as ir
from tilegen.ir.uniform import evaluate

Array = npt.NDArray[Any]
_NOWHERE = -(2**40)


@dataclass(frozen=True)
class Box:
    """One box: its descriptor, where in the slot it begins (bytes), its coordinates."""

    descriptor: str
    offset: int
    coordinates: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Tile:
    """A filled slot or a part of a buffer, rows x columns.

    dims: of each dimension of the tensor the coordinate, or (outer, inner, unit) where a size splits it. rows, cols:
    which of them lie inside the tensor, the others are filled. covered: elements that a box reaches.
    """

    tensor: str
    dims: tuple[Pos | tuple[Pos, Pos, int], ...]
    rows: tuple[bool, ...]
    cols: tuple[bool, ...]
    covered: Array
    fill: str
    corner: tuple[int, ...]  # its first element's coordinates


class MixedBoxes(Exception):  # noqa: N818 - a finding
    """Boxes that make no single tile."""


class Layouts:
    """How the boxes of a plan lie in its buffers."""

    def __init__(self, plan: ir.Plan) -> None:
        self._plan = plan
        self._patterns: dict[tuple[object, ...], tuple[Array, ...]] = {}
        self._lines: dict[int, tuple[_Line, ...]] = {}  # of a pattern, by what it covers
        self._whole: dict[str, Array] = {}  # of a buffer: all its elements

    def tile(self, buffer: ir.Buffer, boxes: Sequence[Box], values: Mapping[str, int]) -> Tile:
        """What the boxes make of a buffer's copy. Raises MixedBoxes."""
        first = boxes[0]
        descriptor = self._plan.descriptor(first.descriptor)
        if any(self._plan.descriptor(b.descriptor).tensor != descriptor.tensor for b in boxes):
            raise MixedBoxes
        if any(self._plan.descriptor(b.descriptor).dims != descriptor.dims for b in boxes):
            raise MixedBoxes
        relative = tuple(
            (b.descriptor, b.offset, tuple(c - f for c, f in zip(b.coordinates, first.coordinates, strict=True)))
            for b in boxes
        )
        key = (buffer.name, relative)
        if key not in self._patterns:
            self._patterns[key] = self._pattern(buffer, relative)
        covered, *places = self._patterns[key]
        return self._named(descriptor, first.coordinates, covered, places, values)

    def copied(
        self,
        buffer: ir.Buffer,
        copy: ir.CopyTile,
        index: tuple[int, ...],
        limits: tuple[int, ...],
        units: Mapping[int, int],
    ) -> Tile:
        """What threads make of a slot. index, limits: the numbers of the copy, the columns' limit last. units: of
        dimensions that a split axis runs along, the extent of its inner part."""
        columns = -(-buffer.cols // buffer.chunk) * buffer.chunk
        if buffer.name not in self._whole:
            self._whole[buffer.name] = np.ones((buffer.rows, columns), np.bool_)
        dims: list[Pos | tuple[Pos, Pos, int]] = [Pos(U, at) for at in index]
        rows_in: Array = np.ones(buffer.rows, np.bool_)
        for step, limit in zip(copy.rows, limits, strict=False):
            at = index[step.dim] + digits(step.digit, np.arange(buffer.rows))
            rows_in &= (at >= 0) & (at < limit)
            unit = units.get(step.dim, 0)
            if unit and limit == (index[step.dim] // unit + 1) * unit:
                inner = at - (limit - unit)
                dims[step.dim] = Pos(U, index[step.dim] // unit), pos_of(ROW, inner.tolist()), unit
            else:
                dims[step.dim] = pos_of(ROW, at.tolist())
        at = index[copy.col_dim] + np.arange(columns)
        dims[copy.col_dim] = pos_of(COL, at.tolist())
        cols_in = (at >= 0) & (at < limits[-1])
        whole = self._whole[buffer.name]
        return Tile(copy.tensor, tuple(dims), tuple(rows_in.tolist()), tuple(cols_in.tolist()), whole, "zero", index)

    def _pattern(self, buffer: ir.Buffer, boxes: tuple[tuple[str, int, tuple[int, ...]], ...]) -> tuple[Array, ...]:
        """Which elements are covered, and along each dimension of the map the places of rows and of columns."""
        rows, size = buffer.rows, buffer.dtype.bytes
        chunks = -(-buffer.cols // buffer.chunk)
        rank = len(self._plan.descriptor(boxes[0][0]).dims)
        places = np.full((rank, rows, chunks * buffer.chunk), _NOWHERE, np.int64)
        inside: dict[tuple[int, ...], Array] = {}  # coordinates in boxes, by their sides
        for name, offset, shift in boxes:
            shape = tuple(d.box for d in reversed(self._plan.descriptor(name).dims))
            if shape not in inside:
                inside[shape] = np.indices(shape).reshape(rank, -1)[::-1]
            at = offset + np.arange(inside[shape].shape[1]) * size
            chunk, rest = np.divmod(at, rows * buffer.line)
            r, byte = np.divmod(rest, buffer.line)
            c = chunk * buffer.chunk + byte // size
            if at[-1] + size > chunks * rows * buffer.line:
                raise MixedBoxes
            for n in range(rank):
                places[n, r, c] = inside[shape][n] + shift[n]
        covered = places[0] != _NOWHERE
        if not covered.any():
            raise MixedBoxes
        r0, c0 = (int(v) for v in np.argwhere(covered)[0])
        out = []
        for n in range(rank):
            along_rows, along_cols = places[n, :, c0].copy(), places[n, r0, :].copy()
            along_rows[~covered[:, c0]] = 0
            along_cols[~covered[r0, :]] = 0
            made = along_rows[:, None] + along_cols[None, :] - places[n, r0, c0]
            if (made != places[n])[covered].any():
                raise MixedBoxes
            out += [along_rows, along_cols - places[n, r0, c0]]
        return (covered, *out)

    def _named(
        self,
        d: ir.Descriptor,
        base: tuple[int, ...],
        covered: Array,
        places: list[Array],
        values: Mapping[str, int],
    ) -> Tile:
        """The tile of a pattern that begins at `base`: the same one elsewhere is shifted."""
        extents = [evaluate(e, values) for e in self._plan.tensor(d.tensor).dims]
        # by dimensions that are split, how long their parts are
        units = {m.dim: m.chunk if m.by is None else evaluate(m.by, values) for m in d.dims if m.part}
        if id(covered) not in self._lines:
            self._lines[id(covered)] = tuple(_Line.of(*places[2 * n : 2 * n + 2]) for n in range(len(d.dims)))
        inside = {ROW: (True,) * covered.shape[0], COL: (True,) * covered.shape[1]}
        found: dict[tuple[int, str], Pos] = {}
        for n, (dim, line) in enumerate(zip(d.dims, self._lines[id(covered)], strict=True)):
            pos = found[dim.dim, dim.part] = line.pos.shifted(base[n])
            extent = extents[dim.dim]
            if dim.part:
                unit = units[dim.dim]
                extent = unit if dim.part == "inner" else -(-extent // max(unit, 1))
            if base[n] + line.least < 0 or base[n] + line.most >= extent:
                at = pos.all() if pos.along != U else pos.all() * covered.shape[0]
                along = COL if pos.along == COL else ROW
                inside[along] = tuple(a and 0 <= p < extent for a, p in zip(inside[along], at, strict=True))
        by_size = {dim.dim for dim in d.dims if dim.by is not None}
        dims: list[Pos | tuple[Pos, Pos, int]] = []
        for n in range(len(extents)):
            if n not in units:
                dims.append(found.get((n, ""), Pos(U, 0)))
                continue
            outer, inner, unit = found[n, "outer"], found[n, "inner"], units[n]
            if n in by_size:
                dims.append((outer, inner, unit))
                continue
            whole = joined(outer, inner, unit)
            if whole is None:
                raise MixedBoxes  # one dimension along rows and columns at once
            dims.append(whole)
        corner = tuple(x.base if isinstance(x, Pos) else x[0].base * x[2] + x[1].base for x in dims)
        return Tile(d.tensor, tuple(dims), inside[ROW], inside[COL], covered, d.fill, corner)


@dataclass(frozen=True)
class _Line:
    """The positions of one dimension of a map in a pattern that begins at 0, and the least and the most of them."""

    pos: Pos
    least: int
    most: int

    @staticmethod
    def of(rows: Array, cols: Array) -> _Line:
        if cols.any() and (rows != rows[0]).any():
            raise MixedBoxes  # one dimension along rows and columns at once
        pos = _pos(rows, cols)
        return _Line(pos, *pos.ends())


def _pos(rows: Array, cols: Array) -> Pos:
    if cols.any() and (cols != cols[0]).any():
        return pos_of(COL, (cols + rows[0]).tolist())
    if (rows != rows[0]).any():
        return pos_of(ROW, (rows + cols[0]).tolist())
    return Pos(U, int(rows[0] + cols[0]))
