"""Indices that stay in their dimensions or not as the sizes and scalars of a launch have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.accesses import Access
from tilegen.ir.outside import Outside
from tilegen.ir.tile import TileProgram


def check_reads(program: TileProgram, undecided: Iterable[Access], numbers: Mapping[str, object]) -> None:
    """Raises TilegenError for each index that leaves its dimension with these sizes and scalars; those that take a
    length of a sequence are not judged."""
    values = {name: value for name, value in numbers.items() if isinstance(value, int)}
    outside = Outside(program.scalars)
    faults = []
    for access in undecided:
        found = outside.at(access, values)
        if found is not None:
            used = sorted(access.symbols & values.keys())
            said = ", ".join(f"{name} = {values[name]}" for name in used) or "these sizes"
            wanted = f"0 to {access.extent.evaluate(values) - 1}"
            faults.append(
                fault(
                    Code.INDEX_AT_LAUNCH, access.written.span, got=found.place, wanted=wanted, numbers=said,
                    name=access.tensor, dimension=access.dimension, remedy=found.remedy,
                )
            )  # fmt: skip
    if faults:
        raise TilegenError(tuple(dict.fromkeys(faults)))
