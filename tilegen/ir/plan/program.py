"""The whole: a plan, its roles, and how its work items are dealt out."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

from tilegen.ir.dtypes import DType
from tilegen.ir.plan.memory import Buffer, Cursor, Ring
from tilegen.ir.plan.operations import Let, Operation
from tilegen.ir.plan.params import Descriptor, Param
from tilegen.ir.plan.values import Fragment
from tilegen.ir.uniform import Int, Op, Sym, Uniform
from tilegen.records import dataclass

WARPS = 4  # of a warpgroup
ABOUT_DOMAIN = "domain clause"  # what a note begins with that tells of one


@dataclass(frozen=True)
class RolePlan:
    """One sequence run by `warpgroups` warpgroups from `first` on. elected: by one thread of the first warp only
    (after SetRegisters, which all its warps run). In a consumer, or a worker, which is the only role of its plan and
    does everything, the symbol `warpgroup` is its index in the role.
    warps: the only warps of its one warpgroup that run it, (first, count); the registers are set by the role that
    the warpgroup's first warp runs.
    together: so many of its warpgroups are the same 128 threads, which do each operation for one after the other, and
    what is not of a warpgroup once. Fragments are of each."""

    name: str
    kind: str  # producer | copier | consumer | scanner | worker
    first: int
    warpgroups: int
    registers: int | None
    elected: bool
    cursors: tuple[Cursor, ...]
    fragments: tuple[Fragment, ...]
    body: tuple[Operation, ...]
    warps: tuple[int, int] | None = None
    together: int = 1

    @property
    def thread_groups(self) -> int:
        """Groups of 128 threads that its warpgroups are."""
        return self.warpgroups // self.together

    @property
    def warps_of_group(self) -> tuple[int, int]:
        """(first, count) of the warps of each of its warpgroups that run it."""
        return self.warps or (0, WARPS)

    def frees_by_warp(self, ring: Ring) -> bool:
        """Whether one thread of each of its warps frees a slot; otherwise one thread of all."""
        return ring.release == "warp" or self.warps is not None

    def releases(self, ring: Ring) -> int:
        """Arrivals with which each of its warpgroups frees a slot."""
        return self.warps_of_group[1] if self.frees_by_warp(ring) else 1

    @property
    def threads(self) -> int:
        """Threads that run it."""
        return 1 if self.elected else 32 * self.thread_groups * self.warps_of_group[1]


@dataclass(frozen=True)
class Lengths:
    """Sequences one behind the other on an axis of `tokens` positions.

    `starts`: the tensor, int32[count + 1], of where each begins, the end of the last one behind them. `start` and
    `length`: the names that an item's own sequence gives values to.
    """

    starts: str
    tokens: Uniform
    start: str
    length: str


@dataclass(frozen=True)
class Sequences:
    """Items made of sequences whose lengths stand in the device's memory: a kernel of its own deals them out there.

    Each of `count` sequences makes `units` (over its own lengths); all of them, `all_units`, are ordered by cost, the
    costliest first, equals as they come. Item numbers run in the order of dealing: of `items` (over `all_units`) each
    is one with the unit of rank `rank` by the bindings of `ranking`. Then `position` (which sequence), its lengths and
    `unit` (which of its units) are known, and the table's `lets` follow. No launch has more than `most_units`.

    The kernel's parameters are `params`; of the numbers among them, the host works out `given` from sizes. Words of
    scratch memory: `scratch`. Fault words: 1 if the starts of a launch were wrong, and then which of `lengths`, at
    which entry, its value, the one before it, the tokens.
    """

    count: Uniform
    position: str
    lengths: tuple[Lengths, ...]
    units: Uniform
    unit: str
    all_units: str
    most_units: Uniform
    items: Uniform
    ranking: tuple[Let, ...]
    rank: str
    given: tuple[Let, ...]
    scratch: Uniform
    params: tuple[Param, ...]


@dataclass(frozen=True)
class ItemTable:
    """How work items are dealt out: in order, each to the CTA that is free first by these costs.

    The table is int32[rounds, CTAs, width]; column c lists the items of CTA c, then rows that begin with `total` to
    the end, at least once. A row is the item's number and the values of `fields`, padded to a multiple of 4.
    Values and cost of an item: with its number bound to `item` and then `lets`; costs are numbers of any one unit.

    The host makes it, or, with `sequences`, the device: `total` is then no less than the number of items, and a
    unit's cost is that with the names that `ranking` binds at 0. Items go round by round: of as many as there are
    CTAs the costliest to the CTA with the least work so far.
    """

    item: str
    total: Uniform
    lets: tuple[Let, ...]
    cost: Uniform
    fields: tuple[str, ...]
    sequences: Sequences | None = None

    @property
    def width(self) -> int:
        """int32 words a row: 16-byte pieces, so that a row is read in few loads."""
        return -(-(1 + len(self.fields)) // 4) * 4


@dataclass(frozen=True)
class TensorShape:
    """What a kernel parameter's tensor looks like: extents as polynomials' uniform expressions, outermost first."""

    name: str
    dtype: DType
    dims: tuple[Uniform, ...]
    output: bool


@dataclass(frozen=True)
class Plan:
    """A kernel, or one variant of it. `grid`: CTAs to launch (may use `sm_count`), 0: nothing to do. `shared_bytes`:
    dynamic, from a base aligned to 1024. `guard`: of several plans of one kernel a launch takes the first whose guard,
    over sizes and integer scalars (also such as are no parameters) and alignments (`variants.alignment`), holds; None
    holds always.

    `dependent`: a launch may begin under the end of the one before it on its stream; it waits for that one before any
    thread touches the tensors. `registers_at_entry`: what the compiler gives each thread before SetRegisters. `notes`:
    what the compiler mended or chose, in words. `cluster`: CTAs that run together, of consecutive numbers; they do each
    work item together, begin when the barriers of all are made, and end together.
    """

    name: str
    target: str
    source_name: str
    params: tuple[Param, ...]
    tensors: tuple[TensorShape, ...]
    descriptors: tuple[Descriptor, ...]
    buffers: tuple[Buffer, ...]
    rings: tuple[Ring, ...]
    roles: tuple[RolePlan, ...]
    threads: int
    shared_bytes: int
    registers_at_entry: int
    grid: Uniform
    table: ItemTable | None = None
    notes: tuple[str, ...] = field(default=())
    dependent: bool = False
    guard: Int | Sym | Op | None = None
    cluster: int = 1

    def descriptor(self, name: str) -> Descriptor:
        return self._descriptors[name]

    def buffer(self, name: str) -> Buffer:
        return self._buffers[name]

    def ring(self, name: str) -> Ring:
        return self._rings[name]

    def role(self, name: str) -> RolePlan:
        return next(r for r in self.roles if r.name == name)

    def tensor(self, name: str) -> TensorShape:
        return self._tensors[name]

    @cached_property
    def _descriptors(self) -> dict[str, Descriptor]:
        return {d.name: d for d in self.descriptors}

    @cached_property
    def _buffers(self) -> dict[str, Buffer]:
        return {b.name: b for b in self.buffers}

    @cached_property
    def _rings(self) -> dict[str, Ring]:
        return {r.name: r for r in self.rings}

    @cached_property
    def _tensors(self) -> dict[str, TensorShape]:
        return {t.name: t for t in self.tensors}
