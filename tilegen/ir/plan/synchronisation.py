"""Operations that wait, arrive, meet, count and order."""

from __future__ import annotations

from tilegen.ir.plan.memory import Slot
from tilegen.records import dataclass
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class Expect:
    """One arrival on the full barrier of the slot, and the bytes it is to expect."""

    slot: Slot
    bytes: int
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class CtaSync:
    """All threads of the CTA meet (barrier 0): what each wrote, and has awaited of its copies, is seen by all, and
    nobody still reads what was read before."""

    span: Span
    statement: str = ""


@dataclass(frozen=True)
class WaitFull:
    """Wait until the slot is filled."""

    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class WaitEmpty:
    """Wait until all who read the slot have released it."""

    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class ArriveEmpty:
    """Release the slot: this role reads it no more in this generation."""

    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class WaitClean:
    """Wait until the slot has been looked through; it is full then."""

    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class ArriveClean:
    """The slot has been looked through, by this warp: one arrival a warp."""

    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Advance:
    """Move a cursor to the next position."""

    cursor: str
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class OrderWait:
    """Wait for this warpgroup's turn (named barrier `first_id` + warpgroup, 2 x 128 threads)."""

    first_id: int
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class OrderPass:
    """Hand the turn to the next warpgroup, cyclically."""

    first_id: int
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class OrderStart:
    """Before the first turn: the last warpgroup passes, so that warpgroup 0 begins."""

    first_id: int
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class GroupSync:
    """All 128 threads of each warpgroup meet (named barrier `first_id` + warpgroup)."""

    first_id: int
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class FenceAsync:
    """Generic writes to shared memory become visible to TMA and wgmma (fence.proxy.async)."""

    span: Span
    statement: str = ""
