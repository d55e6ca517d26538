"""Which factor of a product has the rows, and what folds and their states begin with: the same on every machine."""

from __future__ import annotations

from collections.abc import Collection

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import FOLD_IDENTITY, Exponent, FoldedOp, Product, Reduce, Rescale
from tilegen.ir.plan import Init, Operation
from tilegen.ir.scheduled import Phase, Stream
from tilegen.passes.synchronise.context import Context, carried
from tilegen.passes.synchronise.rows import row_part
from tilegen.passes.synchronise.values import Values


def sides(o: Product, c: Context) -> tuple[str, str]:
    """A product's factors, the one with the rows first; the second is a tile. Raises TilegenError for a tile with other
    rows than the workers'."""
    a, b = o.a, o.b
    s = c.scheduled
    if a in c.tiles and b in c.tiles:
        in_a, in_b = (any(row_part(n, s) for n in c.tiles[x].move.axes) for x in (a, b))
        if in_b and not in_a:
            a, b = b, a
    if b not in c.tiles:
        a, b = b, a
    if a in c.tiles and {p.axis for n in c.tiles[a].move.axes if (p := row_part(n, s))} != set(s.workers.axes):
        fail(Code.PRODUCT_ROWS, o.span, product=o.statement, tile=a, rows=s.workers.names)
    return a, b


def initial_value(o: FoldedOp) -> float:
    """What the state of a fold that begins with no other value holds at first."""
    if isinstance(o, Exponent):
        return float("-inf")
    return FOLD_IDENTITY[o.kind] if isinstance(o, Reduce) else 0.0


def begins(o: FoldedOp) -> bool:
    """Whether a fold begins with a value of its own."""
    return isinstance(o, Exponent | Reduce) and o.start is not None


def initial_states(c: Context, values: Values, begun: Collection[str] = ()) -> list[Operation]:
    """The states of folds that begin with a constant: the others begin with their loop (`beginnings`). begun: those
    that a first product overwrites."""
    s = c.scheduled
    # a second loop reads the exponent of the first, also when that ran no iteration; a kept one is read first
    again = sum(isinstance(p, Stream) for p in s.phases) > 1
    out: list[Operation] = list(values.voters()) if s.stale else []
    for o in s.program.ops:
        if not carried(o, c.stream) or o.name in begun:
            continue
        name = values.state(o)
        if not begins(o):
            out.append(Init(name, initial_value(o), o.span, o.statement))
            if isinstance(o, Exponent) and (again or o.name in s.stale):
                out.append(Init(values.shift(o), 0.0, o.span, o.statement))
    return out


def beginnings(phase: Stream, c: Context, values: Values) -> list[Operation]:
    """The states of a loop's folds that begin with a value computed before it."""
    out: list[Operation] = []
    for step in phase.steps:
        o = c.scheduled.op(step.op)
        if isinstance(o, Exponent | Reduce) and begins(o) and carried(o, c.stream):
            out += values.begin(o)
    return out


def nothing_to_rescale(o: Rescale, phase: Phase, active: set[str], c: Context, values: Values) -> bool:
    """Whether a state has no older exponent, or there is no state yet, or its exponent is final."""
    if not carried(c.scheduled.op(o.source), c.stream):
        return True
    return isinstance(phase, Stream) and (o.source not in active or o.exponent not in values.moving)
