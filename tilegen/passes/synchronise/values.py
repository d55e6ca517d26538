"""Values in registers: each operation that is no product as plan operations."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.ir.folded import (
    Elementwise,
    Exponent,
    FoldedOp,
    Guarded,
    Reduce,
    Rescale,
    Weight,
)
from tilegen.ir.plan import (
    Compute,
    Coordinate,
    Element,
    ElementExpr,
    FmaOob,
    LetFloat,
    Literal,
    Map,
    Operation,
    Place,
    ReadShared,
    RowFold,
    Sweep,
    Value,
)
from tilegen.ir.tile import Cast, Expr, Read
from tilegen.passes.expressions import key
from tilegen.passes.fills import factors_of, filled, fused, selects
from tilegen.passes.synchronise.context import _becomes_operand, carried
from tilegen.passes.synchronise.elements import lower
from tilegen.passes.synchronise.fragments import Made
from tilegen.passes.synchronise.geometry import (
    Shape,
)
from tilegen.passes.synchronise.scaled import ScaledSums

_COMBINE = {"sum": "add", "max": "max", "min": "min"}


@dataclass
class Values(ScaledSums):
    """All operations that are no products."""

    def lower(self, o: FoldedOp, masked: bool) -> Made:
        if isinstance(o, Guarded):
            return self._guarded(o, masked)
        if isinstance(o, Exponent):
            return self._exponent(o)
        if isinstance(o, Weight):
            return self._weight(o)
        if isinstance(o, Reduce):
            return self._reduce(o)
        if isinstance(o, Rescale):
            acc = o.source
            scaled = Compute("mul", (Element(acc), Element(f"{o.exponent}.scale")))
            return self._made([Map(acc, scaled, o.span, o.statement)], acc)
        assert isinstance(o, Elementwise), o
        return self._elementwise(o)

    def _guarded(self, o: Guarded, masked: bool) -> Made:
        shape = self.shape(o)
        if shape.layout != "acc":
            self._no_such_fold(o)
        source = self.fragment_of(o.source)
        operations: list[Operation] = []
        if o.name in self.c.storage:
            name = self.in_place.setdefault(o.name, source)
        else:
            name = self._declare(o)
            operations.append(Map(name, Element(source), o.span, o.statement))
        if masked and selects(o, self.c.scheduled):
            operations += self.mask(name, o.clauses, o.over, shape, o.identity, o.span, o.statement)
        return self._made(operations, name, source)

    def _reduce(self, o: Reduce) -> Made:
        source = self.known[self.fragment_of(o.source)]
        if source.layout != "acc":
            self._no_such_fold(o)
        state = self.state(o)
        if not carried(o, self.c.stream):
            whole: list[Operation] = [RowFold(state, source.name, o.kind, "quad", o.span, o.statement)]
            if o.start is not None:
                more = Compute(_COMBINE[o.kind], (Element(state), self._brought(o, self._value(o.start))))
                whole.append(Map(state, more, o.span, o.statement))
            return self._made(whole, state, o.source)
        part = self._fragment(f"{o.name}.part", "row", 1, o.span)
        if o.exponent in self.moving:
            combined = Compute("fma", (Element(state), Element(f"{o.exponent}.scale"), Element(part)))
        else:
            combined = Compute(_COMBINE[o.kind], (Element(state), Element(part)))
        operations: list[Operation] = [
            RowFold(part, source.name, o.kind, "thread", o.span, o.statement),
            Map(state, combined, o.span, o.statement),
        ]
        self.partials[o.name] = o.kind
        return self._made(operations, state, part, o.source)

    def _elementwise(self, o: Elementwise) -> Made:
        shape = self.shape(o)
        before: list[Operation] = []
        tiles: list[str] = []
        touched: list[str] = []
        passing: list[ReadShared] = []  # tiles that never fill a fragment
        roundings: dict[object, ElementExpr] = {}  # that are one multiply-add, by what is rounded
        over = o.name in self.c.storage
        outside = filled(self.c.scheduled)
        ahead = factors_of(o.value, outside)

        def element(r: Read) -> ElementExpr:
            loaded = self._load(r, shape, before)
            if loaded is not None:
                if isinstance(loaded, Element):
                    touched.append(loaded.fragment)
                return loaded
            if r.name in self.c.tiles and over and r.name not in ahead:
                return Element(self._pass_tile(r, passing, tiles))
            name = self._read_tile(r, before, tiles) if r.name in self.c.tiles else self.fragment_of(r.name)
            if name not in self.known:
                return Value(name)  # a uniform value
            touched.append(name)
            return Element(name)

        def rounding(e: Cast) -> ElementExpr | None:
            made = fused(e, outside)
            if made is None:
                return None
            if key(e) not in roundings:
                a, b, c = (lower(x, shape, self.c.scheduled, element, rounding) for x in (made.a, made.b, made.c))
                own = e is o.value and not made.negated
                out = self._declare(o) if own else self.scratch(f"{o.name}.fma{len(roundings) or ''}", shape, o.span)
                before.append(FmaOob(out, a, b, c, e.dtype, e.span, o.statement))
                touched.append(out)
                roundings[key(e)] = Compute("neg", (Element(out),)) if made.negated else Element(out)
            return roundings[key(e)]

        if shape.layout == "uniform":
            value = lower(o.value, shape, self.c.scheduled, element)
            return Made((*before, LetFloat(o.name, value, None, o.span, o.statement)), frozenset())
        if _becomes_operand(o, self.c.scheduled):
            assert isinstance(o.value, Cast)
            source = self._as_fragment(o, o.value.value, shape, element, before)
            before += [self._make_operand(o, source, shape.width), *self._to_engines((o,))]
            return self._made(before, o.name, source, *touched, read_tiles=tuple(tiles))
        value = lower(o.value, shape, self.c.scheduled, element, rounding)
        if value == Element(o.name):
            return self._made(before, o.name, *touched, read_tiles=tuple(tiles))
        if shape.layout == "acc":
            value = self._once_a_row(value, o, before)
        out = self._declare(o)
        made = Map(out, value, o.span, o.statement)
        before.append(Sweep((*passing, made), o.span, o.statement) if passing else made)
        return self._made(before, out, *touched, read_tiles=tuple(tiles))

    def _once_a_row(self, value: ElementExpr, o: Elementwise, before: list[Operation]) -> ElementExpr:
        """`value` with what only varies by row computed once for each row, in front; a ratio to such a value
        becomes a product with its reciprocal. A division does not: its divisor may have no normal reciprocal."""
        made: dict[ElementExpr, ElementExpr] = {}

        def row_only(e: ElementExpr) -> bool:
            if isinstance(e, Element):
                return self.known[e.fragment].layout == "row"
            if isinstance(e, Coordinate):
                return e.along == "row"
            if isinstance(e, Place):
                return not e.col_factor
            return not isinstance(e, Compute) or all(map(row_only, e.args))

        def varies(e: ElementExpr) -> bool:
            own = isinstance(e, Element | Coordinate | Place)
            return own or (isinstance(e, Compute) and any(map(varies, e.args)))

        def hoisted(e: ElementExpr) -> ElementExpr:
            if e not in made:
                name = self._fragment(f"{o.name}.row{len(made) or ''}", "row", 1, o.span)
                before.append(Map(name, e, o.span, o.statement))
                made[e] = Element(name)
            return made[e]

        def walk(e: ElementExpr) -> ElementExpr:
            if not isinstance(e, Compute):
                return e
            if e.op == "ratio" and row_only(e.args[1]) and varies(e.args[1]) and not row_only(e.args[0]):
                empty = Compute("eq", (e.args[1], Literal(0.0)))
                inverse = Compute("select", (empty, Literal(0.0), Compute("rcp", (e.args[1],))))
                return Compute("mul", (walk(e.args[0]), hoisted(inverse)))
            if row_only(e) and varies(e) and e.op != "neg":
                return hoisted(e)
            return replace(e, args=tuple(map(walk, e.args)))

        return walk(value)

    def _as_fragment(self, o: Elementwise, inner: Expr, shape: Shape, element: object, before: list[Operation]) -> str:
        assert callable(element)
        value = lower(inner, shape, self.c.scheduled, element)
        if isinstance(value, Element):
            return value.fragment
        name = self._fragment(f"{o.name}.f32", shape.layout, shape.width, o.span)
        before.append(Map(name, value, o.span, o.statement))
        return name
