"""What a warpgroup has while a plan is interpreted: registers, cursors, slots that it may read, what is in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.ir import plan as ir
from tilegen.ir.uniform import Uniform, evaluate

Array = npt.NDArray[Any]
ROWS = 64
FILL = 0x7FF7  # what TMA's NaN fill writes to a 16-bit element, as the emulator has it
QUAD = 4  # lanes that share a row: a row fragment is an array of ROWS x QUAD, one value a lane
F32 = np.float32


class Misuse(AssertionError):  # noqa: N818
    """The plan reads what is not there yet or no more."""


@dataclass
class Shared:
    """Every slot that the producer fills, by its absolute position: as if rings had no end."""

    plan: ir.Plan
    slots: dict[tuple[str, int], list[Array]] = field(default_factory=dict)
    clean: set[tuple[str, int, int]] = field(default_factory=set)  # ring, part and position looked through
    spoiled: set[str] = field(default_factory=set)

    def tile(self, ring: str, part: int, position: int) -> Array:
        """rows x columns of the slot, those past the last one in use among them."""
        filled = self.slots.get((ring, part), [])
        if position >= len(filled):
            raise Misuse(f"{ring}[{part}] at {position} is never filled")
        b = self.plan.buffer(self.plan.ring(ring).buffer)
        chunks: Array = filled[position].reshape(-1, b.rows, b.chunk)
        return np.moveaxis(chunks, 0, 1).reshape(b.rows, -1)


@dataclass
class State:
    """One warpgroup of a role. Its subclasses know the operations, each by a method `do_` and the operation's name."""

    plan: ir.Plan
    role: ir.RolePlan
    shared: Shared
    tensors: dict[str, Array]
    warpgroup: int
    cta: int
    ctas: int
    lazy: bool
    names: dict[str, int] = field(default_factory=dict)
    floats: dict[str, Any] = field(default_factory=dict)
    registers: dict[str, Array] = field(default_factory=dict)
    cursors: dict[str, int] = field(default_factory=dict)
    staged: dict[tuple[str, int], Array] = field(default_factory=dict)  # by buffer and stage
    ready: set[tuple[str, int]] = field(default_factory=set)  # slots waited for and not released
    issued: list[tuple[str, Callable[[], None]]] = field(default_factory=list)
    flying: list[tuple[tuple[str, ...], list[Callable[[], None]]]] = field(default_factory=list)

    def body(self, operations: Iterable[ir.Operation]) -> None:
        for o in operations:
            method = getattr(self, f"do_{type(o).__name__}", None)
            if method is not None:
                method(o)
            elif not isinstance(o, _ORDER_ONLY):
                raise NotImplementedError(type(o).__name__)

    def int(self, value: Uniform) -> int:
        return evaluate(value, self.names)

    # ---- slots ----

    def part(self, slot: ir.Slot) -> int:
        own = self.warpgroup if self.plan.ring(slot.ring).parts > 1 else 0
        return own if slot.part is None else slot.part

    def place(self, slot: ir.Slot) -> int:
        return self.cursors.get(slot.cursor, 0)

    def tile(self, slot: ir.Slot, position: int) -> Array:
        if (slot.ring, position) not in self.ready:
            raise Misuse(f"{slot.ring} at {position} is read before it is full or after its release")
        return self.shared.tile(slot.ring, self.part(slot), position)

    # ---- registers ----

    def fragment(self, name: str) -> ir.Fragment:
        return next(f for f in self.role.fragments if f.name == name)

    def is_row(self, name: str) -> bool:
        return self.fragment(name).layout == "row"

    def read(self, name: str) -> Array:
        storage = self.fragment(name).storage or name
        if storage not in self.registers:
            raise Misuse(f"{name} is read before it is written")
        return self.registers[storage]

    def write(self, name: str, value: Array) -> None:
        f = self.fragment(name)
        shape = {"row": (ROWS, QUAD), "col": (f.cols,)}.get(f.layout, (ROWS, f.cols))
        self.registers[f.storage or name] = np.array(np.broadcast_to(value, shape))


def row_positions(digit: ir.Digit | None) -> npt.NDArray[np.int64]:
    """Where each row of a warpgroup is along an axis."""
    rows = np.arange(ROWS)
    if digit is None:
        return rows
    return rows // digit.divide % digit.modulo if digit.modulo else rows // digit.divide


def stored_cols(b: ir.Buffer) -> int:
    """Columns of whole chunks."""
    return -(-b.cols // b.chunk) * b.chunk


_ORDER_ONLY = (
    ir.SetRegisters,
    ir.WaitEmpty,
    ir.SignalCopies,
    ir.OrderWait,
    ir.OrderPass,
    ir.OrderStart,
    ir.GroupSync,
    ir.FenceAsync,
    ir.MmaFence,
    ir.StoreCommit,
    ir.StoreWait,
)
