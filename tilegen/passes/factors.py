"""Which factors of products an equation of the spec computes."""

from __future__ import annotations

from tilegen.ir.folded import FoldedProgram, Product
from tilegen.ir.tile import Expr, Fold
from tilegen.ir.walk import subexpressions
from tilegen.passes.expressions import index_axes, reads
from tilegen.passes.schedule import source_names


def factors_of(name: str, program: FoldedProgram) -> tuple[str, ...]:
    """Computed factors of products that are made of an equation's values, directly. `fold` may have put the equation's
    right side in the place of its name, so that what a product's own equation says counts as well."""
    made = {o.name for o in program.ops if o.statement == name}
    moves = {m.name for m in program.tile.moves}
    found: list[str] = []
    for o in program.ops:
        if isinstance(o, Product):
            computed = [n for n in (o.a, o.b) if n not in moves]
            written = name in _summed(program.tile.definition(o.statement).value, o.over)
            found += [n for n in computed if written or made.intersection(source_names(program.op(n)))]
    return tuple(dict.fromkeys(found))


def _summed(value: Expr, over: tuple[str, ...]) -> set[str]:
    """What sums over these axes read along them."""
    sums = (e for e in subexpressions(value) if isinstance(e, Fold) and e.kind == "sum" and set(over) <= set(e.axes))
    return {r.name for e in sums for r in reads(e) if set(over) <= set(index_axes(r))}
