"""The iteration space of a program at given sizes: leaf axes, extents, positions, ragged lengths, stored shapes.

A split axis is its parts: `split h into g, r by G` makes every array over h one over g and r. So a tile that indexes
g where the definition carries h takes g = h // extent(r) without a rule of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilegen.ir.poly import Poly
from tilegen.ir.tile import Axis, Fold, Ragged, Tensor, TileProgram
from tilegen.ir.walk import subexpressions
from tilegen.oracle.named import Array, Axes, expand, fill, union

Box = Mapping[str, range]  # the positions of each leaf axis that are being evaluated
Sizes = Mapping[str, int | Sequence[int]]


@dataclass(frozen=True)
class Space:
    """`sizes` gives every size: an int, or for a ragged size the lengths, one a batch position."""

    program: TileProgram
    sizes: Mapping[str, int]  # ragged ones at their largest length
    integers: Mapping[str, int]  # integer scalars, which offsets may use too
    lengths: Mapping[str, tuple[int, ...]]

    @staticmethod
    def of(program: TileProgram, sizes: Sizes, scalars: Mapping[str, float | int] | None = None) -> Space:
        """Raises ValueError for a missing size, or a list where a number is due and the reverse."""
        ragged = {r.size: r for r in program.ragged}
        dense: dict[str, int] = {}
        lengths: dict[str, tuple[int, ...]] = {}
        for size in program.sizes:
            value = sizes.get(size.name, size.default)
            if size.name in ragged:
                if value is None or isinstance(value, int | np.integer):
                    raise ValueError(f"size {size.name} is ragged: it takes a list of lengths")
                lengths[size.name] = tuple(int(n) for n in value)
                dense[size.name] = max(lengths[size.name], default=0)
            elif isinstance(value, int | np.integer):
                dense[size.name] = int(value)
            else:
                raise ValueError(f"size {size.name} takes a number, got {value!r}")
        for name, each in lengths.items():
            if len(each) != dense[ragged[name].over]:
                over = ragged[name].over
                raise ValueError(f"size {name} has {len(each)} lengths, but {over} is {dense[over]}")
        integers = {s.name: int(scalars[s.name]) for s in program.scalars if scalars and s.dtype.value == "i32"}
        return Space(program, dense, integers, lengths)

    # ---- axes --------------------------------------------------------------------------------------

    def leaves(self, axis: str) -> Axes:
        """The leaf axes that `axis` is made of, outermost first."""
        split = self.program.axis(axis).split
        return self.leaves(split.outer) + self.leaves(split.inner) if split else (axis,)

    def leaf_set(self, axes: Iterable[str]) -> Axes:
        """The leaf axes of all of `axes`, in order."""
        return union(*(self.leaves(axis) for axis in axes))

    @property
    def symbols(self) -> dict[str, int]:
        """The value of every symbol of a polynomial, a ragged size at its largest length."""
        return {**self.sizes, **self.integers}

    def extent(self, axis: str) -> int:
        """The extent of an axis; the largest one if it is ragged."""
        return self.program.axis(axis).extent.evaluate(self.symbols)

    @property
    def points(self) -> int:
        """Points of all equations, those that they fold over among them, where the domain is everything."""
        nests = (
            (*d.axes, *(axis for e in subexpressions(d.value) if isinstance(e, Fold) for axis in e.axes))
            for d in self.program.definitions
        )
        return sum(prod(self.extent(leaf) for leaf in self.leaf_set(nest)) for nest in nests)

    def whole(self, leaves: Iterable[str]) -> dict[str, range]:
        """The box of all positions of these leaf axes."""
        return {leaf: range(self.extent(leaf)) for leaf in leaves}

    def position(self, axis: str, box: Box) -> tuple[Axes, Array]:
        """The position along an axis at each point of the box: int64 over its leaves."""
        leaves = self.leaves(axis)
        ordered = tuple(sorted(leaves))
        total: Array = np.zeros((1,) * len(leaves), dtype=np.int64)
        stride = 1
        for leaf in reversed(leaves):
            steps = np.arange(box[leaf].start, box[leaf].stop, dtype=np.int64) * stride
            total = total + expand(steps, (leaf,), ordered)
            stride *= self.extent(leaf)
        return ordered, total

    # ---- ragged sizes --------------------------------------------------------------------------------

    def ragged(self, size: str) -> Ragged | None:
        """The declaration that makes a size ragged, or None."""
        return next((r for r in self.program.ragged if r.size == size), None)

    def batch_axis(self, ragged: Ragged) -> str:
        """The axis whose positions a ragged size is a function of."""
        return next(a.name for a in self.program.axes if a.extent == Poly.symbol(ragged.over))

    def ragged_axes(self) -> tuple[Axis, ...]:
        """Every axis with a ragged extent."""
        return tuple(axis for axis in self.program.axes if self.reach(axis.extent))

    def reach(self, poly: Poly) -> Axes:
        """The axes that a polynomial's value depends on: the batch axes of its ragged sizes."""
        return union(*((self.batch_axis(r),) for s in poly.symbols if (r := self.ragged(s)) is not None))

    def value(self, poly: Poly, box: Box) -> tuple[Axes, Array]:
        """The value of a polynomial at each point of the box: int64 over the batch axes it depends on."""
        axes = self.reach(poly)
        total: Array = np.zeros((1,) * len(axes), dtype=np.int64)
        for monomial, coefficient in poly.terms:
            term: Array = np.full((1,) * len(axes), coefficient, dtype=np.int64)
            for name in monomial:
                ragged = self.ragged(name)
                if ragged is None:
                    term = term * (self.integers[name] if name in self.integers else self.sizes[name])
                else:
                    term = term * expand(self.lengths_at(name, box), (self.batch_axis(ragged),), axes)
            total = total + term
        return axes, fill(total, axes, box)

    def lengths_at(self, size: str, box: Box) -> Array:
        """The lengths of a ragged size at the batch positions of the box."""
        ragged = self.ragged(size)
        assert ragged is not None
        part = box[self.batch_axis(ragged)]
        return np.asarray(self.lengths[size], dtype=np.int64)[part.start : part.stop]

    def starts(self, size: str) -> Array:
        """Where each sequence of a ragged size starts on the token axis: int64, one more than there are lengths."""
        return np.concatenate([[0], np.cumsum(np.asarray(self.lengths[size], dtype=np.int64))])

    # ---- tensors -----------------------------------------------------------------------------------

    def token_dims(self, tensor: Tensor) -> tuple[int, int, Ragged] | None:
        """Of a ragged tensor: its batch dimension, its ragged dimension, and the declaration."""
        for at, dim in enumerate(tensor.dims):
            for ragged in self.program.ragged:
                if dim == Poly.symbol(ragged.size) and Poly.symbol(ragged.over) in tensor.dims:
                    return tensor.dims.index(Poly.symbol(ragged.over)), at, ragged
        return None

    def dims(self, tensor: Tensor) -> tuple[int, ...]:
        """The extents of its declared dimensions; a ragged one at its largest length."""
        return tuple(dim.evaluate(self.symbols) for dim in tensor.dims)

    def stored(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape of the array that holds it. Of a ragged tensor the batch dimension is gone, and the ragged one
        holds the tokens of all sequences, one after the other."""
        shape = list(self.dims(tensor))
        tokens = self.token_dims(tensor)
        if tokens is not None:
            batch, at, ragged = tokens
            shape[at] = sum(self.lengths[ragged.size])
            del shape[batch]
        return tuple(shape)
