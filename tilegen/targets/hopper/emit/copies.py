"""Copies of tiles by threads: one statement an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.ir.plan import ASYNCHRONOUS, CopyCommit, CopyTile, CopyWait, SignalCopies
from tilegen.ir.plan_rules.memory import PIECE
from tilegen.targets.hopper.emit.elements import digit
from tilegen.targets.hopper.emit.scope import ELEMENT, RoleScope
from tilegen.targets.hopper.emit.tensors import geometry

_ATOM_LINES = 8  # lines after which a swizzle repeats


def copy_tile(r: RoleScope, op: CopyTile) -> str:
    buffer = r.plan.buffer(r.plan.ring(op.slot.ring).buffer)
    element, size = ELEMENT[buffer.dtype], buffer.dtype.bytes
    chunks, lines = -(-buffer.cols // buffer.chunk), buffer.rows
    first, _ = r.role.warps_of_group
    if len(op.rows) > 1:
        inside = None  # their digits differ from line to line: nothing to add that would be the same
    else:
        inside = "".join(f"at{n} >= 0 && at{n} + {lines} <= limit{n} && " for n in range(len(op.rows)))
    exists = [
        f"at{n} + {place} >= 0 && at{n} + {place} < limit{n}"
        for n, place in enumerate(digit("row", step.digit) for step in op.rows)
    ]
    apart = r.role.threads * PIECE // buffer.line
    name = r.functions.specific(
        f"copy_{op.slot.ring}",
        "copy_tile",
        **_pieces(r, op.width, element, size),
        element=element,
        rows="".join(f"long long stride{n}, int at{n}, int limit{n}, " for n in range(len(op.rows))),
        size=size,
        line=buffer.line,
        chunks=chunks,
        places=_places(str(geometry(r, buffer)["swizzle"]), lines, buffer.line, chunks),
        lines=lines,
        apart=apart,
        first_thread=32 * (4 * r.role.first + first),
        offset={
            row: " + ".join(f"{digit(row, step.digit)} * stride{n}" for n, step in enumerate(op.rows)) or "0"
            for row in ("line", "row")
        },
        inside=inside,
        exists=f"!({' && '.join(exists)}) ? 0 : " if exists else "",
        advance=f"{apart} * stride0" if op.rows else "",
        whole=op.width == PIECE,  # columns begin at multiples of a copy's width: no copy straddles the tensor's first
    )
    rows = [f"{r.stride(op.tensor, x.dim)}, {r.integer(op.index[x.dim])}, {r.integer(x.limit)}, " for x in op.rows]
    columns = f"{r.integer(op.index[op.col_dim])}, {r.integer(op.col_limit)}"
    return f"{name}({r.slot(op.slot)}, {r.element(op.tensor, op.index)}, {''.join(rows)}{columns});"


def _pieces(r: RoleScope, width: int, element: str, size: int) -> dict[str, str]:
    """The functions that copy 16 bytes, and the first of them."""
    if width not in ASYNCHRONOUS:
        fields: dict[str, object] = {"element": element, "size": size}
        return {
            "copy": r.functions.specific("move_piece", "move_piece", part=False, **fields),
            "copy_part": r.functions.specific("move_piece_part", "move_piece", part=True, **fields),
        }
    return {
        "copy": r.functions.specific(f"copy_piece_{width}", "copy_piece", width=width),
        "copy_part": r.functions.specific(f"copy_piece_part_{width}", "copy_piece_part", width=width),
    }


def _places(swizzle: str, lines: int, line: int, chunks: int) -> list[str]:
    """Where a thread's first piece of each chunk lies in a tile."""
    if not swizzle:
        return [f"16 * thread + {c * lines * line}" for c in range(chunks)]
    if lines % _ATOM_LINES == 0 or chunks == 1:
        crossed = f"{swizzle}(16 * thread)"
        return [f"{crossed} + {c * lines * line}" if c else crossed for c in range(chunks)]
    return [f"{swizzle}(16 * thread + {c * lines * line})" for c in range(chunks)]


def signal_copies(r: RoleScope, op: SignalCopies) -> str:
    arrive = r.functions.helper("copies_signal" if op.asynchronous else "mbarrier_arrive")
    return f"{arrive}({r.barrier(op.slot, 'full')});"


def copy_commit(r: RoleScope, op: CopyCommit) -> str:
    return f"{r.functions.helper('copy_commit')}();"


def copy_wait(r: RoleScope, op: CopyWait) -> str:
    return f"{r.functions.specific(f'copy_wait_{op.pending}', 'copy_wait', pending=op.pending)}();"


STATEMENTS: dict[type, Callable[[RoleScope, Any], str]] = {
    CopyTile: copy_tile,
    SignalCopies: signal_copies,
    CopyCommit: copy_commit,
    CopyWait: copy_wait,
}
