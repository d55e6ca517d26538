"""Address operands: from `[base + offset]` to a row of addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.module import Address, Operand, Register
from tilegen.emulate.ptx.spaces import WINDOW_SHIFT
from tilegen.emulate.ptx.types import TYPES, Array

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

_SHARED_MASK = np.uint64(0xFFFFFFFF)


def address_reader(machine: Machine, operand: Operand) -> Callable[[slice], Array]:
    """A function from a slice of threads to their addresses, uint64."""
    if not isinstance(operand, Address):
        raise FaultError(f"operand {operand} is no address")
    if isinstance(operand.base, Register) and operand.base.width == 32:
        row32 = machine.src(operand.base, TYPES["u32"])
        offset32 = np.uint32(operand.offset & 0xFFFFFFFF)
        if not operand.offset:
            return lambda s: row32[s].astype(np.uint64)
        return lambda s: (row32[s] + offset32).astype(np.uint64)
    row = machine.src(operand.base, TYPES["u64"])
    offset = np.uint64(operand.offset & 0xFFFFFFFFFFFFFFFF)
    if not operand.offset:
        return lambda s: row[s]
    return lambda s: row[s] + offset


def shared_address(machine: Machine, operand: Operand) -> Callable[[slice], Array]:
    """Like `address_reader` for an operand in shared space; generic addresses of its window are taken as well."""
    reader = address_reader(machine, operand)

    def read(s: slice) -> Array:
        address = reader(s)
        if int(address[0]) >> WINDOW_SHIFT:
            address = address & _SHARED_MASK
        return address

    return read
