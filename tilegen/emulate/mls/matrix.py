"""Matrix loads, matrix reads and matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tilegen.diagnostics.catalogue import Code
from tilegen.emulate.mls.faults import FaultError
from tilegen.emulate.mls.judge import judge_load, judge_read
from tilegen.emulate.mls.lds import FILLED
from tilegen.emulate.mls.scalar import Run
from tilegen.emulate.mls.wave import Outstanding, Wave, register_masks, scalar_index
from tilegen.targets.mls import isa
from tilegen.targets.mls.program import SGPR, VGPR, Instruction

if TYPE_CHECKING:
    from tilegen.emulate.mls.operation import Context

_LANE = np.arange(isa.LANES)
_GROUP, _COLUMN = _LANE // 16, _LANE % 16
_ELEMENT = np.arange(4)[:, None]
_HIGH = np.uint32(16)


class _Pattern:
    """Pairs of bytes that a matrix load moves: line, position and byte in the element of each, and where it goes."""

    def __init__(self, shape: isa.TileShape) -> None:
        pairs = shape.element_bytes // 2
        line, position, byte = np.meshgrid(
            np.arange(shape.lines), np.arange(shape.run), 2 * np.arange(pairs), indexing="ij"
        )
        self.line, self.run, self.byte = line.ravel(), position.ravel(), byte.ravel()
        place = np.vectorize(shape.place)
        self.place = (place(self.line, self.run) + self.byte) >> 1


_PATTERNS = {name: _Pattern(shape) for name, shape in isa.SHAPES.items()}


class MatrixLoad:
    """matrix_load_*"""

    def __init__(self, instruction: Instruction, context: Context, text_line: int) -> None:
        rsrc, at = instruction.operands
        assert isinstance(rsrc, SGPR)
        self._shape, self._pattern = isa.SHAPES[instruction.name], _PATTERNS[instruction.name]
        self._moved = instruction.modifier("moffset") or 0
        self._along_lines = "r" in instruction.words
        self._descriptor, self._at = rsrc.index, scalar_index(at)
        pattern = self._pattern
        self._expectation = context.expectation(instruction, pattern.line, pattern.run, pattern.byte, None)
        self._memory = context.memory
        self._line = text_line

    def __call__(self, w: Wave) -> None:
        shape, pattern, lds = self._shape, self._pattern, w.group.lds
        address = w.s[self._at]
        if address % isa.PART_BYTES:
            raise FaultError(Code.MLS_BAD_ACCESS, f"LDS address {address} is no multiple of {isa.PART_BYTES}")
        lds.check_range(address, address + shape.bytes)
        start, stride, lines_cut, run_cut = self._read_descriptor(w)
        at = pattern.place + (address >> 1)
        event = lds.begin(w.index, self._line, True)
        lds.claim(w.index, w.barriers, event, at, True)
        values = np.zeros(len(at), np.uint16)
        origins = np.full(len(at), FILLED, np.int64)
        if run_cut >= shape.run or lines_cut >= shape.lines:
            self._touch(w, start, lines_cut, run_cut)
        else:
            kept = None
            if run_cut or lines_cut:
                kept = (pattern.run < shape.run - run_cut) & (pattern.line < shape.lines - lines_cut)
            sources = start + (pattern.line * stride + pattern.run) * shape.element_bytes + pattern.byte
            if self._expectation is not None:
                judge_load(self._expectation, w, kept, sources)
            where = slice(None) if kept is None else kept
            origins[where] = sources[where]
            values[where] = self._memory.locate(sources[where], 2).halves(sources[where])
        w.group.send(w, event, at, values, origins)
        w.issue("vm", Outstanding(0, 0, event, False, self._line))

    def _read_descriptor(self, w: Wave) -> tuple[int, int, int, int]:
        """Address of the tile's first element, stride in elements, lines and positions that are filtered."""
        low, high, stride, filters = w.s[self._descriptor : self._descriptor + 4]
        if high >> 16 or filters >> 16:
            words = f"{high:#x} and {filters:#x}"
            raise FaultError(Code.MLS_BAD_ACCESS, f"descriptor words 1 and 3 are {words}: bits 31:16 must be 0")
        base = low | high << 32
        if base % isa.PART_BYTES:
            raise FaultError(Code.MLS_BAD_ACCESS, f"the descriptor's base {base:#x} is no multiple of {isa.PART_BYTES}")
        start = base + self._moved * self._shape.element_bytes * (stride if self._along_lines else 1)
        return start, stride, filters >> 8 & 0xFF, filters & 0xFF

    def _touch(self, w: Wave, start: int, lines_cut: int, run_cut: int) -> None:
        """A load that brings nothing translates its base all the same."""
        if self._memory.mapped(start) and self._memory.mapped(start + isa.PART_BYTES - 1):
            return
        element = f"{self._expectation.element(w, 0)}: " if self._expectation is not None else ""
        cut = f"{lines_cut} of {self._shape.lines} lines, {run_cut} of {self._shape.run} positions"
        raise FaultError(
            Code.MLS_TAIL,
            f"{element}the filter ({cut}) removes everything, and the load still touches its base, {start:#x}, "
            f"whose page is not mapped; {self._memory.describe(start)}",
        )


def build_read(instruction: Instruction, context: Context, text_line: int) -> Run:
    """ds_read_matrix_b16, ds_read_matrix_trans_b16"""
    to, base = instruction.operands
    assert isinstance(to, VGPR)
    offset = instruction.modifier("offset") or 0
    if "trans" in instruction.name:
        line, position = 4 * _GROUP + _ELEMENT, _COLUMN + 0 * _ELEMENT
    else:
        line, position = _COLUMN + 0 * _ELEMENT, 4 * _GROUP + _ELEMENT
    place = (line * isa.LINE_BYTES + position * 2).ravel() >> 1
    span = 15 * isa.LINE_BYTES + 32
    index, row = scalar_index(base), to.index
    byte = np.zeros(place.size, np.int64)
    expectation = context.expectation(instruction, line.ravel(), position.ravel(), byte, None)
    _, vectors = register_masks(to)

    def run(w: Wave) -> None:
        address = w.s[index] + offset
        if address % 32:
            raise FaultError(Code.MLS_BAD_ACCESS, f"LDS address {address} is no multiple of 32")
        lds = w.group.lds
        lds.check_range(address, address + span)
        at = place + (address >> 1)
        event = lds.begin(w.index, text_line, False)
        values = lds.read(w.index, w.barriers, event, at)
        judge_read(lds, at, expectation, w, context)
        e0, e1, e2, e3 = values.astype(np.uint32).reshape(4, isa.LANES)
        w.v[row] = e0 | e1 << _HIGH
        w.v[row + 1] = e2 | e3 << _HIGH
        w.issue("lgkm", Outstanding(0, vectors, event, False, text_line))

    return run


def build_product(instruction: Instruction) -> Run:
    """v_mmac_f32_16x16x16_*"""
    to, first, second, third = instruction.operands
    assert isinstance(to, VGPR)
    assert isinstance(first, VGPR)
    assert isinstance(second, VGPR)
    d, a, b = to.index, first.index, second.index
    c = third.index if isinstance(third, VGPR) else None
    decode = _bf16 if instruction.name.endswith("_bf16") else _f16

    def run(w: Wave) -> None:
        left, right = decode(w.v[a : a + 2]), decode(w.v[b : b + 2])  # [m, k], [n, k]
        total = left @ right.T
        if c is not None:
            total += _accumulator(w.vf[c : c + 4])
        # row 4 g + e, column x  →  register e of lane 16 g + x
        w.vf[d : d + 4] = total.reshape(4, 4, 16).transpose(1, 0, 2).reshape(4, isa.LANES)

    return run


def _operand(elements: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Elements [e, 16 g + x] of an operand as a matrix [x, 4 g + e]."""
    return elements.reshape(4, 4, 16).transpose(2, 1, 0).reshape(16, 16)


def _f16(registers: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    halves = np.ascontiguousarray(registers).view(np.float16).reshape(2, isa.LANES, 2)
    return _operand(halves.transpose(0, 2, 1).reshape(4, isa.LANES).astype(np.float64))


def _bf16(registers: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    low, high = registers << _HIGH, registers & np.uint32(0xFFFF0000)
    elements = np.stack([low, high], axis=1).reshape(4, isa.LANES).view(np.float32)
    return _operand(elements.astype(np.float64))


def _accumulator(registers: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Registers [e, 16 g + x] of an accumulator as a matrix [4 g + e, x]."""
    return registers.astype(np.float64).reshape(4, 4, 16).transpose(1, 0, 2).reshape(16, 16)
