"""The state of one wave, and what it has outstanding."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tilegen.targets.mls import isa
from tilegen.targets.mls.program import SGPR, VGPR, Operand, Signed, Special

if TYPE_CHECKING:
    from tilegen.emulate.mls.group import Group

VCC, M0, EXEC, SCC = 102, 104, 105, 106  # places of the others behind s0 … s101; bits of the masks of registers
FULL = (1 << isa.LANES) - 1
_LOW = 0xFFFFFFFF
_FIRST = 0xDEADBEEF  # what an undefined register holds


@dataclass
class Outstanding:
    """An instruction that was issued and not waited for: registers that it will write, as masks; its LDS event, 0 for
    none; whether it is a scalar load; its place in the text."""

    scalars: int
    vectors: int
    event: int
    scalar_load: bool
    line: int


@dataclass(eq=False)
class Wave:
    """Registers as 32-bit patterns. defined_*, busy_*: masks of the registers that hold a value, or wait for one."""

    group: Group
    index: int
    vgprs: int
    s: list[int] = field(init=False)
    v: npt.NDArray[np.uint32] = field(init=False)
    scc: int = 0
    exec: int = FULL
    lanes: npt.NDArray[np.bool_] = field(init=False)
    full: bool = True
    pc: int = 0
    barriers: int = 0
    waiting: bool = False
    done: bool = False
    defined_s: int = 0
    defined_v: int = 0
    busy_s: int = 0
    busy_v: int = 0
    vm: list[Outstanding] = field(default_factory=list)
    lgkm: list[Outstanding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.s = [_FIRST] * SCC
        self.v = np.full((max(self.vgprs, 1), isa.LANES), _FIRST, np.uint32)
        self.vf = self.v.view(np.float32)
        self.vi = self.v.view(np.int32)
        self.lanes = np.ones(isa.LANES, np.bool_)
        self.defined_s = 1 << EXEC

    # ---- scalars ----

    def define(self, index: int, value: int) -> None:
        self.s[index] = value & _LOW
        self.defined_s |= 1 << index

    def pair(self, index: int) -> int:
        return self.s[index] | self.s[index + 1] << 32

    def signed(self, index: int) -> int:
        value = self.s[index]
        return value - (1 << 32) if value >> 31 else value

    def number(self, index: int) -> np.float32:
        """An SGPR as f32."""
        value: np.float32 = np.float32(struct.unpack("<f", struct.pack("<I", self.s[index]))[0])
        return value

    def mask(self, index: int) -> int:
        """64 bits, one a lane: of an SGPR pair, vcc or exec."""
        return self.exec if index == EXEC else self.pair(index)

    def set_mask(self, index: int, value: int) -> None:
        if index == EXEC:
            self.exec = value
            self.full = value == FULL
            self.lanes = lane_bits(value)
        else:
            self.s[index], self.s[index + 1] = value & _LOW, value >> 32

    # ---- what is outstanding ----

    def issue(self, counter: str, item: Outstanding) -> None:
        """Count an instruction; one beyond the counter's limit waits for the oldest."""
        queue, most = (self.vm, isa.VMCNT_MAX) if counter == "vm" else (self.lgkm, isa.LGKMCNT_MAX)
        queue.append(item)
        self.busy_s |= item.scalars
        self.busy_v |= item.vectors
        if len(queue) > most:
            self._finish(queue, [queue[0]])

    def wait_vm(self, count: int) -> None:
        self._finish(self.vm, self.vm[: max(len(self.vm) - count, 0)])

    def wait_lgkm(self, count: int) -> None:
        """LDS accesses complete in order among themselves, scalar loads whenever they like."""
        ordered = [o for o in self.lgkm if not o.scalar_load]
        over = self.lgkm[:] if count == 0 else ordered[: max(len(ordered) - count, 0)]
        self._finish(self.lgkm, over)

    def _finish(self, queue: list[Outstanding], over: list[Outstanding]) -> None:
        if not over:
            return
        gone = {id(o) for o in over}
        queue[:] = [o for o in queue if id(o) not in gone]
        for item in over:
            if item.event:
                self.group.complete(item.event, self.barriers)
        self.busy_s = self.busy_v = 0
        for item in (*self.vm, *self.lgkm):
            self.busy_s |= item.scalars
            self.busy_v |= item.vectors


def lane_bits(value: int) -> npt.NDArray[np.bool_]:
    """64 bits as an array, lane 0 first."""
    return np.unpackbits(np.frombuffer(value.to_bytes(8, "little"), np.uint8), bitorder="little").view(np.bool_)


def bits_of(lanes: npt.NDArray[np.bool_]) -> int:
    """An array of lanes as 64 bits."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def scalar_index(operand: Operand) -> int:
    """Place of a scalar register or of the first of a range; -1 for a literal."""
    match operand:
        case SGPR(index, _):
            return index
        case Special("m0"):
            return M0
        case Special("vcc"):
            return VCC
        case Special("exec"):
            return EXEC
    return -1


def register_masks(operand: Operand) -> tuple[int, int]:
    """Scalar and vector registers of an operand, as masks."""
    match operand:
        case SGPR(index, count):
            return ((1 << count) - 1) << index, 0
        case VGPR(index, count):
            return 0, ((1 << count) - 1) << index
        case Special("m0"):
            return 1 << M0, 0
        case Special("vcc"):
            return 3 << VCC, 0
        case Special("exec"):
            return 1 << EXEC, 0
        case Signed(of):
            return register_masks(of)
    return 0, 0
