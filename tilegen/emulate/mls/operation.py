"""Instructions made ready to run: what each does, and which registers it reads and writes, as masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilegen.emulate.mls import lanes, matrix, scalar, vector
from tilegen.emulate.mls.expect import Expectation
from tilegen.emulate.mls.memory import PagedMemory, Tensor
from tilegen.emulate.mls.scalar import Run
from tilegen.emulate.mls.wave import EXEC, SCC, VCC, register_masks
from tilegen.syntax.span import Span
from tilegen.targets.mls import isa
from tilegen.targets.mls.program import SGPR, VGPR, Coordinate, Instruction, Program

_IMPLICIT = {"scc": 1 << SCC, "exec": 1 << EXEC, "vcc": 3 << VCC}
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Context:
    """What the instructions of a launch share."""

    program: Program
    memory: PagedMemory
    tensors: dict[str, Tensor]

    def tensor(self, instruction: Instruction) -> Tensor | None:
        """The tensor that its braces name."""
        access = instruction.access
        return self.tensors[access.tensor] if access is not None and access.tensor else None

    def expectation(
        self, instruction: Instruction, line: _Ints, run: _Ints, byte: _Ints, lanes: _Ints | None
    ) -> Expectation | None:
        """What its braces say of each pair of bytes that it moves: line, run and byte inside the element of each."""
        tensor = self.tensor(instruction)
        if tensor is None or instruction.access is None:
            return None
        return Expectation(instruction.access, tensor, line, run, byte, lanes)


@dataclass(frozen=True)
class Operation:
    """One instruction. run: None for control, which the group executes. read_*, written_*: masks of registers.
    target: index of the operation that a branch leads to."""

    instruction: Instruction
    opcode: isa.Opcode
    span: Span
    run: Run | None
    read_s: int
    read_v: int
    written_s: int
    written_v: int
    target: int = -1


def ready(instruction: Instruction, span: Span, target: int, context: Context) -> Operation:
    """`target` is the index of the operation behind the label of a branch, -1 for others."""
    opcode = isa.OPCODES[instruction.name]
    read_s, read_v, written_s, written_v = register_sets(instruction)
    return Operation(
        instruction, opcode, span, _run(instruction, opcode, context, span.line), read_s, read_v, written_s, written_v,
        target,
    )  # fmt: skip


def register_sets(instruction: Instruction) -> tuple[int, int, int, int]:
    """Masks of what an instruction reads and writes: scalars read, vectors read, scalars written, vectors written.
    What its braces name is read."""
    opcode = isa.OPCODES[instruction.name]
    read_s = read_v = written_s = written_v = 0
    for operand, form in zip(instruction.operands, opcode.forms, strict=True):
        s, v = register_masks(operand)
        if form.written:
            written_s, written_v = written_s | s, written_v | v
        else:
            read_s, read_v = read_s | s, read_v | v
    for name in opcode.reads:
        read_s |= _IMPLICIT[name]
    for name in opcode.writes:
        written_s |= _IMPLICIT[name]
    for coordinate in instruction.access.coordinates if instruction.access else ():
        s, v = _named(coordinate)
        read_s, read_v = read_s | s, read_v | v
    return read_s, read_v, written_s, written_v


def _named(coordinate: Coordinate) -> tuple[int, int]:
    read_s = read_v = 0
    for named in (*(p.of for p in coordinate.parts), coordinate.limit):
        if isinstance(named, SGPR | VGPR):
            s, v = register_masks(named)
            read_s, read_v = read_s | s, read_v | v
    return read_s, read_v


def _run(instruction: Instruction, opcode: isa.Opcode, context: Context, line: int) -> Run | None:
    match opcode.unit:
        case isa.SALU:
            return scalar.build(instruction)
        case isa.SMEM:
            return scalar.build_load(instruction, context, line)
        case isa.VALU:
            return vector.build(instruction)
        case isa.MATRIX:
            return matrix.build_product(instruction)
        case isa.MLS:
            return matrix.MatrixLoad(instruction, context, line)
        case isa.LDS_MATRIX:
            return matrix.build_read(instruction, context, line)
        case isa.LDS:
            return lanes.build_lds(instruction, context, line)
        case isa.GLOBAL:
            return lanes.build_global(instruction, context, line)
    return None
