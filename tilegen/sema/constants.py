"""Values of expressions that are known when a kernel is built: over parameters and numbers alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import DType
from tilegen.ir.tile import ParamValue
from tilegen.syntax import ast

DTYPE_NAMES: Mapping[str, DType] = {d.value: d for d in DType}

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}

_BEYOND = 2**128  # no number of f32 is as large


def _power(base: float, exponent: float) -> float:
    """Raises OverflowError for a whole number that is too large (before working it out), ValueError for a complex."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and exponent >= 128:
        raise OverflowError
    value = base**exponent
    if isinstance(value, complex):
        raise ValueError
    return float(value) if isinstance(value, float) else int(value)


_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1.0 / math.sqrt(x),
    "tanh": math.tanh,
    "tanh_approx": math.tanh,
    "erf": math.erf,
    "abs": abs,
    "floor": math.floor,
    "min": min,
    "max": max,
    "pow": _power,
    "sigmoid": lambda x: 1.0 / (1.0 + math.exp(-x)),
}


def constant(expr: ast.Expr, params: Mapping[str, ParamValue]) -> ParamValue | None:
    """The value of `expr`, or None if it depends on more than parameters.

    Raises TilegenError where it has no value (`1 / 0`, `sqrt(-1)`, `causal + 1`), or none that any type holds.
    """
    value = _value(expr, params)
    if isinstance(value, int) and abs(value) >= _BEYOND:
        fail(Code.BAD_CONSTANT, expr.span, why="it is larger than every number of f32")
    return value


def _value(expr: ast.Expr, params: Mapping[str, ParamValue]) -> ParamValue | None:
    match expr:
        case ast.Num(number):
            return number
        case ast.Var(name):
            return _name(name, params)
        case ast.Unary(op, operand):
            value = constant(operand, params)
            if value is None:
                return None
            return not _bool(operand, value) if op == "not" else -_number(operand, value)
        case ast.Binary(op, left, right):
            return _binary(expr, op, left, right, params)
        case ast.Compare(operands, ops):
            values = [constant(o, params) for o in operands]
            known = [v for v in values if v is not None]
            if len(known) < len(values):
                return None
            return all(_compare(expr, op, a, b) for op, a, b in zip(ops, known[:-1], known[1:], strict=True))
        case ast.Call(function, args) if function.name in _FUNCTIONS:
            given = [constant(a, params) for a in args]
            numbers = [_number(a, v) for a, v in zip(args, given, strict=True) if v is not None]
            if len(numbers) < len(given):
                return None
            try:
                return _FUNCTIONS[function.name](*numbers)
            except (ValueError, OverflowError, ZeroDivisionError, TypeError):
                fail(Code.BAD_CONSTANT, expr.span, why=f"`{function.name}` has no value there")
        case _:
            return None


def truth(expr: ast.Expr, params: Mapping[str, ParamValue]) -> bool | None:
    """As `constant`, where a truth value is wanted."""
    value = constant(expr, params)
    return None if value is None else _bool(expr, value)


def _name(name: str, params: Mapping[str, ParamValue]) -> ParamValue | None:
    if name in params:
        return params[name]
    fixed: Mapping[str, ParamValue] = {"true": True, "false": False, "inf": math.inf}
    return fixed.get(name, DTYPE_NAMES.get(name))


def _binary(
    expr: ast.Expr, op: str, left: ast.Expr, right: ast.Expr, params: Mapping[str, ParamValue]
) -> ParamValue | None:
    a, b = constant(left, params), constant(right, params)
    if op in ("and", "or"):
        decided = op == "or"
        for side, value in ((left, a), (right, b)):
            if value is not None and _bool(side, value) is decided:
                return decided
        return None if a is None or b is None else not decided
    if a is None or b is None:
        return None
    x, y = _number(left, a), _number(right, b)
    if op == "+":
        return x + y
    if op == "-":
        return x - y
    if op == "*":
        return x * y
    if y == 0:
        fail(Code.BAD_CONSTANT, expr.span, why="it divides by 0")
    return x // y if isinstance(x, int) and isinstance(y, int) and x % y == 0 else x / y


def _compare(expr: ast.Expr, op: str, a: ParamValue, b: ParamValue) -> bool:
    if isinstance(a, DType) or isinstance(b, DType):
        if op not in ("==", "!=") or not (isinstance(a, DType) and isinstance(b, DType)):
            fail(Code.BAD_CONSTANT, expr.span, why="a type is equal to a type or not, and compares with nothing else")
        return (a is b) == (op == "==")
    return _COMPARISONS[op](a, b)


def _number(expr: ast.Expr, value: ParamValue) -> int | float:
    if isinstance(value, bool | DType):
        fail(Code.BAD_CONSTANT, expr.span, why=f"`{spelling(value)}` is no number")
    return value


def _bool(expr: ast.Expr, value: ParamValue) -> bool:
    if not isinstance(value, bool):
        fail(Code.BAD_CONSTANT, expr.span, why=f"`{spelling(value)}` is neither true nor false")
    return value


def spelling(value: ParamValue) -> str:
    """A value as a `.tile` file writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
