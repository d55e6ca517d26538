"""How outputs leave: rows from registers, or a TMA store through shared memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import Output
from tilegen.ir.plan import (
    STORE_CHUNK,
    Descriptor,
    Digit,
    FenceAsync,
    GroupSync,
    If,
    Operation,
    RowStep,
    StoreCommit,
    StoreRows,
    StoreVector,
    StoreWait,
    TmaStore,
    WriteShared,
)
from tilegen.ir.scheduled import TileBuffer
from tilegen.ir.terms import TERMS
from tilegen.ir.tile import Move
from tilegen.ir.uniform import Int, Sym, Uniform, from_poly, op
from tilegen.passes.fills import cutting, selects
from tilegen.passes.synchronise.context import Context
from tilegen.passes.synchronise.geometry import (
    TileGeometry,
    affine_position,
    boxes,
    descriptor,
    extent,
    row_limit,
    tile_geometry,
)
from tilegen.passes.synchronise.rows import WARPGROUP_ROWS, row_axes, row_part, swapped
from tilegen.passes.synchronise.values import Values
from tilegen.passes.synchronise.work import exists

VECTOR_BYTES = 16


@dataclass(frozen=True)
class Staging:
    """The places in shared memory that an output leaves through: what one of them holds, how many there are, and the
    first column of each piece."""

    geometry: TileGeometry
    stages: int
    pieces: range

    def since(self, piece: int) -> int:
        """How many pieces left after the one that used this piece's stage before, of this item or of the last one."""
        count, stages = len(self.pieces), self.stages
        before = piece - stages if piece >= stages else max(range(piece, count, stages)) - count
        return piece - before - 1


@dataclass
class Stores:
    """Stores of the consumer role; collects the staging tiles and descriptors that TMA stores need."""

    c: Context
    group_id: int
    staged: dict[str, Staging] = field(default_factory=dict)  # by output
    descriptors: list[Descriptor] = field(default_factory=list)

    def keeps(self, tile: str) -> bool:
        """Whether a tile's bytes serve a store after its last reader."""
        return any(s.host == tile and s.via == "tma" for s in self.c.scheduled.stores)

    def finish(self) -> list[Operation]:
        """Before a warpgroup ends its stores have left shared memory."""
        if not self.staged:
            return []
        return [StoreWait(0, False, self.c.scheduled.span)]

    def emit(self, o: Output, values: Values, out: list[Operation]) -> None:
        s = self.c.scheduled
        tensor = s.program.tile.tensor(o.tensor)
        shape = values.shape(s.op(o.source))
        place = {part.axis: dim for dim, e in enumerate(o.at) for a, _ in e.terms if (part := row_part(a, s))}
        if set(place) != set(s.workers.axes) or not shape.rows:
            fail(Code.STORE_WITHOUT_ROWS, o.span, output=o.tensor, axis=s.workers.names, **TERMS[s.target].fields())
        if not tensor.dtype.is_float:  # fragments are f32, which would round whole numbers
            fail(Code.STORE_TYPE, o.span, output=o.tensor, dtype=str(tensor.dtype))
        corner = tuple(affine_position(e, s) for e in o.at)
        where, limits = list(corner), {}
        for r in row_axes(s):
            dim = place[r.axis]
            (along,) = (a for a, _ in o.at[dim].terms if row_part(a, s))
            where[dim] = op("add", corner[dim], op("mul", "warpgroup", r.step))
            end = op("add", extent(s.program.tile.axis(along)), from_poly(o.at[dim].offset))
            limits[dim] = row_limit(along, s, end)
        row_dim = place[s.workers.axes[0]]
        limit = limits[row_dim]
        rows = row_axes(s)
        steps = tuple(RowStep(place[r.axis], r.digit or Digit(1, 0), limits[place[r.axis]]) for r in rows)
        shared = steps if len(rows) > 1 else ()
        span, name = o.span, o.statement
        if tensor.otherwise is not None and selects(o, s):
            clauses = cutting(o, s.program.tile)
            out += values.mask(values.fragment_of(o.source), clauses, (), shape, tensor.otherwise, span, name)
        if shape.layout == "row":
            if s.store(o.tensor).via == "tma":
                fail(Code.VECTOR_STORE, s.store(o.tensor).span, output=o.tensor)
            out += self._own(
                StoreVector(values.fragment_of(o.source), o.tensor, tuple(where), row_dim, limit, span, name, shared)
            )
            return
        col_dim = dimension(o, shape.cols) if shape.cols in o.axes else -1
        if col_dim != len(o.at) - 1:
            fail(Code.STORE_COLUMNS_NOT_INNER, o.span, output=o.tensor, axis=shape.cols or "none", swap=swapped(s))
        if s.store(o.tensor).via == "tma":
            self._through_shared(o, values, corner, out)
            return
        vector = VECTOR_BYTES // tensor.dtype.bytes
        constant = tensor.dims[col_dim].constant
        whole = constant is not None and constant % vector == 0
        out += self._own(
            StoreRows(
                values.fragment_of(o.source),
                o.tensor,
                tuple(where),
                row_dim,
                col_dim,
                limit,
                from_poly(tensor.dims[col_dim]),
                vector,
                whole,
                span,
                name,
                shared,
            )
        )

    def _own(self, *stores: StoreRows | StoreVector | TmaStore) -> list[Operation]:
        """The stores, of a CTA that has a block of its own."""
        own = exists(self.c.scheduled)
        return list(stores) if own == Int(1) else [If(own, stores, stores[0].span, stores[0].statement)]

    def _through_shared(self, o: Output, values: Values, corner: tuple[Uniform, ...], out: list[Operation]) -> None:
        s, how = self.c.scheduled, self.c.scheduled.store(o.tensor)
        span, name = o.span, o.statement
        staging = self._staging(o)
        g, buffer, source = staging.geometry, staging_name(o.tensor), values.fragment_of(o.source)
        for piece, first in enumerate(staging.pieces):
            stage = piece % staging.stages
            at = (*corner[: g.col_dim], op("add", corner[g.col_dim], first), *corner[g.col_dim + 1 :])
            if how.host is None:
                out.append(StoreWait(staging.since(piece), True, span, name))
            out.append(GroupSync(self.group_id, span, name))
            out.append(WriteShared(buffer, source, span, name, stage, first))
            out.append(FenceAsync(span, name))
            out.append(GroupSync(self.group_id, span, name))
            out += self._own(
                *(
                    TmaStore(o.tensor, b.coordinates, buffer, b.offset, b.bytes, span, name, how.hint, stage)
                    for b in boxes(g, at, s, Sym("warpgroup"))
                )
            )
            out.append(StoreCommit(span, name))
        if how.host is not None:
            out.append(StoreWait(0, True, span, name))

    def _staging(self, o: Output) -> Staging:
        """The places of an output's pieces, or of all of it. Raises TilegenError for what TMA cannot store, or not
        there."""
        if o.tensor in self.staged:
            return self.staged[o.tensor]
        s, how = self.c.scheduled, self.c.scheduled.store(o.tensor)
        tensor = s.program.tile.tensor(o.tensor)
        if any(e.offset.terms for e in o.at):
            fail(Code.RAGGED_STORE, how.span, output=o.tensor)
        inner = tensor.dims[-1].constant
        if inner is not None and inner * tensor.dtype.bytes % STORE_CHUNK:
            got, wanted = f"rows of {inner * tensor.dtype.bytes} bytes", f"a multiple of {STORE_CHUNK} bytes"
            fail(Code.STORE_CHUNKS, how.span, got=got, wanted=wanted, output=o.tensor)
        move = Move(o.tensor, o.axes, o.tensor, o.at, o.axes, tensor.dtype, o.span)
        whole = replace(tile_geometry_of(move, self.c), rows=WARPGROUP_ROWS, lines=WARPGROUP_ROWS)
        g = replace(whole, cols=min(whole.cols, whole.chunk), chunk_dimension=False) if how.stages else whole
        if how.host is not None:
            self._check_room(o, how.host, g)
        pieces = range(0, whole.cols, g.cols)
        made = self.staged[o.tensor] = Staging(g, min(how.stages or 1, len(pieces)), pieces)
        self.descriptors.append(descriptor(o.tensor, g, s, store=True, span=o.span))
        return made

    def _check_room(self, o: Output, host: str, g: TileGeometry) -> None:
        """The bytes of a tile serve an output of this geometry. Raises TilegenError."""
        span = self.c.scheduled.store(o.tensor).span
        if host not in self.c.tiles:  # it is read element by element, and has no bytes
            fail(Code.ALIAS_NAMES, span, buffer=o.tensor, host=host)
        room, ring = self.c.tiles[host], self.c.rings[host]
        once = ring.depth == 1 and ring.parts >= self.c.scheduled.workers.count and not self.c.streamed(host)
        if not once or room.bytes < g.bytes:
            fail(Code.ALIAS_ROOM, span, buffer=o.tensor, host=host)


def dimension(o: Output, axis: str | None) -> int:
    """The dimension of an output that runs along an axis."""
    return next(n for n, e in enumerate(o.at) if any(a == axis for a, _ in e.terms))


def staging_name(output: str) -> str:
    return f"{output}.staging"


def tile_geometry_of(move: Move, c: Context) -> TileGeometry:
    """Geometry of an output's tile, as if it were a move whose rows the consumers hold apart."""
    s = c.scheduled
    with_tile = replace(s, tiles=(*s.tiles, TileBuffer(move.name, 1, True, move.span)))
    return tile_geometry(move, with_tile)
