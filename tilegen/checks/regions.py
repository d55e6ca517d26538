"""Which bytes of shared memory an operation touches, as numbers of pieces that no operation touches in part."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property

from tilegen.checks.compiled import Numbers
from tilegen.ir import plan as ir
from tilegen.ir.dtypes import DType
from tilegen.ir.plan_rules.shapes import ROWS, operand_span
from tilegen.ir.plan_walk import all_operations

Interval = tuple[int, int]
# The operations that touch shared memory, and the operands of products.
Access = ir.TmaLoad | ir.CopyTile | ir.TmaStore | ir.ReadShared | ir.WriteShared | ir.ScanSlot
Shared = ir.SlotOperand | ir.BufferOperand


class Regions:
    """Cuts shared memory at every border that the plan's accesses have. `numbers`: evaluates what its runs need."""

    def __init__(self, plan: ir.Plan) -> None:
        self._plan = plan
        self.numbers = Numbers()
        self.touched: dict[int, dict[int, tuple[frozenset[str], frozenset[str]]]] = {}  # of accumulators, by role
        self._cache: dict[tuple[int | str, ...], tuple[int, ...]] = {}  # operations by id: the plan keeps them

    def of_access(
        self, role: ir.RolePlan, operation: Access, stage: int, part: int, group: int, number: int = 0
    ) -> tuple[int, ...]:
        """Pieces that an operation touches in this stage and part, run by warpgroup `group` of its role, in the CTA of
        this number among those that share."""
        key = (id(operation), role.name, stage, part, group, number)
        if key not in self._cache:
            self._cache[key] = self._pieces(self._access(role, operation, stage, part, group, number))
        return self._cache[key]

    def of_operand(
        self, operand: Shared, extent: int, dtype: DType, stage: int, part: int, group: int
    ) -> tuple[int, ...]:
        """Pieces that a product's operand touches; `extent`: positions along M or N."""
        key = (id(operand), extent, stage, part, group)
        if key not in self._cache:
            self._cache[key] = self._pieces(self._operand(operand, extent, dtype, stage, part, group))
        return self._cache[key]

    @property
    def count(self) -> int:
        """Number of pieces."""
        return max(len(self._cuts) - 1, 0)

    @cached_property
    def _cuts(self) -> list[int]:
        cuts: set[int] = set()
        for role, _, operation in all_operations(self._plan):
            if isinstance(operation, Access):
                shares = self._plan.ring(operation.slot.ring).shares if isinstance(operation, ir.TmaLoad) else 1
                for stage, part, group in self._places(role, self._buffer(operation)):
                    for number in range(shares):
                        for interval in self._access(role, operation, stage, part, group, number):
                            cuts.update(interval)
            elif isinstance(operation, ir.AnyMma):
                for operand, extent in operands(operation):
                    for stage, part, group in self._places(role, self._operand_buffer(operand)):
                        for interval in self._operand(operand, extent, operation.dtype, stage, part, group):
                            cuts.update(interval)
        return sorted(cuts)

    def _pieces(self, intervals: Iterable[Interval]) -> tuple[int, ...]:
        pieces: set[int] = set()
        for start, end in intervals:
            pieces.update(range(bisect_left(self._cuts, start), bisect_left(self._cuts, end)))
        return tuple(sorted(pieces))

    @staticmethod
    def _places(role: ir.RolePlan, buffer: ir.Buffer) -> Iterable[tuple[int, int, int]]:
        return (
            (stage, part, group)
            for stage in range(buffer.stages)
            for part in range(buffer.parts)
            for group in range(role.warpgroups)
        )

    def _ring_buffer(self, slot: ir.Slot) -> ir.Buffer:
        return self._plan.buffer(self._plan.ring(slot.ring).buffer)

    def _operand_buffer(self, operand: Shared) -> ir.Buffer:
        if isinstance(operand, ir.SlotOperand):
            return self._ring_buffer(operand.slot)
        return self._plan.buffer(operand.buffer)

    def _buffer(self, operation: Access) -> ir.Buffer:
        if isinstance(operation, ir.TmaLoad | ir.CopyTile | ir.ReadShared | ir.ScanSlot):
            return self._ring_buffer(operation.slot)
        return self._plan.buffer(operation.buffer)

    def _access(
        self, role: ir.RolePlan, operation: Access, stage: int, part: int, group: int, number: int
    ) -> Iterable[Interval]:
        buffer = self._buffer(operation)
        base = _copy(buffer, stage, part)
        match operation:
            case ir.TmaLoad(_, _, _, offset, size):
                start = base + offset + operation.share * number
                yield start, start + size
            case ir.TmaStore(_, _, _, offset, size):
                yield base + offset, base + offset + size
            case ir.CopyTile() | ir.WriteShared() | ir.ScanSlot():
                yield from _rows(buffer, base, 0, buffer.rows, buffer.cols)
            case ir.ReadShared(out, _, row_offset):
                cols = next(f.cols for f in role.fragments if f.name == out)
                rows = ROWS if operation.digit is None else operation.digit.positions
                yield from _rows(buffer, base, row_offset * group, rows, cols)

    def _operand(
        self, operand: Shared, extent: int, dtype: DType, stage: int, part: int, group: int
    ) -> Iterable[Interval]:
        buffer = self._operand_buffer(operand)
        base = _copy(buffer, stage, part)
        if isinstance(operand, ir.SlotOperand):
            base += operand.warpgroup * group
        for offset in operand.offsets:
            if operand.major == "mn" and operand.swizzle:
                # block by block along M or N: what lies between two blocks is not read
                width = operand.swizzle // dtype.bytes
                for block, first in enumerate(range(0, extent, width)):
                    start, end = operand_span(operand, offset, min(width, extent - first), dtype)
                    yield base + block * operand.leading + start, base + block * operand.leading + end
            else:
                start, end = operand_span(operand, offset, extent, dtype)
                yield base + start, base + end


def operands(mma: ir.AnyMma) -> Iterable[tuple[Shared, int]]:
    """A product's operands in shared memory, each with its extent along M or N."""
    if not isinstance(mma.a, ir.FragmentOperand):
        yield mma.a, ROWS
    yield mma.b, mma.n


def _copy(buffer: ir.Buffer, stage: int, part: int) -> int:
    return buffer.offset + (stage * buffer.parts + part) * buffer.stage_bytes


def _rows(buffer: ir.Buffer, base: int, first: int, rows: int, cols: int) -> Iterable[Interval]:
    for chunk in range(-(-cols // buffer.chunk)):
        start = base + (chunk * buffer.rows + first) * buffer.line
        yield start, start + rows * buffer.line
