"""Exact arithmetic in fractions of integers: an independent reference for rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

# f32-unbounded: float32 with all the exponents that a number below 1 could want
FORMATS = {
    "f32": (24, -126, 127),
    "f32-unbounded": (24, -1000, 127),
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
    "tf32": (11, -126, 127),
}


def round_fraction(q: Fraction, kind: str, mode: str, zero_sign: int = 1) -> float:
    """q rounded to a format; `zero_sign` is the sign of an exact zero."""
    precision, emin, emax = FORMATS[kind]
    if q == 0:
        return math.copysign(0.0, zero_sign)
    sign, magnitude = (-1 if q < 0 else 1), abs(q)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, emin) - precision + 1)
    units, rest = divmod(magnitude, quantum)
    up = {
        "rn": rest * 2 > quantum or (rest * 2 == quantum and units % 2 == 1),
        "rna": rest * 2 >= quantum,
        "rz": False,
        "rp": rest > 0 and sign > 0,
        "rm": rest > 0 and sign < 0,
    }[mode]
    value = (units + up) * quantum
    largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** emax
    if value > largest:
        stays = mode == "rz" or (mode == "rm" and sign > 0) or (mode == "rp" and sign < 0)
        return sign * (float(largest) if stays else math.inf)
    return math.copysign(float(value), sign)


def operate(name: str, mode: str, kind: str, *x: float) -> float:
    """name(x…) of one element, rounded once to `kind`; operands are numbers of that format."""
    if not all(map(math.isfinite, x)) or (name == "div" and x[1] == 0) or (name == "rcp" and x[0] == 0):
        with np.errstate(all="ignore"):
            return float(_ieee(name, *map(np.float64, x)))
    f = [Fraction(v) for v in x]
    signs = [math.copysign(1, v) for v in x]
    if name in ("add", "sub"):
        other = signs[1] * (-1 if name == "sub" else 1)
        zero = signs[0] if signs[0] == other else (-1 if mode == "rm" else 1)
        return round_fraction(f[0] + (f[1] if name == "add" else -f[1]), kind, mode, zero)
    if name == "mul":
        return round_fraction(f[0] * f[1], kind, mode, signs[0] * signs[1])
    if name == "fma":
        product = signs[0] * signs[1]
        zero = product if product == signs[2] else (-1 if mode == "rm" else 1)
        return round_fraction(f[0] * f[1] + f[2], kind, mode, zero)
    if name == "div":
        return round_fraction(f[0] / f[1], kind, mode, signs[0] * signs[1])
    if name == "rcp":
        return round_fraction(1 / f[0], kind, mode)
    if x[0] < 0:
        return math.nan
    if x[0] == 0:
        return x[0]
    # 200 bits of the root, with a sticky bit, decide every rounding.
    shift = 400
    n = f[0].numerator * (1 << shift) // f[0].denominator
    root = math.isqrt(n)
    exact = root * root == n and f[0].numerator * (1 << shift) % f[0].denominator == 0
    return round_fraction(Fraction(2 * root + (not exact), 1 << shift // 2 + 1), kind, mode)


def _ieee(name: str, *x: np.float64) -> np.float64:
    if name == "fma":
        return x[0] * x[1] + x[2]
    if name == "rcp":
        return np.float64(1) / x[0]
    if name == "sqrt":
        return np.sqrt(x[0])
    return {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name](x[0], x[1])
