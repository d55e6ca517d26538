"""f16 and bf16 arithmetic, single and packed, exactly rounded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.emulate.ptx.decode import Decoded, Modifiers, map1, map2, map3, simple
from tilegen.emulate.ptx.extremum import extremum
from tilegen.emulate.ptx.module import Instruction
from tilegen.emulate.ptx.rounding import BF16, f16_bits, round_to, saturate, to_odd, two_sum
from tilegen.emulate.ptx.types import TYPES, Array

#: What TMA's NaN fill writes to f16 and bf16 elements, and fma.oob knows, with either sign, in its factors: so it is on
#: an H200 (tests/gpu/test_fills.py); the manual does not give the pattern.
OOB_NAN = np.uint16(0x7FF7)
_TINY16 = np.float32(2.0**-14)


def as_float(x: Array, kind: str) -> Array:
    """16-bit patterns (or float16 numbers) of `kind` f16 or bf16 as float32."""
    if kind == "f16":
        return np.ascontiguousarray(x).view(np.float16).astype(np.float32)
    return (x.astype(np.uint32) << np.uint32(16)).view(np.float32)


def half_bits(x: Array, kind: str) -> Array:
    """Float64 `x` (exact, or rounded to odd) rounded to nearest even, as uint16; NaN is 0x7fff."""
    if kind == "f16":
        return f16_bits(x)
    out = (round_to(x, BF16, "rn").astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), out)


def flush_half(x: Array, kind: str) -> Array:
    """Numbers that are subnormal in `kind` made zeros; bf16 has no .ftz of its own."""
    if kind != "f16":
        return x
    return np.where(np.abs(x) < x.dtype.type(_TINY16), np.copysign(x.dtype.type(0), x), x)


def on_halves(f: Callable[..., Array]) -> Callable[..., Array]:
    """f on uint16 patterns, applied to rows of any 16- or 32-bit dtype."""

    def apply(*rows: Array) -> Array:
        out = f(*(np.ascontiguousarray(row).view(np.uint16) for row in rows))
        return np.ascontiguousarray(out).view(rows[0].dtype)

    return apply


def decode(ins: Instruction) -> Decoded:
    """add, sub, mul, fma (also .oob), min, max, abs, neg on f16, bf16, f16x2, bf16x2."""
    mods = Modifiers(ins)
    mods.one("rn")
    oob = mods.flag("oob")
    if oob and ins.opcode != "fma":
        mods.unknown(".oob goes with fma")
    ftz, sat, relu = mods.flag("ftz"), mods.flag("sat"), mods.flag("relu")
    nan, xorsign = mods.flag("NaN"), mods.flag("xorsign")
    if xorsign and not mods.flag("abs"):
        mods.unknown(".xorsign goes with .abs")
    t = mods.type("f16", "bf16", "f16x2", "bf16x2")
    mods.done()
    kind = t.name.removesuffix("x2")
    name = ins.opcode
    if name in ("abs", "neg"):
        mods.operands(2)
        change = _sign_bits(name, ftz, kind)
        return simple(t, ins, lambda d, a: map1(on_halves(change), d, a))
    if name in ("min", "max"):
        mods.operands(3)
        g = extremum_bits(name == "max", nan, xorsign, ftz, kind)
        return simple(t, ins, lambda d, a, b: map2(on_halves(g), d, a, b))
    if name in ("div", "mad"):
        mods.unknown("16-bit types have no such instruction")
    if oob and ftz:
        mods.unknown(".oob does not go with .ftz")
    compute = arithmetic_bits(name, kind, ftz, sat, relu)
    f = on_halves(zero_outside(compute) if oob else compute)
    if name == "fma":
        mods.operands(4)
        return simple(t, ins, lambda d, a, b, c: map3(f, d, a, b, c))
    mods.operands(3)
    return simple(t, ins, lambda d, a, b: map2(f, d, a, b))


def arithmetic_bits(name: str, kind: str, ftz: bool, sat: bool, relu: bool) -> Callable[..., Array]:
    """add, sub, mul or fma as a function on uint16 patterns of `kind`."""

    def compute(*patterns: Array) -> Array:
        x = [as_float(p, kind).astype(np.float64) for p in patterns]
        if ftz:
            x = [flush_half(v, kind) for v in x]
        if name == "mul":
            value = x[0] * x[1]
        elif name == "fma":
            value = to_odd(*two_sum(x[0] * x[1], x[2]))
        else:
            value = to_odd(*two_sum(x[0], x[1] if name == "add" else -x[1]))
        bits = half_bits(value, kind)
        if ftz or sat or relu:
            rounded = as_float(bits, kind)
            if ftz:
                rounded = flush_half(rounded, kind)
            if sat:
                rounded = saturate(rounded)
            if relu:
                rounded = np.where(rounded > 0, rounded, np.where(np.isnan(rounded), rounded, np.float32(0)))
            bits = half_bits(rounded.astype(np.float64), kind)
        return bits

    return compute


def zero_outside(f: Callable[..., Array]) -> Callable[..., Array]:
    """fma on uint16 patterns, and +0 where a factor is what TMA's NaN fill writes."""

    def compute(a: Array, b: Array, c: Array) -> Array:
        outside = (a & np.uint16(0x7FFF) == OOB_NAN) | (b & np.uint16(0x7FFF) == OOB_NAN)
        return np.where(outside, np.uint16(0), f(a, b, c))

    return compute


def _sign_bits(name: str, ftz: bool, kind: str) -> Callable[[Array], Array]:
    def compute(x: Array) -> Array:
        if ftz:
            x = half_bits(flush_half(as_float(x, kind), kind).astype(np.float64), kind)
        return x & np.uint16(0x7FFF) if name == "abs" else x ^ np.uint16(0x8000)

    return compute


def extremum_bits(largest: bool, nan: bool, xorsign: bool, ftz: bool, kind: str) -> Callable[[Array, Array], Array]:
    """min or max as a function on uint16 patterns of `kind`."""
    pick = extremum(largest, nan, xorsign, TYPES["f32"])

    def compute(a: Array, b: Array) -> Array:
        x, y = as_float(a, kind), as_float(b, kind)
        if ftz:
            x, y = flush_half(x, kind), flush_half(y, kind)
        return half_bits(pick(x, y).astype(np.float64), kind)

    return compute
