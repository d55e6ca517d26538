"""Block ranges: which blocks of a streamed axis a box of rows visits, and which of them need no mask.

One function, used by the emitter, the checks and the tests (design, section 3). A constraint reads
alpha * j + sum(a_x * x) + beta >= 0 with beta uniform; `rows` gives for each axis x the first and last position
of the box, already cut at the extents. j may be counted in chunks, and so may an axis of the box.

1. Clip: eliminate j between each lower and upper bound, cut the box to rows that can be non-empty.
2. Visit, on the clipped box: L = max over alpha > 0 of ceil((-beta - max)/alpha),
   U = min over alpha < 0 of floor((beta + max)/|alpha|); blocks [L div BN, U div BN + 1).
3. Inside, on the box as given, with the minimum instead: blocks [ceil(L'/BN), floor((U'+1)/BN)), cut to the visit.

Alternatives, each a conjunction of constraints, have a range each: what is visited is their union, never its hull,
and what lies inside one of them needs no mask. Ranges with one beginning are one range; `in_order` sorts the others,
whose order is known at run time only, and cuts what two of them share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from tilegen.ir.uniform import Int, Uniform, op

ONE = Int(1)


@dataclass(frozen=True)
class Constraint:
    """alpha * (j div unit) + sum(coefficient * axis) + beta >= 0. `active`: a uniform truth value; None: always."""

    alpha: int
    rows: tuple[tuple[str, int], ...]
    beta: Uniform
    active: Uniform | None = None
    unit: Uniform = ONE


@dataclass(frozen=True)
class Ranges:
    """Blocks [first, last) are visited; of those, the ones in [sure_first, sure_last) need no mask, if `holds`."""

    first: Uniform
    last: Uniform
    sure_first: Uniform
    sure_last: Uniform
    holds: Uniform  # clauses without j hold on the whole box

    def inside(self, first: Uniform | str, last: Uniform | str) -> tuple[Uniform, Uniform]:
        """The range that needs no mask, cut to the visited one (given by name where a name is bound to it)."""
        start = op("min", op("max", self.sure_first, first), last)
        stop = op("max", start, op("min", self.sure_last, last))
        return start, op("select", self.holds, stop, start)


Box = Mapping[str, tuple[Uniform, Uniform]]  # axis -> first and last position, both included
Range = tuple[Uniform, Uniform]  # first block, and the one behind the last


@dataclass(frozen=True)
class Conjunction:
    """Constraints that hold together. `masked`: some condition beside them can cut any point, so nothing is inside."""

    constraints: tuple[Constraint, ...] = ()
    masked: bool = False


def block_ranges(
    extent: Uniform, block: int, alternatives: Sequence[Conjunction], visit_box: Box, inside_box: Box
) -> tuple[Ranges, ...]:
    """Ranges over blocks of `block` positions of j in [0, extent), in no order; one alternative gives one range."""
    found: list[Ranges] = []
    for alternative in alternatives:
        r = _ranges(extent, block, alternative.constraints, visit_box, inside_box, alternative.masked)
        twin = next((n for n, f in enumerate(found) if (f.first, f.sure_first) == (r.first, r.sure_first)), None)
        if twin is None:
            found.append(r)
        else:
            found[twin] = _joined(found[twin], r)
    return tuple(found)


def _joined(a: Ranges, b: Ranges) -> Ranges:
    """The union of two ranges that begin together."""
    sure = [op("select", r.holds, r.sure_last, 0) for r in (a, b)]
    last, sure_last = op("max", a.last, b.last), op("max", *sure)
    return Ranges(a.first, last, a.sure_first, sure_last, op("or", a.holds, b.holds))


def in_order(ranges: Sequence[Range], bind: Callable[[str, Uniform], Uniform]) -> tuple[Range, ...]:
    """The same blocks as sorted ranges of which no two overlap; some may be empty. No range ends before it begins.

    `bind` names a value; the names given here are `first` and `last` with a number.
    """
    numbers = count()

    def named(first: Uniform, last: Uniform) -> Range:
        n = next(numbers)
        return bind(f"first{n}", first), bind(f"last{n}", last)

    found = [named(*r) for r in ranges]
    for n in (n for top in range(len(found), 1, -1) for n in range(top - 1)):
        (a, a_end), (b, b_end) = found[n], found[n + 1]
        swap = op("gt", a, b)
        found[n] = named(op("min", a, b), op("select", swap, b_end, a_end))
        found[n + 1] = named(op("max", a, b), op("select", swap, a_end, b_end))
    out = found[:1]
    for first, last in found[1:]:
        n = next(numbers)
        start = bind(f"first{n}", op("max", first, out[-1][1]))
        out.append((start, bind(f"last{n}", op("max", start, last))))
    return tuple(out)


def _ranges(
    extent: Uniform, block: int, constraints: Sequence[Constraint], visit_box: Box, inside_box: Box, masked: bool
) -> Ranges:
    visit, possible = _clip(visit_box, constraints, extent)
    low: Uniform = Int(0)
    high: Uniform = op("sub", extent, 1)
    inside_low: Uniform = Int(0)
    inside_high: Uniform = op("sub", extent, 1)
    holds: Uniform = Int(0 if masked else 1)
    for c in constraints:
        reach = op("add", _extreme(c.rows, visit, upper=True), c.beta)
        sure = op("add", _extreme(c.rows, inside_box, upper=False), c.beta)
        if c.alpha > 0:
            bounds = [op("mul", op("ceildiv", op("sub", 0, r), c.alpha), c.unit) for r in (reach, sure)]
            low = op("max", low, _when(c.active, bounds[0], Int(0)))
            inside_low = op("max", inside_low, _when(c.active, bounds[1], Int(0)))
        elif c.alpha < 0:
            far = op("sub", extent, 1)
            bounds = [_last_of(op("floordiv", r, -c.alpha), c.unit) for r in (reach, sure)]
            high = op("min", high, _when(c.active, bounds[0], far))
            inside_high = op("min", inside_high, _when(c.active, bounds[1], far))
        else:
            some = _when(c.active, op("ge", reach, 0), Int(1))
            high = op("select", some, high, -1)
            holds = op("and", holds, _when(c.active, op("ge", sure, 0), Int(1)))
    if visit is not visit_box:
        for first_row, last_row in visit.values():  # no row is left: no work
            high = op("select", op("le", first_row, last_row), high, -1)
    first = op("floordiv", low, block)
    high = op("select", possible, high, -1)
    last = op("max", first, op("add", op("floordiv", high, block), 1))
    sure_first = op("ceildiv", inside_low, block)
    sure_last = op("floordiv", op("add", inside_high, 1), block)
    return Ranges(first, last, sure_first, sure_last, holds)


def _last_of(chunk: Uniform, unit: Uniform) -> Uniform:
    """The last position of a chunk."""
    return op("add", op("mul", chunk, unit), op("sub", unit, 1))


def _when(active: Uniform | None, value: Uniform, otherwise: Uniform) -> Uniform:
    return value if active is None else op("select", active, value, otherwise)


def _extreme(rows: tuple[tuple[str, int], ...], box: Box, upper: bool) -> Uniform:
    """Largest (or smallest) value of sum(coefficient * axis) over the box: at a corner."""
    total: Uniform = Int(0)
    for axis, coefficient in rows:
        corner = box[axis][1 if (coefficient > 0) == upper else 0]
        term = op("mul", corner, abs(coefficient))
        total = op("add" if coefficient > 0 else "sub", total, term)
    return total


def _clip(box: Box, constraints: Sequence[Constraint], extent: Uniform) -> tuple[Box, Uniform]:
    """The box cut to rows that can have a j: each lower bound of j against each upper bound, j eliminated.

    Also whether bounds whose distance is the same for every row leave a j between them at all.
    """
    lower = [c for c in constraints if c.alpha > 0] + [Constraint(1, (), Int(0))]
    upper = [c for c in constraints if c.alpha < 0] + [Constraint(-1, (), op("sub", extent, 1))]
    clipped = dict(box)
    possible: Uniform = Int(1)
    for a in lower:
        for b in upper:
            if (a.unit, b.unit) != (ONE, ONE):
                continue  # positions and chunks: nothing is cut
            # a.alpha*j >= -A and |b.alpha|*j <= B  =>  |b.alpha|*A + a.alpha*B >= 0
            rows: dict[str, int] = {}
            for side, scale in ((a, -b.alpha), (b, a.alpha)):
                for axis, coefficient in side.rows:
                    rows[axis] = rows.get(axis, 0) + coefficient * scale
            live = tuple((axis, k) for axis, k in rows.items() if k)
            beta = op("add", op("mul", a.beta, -b.alpha), op("mul", b.beta, a.alpha))
            active = _both(a.active, b.active)
            if not live and (a in constraints or b in constraints):
                possible = op("and", possible, _when(active, op("ge", beta, 0), Int(1)))
            for axis, k in live:
                others = tuple(r for r in live if r[0] != axis)
                rest = op("add", _extreme(others, box, upper=True), beta)
                first, last = clipped[axis]
                if k > 0:  # axis >= ceil(-rest / k)
                    cut = op("max", first, op("ceildiv", op("sub", 0, rest), k))
                    clipped[axis] = (_when(active, cut, first), last)
                else:
                    cut = op("min", last, op("floordiv", rest, -k))
                    clipped[axis] = (first, _when(active, cut, last))
    return (clipped if clipped != dict(box) else box), possible


def _both(a: Uniform | None, b: Uniform | None) -> Uniform | None:
    if a is None or b is None:
        return b if a is None else a
    return op("and", a, b)
