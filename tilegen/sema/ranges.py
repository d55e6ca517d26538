"""Indices that leave their dimension at positions of the domain, whatever the scalars are and for all large sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilegen.diagnostics.catalogue import Code
from tilegen.ir.accesses import Declarations, accesses
from tilegen.ir.outside import Outside
from tilegen.ir.tile import Clause, Ragged
from tilegen.sema.scope import Scope
from tilegen.syntax.span import Span


def check_ranges(scope: Scope, clauses: Sequence[Clause], ragged: Iterable[Ragged]) -> None:
    """Notes each index of an input that leaves it, or may do so as lengths of sequences have it, which no launch
    looks at."""
    lengths = {r.size for r in ragged}
    declared = Declarations(scope.axes, scope.tensors, scope.moves, scope.definitions, tuple(clauses))
    outside = Outside(scope.scalars.values())
    noted: set[Span] = set()
    for access in accesses(declared):
        span = access.written.span
        found = outside.surely(access) if span not in noted else None
        code = Code.INDEX_RANGE
        if found is None and span not in noted and access.symbols & lengths:
            found, code = outside.possibly(access), Code.INDEX_OF_SEQUENCE
        if found is None:
            continue
        noted.add(span)
        scope.faults.add(
            code, span, got=found.place, wanted=f"0 to {access.extent - 1}",
            notes=scope.declared(access.tensor), name=access.tensor, dimension=access.dimension, remedy=found.remedy,
        )  # fmt: skip
