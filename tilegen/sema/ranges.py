"""Indices that leave their dimension whatever the sizes are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilegen.diagnostics.catalogue import Code
from tilegen.ir.poly import Poly
from tilegen.ir.reach import AxisTree
from tilegen.ir.tile import Affine, Clause, Index, Read
from tilegen.ir.walk import subexpressions
from tilegen.sema.scope import Scope


def check_ranges(scope: Scope, clauses: Iterable[Clause], tree: AxisTree) -> None:
    """Notes each index of an input that is sure to leave it. Axes that a clause of the domain limits are left out:
    the clause may be what keeps the index inside."""
    limited = {atom for clause in clauses for axis in clause.axes for atom in tree.atoms(axis)}
    for name, at in _places(scope):
        for dim, part in zip(scope.tensors[name].dims, at, strict=True):
            if not isinstance(part, Affine) or limited & {atom for a, _ in part.terms for atom in tree.atoms(a)}:
                continue
            lowest, highest = _bounds(part, scope)
            positive = frozenset(s for a, _ in part.terms for s in scope.axes[a].extent.symbols)
            if _negative(lowest, positive):
                scope.faults.add(Code.INDEX_RANGE, part.span, got=f"{lowest} at its lowest", wanted="0", name=name)
            elif _negative(dim - 1 - highest, positive):
                scope.faults.add(
                    Code.INDEX_RANGE, part.span, got=f"{highest} at its highest", wanted=f"at most {dim - 1}",
                    notes=scope.declared(name), name=name,
                )  # fmt: skip


def _places(scope: Scope) -> Iterator[tuple[str, tuple[Index, ...]]]:
    """Each input that is indexed, and by what."""
    for move in scope.moves.values():
        yield move.tensor, move.at
    for definition in scope.definitions.values():
        for node in subexpressions(definition.value):
            if isinstance(node, Read) and node.name in scope.tensors and not scope.tensors[node.name].output:
                yield node.name, node.index


def _bounds(index: Affine, scope: Scope) -> tuple[Poly, Poly]:
    """The lowest and the highest position, over axes that are not empty."""
    lowest = highest = index.offset
    for axis, factor in index.terms:
        reach = (scope.axes[axis].extent - 1) * factor
        lowest, highest = (lowest, highest + reach) if factor > 0 else (lowest + reach, highest)
    return lowest, highest


def _negative(value: Poly, positive: frozenset[str]) -> bool:
    """Whether it is below 0 for all sizes, those in `positive` being at least 1: no coefficient is positive, and it is
    below 0 where all sizes are as small as they can be."""
    smallest = {name: int(name in positive) for name in value.symbols}
    return value.evaluate(smallest) < 0 and all(c < 0 for monomial, c in value.terms if monomial)
