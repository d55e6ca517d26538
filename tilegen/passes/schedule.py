"""The first Scheduled program: default roles, one loop nest for all outputs, every distance 0.

Levels: an operation that reads the finished state of a fold over the streamed axis and varies along that axis
itself cannot run in the loop that makes the state; it gets a second loop over the same blocks, in which what
it needs of the first (anything but folds) is computed again. Row softmax that writes its weights is such a case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.diagnostics.core import Note
from tilegen.ir.folded import (
    Elementwise,
    Exponent,
    FoldedOp,
    FoldedProgram,
    Guarded,
    Output,
    Product,
    Reduce,
    Rescale,
    Weight,
)
from tilegen.ir.plan_rules.roles import WARPGROUP_THREADS, entry_registers
from tilegen.ir.scheduled import (
    AxisRole,
    Batch,
    Item,
    Phase,
    Scheduled,
    Step,
    Store,
    Straight,
    Stream,
    TileBuffer,
    Workers,
    WorkOrder,
)
from tilegen.ir.terms import TERMS
from tilegen.passes.expressions import reads
from tilegen.passes.roles import default_roles
from tilegen.passes.tokens import batch_axis
from tilegen.syntax.span import Span

# (consumer, producer) registers a thread that were measured good, by consumer warpgroups (design, section 4)
REGISTERS: dict[int, tuple[int, int] | None] = {1: None, 2: (232, 40), 3: (160, 32), 4: (112, 32)}
DEFAULT_ROWS = 128
DEFAULT_COLUMNS = 128


def registers_at_entry(consumers: int) -> int:
    """What the compiler may give each thread of the consumers and a producer."""
    return entry_registers(WARPGROUP_THREADS * (1 + consumers))


def schedule(program: FoldedProgram, target: str, overrides: dict[str, AxisRole]) -> Scheduled:
    """`program` with default decisions; `overrides` are roles that the schedule states. Raises TilegenError."""
    default = default_roles(program)
    for axis in program.tile.axes:
        part = next((r for r in default if axis.split and r.axis in (axis.split.outer, axis.split.inner)), None)
        if part is not None and any(r.axis == axis.name for r in default):
            fail(Code.SPLIT_AND_PART, axis.span, whole=axis.name, part=part.axis)
    for stated in overrides.values():
        if not any(r.axis == stated.axis for r in default):
            fail(Code.BLOCK_OF_PART, stated.span, axis=stated.axis, **TERMS[target].fields(stated.axis))
        folds = [o for o in program.ops if stated.role == "grid" and stated.axis in getattr(o, "over", ())]
        if folds:
            fail(Code.GRID_FOLDED, stated.span, axis=stated.axis, name=folds[0].statement)
    roles = tuple(overrides.get(r.axis, r) for r in default)
    streams = [r for r in roles if r.role == "stream"]
    if len(streams) > 1:
        names = ", ".join(r.axis for r in streams)
        notes = tuple(Note(span, f"`{axis}` is streamed here") for axis, span in _streamed(program, streams))
        fail(Code.NESTED_STREAMS, streams[1].span, notes=notes, axes=names)
    stream = streams[0].axis if streams else None
    span = program.tile.span
    worker = _worker_axis(program, roles, target)
    roles = tuple(_default_block(r, worker, program) for r in roles)
    count = 2
    registers = REGISTERS[count]
    assert registers is not None
    return Scheduled(
        program=program,
        target=target,
        roles=roles,
        workers=Workers(count, (worker,), registers[0], registers[1], program.tile.axis(worker).span),
        # how many items ragged sizes make is known on the device alone
        order=WorkOrder(
            _default_order(program, roles, worker), (), "table" if program.tile.ragged else None, None, span
        ),
        tiles=_tiles(program, roles, worker, stream),
        stores=tuple(Store(t.name, "rows", None, t.span) for t in program.tile.tensors if t.output),
        phases=_phases(program, stream),
        turns=(),
        stale=(),
        span=span,
    )


# ---- axes ------------------------------------------------------------------------------------------


def _streamed(program: FoldedProgram, streams: list[AxisRole]) -> Iterator[tuple[str, Span]]:
    """Where each of these axes is folded first, or said to be streamed."""
    for role in streams:
        fold = next((o for o in program.ops if role.axis in getattr(o, "over", ())), None)
        yield role.axis, fold.span if fold else role.span


def source_names(op: FoldedOp) -> tuple[str, ...]:
    """Names of the tiles, tensors and values an operation reads (its own state, for a Rescale, included)."""
    if isinstance(op, Product):
        return (op.a, op.b)
    if isinstance(op, Elementwise):
        return tuple(dict.fromkeys(r.name for r in reads(op.value)))
    if isinstance(op, Weight):
        factor = reads(op.factor) if op.factor else ()
        return (op.source, op.exponent, *(r.name for r in factor), *(t.slope for t in op.tilts))
    if isinstance(op, Rescale):
        return (op.source, op.exponent)
    if isinstance(op, Exponent):
        return (op.source, *((op.start,) if op.start else ()), *(t.slope for t in op.tilts))
    if isinstance(op, Reduce) and op.start is not None:
        return (op.source, op.start)
    return (op.source,)


def _reach(name: str, program: FoldedProgram) -> tuple[str, ...]:
    if program.has(name):
        return program.op(name).axes
    return next((m.axes for m in program.tile.moves if m.name == name), ())


def _worker_axis(program: FoldedProgram, roles: tuple[AxisRole, ...], target: str) -> str:
    """The rows: the grid axis of a product's first factor that its second lacks, one that tiles hold several positions
    of if there is any; without a product, the first grid axis in the brackets of a tile. Sequences of different lengths
    are no rows."""
    grid = {r.axis for r in roles if r.role == "grid"}
    if program.tile.ragged:
        grid.discard(batch_axis(program.tile).name)
    parts = {a.name: {a.split.outer, a.split.inner} for a in program.tile.axes if a.split}
    several = {axis for move in program.tile.moves for axis in move.index} | {r.axis for r in roles if r.block > 1}
    for op in program.ops:
        if isinstance(op, Product):
            other = set(_reach(op.b, program))
            own = [a for a in _reach(op.a, program) if a in grid and not {a, *parts.get(a, ())} & other]
            if own:
                return next((a for a in own if a in several), own[0])
    for move in program.tile.moves:
        for axis in move.index:
            if axis in grid:
                return axis
    fail(Code.NO_ROWS, program.tile.span, kernel=program.tile.name, **TERMS[target].fields())


def _default_block(role: AxisRole, worker: str, program: FoldedProgram) -> AxisRole:
    if role.role != "grid" or role.block != 1:
        return role
    if role.axis == worker:
        return replace(role, block=DEFAULT_ROWS)
    if any(role.axis in m.index for m in program.tile.moves):
        return replace(role, block=DEFAULT_COLUMNS)
    return role


def _default_order(program: FoldedProgram, roles: tuple[AxisRole, ...], worker: str) -> tuple[str, ...]:
    """Innermost first: the rows, then the other axes, the last dimension of an output before the first."""
    grid = [r.axis for r in roles if r.role == "grid"]
    dims = [a for op in program.ops if isinstance(op, Output) for a in reversed(op.axes) if a in grid]
    return tuple(dict.fromkeys([worker, *dims, *grid]))


def _tiles(
    program: FoldedProgram, roles: tuple[AxisRole, ...], worker: str, stream: str | None
) -> tuple[TileBuffer, ...]:
    used = {name for op in program.ops for name in source_names(op)}
    out = []
    for move in program.tile.moves:
        if move.name in used:
            resident = stream is None or stream not in move.axes
            out.append(TileBuffer(move.name, 1 if resident else 2, resident and worker in move.axes, move.span))
    return tuple(out)


# ---- phases ----------------------------------------------------------------------------------------


def _folds(op: FoldedOp, stream: str | None) -> bool:
    return isinstance(op, Product | Reduce | Exponent) and stream in op.over


def _in_loop(op: FoldedOp, stream: str | None) -> bool:
    return stream is not None and (stream in op.axes or _folds(op, stream) or isinstance(op, Rescale))


def _running_only(op: FoldedOp, weight: Weight, program: FoldedProgram) -> bool:
    """Whether a value made of a weight is read, in the end, by folds held relative to its exponent alone: it may
    then stay relative as well."""
    if isinstance(op, Product | Reduce):
        return op.exponent == weight.exponent
    if not isinstance(op, Elementwise | Guarded):
        return False
    readers = [o for o in program.ops if op.name in source_names(o)]
    return bool(readers) and all(_running_only(o, weight, program) for o in readers)


def _phases(program: FoldedProgram, stream: str | None) -> tuple[Phase, ...]:
    span = program.tile.span
    if stream is None:
        return (Straight(_items(program.ops, program, None), span),)
    level: dict[str, int] = {}
    for op in program.ops:
        if isinstance(op, Rescale):
            continue
        at = 0
        for name in source_names(op):
            source = program.op(name) if program.has(name) else None
            if source is None:
                continue
            finished = _folds(source, stream) and not (isinstance(op, Weight) and name == op.exponent)
            relative = isinstance(source, Weight) and not _running_only(op, source, program)
            at = max(at, level[name] + (1 if finished or relative else 0))
        level[op.name] = at
    for op in program.ops:
        if isinstance(op, Rescale):
            level[op.name] = level[op.source]
    loops = [op for op in program.ops if _in_loop(op, stream)]
    outside = [op for op in program.ops if not _in_loop(op, stream)]
    phases: list[Phase] = []
    feeding = _ancestors([op.name for op in loops], program)
    before = [op for op in outside if level[op.name] == 0 and op.name in feeding]
    if before:
        phases.append(Straight(_items(before, program, stream), span))
    last = max((level[op.name] for op in loops), default=0)
    for at in range(last + 1):
        here = [op for op in loops if level[op.name] == at]
        if here:
            again = _ancestors([op.name for op in here], program)
            body = [
                op
                for op in loops
                if level[op.name] == at or (level[op.name] < at and op.name in again and not _state(op, stream))
            ]
            axis = program.tile.axis(stream)
            phases.append(Stream(stream, "up", False, _items(body, program, stream), axis.span))
        ready = range(at + 1, at + 2) if at < last else range(at + 1, len(program.ops) + 1)
        after = [
            op for op in outside if level[op.name] in ready or (at == 0 and level[op.name] == 0 and op not in before)
        ]
        if after:
            phases.append(Straight(_items(after, program, stream), span))
    return tuple(phases)


def _state(op: FoldedOp, stream: str | None) -> bool:
    return _folds(op, stream) or isinstance(op, Rescale)


def _ancestors(names: Iterable[str], program: FoldedProgram) -> set[str]:
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if program.has(name):
            for source in source_names(program.op(name)):
                if source not in found:
                    found.add(source)
                    todo.append(source)
    return found


def _items(ops: Iterable[FoldedOp], program: FoldedProgram, stream: str | None) -> tuple[Item, ...]:
    """Steps in program order, a batch for each product. Products that only accumulate stay in flight for one
    iteration more, all in one batch, so that the tensor core always has the next group at hand."""
    ops = list(ops)
    accumulating = [o for o in ops if isinstance(o, Product) and _only_accumulates(o, ops, program, stream)]
    items: list[Item] = []
    for o in ops:
        step = Step(o.name, 0, o.span)
        if o in accumulating:
            if o is accumulating[-1]:
                steps = tuple(Step(x.name, 0, x.span) for x in accumulating)
                items.append(Batch(steps, "next", accumulating[0].span))
        elif isinstance(o, Product):
            items.append(Batch((step,), "now", o.span))
        else:
            items.append(step)
    return tuple(items)


def _only_accumulates(o: Product, ops: list[FoldedOp], program: FoldedProgram, stream: str | None) -> bool:
    """Whether nothing in the loop but this product reads its state or its tiles' slots."""
    if stream is None or stream not in o.over or o.exponent is not None:
        return False
    tiles = {m.name for m in program.tile.moves}
    if o.a not in tiles or o.b not in tiles:
        return False
    loop = [x for x in ops if _in_loop(x, stream)]
    shared = {o.a, o.b, o.name}
    return not any(shared & set(source_names(x)) for x in loop if not (isinstance(x, Product) and stream in x.over))
