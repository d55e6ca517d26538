"""Opcodes that exist for integers and for floating point: the type decides."""

from __future__ import annotations

from tilegen.emulate.ptx import floating, half, integer
from tilegen.emulate.ptx.decode import Decoded, instruction
from tilegen.emulate.ptx.module import Instruction
from tilegen.emulate.ptx.types import TYPES

_HALVES = {"f16", "bf16", "f16x2", "bf16x2"}


@instruction("add", "sub", "mul", "mad", "fma", "min", "max", "abs", "neg", "div")
def arithmetic(ins: Instruction) -> Decoded:
    """Hand on to the family of the instruction's type."""
    kinds = [name for name in ins.modifiers if name in TYPES]
    if kinds and kinds[-1] in _HALVES:
        return half.decode(ins)
    if kinds and TYPES[kinds[-1]].kind == "f":
        return floating.decode(ins)
    return integer.decode(ins)
