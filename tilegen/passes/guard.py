"""Make every fold read its identity outside the domain: a select in front of it, never arithmetic.

The dead points of a product are zero on both sides: a tile's by zero fill, a weight's since it is zero there, and
any other computed factor's by a select. A fold of a weight needs none either, since the weight of a guarded source is
zero there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import DType
from tilegen.ir.folded import (
    FOLD_IDENTITY,
    Elementwise,
    Exponent,
    FoldedOp,
    FoldedProgram,
    Guarded,
    Product,
    Reduce,
    Weight,
)
from tilegen.ir.tile import Cast, Clause, Read, TileProgram
from tilegen.passes.expressions import identity_index


def with_parts(program: TileProgram, axes: Iterable[str]) -> set[str]:
    """Axes whose positions those of `axes` give: a split axis brings its parts along, and both parts the whole."""
    reach = set(axes)
    for axis in program.axes:
        if axis.split:
            parts = {axis.split.outer, axis.split.inner}
            if axis.name in reach:
                reach |= parts
            elif parts <= reach:
                reach.add(axis.name)
    return reach


def clauses_of(program: TileProgram, axes: tuple[str, ...], over: tuple[str, ...]) -> tuple[Clause, ...]:
    """Clauses of the domain of `axes` that mention an axis of `over`, or a part of one."""
    over, reach = tuple(with_parts(program, over)), with_parts(program, axes)
    return tuple(c for c in program.domain if set(c.axes) & set(over) and set(c.axes) <= reach)


def guard(program: FoldedProgram) -> FoldedProgram:
    """`program` with a Guarded value in front of each fold whose domain can leave out points of its tile."""
    return _Guard(program).run()


class _Guard:
    def __init__(self, program: FoldedProgram) -> None:
        self.program = program
        self.tile = program.tile
        self.done: dict[tuple[str, float, tuple[str, ...]], str] = {}
        self.out: list[FoldedOp] = []
        self.names = {op.name for op in program.ops} | {m.name for m in program.tile.moves}

    def run(self) -> FoldedProgram:
        for op in self.program.ops:
            self.out.append(self.guarded(op))
        return FoldedProgram(self.tile, tuple(self.out))

    def guarded(self, op: FoldedOp) -> FoldedOp:
        """The operation, reading guarded values."""
        if isinstance(op, Exponent):
            return replace(op, source=self.through(op.source, float("-inf"), op.over, op))
        if isinstance(op, Weight):
            return replace(op, source=self.through(op.source, float("-inf"), self.over_of(op), op))
        if isinstance(op, Reduce) and not self.zero_outside(op.source, op.over):
            return replace(op, source=self.through(op.source, FOLD_IDENTITY[op.kind], op.over, op))
        if isinstance(op, Elementwise) and isinstance(op.value, Cast):
            return self.factor(op, op.value)
        if isinstance(op, Product):
            self.check_product(op)
        return op

    def cut(self, over: tuple[str, ...], axes: tuple[str, ...]) -> bool:
        """Whether a tile along `over` can hold points outside the domain of `axes`."""
        run_time = any(self.tile.axis(a).extent.constant is None for a in over)
        return run_time or bool(clauses_of(self.tile, axes, over))

    def zero_outside(self, name: str, over: tuple[str, ...]) -> bool:
        """Whether a value is a weight that is zero outside the domain of `over`."""
        op = self.program.op(name)
        return isinstance(op, Weight) and set(over) <= set(self.over_of(op))

    def over_of(self, weight: Weight) -> tuple[str, ...]:
        exponent = self.program.op(weight.exponent)
        assert isinstance(exponent, Exponent)
        return exponent.over

    def through(self, name: str, identity: float, over: tuple[str, ...], op: FoldedOp) -> str:
        """The name of a value that is `identity` outside the domain of `over`, for `op` to read."""
        source = next(o for o in (*self.out, *self.program.ops) if o.name == name)
        if not self.cut(over, source.axes):
            return name
        clauses = clauses_of(self.tile, source.axes, over)
        known = (name, identity, over)
        if known not in self.done:
            self.done[known] = self.fresh(f"{name}_live")
            self.out.append(
                Guarded(self.done[known], name, identity, over, source.axes, clauses, op.span, op.statement)
            )
        return self.done[known]

    def fresh(self, wanted: str) -> str:
        name, n = wanted, 2
        while name in self.names:
            name, n = f"{wanted}{n}", n + 1
        self.names.add(name)
        return name

    # ---- products ----

    def factor(self, op: Elementwise, cast: Cast) -> Elementwise:
        """A computed factor of a product, zero where the contracted points are dead. A weight is so already."""
        products = [o for o in self.program.ops if isinstance(o, Product) and op.name in (o.a, o.b)]
        over = tuple(dict.fromkeys(a for o in products for a in o.over))
        inner = cast.value.name if isinstance(cast.value, Read) and self.program.has(cast.value.name) else None
        if not self.cut(over, op.axes) or (inner is not None and self.zero_outside(inner, over)):
            return op
        if inner is None:
            inner = self.fresh(f"{op.name}_terms")
            self.out.append(Elementwise(inner, cast.value, op.axes, DType.F32, op.span, op.statement))
        live = self.through(inner, 0.0, over, op)
        read = Read(live, identity_index(op.axes, op.span), DType.F32, op.span)
        return replace(op, value=replace(cast, value=read))

    def check_product(self, op: Product) -> None:
        """A clause that cuts contracted points has to be one that a computed factor is guarded by."""
        tiles = {m.name for m in self.tile.moves}
        computed = [self.program.op(f).axes for f in (op.a, op.b) if f not in tiles]
        covered = {c for axes in computed for c in clauses_of(self.tile, axes, op.over)}
        for clause in clauses_of(self.tile, op.axes + op.over, op.over):
            if clause not in covered:
                fail(Code.DOMAIN_CUTS_PRODUCT, clause.span, product=op.statement)
