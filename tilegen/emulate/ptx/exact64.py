"""float64 operations that numpy does not have: fma, and rounding towards zero or an infinity.

Thread by thread, in exact fractions: kernels use them rarely.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tilegen.emulate.ptx.types import Array

_LARGEST = float(np.finfo(np.float64).max)


def exact_map(name: str, mode: str) -> Callable[..., Array]:
    """`name` in add, sub, mul, fma, div, sqrt, rcp; `mode` in rn, rz, rm, rp: a function on float64 vectors."""

    def compute(*operands: Array) -> Array:
        return np.array([_one(name, mode, *(float(x) for x in row)) for row in zip(*operands, strict=True)], np.float64)

    return compute


def _one(name: str, mode: str, *x: float) -> float:
    plain = _plain(name, *x)
    special = not all(map(math.isfinite, x)) or plain is None
    if special or (name in ("div", "rcp") and x[-1] == 0.0) or (name == "sqrt" and x[0] <= 0.0):
        with np.errstate(all="ignore"):
            return float(_native(name, *map(np.float64, x)))
    assert plain is not None
    if name == "sqrt":
        return _directed(math.sqrt(x[0]), mode, lambda r: Fraction(r) ** 2 < plain, lambda r: Fraction(r) ** 2 > plain)
    if plain == 0:
        return _zero(name, mode, *x)
    try:
        nearest = float(plain)
    except OverflowError:
        nearest = math.inf if plain > 0 else -math.inf
    if nearest == 0.0 and plain < 0:
        nearest = -0.0
    if math.isinf(nearest):
        towards = mode == "rz" or (mode == "rm" and plain > 0) or (mode == "rp" and plain < 0)
        return math.copysign(_LARGEST, nearest) if towards else nearest
    return _directed(nearest, mode, lambda r: Fraction(r) < plain, lambda r: Fraction(r) > plain)


def _plain(name: str, *x: float) -> Fraction | None:
    """The exact value (for sqrt: its square); None where an operand is not finite or there is none."""
    if not all(map(math.isfinite, x)):
        return None
    f = [Fraction(v) for v in x]
    if name == "add":
        return f[0] + f[1]
    if name == "sub":
        return f[0] - f[1]
    if name == "mul":
        return f[0] * f[1]
    if name == "fma":
        return f[0] * f[1] + f[2]
    if name == "div":
        return f[0] / f[1] if f[1] else None
    if name == "rcp":
        return 1 / f[0] if f[0] else None
    return f[0]


def _native(name: str, *x: np.float64) -> np.float64:
    one = np.float64(1)
    operations: dict[str, Callable[[], np.float64]] = {
        "add": lambda: x[0] + x[1],
        "sub": lambda: x[0] - x[1],
        "mul": lambda: x[0] * x[1],
        "fma": lambda: x[0] * x[1] + x[2],
        "div": lambda: x[0] / x[1],
        "rcp": lambda: one / x[0],
        "sqrt": lambda: np.sqrt(x[0]),
    }
    return operations[name]()


def _zero(name: str, mode: str, *x: float) -> float:
    """The sign of an exact zero."""
    sign = math.copysign(1.0, x[0])
    if name in ("mul", "div"):
        return math.copysign(0.0, sign * math.copysign(1.0, x[1]))
    if name == "fma":
        left, right = sign * math.copysign(1.0, x[1]), math.copysign(1.0, x[2])
    else:
        left, right = sign, math.copysign(1.0, x[1]) * (-1.0 if name == "sub" else 1.0)
    if left == right:
        return math.copysign(0.0, left)
    return -0.0 if mode == "rm" else 0.0


def _directed(nearest: float, mode: str, under: Callable[[float], bool], over: Callable[[float], bool]) -> float:
    up = mode == "rp" or (mode == "rz" and nearest < 0)
    down = mode == "rm" or (mode == "rz" and nearest > 0)
    if up and under(nearest):
        return math.nextafter(nearest, math.inf)
    if down and over(nearest):
        return math.nextafter(nearest, -math.inf)
    return nearest
