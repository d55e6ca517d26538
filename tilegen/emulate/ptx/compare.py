"""setp, set, selp, slct, testp, copysign."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.decode import Decoded, Mask, Modifiers, Step, instruction, put
from tilegen.emulate.ptx.half import as_float, flush_half
from tilegen.emulate.ptx.module import Instruction, Operand, Pair, Sink
from tilegen.emulate.ptx.rounding import flush32
from tilegen.emulate.ptx.types import TYPES, UNSIGNED, Array, PtxType

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

_ORDERED: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
_UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}
_COMPARISONS = (*_ORDERED, *_UNORDERED, "num", "nan")
_BOOLEAN: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def comparison(name: str, floating: bool) -> Callable[[Array, Array], Array]:
    """The comparison as a function on vectors."""
    if name == "num":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if name == "nan":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    if name in _UNORDERED:
        f = _ORDERED[_UNORDERED[name]]
        return lambda a, b: f(a, b) | np.isnan(a) | np.isnan(b)
    if name == "ne" and floating:
        return lambda a, b: np.not_equal(a, b) & ~(np.isnan(a) | np.isnan(b))
    return _ORDERED[name]


def _reader(machine: Machine, operand: Operand, t: PtxType, ftz: bool) -> Callable[[slice], Array]:
    row = machine.src(operand, t)
    if t.bits == 16 and t.kind == "f":
        kind = t.name
        return lambda s: flush_half(as_float(row[s], kind), kind) if ftz else as_float(row[s], kind)
    if ftz:
        return lambda s: flush32(row[s])
    return lambda s: row[s]


@instruction("setp", "set")
def compare(ins: Instruction) -> Decoded:
    """Comparison to a predicate (or two), or to a word; combined with a third predicate by .and, .or or .xor."""
    mods = Modifiers(ins)
    name = mods.need(*_COMPARISONS)
    combine = mods.one(*_BOOLEAN)
    ftz = mods.flag("ftz")
    result = TYPES["pred"] if ins.opcode == "setp" else mods.type("u32", "s32", "f32", "b32")
    t = mods.type()
    mods.done()
    if t.kind == "x2":
        return _packed(ins, mods, name, combine, ftz, t)
    floating = t.kind == "f"
    if ftz and not floating:
        mods.unknown(".ftz is for floating point")
    destination, left, right, *third = mods.operands(4 if combine else 3)
    f = comparison(name, floating)

    def bind(machine: Machine) -> Step:
        first = destination.first if isinstance(destination, Pair) else destination
        d = machine.dst(first, result)
        second = None
        if isinstance(destination, Pair) and not isinstance(destination.second, Sink):
            second = machine.dst(destination.second, result)
        a, b = _reader(machine, left, t, ftz), _reader(machine, right, t, ftz)
        if result.kind == "pred" and not combine and second is None and not ftz and name in _ORDERED and not floating:
            x, y, g = machine.src(left, t), machine.src(right, t), _ORDERED[name]

            def plain(s: slice, m: Mask) -> None:
                if m is None:
                    d[s] = g(x[s], y[s])
                else:
                    np.copyto(d[s], g(x[s], y[s]), where=m)

            return plain
        c, negated = machine.predicate(third[0]) if third else (np.empty(0, np.bool_), False)

        def step(s: slice, m: Mask) -> None:
            value = f(a(s), b(s))
            other = ~value
            if combine:
                with_c = c[s] ^ negated
                value, other = _BOOLEAN[combine](value, with_c), _BOOLEAN[combine](other, with_c)
            if result.kind == "pred":
                put(d, s, m, value)
                if second is not None:
                    put(second, s, m, other)
            elif result.kind == "f":
                put(d, s, m, value.astype(np.float32))
            else:
                put(d, s, m, np.where(value, -1, 0).astype(np.int32).view(result.dtype))

        return step

    return Decoded(bind)


def _packed(ins: Instruction, mods: Modifiers, name: str, combine: str, ftz: bool, t: PtxType) -> Decoded:
    """setp on f16x2 and bf16x2: one predicate for each half."""
    if ins.opcode == "set" or t.name not in ("f16x2", "bf16x2"):
        mods.unknown("packed comparisons give predicates, of f16x2 or bf16x2")
    destination, left, right, *third = mods.operands(4 if combine else 3)
    f, kind = comparison(name, True), t.name[:-2]
    if not isinstance(destination, Pair):
        mods.unknown("it needs two destinations, p|q")

    def bind(machine: Machine) -> Step:
        rows = [machine.dst(o, TYPES["pred"]) for o in (destination.first, destination.second)]
        a, b = machine.src(left, t), machine.src(right, t)
        c, negated = machine.predicate(third[0]) if third else (np.empty(0, np.bool_), False)

        def step(s: slice, m: Mask) -> None:
            x = as_float(np.ascontiguousarray(a[s]).view(np.uint16), kind)
            y = as_float(np.ascontiguousarray(b[s]).view(np.uint16), kind)
            if ftz:
                x, y = flush_half(x, kind), flush_half(y, kind)
            value = f(x, y).reshape(-1, 2)
            for half, row in enumerate(rows):
                out = value[:, half]
                put(row, s, m, _BOOLEAN[combine](out, c[s] ^ negated) if combine else out)

        return step

    return Decoded(bind)


@instruction("selp")
def select(ins: Instruction) -> Decoded:
    """a where the predicate holds, else b."""
    mods = Modifiers(ins)
    t = mods.type()
    mods.done()
    destination, left, right, predicate = mods.operands(4)
    raw = TYPES[f"b{t.bits}"]

    def bind(machine: Machine) -> Step:
        d = machine.dst(destination, raw)
        a, b = (machine.src(o, t).view(raw.dtype) for o in (left, right))
        p, negated = machine.predicate(predicate)
        if negated:
            a, b = b, a

        def step(s: slice, m: Mask) -> None:
            put(d, s, m, np.where(p[s], a[s], b[s]))

        return step

    return Decoded(bind)


@instruction("slct")
def select_by_sign(ins: Instruction) -> Decoded:
    """a where c >= 0, else b."""
    mods = Modifiers(ins)
    ftz = mods.flag("ftz")
    t = mods.type()
    by = mods.type("s32", "f32")
    mods.done()
    destination, left, right, sign = mods.operands(4)
    raw = TYPES[f"b{t.bits}"]

    def bind(machine: Machine) -> Step:
        d = machine.dst(destination, raw)
        a, b = (machine.src(o, t).view(raw.dtype) for o in (left, right))
        c = _reader(machine, sign, by, ftz)
        return lambda s, m: put(d, s, m, np.where(c(s) >= 0, a[s], b[s]))

    return Decoded(bind)


@instruction("testp")
def test_property(ins: Instruction) -> Decoded:
    """A property of a float."""
    mods = Modifiers(ins)
    name = mods.need("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    t = mods.type("f32", "f64")
    mods.done()
    destination, source = mods.operands(2)
    tiny = np.finfo(t.dtype).tiny
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= tiny),
        "subnormal": lambda x: (np.abs(x) < tiny) & (x != 0),
    }

    def bind(machine: Machine) -> Step:
        d, a = machine.dst(destination, TYPES["pred"]), machine.src(source, t)
        return lambda s, m: put(d, s, m, tests[name](a[s]))

    return Decoded(bind)


@instruction("copysign")
def copy_sign(ins: Instruction) -> Decoded:
    """The sign of a on b."""
    mods = Modifiers(ins)
    t = mods.type("f32", "f64")
    mods.done()
    destination, sign, magnitude = mods.operands(3)
    raw = TYPES[f"b{t.bits}"]
    top = UNSIGNED[t.bits].type(1 << t.bits - 1)

    def bind(machine: Machine) -> Step:
        d = machine.dst(destination, raw)
        a, b = (machine.src(o, t).view(raw.dtype) for o in (sign, magnitude))
        return lambda s, m: put(d, s, m, (a[s] & top) | (b[s] & ~top))

    return Decoded(bind)
