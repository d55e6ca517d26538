"""A plan's run drawn over time: what each role does, and who holds each stage of a ring.

The steps are those of the checks' canonical run, so that who waits for whom is the plan's own. Their times are
nominal: one unit an operation, LOAD for what is loaded and PRODUCT for a product to be complete, one product at a time.
They are no cycles.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from random import Random

from tilegen.checks.barriers import in_cluster
from tilegen.checks.machine import Step, part_of
from tilegen.checks.paths import Paths
from tilegen.checks.pipeline import run
from tilegen.checks.regions import Regions
from tilegen.checks.trials import trials
from tilegen.ir import plan as ir
from tilegen.ir.plan_op_text import operation_text
from tilegen.ir.plan_walk import parts
from tilegen.ir.uniform import evaluate, symbols
from tilegen.syntax.span import Span

LOAD = 6  # units from the issue of a box, or of copies, until it is there
PRODUCT = 4  # units that the tensor cores take for a product
LONGEST = 900  # units that are drawn
SURVEYED = 400  # steps of one process that still make a picture
LOOKED_AT = 64  # trial sizes, drawn at random: the same ones each time

_FREE = ir.SetRegisters | ir.MmaFence | ir.MmaCommit | ir.StoreCommit | ir.CopyCommit | ir.FenceAsync  # take no time
_FILLS = ir.Expect | ir.TmaLoad | ir.CopyTile | ir.SignalCopies
_MOVES = _FILLS | ir.TmaStore | ir.StoreRows | ir.StoreVector | ir.LoadVector
_SYNCHRONISES = ir.ArriveEmpty | ir.ArriveClean | ir.OrderPass | ir.OrderStart | ir.GroupSync
_WAITS = ir.WaitFull | ir.WaitEmpty | ir.WaitClean | ir.OrderWait | ir.MmaWait | ir.StoreWait | ir.CopyWait | ir.CtaSync

_Slot = tuple[str, int, int, int]  # ring, part, position, rank of the CTA
_Named = tuple[int, int]  # rank of the CTA, named barrier


@dataclass(frozen=True)
class Bar:
    """Something that lasts from `start` to `stop`. kind: move, product, compute, sync or wait, of a role; fill, full or
    held, of a stage. row: of `Lane.rows`, from the top."""

    kind: str
    start: int
    stop: int
    text: str
    span: Span
    row: int = 0


@dataclass(frozen=True)
class Lane:
    """The bars of one role or of one stage. rows: how many lie under each other."""

    name: str
    bars: tuple[Bar, ...]
    rows: int = 1


@dataclass(frozen=True)
class Timeline:
    """A run of CTA 0, and of its cluster. sizes: at which. cut: whether it goes on behind `length`."""

    sizes: Mapping[str, int]
    length: int
    cut: bool
    roles: tuple[Lane, ...]
    stages: tuple[Lane, ...]


def timeline(plan: ir.Plan) -> Timeline:
    """The run of a verified plan, at the small sizes that take it through most of its operations."""
    sizes, steps = _telling_run(plan)
    return _Drawing(plan, steps).drawn(sizes)


def _telling_run(plan: ir.Plan) -> tuple[Mapping[str, int], list[Step]]:
    """Of the sizes that the checks try and the plan's guard allows: those with the most operations run, then with the
    most rings gone round, then with the most steps that can be looked over."""
    every = list(trials(plan))
    guard = plan.guard
    if guard is not None:
        allowed = [t for t in every if symbols(guard) <= t.keys() and evaluate(guard, t)]
        every = allowed or every
    regions = Regions(plan)
    paths, gone = Paths(plan, regions.numbers), set()
    best: tuple[tuple[int, int, int], Mapping[str, int], list[Step]] | None = None
    for sizes in Random(0).sample(every, min(len(every), LOOKED_AT)):
        ctas = evaluate(plan.grid, sizes)
        if ctas < 1 or (path := paths.of(sizes, 0, ctas)) in gone:
            continue
        gone.add(path)
        steps: list[Step] = []
        run(plan, sizes, [0], regions, steps.append)
        busiest = max(Counter(s.process for s in steps).values(), default=0)
        merit = (len({s.path for s in steps}), _rounds(plan, steps), busiest if busiest <= SURVEYED else -busiest)
        if best is None or merit > best[0]:
            best = merit, sizes, steps
    return ({}, []) if best is None else best[1:]


def _rounds(plan: ir.Plan, steps: Iterable[Step]) -> int:
    """How many rings are filled more often than they are deep."""
    deepest: dict[str, int] = {}
    for step in steps:
        if isinstance(step.operation, ir.Expect | ir.SignalCopies | ir.CopyTile):
            slot = step.operation.slot
            deepest[slot.ring] = max(deepest.get(slot.ring, 0), step.cursors[slot.cursor])
    return sum(position >= plan.ring(name).depth for name, position in deepest.items())


@dataclass
class _Held:
    """What became of one fill of a slot. until: when each process let go of it. arrivals: those of its release that
    are left to come."""

    begun: int | None = None
    there: int | None = None
    fills: int = 0
    since: dict[str, int] = field(default_factory=dict)
    until: dict[str, int] = field(default_factory=dict)
    arrivals: int = 0
    clean: int = 0  # arrivals left that say it was looked through
    clean_at: int = 0
    span: Span | None = None


@dataclass
class _Track:
    """A process on its way through its steps. products, stores, copies: when each group of them is over; met: how often
    it has met all others."""

    steps: list[Step]
    next: int = 0
    time: int = 0
    bars: list[Bar] = field(default_factory=list)
    flights: list[Bar] = field(default_factory=list)
    open_products: list[int] = field(default_factory=list)
    products: list[int] = field(default_factory=list)
    open_stores: list[int] = field(default_factory=list)
    stores: list[int] = field(default_factory=list)
    open_copies: list[int] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    met: int = 0


class _Drawing:
    """Gives the steps of all processes their times, the earliest first."""

    def __init__(self, plan: ir.Plan, steps: list[Step]) -> None:
        self._plan = plan
        self._tracks: dict[str, _Track] = {}
        self._slots: dict[_Slot, _Held] = defaultdict(_Held)
        self._passes: dict[_Named, list[int]] = defaultdict(list)  # when turns were handed on
        self._taken: dict[_Named, int] = defaultdict(int)
        self._tensor_cores: dict[int, int] = defaultdict(int)  # of each CTA: free from then on
        self._meetings: list[int] = []  # when all threads had come
        for step in steps:
            self._tracks.setdefault(step.process, _Track([])).steps.append(step)
            match step.operation:
                case ir.Expect(slot) | ir.TmaLoad(_, _, slot) | ir.CopyTile(_, _, slot) | ir.SignalCopies(slot):
                    for key in self._reached(step, slot):
                        self._slots[key].fills += 1
                case ir.ArriveEmpty(slot):
                    for key in self._reached(step, slot):
                        self._slots[key].arrivals += 1
                case ir.ArriveClean(slot):
                    self._slots[self._slot(step, slot)].clean += 1

    def drawn(self, sizes: Mapping[str, int]) -> Timeline:
        while (found := self._earliest()) is not None:
            self._take(*found)
        length = max((t.time for t in self._tracks.values()), default=0)
        shown = min(length, LONGEST)
        roles = [
            Lane(name, tuple(_within([*t.bars, *t.flights], shown)), 2 if t.flights else 1)
            for name, t in self._tracks.items()
        ]
        return Timeline(sizes, shown, length > shown, tuple(roles), tuple(self._stages(shown)))

    def _earliest(self) -> tuple[_Track, int] | None:
        """The process whose next step can be made first, and when; None at the end of the run."""
        found: tuple[_Track, int] | None = None
        for track in self._tracks.values():
            if track.next < len(track.steps):
                ready = self._ready(track, track.steps[track.next])
                if ready is not None and (found is None or max(ready, track.time) < found[1]):
                    found = track, max(ready, track.time)
        return found

    def _ready(self, track: _Track, step: Step) -> int | None:
        """When what a step waits for is over; None while it has not come about."""
        match step.operation:
            case ir.WaitFull(slot):
                held = self._slots[self._slot(step, slot)]
                return None if held.fills else held.there
            case ir.WaitClean(slot):
                held = self._slots[self._slot(step, slot)]
                return None if held.fills or held.clean else max(held.clean_at, held.there or 0)
            case ir.WaitEmpty(slot):
                ring, part, position, rank = self._slot(step, slot)
                before = position - self._plan.ring(ring).depth
                if before < 0:
                    return 0
                held = self._slots[ring, part, before, rank]
                return None if held.arrivals else max(held.until.values(), default=0)
            case ir.OrderWait(first):
                turns = self._passes[step.rank, first + step.group]
                taken = self._taken[step.rank, first + step.group]
                return turns[taken] if taken < len(turns) else None
            case ir.MmaWait(pending):
                return max(track.products[: max(len(track.products) - pending, 0)], default=0)
            case ir.StoreWait(pending):
                return max(track.stores[: max(len(track.stores) - pending, 0)], default=0)
            case ir.CopyWait(pending):
                return max(track.copies[: max(len(track.copies) - pending, 0)], default=0)
            case ir.CtaSync():
                return self._meeting(track.met)
        return 0

    def _meeting(self, number: int) -> int | None:
        """When all processes have come to a meeting."""
        if number < len(self._meetings):
            return self._meetings[number]
        for track in self._tracks.values():
            if track.next == len(track.steps) or not isinstance(track.steps[track.next].operation, ir.CtaSync):
                return None
        return max(track.time for track in self._tracks.values())

    def _take(self, track: _Track, at: int) -> None:
        step = track.steps[track.next]
        track.next += 1
        operation = step.operation
        words = operation_text(operation).rstrip(":")
        if at > track.time:
            track.bars.append(Bar("wait", track.time, at, words, operation.span))
        end = at if isinstance(operation, _FREE | _WAITS) else at + 1
        if end > at:
            track.bars.append(Bar(_kind(operation), at, end, words, operation.span))
        track.time = end
        self._effect(track, step, at, end)

    def _effect(self, track: _Track, step: Step, at: int, end: int) -> None:
        match step.operation:
            case ir.Expect(slot) | ir.TmaLoad(_, _, slot) | ir.CopyTile(_, _, slot) | ir.SignalCopies(slot):
                arrived = end + LOAD if isinstance(step.operation, ir.TmaLoad | ir.CopyTile) else end
                for key in self._reached(step, slot):
                    held = self._slots[key]
                    held.fills -= 1
                    held.begun = at if held.begun is None else min(held.begun, at)
                    held.span = step.operation.span
                    held.there = max(held.there or 0, arrived)
                if isinstance(step.operation, ir.CopyTile):
                    track.open_copies.append(arrived)
            case ir.CopyCommit():
                track.copies.append(max(track.open_copies, default=at))
                track.open_copies = []
            case ir.CtaSync():
                self._meetings += [at] * (track.met == len(self._meetings))
                track.met += 1
            case ir.WaitFull(slot) | ir.WaitClean(slot):
                self._slots[self._slot(step, slot)].since.setdefault(step.process, at)
            case ir.ArriveEmpty(slot):
                for key in self._reached(step, slot):
                    held = self._slots[key]
                    held.arrivals -= 1
                    held.until[step.process] = end
            case ir.ArriveClean(slot):
                held = self._slots[self._slot(step, slot)]
                held.clean -= 1
                held.clean_at = max(held.clean_at, end)
            case ir.OrderWait(first):
                self._taken[step.rank, first + step.group] += 1
            case ir.OrderPass(first):
                count = self._plan.roles[_role_of(step)].warpgroups
                self._passes[step.rank, first + (step.group + 1) % count].append(end)
            case ir.OrderStart(first):
                if step.group == self._plan.roles[_role_of(step)].warpgroups - 1:
                    self._passes[step.rank, first].append(end)
            case ir.Mma() as mma:
                begun = max(end, self._tensor_cores[step.rank])
                over = self._tensor_cores[step.rank] = begun + PRODUCT
                track.open_products.append(over)
                words = f"product {mma.token} on the tensor cores"
                track.flights.append(Bar("product", begun, over, words, mma.span, 1))
            case ir.MmaCommit():
                track.products.append(max(track.open_products, default=at))
                track.open_products = []
            case ir.MmaWait(pending):
                track.products = track.products[max(len(track.products) - pending, 0) :]
            case ir.TmaStore() as store:
                track.open_stores.append(end + LOAD)
                words = f"{operation_text(store)}, under way"
                track.flights.append(Bar("move", end, end + LOAD, words, store.span, 1))
            case ir.StoreCommit():
                track.stores.append(max(track.open_stores, default=at))
                track.open_stores = []
            case ir.StoreWait(pending):
                track.stores = track.stores[max(len(track.stores) - pending, 0) :]

        for slot in parts(step.operation, ir.Slot):
            if not isinstance(step.operation, _FILLS) and not self._plan.ring(slot.ring).barriers:
                held = self._slots[self._slot(step, slot)]
                held.since.setdefault(step.process, at)
                held.until[step.process] = end

    def _slot(self, step: Step, slot: ir.Slot) -> _Slot:
        ring = self._plan.ring(slot.ring)
        return ring.name, part_of(ring, slot, step.group), step.cursors[slot.cursor], step.rank

    def _reached(self, step: Step, slot: ir.Slot) -> list[_Slot]:
        """The slots, of all CTAs that share the ring, that a load fills or an arrival frees."""
        sharers = self._plan.ring(slot.ring).sharers
        own = self._slot(step, slot)
        if sharers is None or isinstance(step.operation, ir.Expect):
            return [own]
        return [(*own[:3], rank) for rank in sharers.ranks(step.rank)]

    def _stages(self, shown: int) -> Iterator[Lane]:
        readers = {name: n for n, name in enumerate(sorted({p for h in self._slots.values() for p in h.since}))}
        for rank, ring in product(range(self._plan.cluster), self._plan.rings):
            whose = in_cluster(rank if self._plan.cluster > 1 else None)
            for stage, part in product(range(ring.depth), range(ring.parts)):
                fills = [
                    (key[2], held)
                    for key, held in sorted(self._slots.items())
                    if (*key[:2], key[3]) == (ring.name, part, rank) and key[2] % ring.depth == stage
                ]
                name = f"{ring.name}[{stage}]" + (f" part {part}" if ring.parts > 1 else "") + whose
                bars = [bar for n, held in fills for bar in _held_bars(f"{ring.name} {n}", held, readers)]
                yield Lane(name, tuple(_within(bars, shown)), max(len(readers), 1))


def _held_bars(name: str, held: _Held, readers: Mapping[str, int]) -> Iterator[Bar]:
    """name: the tile and its number. readers: the row of each process that reads slots."""
    if held.begun is None or held.there is None or held.span is None:
        return
    yield Bar("fill", held.begun, held.there, f"{name}: being filled", held.span)
    first = min(held.since.values(), default=held.there)
    if first > held.there:
        yield Bar("full", held.there, first, f"{name}: full, nobody has come for it", held.span)
    for process, since in held.since.items():
        until = held.until.get(process, since)
        if until > since:
            words = f"{name}: held by {process}"
            yield Bar("held", since, until, words, held.span, readers[process])


def _within(bars: Iterable[Bar], length: int) -> Iterator[Bar]:
    """What of the bars lies in front of `length`, in the order in which they begin."""
    for bar in sorted(bars, key=lambda b: (b.start, b.row)):
        if bar.start < length:
            yield Bar(bar.kind, bar.start, min(bar.stop, length), bar.text, bar.span, bar.row)


def _role_of(step: Step) -> int:
    index = step.path[1]
    assert isinstance(index, int)
    return index


def _kind(operation: ir.Operation) -> str:
    if isinstance(operation, _MOVES):
        return "move"
    if isinstance(operation, ir.AnyMma):
        return "product"
    return "sync" if isinstance(operation, _SYNCHRONISES) else "compute"
