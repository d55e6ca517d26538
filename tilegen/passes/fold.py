"""Turn equations into folds: sugar removed, scaled sums shared, factors pulled out, products recognised.

Online softmax is what comes out of three general rules:
- `softmax`, `logsumexp` and `expsum` over the same exponents and axes share one Exponent and one Weight;
- a factor that is free of the reduced axes leaves a linear fold: sum((w / z) * v) = sum(w * v) / z, also through
  a written cast (the rounding rule allows one unit of the cast's type);
- exp becomes exp2, log2(e) and every uniform factor known to be positive being folded into one multiplier.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import DType
from tilegen.ir.folded import (
    Elementwise,
    Exponent,
    FoldedOp,
    FoldedProgram,
    Output,
    Product,
    Reduce,
    Rescale,
    Tilt,
    Weight,
)
from tilegen.ir.poly import Poly
from tilegen.ir.reach import AxisTree
from tilegen.ir.tile import Affine, Apply, Cast, Definition, Expr, Fold, Lookup, Number, Position, Read, TileProgram
from tilegen.ir.walk import parts, subexpressions
from tilegen.passes.expressions import (
    LN2,
    LOG2E,
    addends,
    apply,
    identity_index,
    index_axes,
    key,
    number,
    poly_expr,
    positive,
    product,
    reads,
    rebuild,
    simplify,
    times,
    whole_affine,
)
from tilegen.passes.guard import clauses_of, with_parts
from tilegen.syntax.span import Span


def fold(program: TileProgram) -> FoldedProgram:
    """The program as folds. Raises TilegenError for what no later stage can do, by name."""
    return _Folder(program).run()


@dataclass
class _Folder:
    program: TileProgram
    ops: list[FoldedOp] = field(default_factory=list)
    inlined: dict[str, Expr] = field(default_factory=dict)  # definition -> its value without folds
    shared: dict[object, str] = field(default_factory=dict)  # structural key -> the op that computes it
    names: set[str] = field(default_factory=set)

    def run(self) -> FoldedProgram:
        p = self.program
        self.names |= {m.name for m in p.moves} | {t.name for t in p.tensors} | {a.name for a in p.axes}
        self.names |= {s.name for s in p.sizes} | {s.name for s in p.scalars}
        for definition in p.definitions:
            value = simplify(self.lower(definition.value, definition.name))
            if definition.output:
                self.output(definition, value)
            else:
                self.inlined[definition.name] = value
        return FoldedProgram(p, tuple(self.ops))

    def output(self, definition: Definition, value: Expr) -> None:
        source = self.value(value, f"{definition.name}_out", definition.name, definition.index)
        name = self.fresh(f"{definition.name}_store")
        axes, span = definition.index, definition.span
        self.ops.append(Output(name, definition.name, source, axes, identity_index(axes, span), span, definition.name))

    # ---- names and axes ----

    def fresh(self, wanted: str) -> str:
        name, n = wanted, 2
        while name in self.names:
            name, n = f"{wanted}{n}", n + 1
        self.names.add(name)
        return name

    def op(self, name: str) -> FoldedOp | None:
        return next((o for o in self.ops if o.name == name), None)

    def axes(self, expr: Expr) -> tuple[str, ...]:
        """Axes over which an expression without folds varies, in order of appearance."""
        found: list[str] = []

        def visit(e: Expr) -> None:
            if isinstance(e, Read):
                op = self.op(e.name)
                move = next((m for m in self.program.moves if m.name == e.name), None)
                reach = op.axes if op else move.axes if move else index_axes(e)
                found.extend(a for a in reach if a not in found)
            elif isinstance(e, Position) and e.axis not in found:
                found.append(e.axis)
            for child in parts(e):
                visit(child)

        visit(expr)
        return tuple(found)

    def read(self, name: str, span: Span) -> Read:
        op = self.op(name)
        assert op is not None
        dtype = op.dtype if isinstance(op, Elementwise) else DType.F32
        return Read(name, identity_index(op.axes, span), dtype, span)

    def value(self, expr: Expr, wanted: str, statement: str, axes: tuple[str, ...] | None = None) -> str:
        """The name of an operation that computes `expr`: an existing one if there is one."""
        if isinstance(expr, Read) and self.op(expr.name):
            return expr.name
        known = ("value", key(expr))
        if known not in self.shared:
            name = self.fresh(wanted)
            reach = axes if axes is not None else self.axes(expr)
            self.ops.append(Elementwise(name, expr, reach, expr.dtype, expr.span, statement))
            self.shared[known] = name
        return self.shared[known]

    # ---- expressions ----

    def lower(self, expr: Expr, statement: str) -> Expr:
        """`expr` with definitions inlined and every fold replaced by a read of its operation."""
        if isinstance(expr, Read):
            return self.inline(expr)
        expr = rebuild(expr, lambda c: self.lower(c, statement))
        if not isinstance(expr, Fold):
            return self.without_common_exponent(expr)
        for axis in self.program.axes:
            if axis.split and {axis.split.outer, axis.split.inner} & set(expr.axes):
                fail(Code.FOLD_OVER_PART, expr.span, axes=", ".join(expr.axes), whole=axis.name)
        args = tuple(simplify(a) for a in expr.args)
        if expr.kind == "sum":
            return self.sum(args[0], expr.axes, statement, expr.span)
        if expr.kind in ("max", "min"):
            source = self.value(args[0], f"{statement}_terms", statement)
            return self.reduce(source, expr.kind, expr.axes, None, statement, expr.span)
        extra = tuple(simplify(e) for e in expr.extra)
        weight, exponent = self.scaled(args[0], extra, expr.axes, statement, expr.span)
        if expr.kind == "expsum":
            total = self.sum(apply("mul", weight, args[1]), expr.axes, statement, expr.span)
            return apply("mul", total, apply("exp2", exponent))
        if extra:
            start = self.begun(extra, exponent, statement, expr.span)
            total = self.reduce(weight.name, "sum", expr.axes, exponent.name, statement, expr.span, start)
        else:
            total = self.sum(weight, expr.axes, statement, expr.span)
        if expr.kind == "softmax":
            return apply("ratio", weight, total)
        return apply("mul", apply("add", exponent, apply("log2", total)), number(LN2, expr.span))

    def without_common_exponent(self, expr: Expr) -> Expr:
        """(a * 2**m) / (b * 2**m) as a / b: a quotient of scaled sums needs no power that could overflow."""
        if not (isinstance(expr, Apply) and expr.op == "div"):
            return expr
        scaled = [_scaled_parts(a) for a in expr.args]
        if None in scaled or scaled[0][1] != scaled[1][1]:  # type: ignore[index]
            return expr
        return replace(expr, args=tuple(part[0] for part in scaled if part))

    def inline(self, read: Read) -> Expr:
        if any(isinstance(entry, Lookup) for entry in read.index):
            fail(Code.LOOKUP_UNSUPPORTED, read.span, name=read.name)
        definition = next((d for d in self.program.definitions if d.name == read.name), None)
        named = definition or next((m for m in self.program.moves if m.name == read.name), None)
        if named is not None:
            for entry, axis in zip(read.index, named.index, strict=True):
                if not isinstance(entry, Affine) or entry.axis != axis:
                    fail(Code.RENAMED_READ, read.span, name=read.name, axes=", ".join(named.index))
        if definition is None:
            return read
        if definition.output:
            fail(Code.READ_OF_OUTPUT, read.span, name=read.name)
        return self.inlined[read.name]

    def reduce(
        self,
        source: str,
        kind: str,
        over: tuple[str, ...],
        exponent: str | None,
        statement: str,
        span: Span,
        start: str | None = None,
    ) -> Read:
        known = ("reduce", source, kind, over, start)
        if known not in self.shared:
            op = self.op(source)
            assert op is not None
            if not set(over) <= set(op.axes):
                fail(Code.FOLD_OF_CONSTANT, span, axes=", ".join(a for a in over if a not in op.axes))
            axes = tuple(a for a in op.axes if a not in over)
            name = self.fresh(f"{statement}_{kind}")
            self.ops.append(Reduce(name, source, kind, over, axes, exponent, span, statement, start))
            self.shared[known] = name
        return self.read(self.shared[known], span)

    # ---- sums ----

    def factors(self, expr: Expr, over: tuple[str, ...]) -> tuple[list[Expr], list[tuple[str, Expr]]]:
        """(factors that stay in the fold, factors free of `over` as (mul | div | ratio, factor)) of a linear body."""
        if not set(self.axes(expr)) & set(over):
            return [], [("mul", expr)]
        if isinstance(expr, Apply) and expr.op == "mul":
            bound_a, free_a = self.factors(expr.args[0], over)
            bound_b, free_b = self.factors(expr.args[1], over)
            return bound_a + bound_b, free_a + free_b
        if isinstance(expr, Apply) and expr.op in ("div", "ratio") and not set(self.axes(expr.args[1])) & set(over):
            bound, free = self.factors(expr.args[0], over)
            return bound, [*free, (expr.op, expr.args[1])]
        if isinstance(expr, Apply) and expr.op == "neg":
            bound, free = self.factors(expr.args[0], over)
            return bound, [*free, ("mul", number(-1.0, expr.span))]
        if isinstance(expr, Cast):
            bound, free = self.factors(expr.value, over)
            # only a weight is sure to stay in the range of the cast's type without its factors: it is at most 1
            if free and len(bound) == 1 and self.weight_of(bound[0]) is not None:
                return [replace(expr, value=bound[0])], free
        return [expr], []

    def weight_of(self, expr: Expr) -> Weight | None:
        op = self.op(expr.name) if isinstance(expr, Read) else None
        return op if isinstance(op, Weight) else None

    def sum(self, body: Expr, over: tuple[str, ...], statement: str, span: Span) -> Expr:
        bound, free = self.factors(body, over)
        if not bound:
            fail(Code.FOLD_OF_CONSTANT, span, axes=", ".join(over))
        # an empty fold is 0 whatever stands beside it, and infinities of both signs add up to no number: only what
        # spoils neither leaves it
        empty = not self.never_empty(over)
        kept = [f for f in free if _infinite(f[1]) or (empty and f[0] != "ratio" and self.axes(f[1]))]
        free = [f for f in free if f not in kept]
        tiles = len(bound) == 2 and all(self.is_tile_factor(f, over) for f in bound) and self.is_outer(*bound)
        some = None
        if tiles and kept and not any(_infinite(f) for _, f in kept):
            # tensor cores multiply two factors: the others leave, and a sum of no points is made 0 behind them
            some = self.some_points(bound, over, statement, span)
        if some is None:
            for kind, f in kept:
                bound = [apply(kind, bound[0], f), *bound[1:]] if kind != "mul" else [*bound, f]
            tiles = tiles and not kept
        exponent = self.exponent_of(bound, over)
        if tiles:
            total: Expr = self.matrix_product(bound[0], bound[1], over, exponent, statement, span)
        else:
            source = self.value(product(bound, span), f"{statement}_terms", statement)
            total = self.reduce(source, "sum", over, exponent, statement, span)
        if some is not None:
            for kind, f in kept:
                total = apply(kind, total, f)
            total = apply("select", some, total, number(0.0, span))
        uniform = [f for kind, f in free if kind == "mul"]
        if uniform:
            total = product([total, *uniform], span)
        for kind, f in free:
            if kind != "mul":
                total = apply(kind, total, f)
        return simplify(total)

    def never_empty(self, over: tuple[str, ...]) -> bool:
        """Whether a fold over these axes has a point wherever it stands: extents known and positive, no clause."""
        extents = [self.program.axis(a).extent.constant for a in over]
        return all(e is not None and e > 0 for e in extents) and not any(
            set(c.axes) & with_parts(self.program, over) for c in self.program.domain
        )

    def some_points(self, factors: list[Expr], over: tuple[str, ...], statement: str, span: Span) -> Expr | None:
        """Whether a product's sum has a point where it stands: by its extents, or, where clauses cut it, by a fold
        along the computed factor that they guard. None if no factor has the axes of them all."""
        axes = tuple(dict.fromkeys(a for f in factors for a in self.axes(f)))
        clauses = clauses_of(self.program, axes, over)
        if not clauses:
            zero = Number(0.0, DType.I32, span)
            extents = [self.program.axis(a).extent for a in over]
            tests = [
                Apply("gt", (poly_expr(e, span), zero), DType.BOOL, span) for e in extents if (e.constant or 0) <= 0
            ]
            return functools.reduce(lambda a, b: Apply("and", (a, b), DType.BOOL, span), tests)
        computed = (self.axes(f) for f in factors if isinstance(f, Cast))
        guarded = next((a for a in computed if clauses_of(self.program, a, over) == clauses), None)
        if guarded is None:
            return None
        known = ("points", guarded)
        if known not in self.shared:
            name = self.fresh(f"{statement}_points")
            self.ops.append(Elementwise(name, number(1.0, span), guarded, DType.F32, span, statement))
            self.shared[known] = name
        most = self.reduce(self.shared[known], "max", over, None, statement, span)
        return Apply("gt", (most, number(0.0, span)), DType.BOOL, span)

    def exponent_of(self, factors: list[Expr], over: tuple[str, ...]) -> str | None:
        """The exponent that a fold is held relative to: its body is linear in one weight over the same axes."""
        weights = [w for f in factors for w in self.weights(f)]
        if len(weights) != 1:
            return None
        (weight,) = weights
        plain = [f.value if isinstance(f, Cast) else f for f in factors]
        exponent = self.op(weight.exponent)
        assert isinstance(exponent, Exponent)
        linear = any(isinstance(f, Read) and f.name == weight.name for f in plain)
        return weight.exponent if linear and exponent.over == over else None

    def weights(self, expr: Expr) -> list[Weight]:
        """Weights that an expression reads, also through other values."""
        found: list[Weight] = []
        for r in reads(expr):
            op = self.op(r.name)
            if isinstance(op, Weight):
                found.append(op)
            elif isinstance(op, Elementwise):
                found += self.weights(op.value)
        return found

    def is_tile_factor(self, expr: Expr, over: tuple[str, ...]) -> bool:
        """A factor of a tensor-core product: 16-bit by what is written, varying along every reduced axis."""
        if not set(over) <= set(self.axes(expr)) or expr.dtype not in (DType.BF16, DType.F16):
            return False
        return isinstance(expr, Cast) or (
            isinstance(expr, Read) and any(m.name == expr.name for m in self.program.moves)
        )

    def is_outer(self, a: Expr, b: Expr) -> bool:
        """Whether each factor has an axis that the other lacks (x * x is no product)."""
        tree = AxisTree(self.program.axes)
        left, right = ({atom for axis in self.axes(f) for atom in tree.atoms(axis)} for f in (a, b))
        return bool(left - right and right - left)

    def matrix_product(
        self, a: Expr, b: Expr, over: tuple[str, ...], exponent: str | None, statement: str, span: Span
    ) -> Read:
        names: list[str] = []
        for f in (a, b):
            if isinstance(f, Read):
                names.append(f.name)
            else:
                assert isinstance(f, Cast)
                inner = f.value.name if isinstance(f.value, Read) else statement
                names.append(self.value(f, f"{inner}_{f.dtype}", statement))
        known = ("product", *names, over)
        if known not in self.shared:
            axes = tuple(x for x in dict.fromkeys(self.axes(a) + self.axes(b)) if x not in over)
            name = self.fresh(
                statement if statement not in {t.name for t in self.program.tensors} else f"{statement}_acc"
            )
            op = Product(name, names[0], names[1], over, axes, a.dtype, exponent, span, statement)
            if exponent is not None:
                rescaled = self.fresh(f"{name}_rescaled")
                self.ops.append(Rescale(rescaled, name, exponent, axes, span, statement))
            self.ops.append(op)
            self.shared[known] = name
        return self.read(self.shared[known], span)

    # ---- scaled sums ----

    def scaled(
        self, x: Expr, extra: tuple[Expr, ...], over: tuple[str, ...], statement: str, span: Span
    ) -> tuple[Read, Read]:
        """(weight, exponent) of the exponents x along `over` and of the `extra` ones, shared by every fold over the
        same. The exponent begins with the largest of those that are there once."""
        known = ("scaled", key(x), key(extra), over)
        if known not in self.shared:
            y, factor = self.multiplied(x, number(LOG2E, span))
            rest, slopes = self.tilted(y, over)
            tilts: list[Tilt] = []
            if slopes:
                for slope, position in slopes:
                    scaled = simplify(product([slope, factor], span))
                    tilts.append(Tilt(self.value(scaled, f"{statement}_slope", statement), position))
                y, factor = self.multiplied(rest, factor)
            source = self.value(y, f"{statement}_argument", statement)
            start = self.value(_largest(extra, span), f"{statement}_start", statement) if extra else None
            op = self.op(source)
            assert op is not None
            if not set(over) <= set(op.axes):
                fail(Code.FOLD_OF_CONSTANT, span, axes=", ".join(over))
            more = [a for e in extra for a in self.axes(e) if a not in op.axes]
            if more:  # what varies only by an extra term is weighed apart for each
                source = self.fresh(f"{source}_each")
                reach = (*op.axes, *dict.fromkeys(more))
                op = Elementwise(source, self.read(op.name, span), reach, DType.F32, span, statement)
                self.ops.append(op)
            rows = tuple(a for a in op.axes if a not in over)
            exponent = self.fresh(f"{statement}_max")
            inclined = tuple(tilts)
            self.ops.append(Exponent(exponent, source, factor, over, rows, span, statement, start, inclined))
            weight = self.fresh(statement if not self.is_output(statement) else f"{statement}_weight")
            self.ops.append(Weight(weight, source, factor, exponent, op.axes, span, statement, inclined))
            self.shared[known] = weight
        weight_op = self.op(self.shared[known])
        assert isinstance(weight_op, Weight)
        return self.read(weight_op.name, span), self.read(weight_op.exponent, span)

    def multiplied(self, x: Expr, factor: Expr) -> tuple[Expr, Expr]:
        """x * factor as (y, multiplier): the uniform factors of x that are known to be positive join the multiplier."""
        bound, free = self.factors(x, self.axes(x))
        if not bound:
            return x, factor
        joining = [(kind, f) for kind, f in free if kind in ("mul", "div") and positive(f, self.program)]
        staying = [f for f in free if f not in joining]
        y = product([*bound, *(f for kind, f in staying if kind == "mul")], x.span)
        for kind, f in staying:
            if kind != "mul":
                y = apply(kind, y, f)
        divisors = [f for kind, f in joining if kind == "div"]
        constant = number(1 / math.prod(f.value for f in divisors if isinstance(f, Number)), x.span)
        multiplier = product([*(f for kind, f in joining if kind == "mul"), factor, constant], x.span)
        for f in divisors:
            if not isinstance(f, Number):
                multiplier = apply("div", multiplier, f)
        return simplify(y), simplify(multiplier)

    def tilted(self, x: Expr, over: tuple[str, ...]) -> tuple[Expr, list[tuple[Expr, Affine]]]:
        """A sum as (the rest, [(slope, position), …]): terms that are positions along `over`, times what does not vary
        along it, leave it. Inside a block each is a number a row and one, known at build time, a column."""
        rest: list[Expr] = []
        found: list[tuple[Expr, Affine]] = []
        for term in addends(x):
            tilt = self.tilt(term, over)
            if tilt is None:
                rest.append(term)
            else:
                found.append(tilt)
        if not rest:
            return x, []
        total = rest[0]
        for term in rest[1:]:
            total = apply("add", total, term)
        return (simplify(total), found) if set(self.axes(total)) == set(self.axes(x)) else (x, [])

    def tilt(self, term: Expr, over: tuple[str, ...]) -> tuple[Expr, Affine] | None:
        bound, free = self.factors(term, over)
        if len(bound) != 1 or any(kind != "mul" for kind, _ in free):
            return None
        position = whole_affine(bound[0])
        along = [c for axis, c in position.terms if axis in over] if position else []
        if position is None or along not in ([1], [-1]):
            return None
        slope = product([*(f for _, f in free), number(along[0], term.span)], term.span)
        return slope, times(position, Poly.const(along[0]))

    def begun(self, extra: tuple[Expr, ...], exponent: Read, statement: str, span: Span) -> str:
        """The name of what the extra terms of a scaled sum add up to, relative to the exponent that it begins with."""
        op = self.op(exponent.name)
        assert isinstance(op, Exponent)
        assert op.start is not None
        top = self.read(op.start, span)
        none = apply("eq", top, number(-math.inf, span))
        shift = apply("select", none, number(0.0, span), top)
        terms = [apply("exp2", apply("sub", _in_powers_of_two(e), shift)) for e in extra]
        total = terms[0]
        for term in terms[1:]:
            total = apply("add", total, term)
        return self.value(total, f"{statement}_begun", statement)

    def is_output(self, name: str) -> bool:
        return any(t.name == name for t in self.program.tensors)


def _in_powers_of_two(exponent: Expr) -> Expr:
    return simplify(apply("mul", exponent, number(LOG2E, exponent.span)))


def _largest(exponents: tuple[Expr, ...], span: Span) -> Expr:
    """Their maximum, in powers of two."""
    top = _in_powers_of_two(exponents[0])
    for e in exponents[1:]:
        top = apply("max", top, _in_powers_of_two(e))
    return top


def _scaled_parts(expr: Expr) -> tuple[Expr, object] | None:
    """(a, key of m) of a * exp2(m), None for anything else."""
    if isinstance(expr, Apply) and expr.op == "mul":
        a, power = expr.args
        if isinstance(power, Apply) and power.op == "exp2" and isinstance(power.args[0], Read):
            return a, key(power.args[0])
    return None


def _infinite(expr: Expr) -> bool:
    """Whether the spec writes an infinity there."""
    return any(isinstance(e, Number) and math.isinf(e.value) for e in subexpressions(expr))
