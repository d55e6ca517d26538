"""Fragments: which registers, or which place in shared memory, hold a value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import DType
from tilegen.ir.folded import (
    Elementwise,
    FoldedOp,
    Product,
)
from tilegen.ir.plan import (
    BufferOperand,
    Element,
    ElementExpr,
    FenceAsync,
    Fragment,
    FragmentOperand,
    Operation,
    QuadReduce,
    Relayout,
    Value,
    WriteShared,
)
from tilegen.passes.synchronise.context import Context
from tilegen.passes.synchronise.geometry import (
    K_STEP,
    FactorGeometry,
    Shape,
    factor_geometry,
    up,
    value_shape,
)
from tilegen.passes.synchronise.rows import WARPGROUP_ROWS
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class Made:
    """Operations for a step, the registers they touch, and what they finish."""

    operations: tuple[Operation, ...]
    registers: frozenset[str]
    read_tiles: tuple[str, ...] = ()


@dataclass
class Fragments:
    """The registers of a consumer: what holds each value."""

    c: Context
    known: dict[str, Fragment] = field(default_factory=dict)
    in_place: dict[str, str] = field(default_factory=dict)  # guarded value -> the fragment that is masked in place
    placed: dict[str, FactorGeometry] = field(default_factory=dict)  # first factors of products in shared memory
    partials: dict[str, str] = field(default_factory=dict)  # row folds that each lane still holds a part of: kind

    def fragments(self) -> tuple[Fragment, ...]:
        return tuple(self.known.values())

    def _fragment(
        self, name: str, layout: str, cols: int, span: Span, dtype: DType = DType.F32, over: str | None = None
    ) -> str:
        """Declare a fragment once; `over`: the value whose registers it takes."""
        if name not in self.known:
            storage = self.register(over) if over is not None else name
            self.known[name] = Fragment(name, layout, WARPGROUP_ROWS, cols, dtype, storage, span)
        return name

    def _like(self, name: str, other: str) -> str:
        """Declare a fragment of another's layout and type."""
        held = self.known[other]
        return self._fragment(name, held.layout, held.cols, held.span, held.dtype)

    def fragment_of(self, value: str) -> str:
        """The fragment that holds a value."""
        return self.in_place.get(value, value)

    def register(self, fragment: str) -> str:
        """What a product has in flight with it: the registers of a fragment, or a factor's own place in memory."""
        return fragment if fragment in self.placed else self.known[self.fragment_of(fragment)].storage

    def registers_of(self, value: str) -> frozenset[str]:
        return frozenset((self.register(value),)) if self.fragment_of(value) in self.known else frozenset()

    def shape(self, o: FoldedOp) -> Shape:
        return value_shape(o.axes, self.c.scheduled, o.span, o.statement)

    def _declare(self, o: FoldedOp) -> str:
        shape = self.shape(o)
        return self._fragment(o.name, shape.layout, shape.width, o.span, over=self.c.storage.get(o.name))

    def state(self, o: FoldedOp) -> str:
        """The fragment of a fold's state."""
        shape = self.shape(o)
        wanted = "acc" if isinstance(o, Product) else "row"
        if shape.layout != wanted:
            self._no_such_fold(o)
        return self._declare(o)

    def _no_such_fold(self, o: FoldedOp) -> NoReturn:
        axes = ", ".join(o.axes) or "none"
        fail(Code.FOLD_SHAPE, o.span, name=o.statement, axes=axes, rows=self.c.scheduled.workers.names)

    def _value(self, name: str) -> ElementExpr:
        """A value that varies by row, or not at all."""
        held = self.fragment_of(name)
        return Element(held) if held in self.known else Value(held)

    def scratch(self, name: str, shape: Shape, span: Span) -> str:
        """A fragment of its own for a value of this shape."""
        return self._fragment(name, shape.layout, shape.width, span)

    def accumulator(self, o: Product, n: int) -> str:
        name = self.state(o)
        assert self.known[name].cols == n, (name, self.known[name].cols, n)
        return name

    def operand(self, value: str) -> FragmentOperand | BufferOperand:
        """A value as the first factor of a product: packed in registers, or in shared memory."""
        if value in self.placed:
            how = self.placed[value].operand
            return BufferOperand(value, how.major, how.offsets, how.leading, how.stride, how.swizzle)
        assert self.known[value].layout == "a", value
        return FragmentOperand(value)

    def _make_operand(self, o: Elementwise, source: str, width: int) -> Relayout | WriteShared:
        """A value in a fragment as the first factor of a product."""
        if o.name in self.c.scheduled.placed:
            self.placed.setdefault(o.name, factor_geometry(width, o.dtype, o.span))
            return WriteShared(o.name, source, o.span, o.statement)
        self._fragment(o.name, "a", up(width, K_STEP), o.span, dtype=o.dtype)
        return Relayout(o.name, source, o.span, o.statement)

    def _to_engines(self, made: Iterable[Elementwise]) -> list[FenceAsync]:
        """What products are to see of factors that were written to shared memory."""
        return [FenceAsync(o.span, o.statement) for o in made if o.name in self.placed][:1]

    def combine_partials(self, span: Span) -> list[Operation]:
        """The parts of row folds that lanes hold become whole, behind the loop that made them."""
        whole: list[Operation] = [
            QuadReduce(name, kind, span, self.c.scheduled.op(name).statement) for name, kind in self.partials.items()
        ]
        self.partials.clear()
        return whole

    def _made(self, operations: list[Operation], *fragments: str, read_tiles: tuple[str, ...] = ()) -> Made:
        return Made(tuple(operations), frozenset(self.register(f) for f in fragments), read_tiles)

    def _transient(self, name: str, source: str, span: Span) -> str:
        """A fragment that exists inside a sweep over `source` only."""
        cols = self.known[source].cols
        self.known.setdefault(name, Fragment(name, "acc", WARPGROUP_ROWS, cols, DType.F32, "", span))
        return name
