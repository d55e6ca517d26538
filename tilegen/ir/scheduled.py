"""The Scheduled program: every decision taken, no synchronisation yet.

It holds decisions in primitive form; what follows from them (tile shapes, bytes, byte counts, who waits for
whom) is derived by `synchronise`. Directives of the schedule language are rewrites of this, one function each
in `passes/rewrites.py`.

A streamed loop runs over iterations t = 0 … n-1 of its blocks. A step with distance k works, at time t, on
iteration t - k; the loop is laid out for t = 0 … n-1+max(k), each step present where 0 <= t - k < n.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TypeAlias

from tilegen.ir.folded import FoldedOp, FoldedProgram
from tilegen.ir.plan import CLUSTER_RANK
from tilegen.ir.uniform import Uniform, op
from tilegen.records import dataclass
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class AxisRole:
    """grid: a work item holds one block of it · stream: visited block by block · hold: whole in its tile."""

    axis: str
    role: str
    block: int
    span: Span


@dataclass(frozen=True)
class Step:
    """One operation of the folded program, `distance` iterations late."""

    op: str
    distance: int
    span: Span


@dataclass(frozen=True)
class Batch:
    """Products issued together, in this order, with one commit.

    wait: "now": awaited before anything else of the body · "needed": awaited where a later step needs it, or
    needs its registers · "next": awaited one iteration later, so that one group stays in flight.
    """

    steps: tuple[Step, ...]
    wait: str
    span: Span


Item: TypeAlias = "Step | Batch"


@dataclass(frozen=True)
class Stream:
    """A loop over the blocks of one streamed axis; direction "up" or "down".

    skip: a consumer passes by the first blocks that only the other consumers' rows need (it takes its turns and
    frees the slots, and computes nothing).
    """

    axis: str
    direction: str
    skip: bool
    body: tuple[Item, ...]
    span: Span

    @property
    def reach(self) -> int:
        """The largest distance in it."""
        return max((s.distance for s in self.steps), default=0)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(s for item in self.body for s in (item.steps if isinstance(item, Batch) else (item,)))


@dataclass(frozen=True)
class Straight:
    """Operations outside any streamed loop, in order."""

    body: tuple[Item, ...]
    span: Span

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(s for item in self.body for s in (item.steps if isinstance(item, Batch) else (item,)))


Phase: TypeAlias = "Stream | Straight"


@dataclass(frozen=True)
class TileBuffer:
    """Where a tile stands in shared memory: a ring of `depth` slots, `apart` one for each consumer warpgroup.

    scan: blocks that a domain cuts are looked through, and entries that are no finite numbers kept from rows that do
    not see them. hint: how long L2 holds on to what is brought: "keep", "stream" or "" (as it does by itself).
    mover: "tma", or "cp_async": threads copy it, at most `width` bytes at once, which the tensor's rows begin at
    multiples of. multicast: the cluster's axis along which CTAs share the tile, each loading a part for all; or "".
    fill: what it holds outside the tensor: "zero", or "nan" that `fma.rn.oob` makes zeros of.
    """

    tile: str
    depth: int
    apart: bool
    span: Span
    scan: bool = False
    hint: str = ""
    mover: str = "tma"
    width: int = 16
    multicast: str = ""
    fill: str = "zero"


@dataclass(frozen=True)
class Store:
    """How an output leaves: "rows" from registers, predicated · "tma" through shared memory (bytes of tile `host`, or
    its own). hint: of a TMA store, as of a tile. stages: places of its own that pieces as wide as a swizzle leave
    through; 0: all of it leaves at once."""

    output: str
    via: str
    host: str | None
    span: Span
    hint: str = ""
    stages: int = 0


@dataclass(frozen=True)
class Workers:
    """Consumer warpgroups sharing out the rows, which are the blocks of `axes`, outermost first; registers a thread,
    None: no reallocation. together: so many of them are the same threads, on a target where they can be."""

    count: int
    axes: tuple[str, ...]
    consumer_registers: int | None
    producer_registers: int | None
    span: Span
    together: int = 1

    @property
    def names(self) -> str:
        """The axes of the rows, in words."""
        return " and ".join(self.axes)


@dataclass(frozen=True)
class ClusterAxis:
    """`count` CTAs of a cluster stand next to each other along a grid axis: each has one of as many blocks."""

    axis: str
    count: int
    span: Span


@dataclass(frozen=True)
class WorkOrder:
    """Order of work items. axes: innermost first; descending: walked from the far end.

    persistent: None, "static" (items dealt out round-robin) or "table" (by cost, ahead of the launch).
    group: (axis, bytes or None, count or None): items of the axis kept together.
    """

    axes: tuple[str, ...]
    descending: tuple[str, ...]
    persistent: str | None
    group: tuple[str, int | None, int | None] | None
    span: Span


@dataclass(frozen=True)
class Scheduled:
    """A folded program with its schedule."""

    program: FoldedProgram
    target: str
    roles: tuple[AxisRole, ...]
    workers: Workers
    order: WorkOrder
    tiles: tuple[TileBuffer, ...]
    stores: tuple[Store, ...]
    phases: tuple[Phase, ...]
    turns: tuple[str, ...]  # products issued by one warpgroup at a time; empty: no turns
    stale: tuple[str, ...]  # exponents that are kept where no mask is needed, until a row outgrows its own
    span: Span
    dependent: bool = False  # a launch may begin under the end of the one before it on its stream
    placed: tuple[str, ...] = ()  # computed first factors of products that stand in shared memory, not in registers
    cluster: tuple[ClusterAxis, ...] = ()  # the CTAs that run together, numbered along the first axis first

    def role(self, axis: str) -> AxisRole:
        return next(r for r in self.roles if r.axis == axis)

    def has_role(self, axis: str, role: str) -> bool:
        return any(r.axis == axis and r.role == role for r in self.roles)

    def tile(self, name: str) -> TileBuffer:
        return next(t for t in self.tiles if t.tile == name)

    def store(self, output: str) -> Store:
        return next(s for s in self.stores if s.output == output)

    @property
    def cluster_size(self) -> int:
        return prod(c.count for c in self.cluster)

    def clustered(self, axis: str) -> int:
        """How many CTAs of a cluster stand along an axis."""
        return next((c.count for c in self.cluster if c.axis == axis), 1)

    def cluster_stride(self, axis: str) -> int:
        """By how much the ranks of two CTAs that are neighbours along an axis differ."""
        before = [c.count for c in self.cluster[: [c.axis for c in self.cluster].index(axis)]]
        return prod(before)

    def place_in_cluster(self, axis: str) -> Uniform:
        """Which of the cluster's blocks along an axis the CTA has."""
        place = op("floordiv", CLUSTER_RANK, self.cluster_stride(axis))
        return place if axis == self.cluster[-1].axis else op("mod", place, self.clustered(axis))

    def op(self, name: str) -> FoldedOp:
        return self.program.op(name)

    def with_role(self, role: AxisRole) -> Scheduled:
        return replace(self, roles=tuple(role if r.axis == role.axis else r for r in self.roles))
