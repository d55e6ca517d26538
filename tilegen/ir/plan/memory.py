"""Shared memory: buffers, the rings that they are slots of, and their mbarriers."""

from __future__ import annotations

from tilegen.ir.dtypes import DType
from tilegen.ir.uniform import Uniform, op
from tilegen.records import dataclass
from tilegen.syntax.span import Span

CLUSTER_RANK = "cluster.rank"  # the name of a CTA's number in its cluster


@dataclass(frozen=True)
class Buffer:
    """A tile in shared memory, `stages` of them `stage_bytes` apart from `offset` (bytes in dynamic shared memory).

    `parts`: independent copies, one for each consumer warpgroup; copy p of stage s is number s * parts + p.
    `line` is the bytes of a chunk's row. `host` names the buffer whose bytes these are, if aliased.
    """

    name: str
    dtype: DType
    rows: int
    cols: int
    chunk: int
    line: int
    swizzle: int
    offset: int
    stage_bytes: int
    stages: int
    parts: int
    host: str | None
    span: Span


@dataclass(frozen=True)
class Scan:
    """Slots of a ring are looked through before their readers take them (see ScanSlot).

    clean: offset of an mbarrier for each stage and part, `arrivals` arrivals, that says a slot was (none in a ring
    without barriers). flag: offset of an int32, 0 until an entry that is no finite number was found.
    """

    clean: int
    arrivals: int
    flag: int


@dataclass(frozen=True)
class RingBarriers:
    """The mbarriers of one kind (full | empty | clean), one for each stage and part, from `offset` on."""

    kind: str
    offset: int
    arrivals: int


@dataclass(frozen=True)
class Sharers:
    """CTAs of a cluster whose rings hold the same: `count` of them, `stride` ranks apart. The nth has the number n."""

    count: int
    stride: int

    @property
    def number(self) -> Uniform:
        """Of the CTA at hand."""
        return op("mod", op("floordiv", CLUSTER_RANK, self.stride), self.count)

    def ranks(self, rank: int) -> tuple[int, ...]:
        """Of those that share with the CTA of this rank, itself among them."""
        first = rank - rank // self.stride % self.count * self.stride
        return tuple(first + n * self.stride for n in range(self.count))


@dataclass(frozen=True)
class Ring:
    """A buffer with a full and an empty mbarrier for each stage and part; with none (no arrivals, release "none") where
    those who read a slot have filled it, wait for their own copies and meet.

    full: `full_arrivals` arrivals plus the expected bytes, if TMA fills it; empty: `empty_arrivals` arrivals, of one
    thread a warpgroup (`release` "warpgroup") or of one a warp ("warp"; always of a role that has only some warps of
    its warpgroup). Barrier of stage s, part p: offset + 8 * (s * parts + p).

    sharers: each of these CTAs has TMA bring a share of a tile to all of them, so a full barrier sees the bytes of all
    shares, and a slot is freed on the empty barrier of each: `empty_arrivals` counts the consumers of them all.
    """

    name: str
    buffer: str
    depth: int
    parts: int
    full: int
    empty: int
    full_arrivals: int
    empty_arrivals: int
    release: str
    bytes: int  # of a tile; expected by a full barrier each time, where TMA brings them
    span: Span
    scan: Scan | None = None
    sharers: Sharers | None = None

    @property
    def shares(self) -> int:
        """How many CTAs fill a slot together."""
        return 1 if self.sharers is None else self.sharers.count

    @property
    def barriers(self) -> tuple[RingBarriers, ...]:
        """Those of every kind that the ring has."""
        if self.release == "none":
            return ()
        both = (
            RingBarriers("full", self.full, self.full_arrivals),
            RingBarriers("empty", self.empty, self.empty_arrivals),
        )
        return both if self.scan is None else (*both, RingBarriers("clean", self.scan.clean, self.scan.arrivals))


@dataclass(frozen=True)
class Cursor:
    """A counter of one role over a ring's positions."""

    name: str
    ring: str


@dataclass(frozen=True)
class Slot:
    """`ring@cursor`, in the part that is the constant `part`, or the reader's own warpgroup if None."""

    ring: str
    cursor: str
    part: int | None = None
