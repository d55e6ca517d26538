"""What a scan took out of a tile comes back after the loop, in the rows that see it."""

from __future__ import annotations

from tilegen.ir.folded import Product
from tilegen.ir.plan import For, If, IfSpoiled, Init, Let, Mend, Operation
from tilegen.ir.scheduled import Stream
from tilegen.ir.uniform import Int, Sym, from_poly, op
from tilegen.passes.guard import clauses_of
from tilegen.passes.synchronise.context import Context
from tilegen.passes.synchronise.geometry import corner, extent, value_shape
from tilegen.passes.synchronise.loops import Layout, layout
from tilegen.passes.synchronise.values import Values

# In the names of the cuts between blocks, worked out here, where they are hardly ever needed, rather than held.
MENDED = "mended"


def mend(phase: Stream, c: Context, values: Values) -> list[Operation]:
    """For each product of the loop that contracts a scanned tile, its branch."""
    s = c.scheduled
    products = [o for x in phase.steps if isinstance(o := s.op(x.op), Product) and any(map(c.scanned, c.tiles_of(o)))]
    if not products:
        return []
    plan = layout(phase, s)
    out: list[Operation] = []
    for o in products:
        (tile,) = filter(c.scanned, c.tiles_of(o))
        cut = If(plan.straddles(Sym(plan.time), MENDED), _block(o, tile, plan, c, values), o.span, o.statement)
        blocks = For(plan.time, Int(0), plan.count, (cut,), "blocks that were looked through", o.span, o.statement)
        out.append(IfSpoiled(tile, (*plan.cuts(MENDED), blocks), o.span, o.statement))
    return out


def _block(o: Product, tile: str, plan: Layout, c: Context, values: Values) -> tuple[Operation, ...]:
    s = c.scheduled
    program, move, axis = s.program.tile, c.tiles[tile].move, plan.stream.axis
    computed = s.op(o.b if o.a == tile else o.a)
    shape = value_shape(computed.axes, s, o.span, o.statement)
    clauses = clauses_of(program, computed.axes, o.over)
    live = values.scratch(f"{o.name}.live", shape, o.span)
    begin = f"{axis}.0"
    values.new_iteration()
    block = s.role(axis).block
    g = c.tiles[tile]
    assert g.row_dim is not None
    along, across = (g.row_dim, g.col_dim) if g.row_axis == axis else (g.col_dim, g.row_dim)
    return (
        Let(begin, op("mul", plan.block(Sym(plan.time)), block), o.span),
        Init(live, 1.0, o.span, o.statement),
        *values.mask(live, clauses, o.over, shape, 0.0, o.span, o.statement),
        Mend(
            o.name,
            live,
            g.tensor.name,
            corner(move, s),
            along,
            across,
            op("min", block, op("sub", extent(program.axis(axis)), begin)),
            from_poly(g.tensor.dims[across]),
            o.span,
            o.statement,
        ),
    )
