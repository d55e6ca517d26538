"""Products of single warps: one statement an op, one device function a product.

A warp reads operands by `ldmatrix`, whose lanes each name 16 bytes of a line. Tiles lie as for wgmma, swizzled: 16
bytes stay together, and what a swizzle crosses an address with depends on the line modulo 8 alone. So a lane crosses
its address once, and other k steps and columns are one constant that is crossed with it, inside a line, and one that is
added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.ir.dtypes import DType
from tilegen.ir.plan import WARPS, FragmentOperand, SlotOperand, WarpMma
from tilegen.targets.hopper.emit.names import Names
from tilegen.targets.hopper.emit.scope import RoleScope
from tilegen.targets.hopper.emit.tensors import geometry

_STEP = 16  # elements of a k step
_BLOCK = 16  # bytes of 8 columns
_ROWS = 16  # of a warp
_TYPES = {DType.BF16: "bf16", DType.F16: "f16"}
_WARP = "threadIdx.x % 128 / 32"
# The line and the 16 bytes of it that a lane names, where the second matrix lies behind the first one along the lines,
# or in the same lines.
_LINES_FIRST = ("lane % 16", "lane / 16")
_LINES_LAST = ("lane % 8 + lane / 16 * 8", "lane / 8 % 2")


def warp_mma(r: RoleScope, op: WarpMma) -> str:
    """One call for all of the warpgroups that are the same threads, which read B once."""
    local, parts = r.functions.local("product"), r.each()
    made: list[dict[str, object]] = []
    for part in parts:
        a = _rows(part, op.a, local)
        made.append({"d": local.give(("d", part.one), _of(part, op.accumulator)), "a": a})
        loaded = isinstance(op.a, FragmentOperand)
        made[-1]["rows"] = f"{a['name']} + 4 * step" if loaded else local.give(("r", part.one), _of(part, "rows"))
    registers = r.fragments[op.a.fragment].registers if isinstance(op.a, FragmentOperand) else 0
    name = r.functions.specific(
        f"mma_{op.accumulator}",
        "product",
        parts=made,
        registers=op.n // 2,
        a_registers=registers,
        b=_operand(r, op.b, local, "b", n=op.n),
        mma=r.functions.specific(f"mma_m16n8k16_{_TYPES[op.dtype]}", "warp_mma", type=_TYPES[op.dtype]),
        steps=len(op.b.offsets),
        n=op.n,
        zero=op.zero,
    )
    given = [part.array(op.accumulator) for part in parts]
    if isinstance(op.a, FragmentOperand):
        given += [part.array(op.a.fragment) for part in parts]
    else:
        given += [part.slot(op.a.slot, 0, op.a.warpgroup) for part in parts]
    return f"{name}({', '.join(given)}, {r.slot(op.b.slot)});"


def _of(r: RoleScope, name: str) -> str:
    return name if r.one is None else f"{name}_{r.one}"


def _rows(r: RoleScope, a: SlotOperand | FragmentOperand, local: Names) -> dict[str, object]:
    """How a warp has the rows of A."""
    if isinstance(a, FragmentOperand):
        return {"name": local.give(("a", r.one), _of(r, a.fragment))}
    return _operand(r, a, local, "a")


def _operand(r: RoleScope, operand: SlotOperand, local: Names, side: str, n: int = _ROWS) -> dict[str, object]:
    """How a warp reads it: its own 16 rows of A, or B, `block` times 8 of its n columns on."""
    buffer = r.plan.buffer(r.plan.ring(operand.slot.ring).buffer)
    line, tall = buffer.line, buffer.rows * buffer.line
    first, along_k = side == "a", operand.major == "k"
    steps = line // (2 * _STEP)  # of a line that runs along k
    lie = [
        k // steps * tall + k % steps * 2 * _STEP if along_k else k * _STEP * line for k in range(len(operand.offsets))
    ]
    whole_warps = along_k or not first or line == _BLOCK * 2 * WARPS  # else a line is cut between warps
    if operand.stride != 8 * line or list(operand.offsets) != lie or not whole_warps:
        raise ValueError(f"{operand.slot.ring}: no warp reads k steps that lie so")
    row, piece = _LINES_FIRST if along_k == first else _LINES_LAST
    wish = _of(r, operand.slot.ring) if first else operand.slot.ring
    name = local.give((side, r.one), wish)
    at = local.give((f"{side} at", r.one), f"{name}_at")
    if along_k:
        row = f"{_WARP} * {_ROWS} + {row}" if first else row
        crossed = f"step % {steps} * {2 * _STEP}" if steps > 1 else ""
        added = [f"step / {steps} * {tall}"] if len(lie) > steps else []
        added += [] if first else [f"block * {8 * line}"]
    else:
        within = line // _BLOCK
        piece = f"{_WARP} * 2 + {piece}" if first else piece
        crossed = f"block % {within} * {_BLOCK}" if within > 2 and not first else ""
        added = [f"step * {_STEP * line}"]
        added += [f"block / {within} * {operand.leading}"] if not first else []
    kind = "load_matrices" if along_k else "load_matrices_transposed"
    counts = ([4] if n >= 16 else []) + ([2] if n % 16 else [])
    loads = {c: r.functions.specific(f"{kind}_{c}", "load_matrices", count=c, transposed=not along_k) for c in counts}
    return {
        "name": name,
        "at": at,
        "lane": f"{geometry(r, buffer)['swizzle']}(({row}) * {line} + ({piece}) * {_BLOCK})",
        "there": " + ".join((f"({at} ^ {crossed})" if crossed else at, *added)),
        "load": loads.get(4),
        "load_half": loads.get(2),
    }


STATEMENTS: dict[type, Callable[[RoleScope, Any], str]] = {WarpMma: warp_mma}
