"""Indices that leave their dimension whatever the sizes are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilegen.diagnostics.catalogue import Code
from tilegen.ir.bounds import bounds
from tilegen.ir.poly import Poly
from tilegen.ir.reach import AxisTree
from tilegen.ir.tile import Affine, Clause, Expr, Index, Read
from tilegen.ir.walk import subexpressions
from tilegen.sema.scope import Scope


def check_ranges(scope: Scope, clauses: Sequence[Clause], tree: AxisTree) -> None:
    """Notes each index of an input that is sure to leave it, also where the clauses of the domain hold."""
    for name, at in _places(scope):
        for dim, part in zip(scope.tensors[name].dims, at, strict=True):
            if not isinstance(part, Affine):
                continue
            lowest, highest = bounds(part, scope.axes.__getitem__)
            negated = Affine(tuple((a, -f) for a, f in part.terms), dim - 1 - part.offset, part.span)
            below = _sure(_Lowest(part, lowest, scope, tree), clauses)
            if below is not None:
                scope.faults.add(Code.INDEX_RANGE, part.span, got=f"{below} at its lowest", wanted="0", name=name)
                continue
            past = _sure(_Lowest(negated, dim - 1 - highest, scope, tree), clauses)
            if past is not None:
                scope.faults.add(
                    Code.INDEX_RANGE, part.span, got=f"{dim - 1 - past} at its highest", wanted=f"at most {dim - 1}",
                    notes=scope.declared(name), name=name,
                )  # fmt: skip


@dataclass(frozen=True)
class _Lowest:
    """What must not be below 0, and how low it goes over whole axes."""

    value: Affine
    lowest: Poly
    scope: Scope
    tree: AxisTree

    def negative(self, lowest: Poly) -> bool:
        """Whether that is below 0 whatever the sizes are."""
        positive = frozenset(s for a, _ in self.value.terms for s in self.scope.axes[a].extent.symbols)
        return not (lowest.symbols & _signed(self.scope)) and _negative(lowest, positive)

    def under(self, conjunct: Affine | Expr) -> tuple[Poly, str] | bool:
        """How low it goes at least where a conjunct holds that limits one of its axes, and which; False: as low as
        without, True: nobody knows."""
        if not isinstance(conjunct, Affine) or not conjunct.terms:
            return True
        factors = dict(self.value.terms)
        helping = False
        for axis, factor in conjunct.terms:
            shared = [a for a in factors if set(self.tree.atoms(a)) & set(self.tree.atoms(axis))]
            helping |= any(factors[a] * factor > 0 for a in shared)
        if not helping:
            return False
        ((axis, factor), *others) = conjunct.terms
        if others or axis not in factors or abs(factor) != 1:
            return True
        end = self.scope.axes[axis].extent - 1 if factor < 0 else Poly()
        limit = conjunct.offset * -factor  # factor * axis >= -offset
        return self.lowest + (limit - end) * factors[axis], axis


def _sure(goal: _Lowest, clauses: Sequence[Clause]) -> Poly | None:
    """A value below 0 that is reached whatever the sizes are, or None. Each alternative of a clause must keep it out;
    a limit that is not known to be too weak is taken to."""
    if not goal.negative(goal.lowest):
        return None
    reached, limited = goal.lowest, set[str]()
    for clause in clauses:
        open_ones: list[list[Poly]] = []
        for alternative in clause.alternatives:
            found = [goal.under(c) for c in alternative]
            limits = [f for f in found if not isinstance(f, bool)]
            limited |= {axis for _, axis in limits}
            if True not in found and all(goal.negative(low) for low, _ in limits):
                open_ones.append([low for low, _ in limits])
        if not open_ones:
            return None
        reached = next((low for lows in open_ones for low in lows), reached)
    return reached if len(limited) <= 1 else None  # limits of two axes may do together what neither does


def _signed(scope: Scope) -> frozenset[str]:
    """Integer scalars that may be negative."""
    kept = {">": -1, ">=": 0, "==": 0}
    return frozenset(
        s.name
        for s in scope.scalars.values()
        if s.constraint is None or s.constraint.op not in kept or s.constraint.bound < kept[s.constraint.op]
    )


def _places(scope: Scope) -> Iterator[tuple[str, tuple[Index, ...]]]:
    """Each input that is indexed, and by what."""
    for move in scope.moves.values():
        yield move.tensor, move.at
    for definition in scope.definitions.values():
        for node in subexpressions(definition.value):
            if isinstance(node, Read) and node.name in scope.tensors and not scope.tensors[node.name].output:
                yield node.name, node.index


def _negative(value: Poly, positive: frozenset[str]) -> bool:
    """Whether it is below 0 for all sizes, those in `positive` being at least 1: no coefficient is positive, and it is
    below 0 where all sizes are as small as they can be."""
    smallest = {name: int(name in positive) for name in value.symbols}
    return value.evaluate(smallest) < 0 and all(c < 0 for monomial, c in value.terms if monomial)
