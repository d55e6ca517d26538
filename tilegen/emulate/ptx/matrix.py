"""ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16-bit elements between a warp's registers and shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.memory import MemoryFaultError
from tilegen.emulate.ptx.addressing import shared_address
from tilegen.emulate.ptx.decode import Control, Decoded, Modifiers, instruction
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.module import Instruction, Vector
from tilegen.emulate.ptx.types import TYPES, Array
from tilegen.emulate.ptx.unit import WARP, Group, Unit

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine


@instruction("ldmatrix", "stmatrix")
def matrix(ins: Instruction) -> Decoded:
    """ldmatrix/stmatrix .m8n8 .x1/.x2/.x4 {.trans} .b16: lane 8 i + r gives the address of row r of matrix i."""
    mods = Modifiers(ins)
    for name in ("sync", "aligned", "m8n8"):
        mods.need(name)
    count = int(mods.need("x1", "x2", "x4")[1:])
    transpose = mods.flag("trans")
    mods.one("shared", "shared::cta")
    mods.need("b16")
    mods.done()
    load = ins.opcode == "ldmatrix"
    first, second = mods.operands(2)
    vector, address = (first, second) if load else (second, first)
    items = vector.items if isinstance(vector, Vector) else (vector,)
    if len(items) != count:
        mods.unknown(f"it moves {count} matrices, {len(items)} registers are given")

    def bind(machine: Machine) -> Control:
        where = shared_address(machine, address)
        rows = [machine.dst(i, TYPES["b32"]) if load else machine.src(i, TYPES["b32"]) for i in items]

        watch, pc = machine.watch, machine.program.binding_at

        def places(threads: Array) -> Array:
            """Index of each element in 16-bit units, [warps, matrices, 8 rows, 8 columns]."""
            all_addresses = where(slice(0, machine.threads))
            at = all_addresses[threads].reshape(-1, WARP)[:, : 8 * count]
            place = at - machine.rank_bits[threads].reshape(-1, WARP)[:, : 8 * count]  # in the CTA's own memory
            bad = (at % 16 != 0) | (place < machine.shared_base) | (place + 16 > machine.shared_end)
            if bad.any():
                warp, lane = np.argwhere(bad)[0]
                value = int(at[warp, lane])
                raise MemoryFaultError(
                    value,
                    f"a matrix row at {value:#x} is misaligned or outside shared memory",
                    int(threads[warp * WARP + lane]),
                )
            if watch is not None:
                if load:
                    watch.load(threads.reshape(-1, WARP)[:, : 8 * count].reshape(-1), at.reshape(-1), 16, pc)
                else:
                    watch.store_matrices(threads, at, items, pc)
            return (at.reshape(-1, count, 8, 1) // 2 + np.arange(8)).astype(np.intp)

        def control(unit: Unit, group: Group) -> bool:
            if not unit.gather(group, unit.warp_bits(group.bits), ins.name):
                return False
            threads = whole_warps(unit, group, ins.name)
            index = places(threads)
            memory = machine.spaces.view("shared", 2)
            if load:
                elements = memory[index]
                if transpose:
                    elements = elements.swapaxes(2, 3)
                words = np.ascontiguousarray(elements).reshape(len(index), count, 64).view(np.uint32)
                for i, row in enumerate(rows):
                    row[threads] = words[:, i].reshape(-1)
            else:
                words = np.stack([row[threads].reshape(-1, WARP) for row in rows], axis=1)
                elements = np.ascontiguousarray(words).view(np.uint16).reshape(-1, count, 8, 8)
                memory[index] = elements.swapaxes(2, 3) if transpose else elements
            return unit.advance(group)

        return control

    return Decoded(bind, control=True)


def whole_warps(unit: Unit, group: Group, name: str) -> Array:
    """The threads of a group. Raises FaultError where of a warp some have exited."""
    threads = unit.lanes(group.bits).threads
    if len(threads) % WARP:
        raise FaultError(f"{name} is for all {WARP} threads of a warp, and some have exited", int(threads[0]))
    return threads


@instruction("movmatrix")
def transpose_matrix(ins: Instruction) -> Decoded:
    """movmatrix.sync.aligned.m8n8.trans.b16: transposes an 8x8 matrix held by a warp."""
    mods = Modifiers(ins)
    for name in ("sync", "aligned", "m8n8", "trans", "b16"):
        mods.need(name)
    mods.done()
    destination, source = mods.operands(2)

    def bind(machine: Machine) -> Control:
        d, a = machine.dst(destination, TYPES["b32"]), machine.src(source, TYPES["b32"])

        def control(unit: Unit, group: Group) -> bool:
            if not unit.gather(group, unit.warp_bits(group.bits), ins.name):
                return False
            threads = whole_warps(unit, group, ins.name)
            elements = a[threads].view(np.uint16).reshape(-1, 8, 8).swapaxes(1, 2)
            d[threads] = np.ascontiguousarray(elements).reshape(-1, 64).view(np.uint32).reshape(-1)
            return unit.advance(group)

        return control

    return Decoded(bind, control=True)
