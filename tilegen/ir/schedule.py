"""Schedule directives, one dataclass each: what a `schedule` block says, names resolved, before any rewrite."""

from __future__ import annotations

from typing import TypeAlias

from tilegen.ir.uniform import Int, Op, Sym
from tilegen.records import dataclass
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class Block:
    """`block i 192`: positions of an axis held by one tile (all consumers together)."""

    axis: str
    extent: int
    span: Span


@dataclass(frozen=True)
class Consumers:
    """`consumers 3 over i`: consumer warpgroups, and the axes whose blocks are the rows they share out, outermost
    first."""

    count: int
    axes: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class Stages:
    """`stages k 3`: ring depth of a tile, or of the places that pieces of an output leave through."""

    tile: str
    depth: int
    span: Span


@dataclass(frozen=True)
class Late:
    """`late O by 1`: at step t the op works on iteration t - distance."""

    name: str
    distance: int
    span: Span


@dataclass(frozen=True)
class Ahead:
    """`ahead s by 1`: every other op of the body is late by `distance`."""

    name: str
    distance: int
    span: Span


@dataclass(frozen=True)
class Batch:
    """`batch O, s`: issued in this order, one commit, awaited before anything else of the body."""

    names: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class Issue:
    """`issue s, O`: products issued in this order, a commit each."""

    names: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class Under:
    """`under O: p`: p is computed between O's issue and its wait."""

    product: str
    names: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class TakeTurns:
    """`take_turns over s, O`: one warpgroup at a time issues these products."""

    names: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class StaleMax:
    """`stale_max`: scaled sums keep an old exponent; rows that outgrow it redo the step exactly."""

    span: Span


@dataclass(frozen=True)
class Walk:
    """`walk j down`: direction in which a streamed axis is visited (up or down)."""

    axis: str
    direction: str
    span: Span


@dataclass(frozen=True)
class Persistent:
    """`persistent static|counter|table`: one CTA an SM works through many items."""

    mode: str
    span: Span


@dataclass(frozen=True)
class Order:
    """`order longest_first` or `order i, h, b` (innermost first): the order of work items."""

    names: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class Group:
    """`group h by 32 MB` (bytes set) or `group i by 8` (count set): items kept together in L2."""

    axis: str
    bytes: int | None
    count: int | None
    span: Span


@dataclass(frozen=True)
class Alias:
    """`alias O, q`: the second buffer's bytes serve the first as well."""

    buffer: str
    host: str
    span: Span


@dataclass(frozen=True)
class Role:
    """`grid b, h` · `stream j` · `hold d`: the role of axes, over the default."""

    role: str
    axes: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class SplitReduction:
    """`split j by 4`: a reduced axis cut over CTAs."""

    axis: str
    parts: int
    span: Span


@dataclass(frozen=True)
class Via:
    """`via k tma|cp_async|auto`, `via O tma|rows`: how a tile or an output is moved.

    width: bytes of a copy at most, for threads: what the tensor's alignment is known to allow."""

    tile: str
    mover: str
    span: Span
    width: int = 16


@dataclass(frozen=True)
class Hint:
    """`hint k keep, q stream`: how long L2 holds on to what a tile brings or an output writes: keep, stream or
    normal."""

    name: str
    how: str
    span: Span


@dataclass(frozen=True)
class Oob:
    """`oob x nan`: what a tile holds outside its tensor: zero, or the NaN that `fma.rn.oob` makes zeros of."""

    tile: str
    fill: str
    span: Span


@dataclass(frozen=True)
class Multicast:
    """`multicast k over i by 2`: one load serves a cluster of so many CTAs along a grid axis."""

    tile: str
    axis: str
    count: int
    span: Span


@dataclass(frozen=True)
class Place:
    """`place P registers|shared`: where an operand is held."""

    name: str
    where: str
    span: Span


@dataclass(frozen=True)
class Registers:
    """`registers 240, 24`: per thread, consumers then producer."""

    consumer: int
    producer: int
    span: Span


@dataclass(frozen=True)
class Option:
    """A named switch or number that one target understands (`waves 4`, `prefetch 2`, `exact_max`, `isolate fast`)."""

    name: str
    value: str | int | None
    span: Span


@dataclass(frozen=True)
class Outputs:
    """`outputs dK, dV { ... }`: directives for a loop nest of its own for these outputs."""

    names: tuple[str, ...]
    directives: tuple[Directive, ...]
    span: Span


Directive: TypeAlias = (
    "Block | Consumers | Stages | Late | Ahead | Batch | Issue | Under | TakeTurns | StaleMax | Walk | Persistent"
    " | Order | Group | Alias | Role | SplitReduction | Via | Hint | Oob | Multicast | Place | Registers | Option"
    " | Outputs"
)


@dataclass(frozen=True)
class Schedule:
    """The directives of one `schedule TARGET [if CONDITION] { … }` whose condition the parameters do not rule out.

    guard: what they leave of the condition, over sizes and integer scalars, for the launch to decide. None: it holds.
    """

    target: str
    guard: Int | Sym | Op | None
    directives: tuple[Directive, ...]
    span: Span
