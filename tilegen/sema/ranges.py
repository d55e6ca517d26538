"""Indices that leave their dimension at positions of the domain, whatever the scalars are and for all large sizes."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.diagnostics.catalogue import Code
from tilegen.ir.accesses import Declarations, accesses
from tilegen.ir.outside import Outside
from tilegen.ir.tile import Clause
from tilegen.sema.scope import Scope
from tilegen.syntax.span import Span


def check_ranges(scope: Scope, clauses: Sequence[Clause]) -> None:
    """Notes each index of an input that leaves it."""
    declared = Declarations(scope.axes, scope.tensors, scope.moves, scope.definitions, tuple(clauses))
    outside = Outside(scope.scalars.values())
    noted: set[Span] = set()
    for access in accesses(declared):
        span = access.written.span
        if span in noted or (found := outside.surely(access)) is None:
            continue
        noted.add(span)
        scope.faults.add(
            Code.INDEX_RANGE, span, got=found.place, wanted=f"0 to {access.extent - 1}",
            notes=scope.declared(access.tensor), name=access.tensor, dimension=access.dimension, remedy=found.remedy,
        )  # fmt: skip
