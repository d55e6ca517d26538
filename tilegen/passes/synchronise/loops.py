"""How a streamed loop is laid out in time, the same for every role.

Steps with distance k run for t = k … n-1+k. With a largest distance of 1 the first and last times are peeled:
t = 0 holds the steps with distance 0, t = n those with distance 1. Consumers also cut t where their variant
(masked or not) changes, and pass by the first and the last times that none of their own rows needs.

Where the domain has several ranges of blocks, time runs through all of them, and a time's block is found by
selects. Consumers then go round once for each range that needs no mask: masked blocks up to it, and it; so the loops'
bodies are written once however many ranges there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.ir.folded import Guarded, Product
from tilegen.ir.plan import Let, Operation
from tilegen.ir.scheduled import Batch, Scheduled, Stream
from tilegen.ir.uniform import Int, Sym, Uniform, op
from tilegen.passes.fills import selects
from tilegen.passes.ranges import Range, in_order
from tilegen.passes.synchronise.work import StreamRanges, ranges
from tilegen.syntax.span import Span

_BEYOND = Int(1 << 30)  # past any block


@dataclass(frozen=True)
class Segment:
    """Times [start, stop) of one variant. late: other blocks have most likely come before, so that rows have seen some
    points."""

    label: str
    start: Uniform
    stop: Uniform
    masked: bool
    late: bool = False


@dataclass(frozen=True)
class Rounds:
    """Segments that are gone through `count` times over, with `lets` bound anew for each value of `var`."""

    label: str
    var: str
    count: int
    lets: tuple[Operation, ...]
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Layout:
    """Names bound for a loop, and its cuts. Times run from 0 to `count`."""

    stream: Stream
    lets: tuple[Operation, ...]  # for every role
    own_lets: tuple[Operation, ...]  # for consumers: cuts of this warpgroup
    whole: tuple[Range, ...]  # blocks that no row of the work item needs a mask in
    count: Uniform
    time: str
    peeled: bool
    guarded: bool
    shift: int  # distance of the element-wise steps: their iteration is time - shift
    skipped: Uniform  # first iterations that this warpgroup passes by
    begin: Uniform  # the first time of the segments
    stop: Uniform  # the iteration from which on it passes by again
    segments: tuple[Segment | Rounds, ...]
    pieces: tuple[tuple[Uniform, Uniform], ...]  # of the blocks in rising order: (number of blocks before, first - it)

    def block(self, time: Uniform) -> Uniform:
        """Block number visited at a time."""
        down = self.stream.direction == "down"
        if len(self.pieces) == 1:
            axis = self.stream.axis
            return op("sub", op("sub", f"{axis}.last", 1), time) if down else op("add", f"{axis}.first", time)
        rising = op("sub", op("sub", self.count, 1), time) if down else time
        offset = self.pieces[0][1]
        for before, then in self.pieces[1:]:
            offset = op("select", op("ge", rising, before), then, offset)
        return op("add", rising, offset)

    def cuts(self, of: str) -> tuple[Operation, ...]:
        """`whole` bound to names that belong to `of`."""
        span = self.stream.span
        pairs = zip(self._cut_names(of), self.whole, strict=True)
        return tuple(Let(name, value, span) for names, r in pairs for name, value in zip(names, r, strict=True))

    def straddles(self, time: Uniform, of: str) -> Uniform:
        """Whether the block visited at a time is cut by the domain for some row of the work item, by those names."""
        block = self.block(time)
        outside: Uniform = Int(1)
        for first, last in self._cut_names(of):
            outside = op("and", outside, op("or", op("lt", block, first), op("ge", block, last)))
        return outside

    def _cut_names(self, of: str) -> list[tuple[str, str]]:
        numbers = ["", *map(str, range(1, len(self.whole)))][: len(self.whole)]
        return [(f"{self.stream.axis}.{of}_first{n}", f"{self.stream.axis}.{of}_last{n}") for n in numbers]


def layout(stream: Stream, s: Scheduled, *, apart: bool = True) -> Layout:
    """apart: loops are cut where a warpgroup's own rows need it; else where those of the whole work item do."""
    axis = stream.axis
    found = ranges(stream, s)
    if not apart:
        found = replace(found, own=found.shared, sure=found.whole)
    guarded = any(isinstance(o, Guarded) and selects(o, s) for o in (s.op(step.op) for step in stream.steps))
    peeled = is_peeled(stream)
    shift = max((x.distance for x in stream.steps if not isinstance(s.op(x.op), Product)), default=0)
    several = len(found.shared) > 1 or len(found.sure) > 1
    names = _Names(axis, stream.span)
    count = Sym(f"{axis}.steps")
    if several:
        pieces = _pieces(found, names)
        lets = names.taken()
        whole = tuple((r.sure_first, op("select", r.holds, r.sure_last, r.sure_first)) for r in found.whole)
        skipped, stop = _own_times_among(pieces, found, stream, count, names)
    else:
        first = names.let("first", found.shared[0].first)
        last = names.let("last", found.shared[0].last)
        pieces = ((Int(0), first),)
        names.let("steps", op("sub", last, first))
        lets = names.taken()
        whole = tuple(r.inside(first, last) for r in found.whole)
        skipped, stop = _own_times(found, stream, count, names)
    begin = op("add", skipped, 1 if peeled else 0)
    segments: tuple[Segment | Rounds, ...]
    if not guarded:
        segments = (Segment("", begin, stop, False),)
    elif not found.sure:
        segments = (Segment("blocks of the domain, each masked", begin, stop, True, late=peeled),)
    elif several:
        segments = _rounds(pieces, found, stream, begin, stop, shift, peeled, names)
    else:
        segments = _cuts(found, stream, begin, stop, shift, peeled, names)
    return Layout(
        stream,
        lets,
        names.taken(),
        whole,
        count,
        f"{axis}.step",
        peeled,
        guarded,
        shift,
        skipped,
        begin,
        stop,
        segments,
        pieces,
    )


def keeps_one(stream: Stream) -> bool:
    """Whether a group stays in flight from one iteration to the next."""
    return any(isinstance(i, Batch) and i.wait == "next" for i in stream.body)


def is_peeled(stream: Stream) -> bool:
    """Whether the first time stands in front of the loop."""
    return stream.reach > 0 or keeps_one(stream)


class _Names:
    """Bindings in the order made. Names begin with the axis."""

    def __init__(self, axis: str, span: Span) -> None:
        self.axis, self.span = axis, span
        self._made: list[Operation] = []

    def bind(self, name: str, value: Uniform) -> Uniform:
        if isinstance(value, Int | Sym):
            return value
        return self.let(name, value)

    def let(self, name: str, value: Uniform) -> Uniform:
        self._made.append(Let(f"{self.axis}.{name}", value, self.span))
        return Sym(f"{self.axis}.{name}")

    def taken(self) -> tuple[Operation, ...]:
        """What has been bound since the last call."""
        made, self._made = tuple(self._made), []
        return made


# ---- the blocks of a domain in time ----------------------------------------------------------------


def _pieces(found: StreamRanges, names: _Names) -> tuple[tuple[Uniform, Uniform], ...]:
    """Binds the ranges in rising order: for each the number of blocks before it, and its first block less that."""
    ordered = in_order([(r.first, r.last) for r in found.shared], names.bind)
    before: Uniform = Int(0)
    pieces: list[tuple[Uniform, Uniform]] = []
    for n, (first, last) in enumerate(ordered, 1):
        offset = op("sub", first, before)
        pieces.append((before, names.let(f"offset{n - 1}", offset) if len(ordered) > 1 else names.let("first", offset)))
        if len(ordered) == 1:
            names.let("last", last)
        before = names.let("steps" if n == len(ordered) else f"from{n}", op("add", before, op("sub", last, first)))
    return tuple(pieces)


def _rank(block: Uniform, pieces: tuple[tuple[Uniform, Uniform], ...], count: Uniform) -> Uniform:
    """How many of the visited blocks come before a block."""
    ends = [*(before for before, _ in pieces[1:]), count]
    rank: Uniform = Int(0)
    for (_, offset), end in zip(pieces, ends, strict=True):
        rank = op("max", rank, op("min", op("sub", block, offset), end))
    return rank


# ---- a warpgroup's own part of them ----------------------------------------------------------------


def _ends(found: StreamRanges, names: _Names) -> Range:
    """First block that this warpgroup's rows need, and the one behind the last."""
    if len(found.own) == 1:
        return found.own[0].first, found.own[0].last
    first: Uniform = _BEYOND
    last: Uniform = Int(0)
    for n, r in enumerate(found.own):
        begin, end = names.bind(f"own_first{n}", r.first), names.bind(f"own_last{n}", r.last)
        some = op("lt", begin, end)
        first, last = op("min", first, op("select", some, begin, _BEYOND)), op("max", last, op("select", some, end, 0))
    return names.bind("own_first", first), names.bind("own_last", last)


def _ends_early(found: StreamRanges, stream: Stream) -> bool:
    """Whether the last blocks visited may be for other warpgroups' rows only."""
    own, shared = ([r.first if stream.direction == "down" else r.last for r in u] for u in (found.own, found.shared))
    return own != shared


def _passing(skipped: Uniform, stop: Uniform, early: bool, count: Uniform, names: _Names) -> Range:
    """Binds the cuts. One block at least is computed, so that every fold has its first step."""
    skipped = names.let("skipped", op("max", 0, op("min", skipped, op("sub", count, 1))))
    if not early:
        return skipped, count
    return skipped, names.let("stop", op("min", count, op("max", op("add", skipped, 1), stop)))


def _own_times(found: StreamRanges, stream: Stream, count: Uniform, names: _Names) -> Range:
    if not stream.skip:
        return Int(0), count
    first, last = Sym(f"{stream.axis}.first"), Sym(f"{stream.axis}.last")
    own_first, own_last = _ends(found, names)
    before, after = op("sub", own_first, first), op("sub", last, own_last)
    if stream.direction == "down":
        before, after = after, before
    return _passing(before, op("sub", count, after), _ends_early(found, stream), count, names)


def _own_times_among(
    pieces: tuple[tuple[Uniform, Uniform], ...], found: StreamRanges, stream: Stream, count: Uniform, names: _Names
) -> Range:
    if not stream.skip:
        return Int(0), count
    first, last = (_rank(b, pieces, count) for b in _ends(found, names))
    if stream.direction == "down":
        first, last = op("sub", count, last), op("sub", count, first)
    return _passing(first, last, _ends_early(found, stream), count, names)


def _cuts(
    found: StreamRanges, stream: Stream, begin: Uniform, stop: Uniform, shift: int, peeled: bool, names: _Names
) -> tuple[Segment, ...]:
    """Between the straddling blocks of the low end, the inside, and those of the high end, of a single range."""
    (sure,) = found.sure
    axis, down, count = stream.axis, stream.direction == "down", Sym(f"{stream.axis}.steps")
    inside_first, inside_last = sure.inside(f"{axis}.first", f"{axis}.last")
    low_cut = op("sub", inside_first, f"{axis}.first")
    high_cut = op("sub", f"{axis}.last", inside_last)
    head = op("add", high_cut if down else low_cut, shift)
    enter = names.let("inside", head)
    leave = names.let("outside", op("add", enter, op("sub", inside_last, inside_first)))
    low_side = any(c.alpha >= 0 for c in found.constraints)
    # the extent alone is straddled by the last block at most
    high_short = sure.holds != Int(0) and all(c.alpha > 0 for c in found.constraints)
    head_exists, tail_exists = (True, low_side) if down else (low_side, True)
    head_short = down and high_short and not low_side
    early = stop != count
    segments: list[Segment] = []
    if head_exists and not (peeled and head_short and not shift):
        end = op("min", enter, stop) if shift or early else enter
        segments.append(Segment("straddling blocks, first end", begin, end, True))
    start: Uniform = op("max", enter, begin) if head_exists else begin
    end = op("min", leave, stop) if tail_exists or early else stop
    segments.append(Segment("blocks inside the domain", start, end, False))
    if tail_exists:
        segments.append(Segment("straddling blocks, last end", op("max", leave, begin), stop, True, late=True))
    return tuple(segments)


def _rounds(
    pieces: tuple[tuple[Uniform, Uniform], ...],
    found: StreamRanges,
    stream: Stream,
    begin: Uniform,
    stop: Uniform,
    shift: int,
    peeled: bool,
    names: _Names,
) -> tuple[Segment | Rounds, ...]:
    """The same of several ranges: once round for each range of blocks inside, and then the rest."""
    count = Sym(f"{stream.axis}.steps")
    times: list[Range] = []
    for n, r in enumerate(found.sure):
        first = names.bind(f"enter{n}", _rank(r.sure_first, pieces, count))
        last = _rank(op("select", r.holds, r.sure_last, r.sure_first), pieces, count)
        last = names.bind(f"leave{n}", op("max", first, last))
        if stream.direction == "down":
            first, last = op("sub", count, last), op("sub", count, first)
        times.append((op("add", first, shift), op("add", last, shift)))
    ordered = in_order(times, lambda name, value: names.bind(f"inside_{name}", value))
    enters, leaves = [a for a, _ in ordered], [b for _, b in ordered]
    var = f"{stream.axis}.round"
    lets: tuple[Operation, ...] = ()
    outside: Uniform = Int(0)
    enter, leave = enters[0], leaves[0]
    if len(ordered) > 1:
        at_round = _Names(stream.axis, stream.span)
        enter = at_round.let("inside", _by_number(Sym(var), enters))
        leave = at_round.let("outside", _by_number(Sym(var), leaves))
        outside = at_round.let("before", _by_number(Sym(var), [Int(0), *leaves[:-1]]))
        lets = at_round.taken()
    around = (
        Segment("straddling blocks", op("max", outside, begin), op("min", enter, stop), True, late=peeled),
        Segment("blocks inside the domain", op("max", enter, begin), op("min", leave, stop), False),
    )
    rest = Segment("straddling blocks, last end", op("max", leaves[-1], begin), stop, True, late=True)
    if len(ordered) == 1:
        return (*around, rest)
    return Rounds("a range of blocks inside the domain each", var, len(ordered), lets, around), rest


def _by_number(number: Uniform, values: list[Uniform]) -> Uniform:
    chosen = values[-1]
    for n, value in reversed(tuple(enumerate(values[:-1]))):
        chosen = op("select", op("eq", number, n), value, chosen)
    return chosen
