"""Work items: how an item's number becomes positions, and which blocks of a streamed axis it visits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import Exponent, Output, Product, Reduce
from tilegen.ir.plan import Bound, Chunks, ElementExpr, Let, Operation
from tilegen.ir.scheduled import Scheduled, Stream
from tilegen.ir.tile import Affine, Clause, Expr, Guard, TileProgram
from tilegen.ir.uniform import Int, Sym, Uniform, from_poly, op
from tilegen.passes.guard import with_parts
from tilegen.passes.ranges import ONE, Conjunction, Constraint, Ranges, block_ranges
from tilegen.passes.synchronise.geometry import (
    Shape,
    extent,
    extent_in_tile,
    linear,
    position,
    row_origin,
)
from tilegen.passes.synchronise.rows import row_axes, row_part
from tilegen.passes.synchronise.sequences import most_items

# Names that a plan binds of its own have a dot, which no name of a spec can have: `i.0` is where the block of i begins.
ITEM = "work.item"

_COMPARE = {">": "gt", ">=": "ge", "<": "lt", "<=": "le", "==": "eq", "!=": "ne"}


def axis_blocks(axis: str, s: Scheduled) -> Uniform:
    return op("ceildiv", extent(s.program.tile.axis(axis)), s.role(axis).block)


def axis_steps(axis: str, s: Scheduled) -> Uniform:
    """How often items move on along an axis: a cluster takes several blocks at once."""
    return op("ceildiv", axis_blocks(axis, s), s.clustered(axis))


def total_items(s: Scheduled) -> Uniform:
    """How many items there are (of clusters, which each do one together); of sequences, how many there are at most."""
    if s.program.tile.ragged:
        return most_items(s)
    total: Uniform = Int(1)
    for axis in s.order.axes:
        total = op("mul", total, axis_steps(axis, s))
    return total


def grid(s: Scheduled) -> Uniform:
    total, size = total_items(s), s.cluster_size
    if s.order.persistent:
        most = op("max", 1, op("floordiv", "sm_count", size)) if size > 1 else Sym("sm_count")
        total = op("min", total, most)
    return op("mul", total, size)


def decode(s: Scheduled, item: str) -> tuple[Operation, ...]:
    """Let every grid axis's position from an item's number, and the parts of split axes from theirs."""
    lets: list[Operation] = []
    span = s.order.span

    def bind(name: str, value: Uniform) -> Uniform:
        lets.append(Let(name, value, span))
        return Sym(name)

    order = list(s.order.axes)
    rest: Uniform = Sym(item)
    if s.order.group is not None:
        rest = _grouped(s, order, rest, bind)
    for n, axis in enumerate(order):
        count = axis_steps(axis, s)
        last = n == len(order) - 1
        index = rest if last else op("mod", rest, count)
        _bind_position(axis, index, s, bind)
        if not last:
            rest = bind(f"{item}_{n}", op("floordiv", rest, count))
    return (*lets, *split_lets(s))


_Bind: TypeAlias = Callable[[str, Uniform], Uniform]


def _bind_position(axis: str, index: Uniform, s: Scheduled, bind: _Bind) -> None:
    """Let the axis's position be that of the item's step `index` along it, and of the CTA's block among the step's.

    Where the last step has fewer blocks, CTAs that are left over go through the last block as well: they take part in
    loading, and store nothing (`exists`).
    """
    block, size = s.role(axis).block, s.clustered(axis)
    if axis in s.order.descending:
        index = op("sub", op("sub", axis_steps(axis, s), 1), index)
    if size > 1:
        blocks = axis_blocks(axis, s)
        first = op("mul", index, size)
        bind(cluster_start(axis), op("mul", first, block))
        index = op("add", first, s.place_in_cluster(axis))
        bind(_exists(axis), op("lt", index, blocks))
        index = op("min", index, op("sub", blocks, 1))
    bind(axis if block == 1 else f"{axis}.0", op("mul", index, block))


def cluster_start(axis: str) -> str:
    """The name of the first position along an axis that a CTA's cluster has."""
    return f"{axis}.cluster"


def _exists(axis: str) -> str:
    return f"{axis}.exists"


def exists(s: Scheduled) -> Uniform:
    """Whether the CTA has a block that is no other's, where clusters do not divide their axes."""
    own: Uniform = Int(1)
    for c in s.cluster:
        blocks = axis_blocks(c.axis, s)
        if not (isinstance(blocks, Int) and blocks.value % c.count == 0):
            own = op("and", own, _exists(c.axis))
    return own


def split_lets(s: Scheduled) -> tuple[Let, ...]:
    """The parts of split axes from the whole, and the other way."""
    lets: list[Let] = []

    def bind(name: str, value: Uniform) -> None:
        lets.append(Let(name, value, s.order.span))

    single = {r.axis for r in s.roles if r.role == "grid" and r.block == 1}
    for a in s.program.tile.axes:
        if a.split:
            inner = extent(s.program.tile.axis(a.split.inner))
            if a.name in single:
                bind(a.split.outer, op("floordiv", a.name, inner))
                bind(a.split.inner, op("mod", a.name, inner))
            elif {a.split.outer, a.split.inner} <= single:
                bind(a.name, op("add", op("mul", a.split.outer, inner), a.split.inner))
    return tuple(lets)


def _grouped(s: Scheduled, order: list[str], item: Uniform, bind: _Bind) -> Uniform:
    """Items of the grouped axes are cut into groups; a group's items all come before the next group's.

    A group axis of block 1 takes the other axes of block 1 along (heads and batches), else it stands alone.
    Inside a group: the grouped axes innermost, the others in their order. Consumes the axes it decodes.
    """
    assert s.order.group is not None
    axis, size, count = s.order.group
    unit = s.role(axis).block == 1
    together = [a for a in order if (s.role(a).block == 1 if unit else a == axis)]
    others = [a for a in order if a not in together]
    units: Uniform = Int(1)
    for a in together:
        units = op("mul", units, axis_steps(a, s))
    other_items: Uniform = Int(1)
    for a in others:
        other_items = op("mul", other_items, axis_steps(a, s))
    wanted = Int(count) if count is not None else op("max", 1, op("floordiv", size or 0, streamed_bytes(s, axis)))
    at_once = prod(s.clustered(a) for a in together)
    if at_once > 1:
        wanted = op("max", 1, op("floordiv", wanted, at_once))
    most = bind("group.size", op("min", wanted, units))
    number = bind("group.number", op("floordiv", item, op("mul", most, other_items)))
    inside = bind("group.item", op("sub", item, op("mul", number, op("mul", most, other_items))))
    first = op("mul", number, most)
    mine = bind("group.units", op("min", most, op("sub", units, first)))
    unit_index = bind("group.unit", op("add", first, op("mod", inside, mine)))
    rest = bind("group.rest", op("floordiv", inside, mine))
    for n, a in enumerate(others):
        blocks = axis_steps(a, s)
        index = rest if n == len(others) - 1 else op("mod", rest, blocks)
        _bind_position(a, index, s, bind)
        if n < len(others) - 1:
            rest = bind(f"group.rest_{n}", op("floordiv", rest, blocks))
    order[:] = together
    return unit_index


def streamed_bytes(s: Scheduled, axis: str) -> Uniform:
    """Bytes of the streamed tiles that one position of a grid axis reads (an axis shared by a split: its share)."""
    program = s.program.tile
    split = program.axis(axis).split
    total: Uniform = Int(0)
    for buffer in s.tiles:
        move = program.move(buffer.tile)
        streamed = [a for a in move.axes if s.has_role(a, "stream")]
        if not streamed:
            continue
        size: Uniform = Int(program.tensor(move.tensor).dtype.bytes)
        for a in move.axes:
            if s.has_role(a, "stream") or s.has_role(a, "hold"):
                size = op("mul", size, extent(program.axis(a)))
        if split and axis not in move.axes and split.outer in move.axes:
            size = op("floordiv", size, extent(program.axis(split.inner)))
        total = op("add", total, size)
    return op("max", total, 1)


# ---- domains ---------------------------------------------------------------------------------------


def guard_value(guard: Guard) -> Uniform:
    return op(_COMPARE[guard.op], from_poly(guard.left), from_poly(guard.right))


def _constraint(entry: Affine, clause: Clause, axis: str, s: Scheduled) -> Constraint:
    alpha, beta = 0, from_poly(entry.offset)
    unit: Uniform = ONE
    slopes: list[tuple[str, int]] = []
    _check_parts(entry.terms, s)
    for name, coefficient in entry.terms:
        whole, length = chunked(name, s)
        part = row_part(whole, s)
        if whole == axis:
            alpha, unit = coefficient, length
        elif whole != name and part is not None:
            slopes.append((name, coefficient))
        elif part is not None:
            slopes.append((part.axis, coefficient))
            if part.axis != name:  # a split axis: its inner part runs along the rows
                start = op("sub", position(name, s), position(part.axis, s))
                beta = op("add", beta, op("mul", start, coefficient))
        else:
            beta = op("add", beta, op("mul", position(name, s), coefficient))
    return Constraint(alpha, tuple(slopes), beta, guard_value(clause.guard) if clause.guard else None, unit)


def chunked(name: str, s: Scheduled) -> tuple[str, Uniform]:
    """For the outer part of an axis of which a tile holds several positions: that axis, and how many make up one of
    the part's. Any other axis is its own, by ones."""
    for a in s.program.tile.axes:
        held = any(r.axis == a.name for r in s.roles)  # not by its parts
        if a.split and a.split.outer == name and held and extent_in_tile(a.name, s) > 1:
            return a.name, extent(s.program.tile.axis(a.split.inner))
    return name, ONE


def _check_parts(terms: tuple[tuple[str, int], ...], s: Scheduled) -> None:
    """A condition on an axis and on its chunks is no condition on either."""
    for name, _ in terms:
        whole = chunked(name, s)[0]
        split = s.program.tile.axis(whole).split
        if split and whole != name and any(other == whole for other, _ in terms):
            fail(Code.PART_IN_TILE, split.span, axis=name, whole=whole)


def stream_clauses(program: TileProgram, axis: str, reach: set[str]) -> tuple[Clause, ...]:
    parts = with_parts(program, (axis,))
    return tuple(c for c in program.domain if parts & set(c.axes) and set(c.axes) <= reach)


# Ranges that a streamed loop can go through: each costs a few integers an item.
MOST_RANGES = 4


def _alternatives(
    clauses: tuple[Clause, ...], axis: str, s: Scheduled
) -> tuple[tuple[Conjunction, ...], tuple[Clause, ...]]:
    """The clauses multiplied out, with the clauses that are not: they would make too many ranges, and only mask."""
    found = [Conjunction()]
    only_masking: list[Clause] = []
    for clause in clauses:
        options = []
        for parts in clause.alternatives:
            affine = [_constraint(p, clause, axis, s) for p in parts if isinstance(p, Affine)]
            options.append(Conjunction(tuple(affine), len(affine) < len(parts)))
        if len(options) > 1 and len(found) * len(options) > MOST_RANGES:
            only_masking.append(clause)
            options = [Conjunction((), True)]
        found = [Conjunction(f.constraints + o.constraints, f.masked or o.masked) for f in found for o in options]
    return tuple(found), tuple(only_masking)


@dataclass(frozen=True)
class StreamRanges:
    """Block ranges of a streamed loop. The symbol `warpgroup` does not occur in `shared` and `whole`.

    Each is a union (`block_ranges`). Only the first and last blocks of `shared` and `own` count, only the inside of
    `sure` and `whole`; where there is none, any block may need a mask.
    """

    shared: tuple[Ranges, ...]  # visited for the whole CTA's rows
    own: tuple[Ranges, ...]  # visited for this warpgroup's own rows
    sure: tuple[Ranges, ...]  # inside for this warpgroup's own rows
    whole: tuple[Ranges, ...]  # inside for the whole CTA's rows
    constraints: tuple[Constraint, ...]


def ranges(stream: Stream, s: Scheduled) -> StreamRanges:
    """The ranges of a streamed loop, for the work item and warpgroup at hand."""
    program = s.program.tile
    axis = stream.axis
    domains = _domains(axis, s)
    clauses = stream_clauses(program, axis, set().union(*domains))
    # those that every fold is subject to: a block outside them serves none
    common = tuple(c for c in clauses if all(set(c.axes) <= d for d in domains))
    size, block = extent(program.axis(axis)), s.role(axis).block
    every, _ = _alternatives(clauses, axis, s)
    visiting, _ = _alternatives(common, axis, s)
    named = {name for a in every for c in a.constraints for name, _ in c.rows}
    box: dict[str, tuple[Uniform, Uniform]] = {}
    own_box: dict[str, tuple[Uniform, Uniform]] = {}
    for r in row_axes(s):
        end = op("sub", extent(program.axis(r.axis)), 1)
        # the CTAs of a cluster go through the same blocks: those that any of them needs
        ctas, own_first = s.clustered(r.axis), row_origin(r.axis, s)
        first = Sym(cluster_start(r.axis)) if ctas > 1 else position(r.axis, s)
        last = op("min", op("add", first, ctas * r.block - 1), end)
        own_last = op("min", op("add", own_first, r.positions - 1), end)
        for name in sorted({r.axis} | {n for n in named if chunked(n, s)[0] == r.axis}):
            n = chunked(name, s)[1]
            box[name] = (op("floordiv", first, n), op("floordiv", last, n))
            own_box[name] = (op("floordiv", own_first, n), op("floordiv", own_last, n))
    if any(not a.constraints for a in visiting):
        visiting = (Conjunction(),)
    unmasked = tuple(a for a in every if not a.masked)
    return StreamRanges(
        block_ranges(size, block, visiting, box, own_box),
        block_ranges(size, block, visiting, own_box, own_box),
        block_ranges(size, block, unmasked, box, own_box),
        block_ranges(size, block, unmasked, box, box),
        tuple(dict.fromkeys(c for a in every for c in a.constraints)),
    )


def only_masking(stream: Stream, s: Scheduled) -> tuple[Clause, ...]:
    """Clauses that bound no loop over the axis because their alternatives would make too many ranges."""
    clauses = stream_clauses(s.program.tile, stream.axis, set().union(*_domains(stream.axis, s)))
    return _alternatives(clauses, stream.axis, s)[1]


def _domains(axis: str, s: Scheduled) -> list[set[str]]:
    """For each fold over a streamed axis the axes that its domain is of, parts of split axes included; no axes for
    an output that says what stands outside its domain, and so needs every block.

    Those of all loops over the axis, so that its bounds are the same and bound once.
    """
    program = s.program
    out: list[tuple[str, ...]] = []
    for o in program.ops:
        if isinstance(o, Product) and axis in o.over:
            out.append((*o.axes, *o.over))
        elif isinstance(o, Reduce | Exponent) and axis in o.over:
            out.append(program.op(o.source).axes)
        elif isinstance(o, Output) and axis in o.axes:
            out.append(() if program.tile.tensor(o.tensor).otherwise is not None else o.axes)
    return [with_parts(program.tile, axes) for axes in out]


# ---- masks -----------------------------------------------------------------------------------------


def predicates(clauses: tuple[Clause, ...]) -> tuple[Expr, ...]:
    """Conditions of clauses that are no inequalities."""
    return tuple(p for c in clauses for parts in c.alternatives for p in parts if not isinstance(p, Affine))


# The offset of a bound that always holds, and far enough from the ends of int32 for arithmetic on it.
_ALWAYS = 1 << 29
Condition: TypeAlias = "Bound | ElementExpr"


def mask_alternatives(
    clauses: tuple[Clause, ...],
    bounded: tuple[str, ...],
    shape: Shape,
    s: Scheduled,
    predicate: Callable[[Expr], ElementExpr],
) -> tuple[tuple[Condition, ...], ...]:
    """Where an element of a value of this shape is live: a disjunction of conjunctions.

    `bounded`: axes whose extent can end inside a tile. `predicate` spells a condition that is no inequality.
    """
    program = s.program.tile
    terms: list[tuple[tuple[Condition, ...], ...]] = []
    for axis in bounded:
        if s.has_role(axis, "hold"):
            continue
        terms.append(((_bound(((axis, -1),), op("sub", extent(program.axis(axis)), 1), shape, s),),))
    for clause in clauses:
        options: list[tuple[Condition, ...]] = []
        for parts in clause.alternatives:
            options.append(
                tuple(
                    _bound(p.terms, from_poly(p.offset), shape, s) if isinstance(p, Affine) else predicate(p)
                    for p in parts
                )
            )
        if clause.guard is not None:
            options = _guarded(options, guard_value(clause.guard))
        terms.append(tuple(options))
    alternatives: list[tuple[Condition, ...]] = [()]
    for options_of in terms:
        alternatives = [a + o for a in alternatives for o in options_of]
    return tuple(alternatives)


def _guarded(options: list[tuple[Condition, ...]], on: Uniform) -> list[tuple[Condition, ...]]:
    """The alternatives of a clause that may be off. Then the bounds of one hold everywhere, if it has nothing else."""
    for n, option in enumerate(options):
        bounds = [b for b in option if isinstance(b, Bound)]
        if len(bounds) == len(option):
            off = tuple(replace(b, offset=op("select", on, b.offset, _ALWAYS)) for b in bounds)
            return [*options[:n], off, *options[n + 1 :]]
    return [*options, (Bound(0, 0, op("select", on, -1, 0)),)]


def _bound(terms: tuple[tuple[str, int], ...], offset: Uniform, shape: Shape, s: Scheduled) -> Bound:
    _check_parts(terms, s)
    chunk_row = chunk_col = 0
    rows_by: Chunks | None = None
    cols_by: Chunks | None = None
    plain: list[tuple[str, int]] = []
    for axis, coefficient in terms:
        whole, length = chunked(axis, s)
        part = row_part(whole, s)
        if whole != axis and part is not None and part.axis in shape.rows:
            chunk_row, rows_by = coefficient, Chunks(row_origin(whole, s), length, part.digit)
        elif whole != axis and whole == shape.cols:
            chunk_col, cols_by = coefficient, Chunks(position(whole, s), length)
        else:
            plain.append((axis, coefficient))
    row, col, offset, digits = linear(tuple(plain), offset, shape, s)
    return Bound(chunk_row or row, chunk_col or col, offset, rows_by, cols_by, digits)
