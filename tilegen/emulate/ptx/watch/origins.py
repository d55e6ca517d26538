"""Where the elements of a product's operand come from: positions along the spec's axes, by rows and columns.

An operand is cut into chunks of 16 bytes. Each chunk of shared memory knows the load that brought it and its number in
the load's box, hence its coordinates in the tensor; the tile's declaration makes positions of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilegen.emulate.ptx.types import Array
from tilegen.emulate.ptx.watch.declared import Declared, Map, Tile
from tilegen.emulate.ptx.watch.shadow import CHUNK
from tilegen.emulate.ptx.wgmma_layout import element_indices
from tilegen.targets.hopper.tensor_map import TensorMap


class WrongTileError(Exception):
    """An operand, a product or a store that the declaration says otherwise; `what` in words."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@dataclass(frozen=True)
class Load:
    """A box on its way to shared memory, or there. corner: its coordinates, innermost dimension first."""

    name: str
    tm: TensorMap
    corner: tuple[int, ...]
    map: Map | None

    @property
    def words(self) -> str:
        """The box in words."""
        return f"{self.map.tile if self.map else self.name}, box {list(self.corner)}"

    def base(self) -> Array:
        """The tensor's coordinates of the box's first element, outermost dimension first."""
        assert self.map is not None
        out = np.zeros(1 + max(d for d, _ in self.map.dims), np.int64)
        for c, (dim, step) in zip(self.corner, self.map.dims, strict=True):
            out[dim] += c * step
        return out


@lru_cache(maxsize=256)
def _inside(box: tuple[int, ...], size: int, dims: tuple[tuple[int, int], ...]) -> Array:
    """Coordinates of each chunk of a box's first element, from those of the box's corner: [chunks, dimensions]."""
    per = CHUNK // size
    shape = (*reversed(box[1:]), box[0] // per)
    index = np.indices(shape).reshape(len(shape), -1)[::-1]  # innermost first, as `dims`
    out = np.zeros((index.shape[1], 1 + max(d for d, _ in dims)), np.int64)
    for n, (dim, step) in enumerate(dims):
        out[:, dim] += index[n] * step * (per if n == 0 else 1)
    return out


def box_elements(load: Load) -> tuple[Array, Array]:
    """Coordinates in the tensor of each element of a box's chunks, [chunks, elements, dimensions], and which of them
    lie inside the tensor, [chunks, elements]."""
    assert load.map is not None
    tm = load.tm
    per = CHUNK // tm.element_bytes
    shape = (*reversed(tm.box[1:]), tm.box[0] // per)
    index = np.indices(shape).reshape(len(shape), -1)[::-1]
    steps = np.arange(per)
    inside = np.ones((index.shape[1], per), np.bool_)
    for n, (corner, extent) in enumerate(zip(load.corner, tm.dims, strict=True)):
        at = corner + (index[n][:, None] * per + steps if n == 0 else index[n][:, None])
        inside &= (at >= 0) & (at < extent)
    coordinates = np.repeat((_inside(tm.box, tm.element_bytes, load.map.dims) + load.base())[:, None], per, axis=1)
    inner, step = load.map.dims[0]
    coordinates[:, :, inner] += steps * step
    return coordinates, inside


#: The position of a row that TMA clips along one part of a split axis: by its number it would be one of the next whole.
CLIPPED = -(1 << 40)


@dataclass(frozen=True)
class Axes:
    """Positions along each axis of an operand or a value: along its rows (or columns), along what is contracted, or
    the same for all. A negative one lies before the tensor, or is `CLIPPED`."""

    tile: str
    across: dict[str, Array]
    along: dict[str, Array]
    uniform: dict[str, int]


#: Dimensions of a map that are one part of a tensor's: (of the map, of the tensor, corner of the box, extent).
Parts = tuple[tuple[int, int, int, int], ...]


def _parts(load: Load) -> Parts:
    """Those that the box reaches out of."""
    assert load.map is not None
    tensor = [dim for dim, _ in load.map.dims]
    return tuple(
        (n, dim, load.corner[n], load.tm.dims[n])
        for n, (dim, step) in enumerate(load.map.dims)
        if step == 1 and tensor.count(dim) > 1 and load.corner[n] + load.tm.box[n] > load.tm.dims[n]
    )


def _clipped(load: Load, parts: Parts) -> Array:
    """Along which dimensions of the tensor each chunk of a box is clipped by a part of them: [chunks, dimensions]."""
    assert load.map is not None
    per = CHUNK // load.tm.element_bytes
    shape = (*reversed(load.tm.box[1:]), load.tm.box[0] // per)
    index = np.indices(shape).reshape(len(shape), -1)[::-1]
    out = np.zeros((index.shape[1], 1 + max(d for d, _ in load.map.dims)), np.bool_)
    for n, dim, corner, extent in parts:
        out[:, dim] |= corner + index[n] * (per if n == 0 else 1) >= extent
    return out


@dataclass(frozen=True)
class _Grid:
    """The chunks of an operand, [rows or runs of them, chunks along the other direction]."""

    chunks: Array
    mn_major: bool
    per: int


@lru_cache(maxsize=2048)
def _grid(bits: int, extent: int, depth: int, size: int, mn_major: bool) -> _Grid:
    indices = element_indices(bits, extent, depth, size, mn_major)
    per = CHUNK // size
    chosen = indices[::per, :] if mn_major else indices[:, ::per]
    return _Grid((chosen * size // CHUNK).astype(np.intp), mn_major, per)


class Origins:
    """Reads operands off the chunks that the shadow of shared memory knows."""

    def __init__(self, declaration: Declared) -> None:
        self.declaration = declaration
        self._seen: dict[
            tuple[int, int, int, int, bool, int], tuple[Array, Map, tuple[int, ...], Axes, Tile, Parts]
        ] = {}

    @staticmethod
    def chunks(descriptor: tuple[int, int, int, int, bool]) -> Array:
        """Chunks of shared memory of an operand: [rows or runs of them, chunks along the other direction]."""
        return _grid(*descriptor).chunks

    def operand(
        self,
        descriptor: tuple[int, int, int, int, bool],
        own: int,
        origin: Array,
        place: Array,
        loads: Sequence[Load],
        tile: Tile | None,
    ) -> Axes | None:
        """What an operand holds that is to be of `tile`; None if that is not known.

        descriptor: its bits, extent, depth, bytes of an element, whether its rows are next to each other. own: number
        of the CTA's first chunk. Raises WrongTileError.
        """
        if tile is None:
            return None
        grid = _grid(*descriptor)
        chunks = grid.chunks + own
        brought = origin[chunks]
        first = int(brought.flat[0])
        if (brought < 0).any():
            return None
        load = loads[first]
        if load.map is None:
            return None
        for number in np.unique(brought).tolist():
            _same_tensor(loads[number], tile)
        if (brought == first).all():
            key = (*descriptor, own)
            seen = self._seen.get(key)
            where = place[chunks]
            corner = load.base()
            parts = _parts(load)
            alike = seen is not None and seen[1] is load.map and seen[2] == load.tm.box and seen[4:] == (tile, parts)
            if seen is not None and alike and np.array_equal(seen[0], where):
                return _moved(seen[3], tile, corner)
            inside = _inside(load.tm.box, descriptor[3], load.map.dims)[where]
            axes = self._axes(inside, _clipped(load, parts)[where], grid, tile, load)
            self._seen[key] = where, load.map, load.tm.box, axes, tile, parts
            return _moved(axes, tile, corner)
        coordinates = np.zeros((*chunks.shape, len(tile.dims)), np.int64)
        clipped = np.zeros(coordinates.shape, np.bool_)
        for number in np.unique(brought).tolist():
            other = loads[number]
            if other.map is None:
                return None
            at = brought == number
            inside = _inside(other.tm.box, descriptor[3], other.map.dims)[place[chunks[at]]]
            coordinates[at] = inside + other.base()
            clipped[at] = _clipped(other, _parts(other))[place[chunks[at]]]
        return _moved(self._axes(coordinates, clipped, grid, tile, load), tile, np.zeros(len(tile.dims), np.int64))

    def _axes(self, coordinates: Array, clipped: Array, grid: _Grid, tile: Tile, load: Load) -> Axes:
        """Sorted into the two directions of the operand. Raises WrongTileError where they cannot be told apart."""
        assert load.map is not None
        inner = load.map.dims[0][0]
        across: dict[str, Array] = {}
        along: dict[str, Array] = {}
        uniform: dict[str, int] = {}
        steps = np.arange(grid.per)
        for n, dim in enumerate(tile.dims):
            if not dim.axis:
                continue
            at = coordinates[..., n]
            rows, columns = at[:, 0], at[0, :]
            if not (at == rows[:, None] + columns[None, :] - at[0, 0]).all():
                raise WrongTileError(f"has rows and columns of {tile.name} mixed along {dim.axis}")
            moves_across, moves_along = bool((rows != rows[0]).any()), bool((columns != columns[0]).any())
            if n == inner and grid.mn_major:
                rows, moves_across = (rows[:, None] + steps).ravel(), True
            elif n == inner:
                columns, moves_along = (columns[:, None] + steps).ravel(), True
            if moves_across and moves_along:
                raise WrongTileError(f"has rows and columns of {tile.name} mixed along {dim.axis}")
            if moves_across:
                across[dim.axis] = rows if n == inner else np.where(clipped[:, 0, n], CLIPPED, rows)
            elif moves_along:
                along[dim.axis] = columns
            else:
                uniform[dim.axis] = int(at[0, 0])
        return Axes(tile.name, across, along, uniform)


def _same_tensor(load: Load, tile: Tile) -> None:
    if load.map is not None and load.map.tensor != tile.tensor:
        raise WrongTileError(f"holds {load.map.tensor}, where {tile.name} = {tile.tensor}[…] is declared")


def _moved(axes: Axes, tile: Tile, corner: Array) -> Axes:
    """The same at a corner; positions, that is coordinates less the index's offset."""
    by = {dim.axis: int(corner[n]) - dim.offset for n, dim in enumerate(tile.dims) if dim.axis}
    return Axes(
        axes.tile,
        {a: p + by[a] for a, p in axes.across.items()},
        {a: p + by[a] for a, p in axes.along.items()},
        {a: p + by[a] for a, p in axes.uniform.items()},
    )
