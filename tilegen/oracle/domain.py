"""Which points are in the domain: Dom(A) = the extents and every clause all of whose axes are in A."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

import numpy as np

from tilegen.ir.tile import Affine, Clause, Expr, Guard
from tilegen.oracle.field import Field
from tilegen.oracle.named import Array, Axes, expand, fill, union
from tilegen.oracle.space import Box, Space

Mask = tuple[Axes, Array]

_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


class Domain:
    """Masks of a space. `evaluate` gives the value of a predicate over a box, `reach` the leaf axes it depends on."""

    def __init__(self, space: Space, evaluate: Callable[[Expr, Box], Field], reach: Callable[[Expr], Axes]) -> None:
        self._space = space
        self._evaluate = evaluate
        self._reach = reach
        self._clauses = [(clause, self._clause_axes(clause)) for clause in space.program.domain]

    def mask(self, box: Box, over: Iterable[str]) -> Mask | None:
        """Points of the box that satisfy every clause which mentions one of the leaf axes `over` and whose axes all
        lie in the box: bool over the axes of those clauses; None if there is no such clause."""
        folded = set(over)
        masks: list[Mask] = []
        for axis in self._space.ragged_axes():
            axes = union(self._space.leaves(axis.name), self._space.reach(axis.extent))
            if folded & set(axes) and set(axes) <= set(box):
                where, position = self._space.position(axis.name, box)
                bound_axes, bound = self._space.value(axis.extent, box)
                masks.append((axes, expand(position, where, axes) < expand(bound, bound_axes, axes)))
        for clause, axes in self._clauses:
            if folded & set(axes) and set(axes) <= set(box):
                masks.append(self._clause(clause, box))
        if not masks:
            return None
        axes = union(*(a for a, _ in masks))
        total = expand(masks[0][1], masks[0][0], axes)
        for each, array in masks[1:]:
            total = total & expand(array, each, axes)
        return axes, fill(total, axes, box)

    def axes(self, leaves: Iterable[str], over: Iterable[str]) -> Axes:
        """The leaf axes of the mask that `mask` gives for a box over `leaves`."""
        have, folded = set(leaves), set(over)
        groups = [union(self._space.leaves(a.name), self._space.reach(a.extent)) for a in self._space.ragged_axes()]
        groups += [axes for _, axes in self._clauses]
        return union(*(g for g in groups if folded & set(g) and set(g) <= have))

    def _clause_axes(self, clause: Clause) -> Axes:
        groups: list[Iterable[str]] = [self._space.leaf_set(clause.axes)]
        for term in (t for conjunction in clause.alternatives for t in conjunction):
            if isinstance(term, Affine):
                groups += [self._space.leaf_set(a for a, _ in term.terms), self._space.reach(term.offset)]
            else:
                groups.append(self._reach(term))
        if clause.guard is not None:
            groups += [self._space.reach(clause.guard.left), self._space.reach(clause.guard.right)]
        return union(*groups)

    def _clause(self, clause: Clause, box: Box) -> Mask:
        any_axes: Axes = ()
        any_of: Array = np.zeros((), dtype=np.bool_)
        for conjunction in clause.alternatives:
            all_axes: Axes = ()
            all_of: Array = np.ones((), dtype=np.bool_)
            for term in conjunction:
                axes, holds = self._term(term, box)
                both = union(all_axes, axes)
                all_axes, all_of = both, expand(all_of, all_axes, both) & expand(holds, axes, both)
            both = union(any_axes, all_axes)
            any_axes, any_of = both, expand(any_of, any_axes, both) | expand(all_of, all_axes, both)
        if clause.guard is not None:
            axes, on = self._guard(clause.guard, box)
            both = union(any_axes, axes)
            any_axes, any_of = both, expand(any_of, any_axes, both) | ~expand(on, axes, both)
        return any_axes, any_of

    def _term(self, term: Affine | Expr, box: Box) -> Mask:
        if isinstance(term, Affine):
            axes, value = affine(self._space, term, box)
            return axes, value >= 0
        field = self._evaluate(term, box)
        return field.axes, field.value.astype(np.bool_)

    def _guard(self, guard: Guard, box: Box) -> Mask:
        left_axes, left = self._space.value(guard.left, box)
        right_axes, right = self._space.value(guard.right, box)
        axes = union(left_axes, right_axes)
        return axes, _COMPARE[guard.op](expand(left, left_axes, axes), expand(right, right_axes, axes))


def affine(space: Space, form: Affine, box: Box) -> tuple[Axes, Array]:
    """The value of an affine form at each point of the box: int64 over the leaf axes it depends on."""
    axes, total = space.value(form.offset, box)
    for axis, coefficient in form.terms:
        where, position = space.position(axis, box)
        both = union(axes, where)
        total = expand(total, axes, both) + coefficient * expand(position, where, both)
        axes = both
    return axes, total
