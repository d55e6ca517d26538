"""A value at every point of a box, with the bound on its error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilegen.oracle.named import Array, Axes, expand, union


@dataclass(frozen=True)
class CastError:
    """The part of an error that stems from casts: at each point at most `units` (shape as the field's bound).

    `relative` bounds units / |value|; along `axes` the errors count as independent (see rounding)."""

    units: Array
    relative: float
    axes: frozenset[str]


@dataclass(frozen=True)
class Field:
    """`value` (float64 or bool) over `axes`, and `bound` >= 0 on its error beside what `cast` holds.

    Dimensions of `bound` and of the cast's units may have length 1: constant along that axis. At points outside
    the domain both hold anything; whoever folds or stores selects first.
    """

    axes: Axes
    value: Array
    bound: Array
    cast: CastError | None = None

    @staticmethod
    def exact(axes: Axes, value: Array) -> Field:
        return Field(axes, value, np.zeros((1,) * value.ndim))

    @property
    def error(self) -> Array:
        """The whole bound, casts at their worst."""
        return self.bound if self.cast is None else self.bound + self.cast.units

    def settled(self) -> Field:
        """The same field with its cast errors counted at their worst."""
        return self if self.cast is None else Field(self.axes, self.value, self.error)

    def onto(self, axes: Axes) -> Field:
        """The same field over more axes, along which it is constant (dimensions of length 1)."""
        if axes == self.axes:
            return self
        cast = self.cast and CastError(expand(self.cast.units, self.axes, axes), self.cast.relative, self.cast.axes)
        return Field(axes, expand(self.value, self.axes, axes), expand(self.bound, self.axes, axes), cast)

    def take(self, axis: str, positions: range) -> Field:
        """The field at `positions`, a contiguous part, of an axis."""
        if axis not in self.axes:
            return self
        where = self.axes.index(axis)
        part = slice(positions.start, positions.stop)

        def cut(array: Array) -> Array:
            return array if array.shape[where] == 1 else array[(slice(None),) * where + (part,)]

        cast = self.cast and CastError(cut(self.cast.units), self.cast.relative, self.cast.axes)
        return Field(self.axes, cut(self.value), cut(self.bound), cast)


def together(*fields: Field) -> tuple[Field, ...]:
    """The fields over the union of their axes."""
    axes = union(*(f.axes for f in fields))
    return tuple(f.onto(axes) for f in fields)


def full(field: Field, axes: Axes, extents: Mapping[str, int]) -> Field:
    """`field` over `axes`, each dimension of its value, bound and units at its full extent (views)."""
    field = field.onto(axes)
    shape = tuple(extents[axis] for axis in axes)

    def view(array: Array) -> Array:
        return np.broadcast_to(array, shape)

    cast = field.cast and CastError(view(field.cast.units), field.cast.relative, field.cast.axes)
    return Field(axes, view(field.value), view(field.bound), cast)
