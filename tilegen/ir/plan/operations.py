"""Names, loops and branches, and with them all operations of a plan.

Each carries the span of the spec's statement that it comes from; `statement` is that statement's name.
"""

from __future__ import annotations

from typing import TypeAlias

from tilegen.ir.plan.elementwise import CopyOperand, FmaOob, Init, Map, Mask, QuadReduce, Relayout, RowFold
from tilegen.ir.plan.movement import (
    CopyCommit,
    CopyTile,
    CopyWait,
    LoadVector,
    Mend,
    ReadShared,
    ScanSlot,
    SignalCopies,
    StoreCommit,
    StoreRows,
    StoreVector,
    StoreWait,
    TmaLoad,
    TmaStore,
    WriteShared,
)
from tilegen.ir.plan.products import Mma, MmaCommit, MmaFence, MmaWait, WarpMma
from tilegen.ir.plan.synchronisation import (
    Advance,
    ArriveClean,
    ArriveEmpty,
    CtaSync,
    Expect,
    FenceAsync,
    GroupSync,
    OrderPass,
    OrderStart,
    OrderWait,
    WaitClean,
    WaitEmpty,
    WaitFull,
)
from tilegen.ir.plan.values import ElementExpr
from tilegen.ir.uniform import Int, Uniform
from tilegen.records import dataclass
from tilegen.syntax.span import Span

ALWAYS = Int(1)  # what holds wherever it is asked for


@dataclass(frozen=True)
class Let:
    """Bind a uniform integer for the rest of the enclosing body."""

    name: str
    value: Uniform
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class LetFloat:
    """Bind a uniform float. `value` has no fragment in it. `load`: (tensor, index a dimension) reads one element
    instead, or is 0 where `exists` is 0."""

    name: str
    value: ElementExpr | None
    load: tuple[str, tuple[Uniform, ...]] | None
    span: Span
    statement: str = ""
    exists: Uniform = ALWAYS


@dataclass(frozen=True)
class Work:
    """The loop over work items: binds `index`. static: index = CTA, CTA + CTAs, … < total; single: index = CTA (where
    CTAs form clusters, numbers of clusters); table: the items that the table lists for the CTA, and `fields`, some of
    its own, from the item's row in it."""

    index: str
    total: Uniform
    mode: str
    body: tuple[Operation, ...]
    span: Span
    statement: str = ""
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class For:
    """for var in [start, stop): body. `label` says what the loop is, for readers ("inside", "right straddle")."""

    var: str
    start: Uniform
    stop: Uniform
    body: tuple[Operation, ...]
    label: str
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class If:
    """A branch that the whole role takes together."""

    condition: Uniform
    body: tuple[Operation, ...]
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class SetRegisters:
    """Each thread has `count` registers from here on: more than before (`increase`), or fewer."""

    count: int
    increase: bool
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Sweep:
    """Element-wise operations carried out together, a few columns at a time, over accumulators of one width; and the
    tiles that they read and the buffers that they write.

    Fragments stored nowhere (`Fragment.storage` empty) exist inside a Sweep only, a few columns of them at a time.
    """

    body: tuple[Map | RowFold | Relayout | ReadShared | WriteShared, ...]
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class IfVote:
    """A warp takes the branch together if any of its threads holds a non-zero element in a row fragment.

    It holds no synchronisation: what a row then does must depend on that row alone.
    """

    fragment: str
    body: tuple[Operation, ...]
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class IfSpoiled:
    """A branch that is taken if a scan of the ring has ever found an entry that is no finite number.

    It holds no synchronisation, and changes nothing where the item at hand has no such entry.
    """

    ring: str
    body: tuple[Operation, ...]
    span: Span
    statement: str = ""


Operation: TypeAlias = (
    "Let | LetFloat | Work | For | If | IfVote | IfSpoiled | Sweep | SetRegisters"
    " | Expect | TmaLoad | CopyTile | SignalCopies | CopyCommit | CopyWait | CtaSync | TmaStore | StoreCommit"
    " | StoreWait | WaitFull | WaitEmpty"
    " | WaitClean | ArriveEmpty | ArriveClean | ScanSlot | Advance | OrderWait | OrderPass | OrderStart | GroupSync"
    " | FenceAsync"
    " | Mma | WarpMma | MmaFence | MmaCommit | MmaWait | Init | Map | FmaOob | Mask | RowFold | QuadReduce"
    " | Relayout | CopyOperand | ReadShared | WriteShared | LoadVector | StoreRows | StoreVector | Mend"
)
