"""float32 and float64 arithmetic, exactly rounded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.emulate.ptx.approximate import approximation
from tilegen.emulate.ptx.decode import Decoded, Modifiers, instruction, map1, map2, map3, simple
from tilegen.emulate.ptx.exact64 import exact_map
from tilegen.emulate.ptx.extremum import extremum
from tilegen.emulate.ptx.module import Instruction
from tilegen.emulate.ptx.rounding import (
    F32,
    TINY32,
    Format,
    canonical32,
    flush32,
    fma32,
    round_to,
    saturate,
    to_odd,
    two_product,
    two_sum,
)
from tilegen.emulate.ptx.types import Array

_MODES = ("rn", "rz", "rm", "rp")
Function = Callable[..., Array]


def decode(ins: Instruction) -> Decoded:
    """add, sub, mul, mad, fma, min, max, abs, neg, div on f32 and f64."""
    mods = Modifiers(ins)
    if ins.opcode in ("min", "max"):
        return _extremum(ins, mods)
    if ins.opcode in ("abs", "neg"):
        return _sign(ins, mods)
    approximate = ins.opcode == "div" and bool(mods.one("approx", "full"))
    mode = "rn" if approximate else mods.one(*_MODES, default="rn")
    ftz, sat = mods.flag("ftz"), mods.flag("sat")
    t = mods.type("f32", "f64")
    mods.done()
    if t.name == "f64" and (ftz or sat or approximate):
        mods.unknown("f64 has neither .ftz, .sat nor .approx")
    name = {"mad": "fma"}.get(ins.opcode, ins.opcode)
    mods.operands(4 if name == "fma" else 3)
    f = function64(name, mode) if t.name == "f64" else function32(name, mode, ftz, sat)
    if name == "fma":
        return simple(t, ins, lambda d, a, b, c: map3(f, d, a, b, c))
    return simple(t, ins, lambda d, a, b: map2(f, d, a, b))


def function64(name: str, mode: str) -> Function:
    """A float64 operation in a rounding mode."""
    native: dict[str, Function] = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "sqrt": np.sqrt,
        "rcp": np.reciprocal,
    }
    return native[name] if mode == "rn" and name in native else exact_map(name, mode)


def function32(name: str, mode: str, ftz: bool, sat: bool) -> Function:
    """A float32 operation with rounding mode and modifiers; NaN results are canonical."""
    core = _nearest32[name] if mode == "rn" else _directed32(name, mode)
    if not ftz and not sat:
        return lambda *x: canonical32(core(*x))

    def with_modifiers(*x: Array) -> Array:
        value = core(*map(flush32, x)) if ftz else core(*x)
        if ftz:
            value = flush32(_without_subnormals(name, mode, x, value))
        return saturate(value) if sat else canonical32(value)

    return with_modifiers


def _without_subnormals(name: str, mode: str, x: tuple[Array, ...], value: Array) -> Array:
    """`value`, or 0 where a format without subnormals would round the exact result to less than the smallest normal.

    The hardware flushes what is tiny after such a rounding, not what is tiny before: 2^-126 (1 - 2^-24), which
    rounds up among subnormals, is flushed, and 2^-126 (1 - 2^-26) is not.
    """
    limit = np.abs(value) == TINY32
    if not np.count_nonzero(limit):
        return value
    wide = [flush32(v[limit]).astype(np.float64) for v in x]
    with np.errstate(all="ignore"):
        tiny = np.abs(round_to(_odd(name, wide), _UNBOUNDED, mode)) < np.float64(TINY32)
    out = value.copy()
    out[limit] = np.where(tiny, np.copysign(np.float32(0), value[limit]), value[limit])
    return out


_UNBOUNDED = Format(F32.precision, -1000, F32.emax)  # float32 with exponents as small as they come


_nearest32: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fma": fma32,
    "div": np.divide,
    "sqrt": np.sqrt,
    "rcp": np.reciprocal,
}


def _directed32(name: str, mode: str) -> Function:
    def compute(*x: Array) -> Array:
        wide = [v.astype(np.float64) for v in x]
        with np.errstate(all="ignore"):
            value = round_to(_odd(name, wide), F32, mode)
            if mode == "rm" and name in ("add", "sub", "fma"):
                value = _minus_zero(name, wide, value)
            return value.astype(np.float32)

    return compute


def _odd(name: str, x: list[Array]) -> Array:
    """The exact result of float32 operands, rounded to odd."""
    if name in ("add", "sub"):
        return to_odd(*two_sum(x[0], x[1] if name == "add" else -x[1]))
    if name == "mul":
        return x[0] * x[1]
    if name == "fma":
        return to_odd(*two_sum(x[0] * x[1], x[2]))
    if name == "sqrt":
        root = np.sqrt(x[0])
        p, rest = two_product(root, root)
        return to_odd(root, np.where(np.isfinite(root), (x[0] - p) - rest, 0.0))
    top, bottom = (np.ones_like(x[0]), x[0]) if name == "rcp" else (x[0], x[1])
    quotient = top / bottom
    p, rest = two_product(quotient, bottom)
    left = np.where(np.isfinite(quotient) & np.isfinite(bottom), (top - p) - rest, 0.0)
    return to_odd(quotient, left * np.sign(bottom))


def _minus_zero(name: str, x: list[Array], value: Array) -> Array:
    """Rounding down, an exact zero from operands of opposite sign is -0."""
    left = x[0] * x[1] if name == "fma" else x[0]
    right = x[2] if name == "fma" else (x[1] if name == "add" else -x[1])
    opposite = np.signbit(left) != np.signbit(right)
    return np.where((value == 0) & opposite & (left == -right), -0.0, value)


def _sign(ins: Instruction, mods: Modifiers) -> Decoded:
    ftz = mods.flag("ftz")
    t = mods.type("f32", "f64")
    mods.done()
    mods.operands(2)
    f: Function = np.abs if ins.opcode == "abs" else np.negative
    if ftz:
        return simple(t, ins, lambda d, a: map1(lambda x: f(flush32(x)), d, a))
    return simple(t, ins, lambda d, a: map1(f, d, a))


def _extremum(ins: Instruction, mods: Modifiers) -> Decoded:
    ftz, nan = mods.flag("ftz"), mods.flag("NaN")
    xorsign = mods.flag("xorsign")
    if xorsign and not mods.flag("abs"):
        mods.unknown(".xorsign goes with .abs")
    t = mods.type("f32", "f64")
    mods.done()
    mods.operands(3)
    f = extremum(ins.opcode == "max", nan, xorsign, t)
    if ftz:
        return simple(t, ins, lambda d, a, b: map2(lambda x, y: f(flush32(x), flush32(y)), d, a, b))
    return simple(t, ins, lambda d, a, b: map2(f, d, a, b))


@instruction("sqrt", "rcp")
def unary(ins: Instruction) -> Decoded:
    """sqrt, rcp: exactly rounded in a mode, or .approx (see approximate.py for what that means)."""
    mods = Modifiers(ins)
    approx = mods.flag("approx")
    mode = "rn" if approx else mods.need(*_MODES)
    ftz = mods.flag("ftz")
    t = mods.type("f32", "f64")
    mods.done()
    mods.operands(2)
    if approx:
        f = approximation(ins.opcode, ftz, t)
    elif t.name == "f64":
        f = function64(ins.opcode, mode)
    else:
        f = function32(ins.opcode, mode, ftz, False)
    return simple(t, ins, lambda d, a: map1(f, d, a))
