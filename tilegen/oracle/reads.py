"""Reading tensors and earlier definitions at an index: plain axes are views, everything else a gather."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilegen.ir.tile import Affine, Index, Tensor
from tilegen.oracle.field import Field, full
from tilegen.oracle.named import Array, Axes, arrange, expand, union
from tilegen.oracle.space import Box, Space


@dataclass(frozen=True)
class Coordinates:
    """A position at each point of a box, int64; -1 where there is none."""

    axes: Axes
    value: Array


Coordinate = str | Coordinates  # an axis at its own position, or anything else
Substitution = Mapping[str, Coordinate]  # what the bracket axes of a tile stand for


class Tensors:
    """The inputs, and how a position in a tensor is found in the array that holds it."""

    def __init__(self, space: Space, inputs: Mapping[str, Array]) -> None:
        """Raises ValueError for an array of the wrong shape, KeyError for a missing one."""
        self._space = space
        self._arrays = {t.name: inputs[t.name] for t in space.program.tensors if not t.output}
        for name, array in self._arrays.items():
            wanted = space.stored(space.program.tensor(name))
            if array.shape != wanted:
                raise ValueError(f"input {name} has shape {array.shape}, wanted {wanted}")

    def coordinate(self, index: Index, box: Box, substitution: Substitution) -> Coordinate:
        """Where one dimension of an index points."""
        if not isinstance(index, Affine):
            parts = [self.coordinate(part, box, substitution) for part in index.index]
            axes, found, present = self._gather(self._space.program.tensor(index.table), parts, box)
            return Coordinates(axes, np.where(present, found.astype(np.int64), -1))
        if index.axis is not None:
            return substitution.get(index.axis, index.axis)
        axes, total = self._space.value(index.offset, box)
        valid: Array = np.ones_like(total, dtype=np.bool_)
        for axis, coefficient in index.terms:
            where, position = self.positions(substitution.get(axis, axis), box)
            both = union(axes, where)
            position = expand(position, where, both)
            total = expand(total, axes, both) + coefficient * position
            valid = expand(valid, axes, both) & (position >= 0)
            axes = both
        return Coordinates(axes, np.where(valid, total, -1))

    def positions(self, coordinate: Coordinate, box: Box) -> tuple[Axes, Array]:
        """A coordinate as an array."""
        if isinstance(coordinate, Coordinates):
            return coordinate.axes, coordinate.value
        return self._space.position(coordinate, box)

    def read(self, tensor: Tensor, coordinates: list[Coordinate], box: Box) -> Field:
        """The elements of an input. A position outside the tensor reads as NaN: the point exists, its value does not.

        Low precision is exact: inputs have no error."""
        plain = self._view(tensor, coordinates, box)
        if plain is not None:
            axes, array = plain
            return Field.exact(axes, _number(array))
        axes, array, valid = self._gather(tensor, coordinates, box)
        value = _number(array)
        if not valid.all():
            value = np.where(valid, value, np.nan)
        return Field.exact(axes, value)

    def _view(self, tensor: Tensor, coordinates: list[Coordinate], box: Box) -> tuple[Axes, Array] | None:
        """A slice of the array, if every dimension is indexed by an axis of its own."""
        space = self._space
        names = [c for c in coordinates if isinstance(c, str)]
        leaves = [leaf for name in names for leaf in space.leaves(name)]
        if len(names) < len(coordinates) or len(set(leaves)) < len(leaves):
            return None
        extents = tuple(space.extent(name) for name in names)
        if any(e > d for e, d in zip(extents, space.dims(tensor), strict=True)):
            return None
        array = self._arrays[tensor.name]
        shape = {leaf: space.extent(leaf) for leaf in leaves}
        tokens = space.token_dims(tensor)
        if tokens is not None:  # one sequence at a time is a slice, several are not
            batch, at, ragged = tokens
            sequence = box[names[batch]]
            if space.leaves(names[batch]) != (names[batch],) or len(sequence) != 1:
                return None
            start = int(space.starts(ragged.size)[sequence.start])
            array = np.expand_dims(_sequence(array, at - (batch < at), start, extents[at]), batch)
            shape[names[batch]] = 1
            box = {**box, names[batch]: range(1)}
        array = array[tuple(slice(0, e) for e in extents)].reshape(tuple(shape[leaf] for leaf in leaves))
        array = array[tuple(slice(box[leaf].start, box[leaf].stop) for leaf in leaves)]
        ordered, axes = arrange(array, tuple(leaves))
        return axes, ordered

    def _gather(self, tensor: Tensor, coordinates: list[Coordinate], box: Box) -> tuple[Axes, Array, Array]:
        """The elements at the coordinates, and which of them are in the tensor."""
        space = self._space
        found = [self.positions(c, box) for c in coordinates]
        axes = union(*(a for a, _ in found))
        index = [expand(position, where, axes) for where, position in found]
        valid: Array = np.ones((1,) * len(axes), dtype=np.bool_)
        for position, dim in zip(index, space.dims(tensor), strict=True):
            valid = valid & (position >= 0) & (position < dim)
        tokens = space.token_dims(tensor)
        if tokens is not None:
            batch, at, ragged = tokens
            sequence = np.clip(index[batch], 0, max(len(space.lengths[ragged.size]) - 1, 0))
            if space.lengths[ragged.size]:
                valid = valid & (index[at] < np.asarray(space.lengths[ragged.size])[sequence])
                index[at] = index[at] + space.starts(ragged.size)[sequence]
            del index[batch]
        array = self._arrays[tensor.name]
        shape = np.broadcast_shapes(valid.shape, *(i.shape for i in index))
        valid = np.broadcast_to(valid, shape)
        if array.size == 0:
            return axes, np.zeros(shape, dtype=array.dtype), np.zeros(shape, dtype=np.bool_)
        clipped = tuple(np.clip(i, 0, extent - 1) for i, extent in zip(index, array.shape, strict=True))
        return axes, np.broadcast_to(array[clipped], shape), valid


def _sequence(array: Array, axis: int, start: int, length: int) -> Array:
    """`length` tokens from `start` on; what is past the last one does not exist and reads as 0."""
    part = array[(slice(None),) * axis + (slice(start, start + length),)]
    missing = [(0, length - n if at == axis else 0) for at, n in enumerate(part.shape)]
    return np.pad(part, missing) if part.shape[axis] < length else part


def _number(array: Array) -> Array:
    return array if array.dtype == np.bool_ else array.astype(np.float64)


def gather(field: Field, leaves: Mapping[str, tuple[Axes, Array]], kept: Axes, box: Box) -> Field:
    """`field` read at positions: `leaves` gives, for each of its axes that is not `kept`, where to read it."""
    field = field.settled()
    axes = union(kept, *(a for a, _ in leaves.values()))
    sizes = {axis: len(box[axis]) for axis in kept}
    sizes |= {axis: n for axis, n in zip(field.axes, field.value.shape, strict=True) if axis not in kept}
    field = full(field, field.axes, sizes)
    index: list[Array] = []
    valid: Array = np.ones((1,) * len(axes), dtype=np.bool_)
    for axis, extent in zip(field.axes, field.value.shape, strict=True):
        if axis in leaves:
            where, position = leaves[axis]
            position = expand(position, where, axes)
            valid = valid & (position >= 0) & (position < extent)
            index.append(np.clip(position, 0, max(extent - 1, 0)))
        else:
            index.append(expand(np.arange(extent), (axis,), axes))
    shape = tuple(np.broadcast_shapes(valid.shape, *(i.shape for i in index)))
    if field.value.size == 0:
        return Field.exact(axes, np.full(shape, np.nan))
    value = np.broadcast_to(field.value[tuple(index)], shape)
    bound = np.broadcast_to(field.bound[tuple(index)], shape)
    if not valid.all():
        value = np.where(valid, value, np.nan)
    return Field(axes, value, bound)
