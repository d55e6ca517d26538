"""What products took for 0 in a tile comes back after the loop, in the rows that see it: a position at a time."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.folded import Product
from tilegen.ir.mls_plan import MlsOperation, Restore, within
from tilegen.ir.plan import For, If, IfSpoiled, Init, Let
from tilegen.ir.scheduled import Stream
from tilegen.ir.uniform import Int, Sym, from_poly, op
from tilegen.passes.guard import clauses_of
from tilegen.passes.synchronise.context import Context
from tilegen.passes.synchronise.geometry import Shape, corner, extent
from tilegen.passes.synchronise.loops import Layout, layout
from tilegen.passes.synchronise.values import Values

# In the names of the cuts between blocks, worked out here, where they are hardly ever needed.
RESTORED = "restored"


def restore(phase: Stream, c: Context, values: Values) -> list[MlsOperation]:
    """For each product of the loop that contracts a scanned tile, its branch."""
    s = c.scheduled
    plan = layout(phase, s)
    out: list[MlsOperation] = []
    for o in (s.op(x.op) for x in phase.steps):
        tiles = [t for t in c.tiles_of(o) if c.scanned(t)]
        if isinstance(o, Product) and tiles:
            body = (*plan.cuts(RESTORED), *_blocks(o, tiles[0], plan, c, values))
            out.append(IfSpoiled(tiles[0], within(body), o.span, o.statement))
    return out


def _blocks(o: Product, tile: str, plan: Layout, c: Context, values: Values) -> tuple[MlsOperation, ...]:
    """Through the blocks that some row sees in part, and their positions."""
    s, span, name = c.scheduled, o.span, o.statement
    axis = plan.stream.axis
    time, begin, at = Sym(plan.time), f"{axis}.begin", f"{axis}.at"
    end = op("min", op("add", begin, s.role(axis).block), extent(s.program.tile.axis(axis)))
    position = Let(f"{axis}.0", Sym(at), span)
    each = For(at, Sym(begin), end, within((position, *_position(o, tile, c, values))), "positions", span, name)
    first = Let(begin, op("mul", plan.block(time), s.role(axis).block), span)
    cut = If(plan.straddles(time, RESTORED), (first, each), span, name)
    return (For(time.name, Int(0), plan.count, (cut,), "blocks that rows see in part", span, name),)


def _position(o: Product, tile: str, c: Context, values: Values) -> tuple[MlsOperation, ...]:
    """The rows that see the position at hand, and its entries. The axis is bound to it, as to a block of one."""
    s, g = c.scheduled, c.tiles[tile]
    computed = s.op(o.b if o.a == tile else o.a)
    clauses = clauses_of(s.program.tile, computed.axes, o.over)
    rows = Shape(s.workers.axes, None, 1)
    live = values.scratch(f"{o.name}.live", rows, o.span)
    (axis,) = o.over
    values.new_iteration()
    values.c = replace(c, scheduled=s.with_role(replace(s.role(axis), block=1)))
    masks = values.mask(live, clauses, (), rows, 0.0, o.span, o.statement)
    values.c = c
    assert g.row_dim is not None
    across = g.col_dim if g.row_axis == axis else g.row_dim
    back = Restore(
        o.name,
        live,
        g.tensor.name,
        corner(g.move, s),
        across,
        from_poly(g.tensor.dims[across]),
        o.span,
        o.statement,
    )
    return (Init(live, 1.0, o.span, o.statement), *masks, back)
