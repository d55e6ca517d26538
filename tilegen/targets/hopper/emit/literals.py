"""Float constants in CUDA text."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

from tilegen.ir.dtypes import DType


def literal(value: float) -> str:
    """A float constant, rounded to f32, in the fewest digits that tell it from its neighbours."""
    x = _rounded(value)
    if math.isnan(x):
        return "__int_as_float(0x7fc00000)"
    if math.isinf(x):
        return f"__int_as_float({'0x7f800000' if x > 0 else '0xff800000'})"
    if x == 0:
        return "-0.0f" if math.copysign(1.0, x) < 0 else "0.0f"
    text = _positional(x) if 1e-5 <= abs(x) < 1e9 else f"{x:.9g}"
    return f"{text if any(c in text for c in '.e') else text + '.0'}f"


def pair_literal(value: float, dtype: DType) -> str:
    """A number of a 16-bit type in both halves of a register."""
    half = struct.pack("<e", value) if dtype is DType.F16 else struct.pack("<f", value)[2:]
    return f"0x{(half * 2)[::-1].hex()}u"


def _rounded(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _positional(x: float) -> str:
    shortest = next(text for digits in range(1, 10) if _rounded(float(text := f"{x:.{digits}g}")) == x)
    return f"{Decimal(shortest):f}"
