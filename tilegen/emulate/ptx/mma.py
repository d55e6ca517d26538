"""mma.sync: matrix products of single warps.

Lane 4 g + q of a warp holds: of D and C (16x8) rows g and g + 8, columns 2 q and 2 q + 1, in this order; of A (16x16) a
register for rows g and g + 8 with columns 2 q and 2 q + 1, then one for each with columns 8 further; of B (16x8) column
g with rows 2 q and 2 q + 1, then those 8 further.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.decode import Control, Decoded, Modifiers, instruction
from tilegen.emulate.ptx.half import as_float
from tilegen.emulate.ptx.matrix import whole_warps
from tilegen.emulate.ptx.module import Instruction, Vector
from tilegen.emulate.ptx.types import TYPES, Array
from tilegen.emulate.ptx.unit import WARP, Group, Unit

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

_LANES = np.arange(WARP)
_G, _Q = _LANES // 4, _LANES % 4
_HALF = np.arange(2)
# Where each register of a lane lies: D and C [4, lanes], A [4 registers, lanes, 2 halves], B [2 registers, lanes, 2].
_D_ROWS = np.stack([_G, _G, _G + 8, _G + 8])
_D_COLS = np.stack([2 * _Q, 2 * _Q + 1] * 2)
_A_ROWS = np.stack([_G, _G + 8, _G, _G + 8])[:, :, None]
_A_COLS = np.stack([2 * _Q, 2 * _Q, 2 * _Q + 8, 2 * _Q + 8])[:, :, None] + _HALF
_B_ROWS = np.stack([2 * _Q, 2 * _Q + 8])[:, :, None] + _HALF
_B_COLS = np.stack([_G, _G])[:, :, None]


@instruction("mma")
def mma(ins: Instruction) -> Decoded:
    """mma.sync.aligned.m16n8k16.row.col.f32.TYPE.TYPE.f32, of bf16 or f16."""
    mods = Modifiers(ins)
    for name in ("sync", "aligned", "m16n8k16", "row", "col", "f32"):
        mods.need(name)
    kind = mods.need("bf16", "f16")
    mods.need(kind)
    mods.need("f32")
    mods.done()
    vectors = mods.operands(4)
    for operand, count in zip(vectors, (4, 4, 2, 4), strict=True):
        if not isinstance(operand, Vector) or len(operand.items) != count:
            mods.unknown(f"an operand must be {count} registers")

    def bind(machine: Machine) -> Control:
        d_items, a_items, b_items, c_items = (v.items for v in vectors if isinstance(v, Vector))
        d = [machine.dst(i, TYPES["f32"]) for i in d_items]
        a, b = ([machine.src(i, TYPES["b32"]) for i in items] for items in (a_items, b_items))
        c = [machine.src(i, TYPES["f32"]) for i in c_items]

        def halves(rows: list[Array], threads: Array) -> Array:
            """[warps, registers, lanes, 2]."""
            words = np.stack([row[threads].reshape(-1, WARP) for row in rows], axis=1)
            return as_float(np.ascontiguousarray(words).view(np.uint16), kind).reshape(*words.shape, 2)

        def control(unit: Unit, group: Group) -> bool:
            if not unit.gather(group, unit.warp_bits(group.bits), ins.name):
                return False
            threads = whole_warps(unit, group, ins.name)
            warps = len(threads) // WARP
            left, right = np.empty((warps, 16, 16), np.float32), np.empty((warps, 16, 8), np.float32)
            left[:, _A_ROWS, _A_COLS] = halves(a, threads)
            right[:, _B_ROWS, _B_COLS] = halves(b, threads)
            product = (left @ right)[:, _D_ROWS, _D_COLS]
            for n, (out, before) in enumerate(zip(d, c, strict=True)):
                out[threads] = (before[threads].reshape(-1, WARP) + product[:, n]).reshape(-1)
            return unit.advance(group)

        return control

    return Decoded(bind, control=True)
