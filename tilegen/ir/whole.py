"""Which expressions are whole numbers by their form, and which divisions are therefore rounded to nearest."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.dtypes import DType
from tilegen.ir.tile import Apply, Cast, Expr, Number

_KEEP = frozenset(("add", "sub", "mul", "neg", "abs", "min", "max"))
LARGEST_EXACT = 2.0**24  # f32 holds every whole number up to it


def is_whole(expr: Expr) -> bool:
    """Whether `expr` is a whole number wherever it is finite: an integer (a position, a size, an i32), a literal
    without a fraction, a floor, or sums, products, extremes and choices of those."""
    if expr.dtype is DType.I32:
        return True
    if isinstance(expr, Number):
        return float(expr.value).is_integer()
    if not isinstance(expr, Apply):
        return False
    if expr.op == "select":
        return all(map(is_whole, expr.args[1:]))
    return expr.op == "floor" or (expr.op in _KEEP and all(map(is_whole, expr.args)))


def rounded(expr: Expr) -> Expr:
    """`expr` as the argument of a function that jumps: its divisions, short of those inside folds, are rounded to
    nearest, so that a quotient that is exact does not fall on the wrong side of the jump."""
    if isinstance(expr, Cast):
        return replace(expr, value=rounded(expr.value))
    if not isinstance(expr, Apply):
        return expr
    return replace(expr, op="div_rn" if expr.op == "div" else expr.op, args=tuple(map(rounded, expr.args)))
