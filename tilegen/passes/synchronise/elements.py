"""Element-wise expressions of the spec as the plan's element expressions."""

from __future__ import annotations

from collections.abc import Callable

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import Compute, Coordinate, ElementExpr, IntValue, Literal, Place, Value
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.tile import Affine, Apply, Cast, Expr, Number, Position, Read, Symbol
from tilegen.ir.uniform import Sym, from_poly
from tilegen.passes.expressions import LN2, LOG2E, positions, whole_affine
from tilegen.passes.synchronise.geometry import Shape, linear, position, row_origin
from tilegen.passes.synchronise.rows import row_part

_SAME = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "div_rn",
        "neg",
        "min",
        "max",
        "abs",
        "floor",
        "sqrt",
        "rsqrt",
        "tanh",
        "tanh_approx",
        "erf",
        "pow",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "and",
        "or",
        "not",
        "select",
        "ratio",
    ]
)


_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


def lower(
    expr: Expr,
    shape: Shape,
    scheduled: Scheduled,
    element: Callable[[Read], ElementExpr],
    rounding: Callable[[Cast], ElementExpr | None] = lambda _: None,
) -> ElementExpr:
    """`expr` over a value of this shape; `element` says how a read is spelled, `rounding` how a written rounding that
    is made otherwise than of its value is."""

    def walk(e: Expr, compared: bool = False) -> ElementExpr:
        """compared: a side of a comparison, which is made in whole numbers where its sides are."""
        if isinstance(e, Number):
            return Literal(e.value)
        if isinstance(e, Symbol):
            return IntValue(Sym(e.name)) if e.dtype is DType.I32 else Value(e.name)
        if isinstance(e, Position):
            return coordinate(e.axis, shape, scheduled)
        if isinstance(e, Read):
            return element(e)
        if isinstance(e, Cast):
            if not e.dtype.is_float:
                fail(Code.FUNCTION_UNSUPPORTED, e.span, function=str(e.dtype))
            if (made := rounding(e)) is not None:
                return made
            inner = walk(e.value)
            return inner if e.dtype is DType.F32 else Compute("round", (inner,), e.dtype)
        if isinstance(e, Apply):
            at = whole_affine(e) if shape.layout == "acc" and positions(e) and not compared else None
            if at is not None:
                return place(at, shape, scheduled)
            whole = e.op in _COMPARISONS or (compared and e.dtype is DType.I32)
            done = _operation(e, [walk(a, whole) for a in e.args])
            return _gathered(done) if shape.layout == "acc" else done
        raise AssertionError(f"a fold is left in an element-wise value at {e.span}")

    return walk(expr)


def _operation(e: Apply, args: list[ElementExpr]) -> ElementExpr:
    if e.op == "exp":
        return Compute("ex2", (Compute("mul", (args[0], Literal(LOG2E))),))
    if e.op == "exp2":
        return Compute("ex2", (args[0],))
    if e.op == "log":
        return Compute("mul", (Compute("lg2", (args[0],)), Literal(LN2)))
    if e.op == "log2":
        return Compute("lg2", (args[0],))
    if e.op == "sigmoid":
        grown = Compute("ex2", (Compute("mul", (args[0], Literal(-LOG2E))),))
        return Compute("rcp", (Compute("add", (grown, Literal(1.0))),))
    if e.op == "add":  # one rounding less, and said so in the text instead of left to the compiler
        for a, b in (args, args[::-1]):
            if isinstance(a, Compute) and a.op == "mul":
                return Compute("fma", (*a.args, b))
    if e.op in _SAME:
        return Compute(e.op, tuple(args))
    fail(Code.FUNCTION_UNSUPPORTED, e.span, function=e.op)


def _gathered(e: ElementExpr) -> ElementExpr:
    """A product whose uniform factors are multiplied together, ahead of the elements, and then once with the rest."""
    if not isinstance(e, Compute) or e.op not in ("mul", "div"):
        return e
    factors = _factors(e)
    uniform = [f for f in factors if _is_uniform(f[0])]
    rest = [f for f in factors if f not in uniform]
    if len(uniform) < 2 or all(divides for _, divides in rest):
        return e
    constant = 1.0
    total: ElementExpr | None = None
    for f, divides in sorted(uniform, key=lambda f: f[1]):
        if isinstance(f, Literal) and f.value != 0:
            constant = constant / f.value if divides else constant * f.value
        elif total is None:
            total = Compute("div", (Literal(1.0), f)) if divides else f
        else:
            total = Compute("div" if divides else "mul", (total, f))
    if total is None:
        total = Literal(constant)
    elif constant != 1:
        total = Compute("mul", (total, Literal(constant)))
    ordered = sorted(rest, key=lambda f: f[1])
    value = ordered[0][0]
    for f, divides in ordered[1:]:
        value = Compute("div" if divides else "mul", (value, f))
    return Compute("mul", (value, total))


def _factors(e: ElementExpr, divides: bool = False) -> list[tuple[ElementExpr, bool]]:
    """What is multiplied together, and whether it divides."""
    if isinstance(e, Compute) and e.op in ("mul", "div"):
        a, b = e.args
        return [*_factors(a, divides), *_factors(b, divides ^ (e.op == "div"))]
    return [(e, divides)]


def _is_uniform(e: ElementExpr) -> bool:
    return isinstance(e, Value | IntValue | Literal) or (isinstance(e, Compute) and all(map(_is_uniform, e.args)))


def coordinate(axis: str, shape: Shape, scheduled: Scheduled) -> ElementExpr:
    """The position along an axis, as a number, at each element of a value."""
    part = row_part(axis, scheduled)
    if part is not None and part.axis in shape.rows:
        return Coordinate("row", row_origin(axis, scheduled), part.digit)
    if axis == shape.cols:
        return Coordinate("col", position(axis, scheduled))
    return IntValue(position(axis, scheduled))


def place(at: Affine, shape: Shape, scheduled: Scheduled) -> Place:
    """A whole-number expression of positions, at each element of a value."""
    return Place(*linear(at.terms, from_poly(at.offset), shape, scheduled))
