"""A program evaluated point by point in plain Python loops, straight from the definitions.

Nothing here is shared with tilegen.oracle. A point is a dict from axis names to positions; a split axis follows from
its parts and a part from its whole. Only for sizes of a few positions.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tilegen.ir.poly import Poly
from tilegen.ir.tile import (
    Affine,
    Apply,
    Cast,
    Clause,
    Definition,
    Expr,
    Fold,
    Index,
    Number,
    Position,
    Read,
    Symbol,
    Tensor,
    TileProgram,
)

Point = dict[str, int]

COMPARE: dict[str, Any] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

FUNCTIONS: dict[str, Any] = {
    **COMPARE,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "div_rn": lambda a, b: a / b,
    "neg": lambda a: -a,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
    "not": lambda a: not a,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "tanh": np.tanh,
    "tanh_approx": np.tanh,
    "abs": abs,
    "floor": np.floor,
    "min": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else min(a, b),
    "max": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else max(a, b),
    "pow": np.power,
    "erf": math.erf,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
}


class Brute:
    """`sizes` as for the oracle: a ragged one is a list of lengths."""

    def __init__(
        self,
        program: TileProgram,
        sizes: Mapping[str, Any],
        scalars: Mapping[str, float | int],
        inputs: Mapping[str, np.ndarray],
    ) -> None:
        self.program, self.sizes, self.scalars, self.inputs = program, sizes, scalars, inputs
        self.ragged = {r.size: r for r in program.ragged}
        self.axes = {a.name: a for a in program.axes}
        self.known: dict[Any, Any] = {}

    # ---- positions and extents

    def position(self, axis: str, point: Point) -> int | None:
        if axis in point:
            return point[axis]
        split = self.axes[axis].split
        if split is not None:
            outer, inner = self.position(split.outer, point), self.position(split.inner, point)
            return None if outer is None or inner is None else outer * self.extent(split.inner, point) + inner
        for whole in self.program.axes:
            if whole.split is not None and axis in (whole.split.outer, whole.split.inner) and whole.name in point:
                length = self.extent(whole.split.inner, point)
                return point[whole.name] // length if axis == whole.split.outer else point[whole.name] % length
        return None

    def at(self, axis: str, point: Point) -> int:
        position = self.position(axis, point)
        assert position is not None, (axis, point)
        return position

    def symbol(self, name: str, point: Point) -> Any:
        if name in self.scalars:
            return self.scalars[name]
        if name not in self.ragged:
            return self.sizes[name]
        over = self.ragged[name].over
        batch = next(a.name for a in self.program.axes if a.extent == Poly.symbol(over))
        return self.sizes[name][self.at(batch, point)] if self.position(batch, point) is not None else None

    def poly(self, poly: Poly, point: Point) -> int | None:
        values = {name: self.symbol(name, point) for name in poly.symbols}
        return None if None in values.values() else poly.evaluate(values)

    def extent(self, axis: str, point: Point) -> int:
        """At this point, or the largest if the point does not say."""
        known = self.poly(self.axes[axis].extent, point)
        if known is not None:
            return known
        return self.axes[axis].extent.evaluate({n: max(self.sizes[n]) for n in self.axes[axis].extent.symbols})

    # ---- the domain

    def exists(self, point: Point) -> bool:
        """In the extents, and every clause all of whose axes follow from the point holds."""
        for axis in self.program.axes:
            position = self.position(axis.name, point)
            length = self.poly(axis.extent, point)
            if position is not None and length is not None and not 0 <= position < length:
                return False
        return all(self.holds(c, point) for c in self.program.domain if self.applies(c, point))

    def applies(self, clause: Clause, point: Point) -> bool:
        offsets = [t.offset for alternative in clause.alternatives for t in alternative if isinstance(t, Affine)]
        known = all(self.poly(o, point) is not None for o in offsets)
        return known and all(self.position(a, point) is not None for a in clause.axes)

    def holds(self, clause: Clause, point: Point) -> bool:
        guard = clause.guard
        if guard is not None and not COMPARE[guard.op](self.poly(guard.left, point), self.poly(guard.right, point)):
            return True
        return any(all(self.term(t, point) for t in alternative) for alternative in clause.alternatives)

    def term(self, term: Affine | Expr, point: Point) -> bool:
        return self.affine(term, point) >= 0 if isinstance(term, Affine) else bool(self.value(term, point))

    def affine(self, form: Affine, point: Point) -> int:
        offset = self.poly(form.offset, point)
        assert offset is not None
        return offset + sum(c * self.at(a, point) for a, c in form.terms)

    # ---- values

    def index(self, index: Index, point: Point) -> int:
        if isinstance(index, Affine):
            return self.affine(index, point)
        return int(self.element(self.program.tensor(index.table), [self.index(i, point) for i in index.index]))

    def element(self, tensor: Tensor, place: list[int]) -> Any:
        """An element by its logical position; of a ragged tensor the batch position picks the sequence."""
        place = list(place)
        for n, dim in enumerate(tensor.dims):
            for r in self.program.ragged:
                if dim == Poly.symbol(r.size) and Poly.symbol(r.over) in tensor.dims:
                    batch = tensor.dims.index(Poly.symbol(r.over))
                    place[n] += sum(self.sizes[r.size][: place[batch]])
                    del place[batch]
        assert all(p >= 0 for p in place)
        return self.inputs[tensor.name][tuple(place)].astype(np.float64)

    def value(self, expr: Expr, point: Point) -> Any:
        match expr:
            case Number(value):
                return np.float64(value)
            case Symbol(name):
                return np.float64(self.symbol(name, point))
            case Position(axis):
                return np.float64(self.at(axis, point))
            case Read():
                return self.read(expr, point)
            case Apply("select", (condition, then, otherwise)):
                return self.value(then if self.value(condition, point) else otherwise, point)
            case Apply(op, args):
                return FUNCTIONS[op](*(self.value(a, point) for a in args))
            case Cast(value, dtype):
                inner = self.value(value, point)
                return inner if dtype.is_float else np.rint(inner)
            case Fold():
                return self.fold(expr, point)

    def read(self, read: Read, point: Point) -> Any:
        place = [self.index(i, point) for i in read.index]
        for tensor in self.program.tensors:
            if tensor.name == read.name and not tensor.output:
                return self.element(tensor, place)
        for move in self.program.moves:
            if move.name == read.name:
                inside = self.replace(point, dict(zip(move.index, place, strict=True)))
                return self.element(self.program.tensor(move.tensor), [self.index(i, inside) for i in move.at])
        definition = self.program.definition(read.name)
        return self.definition(definition, self.replace(point, dict(zip(definition.index, place, strict=True))))

    def replace(self, point: Point, new: Point) -> Point:
        """The point with new positions; what a new axis is part of, or made of, is dropped."""
        related = set(new)
        for axis in self.program.axes:
            if axis.split is not None:
                family = {axis.name, axis.split.outer, axis.split.inner}
                if axis.name in new:
                    related |= family
        return {a: p for a, p in point.items() if a not in related} | new

    def definition(self, definition: Definition, point: Point) -> Any:
        own = {a: self.at(a, point) for a in dict.fromkeys((*definition.axes, *definition.index))}
        key = (definition.name, tuple(sorted(own.items())))
        if key not in self.known:
            self.known[key] = self.value(definition.value, own)
        return self.known[key]

    def points(self, axes: tuple[str, ...], point: Point) -> Iterator[Point]:
        """The points of the domain along `axes` around `point`."""
        for place in itertools.product(*(range(self.extent(a, point)) for a in axes)):
            around = {**point, **dict(zip(axes, place, strict=True))}
            if self.exists(around):
                yield around

    def fold(self, fold: Fold, point: Point) -> Any:
        outside = {a: p for a, p in point.items() if a not in fold.axes}
        if fold.kind == "softmax":  # its row is the same for every point that differs in other axes alone
            row = (id(fold), tuple((a, p) for a, p in sorted(outside.items()) if a in self.names(fold)))
            if row not in self.known:
                inside = [self.value(fold.args[0], around) for around in self.points(fold.axes, outside)]
                self.known[row] = inside + [self.value(e, outside) for e in fold.extra]
            return self.normalised(fold, self.known[row], point)
        rows = [[self.value(a, around) for a in fold.args] for around in self.points(fold.axes, outside)]
        if fold.kind == "sum":
            return np.float64(sum((row[0] for row in rows), start=np.float64(0)))
        if fold.kind in ("max", "min"):
            empty = -math.inf if fold.kind == "max" else math.inf
            total = empty
            for (x,) in rows:
                total = FUNCTIONS[fold.kind](total, x)
            return np.float64(total)
        if fold.kind == "expsum":
            if any(math.isnan(x) or x == math.inf for x, _ in rows):  # as for softmax: a row with such a score is NaN
                return np.float64(math.nan)
            return np.float64(sum((np.exp(x) * y for x, y in rows), start=np.float64(0)))
        exponents = [row[0] for row in rows] + [self.value(e, outside) for e in fold.extra]
        return self.normalised(fold, exponents, point)

    def normalised(self, fold: Fold, exponents: list[Any], point: Point) -> Any:
        if any(math.isnan(x) or x == math.inf for x in exponents):
            return np.float64(math.nan)
        total = np.float64(sum(np.exp(x) for x in exponents))
        if fold.kind == "logsumexp":
            return np.log(total) if total > 0 else np.float64(-math.inf)
        return np.exp(self.value(fold.args[0], point)) / total if total > 0 else np.float64(0)

    def names(self, fold: Fold) -> set[str]:
        """Every axis that may matter to a fold: all that are carried by what it reads, and their wholes and parts."""
        if id(fold) not in self.known:
            found: set[str] = set()
            todo: list[Any] = [*fold.args, *fold.extra]
            while todo:
                item = todo.pop()
                if isinstance(item, Read):
                    things = [*self.program.definitions, *self.program.moves]
                    found |= {a for t in things if t.name == item.name for a in t.axes}
                    todo += item.index
                elif isinstance(item, Affine):
                    found |= {a for a, _ in item.terms}
                elif isinstance(item, Position):
                    found.add(item.axis)
                elif not isinstance(item, Number | Symbol):
                    todo += [getattr(item, "value", None)] if isinstance(item, Cast) else []
                    todo += getattr(item, "args", ()) + getattr(item, "index", ()) + getattr(item, "extra", ())
            for _ in self.program.axes:
                for axis in self.program.axes:
                    family = {axis.name, axis.split.outer, axis.split.inner} if axis.split else set()
                    found |= family if found & family else set()
            found |= {c for clause in self.program.domain for c in clause.axes if set(clause.axes) & set(fold.axes)}
            self.known[id(fold)] = found | {a.name for a in self.program.axes if self.ragged}
        return self.known[id(fold)]

    # ---- outputs

    def output(self, name: str) -> np.ndarray:
        """In the shape that the tensor is stored in."""
        definition, tensor = self.program.definition(name), self.program.tensor(name)
        sequences = next((n for n, d in enumerate(tensor.dims) for r in self.ragged if d == Poly.symbol(r)), None)
        values: dict[tuple[int, ...], Any] = {}
        full = tuple(self.extent(a, {}) for a in definition.index)
        for place in itertools.product(*(range(n) for n in full)):
            point = dict(zip(definition.index, place, strict=True))
            inside = all(0 <= p < self.extent(a, point) for a, p in point.items())
            if inside:
                values[place] = self.definition(definition, point) if self.exists(point) else tensor.otherwise
        if sequences is None:
            array = np.zeros(full)
            for place, value in values.items():
                array[place] = value
            return array
        ragged = next(r for r in self.program.ragged if tensor.dims[sequences] == Poly.symbol(r.size))
        batch = tensor.dims.index(Poly.symbol(ragged.over))
        shape = list(full)
        shape[sequences] = sum(self.sizes[ragged.size])
        del shape[batch]
        array = np.zeros(shape)
        for place, value in values.items():
            stored = list(place)
            stored[sequences] += sum(self.sizes[ragged.size][: place[batch]])
            del stored[batch]
            array[tuple(stored)] = value
        return array


def brute_force(
    program: TileProgram,
    sizes: Mapping[str, Any],
    scalars: Mapping[str, float | int],
    inputs: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Every output, float64."""
    with np.errstate(all="ignore"):
        brute = Brute(program, sizes, scalars, inputs)
        return {t.name: brute.output(t.name) for t in program.tensors if t.output}
