"""cvt, cvta and cvt.pack."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from tilegen.emulate.ptx.decode import Decoded, Mask, Modifiers, Step, instruction, put
from tilegen.emulate.ptx.half import as_float, half_bits
from tilegen.emulate.ptx.module import Instruction, Operand, Register
from tilegen.emulate.ptx.rounding import (
    BF16,
    CANONICAL_NAN32,
    E4M3,
    E5M2,
    F16,
    F32,
    TF32,
    bf16_bits,
    f16_bits,
    flush32,
    round_to,
    to_odd,
    two_sum,
)
from tilegen.emulate.ptx.spaces import WINDOWS
from tilegen.emulate.ptx.types import TYPES, UNSIGNED, Array, PtxType

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

_INTEGER_MODES = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}
_FLOAT_MODES = ("rn", "rz", "rm", "rp", "rna")
_FORMATS = {"f32": F32, "f16": F16, "bf16": BF16, "tf32": TF32}
_FP8 = {"e4m3x2": (E4M3, ml_dtypes.float8_e4m3fn, 448.0), "e5m2x2": (E5M2, ml_dtypes.float8_e5m2, 57344.0)}


def widened(machine: Machine, operand: Operand, t: PtxType) -> tuple[Array, Callable[[Array], Array]]:
    """A destination row that may be wider than the result's type, and the extension that fills it."""
    if not isinstance(operand, Register) or operand.width <= t.bits:
        return machine.dst(operand, t), lambda x: x
    full = TYPES[f"{'s' if t.kind == 's' else 'b'}{operand.width}"]
    narrow, wide = t.dtype, full.dtype
    if t.kind == "s":
        return machine.dst(operand, full), lambda x: x.astype(narrow).astype(wide)
    raw = UNSIGNED[t.bits]
    return machine.dst(operand, full), lambda x: x.view(raw).astype(wide)


@instruction("cvt")
def convert(ins: Instruction) -> Decoded:
    """cvt between all integer and floating types, to packed 16-bit pairs, and to and from fp8 pairs."""
    mods = Modifiers(ins)
    if mods.flag("pack"):
        return _pack_integers(ins, mods)
    to_integer = mods.one(*_INTEGER_MODES)
    mode = mods.one(*_FLOAT_MODES)
    ftz, sat = mods.flag("ftz"), mods.flag("sat")
    finite, relu = mods.flag("satfinite"), mods.flag("relu")
    to = mods.type()
    source = mods.type()
    mods.done()
    if to.name in ("f16x2", "bf16x2") and source.name == "f32":
        return _pack_halves(ins, to.name[:-2], mode, relu, finite)
    if to.name in _FP8 or source.name in _FP8:
        return _fp8(ins, mods, to, source, relu)
    if to.kind == "x2" or source.kind == "x2":
        mods.unknown("no such pair of types")
    mods.operands(2)
    if to.integer and source.integer:
        return _integers(ins, to, source, sat)
    if to.integer:
        f = _float_to_int(to, source, _INTEGER_MODES[to_integer or "rzi"], ftz)
    elif source.integer:
        f = _int_to_float(to, mode or "rn", sat)
    else:
        f = _float_to_float(to, source, mode, to_integer, ftz, sat, relu, finite)

    def bind(machine: Machine) -> Step:
        d, extend = widened(machine, ins.operands[0], to)
        a = machine.src(ins.operands[1], source)

        def step(s: slice, m: Mask) -> None:
            put(d, s, m, extend(f(a[s])))

        return step

    return Decoded(bind)


def _integers(ins: Instruction, to: PtxType, source: PtxType, sat: bool) -> Decoded:
    low, high = _limits(to)

    def bind(machine: Machine) -> Step:
        d, extend = widened(machine, ins.operands[0], to)
        a = machine.src(ins.operands[1], source)

        def step(s: slice, m: Mask) -> None:
            x = a[s]
            if sat:
                own_low, own_high = _limits(source)
                x = np.clip(x, x.dtype.type(max(low, own_low)), x.dtype.type(min(high, own_high)))
            put(d, s, m, extend(x.astype(to.dtype)))

        return step

    return Decoded(bind)


def _limits(t: PtxType) -> tuple[int, int]:
    return (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.kind == "s" else (0, (1 << t.bits) - 1)


def _to_double(x: Array, source: PtxType, ftz: bool) -> Array:
    if source.name in ("f16", "bf16"):
        return as_float(x, source.name).astype(np.float64)
    if source.name == "f32" and ftz:
        x = flush32(x)
    return x.astype(np.float64)


def to_integral(x: Array, mode: str) -> Array:
    """Float64 rounded to a whole number."""
    return np.asarray({"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}[mode](x))


def _float_to_int(to: PtxType, source: PtxType, mode: str, ftz: bool) -> Callable[[Array], Array]:
    low, high = _limits(to)
    # As the manual has it: 0, but from f64 and to 64 bits the top bit alone.
    top_bit = np.array(1 << to.bits - 1, UNSIGNED[to.bits]).view(to.dtype)
    of_nan = top_bit if source.name == "f64" or to.bits == 64 else to.dtype.type(0)

    def compute(x: Array) -> Array:
        whole = to_integral(_to_double(x, source, ftz), mode)
        inside = (whole >= low) & (whole < float(high + 1))
        safe = np.where(inside, whole, 0.0)
        wide = safe.astype(np.uint64 if to.name == "u64" else np.int64).astype(to.dtype)
        limit = np.where(whole < 0, to.dtype.type(low), to.dtype.type(high))
        return np.where(inside, wide, np.where(np.isnan(whole), of_nan, limit))

    return compute


def _int_to_float(to: PtxType, mode: str, sat: bool) -> Callable[[Array], Array]:
    def compute(x: Array) -> Array:
        if x.dtype.itemsize < 8:
            exact = x.astype(np.float64)
        else:
            high = (x >> x.dtype.type(32)).astype(np.float64) * 2.0**32
            exact = to_odd(*two_sum(high, (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64)))
        if sat:
            exact = np.clip(exact, 0.0, 1.0)
        if to.name == "f64":
            return x.astype(np.float64) if mode == "rn" else _directed_double(x, mode)
        if to.name == "f32" and mode == "rn":
            return exact.astype(np.float32)
        return _held(round_to(exact, _FORMATS[to.name], mode), to)

    return compute


def _directed_double(x: Array, mode: str) -> Array:
    nearest = x.astype(np.float64)
    out = nearest.copy()
    for i, (value, rounded) in enumerate(zip(x.tolist(), nearest.tolist(), strict=True)):
        if int(rounded) > value and (mode == "rm" or (mode == "rz" and value > 0)):
            out[i] = np.nextafter(rounded, -np.inf)
        elif int(rounded) < value and (mode == "rp" or (mode == "rz" and value < 0)):
            out[i] = np.nextafter(rounded, np.inf)
    return out


def _held(x: Array, to: PtxType) -> Array:
    """Float64 values that `to` represents exactly, in the dtype that holds it."""
    if to.name == "f64":
        return x
    if to.name in ("f16", "bf16"):
        return half_bits(x, to.name).view(to.dtype)
    out = x.astype(np.float32)
    nan = np.isnan(out)
    if np.count_nonzero(nan):
        out.view(np.uint32)[nan] = CANONICAL_NAN32
    return out.view(to.dtype)


def _float_to_float(
    to: PtxType, source: PtxType, mode: str, to_integer: str, ftz: bool, sat: bool, relu: bool, finite: bool
) -> Callable[[Array], Array]:
    def compute(x: Array) -> Array:
        value = _to_double(x, source, ftz)
        if to_integer:
            value = np.copysign(to_integral(value, _INTEGER_MODES[to_integer]), value)
        if to.name in _FORMATS and to.name != source.name:
            value = round_to(value, _FORMATS[to.name], mode or "rn")
        if relu:
            value = np.where(np.isnan(value) | (value > 0), value, 0.0)
        if finite:
            largest = _FORMATS[to.name].largest
            value = np.clip(value, -largest, largest)
        if sat:
            value = np.where(np.isnan(value), 0.0, np.clip(value, 0.0, 1.0) + 0.0)
        out = _held(value, to)
        if (to.name == "tf32" and mode == "rna" and not finite) or (to.name == "f32" and source.name == "f64"):
            out = _with_payload(out, x)
        return flush32(out) if ftz and to.name == "f32" else out

    return compute


def _with_payload(out: Array, x: Array) -> Array:
    """`out`, of 32 bits, where these conversions do not make NaN canonical: it keeps the operand's upper bits.

    From f64 a NaN is made quiet. From f32 it is cut to tf32, as the assembler's code does it: one that has low bits
    alone becomes an infinity.
    """
    nan = np.isnan(out.view(np.float32))
    if not np.count_nonzero(nan):
        return out
    bits = x[nan].view(UNSIGNED[x.dtype.itemsize * 8])
    if x.dtype.itemsize == 4:
        kept = bits & np.uint32(0xFFFFE000)
    else:
        sign, payload = bits >> np.uint64(63) << np.uint64(31), bits >> np.uint64(29) & np.uint64(0x3FFFFF)
        kept = (sign | payload | np.uint64(0x7FC00000)).astype(np.uint32)
    out = out.copy()
    out.view(np.uint32)[nan] = kept
    return out


def _pack_halves(ins: Instruction, kind: str, mode: str, relu: bool, finite: bool) -> Decoded:
    """cvt.*.{f16x2, bf16x2}.f32 d, a, b: a in the upper half."""
    fmt = _FORMATS[kind]
    fast = bf16_bits if kind == "bf16" else f16_bits

    def bits(x: Array) -> Array:
        if mode == "rn" and not finite:
            out = fast(x)
        else:
            value = round_to(x.astype(np.float64), fmt, mode)
            if finite:
                value = np.clip(value, -fmt.largest, fmt.largest)
            out = half_bits(value, kind)
        if relu:
            out = np.where((out & 0x8000 != 0) & ~np.isnan(x), np.uint16(0), out)
        return out

    def bind(machine: Machine) -> Step:
        d = machine.dst(ins.operands[0], TYPES["b32"])
        high, low = (machine.src(o, TYPES["f32"]) for o in ins.operands[1:3])

        def step(s: slice, m: Mask) -> None:
            both = np.concatenate((high[s], low[s]))
            out = bits(both).astype(np.uint32)
            n = len(both) // 2
            put(d, s, m, out[:n] << np.uint32(16) | out[n:])

        return step

    return Decoded(bind)


def _fp8(ins: Instruction, mods: Modifiers, to: PtxType, source: PtxType, relu: bool) -> Decoded:
    if to.name in _FP8:
        fmt, dtype, largest = _FP8[to.name]

        def encode(x: Array) -> Array:
            value = np.clip(round_to(x.astype(np.float64), fmt, "rn"), -largest, largest)
            if relu:
                value = np.where(np.isnan(value) | (value > 0), value, 0.0)
            out = value.astype(dtype).view(np.uint8)
            return np.where(np.isnan(value), np.uint8(0x7F), out).astype(np.uint16)

        def bind(machine: Machine) -> Step:
            d = machine.dst(ins.operands[0], to)
            rows = [machine.src(o, source) for o in ins.operands[1:]]

            def step(s: slice, m: Mask) -> None:
                if source.name == "f32":
                    high, low = rows[0][s], rows[1][s]
                else:
                    pair = as_float(np.ascontiguousarray(rows[0][s]).view(np.uint16), source.name[:-2]).reshape(-1, 2)
                    low, high = pair[:, 0], pair[:, 1]
                put(d, s, m, encode(high) << np.uint16(8) | encode(low))

            return step

        return Decoded(bind)
    if to.name != "f16x2":
        mods.unknown("fp8 pairs convert to f16x2 only")
    _, dtype, _ = _FP8[source.name]

    def bind_decode(machine: Machine) -> Step:
        d, a = machine.dst(ins.operands[0], TYPES["b32"]), machine.src(ins.operands[1], source)

        def step(s: slice, m: Mask) -> None:
            values = np.ascontiguousarray(a[s]).view(dtype).astype(np.float32)
            put(d, s, m, f16_bits(np.maximum(values, 0) if relu else values).view(np.uint32))

        return step

    return Decoded(bind_decode)


def _pack_integers(ins: Instruction, mods: Modifiers) -> Decoded:
    """cvt.pack.sat.{s8,u8,…}.s32.b32 d, a, b, c: a and b clamped and packed, above the bits of c."""
    mods.need("sat")
    to = mods.type("s16", "u16", "s8", "u8")
    mods.type("s32")
    if mods.left:
        mods.type("b32")
    mods.done()
    low, high = _limits(to)
    operands = mods.operands(3, 4)

    def bind(machine: Machine) -> Step:
        d = machine.dst(operands[0], TYPES["u32"])
        a, b = (machine.src(o, TYPES["s32"]) for o in operands[1:3])
        c = machine.src(operands[3], TYPES["u32"]) if len(operands) == 4 else None
        mask, width = np.uint32((1 << to.bits) - 1), np.uint32(to.bits)

        def step(s: slice, m: Mask) -> None:
            x, y = (np.clip(r[s], low, high).view(np.uint32) & mask for r in (a, b))
            out = x << width | y
            if c is not None and to.bits == 8:
                out |= c[s] << np.uint32(16)
            put(d, s, m, out)

        return step

    return Decoded(bind)


@instruction("cvta")
def convert_address(ins: Instruction) -> Decoded:
    """cvta{.to}.space: between an address in a space and the generic address."""
    mods = Modifiers(ins)
    back = mods.flag("to")
    space = mods.need("global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry")
    t = mods.type("u32", "u64")
    mods.done()
    mods.operands(2)
    window = np.uint64(WINDOWS.get(space.split("::")[0], 0))

    def bind(machine: Machine) -> Step:
        d, a = machine.dst(ins.operands[0], t), machine.src(ins.operands[1], t)

        def step(s: slice, m: Mask) -> None:
            x = a[s].astype(np.uint64)
            # Idempotent on purpose: adding a window that is there already, or taking off none, changes nothing.
            put(d, s, m, (x & ~window if back else x | window).astype(t.dtype))

        return step

    return Decoded(bind)


@instruction("isspacep")
def is_in_space(ins: Instruction) -> Decoded:
    """Whether a generic address lies in a space's window."""
    mods = Modifiers(ins)
    space = mods.need("global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry")
    mods.done()
    mods.operands(2)
    wanted = np.uint64(WINDOWS.get(space.split("::")[0], 0) >> 56)

    def bind(machine: Machine) -> Step:
        d, a = machine.dst(ins.operands[0], TYPES["pred"]), machine.src(ins.operands[1], TYPES["u64"])
        return lambda s, m: put(d, s, m, a[s] >> np.uint64(56) == wanted)

    return Decoded(bind)
