"""Which schedules there are to try: one description for any spec, made from its axes, tiles, products and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations

from tilegen.checks.resources import MAX_REGISTERS
from tilegen.ir import schedule as say
from tilegen.ir.folded import FoldedProgram, Product
from tilegen.ir.plan_rules.roles import SETMAXNREG
from tilegen.ir.schedule import Directive
from tilegen.ir.scheduled import Scheduled, Stream
from tilegen.ir.tile import TileProgram
from tilegen.passes.factors import factors_of
from tilegen.passes.pipeline import scheduled_with, to_folded
from tilegen.passes.rewrites import lengths_differ
from tilegen.passes.schedule import REGISTERS, registers_at_entry, source_names
from tilegen.passes.stale import scaled_sum
from tilegen.passes.synchronise.hopper import tiles_in_shared
from tilegen.passes.synchronise.rows import WARPGROUP_ROWS

Way = tuple[Directive, ...]
Key = tuple[str, str]  # what a directive is about, and of which name
Point = tuple[int, ...]  # the number of a way, one a choice

COLUMN_BLOCKS = (64, 96, 128, 160, 192, 224, 256)  # of a grid axis beside the rows: columns of an accumulator
STREAM_BLOCKS = (32, 48, 64, 80, 96, 112, 128, 160, 176, 192, 224, 256)
DEPTHS = tuple(range(1, 9))
PLACES = (1, 2)  # that pieces of an output leave through
COUNTS = (4, 8, 16, 32)  # blocks of an axis kept together
SPLITS = 3
MEGABYTES = (16, 32)  # of what a group of items reads, of L2's 50


@dataclass(frozen=True)
class Choice:
    """One thing that a schedule decides, and the ways of saying it; () leaves it as it is without a schedule.

    own: what the spec's own schedule says · usual: what most often paid elsewhere · kind: "shape" for blocks and
    warpgroups, "depth" for stages, which decide what fits beside the shape, "how" for all else.
    """

    name: str
    ways: tuple[Way, ...]
    own: int
    usual: int
    kind: str = "how"


_NEEDS_OTHERS: tuple[Key, ...] = (("TakeTurns", ""), ("Option", "skip_rows"))


def splits(consumers: int) -> tuple[tuple[int, int], ...]:
    """Registers a thread of so many consumers and of the producer, other than by default: the few that give the
    consumers most, each with what is left for the producer, which needs a few dozen."""
    usual = REGISTERS[consumers]
    if usual is None:
        return ()
    entry = registers_at_entry(consumers)
    found = {}
    for producer in range(entry - 8, SETMAXNREG[0] - 8, -8):
        most = min(MAX_REGISTERS, (entry * (consumers + 1) - producer) // consumers // 8 * 8)
        found[most] = producer  # of several that leave as much, the last: the rest is of no use
    return tuple((most, found[most]) for most in sorted(found, reverse=True)[:SPLITS] if most != usual[0])


def _can(d: Directive, consumers: int) -> bool:
    """Whether a schedule with so many consumers can say this."""
    if isinstance(d, say.Registers):
        entry = registers_at_entry(consumers)
        given = consumers * d.consumer + d.producer
        return (
            REGISTERS[consumers] is not None and d.producer < entry <= d.consumer and given <= entry * (consumers + 1)
        )
    return consumers > 1 or about(d) not in _NEEDS_OTHERS


@dataclass(frozen=True)
class Space:
    """All schedules that `choices` make. `fixed`: what the own schedule says beside them, in every schedule."""

    program: FoldedProgram
    target: str
    fixed: Way
    choices: tuple[Choice, ...]

    @property
    def own(self) -> Point:
        return tuple(c.own for c in self.choices)

    @property
    def usual(self) -> Point:
        return tuple(c.usual for c in self.choices)

    def directives(self, point: Point) -> Way:
        """The schedule at a point: what a later choice says of a tile instead of what an earlier one says of all, and
        without what so many warpgroups cannot do."""
        chosen = (c.ways[n] for c, n in zip(self.choices, point, strict=True))
        said = (*self.fixed, *(d for way in chosen for d in way))
        depths = {d.tile: d for d in said if isinstance(d, say.Stages)}
        once = dict.fromkeys(depths[d.tile] if isinstance(d, say.Stages) else d for d in said)
        count = next((d.count for d in once if isinstance(d, say.Consumers)), None)
        return tuple(d for d in once if count is None or _can(d, count))

    def scheduled(self, point: Point) -> Scheduled:
        """Raises TilegenError for a schedule that cannot be."""
        return scheduled_with(self.program, self.directives(point), self.target)

    def told(self, point: Point) -> str:
        """How a point differs from the own schedule, in words."""
        from tilegen.tune.spelling import listed

        parts = [
            listed(c.ways[n]) or f"{c.name}: default" for c, n in zip(self.choices, point, strict=True) if n != c.own
        ]
        return ", ".join(parts) or "own"


def about(d: Directive) -> Key:
    """What a directive is about: two about the same contradict each other."""
    match d:
        case say.Block(axis=name) | say.Walk(axis=name):
            return type(d).__name__, name
        case say.Stages(tile=name) | say.Place(name=name):
            return type(d).__name__, name
        case say.Via(tile=name) | say.Alias(buffer=name):
            return "Via", name
        case say.Late() | say.Ahead() | say.Batch() | say.Issue() | say.Under():
            return "Body", ""
        case say.StaleMax() | say.Option(name="exact_max"):
            return "Maximum", ""
        case say.Option(name=name):
            return "Option", name
        case say.Role(role=role):
            return "Role", role
        case _:
            return type(d).__name__, ""


@dataclass(frozen=True)
class _Draft:
    """A choice before the own schedule is asked. `default`: the way that is taken without a directive."""

    name: str
    keys: frozenset[Key]
    ways: tuple[Way, ...]
    default: int
    usual: int | None = None  # None: the own one
    kind: str = "how"

    def choice(self, own: Iterable[Directive]) -> Choice:
        said = tuple(d for d in own if about(d) in self.keys)
        ways, number = self.ways, self.default
        if said:
            same = [n for n, way in enumerate(ways) if set(way) == set(said)]
            ways, number = (ways, same[0]) if same else ((*ways, said), len(ways))
        return Choice(self.name, ways, number, number if self.usual is None else self.usual, self.kind)


@dataclass(frozen=True)
class _Facts:
    """A program scheduled by default, but for the roles and the rows that its own schedule states."""

    start: Scheduled
    own: Way

    @property
    def tile(self) -> TileProgram:
        return self.start.program.tile

    @property
    def stream(self) -> str | None:
        return next((r.axis for r in self.start.roles if r.role == "stream"), None)

    @property
    def loops(self) -> tuple[Stream, ...]:
        return tuple(p for p in self.start.phases if isinstance(p, Stream))

    @property
    def uneven(self) -> bool:
        """Whether the items' loops differ in length with their rows."""
        return self.stream is not None and lengths_differ(self.stream, self.start)

    def products(self, loop: Stream) -> list[Product]:
        ops = (self.start.op(step.op) for step in loop.steps)
        return [o for o in ops if isinstance(o, Product)]

    def tiles(self, *, streamed: bool) -> list[str]:
        """Tiles in shared memory."""
        return [t for t in tiles_in_shared(self.start) if (self.stream in self.tile.move(t).axes) == streamed]


def space_of(program: TileProgram, target: str = "hopper") -> Space:
    """The schedules for a program with its parameters. Raises TilegenError for what no schedule can mend."""
    span = program.span
    own = tuple(replace(d, span=span) for d in program.directives(target))
    folded = to_folded(program, target)
    shaping = tuple(d for d in own if isinstance(d, say.Role | say.Consumers))
    facts = _Facts(scheduled_with(folded, shaping, target), own)
    drafts = [draft for make in _DRAFTS for draft in make(facts)]
    known = {key for draft in drafts for key in draft.keys}
    fixed = tuple(d for d in own if about(d) not in known)
    return Space(folded, target, fixed, tuple(draft.choice(own) for draft in drafts))


# ---- shapes ----------------------------------------------------------------------------------------


def _consumers(f: _Facts) -> Iterator[_Draft]:
    """Warpgroups with the block that they share out; of several axes along the rows the outermost one's grows."""
    span, axes = f.tile.span, f.start.workers.axes
    blocks = {d.axis: d.extent for d in f.own if isinstance(d, say.Block)}
    inner = [(axis, blocks.get(axis, f.start.role(axis).block)) for axis in axes[1:]]
    positions = WARPGROUP_ROWS
    for _, block in inner:
        positions = max(1, positions // block)
    ways: list[Way] = []
    for count in REGISTERS:
        rows = (say.Block(axes[0], positions * count, span), *(say.Block(a, n, span) for a, n in inner))
        ways.append((*rows, say.Consumers(count, axes, span)))
    keys = {("Consumers", ""), *(("Block", a) for a in axes)}
    default = list(REGISTERS).index(f.start.workers.count)
    yield _Draft("consumers", frozenset(keys), tuple(ways), default, kind="shape")


def _registers(f: _Facts) -> Iterator[_Draft]:
    """Other parts for consumers and producer than by default; which of them can be follows from how many there are."""
    ways = tuple((say.Registers(*pair, f.tile.span),) for n in REGISTERS for pair in splits(n))
    yield _Draft("registers", frozenset({("Registers", "")}), ((), *ways), 0)


def _blocks(f: _Facts) -> Iterator[_Draft]:
    for role in f.start.roles:
        values = STREAM_BLOCKS if role.role == "stream" else COLUMN_BLOCKS
        if role.axis in f.start.workers.axes or role.role == "hold" or (role.role == "grid" and role.block == 1):
            continue
        ways = tuple((say.Block(role.axis, n, f.tile.span),) for n in values)
        key = frozenset({("Block", role.axis)})
        yield _Draft(f"block {role.axis}", key, ways, values.index(role.block), kind="shape")


def _stages(f: _Facts) -> Iterator[_Draft]:
    """One depth for all streamed tiles, and for all others; and, where they are several, another for one of them."""
    span = f.tile.span
    if streamed := f.tiles(streamed=True):
        ways = tuple(tuple(say.Stages(t, n, span) for t in streamed) for n in DEPTHS)
        default = DEPTHS.index(f.start.tile(streamed[0]).depth)
        yield _Draft("stages", frozenset(("Stages", t) for t in streamed), ways, default, kind="depth")
    if others := f.tiles(streamed=False):
        both: tuple[Way, ...] = ((), tuple(say.Stages(t, 2, span) for t in others))
        yield _Draft("stages of the others", frozenset(("Stages", t) for t in others), both, 0, kind="depth")
    for tiles, depths in ((streamed, DEPTHS), (others, (1, 2))):
        for t in tiles if len(tiles) > 1 else ():
            each = tuple((say.Stages(t, n, span),) for n in depths)
            yield _Draft(f"stages of {t}", frozenset(), ((), *each), 0)


# ---- the loop's body -------------------------------------------------------------------------------


def _body(f: _Facts) -> Iterator[_Draft]:
    """A product of what another one of the loop makes may work on the iteration before: issued with that one, or behind
    it, with what leads from one to the other computed under it."""
    for loop in f.loops:
        products = f.products(loop)
        names = [o.name for o in products]
        late = [o for o in products if _behind(o, f.start) & set(names)]
        if late:
            span = f.tile.span
            others = [o for o in products if o not in late]
            behind = tuple(say.Late(name, 1, span) for name in _statements(late))
            ways: list[Way] = [(), (*behind, say.Batch(_statements([*late, *others]), span))]
            if len(late) == 1 and (between := _between(late[0], f)):
                order = say.Issue(_statements([*others, *late]), span)
                ways.append((*behind, order, say.Under(late[0].statement, between, span)))
            yield _Draft("body", frozenset({("Body", "")}), tuple(ways), 0, 1)
            return


def _statements(products: Iterable[Product]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(o.statement for o in products))


def _between(o: Product, f: _Facts) -> tuple[str, ...]:
    """The equations between a product and those that its factors are made of."""
    ops = [f.start.op(name) for name in sorted(_behind(o, f.start))]
    products = {x.statement for x in f.start.program.ops if isinstance(x, Product)}
    return tuple(dict.fromkeys(x.statement for x in ops if x.statement not in products))


def _behind(o: Product, s: Scheduled) -> set[str]:
    """The operations of the program that a product's factors are made of."""
    found: set[str] = set()
    todo = [n for n in (o.a, o.b) if s.program.has(n)]
    while todo:
        name = todo.pop()
        if name not in found and name != o.name:
            found.add(name)
            todo += [n for n in source_names(s.op(name)) if s.program.has(n)]
    return found


def _turns(f: _Facts) -> Iterator[_Draft]:
    statements = _statements(o for loop in f.loops for o in f.products(loop))
    if statements:
        ways = ((), (say.TakeTurns(statements, f.tile.span),))
        yield _Draft("turns", frozenset({("TakeTurns", "")}), ways, 0, 1 if len(statements) > 1 else 0)


def _place(f: _Facts) -> Iterator[_Draft]:
    """A factor that an equation computes may stand in shared memory."""
    held: dict[tuple[str, ...], str] = {}
    for d in f.tile.definitions:
        if factors := factors_of(d.name, f.start.program):
            held.setdefault(factors, d.name)
    for name in held.values():
        ways = ((), (say.Place(name, "shared", f.tile.span),))
        yield _Draft(f"place {name}", frozenset({("Place", name)}), ways, 0)


def _maximum(f: _Facts) -> Iterator[_Draft]:
    program = f.start.program
    if any(scaled_sum(o.name, loop, program) for loop in f.loops for o in program.ops):
        ways = ((), (say.StaleMax(f.tile.span),))
        yield _Draft("maximum", frozenset({("Maximum", "")}), ways, 0, 1)


def _walk(f: _Facts) -> Iterator[_Draft]:
    """Only where a domain makes blocks differ."""
    if f.stream is None or not f.tile.domain:
        return
    span = f.tile.span
    yield _Draft("walk", frozenset({("Walk", f.stream)}), ((), (say.Walk(f.stream, "down", span),)), 0, 1)
    if f.uneven:
        yield _Draft(
            "skip_rows", frozenset({("Option", "skip_rows")}), ((), (say.Option("skip_rows", None, span),)), 0, 1
        )


# ---- work items and what moves ---------------------------------------------------------------------


def _items(f: _Facts) -> Iterator[_Draft]:
    span, grid = f.tile.span, f.start.order.axes
    ragged = bool(f.tile.ragged)
    if not ragged:  # of sequences the items are always dealt out by a table
        modes: tuple[Way, ...] = ((), (say.Persistent("static", span),), (say.Persistent("table", span),))
        yield _Draft("persistent", frozenset({("Persistent", "")}), modes, 0, 2 if f.uneven else 1)
        orders: list[Way] = [()]
        if f.uneven:
            orders.append((say.Order(("longest_first",), span),))
        wide = tuple(a for a in grid if f.start.role(a).block > 1)
        rest = tuple(a for a in grid if a not in wide)
        if len(wide) > 1:
            orders += [(say.Order((*p, *rest), span),) for p in permutations(wide) if p != wide]
        if len(orders) > 1:
            yield _Draft("order", frozenset({("Order", "")}), tuple(orders), 0, len(orders) - 1 if f.uneven else 0)
    groups: list[Way] = [()]
    groups += [(say.Group(a, n << 20, None, span),) for a in _sharing(f) for n in MEGABYTES]
    if not ragged and len([a for a in grid if f.start.role(a).block > 1]) > 1:
        groups += [(say.Group(grid[0], None, n, span),) for n in COUNTS]
    if len(groups) > 1:
        yield _Draft("group", frozenset({("Group", "")}), tuple(groups), 0, min(2, len(groups) - 1))


def _sharing(f: _Facts) -> list[str]:
    """Grid axes whose positions read streamed tiles of their own, the innermost one."""
    streamed = [set(f.tile.move(t).axes) for t in f.tiles(streamed=True)]
    parts = {a.name: {a.split.outer, a.split.inner} for a in f.tile.axes if a.split}
    carried = [
        a
        for a in f.start.order.axes
        if a not in f.start.workers.axes
        and f.start.role(a).block == 1
        and any(({a} | parts.get(a, set())) & axes for axes in streamed)
    ]
    return carried[:1]


def _stores(f: _Facts) -> Iterator[_Draft]:
    for store in f.start.stores:
        axes = f.tile.definition(store.output).axes
        wide = [r for r in f.start.roles if r.axis in axes and r.axis not in f.start.workers.axes and r.block > 1]
        if wide:
            span = f.tile.span
            hosts = [t for t in f.tiles(streamed=False) if f.start.tile(t).apart]
            ways: list[Way] = [(), (say.Via(store.output, "auto", span),)]
            ways += [(say.Stages(store.output, n, span),) for n in PLACES]
            ways += [(say.Alias(store.output, t, span),) for t in hosts]
            keys = frozenset({("Via", store.output), ("Stages", store.output)})
            yield _Draft(f"store {store.output}", keys, tuple(ways), 0)


def _hints(f: _Facts) -> Iterator[_Draft]:
    streamed, others = f.tiles(streamed=True), f.tiles(streamed=False)
    if streamed:
        keep = tuple(say.Hint(t, "keep", f.tile.span) for t in streamed)
        ways = ((), keep, (*keep, *(say.Hint(t, "stream", f.tile.span) for t in others)))
        yield _Draft("hints", frozenset({("Hint", "")}), ways if others else ways[:2], 0)


_DRAFTS: tuple[Callable[[_Facts], Iterator[_Draft]], ...] = (
    _consumers, _registers, _blocks, _stages, _body, _turns, _place, _maximum, _walk, _items, _stores, _hints,
)  # fmt: skip
