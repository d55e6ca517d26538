"""Whether a read can leave its dimension at a position of the domain: never, surely, or for some sizes and scalars.

What is asked is whether the axes' extents, the inequalities of the domain and an index below 0, or past the end, can
hold together. Conditions that are no inequalities are taken to hold: they keep no index inside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tilegen.ir.accesses import Access, Declarations, accesses, variables_of
from tilegen.ir.inequalities import Alternatives, Linear, Symbols, eliminated, position
from tilegen.ir.poly import Poly
from tilegen.ir.tile import Scalar, TileProgram

_Point = dict[str, Poly]
MOST = 300  # combinations of alternatives that are looked at


@dataclass(frozen=True)
class Leaving:
    """An access that leaves its dimension: at which positions, in words, and what its index is there."""

    access: Access
    at: str
    index: str
    below: bool

    @property
    def place(self) -> str:
        """What the index is, and where."""
        return f"{self.index} at {self.at}" if self.at else self.index

    @property
    def remedy(self) -> str:
        """What leaves those positions out."""
        index = self.access.index
        axes = ", ".join(dict.fromkeys(v.rstrip("'") for v, _ in index.terms))
        bound = f"{index} >= 0" if self.below else f"{index} < {self.access.extent}"
        if not axes:
            return f"read a position from 0 to {self.access.extent - 1}"
        return f"leave those positions out: `domain {axes}: {bound}`"


class Outside:
    """The judgement on the reads of a program with these scalars."""

    def __init__(self, scalars: Iterable[Scalar]) -> None:
        self.symbols = Symbols({s.name: _limits(s) for s in scalars if not s.dtype.is_float})

    def surely(self, access: Access) -> Leaving | None:
        """Where it leaves its dimension whatever the scalars are, if sizes are large enough."""
        return self._first(access, None) if access.exact else None

    def possibly(self, access: Access) -> Leaving | None:
        """Whether it leaves its dimension for some sizes and scalars, as far as is known; it is not told where."""
        for below, goal in _goals(access):
            if self._search(access, goal, None, False) is not None:
                return Leaving(access, "", str(access.index), below)
        return None

    def at(self, access: Access, values: Mapping[str, int]) -> Leaving | None:
        """Where it leaves its dimension with these sizes and scalars; None too where that is not found, as where it
        takes a size that is not among them (the length of a sequence)."""
        return self._first(access, values) if access.exact else None

    def _first(self, access: Access, values: Mapping[str, int] | None) -> Leaving | None:
        for below, goal in _goals(access):
            found = self._search(access, goal, values, True)
            if found is not None:
                named: dict[str, Poly] = {}
                for v in access.involved:
                    if v in found:  # the first of its axis: the others are of folds around it
                        named.setdefault(v.rstrip("'"), found[v])
                at = ", ".join(f"{axis} = {p}" for axis, p in named.items())
                index = access.index.at(values or {})
                total = index.offset
                for v, factor in index.terms:
                    total = total + found.get(v, Poly.symbol(v.rstrip("'"))) * factor
                return Leaving(access, at, str(total), below)
        return None

    def _search(self, access: Access, goal: Linear, values: Mapping[str, int] | None, sure: bool) -> _Point | None:
        """A position at which the goal is met. sure: for all scalars and for large sizes; otherwise {} where there may
        be one."""
        start = [goal]
        for whole, outer, inner, extent in access.splits:
            unit = Linear((), extent).at(values or {}).offset.constant
            if unit is not None:
                same = Linear.of({whole: 1, outer: -unit, inner: -1}, Poly())
                start += [same, Linear((), Poly()).plus(same, -1)]
            elif sure:
                return None  # the product of a size and a position
        for variable, extent in access.variables:
            start += [Linear.variable(variable), Linear(((variable, -1),), extent - 1)]
        indexed = [v for v, _ in access.index.terms]
        members = [*start, *(x for c in access.conditions for a in c for x in a)]
        factors = {v: max((abs(x.factor(v)) for x in members), default=0) for v, _ in access.variables}
        order = sorted((v for v in factors if v not in indexed), key=factors.__getitem__) + indexed
        high = frozenset(v for v, factor in goal.terms if factor > 0)
        conditions = access.conditions
        if values is not None:
            conditions = tuple(tuple(tuple(x.at(values) for x in a) for a in c) for c in conditions)
            start = [x.at(values) for x in start]
            tied = {*access.involved}  # other axes may be as long as a sequence, and say nothing of this index
            start = [x for x in start if not x.offset.symbols or tied & {v for v, _ in x.terms}]
            conditions = tuple(c for c in conditions if not _symbols(c) or tied & variables_of(c))
            if any(x.offset.symbols for x in start) or any(map(_symbols, conditions)):
                return None
        return _Search(self.symbols, order, high, sure, iter(range(MOST))).met(start, conditions)


@dataclass(frozen=True)
class _Search:
    """For a position at which inequalities hold, and of each condition one alternative. steps: that may be taken, as
    conditions can be combined in too many ways."""

    symbols: Symbols
    order: list[str]
    high: frozenset[str]
    sure: bool
    steps: Iterator[int]

    def met(self, system: list[Linear], conditions: tuple[Alternatives, ...]) -> _Point | None:
        """A position, {} where there may be one and it is not looked for, or is one without words for it.
        None: there is none, or none that is sure."""
        if next(self.steps, None) is None:
            return None if self.sure else {}
        stages = eliminated(system, self.order, dark=False)
        if stages is not None and self.symbols.never([x.offset for x in stages[-1]]):
            return None
        if conditions:
            found = (self.met([*system, *alternative], conditions[1:]) for alternative in conditions[0])
            return next((f for f in found if f is not None), None)
        if not self.sure:
            return {}
        known = not any(x.offset.symbols for x in system)
        stages = stages if known else eliminated(system, self.order, dark=True)
        if stages is None or not all(self.symbols.sure(x.offset) for x in stages[-1]):
            return None
        found_at = position(stages, self.order, self.high, self.symbols)
        return found_at if found_at is not None or known else {}


def undecided(program: TileProgram) -> tuple[Access, ...]:
    """The reads that leave their dimension or not as a launch's sizes and scalars have it."""
    outside = Outside(program.scalars)
    return tuple(a for a in accesses(declared(program)) if outside.possibly(a))


def declared(program: TileProgram) -> Declarations:
    return Declarations(
        {a.name: a for a in program.axes},
        {t.name: t for t in program.tensors},
        {m.name: m for m in program.moves},
        {d.name: d for d in program.definitions},
        program.domain,
    )


def _symbols(alternatives: Alternatives) -> bool:
    """Whether sizes or scalars are left in them."""
    return any(x.offset.symbols for alternative in alternatives for x in alternative)


def _goals(access: Access) -> tuple[tuple[bool, Linear], ...]:
    """That an index is below 0, and that it is past the end."""
    below = Linear((), Poly.const(-1)).plus(access.index, -1)
    return (True, below), (False, access.index.moved(-access.extent))


def _limits(scalar: Scalar) -> tuple[int | None, int | None]:
    """The least and the greatest that it may be."""
    c = scalar.constraint
    if c is None or not math.isfinite(c.bound):
        return None, None
    least = {">": math.floor(c.bound) + 1, ">=": math.ceil(c.bound), "==": math.ceil(c.bound)}.get(c.op)
    greatest = {"<": math.ceil(c.bound) - 1, "<=": math.floor(c.bound), "==": math.floor(c.bound)}.get(c.op)
    return least, greatest
