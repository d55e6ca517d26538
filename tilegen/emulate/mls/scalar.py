"""Scalar instructions: functions of the wave they run in."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilegen.diagnostics.catalogue import Code
from tilegen.emulate.mls.faults import FaultError
from tilegen.emulate.mls.wave import EXEC, FULL, Outstanding, Wave, register_masks, scalar_index
from tilegen.targets.mls.program import SGPR, Float, Instruction, Int, Operand

if TYPE_CHECKING:
    from tilegen.emulate.mls.operation import Context

Run = Callable[[Wave], None]
_Source = Callable[[Wave], int]
_LOW = 0xFFFFFFFF


def literal(operand: Operand) -> int:
    """A literal as a 32-bit pattern."""
    match operand:
        case Int(value):
            return value & _LOW
        case Float(value):
            pattern: int = struct.unpack("<I", struct.pack("<f", value))[0]
            return pattern
    raise AssertionError(operand)


def scalar(operand: Operand) -> _Source:
    """A 32-bit scalar source."""
    index = scalar_index(operand)
    if index < 0:
        value = literal(operand)
        return lambda w: value
    return lambda w: w.s[index]


def wide(operand: Operand) -> _Source:
    """A 64-bit scalar source; a literal is sign-extended."""
    index = scalar_index(operand)
    if index < 0:
        assert isinstance(operand, Int)
        value = operand.value & FULL
        return lambda w: value
    return lambda w: w.mask(index)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


# name: (a, b, scc) to the result before it is cut to 32 bits, and the new scc (None: kept)
_Function = Callable[[int, int, int], "tuple[int, int | None]"]


def _overflow(value: int) -> int:
    return int(not -(1 << 31) <= value < 1 << 31)


def _add_signed(a: int, b: int, _: int) -> tuple[int, int]:
    total = _signed(a) + _signed(b)
    return total, _overflow(total)


def _sub_signed(a: int, b: int, _: int) -> tuple[int, int]:
    total = _signed(a) - _signed(b)
    return total, _overflow(total)


def _nonzero(function: Callable[[int, int], int]) -> _Function:
    def run(a: int, b: int, _: int) -> tuple[int, int]:
        value = function(a, b) & _LOW
        return value, int(value != 0)

    return run


def _choice(first: Callable[[int, int], bool]) -> _Function:
    def run(a: int, b: int, _: int) -> tuple[int, int]:
        taken = first(a, b)
        return (a if taken else b), int(taken)

    return run


_BINARY: dict[str, _Function] = {
    "s_add_u32": lambda a, b, c: (a + b, (a + b) >> 32),
    "s_addc_u32": lambda a, b, c: (a + b + c, (a + b + c) >> 32),
    "s_sub_u32": lambda a, b, c: (a - b, int(a < b)),
    "s_subb_u32": lambda a, b, c: (a - b - c, int(a < b + c)),
    "s_add_i32": _add_signed,
    "s_sub_i32": _sub_signed,
    "s_mul_i32": lambda a, b, c: (a * b, None),
    "s_mul_hi_u32": lambda a, b, c: (a * b >> 32, None),
    "s_mul_hi_i32": lambda a, b, c: (_signed(a) * _signed(b) >> 32, None),
    "s_lshl_b32": _nonzero(lambda a, b: a << (b & 31)),
    "s_lshr_b32": _nonzero(lambda a, b: a >> (b & 31)),
    "s_ashr_i32": _nonzero(lambda a, b: _signed(a) >> (b & 31)),
    "s_and_b32": _nonzero(operator.and_),
    "s_or_b32": _nonzero(operator.or_),
    "s_xor_b32": _nonzero(operator.xor),
    "s_min_i32": _choice(lambda a, b: _signed(a) < _signed(b)),
    "s_max_i32": _choice(lambda a, b: _signed(a) > _signed(b)),
    "s_min_u32": _choice(operator.lt),
    "s_max_u32": _choice(operator.gt),
    "s_cselect_b32": lambda a, b, c: (a if c else b, None),
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "lg": operator.ne, "gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le,
}  # fmt: skip
_WIDE: dict[str, Callable[[int, int], int]] = {
    "s_and_b64": operator.and_,
    "s_or_b64": operator.or_,
    "s_xor_b64": operator.xor,
    "s_andn2_b64": lambda a, b: a & ~b & FULL,
}


def build(instruction: Instruction) -> Run:
    """What a scalar instruction does."""
    name, operands = instruction.name, instruction.operands
    if name == "s_mov_b32":
        return _mov(scalar_index(operands[0]), scalar(operands[1]))
    if name == "s_mov_b64":
        return _mov_wide(scalar_index(operands[0]), wide(operands[1]))
    if name in _WIDE:
        return _mask_logic(scalar_index(operands[0]), wide(operands[1]), wide(operands[2]), _WIDE[name])
    if name == "s_and_saveexec_b64":
        return _save_exec(scalar_index(operands[0]), wide(operands[1]))
    if name.startswith("s_cmp_"):
        _, _, relation, kind = name.split("_")
        return _compare(scalar(operands[0]), scalar(operands[1]), _COMPARE[relation], kind == "i32")
    return _binary(scalar_index(operands[0]), scalar(operands[1]), scalar(operands[2]), _BINARY[name])


def _mov(to: int, of: _Source) -> Run:
    def run(w: Wave) -> None:
        w.s[to] = of(w)

    return run


def _mov_wide(to: int, of: _Source) -> Run:
    return lambda w: w.set_mask(to, of(w))


def _binary(to: int, a: _Source, b: _Source, function: _Function) -> Run:
    def run(w: Wave) -> None:
        value, scc = function(a(w), b(w), w.scc)
        w.s[to] = value & _LOW
        if scc is not None:
            w.scc = scc

    return run


def _compare(a: _Source, b: _Source, relation: Callable[[int, int], bool], signed: bool) -> Run:
    def run(w: Wave) -> None:
        left, right = a(w), b(w)
        w.scc = int(relation(_signed(left), _signed(right)) if signed else relation(left, right))

    return run


def _mask_logic(to: int, a: _Source, b: _Source, function: Callable[[int, int], int]) -> Run:
    def run(w: Wave) -> None:
        value = function(a(w), b(w))
        w.set_mask(to, value)
        w.scc = int(value != 0)

    return run


def _save_exec(to: int, of: _Source) -> Run:
    def run(w: Wave) -> None:
        old, new = w.exec, w.exec & of(w)
        w.set_mask(to, old)
        w.set_mask(EXEC, new)
        w.scc = int(new != 0)

    return run


def build_load(instruction: Instruction, context: Context, line: int) -> Run:
    """s_load_dword and its wider forms."""
    to, base, offset = instruction.operands
    assert isinstance(to, SGPR)
    assert isinstance(base, SGPR)
    count, first, source = to.count, to.index, scalar(offset)
    scalars, _ = register_masks(to)

    def run(w: Wave) -> None:
        address = w.pair(base.index) + source(w)
        if address % 4:
            raise FaultError(Code.MLS_BAD_ACCESS, f"a scalar load at {address:#x}, which is no multiple of 4")
        addresses = address + 2 * np.arange(2 * count, dtype=np.int64)
        tensor = context.memory.locate(addresses, 2)
        words = tensor.halves(addresses).view(np.uint32)
        w.s[first : first + count] = words.tolist()
        w.issue("lgkm", Outstanding(scalars, 0, 0, True, line))

    return run
