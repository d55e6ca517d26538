"""Accesses in which each lane has an address of its own: LDS, global memory; and exchange between lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tilegen.diagnostics.catalogue import Code
from tilegen.emulate.mls.faults import FaultError
from tilegen.emulate.mls.judge import judge_lanes, judge_read
from tilegen.emulate.mls.lds import FILLED, LANES
from tilegen.emulate.mls.memory import Tensor
from tilegen.emulate.mls.scalar import Run
from tilegen.emulate.mls.wave import Outstanding, Wave, register_masks
from tilegen.targets.mls import isa
from tilegen.targets.mls.program import SGPR, VGPR, Instruction

if TYPE_CHECKING:
    from tilegen.emulate.mls.expect import Expectation
    from tilegen.emulate.mls.operation import Context

_Ints = npt.NDArray[np.int64]
_HIGH = np.uint32(16)


class _Pairs:
    """The pairs of bytes of `size` bytes a lane, [pair, lane], made flat, and what is written about each."""

    def __init__(self, size: int, element_bytes: int) -> None:
        self.count = size // 2
        pair = np.arange(self.count)[:, None] + 0 * np.arange(isa.LANES)
        self.offset = (2 * pair).ravel()
        self.run = (2 * pair // element_bytes).ravel()
        self.byte = (2 * pair % element_bytes).ravel()
        self.lane = (np.arange(isa.LANES) + 0 * pair).ravel()


def _pairs(instruction: Instruction, context: Context) -> tuple[_Pairs, Expectation | None]:
    size = isa.OPCODES[instruction.name].bytes
    tensor = context.tensor(instruction)
    pairs = _Pairs(size, tensor.element_bytes if tensor else 2)
    line = np.zeros(pairs.offset.size, np.int64)
    return pairs, context.expectation(instruction, line, pairs.run, pairs.byte, pairs.lane)


def _aligned(addresses: _Ints, size: int, what: str) -> None:
    """Raise FaultError unless lanes' addresses are aligned to the smaller of their size and 4 bytes."""
    wrong = addresses % min(size, 4) != 0
    if wrong.any():
        raise FaultError(
            Code.MLS_BAD_ACCESS,
            f"{what} {int(addresses[np.argmax(wrong)]):#x} is no multiple of {min(size, 4)}",
        )


def _values(w: Wave, row: int, pairs: int) -> npt.NDArray[np.uint16]:
    """Registers from `row` on as pairs of bytes, [pair, lane]."""
    registers = w.v[row : row + max(pairs // 2, 1)]
    low, high = registers.astype(np.uint16), (registers >> _HIGH).astype(np.uint16)
    both = np.stack([low, high], axis=1).reshape(-1, isa.LANES)
    return both[:pairs]


def _set(w: Wave, row: int, values: npt.NDArray[np.uint16], on: npt.NDArray[np.bool_]) -> None:
    """Write pairs of bytes [pair, active lane] to registers from `row` on, a lone pair zero-extended."""
    wide = values.astype(np.uint32)
    for k in range(max(len(wide) // 2, 1)):
        high = wide[2 * k + 1] << _HIGH if len(wide) > 1 else np.uint32(0)
        w.v[row + k, on] = wide[2 * k] | high


def build_lds(instruction: Instruction, context: Context, text_line: int) -> Run:
    """ds_read_*, ds_write_*, ds_bpermute_b32"""
    if instruction.name == "ds_bpermute_b32":
        return _permute(instruction, text_line)
    load = instruction.name.startswith("ds_read")
    first, second = instruction.operands
    assert isinstance(first, VGPR)
    assert isinstance(second, VGPR)
    address_row, row = (second.index, first.index) if load else (first.index, second.index)
    size = isa.OPCODES[instruction.name].bytes
    offset = instruction.modifier("offset") or 0
    pairs, expectation = _pairs(instruction, context)
    _, vectors = register_masks(first) if load else (0, 0)

    def run(w: Wave) -> None:
        addresses = w.v[address_row].astype(np.int64) + offset
        on = w.lanes
        lds = w.group.lds
        event = lds.begin(w.index, text_line, False)
        if w.exec:
            active = addresses[on]
            _aligned(active, size, "LDS address")
            lds.check_range(int(active.min()), int(active.max()) + size)
            at = ((addresses[pairs.lane] + pairs.offset) >> 1)[on[pairs.lane]]
            if load:
                values = lds.read(w.index, w.barriers, event, at)
                judge_read(lds, at, expectation, w, context, None if w.full else on[pairs.lane])
                _set(w, row, values.reshape(pairs.count, -1), on)
            else:
                lds.claim(w.index, w.barriers, event, at, False)
                lds.data[at] = _values(w, row, pairs.count)[:, on].ravel()
                lds.origin[at] = LANES if expectation is None else _claimed(expectation, w, on[pairs.lane])
        w.issue("lgkm", Outstanding(0, vectors, event, False, text_line))

    return run


def _claimed(expectation: Expectation, wave: Wave, on: npt.NDArray[np.bool_]) -> _Ints:
    """Origins that a write's braces give to what it writes: elements inside, zeros outside."""
    expected = expectation.evaluate(wave).among(on)
    if expected.inside is None:
        return expected.addresses
    return np.where(expected.inside, expected.addresses, FILLED)


def _permute(instruction: Instruction, text_line: int) -> Run:
    to, address, value = (o for o in instruction.operands)
    assert isinstance(to, VGPR)
    assert isinstance(address, VGPR)
    assert isinstance(value, VGPR)
    offset = np.uint32(instruction.modifier("offset") or 0)
    _, vectors = register_masks(to)

    def run(w: Wave) -> None:
        take = ((w.v[address.index] + offset) >> np.uint32(2)) & np.uint32(isa.LANES - 1)
        values = np.where(w.lanes, w.v[value.index], np.uint32(0))[take]
        np.copyto(w.v[to.index], values, where=w.lanes)
        w.issue("lgkm", Outstanding(0, vectors, 0, False, text_line))

    return run


def build_global(instruction: Instruction, context: Context, text_line: int) -> Run:
    """global_load_*, global_store_*"""
    load = instruction.name.startswith("global_load")
    first, second, base = instruction.operands
    assert isinstance(first, VGPR)
    assert isinstance(second, VGPR)
    address, data = (second, first) if load else (first, second)
    size = isa.OPCODES[instruction.name].bytes
    offset = instruction.modifier("offset") or 0
    pairs, expectation = _pairs(instruction, context)
    _, vectors = register_masks(data) if load else (0, 0)
    row, count = data.index, pairs.count
    memory = context.memory

    def run(w: Wave) -> None:
        addresses = w.v[address.index].astype(np.int64)
        if isinstance(base, SGPR):
            addresses = addresses + w.pair(base.index)
        else:
            addresses = addresses | w.v[address.index + 1].astype(np.int64) << 32
        addresses = addresses + offset
        on = w.lanes
        if w.exec:
            _aligned(addresses[on], size, "address")
            active = on[pairs.lane]
            wanted = (addresses[pairs.lane] + pairs.offset)[active]
            if expectation is not None:
                judge_lanes(expectation, w, active, wanted, "reads" if load else "writes")
            tensor = memory.locate(wanted, 2)
            if load:
                _set(w, row, tensor.halves(wanted).reshape(count, -1), on)
            else:
                _store(tensor, wanted, _values(w, row, count)[:, on].ravel(), text_line)
        w.issue("vm", Outstanding(0, vectors, 0, False, text_line))

    return run


def _store(tensor: Tensor, addresses: _Ints, values: npt.NDArray[np.uint16], text_line: int) -> None:
    if tensor.writer is None:
        raise FaultError(Code.MLS_STORE, f"it writes {tensor.name}, which is no output, at {int(addresses[0]):#x}")
    at = addresses - tensor.first
    before = tensor.writer[at]
    if int(before.max()) >= 0:
        bad = int(np.argmax(before))
        raise FaultError(
            Code.MLS_STORE,
            f"it writes {tensor.element(int(addresses[bad]))} at {int(addresses[bad]):#x}, which "
            f"line {int(before[bad])} has written already",
        )
    if len(np.unique(addresses)) < len(addresses):
        raise FaultError(Code.MLS_STORE, f"two of its lanes write one element of {tensor.name}")
    tensor.writer[at] = tensor.writer[at + 1] = text_line
    tensor.write(addresses, values)
