"""Which axes an expression reaches, with split axes resolved.

A split axis is its two parts (h is g and r): what depends on h depends on g and r, and what depends on both parts
may be indexed by h. Sets of axes are tuples without repeats, in order of first mention; in a normal one no axis
stands beside one that it is a part of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilegen.ir.tile import (
    Affine,
    Apply,
    Axis,
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
)

Axes = tuple[str, ...]


class AxisTree:
    """The axes of a program and what they are split into."""

    def __init__(self, axes: Iterable[Axis]) -> None:
        self._parts: dict[str, Axes] = {a.name: (a.split.outer, a.split.inner) for a in axes if a.split}

    def atoms(self, axis: str) -> Axes:
        """The unsplit axes that `axis` is made of; itself if it is not split."""
        if axis not in self._parts:
            return (axis,)
        return tuple(atom for part in self._parts[axis] for atom in self.atoms(part))

    def inside(self, axis: str) -> frozenset[str]:
        """Every part of `axis`, at any depth, without itself."""
        parts = self._parts.get(axis, ())
        return frozenset(parts).union(*(self.inside(p) for p in parts))

    def normal(self, axes: Iterable[str]) -> Axes:
        """`axes` without repeats and without parts of axes that are there: a function of g and h is one of h."""
        unique = tuple(dict.fromkeys(axes))
        parts = frozenset().union(*(self.inside(a) for a in unique))
        return tuple(a for a in unique if a not in parts)

    def covers(self, axes: Iterable[str], axis: str) -> bool:
        """Whether a position along each of `axes` gives one along `axis`."""
        known = {atom for a in axes for atom in self.atoms(a)}
        return known.issuperset(self.atoms(axis))

    def minus(self, axes: Iterable[str], removed: Iterable[str]) -> Axes:
        """What is left of `axes`: h without r is g."""
        gone = {atom for a in removed for atom in self.atoms(a)}
        return self.normal(a for axis in axes for a in self._left(axis, gone))

    def _left(self, axis: str, gone: set[str]) -> Axes:
        atoms = self.atoms(axis)
        if gone.isdisjoint(atoms):
            return (axis,)
        if gone.issuperset(atoms):
            return ()
        return tuple(a for part in self._parts[axis] for a in self._left(part, gone))


@dataclass(frozen=True)
class Named:
    """What a name that can be read stands for: the axes in its brackets, and those carried along unwritten."""

    index: Axes
    carried: Axes

    @staticmethod
    def of(node: Move | Definition, tree: AxisTree) -> Named:
        return Named(node.index, tree.minus(node.axes, node.index))


def index_axes(index: Index) -> Axes:
    """The axes in one dimension of an index."""
    match index:
        case Affine(terms):
            return tuple(axis for axis, _ in terms)
        case Lookup(_, inner):
            return tuple(axis for part in inner for axis in index_axes(part))


def free_axes(expr: Expr, names: Mapping[str, Named], tree: AxisTree) -> Axes:
    """The axes that the value of `expr` depends on. A name missing from `names` carries nothing (a tensor)."""
    match expr:
        case Number() | Symbol():
            return ()
        case Position(axis):
            return (axis,)
        case Read(name, index):
            carried = names[name].carried if name in names else ()
            return tree.normal([*carried, *(axis for part in index for axis in index_axes(part))])
        case Apply(_, args):
            return tree.normal(axis for a in args for axis in free_axes(a, names, tree))
        case Cast(value):
            return free_axes(value, names, tree)
        case Fold(kind, axes, args, extra):
            body = body_axes(expr, names, tree)
            inner = body if kind == "softmax" else tree.minus(body, axes)
            return tree.normal([*inner, *(axis for e in extra for axis in free_axes(e, names, tree))])


def body_axes(fold: Fold, names: Mapping[str, Named], tree: AxisTree) -> Axes:
    """The axes that what is folded depends on, the folded ones among them."""
    return tree.normal(axis for a in fold.args for axis in free_axes(a, names, tree))
