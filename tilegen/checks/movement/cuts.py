"""A fragment cut into regions: each element carries the number of its region.

Labels are an array of (1 or rows) x (1 or columns). Cuts are interned, so that what was refined or reduced once is
looked up from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int16]
MOST = 62  # regions that are bits of a number
FEW = 4096


@dataclass(frozen=True, eq=False)
class Cut:
    labels: Labels
    count: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.labels.shape


class Cuts:
    """Every cut of one analysis."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], bytes], Cut] = {}
        self._refined: dict[tuple[int, int], tuple[Cut, tuple[tuple[int, int], ...]]] = {}
        self._rows: dict[tuple[int, bool], tuple[Cut, tuple[tuple[int, ...], ...]]] = {}
        self.whole = self._intern(np.zeros((1, 1), np.int16), 1)

    def of(self, values: npt.NDArray[Any]) -> tuple[Cut, tuple[int, ...]]:
        """The cut at each change of value, and the value of each region."""
        if values.size == 1:
            return self.whole, (int(values.flat[0]),)
        least, most = int(values.min()), int(values.max())
        if most - least < FEW:  # few values: a table is sooner made than an order
            shifted = values - least
            found = np.flatnonzero(np.bincount(shifted.ravel()))
            table: Labels = np.zeros(most - least + 1, np.int16)
            table[found] = np.arange(len(found))
            labels: Labels = table[shifted]
            return self._intern(labels, len(found)), tuple((found + least).tolist())
        found, inverse = np.unique(values, return_inverse=True)
        labels = np.ascontiguousarray(inverse.reshape(values.shape).astype(np.int16))
        return self._intern(labels, len(found)), tuple(found.tolist())

    def refine(self, a: Cut, b: Cut) -> tuple[Cut, tuple[tuple[int, int], ...]]:
        """The regions of both, and of which region of each they are."""
        if a is b:
            return a, tuple((n, n) for n in range(a.count))
        if b is self.whole:
            return a, tuple((n, 0) for n in range(a.count))
        if a is self.whole:
            return b, tuple((0, n) for n in range(b.count))
        key = (id(a), id(b))
        if key not in self._refined:
            cut, values = self.of(a.labels.astype(np.int32) * b.count + b.labels)
            self._refined[key] = cut, tuple(divmod(v, b.count) for v in values)
        return self._refined[key]

    def rows(self, cut: Cut, axis: int = 1) -> tuple[Cut, tuple[tuple[int, ...], ...]]:
        """Rows (axis 1) or columns (axis 0) that meet the same regions, and which those are."""
        key = (id(cut), bool(axis))
        if key not in self._rows:
            self._rows[key] = self._rows_by_bits(cut, axis) if cut.count < MOST else self._rows_by_sets(cut, axis)
        return self._rows[key]

    def _rows_by_bits(self, cut: Cut, axis: int) -> tuple[Cut, tuple[tuple[int, ...], ...]]:
        bits = np.bitwise_or.reduce(np.left_shift(np.int64(1), cut.labels.astype(np.int64)), axis=axis, keepdims=True)
        rows, values = self.of(bits)
        return rows, tuple(tuple(n for n in range(cut.count) if v >> n & 1) for v in values)

    def _rows_by_sets(self, cut: Cut, axis: int) -> tuple[Cut, tuple[tuple[int, ...], ...]]:
        lines = cut.labels if axis else cut.labels.T
        met = [tuple(np.flatnonzero(np.bincount(line, minlength=cut.count)).tolist()) for line in lines]
        numbers = {regions: n for n, regions in enumerate(dict.fromkeys(met))}
        labels = np.array([numbers[regions] for regions in met])
        return self.of(labels[:, None] if axis else labels[None])[0], tuple(numbers)

    def turned(self, cut: Cut) -> Cut:
        """Rows and columns exchanged."""
        return self._intern(np.ascontiguousarray(cut.labels.T), cut.count)

    def _intern(self, labels: Labels, count: int) -> Cut:
        return self._known.setdefault((labels.shape, labels.tobytes()), Cut(labels, count))
