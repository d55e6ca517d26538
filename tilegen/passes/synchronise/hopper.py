"""Assemble the Hopper plan: shared memory, rings, parameters, and the two roles' sequences."""

from __future__ import annotations

from dataclasses import replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import Elementwise, Product
from tilegen.ir.plan import (
    ABOUT_DOMAIN,
    ASYNCHRONOUS,
    Buffer,
    CopyTile,
    Descriptor,
    IntValue,
    ItemTable,
    Let,
    LetFloat,
    LoadVector,
    MapParam,
    Mend,
    Param,
    Plan,
    PointerParam,
    Ring,
    RolePlan,
    ScalarParam,
    Scan,
    SizeParam,
    StoreRows,
    StoreVector,
    StrideParam,
    TableParam,
    TensorShape,
    Value,
    Work,
)
from tilegen.ir.plan_walk import nodes
from tilegen.ir.scheduled import Scheduled, Stream
from tilegen.ir.tile import Affine, Clause, Symbol, TileProgram
from tilegen.ir.uniform import Int, Sym, Uniform, from_poly, op, symbols
from tilegen.ir.walk import subexpressions
from tilegen.passes.expressions import positions
from tilegen.passes.fills import fill_notes
from tilegen.passes.isolate import ends_with_tensor
from tilegen.passes.schedule import registers_at_entry, source_names
from tilegen.passes.synchronise.consumer import ORDER_ID, Consumer
from tilegen.passes.synchronise.context import Context, storage, symbols_in
from tilegen.passes.synchronise.copier import copied, copy_width, full_arrivals, warps_beside
from tilegen.passes.synchronise.geometry import TileGeometry, descriptor, tile_geometry, up
from tilegen.passes.synchronise.loops import layout
from tilegen.passes.synchronise.producer import copier, producer
from tilegen.passes.synchronise.rows import WARPGROUP_ROWS, check_rows, row_part
from tilegen.passes.synchronise.scanner import SCANNED, scanner
from tilegen.passes.synchronise.sequences import sequence_table, unit_axes, unit_lets
from tilegen.passes.synchronise.step import check_in_step
from tilegen.passes.synchronise.stores import Stores, staging_name
from tilegen.passes.synchronise.values import Values
from tilegen.passes.synchronise.work import (
    ITEM,
    MOST_RANGES,
    decode,
    grid,
    only_masking,
    split_lets,
    streamed_bytes,
    total_items,
)

ALIGNMENT = 1024  # of tiles in shared memory: a whole 128-byte swizzle pattern
BARRIER_BYTES = 8
FLAG_BYTES = 4


def synchronise(s: Scheduled, guard: Uniform | None = None) -> Plan:
    """The plan of a scheduled program, for launches where the guard holds. Raises TilegenError for what cannot be."""
    if s.program.tile.ragged:
        unit_axes(s)  # refuses sequences that no items can be made of
    check_rows(s)
    check_products(s)
    geometries = {t: tile_geometry(s.program.tile.move(t), s) for t in tiles_in_shared(s)}
    for t in s.tiles:
        if t.hint and t.tile not in geometries:
            fail(Code.HINT_OF_VECTOR, t.span, tile=t.tile)
        if t.fill != "zero" and t.tile not in geometries:
            fail(Code.OOB_OF_VECTOR, t.span, tile=t.tile)
        if t.mover != "tma" and t.tile not in geometries:
            fail(Code.VIA_OF_VECTOR, t.span, tile=t.tile)
        if t.multicast and t.tile not in geometries:
            fail(Code.MULTICAST_OF_VECTOR, t.span, tile=t.tile)
    rings, buffers, top = _rings(s, geometries)
    context = Context(s, geometries, rings, storage(s))
    values = Values(context)
    turns = s.workers.count if s.turns else 0
    stores = Stores(context, ORDER_ID + turns)
    consumer_body, consumer_cursors, fragments = Consumer(context, values, stores).build()
    buffers, top = _staging(s, stores, buffers, top)
    buffers, top = _factors(s, values, buffers, top)
    rings, top = _barriers(rings, context, top)
    threads = 128 * (1 + s.workers.count)
    entry = registers_at_entry(s.workers.count)
    descriptors = tuple(
        descriptor(t, g, s, store=False, span=g.move.span) for t, g in geometries.items() if not copied(t, s)
    )
    roles: tuple[RolePlan, ...] = (
        *producer(context),
        *copier(context),
        *scanner(context),
        RolePlan(
            "consumer",
            "consumer",
            1,
            s.workers.count,
            s.workers.consumer_registers,
            False,
            consumer_cursors,
            fragments,
            consumer_body,
        ),
    )
    check_in_step(s, roles)
    program = s.program.tile
    table = _item_table(s, roles)
    if table is not None:
        roles = tuple(_with_fields(r, table.fields) for r in roles)
    all_descriptors = (*descriptors, *stores.descriptors)
    return Plan(
        name=program.name,
        target="hopper",
        source_name=program.source.name,
        params=params_of(program, all_descriptors, roles, table=s.order.persistent == "table"),
        tensors=tensors_of(program),
        descriptors=all_descriptors,
        buffers=buffers,
        rings=tuple(rings.values()),
        roles=roles,
        threads=threads,
        shared_bytes=top,
        registers_at_entry=entry,
        grid=grid(s),
        table=table,
        notes=(*tile_notes(geometries, s), *fill_notes(s), *domain_notes(s)),
        dependent=s.dependent,
        guard=guard,
        cluster=s.cluster_size,
    )


def check_products(s: Scheduled) -> None:
    """Raises TilegenError for factors, and ends of what is contracted, that products in fragments cannot have."""
    check_factors(s)
    _check_ends(s)


def check_factors(s: Scheduled) -> None:
    """A product contracts one axis, and its second factor is a tile: of two factors the one without rows."""
    tiles = {m.name for m in s.program.tile.moves}
    for o in s.program.ops:
        if isinstance(o, Product):
            if len(o.over) != 1:
                fail(Code.CONTRACTED_AXES, o.span, product=o.statement, axes=", ".join(o.over))
            computed = [n for n in (o.a, o.b) if n not in tiles]
            if len(computed) == 2 or any(not _rows_in(s.op(n).axes, s) for n in computed):
                fail(Code.SECOND_FACTOR_IN_REGISTERS, o.span, product=o.statement)


def _check_ends(s: Scheduled) -> None:
    for o in s.program.ops:
        if isinstance(o, Product):
            _check_end(o, s)


def _check_end(o: Product, s: Scheduled) -> None:
    """Where a product of two tiles ends inside of a block, both must be zero: nothing else could tell them apart."""
    (axis,), program = o.over, s.program.tile
    if {o.a, o.b} - {m.name for m in program.moves}:
        return
    length = program.axis(axis).extent.constant
    if length is not None and length % s.role(axis).block == 0:
        return
    for move in (program.move(o.a), program.move(o.b)):
        if not ends_with_tensor(move, s.program, axis):
            fail(Code.PRODUCT_PAST_END, o.span, product=o.statement, axis=axis, tile=move.name, tensor=move.tensor)


def _rows_in(axes: tuple[str, ...], s: Scheduled) -> bool:
    return any(row_part(a, s) for a in axes)


def tiles_in_shared(s: Scheduled) -> tuple[str, ...]:
    """Tiles that a product reads, or that are read element by element with rows to share out; others are vectors."""
    found = []
    for t in s.tiles:
        axes = s.program.tile.move(t.tile).axes
        for o in s.program.ops:
            if t.tile in source_names(o) and (
                isinstance(o, Product) or (isinstance(o, Elementwise) and _rows_in(axes, s))
            ):
                found.append(t.tile)
    return tuple(dict.fromkeys(found))


# ---- shared memory ---------------------------------------------------------------------------------


def _rings(s: Scheduled, tiles: dict[str, TileGeometry]) -> tuple[dict[str, Ring], tuple[Buffer, ...], int]:
    stream = next((r.axis for r in s.roles if r.role == "stream"), None)

    def streamed(tile: str) -> bool:
        return stream is not None and stream in tiles[tile].move.axes

    rings: dict[str, Ring] = {}
    buffers: list[Buffer] = []
    top = 0
    for name, g in tiles.items():
        how = s.tile(name)
        parts = s.workers.count if how.apart and g.row_dims and row_part(g.row_dims[0].axis, s) else 1
        buffers.append(ring_buffer(name, g, how.depth, parts, top))
        top += buffers[-1].stage_bytes * how.depth * parts
        readers = [o for o in s.program.ops if name in source_names(o)]
        # One thread can free a slot only where a product has brought the warps together since they saw it full:
        # not after generic reads, and not for a tile that an item without steps never reads.
        by_warp = any(not isinstance(o, Product) for o in readers) or not streamed(name)
        arrivals = (1 if parts > 1 else s.workers.count) * (4 if by_warp else 1) * g.shares
        release = "warp" if by_warp else "warpgroup"
        full = full_arrivals(name, tiles, s)
        rings[name] = Ring(
            name, name, how.depth, parts, 0, 0, full, arrivals, release, g.bytes, g.move.span, sharers=g.sharers
        )
    return rings, tuple(buffers), top


def ring_buffer(name: str, g: TileGeometry, depth: int, parts: int, offset: int) -> Buffer:
    """The slots of a tile's ring."""
    stage = up(g.bytes, ALIGNMENT)
    dtype, span = g.tensor.dtype, g.move.span
    return Buffer(name, dtype, g.lines, g.cols, g.chunk, g.line, g.swizzle, offset, stage, depth, parts, None, span)


def _staging(s: Scheduled, stores: Stores, buffers: tuple[Buffer, ...], top: int) -> tuple[tuple[Buffer, ...], int]:
    out = list(buffers)
    for output, staging in stores.staged.items():
        g, host, stage = staging.geometry, s.store(output).host, up(staging.geometry.bytes, ALIGNMENT)
        if host is not None:
            room = next(b for b in buffers if b.name == host)
            offset, stage = room.offset, room.stage_bytes
        else:
            offset, top = top, top + stage * staging.stages * s.workers.count
        out.append(
            Buffer(
                staging_name(output),
                g.tensor.dtype,
                g.lines,
                g.cols,
                g.chunk,
                g.line,
                g.swizzle,
                offset,
                stage,
                staging.stages,
                s.workers.count,
                host,
                s.store(output).span,
            )
        )
    return tuple(out), top


def _factors(s: Scheduled, values: Values, buffers: tuple[Buffer, ...], top: int) -> tuple[tuple[Buffer, ...], int]:
    """The buffers with those of computed factors, a part for each consumer."""
    out = list(buffers)
    for name, g in values.placed.items():
        stage = up(g.bytes, ALIGNMENT)
        out.append(
            Buffer(
                name,
                g.dtype,
                WARPGROUP_ROWS,
                g.cols,
                g.chunk,
                g.line,
                g.line,
                top,
                stage,
                1,
                s.workers.count,
                None,
                g.span,
            )
        )
        top += stage * s.workers.count
    return tuple(out), top


def _barriers(rings: dict[str, Ring], c: Context, top: int) -> tuple[dict[str, Ring], int]:
    """The rings with their barriers from `top` on, then the flags of scans."""
    out = {}
    for name, r in rings.items():
        size = BARRIER_BYTES * r.depth * r.parts
        out[name] = replace(r, full=top, empty=top + size)
        top += 2 * size
        if c.scanned(name):
            warps = warps_beside(rings, c.scheduled)[0][1]
            arrivals = r.empty_arrivals + warps * r.shares
            out[name] = replace(out[name], scan=Scan(top, warps, 0), empty_arrivals=arrivals)
            top += size
    for name, r in out.items():
        if r.scan is not None:
            out[name] = replace(r, scan=replace(r.scan, flag=top))
            top += FLAG_BYTES
    return out, top


# ---- parameters ------------------------------------------------------------------------------------


def tensors_of(program: TileProgram) -> tuple[TensorShape, ...]:
    """What the kernel's tensors look like."""
    return tuple(TensorShape(t.name, t.dtype, tuple(from_poly(d) for d in t.dims), t.output) for t in program.tensors)


def params_of(
    program: TileProgram, descriptors: tuple[Descriptor, ...], roles: tuple[RolePlan, ...], *, table: bool
) -> tuple[Param, ...]:
    """Only what the roles use and what the tensors' extents are made of, in declaration order."""
    used = {name for t in program.tensors for d in t.dims for name in d.symbols}
    pointers: set[str] = set()
    for node in nodes(roles):
        if isinstance(node, Sym | Value):
            used.add(node.name)
        elif isinstance(node, IntValue):
            used |= symbols(node.value)
        elif isinstance(node, CopyTile | LoadVector | Mend | StoreRows | StoreVector):
            pointers.add(node.tensor)
        elif isinstance(node, LetFloat) and node.load is not None:
            pointers.add(node.load[0])
    params: list[Param] = [MapParam(d.name) for d in descriptors]
    params += [SizeParam(z.name) for z in program.sizes if z.name in used]
    for scalar in program.scalars:
        if scalar.name in used:
            params.append(ScalarParam(scalar.name) if scalar.dtype.is_float else SizeParam(scalar.name))
    for t in program.tensors:
        if t.name in pointers:
            params.append(PointerParam(t.name))
            params += [StrideParam(t.name, d) for d in range(len(t.dims))]
    if table:
        params.append(TableParam())
    return tuple(params)


# What an item costs beside its loops (its first loads, its last product, its stores), in hundredths of a step:
# about what a hand-written kernel was balanced with.
ITEM_OVERHEAD = 70


def _item_table(s: Scheduled, roles: tuple[RolePlan, ...]) -> ItemTable | None:
    """What is worked out for each item ahead of the kernel: what the roles use of its positions and block ranges, and
    its cost."""
    if s.order.persistent != "table":
        return None
    ragged = bool(s.program.tile.ragged)
    lets = [*unit_lets(s), *split_lets(s)] if ragged else [o for o in decode(s, ITEM) if isinstance(o, Let)]
    cost: Uniform = Int(ITEM_OVERHEAD)
    for phase in s.phases:
        if isinstance(phase, Stream):
            plan = layout(phase, s)
            cuts = plan.cuts(SCANNED) if any(r.kind == "scanner" for r in roles) else ()
            lets += [o for o in (*plan.lets, *cuts) if isinstance(o, Let)]
            cost = op("add", cost, op("mul", plan.count, 100))
    lets = list(dict.fromkeys(lets))
    used = symbols_in(roles)
    if ragged:
        bytes_of = streamed_bytes(s, s.order.group[0]) if s.order.group else Int(1)
        return sequence_table(s, ITEM, tuple(lets), cost, used, bytes_of)
    return ItemTable(ITEM, total_items(s), tuple(lets), cost, tuple(o.name for o in lets if o.name in used))


def _with_fields(role: RolePlan, all_fields: tuple[str, ...]) -> RolePlan:
    used = symbols_in(role.body)
    fields = tuple(f for f in all_fields if f in used)
    return replace(role, body=tuple(replace(o, fields=fields) if isinstance(o, Work) else o for o in role.body))


def domain_notes(s: Scheduled) -> tuple[str, ...]:
    """What is to be known of clauses that bound no loop, in words."""
    streams = [p for p in s.phases if isinstance(p, Stream)]
    several = dict.fromkeys(c for p in streams for c in only_masking(p, s))
    real = dict.fromkeys((c, name) for p in streams for c in s.program.tile.domain for name in _real_bounds(c, p.axis))
    return (
        *(
            f"{ABOUT_DOMAIN} at line {c.span.line}: more than {MOST_RANGES} ranges of blocks together with the others; "
            "it only masks"
            for c in several
        ),
        *(
            f"{ABOUT_DOMAIN} at line {c.span.line}: {name} is f32, so that it only masks; with {name} declared i32, "
            "blocks outside are passed by"
            for c, name in real
        ),
    )


def _real_bounds(clause: Clause, stream: str) -> tuple[str, ...]:
    """Scalars that are no whole numbers, which a clause compares with positions along a streamed axis."""
    found = [
        e.name
        for alternative in clause.alternatives
        for part in alternative
        if not isinstance(part, Affine) and stream in positions(part)
        for e in subexpressions(part)
        if isinstance(e, Symbol) and e.dtype.is_float
    ]
    return tuple(dict.fromkeys(found))


def tile_notes(tiles: dict[str, TileGeometry], s: Scheduled) -> tuple[str, ...]:
    """How tiles are stored and moved where it does not follow from their shapes, in words."""
    notes = []
    for name, g in tiles.items():
        stored = g.chunks * g.chunk
        if stored > g.cols:
            what = "zeros" if g.ends else "columns that nothing reads"
            notes.append(f"tile {name}: {g.cols} columns are stored in {stored}, the others are {what}")
        if g.lines > g.rows:
            notes.append(f"tile {name}: {g.rows} rows are stored in {g.lines}, the others are zeros")
        if copied(name, s):
            width = copy_width(g, s)
            how = "asynchronously" if width in ASYNCHRONOUS else "by loads and stores"
            notes.append(f"tile {name}: copied by threads, {width} bytes at once, {how}")
            continue
        lines, chunks, cols = g.share_lines, g.share_chunks, min(g.share_chunks * g.chunk, g.cols)
        if g.sharers:
            notes.append(f"tile {name}: {g.shares} CTAs load it together, {lines} rows of {cols} columns each")
        if g.box_lines < lines:
            boxes = lines // g.box_lines
            notes.append(f"tile {name}: {lines} rows are split into {boxes} boxes of {g.box_lines}")
        if g.chunk_dimension:
            notes.append(f"tile {name}: {cols} columns are brought by one box of {chunks} chunks of {g.chunk}")
        elif chunks > 1:
            notes.append(f"tile {name}: {cols} columns are split into {chunks} boxes of {g.chunk}")
    return tuple(notes)
