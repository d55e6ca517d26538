"""Evaluates expressions and definitions over a box of positions, exactly as they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilegen.ir.dtypes import DType
from tilegen.ir.tile import (
    Affine,
    Apply,
    Cast,
    Definition,
    Expr,
    Fold,
    Index,
    Lookup,
    Move,
    Number,
    Position,
    Read,
    Symbol,
    Tensor,
    TileProgram,
)
from tilegen.ir.walk import subexpressions
from tilegen.ir.whole import is_whole
from tilegen.oracle.arithmetic import apply, cast, kept_whole, loosened, reciprocal
from tilegen.oracle.domain import Domain
from tilegen.oracle.field import Field
from tilegen.oracle.folds import Folded, fold_expsum, fold_extreme, fold_sum, logsumexp, weights
from tilegen.oracle.named import Array, Axes, expand, union
from tilegen.oracle.reads import Coordinate, Substitution, Tensors, gather
from tilegen.oracle.rounding import POSITIONS, ULP, representation_error
from tilegen.oracle.space import Box, Space


class Evaluator:
    """Values of a program's definitions. Definitions are remembered until `forget`."""

    def __init__(self, space: Space, scalars: Mapping[str, float | int], inputs: Mapping[str, Array]) -> None:
        self._space = space
        self._scalars = scalars
        self._tensors = Tensors(space, inputs)
        self._reach = Reach(space)
        self._named = named(space.program)
        self._known: dict[tuple[str, tuple[tuple[str, range], ...]], Field] = {}
        self.domain = Domain(space, self.expr, self._reach.expr)

    def forget(self) -> None:
        """Drop remembered definitions."""
        self._known.clear()

    def definition(self, definition: Definition, box: Box) -> Field:
        """A definition over the part of the box that its axes span. An output's error includes its store."""
        box = {leaf: box[leaf] for leaf in self._reach.definition(definition)}
        key = (definition.name, tuple(sorted(box.items())))
        if key not in self._known:
            field = self.expr(definition.value, box)
            if definition.output:
                field = cast(field, self._space.program.tensor(definition.name).dtype)
            self._known[key] = field
        return self._known[key]

    def expr(self, expr: Expr, box: Box) -> Field:
        """The value of an expression at every point of the box, over the leaf axes it depends on."""
        match expr:
            case Number(value):
                return _constant(float(value))
            case Symbol(name):
                return self._symbol(name, box)
            case Position(axis):
                axes, position = self._space.position(axis, box)
                return Field.exact(axes, position.astype(np.float64))
            case Read():
                return self._read(expr, box)
            case Apply(op, args):
                fields = tuple(self.expr(a, box) for a in args)
                field = apply(op, fields)
                if expr.dtype is DType.I32:
                    return Field.exact(field.axes, field.value)
                for arg, factor in zip(args, reversed(fields), strict=False):
                    if op == "mul" and arg.dtype is DType.I32 and _has_position(arg):
                        field = loosened(field, POSITIONS * ULP * np.abs(factor.value), factor.axes)
                return kept_whole(field, *fields) if is_whole(expr) else field
            case Cast(value, dtype):
                return cast(self.expr(value, box), dtype)
            case Fold():
                return self._fold(expr, box)

    def _symbol(self, name: str, box: Box) -> Field:
        if name in self._scalars:
            return _constant(float(self._scalars[name]))
        ragged = self._space.ragged(name)
        if ragged is None:
            return _constant(float(self._space.sizes[name]))
        lengths = self._space.lengths_at(name, box)
        return Field.exact((self._space.batch_axis(ragged),), lengths.astype(np.float64))

    # ---- reads ---------------------------------------------------------------------------------------

    def _read(self, read: Read, box: Box) -> Field:
        target = self._named[read.name]
        places = [self._tensors.coordinate(index, box, {}) for index in read.index]
        if isinstance(target, Tensor):
            return self._tensors.read(target, places, box)
        if isinstance(target, Move):
            substitution: Substitution = dict(zip(target.index, places, strict=True))
            at = [self._tensors.coordinate(index, box, substitution) for index in target.at]
            return self._tensors.read(self._space.program.tensor(target.tensor), at, box)
        moved = {axis: at for axis, at in zip(target.index, places, strict=True) if at != axis}
        if not moved:
            return self.definition(target, box)
        return self._moved(target, moved, box)

    def _moved(self, definition: Definition, moved: Mapping[str, Coordinate], box: Box) -> Field:
        """A definition read elsewhere than at the reader's own position. Where it does not exist it is NaN."""
        space = self._space
        elsewhere: dict[str, tuple[Axes, Array]] = {}
        for axis, coordinate in moved.items():
            where, position = self._tensors.positions(coordinate, box)
            for leaf in reversed(space.leaves(axis)):
                extent = space.extent(leaf)
                outermost = leaf == space.leaves(axis)[0]
                elsewhere[leaf] = (where, position if outermost else position % extent)
                position = np.where(position < 0, position, position // extent)
        reach = self._reach.definition(definition)
        own = {leaf: box[leaf] for leaf in reach if leaf not in elsewhere} | space.whole(elsewhere)
        field = self.definition(definition, own)
        mask = self.domain.mask(own, own)
        if mask is not None:
            axes = union(field.axes, mask[0])
            field = field.settled().onto(axes)
            live = expand(mask[1], mask[0], axes)
            field = Field(axes, np.where(live, field.value, np.nan), np.where(live, field.bound, 0.0))
        read = {leaf: at for leaf, at in elsewhere.items() if leaf in field.axes}
        return gather(field, read, tuple(a for a in field.axes if a not in read), box)

    # ---- folds ---------------------------------------------------------------------------------------

    def _fold(self, fold: Fold, box: Box) -> Field:
        over = self._space.leaf_set(fold.axes)
        inner = {**box, **self._space.whole(over)}
        mask = self.domain.mask(inner, over)
        folded = Folded(frozenset(over), {leaf: len(r) for leaf, r in inner.items()}, mask)
        args = fold.args
        match fold.kind:
            case "sum":
                parts = factors(args[0])
                return fold_sum([self._factor(p, inner) for p in parts], folded, _on_tensor_core(parts))
            case "max" | "min":
                return fold_extreme(fold.kind, self.expr(args[0], inner), folded)
            case "expsum":
                parts = factors(args[1])
                fields = [self._factor(p, inner) for p in parts]
                return fold_expsum(self.expr(args[0], inner), fields, folded, _on_tensor_core(parts, 1))
        exponent = self.expr(args[0], inner)
        extra = [self.expr(e, box) for e in fold.extra]
        if fold.kind == "logsumexp":
            return logsumexp(exponent, extra, folded)
        field = weights(exponent, extra, folded)
        for leaf in over:
            field = field.take(leaf, box[leaf])
        return field

    def _factor(self, part: tuple[Expr, bool], box: Box) -> Field:
        field = self.expr(part[0], box)
        return reciprocal(field) if part[1] else field


def _has_position(expr: Expr) -> bool:
    return any(isinstance(e, Position) for e in subexpressions(expr))


def _constant(value: float) -> Field:
    return Field((), np.asarray(value), np.asarray(representation_error(value)))


def factors(expr: Expr) -> list[tuple[Expr, bool]]:
    """A product taken apart: each factor, and whether it divides."""
    if isinstance(expr, Apply) and expr.op in ("mul", "div"):
        left, right = (factors(a) for a in expr.args)
        flip = expr.op == "div"
        return left + [(e, inverse != flip) for e, inverse in right]
    if isinstance(expr, Apply) and expr.op == "neg":
        return [(Number(-1.0, expr.dtype, expr.span), False), *factors(expr.args[0])]
    return [(expr, False)]


def _on_tensor_core(parts: Sequence[tuple[Expr, bool]], others: int = 0) -> bool:
    """Whether what is written is a product of two narrow factors (`others` of them not in `parts`)."""
    narrow = sum(1 for e, inverse in parts if e.dtype.is_float and e.dtype.bits <= 16 and not inverse)
    return narrow + others >= 2


def named(program: TileProgram) -> dict[str, Tensor | Move | Definition]:
    """What each name that can be read stands for; an output is its definition."""
    found: dict[str, Tensor | Move | Definition] = {t.name: t for t in program.tensors}
    found |= {m.name: m for m in program.moves}
    found |= {d.name: d for d in program.definitions}
    return found


class Reach:
    """The leaf axes that things depend on, without evaluating them."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._named = named(space.program)

    def definition(self, definition: Definition) -> Axes:
        return self._space.leaf_set((*definition.axes, *definition.index))

    def index(self, index: Index) -> Axes:
        match index:
            case Affine(terms, offset):
                return union(self._space.leaf_set(a for a, _ in terms), self._space.reach(offset))
            case Lookup(_, inner):
                return union(*(self.index(i) for i in inner))

    def expr(self, expr: Expr) -> Axes:
        match expr:
            case Number():
                return ()
            case Symbol(name):
                ragged = self._space.ragged(name)
                return () if ragged is None else (self._space.batch_axis(ragged),)
            case Position(axis):
                return self._space.leaf_set((axis,))
            case Read(name, index):
                target = self._named[name]
                own: Axes = ()
                if isinstance(target, Move):
                    own = union(*(self.index(i) for i in target.at))
                elif isinstance(target, Definition):
                    own = self.definition(target)
                if not isinstance(target, Tensor):
                    brackets = self._space.leaf_set(target.index)
                    own = tuple(a for a in own if a not in brackets)
                return union(own, *(self.index(i) for i in index))
            case Apply(_, args):
                return union(*(self.expr(a) for a in args))
            case Cast(value):
                return self.expr(value)
            case Fold(kind, axes, args, extra):
                body = union(*(self.expr(a) for a in args))
                over = self._space.leaf_set(axes)
                kept = body if kind == "softmax" else tuple(a for a in body if a not in over)
                return union(kept, *(self.expr(e) for e in extra))
