"""Scaled sums: their exponents, exact or kept, and the weights relative to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from tilegen.ir.folded import (
    Exponent,
    Reduce,
    Weight,
)
from tilegen.ir.plan import (
    Compute,
    CopyOperand,
    Element,
    ElementExpr,
    IfVote,
    Init,
    LetFloat,
    Literal,
    Map,
    Operation,
    Past,
    QuadReduce,
    ReadShared,
    Relayout,
    RowFold,
    Sweep,
    Value,
    WriteShared,
)
from tilegen.ir.tile import Move
from tilegen.passes.isolate import ends_with_tensor
from tilegen.passes.stale import LIMIT, ScaledSum
from tilegen.passes.synchronise.context import carried
from tilegen.passes.synchronise.elements import lower, place
from tilegen.passes.synchronise.fragments import Made
from tilegen.passes.synchronise.geometry import (
    Shape,
)
from tilegen.passes.synchronise.reads import Reads

_VOTERS = "rows.voting"
_UNIFORM = Shape((), None, 1)


def _shifting(exponent: str) -> ElementExpr:
    """What is subtracted: a row that has seen no live point yet keeps -inf as its exponent, and shifts by 0."""
    none_yet = Compute("eq", (Element(exponent), Literal(float("-inf"))))
    return Compute("select", (none_yet, Literal(0.0), Element(exponent)))


@dataclass
class ScaledSums(Reads):
    """Reads, and the exponents that sums are held relative to."""

    factors: dict[str, Operation] = field(default_factory=dict)
    moving: frozenset[str] = frozenset()  # exponents that the phase at hand computes; the others are final

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

    def shift(self, o: Exponent) -> str:
        """What is subtracted from an argument: the exponent, or 0 for a row that has none yet."""
        return self._fragment(f"{o.name}.shift", "row", 1, o.span)

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
        """Sets which rows vote, those of the domain: nothing, where zeros stand in the others, which are calm."""
        s = self.c.scheduled
        axes = tuple(a for a in s.workers.axes if any(self._goes_on(g.move, a) for g in self.c.tiles.values()))
        item = {*s.workers.axes, *(r.axis for r in s.roles if r.role == "grid")}
        clauses = tuple(c for c in s.program.tile.domain if {*c.axes} & {*s.workers.axes} and {*c.axes} <= item)
        if not axes and not clauses:
            return []
        span = s.workers.span
        name = self._fragment(_VOTERS, "row", 1, span)
        rows = Shape(s.workers.axes, None, 1)
        return [Init(name, 1.0, span), *self.mask(name, clauses, axes, rows, 0.0, span, "")]

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
        self.partials |= {o.name: o.kind for o in group.sums}
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

    def _brought(self, o: Reduce, begun: ElementExpr) -> ElementExpr:
        """What a fold begins with, brought from the exponent that begins to the final one."""
        exponent = self.c.scheduled.op(o.exponent) if o.exponent else None
        if not isinstance(exponent, Exponent) or exponent.start is None:
            return begun
        moved = Compute("sub", (self._value(exponent.start), Element(self.shift(exponent))))
        return Compute("mul", (begun, Compute("ex2", (moved,))))
