"""Schedule directives as rewrites of the Scheduled program, one function each.

A rewrite checks what it needs by name and returns a new program; it never adds, drops or retypes an operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir import schedule as directives
from tilegen.ir.folded import Exponent, FoldedProgram, Product
from tilegen.ir.machines import MACHINES
from tilegen.ir.plan_rules.roles import SETMAXNREG
from tilegen.ir.scheduled import AxisRole, Batch, Item, Scheduled, Step, Stream
from tilegen.ir.scheduled_verify import verify
from tilegen.ir.terms import TERMS
from tilegen.ir.tile import Affine
from tilegen.passes.clusters import multicast
from tilegen.passes.factors import factors_of
from tilegen.passes.guard import with_parts
from tilegen.passes.order import check_order
from tilegen.passes.schedule import REGISTERS, registers_at_entry, schedule
from tilegen.passes.stale import scaled_sum
from tilegen.passes.tokens import batch_axis, ragged_extent
from tilegen.syntax.span import Span

TARGET_OPTIONS: dict[str, frozenset[str]] = {
    "hopper": frozenset({"dependent_launch", "exact_max", "isolate", "skip_rows"}),
    "sm_80": frozenset({"exact_max", "isolate", "warp_rows"}),
}
# Options that a target other than hopper has, and what says such a thing here.
_OF_OTHERS = {
    "waves": "it is of the target `mls`; here `consumers` says how many warpgroups there are",
    "prefetch": "it is of the target `mls`; here `stages` says how many tiles are on their way",
    "warp_rows": "it is of the target `sm_80`; here a warpgroup multiplies 64 rows",
}


def default_schedule(folded: FoldedProgram, given: tuple[directives.Directive, ...], target: str) -> Scheduled:
    """The default schedule, with the roles that `grid`, `stream` and `hold` state. Raises TilegenError."""
    extents = {a.name: a.extent.constant for a in folded.tile.axes}
    return schedule(folded, target, _stated_roles(given, extents))


def _stated_roles(given: tuple[directives.Directive, ...], extents: dict[str, int | None]) -> dict[str, AxisRole]:
    """By axis; `extents` are the compile-time ones (None: run time)."""
    out: dict[str, AxisRole] = {}
    for d in given:
        if isinstance(d, directives.Role):
            for axis in d.axes:
                extent = extents[axis]
                if d.role == "hold":
                    if extent is None:
                        fail(Code.HOLD_NEEDS_EXTENT, d.span, axis=axis)
                    out[axis] = AxisRole(axis, "hold", extent, d.span)
                else:
                    out[axis] = AxisRole(axis, d.role, 1 if d.role == "grid" else 64, d.span)
    return out


def apply_directives(program: Scheduled, given: tuple[directives.Directive, ...]) -> Scheduled:
    """Every directive applied, in an order in which each finds what it needs. Raises TilegenError."""
    for kind, rewrite in _REWRITES.items():
        for d in given:
            if isinstance(d, kind):
                program = rewrite(program, d)
                verify(program)
    for d in given:
        if isinstance(d, _UNSUPPORTED) or (
            isinstance(d, directives.Option) and d.name not in TARGET_OPTIONS[program.target]
        ):
            name = d.name if isinstance(d, directives.Option) else _SPELLING[type(d)]
            if why := _OF_OTHERS.get(name):
                fail(Code.DIRECTIVE_OF_OTHERS, d.span, directive=name, target=program.target, why=why)
            fail(Code.DIRECTIVE_UNSUPPORTED, d.span, directive=name, target=program.target)
    check_order(program)
    return program


# ---- shapes ----------------------------------------------------------------------------------------


def block(program: Scheduled, d: directives.Block) -> Scheduled:
    if not any(r.axis == d.axis for r in program.roles):
        fail(Code.BLOCK_OF_PART, d.span, axis=d.axis, **TERMS[program.target].fields(d.axis))
    role = program.role(d.axis)
    if role.role == "hold" and role.block != d.extent:
        fail(Code.BLOCK_OF_HELD, d.span, axis=d.axis, extent=role.block, got=str(d.extent), wanted=str(role.block))
    return program.with_role(replace(role, block=d.extent, span=d.span))


def consumers(program: Scheduled, d: directives.Consumers) -> Scheduled:
    if d.count not in REGISTERS:
        fail(Code.CONSUMER_COUNT, d.span, got=str(d.count), wanted="1 to 4")
    for axis in d.axes:
        program = _as_rows(program, axis, d.span)
    registers = REGISTERS[d.count]
    consumer, producer = registers if registers else (None, None)
    workers = replace(
        program.workers,
        count=d.count,
        axes=d.axes,
        consumer_registers=consumer,
        producer_registers=producer,
        span=d.span,
    )
    moves = program.program.tile
    stream = next((r.axis for r in program.roles if r.role == "stream"), None)
    tiles = tuple(
        replace(t, apart=set(d.axes) <= with_parts(moves, axes := moves.move(t.tile).axes) and stream not in axes)
        for t in program.tiles
    )
    return replace(program, workers=workers, tiles=tiles)


def _as_rows(program: Scheduled, axis: str, span: Span) -> Scheduled:
    """The program with a grid axis of this name: the inner part of a split one takes its role, with the outer part."""
    if program.has_role(axis, "grid"):
        return program
    whole = next((a for a in program.program.tile.axes if a.split and a.split.inner == axis), None)
    if whole is None or whole.split is None or not program.has_role(whole.name, "grid"):
        fail(Code.CONSUMER_AXIS, span, axis=axis)
    role, parts = program.role(whole.name), (axis, whole.split.outer)
    if role.block != 1:
        fail(Code.CONSUMER_AXIS, span, axis=axis)
    roles = [r for r in program.roles if r.axis != whole.name]
    order = [p for a in program.order.axes for p in (parts if a == whole.name else (a,))]
    return replace(
        program,
        roles=(*roles, *(replace(role, axis=p, span=span) for p in parts)),
        order=replace(program.order, axes=tuple(order)),
    )


def _between(numbers: list[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])


def registers(program: Scheduled, d: directives.Registers) -> Scheduled:
    entry = registers_at_entry(program.workers.count)
    counts = (d.consumer, d.producer)
    if any(n not in SETMAXNREG for n in counts) or not d.producer < entry <= d.consumer:
        more = [n for n in SETMAXNREG if n >= entry]
        fewer = [n for n in SETMAXNREG if n < entry]
        fail(
            Code.REGISTER_COUNT,
            d.span,
            got=f"{d.consumer} and {d.producer}",
            wanted=f"multiples of 8, {_between(more)} for consumers and {_between(fewer)} for the producer",
        )
    return replace(
        program,
        workers=replace(program.workers, consumer_registers=d.consumer, producer_registers=d.producer),
    )


def stages(program: Scheduled, d: directives.Stages) -> Scheduled:
    if any(s.output == d.tile for s in program.stores):
        if "tma" not in MACHINES[program.target].movers:
            fail(Code.DIRECTIVE_UNSUPPORTED, d.span, directive=f"stages {d.tile}", target=program.target)
        return _staged(program, d.tile, d.span, stages=d.depth)
    tiles = tuple(replace(t, depth=d.depth, span=d.span) if t.tile == d.tile else t for t in program.tiles)
    program = replace(program, tiles=tiles)
    if d.depth > 1:
        return program
    # with a single slot no product can stay in flight while the next iteration waits for its tile
    readers = {o.name for o in program.program.ops if isinstance(o, Product) and d.tile in (o.a, o.b)}

    def change(stream: Stream) -> Stream:
        body = (replace(i, wait="now") if isinstance(i, Batch) and _names(i) & readers else i for i in stream.body)
        return replace(stream, body=tuple(body))

    return _map_streams(program, change)


# ---- order in the loop body ------------------------------------------------------------------------


def _products(program: Scheduled, statement: str, span: Span) -> tuple[str, ...]:
    """Names of the products that a statement of the spec makes."""
    names = tuple(o.name for o in program.program.ops if isinstance(o, Product) and o.statement == statement)
    if not names:
        fail(Code.NO_PRODUCT, span, name=statement)
    return names


def _map_streams(program: Scheduled, change: Callable[[Stream], Stream]) -> Scheduled:
    return replace(program, phases=tuple(change(p) if isinstance(p, Stream) else p for p in program.phases))


def _shift(item: Item, distance: int, ops: set[str]) -> Item:
    if isinstance(item, Step):
        return replace(item, distance=distance) if item.op in ops else item
    return replace(item, steps=tuple(replace(s, distance=distance) if s.op in ops else s for s in item.steps))


def _names(item: Item) -> set[str]:
    return {item.op} if isinstance(item, Step) else {s.op for s in item.steps}


def late(program: Scheduled, d: directives.Late) -> Scheduled:
    """The product works on an earlier iteration; its operands of that iteration are overwritten later in the
    body, so it moves to the front."""
    if d.distance not in (0, 1):
        fail(Code.DISTANCE_TOO_FAR, d.span, name=d.name, got=str(d.distance), wanted="0 or 1")
    if d.distance == 0:
        return program
    ops = set(_products(program, d.name, d.span))

    def change(stream: Stream) -> Stream:
        moved = [_shift(i, d.distance, ops) for i in stream.body if _names(i) & ops]
        if not moved:
            return stream
        rest = [i for i in stream.body if not _names(i) & ops]
        moved = [replace(i, wait="now", span=d.span) if isinstance(i, Batch) else i for i in moved]
        return replace(stream, body=(*moved, *rest))

    return _map_streams(program, change)


def ahead(program: Scheduled, d: directives.Ahead) -> Scheduled:
    """Every other operation of the body is late: the same as a distance for each of them."""
    if d.distance not in (0, 1):
        fail(Code.DISTANCE_TOO_FAR, d.span, name=d.name, got=str(d.distance), wanted="0 or 1")
    if d.distance == 0:
        return program
    ops = set(_products(program, d.name, d.span))

    def change(stream: Stream) -> Stream:
        if not any(_names(i) & ops for i in stream.body):
            return stream
        others = {s.op for s in stream.steps} - ops
        rest = [replace(_shift(i, d.distance, others), span=d.span) for i in stream.body if not _names(i) & ops]
        front = [i for i in stream.body if _names(i) & ops]
        return replace(stream, body=(*rest, *front))

    return _map_streams(program, change)


def batch(program: Scheduled, d: directives.Batch) -> Scheduled:
    """One commit for these products, in this order, awaited before anything else of the body."""
    order = [name for n in d.names for name in _products(program, n, d.span)]

    def change(stream: Stream) -> Stream:
        steps = {s.op: s for s in stream.steps}
        if not all(name in steps for name in order):
            return stream
        joined = Batch(tuple(steps[name] for name in order), "now", d.span)
        body = [i for i in stream.body if not _names(i) & set(order)]
        return replace(stream, body=(joined, *body))

    return _map_streams(program, change)


def issue(program: Scheduled, d: directives.Issue) -> Scheduled:
    """These products are issued first and in this order, a commit each; each is awaited where it is needed."""
    order = [name for n in d.names for name in _products(program, n, d.span)]

    def change(stream: Stream) -> Stream:
        steps = {s.op: s for s in stream.steps}
        if not all(name in steps for name in order):
            return stream
        front = [Batch((steps[name],), "needed", d.span) for name in order]
        return replace(stream, body=(*front, *(i for i in stream.body if not _names(i) & set(order))))

    return _map_streams(program, change)


def under(program: Scheduled, d: directives.Under) -> Scheduled:
    """The named values are computed between the product's issue and its wait."""
    ops = set(_products(program, d.product, d.span))

    def change(stream: Stream) -> Stream:
        body = tuple(replace(i, wait="needed") if isinstance(i, Batch) and _names(i) & ops else i for i in stream.body)
        return replace(stream, body=body)

    return _map_streams(program, change)


def take_turns(program: Scheduled, d: directives.TakeTurns) -> Scheduled:
    if program.workers.count < 2:
        fail(Code.TURNS_ALONE, d.span)
    names = tuple(name for n in d.names for name in _products(program, n, d.span))
    return replace(program, turns=names)


def stale_max(program: Scheduled, d: directives.StaleMax) -> Scheduled:
    """Scaled sums keep an old exponent in blocks that need no mask; rows that outgrow it redo the step exactly."""
    streams = [p for p in program.phases if isinstance(p, Stream)]
    exponents = [o.name for o in program.program.ops if isinstance(o, Exponent)]
    stale = tuple(e for e in exponents if any(scaled_sum(e, p, program.program) for p in streams))
    if not stale:
        fail(Code.NOTHING_STALE, d.span)
    return replace(program, stale=stale)


def walk(program: Scheduled, d: directives.Walk) -> Scheduled:
    if not program.has_role(d.axis, "stream"):
        fail(Code.WALK_NOT_STREAMED, d.span, axis=d.axis)
    return _map_streams(program, lambda s: replace(s, direction=d.direction) if s.axis == d.axis else s)


def option(program: Scheduled, d: directives.Option) -> Scheduled:
    if d.name == "skip_rows":
        return skip_rows(program, d)
    if d.name == "isolate" and d.value == "fast":
        return replace(program, tiles=tuple(replace(t, scan=False) for t in program.tiles))
    if d.name == "dependent_launch":
        return replace(program, dependent=True)
    return program  # `exact_max` and `isolate exact` are what there is without them


def skip_rows(program: Scheduled, d: directives.Option) -> Scheduled:
    """Each consumer passes by the first blocks of the loop that its own rows do not need: none, where no clause of
    the domain ties the streamed axis to the rows."""
    if program.workers.count < 2:
        fail(Code.SKIP_ALONE, d.span)
    return _map_streams(program, lambda s: replace(s, skip=lengths_differ(s.axis, program)))


def lengths_differ(stream: str, program: Scheduled) -> bool:
    """Whether the blocks that an item visits depend on its rows."""
    tile, axes = program.program.tile, program.workers.axes
    rows = with_parts(tile, axes) | {a.name for a in tile.axes if a.split and a.split.inner in axes}
    sides = (with_parts(tile, (stream,)), rows)
    bounds = (p for c in tile.domain for parts in c.alternatives for p in parts if isinstance(p, Affine))
    return any(all(side & {axis for axis, _ in p.terms} for side in sides) for p in bounds)


def place(program: Scheduled, d: directives.Place) -> Scheduled:
    """The first factors of products that an equation computes, or that are made of its values alone, stand in shared
    memory; without this, they stand in registers."""
    if any(m.name == d.name for m in program.program.tile.moves):
        if d.where == "registers":
            fail(Code.PLACE_OF_TILE, d.span, tile=d.name)
        return program
    held = factors_of(d.name, program.program)
    if not held:
        fail(Code.PLACE_NOTHING, d.span, name=d.name)
    return program if d.where == "registers" else replace(program, placed=(*program.placed, *held))


# ---- work and stores -------------------------------------------------------------------------------


def persistent(program: Scheduled, d: directives.Persistent) -> Scheduled:
    if d.mode not in ("static", "table"):
        fail(Code.DIRECTIVE_UNSUPPORTED, d.span, directive=f"persistent {d.mode}", target=program.target)
    if d.mode != "table" and program.program.tile.ragged:
        fail(Code.RAGGED_DEAL, d.span, got=f"persistent {d.mode}", wanted="persistent table")
    return replace(program, order=replace(program.order, persistent=d.mode))


def order(program: Scheduled, d: directives.Order) -> Scheduled:
    """`longest_first`: the rows from the far end, outermost, so that the longest of all heads go first; nothing,
    where all items are equally long."""
    current = program.order
    if d.names == ("longest_first",):
        if not any(r.role == "stream" and lengths_differ(r.axis, program) for r in program.roles):
            return program
        tile = program.program.tile
        tied = {a for c in tile.domain for a in c.axes}
        rows = tuple(a for a in program.workers.axes if with_parts(tile, (a,)) & tied) or program.workers.axes
        axes = (*(a for a in current.axes if a not in rows), *rows)
        return replace(program, order=replace(current, axes=axes, descending=rows))
    grid = {r.axis for r in program.roles if r.role == "grid"}
    if set(d.names) != grid:
        fail(Code.ORDER_AXES, d.span, got=", ".join(d.names), wanted=", ".join(sorted(grid)))
    return replace(program, order=replace(current, axes=d.names, descending=()))


def group(program: Scheduled, d: directives.Group) -> Scheduled:
    """Items of an axis kept together. By bytes it is about the streamed tiles that the axis's items share out: nothing,
    where the rows come first, since then the items that read the same tiles stand together already (blocks of sequences
    come by cost)."""
    if not program.has_role(d.axis, "grid"):
        fail(Code.GROUP_AXIS, d.span, axis=d.axis)
    axes, rows = program.order.axes, program.workers.axes
    tile = program.program.tile
    if tile.ragged and (d.axis in (*rows, batch_axis(tile).name) or ragged_extent(tile.axis(d.axis), tile)):
        fail(Code.RAGGED_GROUP, d.span, axis=d.axis)
    if d.bytes is not None and axes.index(rows[0]) < axes.index(d.axis) and not tile.ragged:
        return program
    return replace(program, order=replace(program.order, group=(d.axis, d.bytes, d.count)))


def alias(program: Scheduled, d: directives.Alias) -> Scheduled:
    if not any(s.output == d.buffer for s in program.stores) or not any(t.tile == d.host for t in program.tiles):
        fail(Code.ALIAS_NAMES, d.span, buffer=d.buffer, host=d.host)
    return _staged(program, d.buffer, d.span, host=d.host)


def _staged(program: Scheduled, output: str, span: Span, *, host: str | None = None, stages: int = 0) -> Scheduled:
    """An output leaves by TMA, through the bytes of a tile or through so many stages of its own."""
    stores = (
        replace(s, via="tma", host=host, stages=stages, span=span) if s.output == output else s for s in program.stores
    )
    return replace(program, stores=tuple(stores))


def via(program: Scheduled, d: directives.Via) -> Scheduled:
    if any(s.output == d.tile for s in program.stores):
        if d.mover not in ("tma", "rows"):
            fail(Code.DIRECTIVE_UNSUPPORTED, d.span, directive=f"via {d.tile} {d.mover}", target=program.target)
        return replace(
            program,
            stores=tuple(replace(s, via=d.mover, span=d.span) if s.output == d.tile else s for s in program.stores),
        )
    if d.mover not in MACHINES[program.target].movers:
        fail(Code.DIRECTIVE_UNSUPPORTED, d.span, directive=f"via {d.tile} {d.mover}", target=program.target)
    return replace(
        program,
        tiles=tuple(
            replace(t, mover=d.mover, width=d.width, span=d.span) if t.tile == d.tile else t for t in program.tiles
        ),
    )


def hint(program: Scheduled, d: directives.Hint) -> Scheduled:
    """How long L2 holds on to what the TMA engine moves, which is not what is stored in rows."""
    how = "" if d.how == "normal" else d.how
    if any(s.output == d.name for s in program.stores):
        if how and program.store(d.name).via != "tma":
            fail(Code.HINT_OF_ROWS, d.span, output=d.name)
        return replace(program, stores=tuple(replace(s, hint=how) if s.output == d.name else s for s in program.stores))
    if how and program.tile(d.name).mover != "tma":
        fail(Code.HINT_OF_COPIES, d.span, tile=d.name)
    return replace(
        program, tiles=tuple(replace(t, hint=how, span=d.span) if t.tile == d.name else t for t in program.tiles)
    )


def oob(program: Scheduled, d: directives.Oob) -> Scheduled:
    """What a tile holds outside its tensor; `fills` says where the NaN is of use."""
    if d.fill == "nan" and any(t.tile == d.tile and t.mover != "tma" for t in program.tiles):
        fail(Code.OOB_COPIES, d.span, tile=d.tile)
    return replace(
        program, tiles=tuple(replace(t, fill=d.fill, span=d.span) if t.tile == d.tile else t for t in program.tiles)
    )


# Applied in this order whatever the order in the file: shapes before orders, distances before batches.
_REWRITES: dict[type, Callable[[Scheduled, Any], Scheduled]] = {
    directives.Consumers: consumers,
    directives.Registers: registers,
    directives.Block: block,
    directives.Stages: stages,
    directives.Walk: walk,
    directives.StaleMax: stale_max,
    directives.Late: late,
    directives.Ahead: ahead,
    directives.Batch: batch,
    directives.Issue: issue,
    directives.Under: under,
    directives.TakeTurns: take_turns,
    directives.Place: place,
    directives.Option: option,
    directives.Persistent: persistent,
    directives.Order: order,
    directives.Group: group,
    directives.Via: via,
    directives.Alias: alias,
    directives.Hint: hint,
    directives.Multicast: multicast,
    directives.Oob: oob,
}
_SPELLING: dict[type, str] = {
    directives.SplitReduction: "split",
    directives.Outputs: "outputs",
}
_UNSUPPORTED = tuple(_SPELLING)
