"""Vector arithmetic: functions of the wave they run in, over its 64 lanes."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.emulate.mls.scalar import Run, literal, scalar
from tilegen.emulate.mls.wave import Wave, bits_of, lane_bits, scalar_index
from tilegen.targets.mls import isa
from tilegen.targets.mls.program import SGPR, VGPR, Float, Instruction, Int, Operand, Signed

Value = Any  # a row of 64 lanes, or one value for all
Source = Callable[[Wave], Value]
_Result = Callable[[Operand, Source], Run]
_LANE = np.arange(isa.LANES)


def floats(operand: Operand) -> Source:
    """A float source, as f32."""
    match operand:
        case VGPR(index, _):
            return lambda w: w.vf[index]
        case SGPR(index, _):
            return lambda w: w.number(index)
        case Float() | Int():
            value = np.uint32(literal(operand)).view(np.float32)
            return lambda w: value
        case Signed(of, negative, magnitude):
            return _signed(floats(of), negative, magnitude)
    raise AssertionError(operand)


def _signed(of: Source, negative: bool, magnitude: bool) -> Source:
    match negative, magnitude:
        case True, True:
            return lambda w: -np.abs(of(w))
        case True, False:
            return lambda w: -of(w)
        case False, True:
            return lambda w: np.abs(of(w))
    return of


def patterns(operand: Operand) -> Source:
    """A source as 32-bit patterns, unsigned."""
    match operand:
        case VGPR(index, _):
            return lambda w: w.v[index]
        case SGPR(index, _):
            return lambda w: np.uint32(w.s[index])
    value = np.uint32(literal(operand))
    return lambda w: value


def integers(operand: Operand) -> Source:
    """A source as signed 32-bit numbers."""
    match operand:
        case VGPR(index, _):
            return lambda w: w.vi[index]
        case SGPR(index, _):
            return lambda w: np.int32(w.signed(index))
    value = np.uint32(literal(operand)).view(np.int32)
    return lambda w: value


# ---- results ----


def _into(registers: Callable[[Wave], Value]) -> _Result:
    """What writes a vector register, of the lanes that EXEC leaves on, in one of the views of the file."""

    def to(operand: Operand, value: Source) -> Run:
        assert isinstance(operand, VGPR)
        index = operand.index

        def run(w: Wave) -> None:
            if w.full:
                registers(w)[index] = value(w)
            else:
                np.copyto(registers(w)[index], value(w), where=w.lanes)

        return run

    return to


_to_floats = _into(attrgetter("vf"))
_to_patterns = _into(attrgetter("v"))


def _to_mask(operand: Operand, value: Source) -> Run:
    index = scalar_index(operand)

    def run(w: Wave) -> None:
        bits = bits_of(np.broadcast_to(value(w), isa.LANES))
        w.set_mask(index, bits & w.exec)

    return run


# ---- floats ----


def _wide(value: Value) -> Value:
    return np.float64(value) if np.ndim(value) == 0 else value.astype(np.float64)


def _fma(a: Value, b: Value, c: Value) -> Value:
    return (_wide(a) * _wide(b) + _wide(c)).astype(np.float32)


_FLOAT2: dict[str, Callable[[Value, Value], Value]] = {
    "v_add_f32": np.add, "v_sub_f32": np.subtract, "v_mul_f32": np.multiply, "v_max_f32": np.fmax,
    "v_min_f32": np.fmin,
}  # fmt: skip


def _in_double(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    return lambda a: function(_wide(a)).astype(np.float32)


_FLOAT1: dict[str, Callable[[Value], Value]] = {
    "v_exp_f32": _in_double(np.exp2),
    "v_log_f32": _in_double(np.log2),
    "v_rcp_f32": _in_double(np.reciprocal),
    "v_sqrt_f32": _in_double(np.sqrt),
    "v_rsq_f32": _in_double(lambda a: 1.0 / np.sqrt(a)),
    "v_tanh_f32": _in_double(np.tanh),
    "v_floor_f32": np.floor,
}
_COMPARE_FLOATS: dict[str, Callable[[Value, Value], Value]] = {
    "eq": np.equal,
    "neq": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
}


def bf16_bits(value: Value) -> Value:
    """f32 rounded to bf16, to nearest even, in the low half of 32 bits."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    rounded = (bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
    return np.where(np.isnan(value), (bits >> np.uint32(16)) | np.uint32(0x40), rounded)


def f16_bits(value: Value) -> Value:
    """f32 rounded to f16, to nearest even, in the low half of 32 bits."""
    return np.asarray(value, np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)


def _from_f16(bits: Value) -> Value:
    return np.asarray(bits & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32)


def _from_bf16(bits: Value) -> Value:
    return np.asarray(bits << np.uint32(16)).view(np.float32)


def _to_i32(value: Value) -> Value:
    wide = np.nan_to_num(np.trunc(_wide(value)), nan=0.0)
    return np.clip(wide, -(2.0**31), 2.0**31 - 1).astype(np.int32).view(np.uint32)


# ---- whole numbers ----


def _mul_hi(a: Value, b: Value) -> Value:
    return ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)


_UNSIGNED2: dict[str, Callable[[Value, Value], Value]] = {
    "v_add_u32": np.add,
    "v_sub_u32": np.subtract,
    "v_mul_lo_u32": np.multiply,
    "v_mul_hi_u32": _mul_hi,
    "v_and_b32": np.bitwise_and,
    "v_or_b32": np.bitwise_or,
    "v_xor_b32": np.bitwise_xor,
    "v_lshlrev_b32": lambda a, b: b << (a & np.uint32(31)),
    "v_lshrrev_b32": lambda a, b: b >> (a & np.uint32(31)),
    "v_min_u32": np.minimum,
    "v_max_u32": np.maximum,
}
_SIGNED2: dict[str, Callable[[Value, Value], Value]] = {
    "v_ashrrev_i32": lambda a, b: b >> (a & np.int32(31)),
    "v_min_i32": np.minimum,
    "v_max_i32": np.maximum,
}
_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "eq": np.equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal,
}  # fmt: skip


def build(instruction: Instruction) -> Run:
    """What a vector instruction does."""
    name, operands = instruction.name, instruction.operands
    to, *sources = operands
    if name in _FLOAT2:
        return _two(_to_floats, to, _FLOAT2[name], floats(sources[0]), floats(sources[1]))
    if name in _FLOAT1:
        return _one(_to_floats, to, _FLOAT1[name], floats(sources[0]))
    if name in _UNSIGNED2:
        return _two(_to_patterns, to, _UNSIGNED2[name], patterns(sources[0]), patterns(sources[1]))
    if name in _SIGNED2:
        function = _SIGNED2[name]
        return _two(
            _to_patterns, to, lambda a, b: np.asarray(function(a, b)).view(np.uint32), integers(sources[0]),
            integers(sources[1]),
        )  # fmt: skip
    if name.startswith("v_cmp_"):
        _, _, relation, kind = name.split("_")
        if kind == "f32":
            return _two(_to_mask, to, _COMPARE_FLOATS[relation], floats(sources[0]), floats(sources[1]))
        of = integers if kind == "i32" else patterns
        return _two(_to_mask, to, _COMPARE[relation], of(sources[0]), of(sources[1]))
    return _OTHERS[name](instruction)


def _one(result: _Result, to: Operand, function: Callable[[Value], Value], a: Source) -> Run:
    return result(to, lambda w: function(a(w)))


def _two(
    result: _Result,
    to: Operand,
    function: Callable[[Value, Value], Value],
    a: Source,
    b: Source,
) -> Run:
    return result(to, lambda w: function(a(w), b(w)))


def _three_floats(instruction: Instruction) -> Run:
    to, *sources = instruction.operands
    a, b, c = map(floats, sources)
    return _to_floats(to, lambda w: _fma(a(w), b(w), c(w)))


def _mov(instruction: Instruction) -> Run:
    to, of = instruction.operands
    return _to_patterns(to, patterns(of))


def _rotate(instruction: Instruction) -> Run:
    to, of = instruction.operands
    amount = instruction.modifier("row_ror") or 0
    take = (_LANE & ~15) | ((_LANE - amount) & 15)
    value = patterns(of)
    return _to_patterns(to, lambda w: value(w)[take])


def _pack(bits: Callable[[Value], Value]) -> Callable[[Instruction], Run]:
    def build_pack(instruction: Instruction) -> Run:
        to, first, second = instruction.operands
        a, b = floats(first), floats(second)
        return _to_patterns(to, lambda w: bits(a(w)) | (bits(b(w)) << np.uint32(16)))

    return build_pack


def _convert(
    function: Callable[[Value], Value], of: Callable[[Operand], Source], floating: bool
) -> Callable[[Instruction], Run]:
    def build_convert(instruction: Instruction) -> Run:
        to, source = instruction.operands
        return _one(_to_floats if floating else _to_patterns, to, function, of(source))

    return build_convert


def _select(instruction: Instruction) -> Run:
    to, first, second, mask = instruction.operands
    a, b, index = patterns(first), patterns(second), scalar_index(mask)
    return _to_patterns(to, lambda w: np.where(lane_bits(w.mask(index)), b(w), a(w)))


def _carrying(instruction: Instruction) -> Run:
    """v_add_co_u32, v_addc_co_u32."""
    to, carry_out, first, second, *carry_in = instruction.operands
    a, b = patterns(first), patterns(second)
    index, out = scalar_index(carry_in[0]) if carry_in else -1, scalar_index(carry_out)

    def total(w: Wave) -> npt.NDArray[np.uint64]:
        value = a(w).astype(np.uint64) + b(w).astype(np.uint64)
        if carry_in:
            value = value + lane_bits(w.mask(index)).astype(np.uint64)
        return np.broadcast_to(value, isa.LANES)

    return _with_carry(to, out, total)


def _mad(instruction: Instruction) -> Run:
    to, carry_out, first, second, third = instruction.operands
    assert isinstance(to, VGPR)
    assert isinstance(third, VGPR)
    a, b, low, high = patterns(first), patterns(second), third.index, to.index
    out = scalar_index(carry_out)

    def run(w: Wave) -> None:
        product = a(w).astype(np.uint64) * b(w).astype(np.uint64)
        addend = w.v[low].astype(np.uint64) | (w.v[low + 1].astype(np.uint64) << np.uint64(32))
        total = product + addend
        np.copyto(w.v[high], total.astype(np.uint32), where=w.lanes)
        np.copyto(w.v[high + 1], (total >> np.uint64(32)).astype(np.uint32), where=w.lanes)
        w.set_mask(out, bits_of(total < addend) & w.exec)

    return run


def _with_carry(to: Operand, out: int, total: Callable[[Wave], npt.NDArray[np.uint64]]) -> Run:
    assert isinstance(to, VGPR)
    index = to.index

    def run(w: Wave) -> None:
        value = total(w)
        np.copyto(w.v[index], value.astype(np.uint32), where=w.lanes)
        w.set_mask(out, bits_of(value >> np.uint64(32) != 0) & w.exec)

    return run


def _first_lane(instruction: Instruction) -> Run:
    to, of = instruction.operands
    assert isinstance(of, VGPR)
    index, row = scalar_index(to), of.index

    def run(w: Wave) -> None:
        lane = (w.exec & -w.exec).bit_length() - 1 if w.exec else 0
        w.s[index] = int(w.v[row, lane])

    return run


def _lane(instruction: Instruction) -> Run:
    to, of, which = instruction.operands
    assert isinstance(of, VGPR)
    index, row, lane = scalar_index(to), of.index, scalar(which)

    def run(w: Wave) -> None:
        w.s[index] = int(w.v[row, lane(w) % isa.LANES])

    return run


_OTHERS: dict[str, Callable[[Instruction], Run]] = {
    "v_mov_b32": _mov,
    "v_mov_b32_dpp": _rotate,
    "v_fma_f32": _three_floats,
    "v_cvt_pk_f16_f32": _pack(f16_bits),
    "v_cvt_pk_bf16_f32": _pack(bf16_bits),
    "v_cvt_f32_f16": _convert(_from_f16, patterns, True),
    "v_cvt_f32_bf16": _convert(_from_bf16, patterns, True),
    "v_cvt_f32_i32": _convert(lambda a: a.astype(np.float32), integers, True),
    "v_cvt_f32_u32": _convert(lambda a: a.astype(np.float32), patterns, True),
    "v_cvt_i32_f32": _convert(_to_i32, floats, False),
    "v_add_co_u32": _carrying,
    "v_addc_co_u32": _carrying,
    "v_mad_u64_u32": _mad,
    "v_cndmask_b32": _select,
    "v_readfirstlane_b32": _first_lane,
    "v_readlane_b32": _lane,
}
