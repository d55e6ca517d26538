"""Values in registers: their fragments, and each operation that is no product as plan operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NoReturn

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import DType
from tilegen.ir.folded import (
    Elementwise,
    Exponent,
    FoldedOp,
    Guarded,
    Product,
    Reduce,
    Rescale,
    Weight,
)
from tilegen.ir.plan import (
    BufferOperand,
    Compute,
    Coordinate,
    CopyOperand,
    Element,
    ElementExpr,
    FenceAsync,
    FmaOob,
    Fragment,
    FragmentOperand,
    IfVote,
    Init,
    LetFloat,
    Literal,
    LoadVector,
    Map,
    Mask,
    Operation,
    Past,
    Place,
    QuadReduce,
    ReadShared,
    Relayout,
    RowFold,
    Slot,
    Sweep,
    Value,
    WriteShared,
)
from tilegen.ir.scheduled import Phase
from tilegen.ir.terms import TERMS
from tilegen.ir.tile import Affine, Cast, Clause, Expr, Move, Read
from tilegen.ir.uniform import Uniform, from_poly, op
from tilegen.passes.expressions import index_axes, key, reads
from tilegen.passes.fills import filled, fused, selects
from tilegen.passes.isolate import ends_with_tensor
from tilegen.passes.stale import LIMIT, ScaledSum
from tilegen.passes.synchronise.context import Context, _becomes_operand, carried
from tilegen.passes.synchronise.elements import lower, place
from tilegen.passes.synchronise.geometry import (
    K_STEP,
    FactorGeometry,
    Shape,
    affine_position,
    extent_in_tile,
    factor_geometry,
    row_limit,
    up,
    value_shape,
)
from tilegen.passes.synchronise.rows import WARPGROUP_ROWS, RowAxis, row_axes, row_part
from tilegen.passes.synchronise.work import mask_alternatives, predicates
from tilegen.syntax.span import Span

_VOTERS = "rows.voting"
_COMBINE = {"sum": "add", "max": "max", "min": "min"}
_UNIFORM = Shape((), None, 1)


def _shifting(exponent: str) -> ElementExpr:
    """What is subtracted: a row that has seen no live point yet keeps -inf as its exponent, and shifts by 0."""
    none_yet = Compute("eq", (Element(exponent), Literal(float("-inf"))))
    return Compute("select", (none_yet, Literal(0.0), Element(exponent)))


@dataclass(frozen=True)
class Made:
    """Operations for a step, the registers they touch, and what they finish."""

    operations: tuple[Operation, ...]
    registers: frozenset[str]
    read_tiles: tuple[str, ...] = ()
    partial: tuple[str, str] | None = None  # (row fold kept per thread, its kind)


@dataclass
class Values:
    c: Context
    known: dict[str, Fragment] = field(default_factory=dict)
    in_place: dict[str, str] = field(default_factory=dict)  # guarded value -> the fragment that is masked in place
    loads: dict[object, str] = field(default_factory=dict)  # tensor reads in registers for the whole work item
    streamed_loads: dict[object, str] = field(default_factory=dict)
    vectors: dict[tuple[str, object], str] = field(default_factory=dict)  # tensor read -> its fragment
    tile_reads: dict[str, str] = field(default_factory=dict)  # tile -> fragment, this iteration
    factors: dict[str, Operation] = field(default_factory=dict)
    placed: dict[str, FactorGeometry] = field(default_factory=dict)  # first factors of products in shared memory
    moving: frozenset[str] = frozenset()  # exponents that the phase at hand computes; the others are final

    # ---- fragments ----

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

    def begin(self, o: Exponent | Reduce) -> list[Operation]:
        """The state of a fold as it is before the loop, from the value that it begins with."""
        assert o.start is not None
        state, span, name = self.state(o), o.span, o.statement
        value = self._value(o.start)
        if isinstance(o, Reduce):
            if o.kind == "sum":  # each lane of the four that share a row holds a part of the state
                value = Compute("mul", (value, Literal(0.25)))
            return [Map(state, value, span, name)]
        return [Map(state, value, span, name), Map(self.shift(o), _shifting(state), span, name)]

    def _value(self, name: str) -> ElementExpr:
        """A value that varies by row, or not at all."""
        held = self.fragment_of(name)
        return Element(held) if held in self.known else Value(held)

    def shift(self, o: Exponent) -> str:
        """What is subtracted from an argument: the exponent, or 0 for a row that has none yet."""
        return self._fragment(f"{o.name}.shift", "row", 1, o.span)

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

    # ---- floats that are uniform ----

    def constants(self) -> list[Operation]:
        return list(self.factors.values())

    def _factor(self, o: Exponent | Weight) -> ElementExpr | None:
        if o.factor is None:
            return None
        value = lower(o.factor, _UNIFORM, self.c.scheduled, lambda r: Value(r.name))
        if isinstance(value, Literal):
            return value
        exponent = o.name if isinstance(o, Exponent) else o.exponent
        name = f"{exponent}.factor"
        self.factors.setdefault(name, LetFloat(name, value, None, o.span, o.statement))
        return Value(name)

    # ---- tensors read without a tile ----

    def hoist_loads(self, phase: Phase, out: list[Operation]) -> None:
        """Load what a phase's expressions read of tensors and what does not change in its loop."""
        for step in phase.steps:
            o = self.c.scheduled.op(step.op)
            wanted = reads(o.value) if isinstance(o, Elementwise) else ()
            if isinstance(o, Guarded):
                wanted = tuple(r for p in predicates(o.clauses) for r in reads(p))
            for r in wanted:
                if not self._moves_with_stream(r):
                    self._load(r, self.shape(o), out)

    def new_iteration(self) -> None:
        self.streamed_loads.clear()
        self.tile_reads.clear()

    def _moves_with_stream(self, r: Read) -> bool:
        at = self._tensor_index(r)
        return at is not None and any(self.c.stream == axis for entry in at[1] for axis, _ in entry.terms)

    def _tensor_index(self, r: Read) -> tuple[str, tuple[Affine, ...]] | None:
        """(tensor, index) if a read goes to device memory: an input, or a tile that no ring holds."""
        program = self.c.scheduled.program.tile
        if self.c.scheduled.program.has(r.name) or r.name in self.c.tiles:
            return None
        move = next((m for m in program.moves if m.name == r.name), None)
        tensor, index = (move.tensor, move.at) if move else (r.name, r.index)
        affine = tuple(e for e in index if isinstance(e, Affine))
        if len(affine) != len(index):
            fail(Code.LOOKUP_UNSUPPORTED, r.span, name=r.name)
        return tensor, affine

    def _load(self, r: Read, shape: Shape, out: list[Operation]) -> ElementExpr | None:
        """The element expression of a read of device memory, loading it first if need be; None for other reads."""
        found = self._tensor_index(r)
        if found is None:
            return None
        tensor, index = found
        s = self.c.scheduled
        wide = [d for d, e in enumerate(index) if any(extent_in_tile(a, s) > 1 for a, _ in e.terms)]
        known = (tensor, tuple((e.terms, e.offset) for e in index))
        cache = self.streamed_loads if self._moves_with_stream(r) else self.loads
        if len(wide) > 1:
            fail(Code.READ_NEEDS_TILE, r.span, tensor=tensor, axes=", ".join(index_axes(r)))
        where = [affine_position(e, s) for e in index]
        if not wide:
            if known not in cache:
                cache[known] = f"{tensor}.value{len(self.loads) or ''}"
                out.append(LetFloat(cache[known], None, (tensor, tuple(where)), r.span, tensor))
            return Value(cache[known])
        dim = wide[0]
        axis = index[dim].terms[0][0]
        if len(index[dim].terms) > 1 or index[dim].terms[0][1] != 1:
            fail(Code.INDEX_NOT_AFFINE_UNIT, r.span, tile=tensor)
        part = row_part(axis, s)
        along = "row" if part is not None else "col"
        if known not in cache:
            count = sum(1 for t, _ in self.vectors if t == tensor)
            wanted = self.vectors.setdefault(known, f"{tensor}.{along}{count or ''}")
            cols = extent_in_tile(axis, s) if along == "col" else 1
            whole = s.program.tile.tensor(tensor).dtype is DType.I32
            name = self._fragment(wanted, along, cols, r.span, DType.I32 if whole else DType.F32)
            limit: Uniform = from_poly(s.program.tile.tensor(tensor).dims[dim])
            if part is not None:
                where[dim] = op("add", where[dim], op("mul", "warpgroup", part.step))
                limit = row_limit(axis, s, limit)
            cache[known] = name
            digit = None if part is None else part.digit
            out.append(LoadVector(name, tensor, tuple(where), dim, limit, r.span, tensor, digit))
        return Element(cache[known])

    # ---- operations ----

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

    def _made(self, operations: list[Operation], *fragments: str, **more: object) -> Made:
        return Made(tuple(operations), frozenset(self.register(f) for f in fragments), **more)  # type: ignore[arg-type]

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

    def mask(
        self,
        fragment: str,
        clauses: tuple[Clause, ...],
        bounded: tuple[str, ...],
        shape: Shape,
        identity: float,
        span: Span,
        statement: str,
    ) -> list[Operation]:
        """Elements of a fragment outside these clauses, or past the end of a `bounded` axis, become `identity`."""
        out: list[Operation] = []

        def element(r: Read) -> ElementExpr:
            loaded = self._load(r, shape, out)
            assert loaded is not None, "a domain reads inputs only"
            return loaded

        def predicate(e: Expr) -> ElementExpr:
            return lower(e, shape, self.c.scheduled, element)

        alternatives = mask_alternatives(clauses, bounded, shape, self.c.scheduled, predicate)
        return [*out, Mask(fragment, alternatives, identity, span, statement)]

    def _exponent(self, o: Exponent) -> Made:
        running = self.state(o)
        if not carried(o, self.c.stream):
            return self._settled(o, running)
        new, scale = (self._fragment(f"{o.name}.{part}", "row", 1, o.span) for part in ("new", "scale"))
        shift = self.shift(o)
        span, name = o.span, o.statement
        raised = Compute("max", (self._top(o, new), Element(running)))
        operations: list[Operation] = [
            *self._largest(o, new),
            Map(new, raised, span, name),
            Map(shift, _shifting(new), span, name),
            Map(scale, Compute("ex2", (Compute("sub", (Element(running), Element(shift))),)), span, name),
            Map(running, Element(new), span, name),
        ]
        return self._made(operations, running, new, scale, shift, o.source)

    def _settled(self, o: Exponent, exponent: str) -> Made:
        """An exponent that one tile gives: nothing is held relative to an older one."""
        top = self._top(o, exponent)
        if o.start is not None:
            top = Compute("max", (top, self._value(o.start)))
        operations = self._largest(o, exponent)
        if top != Element(exponent):
            operations.append(Map(exponent, top, o.span, o.statement))
        shift = self.shift(o)
        operations.append(Map(shift, _shifting(exponent), o.span, o.statement))
        return self._made(operations, exponent, shift, o.source)

    def _largest(self, o: Exponent, out: str) -> list[Operation]:
        """out (row) := the largest argument of this step, to be finished by `_top`."""
        source, span, name = self.fragment_of(o.source), o.span, o.statement
        if not o.tilts:
            return [RowFold(out, source, "max", "quad", span, name)]
        argument = self._transient(f"{o.name}.here", source, span)
        folded = Sweep(
            (
                Map(argument, self._inclined(o, source, Compute("mul", (self._slope(o), Past()))), span, name),
                RowFold(out, argument, "max", "thread", span, name),
            ),
            span,
            name,
        )
        whole = Compute("add", (Element(out), self._lead(o)))
        return [folded, Map(out, whole, span, name), QuadReduce(out, "max", span, name)]

    def _top(self, o: Exponent, largest: str) -> ElementExpr:
        factor = self._factor(o)
        if factor is None or o.tilts:
            return Element(largest)
        return Compute("mul", (Element(largest), factor))

    def _transient(self, name: str, source: str, span: Span) -> str:
        """A fragment that exists inside a sweep over `source` only."""
        cols = self.known[source].cols
        self.known.setdefault(name, Fragment(name, "acc", WARPGROUP_ROWS, cols, DType.F32, "", span))
        return name

    # ---- tilts: positions in an argument, as a number for each row and one for each column ----

    def _lead(self, o: Exponent | Weight) -> ElementExpr:
        """What the tilts add at the first column that a lane holds of each of its rows."""
        shape = self.shape(self.c.scheduled.op(o.source))
        total: ElementExpr | None = None
        for tilt in o.tilts:
            at = place(tilt.position, shape, self.c.scheduled)
            term = (self._value(tilt.slope), at)
            total = Compute("mul", term) if total is None else Compute("fma", (*term, total))
        assert total is not None
        return total

    def _slope(self, o: Exponent | Weight) -> ElementExpr:
        """What the tilts add for each column past the first."""
        total, *more = (self._value(tilt.slope) for tilt in o.tilts)
        for slope in more:
            total = Compute("add", (total, slope))
        return total

    def _inclined(self, o: Exponent | Weight, source: str, beside: ElementExpr) -> ElementExpr:
        """factor * source + beside."""
        factor = self._factor(o)
        if factor is None:
            return Compute("add", (Element(source), beside))
        return Compute("fma", (Element(source), factor, beside))

    def _weight(self, o: Weight) -> Made:
        name = self._declare(o)
        shift = f"{o.exponent}.shift"
        lead = self._shift_lead(o, shift)
        value = self._weighted(o, self.fragment_of(o.source), shift)
        return self._made([*lead, Map(name, value, o.span, o.statement)], name, o.source)

    def _shift_lead(self, o: Weight, shift: str) -> list[Operation]:
        """What the tilts add at each row's first column, less the exponent, for `_weighted` to read."""
        if not o.tilts:
            return []
        lead = self._fragment(f"{o.name}.lead", "row", 1, o.span)
        value = Compute("sub", (self._lead(o), Element(shift)))
        return [Map(lead, value, o.span, o.statement)]

    def _weighted(self, o: Weight, source: str, shift: str) -> ElementExpr:
        if o.tilts:
            beside = Compute("fma", (self._slope(o), Past(), Element(f"{o.name}.lead")))
            return Compute("ex2", (self._inclined(o, source, beside),))
        if o.factor is None:
            return Compute("ex2", (Compute("sub", (Element(source), Element(shift))),))
        return Compute("ex2", (self._inclined(o, source, Compute("neg", (Element(shift),))),))

    def voters(self) -> list[Operation]:
        """Sets which rows vote, those within the extents: nothing, where zeros stand in the others, which are calm."""
        s = self.c.scheduled
        axes = tuple(a for a in s.workers.axes if any(self._goes_on(g.move, a) for g in self.c.tiles.values()))
        if not axes:
            return []
        span = s.workers.span
        name = self._fragment(_VOTERS, "row", 1, span)
        rows = Shape(s.workers.axes, None, 1)
        return [Init(name, 1.0, span), *self.mask(name, (), axes, rows, 0.0, span, "")]

    def _goes_on(self, move: Move, axis: str) -> bool:
        """Whether a tile with these rows holds a tensor's entries past the axis' end: a neighbour's, of any value."""
        return axis in move.axes and not ends_with_tensor(move, self.c.scheduled.program, axis)

    def keep_exponent(self, group: ScaledSum, *, apart: bool) -> tuple[Made, ...]:
        """The step of a whole scaled sum against its old exponent, and the exact one for rows that outgrow it.

        The source stays as it is, so that the step can be done again. Only rows that need it change their
        exponent: the others compute the same bits twice.

        apart: the operand that the weights become, in registers, and what is held relative to the exponent are in
        flight. They are left to a second part, and the weights are packed into registers of their own until then.
        """
        e, weight = group.exponent, group.weight
        span, name = e.span, e.statement
        source = self.fragment_of(e.source)
        cols = self.known[source].cols
        running, shift = self.state(e), self.shift(e)
        new, scale, grown = (self._fragment(f"{e.name}.{part}", "row", 1, span) for part in ("new", "scale", "grown"))
        transient = self._transient(f"{weight.name}.here", source, span)
        parts = {o.name: self._fragment(f"{o.name}.part", "row", 1, o.span) for o in group.sums}
        body: list[RowFold | Relayout | ReadShared | WriteShared] = []
        body += [RowFold(parts[o.name], transient, "sum", "thread", o.span, o.statement) for o in group.sums]
        packed = [f"{o.name}.next" if apart else o.name for o in group.casts]
        if apart:
            body += [
                Relayout(self._like(x, o.name), transient, o.span, o.statement)
                for x, o in zip(packed, group.casts, strict=True)
            ]
        else:
            body += [self._make_operand(o, transient, cols) for o in group.casts]

        def step(against: str) -> list[Operation]:
            weights = Map(transient, self._weighted(weight, source, against), weight.span, weight.statement)
            return [*self._shift_lead(weight, against), Sweep((weights, *body), span, name)]

        states = [self.state(o) for o in group.sums]
        small = Compute("le", (Element(next(iter(parts.values()))), Literal(LIMIT)))
        raised = Compute("max", (self._top(e, new), Element(running)))
        exact: list[Operation] = [
            *self._largest(e, new),
            QuadReduce(grown, "max", span, name),
            Map(new, Compute("select", (Element(grown), raised, Element(running))), span, name),
            Map(shift, _shifting(new), span, name),
            Map(scale, Compute("ex2", (Compute("sub", (Element(running), Element(shift))),)), span, name),
            Map(running, Element(new), span, name),
            *step(shift),
        ]
        scaled = partial(Compute, "mul")
        exact += [Map(x, scaled((Element(x), Element(scale))), span, name) for x in states]
        accumulators = [o.source for o in group.rescales]
        rescaling = tuple(Map(x, scaled((Element(x), Element(scale))), span, name) for x in accumulators)
        vote: ElementExpr = Element(_VOTERS) if _VOTERS in self.known else Literal(1.0)
        # The sum of a row that has seen nothing, with an exponent of -inf, is infinite or no number, and so not small.
        deciding = (*step(running), Map(grown, Compute("select", (small, Literal(0.0), vote)), span, name))
        summing = [
            Map(x, Compute("add", (Element(x), Element(p))), span, name)
            for x, p in zip(states, parts.values(), strict=True)
        ]
        small_ones = (running, shift, new, scale, grown, *states, *parts.values())
        if not apart:
            exactly = IfVote(grown, (*exact, *rescaling), span, name)
            whole: list[Operation] = [*deciding, exactly, *self._to_engines(group.casts), *summing]
            return (self._made(whole, source, *small_ones, *packed, *accumulators),)
        first: list[Operation] = [
            Init(scale, 1.0, span, name),
            *deciding,
            IfVote(grown, tuple(exact), span, name),
        ]
        operands = [o.name for o in group.casts]
        taking = [CopyOperand(o.name, x, o.span, o.statement) for x, o in zip(packed, group.casts, strict=True)]
        second: list[Operation] = [*taking, IfVote(grown, rescaling, span, name), *summing]
        return (
            self._made(first, source, *small_ones, *packed),
            self._made(second, scale, grown, *states, *parts.values(), *packed, *operands, *accumulators),
        )

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
        return self._made(operations, state, part, o.source, partial=(o.name, o.kind))

    def _brought(self, o: Reduce, begun: ElementExpr) -> ElementExpr:
        """What a fold begins with, brought from the exponent that begins to the final one."""
        exponent = self.c.scheduled.op(o.exponent) if o.exponent else None
        if not isinstance(exponent, Exponent) or exponent.start is None:
            return begun
        moved = Compute("sub", (self._value(exponent.start), Element(self.shift(exponent))))
        return Compute("mul", (begun, Compute("ex2", (moved,))))

    def _elementwise(self, o: Elementwise) -> Made:
        shape = self.shape(o)
        before: list[Operation] = []
        tiles: list[str] = []
        touched: list[str] = []
        passing: list[ReadShared] = []  # tiles that never fill a fragment
        roundings: dict[object, ElementExpr] = {}  # that are one multiply-add, by what is rounded
        over = o.name in self.c.storage

        whole = filled(self.c.scheduled)

        def element(r: Read) -> ElementExpr:
            loaded = self._load(r, shape, before)
            if loaded is not None:
                if isinstance(loaded, Element):
                    touched.append(loaded.fragment)
                return loaded
            if r.name in self.c.tiles and over and r.name not in whole:
                return Element(self._pass_tile(r, passing, tiles))
            name = self._read_tile(r, before, tiles) if r.name in self.c.tiles else self.fragment_of(r.name)
            if name not in self.known:
                return Value(name)  # a uniform value
            touched.append(name)
            return Element(name)

        def rounding(e: Cast) -> ElementExpr | None:
            made = fused(e, whole)
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

    def _read_tile(self, r: Read, out: list[Operation], tiles: list[str]) -> str:
        """This warpgroup's rows of a tile, read once an iteration."""
        tile = r.name
        cols = self._own_columns(r)
        dtype = self.c.scheduled.program.tile.move(tile).dtype
        if tile in filled(self.c.scheduled):
            name = self._fragment(f"{tile}.regs", "pair", cols, r.span, dtype)
        else:
            name = self._fragment(f"{tile}.regs", "acc", cols, r.span)
        if tile not in self.tile_reads:
            self.tile_reads[tile] = name
            out.append(self._read_shared(name, r))
        if tile not in tiles:
            tiles.append(tile)
        return name

    def _pass_tile(self, r: Read, passing: list[ReadShared], tiles: list[str]) -> str:
        """The same in a sweep, beside an accumulator that fills the registers already."""
        name = f"{r.name}.here"
        cols = self._own_columns(r)
        self.known.setdefault(name, Fragment(name, "acc", WARPGROUP_ROWS, cols, DType.F32, "", r.span))
        if r.name not in tiles:
            tiles.append(r.name)
            passing.append(self._read_shared(name, r))
        return name

    def _own_columns(self, r: Read) -> int:
        """Columns of a tile whose rows are shared out to the consumers."""
        s, g = self.c.scheduled, self.c.tiles[r.name]
        held = self._rows_of(r.name)
        if held is None or (held != self._every_row() and len(held) != 1):
            fail(Code.TILE_ROWS, r.span, tile=r.name, rows=s.workers.names, **TERMS[s.target].fields())
        return g.cols

    def _rows_of(self, tile: str) -> tuple[RowAxis, ...] | None:
        """The axes of the rows along which a tile's rows lie; None if they lie along others, or there is one row."""
        parts = [row_part(d.axis, self.c.scheduled) for d in self.c.tiles[tile].row_dims]
        return tuple(p for p in parts if p) if parts and all(parts) else None

    def _every_row(self) -> tuple[RowAxis, ...]:
        return tuple(r for r in row_axes(self.c.scheduled) if r.block > 1)

    def _read_shared(self, fragment: str, r: Read) -> ReadShared:
        slot, held = Slot(r.name, f"{r.name}_read"), self._rows_of(r.name)
        assert held is not None
        if held == self._every_row():
            apart = self.c.rings[r.name].parts > 1
            return ReadShared(fragment, slot, 0 if apart else WARPGROUP_ROWS, r.span, r.name)
        (part,) = held  # of several axes that share the rows, one: read at its position of each row
        return ReadShared(fragment, slot, part.step, r.span, r.name, part.digit)
