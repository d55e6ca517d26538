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
from tilegen.passes.synchronise.rows import WARPGROUP_ROWS, row_axes, row_part
from tilegen.passes.synchronise.values import Values
from tilegen.passes.synchronise.work import exists

VECTOR_BYTES = 16


@dataclass(frozen=True)
class Staging:
    """The places in shared memory that an output leaves through: what one of them holds, and how many there are."""

    geometry: TileGeometry
    stages: int


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
            fail(Code.STORE_COLUMNS_NOT_INNER, o.span, output=o.tensor, axis=shape.cols or "none")
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
        s = self.c.scheduled
        span, name = o.span, o.statement
        tensor = s.program.tile.tensor(o.tensor)
        if any(e.offset.terms for e in o.at):
            fail(Code.RAGGED_STORE, s.store(o.tensor).span, output=o.tensor)
        inner = tensor.dims[-1].constant
        if inner is not None and inner * tensor.dtype.bytes % STORE_CHUNK:
            got, wanted = f"rows of {inner * tensor.dtype.bytes} bytes", f"a multiple of {STORE_CHUNK} bytes"
            fail(Code.STORE_CHUNKS, s.store(o.tensor).span, got=got, wanted=wanted, output=o.tensor)
        move = Move(o.tensor, o.axes, o.tensor, o.at, o.axes, tensor.dtype, span)
        whole = replace(tile_geometry_of(move, self.c), rows=WARPGROUP_ROWS, lines=WARPGROUP_ROWS)
        how = s.store(o.tensor)
        g = replace(whole, cols=min(whole.cols, whole.chunk), chunk_dimension=False) if how.stages else whole
        host = how.host
        if host is not None:
            if host not in self.c.tiles:  # it is read element by element, and has no bytes
                fail(Code.ALIAS_NAMES, how.span, buffer=o.tensor, host=host)
            room = self.c.tiles[host]
            ring = self.c.rings[host]
            once = ring.depth == 1 and ring.parts >= s.workers.count and not self.c.streamed(host)
            if not once or room.bytes < g.bytes:
                fail(Code.ALIAS_ROOM, how.span, buffer=o.tensor, host=host)
        firsts = range(0, whole.cols, g.cols)  # columns, of each piece
        stages = min(how.stages or 1, len(firsts))
        if o.tensor not in self.staged:
            self.staged[o.tensor] = Staging(g, stages)
            self.descriptors.append(descriptor(o.tensor, g, s, store=True, span=span))
        buffer, source = staging_name(o.tensor), values.fragment_of(o.source)
        for piece, first in enumerate(firsts):
            stage = piece % stages
            at = (*corner[: g.col_dim], op("add", corner[g.col_dim], first), *corner[g.col_dim + 1 :])
            if host is None:
                out.append(StoreWait(_since(piece, len(firsts), stages), True, span, name))
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
        if host is not None:
            out.append(StoreWait(0, True, span, name))


def _since(piece: int, pieces: int, stages: int) -> int:
    """How many pieces left after the one that used this piece's stage before, of this item or of the last one."""
    before = piece - stages if piece >= stages else max(range(piece, pieces, stages)) - pieces
    return piece - before - 1


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
