"""Helpers over expressions of the Tile program: axes reached, structural keys, factors, positivity."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial, reduce

from tilegen.ir.dtypes import DType
from tilegen.ir.poly import Poly
from tilegen.ir.reach import index_axes as axes_of_index
from tilegen.ir.tile import Affine, Apply, Cast, Expr, Fold, Number, Position, Read, Symbol, TileProgram
from tilegen.ir.walk import subexpressions
from tilegen.syntax.span import Span

LOG2E = 1.4426950408889634  # log2(e)
LN2 = 0.6931471805599453


def number(value: float, span: Span) -> Number:
    return Number(value, DType.F32, span)


def apply(op: str, *args: Expr) -> Apply:
    return Apply(op, args, DType.F32, args[0].span)


def rebuild(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """`expr` with `change` applied to each child."""
    if isinstance(expr, Apply):
        return replace(expr, args=tuple(change(a) for a in expr.args))
    if isinstance(expr, Cast):
        return replace(expr, value=change(expr.value))
    if isinstance(expr, Fold):
        return replace(expr, args=tuple(map(change, expr.args)), extra=tuple(map(change, expr.extra)))
    return expr


def reads(expr: Expr) -> tuple[Read, ...]:
    """Every Read in it, in order of appearance."""
    return tuple(e for e in subexpressions(expr) if isinstance(e, Read))


def positions(expr: Expr) -> frozenset[str]:
    """Axes whose position it uses as a number."""
    return frozenset(e.axis for e in subexpressions(expr) if isinstance(e, Position))


def index_axes(read: Read) -> tuple[str, ...]:
    """Axes that the index of a read mentions, each once."""
    return tuple(dict.fromkeys(axis for entry in read.index for axis in axes_of_index(entry)))


def key(node: object) -> object:
    """A hashable value that two expressions share iff they are equal apart from their spans."""
    if is_dataclass(node) and not isinstance(node, type):
        return (type(node).__name__, *(key(getattr(node, f.name)) for f in fields(node) if f.name != "span"))
    if isinstance(node, tuple):
        return tuple(key(n) for n in node)
    return node


def identity_index(axes: tuple[str, ...], span: Span) -> tuple[Affine, ...]:
    return tuple(Affine(((axis, 1),), Poly(), span) for axis in axes)


def whole_affine(expr: Expr) -> Affine | None:
    """A whole-number expression that is linear in positions, with factors known at build time; None for others."""
    if expr.dtype is not DType.I32:
        return None
    if isinstance(expr, Number):
        return Affine((), Poly.const(int(expr.value)), expr.span)
    if isinstance(expr, Symbol):
        return Affine((), Poly.symbol(expr.name), expr.span)
    if isinstance(expr, Position):
        return Affine(((expr.axis, 1),), Poly(), expr.span)
    if not isinstance(expr, Apply) or expr.op not in ("add", "sub", "mul", "neg"):
        return None
    args = [whole_affine(a) for a in expr.args]
    if any(a is None for a in args):
        return None
    a, *rest = (a for a in args if a is not None)
    if expr.op == "neg":
        return times(a, Poly.const(-1))
    (b,) = rest
    if expr.op != "mul":
        b = b if expr.op == "add" else times(b, Poly.const(-1))
        terms = dict(a.terms)
        for axis, coefficient in b.terms:
            terms[axis] = terms.get(axis, 0) + coefficient
        return Affine(tuple((x, c) for x, c in terms.items() if c), a.offset + b.offset, expr.span)
    if a.terms:
        a, b = b, a
    constant = a.offset.constant
    if a.terms or (b.terms and constant is None):
        return None
    return times(b, a.offset)


def poly_expr(poly: Poly, span: Span) -> Expr:
    """A polynomial in sizes and integer scalars as a whole-number expression."""

    def whole(op: str, a: Expr, b: Expr) -> Expr:
        return Apply(op, (a, b), DType.I32, span)

    terms: list[Expr] = []
    for monomial, coefficient in poly.terms:
        factors: list[Expr] = [Symbol(s, DType.I32, span) for s in monomial]
        if coefficient != 1 or not factors:
            factors.append(Number(coefficient, DType.I32, span))
        terms.append(reduce(partial(whole, "mul"), factors))
    return reduce(partial(whole, "add"), terms) if terms else Number(0, DType.I32, span)


def times(affine: Affine, factor: Poly) -> Affine:
    """Their product; the factor is a constant, unless the expression has no axes."""
    by = factor.constant or 0
    terms = tuple((axis, c * by) for axis, c in affine.terms if by)
    return Affine(terms, affine.offset * factor, affine.span)


def addends(expr: Expr) -> list[Expr]:
    """What is added up, subtracted terms negated; a whole number stays whole, as its parts may be large."""
    if expr.dtype is DType.I32:
        return [expr]
    if isinstance(expr, Apply) and expr.op == "add":
        return [*addends(expr.args[0]), *addends(expr.args[1])]
    if isinstance(expr, Apply) and expr.op == "sub":
        return [*addends(expr.args[0]), *(apply("neg", t) for t in addends(expr.args[1]))]
    return [expr]


def positive(expr: Expr, program: TileProgram) -> bool:
    """Whether it is known to be > 0 at every launch: by its value, or by a constraint that is checked there."""
    if isinstance(expr, Number):
        return expr.value > 0
    if isinstance(expr, Symbol):
        scalar = next((s for s in program.scalars if s.name == expr.name), None)
        if scalar is None or scalar.constraint is None:
            return False
        return (scalar.constraint.op == ">" and scalar.constraint.bound >= 0) or (
            scalar.constraint.op == ">=" and scalar.constraint.bound > 0
        )
    if isinstance(expr, Apply) and expr.op in ("mul", "div", "div_rn", "sqrt", "rsqrt"):
        return all(positive(a, program) for a in expr.args)
    return False


_CONSTANT: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "exp": math.exp,
}


def simplify(expr: Expr) -> Expr:
    """Constants folded (in float64) and multiplications by 1 dropped, bottom up."""
    expr = rebuild(expr, simplify)
    if not isinstance(expr, Apply):
        return expr
    values = [a.value for a in expr.args if isinstance(a, Number)]
    if len(values) == len(expr.args):
        if expr.op in _CONSTANT:
            return Number(_CONSTANT[expr.op](*values), expr.dtype, expr.span)
        if expr.op in ("div", "div_rn") and values[1] != 0:
            return Number(values[0] / values[1], expr.dtype, expr.span)
    if expr.op == "mul":
        a, b = expr.args
        if isinstance(a, Number) and a.value == 1:
            return b
        if isinstance(b, Number) and b.value == 1:
            return a
    if expr.op in ("div", "div_rn") and isinstance(expr.args[1], Number) and expr.args[1].value == 1:
        return expr.args[0]
    return expr


def product(factors: list[Expr], span: Span) -> Expr:
    """Their product, numbers multiplied together first."""
    constant = math.prod(f.value for f in factors if isinstance(f, Number))
    rest = [f for f in factors if not isinstance(f, Number)]
    if not rest:
        return number(constant, span)
    total = rest[0]
    for f in rest[1:]:
        total = apply("mul", total, f)
    return total if constant == 1 else apply("mul", total, number(constant, span))
