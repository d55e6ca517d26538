"""Exactly rounded arithmetic on vectors.

The tool is rounding to odd: an exact result is first cut to float64 with its last bit set if anything was cut off. From
there one rounding to a format with at least two bits fewer, in any mode, is the correct rounding of the exact result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilegen.emulate.ptx.types import Array

TINY32 = np.float32(2.0**-126)
CANONICAL_NAN32 = np.uint32(0x7FFFFFFF)
_HALF_BITS = np.int64(0x1FFFFFFF)
_HALF_WAY = np.int64(0x10000000)
_TINY64 = np.float64(2.0**-126)


@dataclass(frozen=True)
class Format:
    """A binary format: significand bits (the hidden one counted), exponents of smallest normal and largest number."""

    precision: int
    emin: int
    emax: int

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.emax


F32 = Format(24, -126, 127)
F16 = Format(11, -14, 15)
BF16 = Format(8, -126, 127)
TF32 = Format(11, -126, 127)
E4M3 = Format(4, -6, 8)
E5M2 = Format(3, -14, 15)


def canonical32(x: Array) -> Array:
    """Float32 results with every NaN made the one NaN that the hardware gives."""
    nan = np.isnan(x)
    if np.count_nonzero(nan):
        x = x.copy()
        x.view(np.uint32)[nan] = CANONICAL_NAN32
    return x


def flush32(x: Array) -> Array:
    """Subnormal float32 numbers made zeros of their sign."""
    small = (np.abs(x) < TINY32) & (x != 0)
    if np.count_nonzero(small):
        return np.where(small, np.copysign(np.float32(0), x), x)
    return x


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Rounded float64 sum, and the exact rest; the rest is 0 where the sum is not finite."""
    total = a + b
    back = total - a
    rest = (a - (total - back)) + (b - back)
    return total, np.where(np.isfinite(total), rest, 0.0)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Rounded float64 product, and the exact rest (no overflow or underflow inside assumed)."""
    split = 134217729.0
    p = a * b
    ah = a * split
    ah = ah - (ah - a)
    al = a - ah
    bh = b * split
    bh = bh - (bh - b)
    bl = b - bh
    rest = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    return p, np.where(np.isfinite(p), rest, 0.0)


def to_odd(value: Array, rest: Array) -> Array:
    """`value` + `rest` rounded to odd in float64; |rest| is under half a unit of value."""
    bits = value.view(np.int64)
    move = (rest != 0) & (bits & 1 == 0)
    if not np.count_nonzero(move):
        return value
    outward = (rest > 0) == (value > 0)
    return np.asarray(np.where(move, bits + np.where(outward, 1, -1), bits).view(np.float64))


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of float32 vectors, rounded once, to nearest even."""
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    # Rounding the rounded sum again is wrong only from exactly half way between two float32, or among subnormals.
    risky = (total.view(np.int64) & _HALF_BITS) == _HALF_WAY
    risky |= np.abs(total) < _TINY64
    if np.count_nonzero(risky):
        total = to_odd(*two_sum(product, c.astype(np.float64)))
    return np.asarray(total.astype(np.float32))


def round_to(x: Array, fmt: Format, mode: str) -> Array:
    """Float64 `x` (exact, or rounded to odd) rounded to `fmt`, as float64. Modes: rn, rna, rz, rm, rp."""
    _, exponent = np.frexp(x)
    quantum = np.maximum(exponent - 1, fmt.emin) - (fmt.precision - 1)
    scaled = np.ldexp(x, -quantum)
    if mode == "rn":
        rounded = np.rint(scaled)
    elif mode == "rna":
        rounded = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    elif mode == "rz":
        rounded = np.trunc(scaled)
    else:
        rounded = np.floor(scaled) if mode == "rm" else np.ceil(scaled)
    # floor and ceil lose the sign of a zero that they reach from the other side.
    out = np.copysign(np.ldexp(rounded, quantum), x)
    over = np.abs(out) > fmt.largest
    if np.count_nonzero(over):
        stays = {"rn": False, "rna": False, "rz": True}.get(mode)
        stay = (out > 0) == (mode == "rm") if stays is None else np.full(len(out), stays)
        limit = np.where(stay & np.isfinite(x), fmt.largest, np.inf)
        out = np.where(over, np.copysign(limit, x), out)
    return np.asarray(np.where(np.isfinite(x), out, x))


def saturate(x: Array) -> Array:
    """Clamped to [0, 1]; NaN gives +0."""
    clamped = np.clip(x, x.dtype.type(0), x.dtype.type(1))
    return np.asarray(np.where(np.isnan(x), x.dtype.type(0), clamped + x.dtype.type(0)))


def bf16_bits(x: Array) -> Array:
    """Float32 `x` rounded to nearest even bf16, as uint16; NaN is 0x7fff."""
    u = np.ascontiguousarray(x).view(np.uint32)
    out = (u + (np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    nan = np.isnan(x)
    if np.count_nonzero(nan):
        out = np.where(nan, np.uint32(0x7FFF), out)
    return out.astype(np.uint16)


def f16_bits(x: Array) -> Array:
    """Float32 or float64 `x` rounded to nearest even f16, as uint16; NaN is 0x7fff."""
    out = x.astype(np.float16).view(np.uint16)
    nan = np.isnan(x)
    if np.count_nonzero(nan):
        out = np.where(nan, np.uint16(0x7FFF), out)
    return out
