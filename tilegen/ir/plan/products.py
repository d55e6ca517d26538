"""Products of tensor cores, their operands, and the waits for them."""

from __future__ import annotations

from typing import TypeAlias

from tilegen.ir.dtypes import DType
from tilegen.ir.plan.memory import Slot
from tilegen.ir.uniform import Int, Op, Sym
from tilegen.records import dataclass
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class SlotOperand:
    """A wgmma operand in shared memory, in a ring slot.

    major: "k" or "mn": which direction is contiguous. offsets: bytes added to the slot for each k step (of 16
    columns for 16-bit types). warpgroup: bytes added for each warpgroup index. leading, stride: the
    descriptor's LBO and SBO in bytes (hardware.md 3.4).
    """

    slot: Slot
    major: str
    offsets: tuple[int, ...]
    warpgroup: int
    leading: int
    stride: int
    swizzle: int


@dataclass(frozen=True)
class FragmentOperand:
    """The A operand in registers (layout "a"): k step n is registers 4n … 4n+3."""

    fragment: str


@dataclass(frozen=True)
class BufferOperand:
    """The A operand in this warpgroup's part of a buffer that the role itself writes; fields as in SlotOperand."""

    buffer: str
    major: str
    offsets: tuple[int, ...]
    leading: int
    stride: int
    swizzle: int


@dataclass(frozen=True)
class Mma:
    """Issue a product: accumulator (acc) += a x b over len(offsets) k steps; zero: the first step overwrites, always,
    never, or where the condition holds.

    Asynchronous: accumulator, A fragment, buffer and slots are in flight until a MmaWait retires `token`.
    """

    token: str
    accumulator: str
    a: SlotOperand | FragmentOperand | BufferOperand
    b: SlotOperand
    n: int
    dtype: DType
    zero: bool | Int | Sym | Op
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class WarpMma:
    """A product that each warp computes for its own 16 rows, over when the operation is: accumulator (acc) += a x b
    over len(b.offsets) k steps; zero: the first step overwrites.

    Operands in shared memory lie as those of Mma do; each warp reads them itself (ldmatrix), into registers.
    """

    accumulator: str
    a: SlotOperand | FragmentOperand
    b: SlotOperand
    n: int
    dtype: DType
    zero: bool
    span: Span
    statement: str = ""


# What multiplies matrices, by a warpgroup or by warps.
AnyMma: TypeAlias = Mma | WarpMma


@dataclass(frozen=True)
class MmaFence:
    """wgmma.fence: registers written before are visible to the products issued after."""

    span: Span
    statement: str = ""


@dataclass(frozen=True)
class MmaCommit:
    """Close a wgmma group holding the tokens issued since the last commit."""

    tokens: tuple[str, ...]
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class MmaWait:
    """Wait until at most `pending` groups are unfinished. `retires`: tokens known complete after it."""

    pending: int
    retires: tuple[str, ...]
    span: Span
    statement: str = ""
