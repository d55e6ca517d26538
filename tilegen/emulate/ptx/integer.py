"""Integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.emulate.ptx.decode import (
    Decoded,
    Mask,
    Modifiers,
    Step,
    instruction,
    map1,
    map2,
    map3,
    put,
    simple,
    ufunc2,
)
from tilegen.emulate.ptx.module import Instruction
from tilegen.emulate.ptx.types import TYPES, UNSIGNED, Array, PtxType

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

_INTEGERS = ("s16", "u16", "s32", "u32", "s64", "u64")
_PACKED = ("s16x2", "u16x2")


def decode(ins: Instruction) -> Decoded:
    """add, sub, mul, mad, min, max, abs, neg, div on integers."""
    mods = Modifiers(ins)
    if ins.opcode in ("mul", "mad"):
        return _multiply(ins, mods)
    if ins.opcode in ("add", "sub"):
        return _add(ins, mods)
    if ins.opcode in ("min", "max"):
        relu = mods.flag("relu")
        t = mods.type(*_INTEGERS, *_PACKED)
        mods.done()
        mods.operands(3)
        f = np.minimum if ins.opcode == "min" else np.maximum
        if relu:
            return _lanewise(ins, t, lambda a, b: np.maximum(f(a, b), a.dtype.type(0)))
        return _lanewise(ins, t, f)
    t = mods.type(*_INTEGERS)
    mods.done()
    if ins.opcode == "div":
        return simple(t, ins, lambda d, a, b: map2(divide, d, a, b))
    mods.operands(2)
    return simple(t, ins, lambda d, a: map1(np.abs if ins.opcode == "abs" else np.negative, d, a))


def _lanewise(ins: Instruction, t: PtxType, f: Callable[..., Any]) -> Decoded:
    """f on each element, for packed types on each half."""
    if t.kind != "x2":
        return simple(t, ins, lambda d, a, b: map2(f, d, a, b))
    held = np.dtype(np.int16 if t.name == "s16x2" else np.uint16)

    def packed(a: Array, b: Array) -> Array:
        halves = f(np.ascontiguousarray(a).view(held), np.ascontiguousarray(b).view(held))
        return np.asarray(halves, held).view(np.uint32)

    return simple(t, ins, lambda d, a, b: map2(packed, d, a, b))


def _add(ins: Instruction, mods: Modifiers) -> Decoded:
    saturate, carry = mods.flag("sat"), mods.flag("cc")
    t = mods.type(*_INTEGERS, *_PACKED)
    mods.done()
    mods.operands(3)
    subtract = ins.opcode == "sub"
    if saturate:
        if t.name != "s32":
            mods.unknown("only .s32 saturates")

        def saturated(a: Array, b: Array) -> Array:
            wide = a.astype(np.int64) - b if subtract else a.astype(np.int64) + b
            return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)

        return simple(t, ins, lambda d, a, b: map2(saturated, d, a, b))
    if carry:
        return _with_carry(ins, t, subtract, reads=False, writes=True)
    f = np.subtract if subtract else np.add
    if t.kind == "x2":
        return _lanewise(ins, t, f)
    return simple(t, ins, lambda d, a, b: ufunc2(f, d, a, b))


def _with_carry(ins: Instruction, t: PtxType, subtract: bool, reads: bool, writes: bool) -> Decoded:
    """Extended precision: for subtraction the carry row holds the borrow."""
    u = UNSIGNED[t.bits]

    def bind(machine: Machine) -> Step:
        d, a, b = (machine.dst(ins.operands[0], t), machine.src(ins.operands[1], t), machine.src(ins.operands[2], t))
        cc = machine.carry

        def step(s: slice, m: Mask) -> None:
            x, y = a[s].view(u) if a.strides[0] else a[s].astype(u), b[s].astype(u)
            incoming = cc[s].astype(u) if reads else u.type(0)
            if subtract:
                first = x - y
                result = first - incoming
                out = (x < y) | (first < incoming)
            else:
                first = x + y
                result = first + incoming
                out = (first < x) | (result < first)
            put(d, s, m, result.view(d.dtype))
            if writes:
                put(cc, s, m, out.astype(np.uint64))

        return step

    return Decoded(bind)


@instruction("addc", "subc")
def add_with_carry(ins: Instruction) -> Decoded:
    """addc, subc: with the carry that the last .cc instruction left."""
    mods = Modifiers(ins)
    writes = mods.flag("cc")
    t = mods.type("s32", "u32", "s64", "u64")
    mods.done()
    mods.operands(3)
    return _with_carry(ins, t, ins.opcode == "subc", reads=True, writes=writes)


def multiply_high(a: Array, b: Array) -> Array:
    """Upper half of the double-width product of equal integer types."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.dtype(np.int64 if a.dtype.kind == "i" else np.uint64)
        return np.asarray(a.astype(wide) * b.astype(wide) >> wide.type(bits)).astype(a.dtype)
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    cross = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> half) + (cross >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return np.asarray(high).view(a.dtype)


def _multiply(ins: Instruction, mods: Modifiers) -> Decoded:
    part = mods.need("lo", "hi", "wide")
    saturate, carry = mods.flag("sat"), mods.flag("cc")
    t = mods.type(*_INTEGERS)
    mods.done()
    mad = ins.opcode == "mad"
    mods.operands(4 if mad else 3)
    if saturate and not (mad and part == "hi" and t.name == "s32"):
        mods.unknown("only mad.hi.sat.s32 saturates")
    if part == "wide":
        wide = TYPES[f"{t.kind}{t.bits * 2}"]
        return _wide(ins, t, wide, mad)
    if carry:
        return _mad_carry(ins, t, part, reads=False, writes=True)
    if not mad:
        if part == "lo":
            return simple(t, ins, lambda d, a, b: ufunc2(np.multiply, d, a, b))
        return simple(t, ins, lambda d, a, b: map2(multiply_high, d, a, b))

    def compute(a: Array, b: Array, c: Array) -> Array:
        product = a * b if part == "lo" else multiply_high(a, b)
        if saturate:
            return np.clip(product.astype(np.int64) + c, -(1 << 31), (1 << 31) - 1).astype(np.int32)
        return np.asarray(product + c)

    return simple(t, ins, lambda d, a, b, c: map3(compute, d, a, b, c))


def _wide(ins: Instruction, t: PtxType, wide: PtxType, mad: bool) -> Decoded:
    def bind(machine: Machine) -> Step:
        d, a, b = (machine.dst(ins.operands[0], wide), machine.src(ins.operands[1], t), machine.src(ins.operands[2], t))
        c = machine.src(ins.operands[3], wide) if mad else None
        dtype = wide.dtype

        def step(s: slice, m: Mask) -> None:
            product = a[s].astype(dtype) * b[s].astype(dtype)
            put(d, s, m, product if c is None else product + c[s])

        return step

    return Decoded(bind)


@instruction("madc")
def mad_with_carry(ins: Instruction) -> Decoded:
    """madc.lo/hi: product plus addend plus carry."""
    mods = Modifiers(ins)
    part, writes = mods.need("lo", "hi"), mods.flag("cc")
    t = mods.type("s32", "u32", "s64", "u64")
    mods.done()
    mods.operands(4)
    return _mad_carry(ins, t, part, reads=True, writes=writes)


def _mad_carry(ins: Instruction, t: PtxType, part: str, reads: bool, writes: bool) -> Decoded:
    u = UNSIGNED[t.bits]

    def bind(machine: Machine) -> Step:
        d = machine.dst(ins.operands[0], t)
        a, b, c = (machine.src(o, t) for o in ins.operands[1:4])
        cc = machine.carry

        def step(s: slice, m: Mask) -> None:
            product = (a[s] * b[s] if part == "lo" else multiply_high(a[s], b[s])).view(u)
            first = product + c[s].astype(u)
            incoming = cc[s].astype(u) if reads else u.type(0)
            result = first + incoming
            if writes:
                put(cc, s, m, ((first < product) | (result < first)).astype(np.uint64))
            put(d, s, m, result.view(d.dtype))

        return step

    return Decoded(bind)


@instruction("mul24", "mad24")
def multiply24(ins: Instruction) -> Decoded:
    """Products of 24-bit integers."""
    mods = Modifiers(ins)
    part = mods.need("lo", "hi")
    t = mods.type("s32", "u32")
    mods.done()
    mods.operands(4 if ins.opcode == "mad24" else 3)

    def product(a: Array, b: Array) -> Array:
        x = (a.astype(np.int64) << 40) >> 40 if t.kind == "s" else a.astype(np.int64) & 0xFFFFFF
        y = (b.astype(np.int64) << 40) >> 40 if t.kind == "s" else b.astype(np.int64) & 0xFFFFFF
        return np.asarray(x * y >> (16 if part == "hi" else 0)).astype(t.dtype)

    if ins.opcode == "mul24":
        return simple(t, ins, lambda d, a, b: map2(product, d, a, b))
    return simple(t, ins, lambda d, a, b, c: map3(lambda x, y, z: product(x, y) + z, d, a, b, c))


def divide(a: Array, b: Array) -> Array:
    """Quotient, cut towards zero; all ones for a zero divisor (the hardware's value there is unspecified)."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return np.where(zero, ~b.dtype.type(0), a // safe)
    u = UNSIGNED[a.dtype.itemsize * 8]
    x, y = np.abs(a).astype(u), np.abs(safe).astype(u)
    magnitude = np.asarray(x // y).view(a.dtype)
    return np.asarray(np.where(zero, a.dtype.type(-1), np.where((a < 0) != (safe < 0), -magnitude, magnitude)))


def remainder(a: Array, b: Array) -> Array:
    """Remainder with the sign of the dividend; the dividend itself for a zero divisor (unspecified on the hardware)."""
    return np.where(b == 0, a, a - divide(a, b) * b)


@instruction("rem")
def rem(ins: Instruction) -> Decoded:
    """rem on integers."""
    mods = Modifiers(ins)
    t = mods.type(*_INTEGERS)
    mods.done()
    mods.operands(3)
    return simple(t, ins, lambda d, a, b: map2(remainder, d, a, b))


@instruction("sad")
def sad(ins: Instruction) -> Decoded:
    """|a - b| + c."""
    mods = Modifiers(ins)
    t = mods.type(*_INTEGERS)
    mods.done()
    mods.operands(4)
    return simple(
        t, ins, lambda d, a, b, c: map3(lambda x, y, z: np.where(x < y, y - x, x - y).astype(t.dtype) + z, d, a, b, c)
    )


@instruction("dp4a", "dp2a")
def dot_product(ins: Instruction) -> Decoded:
    """Sum of products of bytes (dp4a), or of 16-bit values and the low or high bytes (dp2a)."""
    mods = Modifiers(ins)
    part = mods.need("lo", "hi") if ins.opcode == "dp2a" else ""
    kinds = [name for name in ins.modifiers if name in ("s32", "u32")]
    if len(kinds) != 2:
        mods.unknown("it needs two types")
    left, right = TYPES[kinds[0]], TYPES[kinds[1]]
    mods.operands(4)

    def bind(machine: Machine) -> Step:
        result = TYPES["u32" if left.kind == right.kind == "u" else "s32"]
        d, c = machine.dst(ins.operands[0], result), machine.src(ins.operands[3], result)
        a, b = machine.src(ins.operands[1], TYPES["u32"]), machine.src(ins.operands[2], TYPES["u32"])
        wide = 1 if ins.opcode == "dp4a" else 2
        first = np.dtype(f"{'i' if left.kind == 's' else 'u'}{wide}")
        second = np.dtype("i1" if right.kind == "s" else "u1")

        def step(s: slice, m: Mask) -> None:
            x = np.ascontiguousarray(a[s]).view(first).reshape(-1, 4 // wide).astype(np.int64)
            y = np.ascontiguousarray(b[s]).view(second).reshape(-1, 4).astype(np.int64)
            if part:
                y = y[:, :2] if part == "lo" else y[:, 2:]
            put(d, s, m, ((x * y).sum(axis=1) + c[s]).astype(result.dtype))

        return step

    return Decoded(bind)
