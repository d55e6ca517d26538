"""Cuts the outputs into boxes so that what is held at a time stays bounded."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from tilegen.ir.tile import Apply, Cast, Definition, Expr, Fold, Read, TileProgram
from tilegen.oracle.domain import Domain
from tilegen.oracle.evaluator import Reach, factors
from tilegen.oracle.named import Axes, union
from tilegen.oracle.space import Box, Space

BUDGET = 1 << 21  # elements of one array: 16 MB, the fastest of those tried on attention


class Planner:
    """Chooses the boxes for a set of outputs evaluated together."""

    def __init__(self, space: Space, domain: Domain) -> None:
        self._space = space
        self._domain = domain
        self._reach = Reach(space)

    def groups(self, outputs: Sequence[Definition]) -> Iterator[tuple[list[Definition], list[Box]]]:
        """Outputs that share their work, and the boxes over the axes that all of them can be cut along. Where these
        are too few to keep arrays small, and each output on its own has more, they are evaluated apart."""
        cuts = {o.name: self._cuttable(o) for o in outputs}
        shared = frozenset.intersection(*cuts.values()) if cuts else frozenset()
        least = _largest(self._extents(outputs), dict.fromkeys(shared, 1))
        alone = max((_largest(self._extents([o]), dict.fromkeys(cuts[o.name], 1)) for o in outputs), default=1)
        apart = least > max(alone, BUDGET)
        for group in [[o] for o in outputs] if apart else [list(outputs)]:
            yield group, self._boxes(group, sorted(frozenset.intersection(*(cuts[o.name] for o in group))))

    def _cuttable(self, output: Definition) -> frozenset[str]:
        """Axes of an output that nothing it is made from folds over: each part is a computation of its own."""
        folded: set[str] = set()
        for definition in closure(self._space.program, [output]):
            for expr in walk(definition.value):
                if isinstance(expr, Fold):
                    folded |= set(self._space.leaf_set(expr.axes))
        return frozenset(self._reach.definition(output)) - folded

    def _boxes(self, outputs: Sequence[Definition], cut: Sequence[str]) -> list[Box]:
        arrays = self._extents(outputs)
        length = dict.fromkeys(cut, 1)
        extents = {a: self._space.extent(a) for a in cut}
        for axis in reversed(cut):  # the longest pieces that fit, one axis after the other
            growing = [a for a in arrays if axis in a]
            while length[axis] < extents[axis] and _largest(growing, {**length, axis: length[axis] * 2}) <= BUDGET:
                length[axis] *= 2
        pieces = [[range(at, min(at + length[a], extents[a])) for at in range(0, extents[a], length[a])] for a in cut]
        rest = self._space.whole(a for a in union(*(self._reach.definition(o) for o in outputs)) if a not in cut)
        return [{**rest, **dict(zip(cut, combination, strict=True))} for combination in itertools.product(*pieces)]

    def _extents(self, outputs: Sequence[Definition]) -> list[dict[str, int]]:
        """The extent of each axis of each array that evaluating the outputs holds."""
        arrays = {axes for d in closure(self._space.program, outputs) for axes in self._arrays(d)}
        return [{a: self._space.extent(a) for a in axes} for axes in arrays]

    def _arrays(self, definition: Definition) -> Iterator[Axes]:
        """The axes of each array that evaluating a definition holds."""
        around = self._reach.definition(definition)
        yield around
        yield from self._held(definition.value, around)

    def _held(self, expr: Expr, around: Axes) -> Iterator[Axes]:
        yield self._reach.expr(expr)
        match expr:
            case Fold(kind, axes, args, extra):
                over = self._space.leaf_set(axes)
                inner = union(around, over)
                mask = self._domain.axes(inner, over)
                yield mask
                bodies = list(args)
                if kind in ("sum", "expsum"):  # a product of matrices: its terms are never formed
                    bodies = [*args[:-1], *(e for e, _ in factors(args[-1]))]
                    yield union(mask, *(self._reach.expr(b) for b in bodies[:1]))
                else:
                    yield union(over, mask, *(self._reach.expr(b) for b in bodies))
                for part in (*bodies, *extra):
                    yield from self._held(part, inner)
            case Apply(_, args):
                for part in args:
                    yield from self._held(part, around)
            case Cast(value):
                yield from self._held(value, around)
            case _:
                return


def _largest(arrays: Sequence[Mapping[str, int]], length: Mapping[str, int]) -> int:
    """The elements of the largest array where the axes of `length` are cut to that."""
    return max((prod(length.get(axis, n) for axis, n in extents.items()) for extents in arrays), default=1)


def closure(program: TileProgram, outputs: Iterable[Definition]) -> list[Definition]:
    """The outputs and every definition they are made from."""
    definitions = {d.name: d for d in program.definitions}
    found: dict[str, Definition] = {}
    todo = list(outputs)
    while todo:
        definition = todo.pop()
        if definition.name not in found:
            found[definition.name] = definition
            reads = (e.name for e in walk(definition.value) if isinstance(e, Read))
            todo += [definitions[name] for name in reads if name in definitions]
    return list(found.values())


def walk(expr: Expr) -> Iterator[Expr]:
    """An expression and everything inside it."""
    yield expr
    match expr:
        case Fold(_, _, args, extra):
            parts = (*args, *extra)
        case Apply(_, args):
            parts = args
        case Cast(value):
            parts = (value,)
        case _:
            parts = ()
    for part in parts:
        yield from walk(part)
