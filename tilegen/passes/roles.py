"""Residency: the role of each axis by default (grid, stream, hold) and the block it has then.

An axis whose extent is a compile-time constant of at most 256 is held whole in its tile; a reduced axis that is
not held is streamed, also where it is an output's axis as well (its loop then runs twice); the other axes of an
output form the grid. `grid`, `stream` and `hold` override it.
"""

from __future__ import annotations

from tilegen.ir.folded import Exponent, FoldedProgram, Output, Product, Reduce
from tilegen.ir.scheduled import AxisRole

HOLD_LIMIT = 256


def default_roles(program: FoldedProgram) -> tuple[AxisRole, ...]:
    """One role for each axis that is not a part of a split axis in use. Blocks are 1 for grid axes that are no
    tile's direction, and are set by the schedule otherwise."""
    reduced: set[str] = set()
    free: list[str] = []
    for op in program.ops:
        if isinstance(op, Product | Reduce | Exponent):
            reduced |= set(op.over)
        if isinstance(op, Output):
            free += [a for a in op.axes if a not in free]
    parts = {p for a in program.tile.axes if a.split for p in (a.split.outer, a.split.inner)}
    roles = []
    for axis in program.tile.axes:
        if axis.name in parts and axis.name not in free and axis.name not in reduced:
            continue  # a function of the split axis
        extent = axis.extent.constant
        if extent is not None and extent <= HOLD_LIMIT:
            roles.append(AxisRole(axis.name, "hold", extent, axis.span))
        elif axis.name in reduced:
            roles.append(AxisRole(axis.name, "stream", 64, axis.span))
        elif axis.name in free:
            roles.append(AxisRole(axis.name, "grid", 1, axis.span))
    return tuple(roles)
