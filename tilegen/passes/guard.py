"""Make every fold read its identity outside the domain: a select in front of it, never arithmetic.

Products need none: their dead points are zero on both sides, by zero fill of a tile and by a weight of zero.
A fold of a weight needs none either, since the weight of a guarded source is zero there.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import Exponent, FoldedOp, FoldedProgram, Guarded, Product, Reduce, Weight
from tilegen.ir.tile import Clause, TileProgram

_IDENTITY = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}


def clauses_of(program: TileProgram, axes: tuple[str, ...], over: tuple[str, ...]) -> tuple[Clause, ...]:
    """Clauses of the domain of `axes` that mention an axis of `over`."""
    reach = set(axes)
    for axis in program.axes:  # a split axis brings its two parts along
        if axis.split and axis.name in reach:
            reach |= {axis.split.outer, axis.split.inner}
    return tuple(c for c in program.domain if set(c.axes) & set(over) and set(c.axes) <= reach)


def guard(program: FoldedProgram) -> FoldedProgram:
    """`program` with a Guarded value in front of each fold whose domain can leave out points of its tile."""
    tile = program.tile
    guarded: dict[tuple[str, float], str] = {}
    out: list[FoldedOp] = []
    by_name = {op.name: op for op in program.ops}

    def through(op: Exponent | Reduce | Weight, identity: float, over: tuple[str, ...]) -> str:
        source = by_name[op.source]
        clauses = clauses_of(tile, source.axes, over)
        whole = all(tile.axis(a).extent.constant is not None for a in over)
        if whole and not clauses:
            return op.source
        known = (op.source, identity)
        if known not in guarded:
            name = f"{op.source}_live" if identity == float("-inf") else f"{op.source}_live{len(guarded)}"
            out.append(Guarded(name, op.source, identity, over, source.axes, clauses, op.span, op.statement))
            guarded[known] = name
        return guarded[known]

    for op in program.ops:
        if isinstance(op, Exponent):
            out.append(replace(op, source=through(op, float("-inf"), op.over)))
        elif isinstance(op, Weight):
            exponent = by_name[op.exponent]
            assert isinstance(exponent, Exponent)
            out.append(replace(op, source=through(op, float("-inf"), exponent.over)))
        elif isinstance(op, Reduce) and not isinstance(by_name[op.source], Weight):
            out.append(replace(op, source=through(op, _IDENTITY[op.kind], op.over)))
        else:
            if isinstance(op, Product):
                _check_product(op, tile)
            out.append(op)
    return FoldedProgram(tile, tuple(out))


def _check_product(op: Product, tile: TileProgram) -> None:
    """A product whose contracted points are cut by a clause needs a factor that is zero there: a weight."""
    cutting = clauses_of(tile, op.axes + op.over, op.over)
    tiles = {m.name for m in tile.moves}
    if cutting and op.a in tiles and op.b in tiles:
        fail(Code.DOMAIN_CUTS_PRODUCT, cutting[0].span, product=op.statement)
