"""Element-wise operations on fields: the value over the reals, and the bound an f32 implementation keeps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilegen.ir.dtypes import DType
from tilegen.ir.whole import LARGEST_EXACT
from tilegen.oracle.field import CastError, Field, together
from tilegen.oracle.named import Array, Axes, expand
from tilegen.oracle.rounding import (
    EX2,
    LG2,
    SMALLEST_NORMAL,
    TANH,
    TANH_APPROX,
    ULP,
    exponential_error,
    proper,
    relative_unit,
    unit,
)

LN2 = math.log(2.0)


def apply(op: str, args: tuple[Field, ...]) -> Field:
    """`op` of `tilegen.ir.tile.Apply` at every point of the union of the arguments' axes. KeyError: unknown op."""
    if op in _PRODUCTS:
        return _PRODUCTS[op](*together(*args))
    args = together(*(a.settled() for a in args))
    if op in _UNARY:
        (x,) = args
        value, bound = _UNARY[op](x.value.astype(np.float64), x.bound)
        return Field(x.axes, value, proper(bound, value))
    value, bound = _OTHERS[op](*(part for a in args for part in (a.value, a.bound)))
    return Field(args[0].axes, value, proper(bound, value))


def cast(x: Field, dtype: DType) -> Field:
    """A written cast: the value stays (casts are ignored), its error grows by a unit of `dtype`. A cast to a type
    that is no float gives another value: the nearest integer, ties to even."""
    x = x.settled()
    if not dtype.is_float:
        bound = np.where(x.bound > 0, np.rint(x.value + x.bound) - np.rint(x.value - x.bound), 0.0)
        return Field(x.axes, np.rint(x.value), proper(bound, x.value))
    units = unit(x.value, x.bound, dtype)
    if not x.bound.any():  # what the type holds exactly stays as it is
        units = np.where(x.value == x.value.astype(dtype.numpy).astype(np.float64), 0.0, units)
    return Field(x.axes, x.value, x.bound, CastError(units, relative_unit(dtype), frozenset(x.axes)))


def loosened(x: Field, error: Array, axes: Axes) -> Field:
    """`x`, its bound grown by `error`, which stands over `axes`."""
    return Field(x.axes, x.value, proper(x.bound + expand(error, axes, x.axes), x.value), x.cast)


def kept_whole(x: Field, *args: Field) -> Field:
    """`x`, a whole number by its form, made of `args`: without an error where they have none, as f32 holds every whole
    number up to 2**24."""
    exact = np.abs(x.value) <= LARGEST_EXACT
    for arg in args:
        exact = exact & (expand(arg.error, arg.axes, x.axes) == 0)
    return Field(x.axes, x.value, np.where(exact, 0.0, x.bound), x.cast)


def reciprocal(x: Field) -> Field:
    """1 / x."""
    return _divide(Field.exact(x.axes, np.ones((1,) * x.value.ndim)), x)


# ---- products keep cast errors apart ---------------------------------------------------------------


def _joined(x: Field, y: Field, scale_x: Array, scale_y: Array) -> CastError | None:
    """The cast error of a result that is as sensitive to x as scale_x, to y as scale_y, in the first order."""
    if x.cast is None and y.cast is None:
        return None
    if x.cast is None or y.cast is None:
        only, scale = (x.cast, scale_x) if x.cast is not None else (y.cast, scale_y)
        assert only is not None
        return CastError(only.units * scale, only.relative, only.axes)
    units = x.cast.units * scale_x + y.cast.units * scale_y
    return CastError(units, x.cast.relative + y.cast.relative, x.cast.axes & y.cast.axes)


def _multiply(x: Field, y: Field) -> Field:
    value = x.value * y.value
    ax, ay = np.abs(x.value), np.abs(y.value)
    bound = ax * y.bound + ay * x.bound + x.error * y.error + ULP * np.abs(value)
    return Field(x.axes, value, proper(bound, value), _joined(x, y, ay, ax))


def _divide(x: Field, y: Field) -> Field:
    value = x.value / y.value
    ay = np.abs(y.value)
    least = np.where(y.error < ay, ay - y.error, np.where(y.error > 0, 0.0, ay))
    whole = np.where(x.error + y.error > 0, (x.error + np.abs(value) * y.error) / least, 0.0)
    joined = _joined(x, y, 1 / ay, np.abs(value) / ay)
    rest = whole if joined is None else np.maximum(whole - joined.units, 0.0)
    bound = rest + 2 * ULP * np.abs(value)
    return Field(x.axes, value, proper(bound, value), joined)


def _divide_rounded(x: Field, y: Field) -> Field:
    """Of two numbers that f32 holds, known exactly, what rounding to nearest gives: that a whole quotient is exact, and
    any other of whole numbers up to 2**24 stays below the next, is what floors and comparisons rely on."""
    quotient = _divide(x, y)
    held = (x.error == 0) & (y.error == 0) & _in_f32(x.value) & _in_f32(y.value)
    moved = np.abs(quotient.value.astype(np.float32).astype(np.float64) - quotient.value)
    bound = np.where(held, moved, quotient.bound)
    return Field(x.axes, quotient.value, proper(bound, quotient.value), quotient.cast)


def _in_f32(value: Array) -> Array:
    same: Array = value == value.astype(np.float32)
    return same


def _negate(x: Field) -> Field:
    return Field(x.axes, -x.value, x.bound, x.cast)


_PRODUCTS: dict[str, Callable[..., Field]] = {
    "mul": _multiply,
    "div": _divide,
    "div_rn": _divide_rounded,
    "neg": _negate,
}


# ---- functions of one argument -----------------------------------------------------------------------

Bounded = tuple[Array, Array]


def _exp(x: Array, e: Array) -> Bounded:
    value = np.exp(x)
    return value, value * exponential_error(x, e) + SMALLEST_NORMAL


def _exp2(x: Array, e: Array) -> Bounded:
    value = np.exp2(x)
    return value, value * (np.expm1(e * LN2) + EX2) + SMALLEST_NORMAL


def _log(x: Array, e: Array) -> Bounded:
    value = np.log(x)
    spread = np.where(e > 0, -np.log1p(-np.minimum(e / x, 1.0)), 0.0)
    tiny = (x > 0) & (x < SMALLEST_NORMAL)
    return value, np.where(tiny, np.inf, spread + LG2 + LG2 * np.abs(value))


def _log2(x: Array, e: Array) -> Bounded:
    value, bound = _log(x, e)
    return value / LN2, bound / LN2


def _sqrt(x: Array, e: Array) -> Bounded:
    value = np.sqrt(x)
    return value, value - np.sqrt(np.maximum(x - e, 0.0)) + ULP * value


def _rsqrt(x: Array, e: Array) -> Bounded:
    value = 1.0 / np.sqrt(x)
    return value, np.where(e > 0, 1.0 / np.sqrt(np.maximum(x - e, 0.0)) - value, 0.0) + 2 * ULP * value


def _tanh(x: Array, e: Array, own: float = TANH) -> Bounded:
    value = np.tanh(x)
    slope = 1.0 - np.tanh(np.maximum(np.abs(x) - e, 0.0)) ** 2
    return value, e * slope + own * np.abs(value)


def _tanh_approx(x: Array, e: Array) -> Bounded:
    return _tanh(x, e, TANH_APPROX)


def _sigmoid(x: Array, e: Array) -> Bounded:
    small = np.exp(-np.abs(x))
    value = np.where(x >= 0, 1.0, small) / (1.0 + small)
    nearest = np.exp(-np.maximum(np.abs(x) - e, 0.0))
    slope = nearest / (1.0 + nearest) ** 2
    own = exponential_error(x, np.zeros_like(e)) * (1.0 - value) + 2 * ULP
    return value, e * slope + value * own + SMALLEST_NORMAL


def _erf(x: Array, e: Array) -> Bounded:
    value = np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))
    slope = 2.0 / math.sqrt(math.pi) * np.exp(-(np.maximum(np.abs(x) - e, 0.0) ** 2))
    return value, e * slope + EX2 * (1.0 + np.abs(value))


def _floor(x: Array, e: Array) -> Bounded:
    return np.floor(x), np.floor(x + e) - np.floor(x - e)


def _abs(x: Array, e: Array) -> Bounded:
    return np.abs(x), e


_UNARY: dict[str, Callable[[Array, Array], Bounded]] = {
    "exp": _exp,
    "exp2": _exp2,
    "log": _log,
    "log2": _log2,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "tanh": _tanh,
    "tanh_approx": _tanh_approx,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "floor": _floor,
    "abs": _abs,
}


# ---- the others: value and bound of each argument in turn ----------------------------------------------


def _add(x: Array, ex: Array, y: Array, ey: Array) -> Bounded:
    value = x + y
    return value, ex + ey + ULP * np.abs(value)


def _subtract(x: Array, ex: Array, y: Array, ey: Array) -> Bounded:
    return _add(x, ex, -y, ey)


def _maximum(x: Array, ex: Array, y: Array, ey: Array) -> Bounded:
    return np.maximum(x, y), np.maximum(ex, ey)


def _minimum(x: Array, ex: Array, y: Array, ey: Array) -> Bounded:
    return np.minimum(x, y), np.maximum(ex, ey)


def _power(x: Array, ex: Array, y: Array, ey: Array) -> Bounded:
    value = np.power(x, y)
    corners = [np.power(np.maximum(np.abs(x) + sx * ex, 0.0), y + sy * ey) for sx in (-1, 1) for sy in (-1, 1)]
    spread = np.max([np.abs(c - np.abs(value)) for c in np.broadcast_arrays(*corners)], axis=0)
    exponent = y * np.log(np.abs(x))
    own = np.where(value == 0, 0.0, np.abs(value) * exponential_error(exponent, LG2 * np.abs(y)))
    return value, np.where(ex + ey > 0, spread, 0.0) + own + SMALLEST_NORMAL


def _comparison(compare: Callable[[Array, Array], Array]) -> Callable[[Array, Array, Array, Array], Bounded]:
    def run(x: Array, ex: Array, y: Array, ey: Array) -> Bounded:
        slack = ex + ey
        undecided = (slack > 0) & (np.abs(x - y) <= slack)
        return compare(x, y), undecided.astype(np.float64)

    return run


def _and(x: Array, ex: Array, y: Array, ey: Array) -> Bounded:
    return np.logical_and(x, y), np.where((ex > 0) | (ey > 0), 1.0, 0.0)


def _or(x: Array, ex: Array, y: Array, ey: Array) -> Bounded:
    return np.logical_or(x, y), np.where((ex > 0) | (ey > 0), 1.0, 0.0)


def _not(x: Array, ex: Array) -> Bounded:
    return np.logical_not(x), ex


def _select(c: Array, ec: Array, x: Array, ex: Array, y: Array, ey: Array) -> Bounded:
    value = np.where(c, x, y)
    bound = np.where(c, ex, ey)
    if np.any(ec):  # the condition may fall either way
        bound = np.where(ec > 0, np.maximum(ex, ey) + np.abs(np.subtract(x, y, dtype=np.float64)), bound)
    return value, bound


_OTHERS: dict[str, Callable[..., Bounded]] = {
    "add": _add,
    "sub": _subtract,
    "max": _maximum,
    "min": _minimum,
    "pow": _power,
    "eq": _comparison(np.equal),
    "ne": _comparison(np.not_equal),
    "lt": _comparison(np.less),
    "le": _comparison(np.less_equal),
    "gt": _comparison(np.greater),
    "ge": _comparison(np.greater_equal),
    "and": _and,
    "or": _or,
    "not": _not,
    "select": _select,
}
