"""Arrays whose dimensions have names: broadcasting, reduction and contraction by axis name.

The axes of an array are leaf axes (those that no split takes apart), always in alphabetical order, so that two
arrays are brought together by inserting dimensions alone. A dimension may have length 1 in place of its extent
where the array does not vary along it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Axes = tuple[str, ...]


def union(*groups: Iterable[str]) -> Axes:
    """Every name in any of the groups, in order."""
    return tuple(sorted({name for group in groups for name in group}))


def expand(array: Array, axes: Axes, onto: Axes) -> Array:
    """A view of `array` with a dimension of length 1 for each axis of `onto` that it lacks."""
    if axes == onto:
        return array
    return array[tuple(slice(None) if axis in axes else np.newaxis for axis in onto)]


def positions(axes: Axes, names: Iterable[str]) -> tuple[int, ...]:
    """Where `names` stand in `axes`."""
    return tuple(axes.index(name) for name in names)


def fill(array: Array, axes: Axes, box: Mapping[str, range]) -> Array:
    """A read-only view of `array` with every dimension as long as the box says."""
    return np.broadcast_to(array, tuple(len(box[axis]) for axis in axes))


def arrange(array: Array, axes: Axes) -> tuple[Array, Axes]:
    """`array`, whose dimensions are called `axes` in any order, with its dimensions in order."""
    ordered = tuple(sorted(axes))
    return np.transpose(array, [axes.index(axis) for axis in ordered]), ordered


def contract(x: Array, x_axes: Axes, y: Array, y_axes: Axes, over: frozenset[str]) -> tuple[Array, Axes]:
    """sum over `over` of x * y, as a batched matrix product. Every axis of `over` is in both, at its full extent."""
    batch = tuple(a for a in x_axes if a in y_axes and a not in over)
    rows = tuple(a for a in x_axes if a not in y_axes)
    columns = tuple(a for a in y_axes if a not in x_axes)
    inner = tuple(sorted(over))
    left = np.transpose(x, positions(x_axes, batch + rows + inner))
    right = np.transpose(y, positions(y_axes, batch + inner + columns))
    nb, nr, nk = len(batch), len(rows), len(inner)
    batch_shape = left.shape[:nb]
    row_shape, column_shape = left.shape[nb : nb + nr], right.shape[nb + nk :]
    k = int(np.prod(left.shape[nb + nr :], dtype=np.int64))
    m, n = int(np.prod(row_shape, dtype=np.int64)), int(np.prod(column_shape, dtype=np.int64))
    product = np.matmul(left.reshape(*batch_shape, m, k), right.reshape(*right.shape[:nb], k, n))
    shape = product.shape[:nb] + row_shape + column_shape
    return arrange(product.reshape(shape), batch + rows + columns)
