"""Tiles in LDS: rings, their offsets, and how a tile is brought to one."""

from __future__ import annotations

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import Product
from tilegen.ir.mls_plan import Aim, Fetch, ReadFrom, Ring
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.tile import Affine
from tilegen.ir.uniform import Int, Uniform, from_poly, op
from tilegen.passes.synchronise.context import Context
from tilegen.passes.synchronise.geometry import TileGeometry, corner

LDS_BYTES = 64 << 10
WIDEST = 512  # positions that a load can be moved along a row
LOADED = (2, 4)  # bytes of an element that loads bring


def rings(s: Scheduled, tiles: dict[str, TileGeometry]) -> tuple[tuple[Ring, ...], int]:
    """A ring for each tile, and the bytes of all. Raises TilegenError where they do not fit."""
    found: list[Ring] = []
    top = 0
    for name, g in tiles.items():
        if len(g.row_dims) > 1 or any(r.parts for r in g.row_dims):
            fail(Code.MLS_UNSUPPORTED, g.move.span, what=f"tile {name}, whose rows are not equally far apart in memory")
        if any(c < 0 for e in g.move.at if isinstance(e, Affine) for _, c in e.offset.terms):
            fail(Code.MLS_UNSUPPORTED, g.move.span, what=f"tile {name}, which can begin before its tensor")
        if g.tensor.dtype.bytes not in LOADED:
            fail(Code.MLS_UNSUPPORTED, g.move.span, what=f"tile {name}, of {g.tensor.dtype}, which no load brings")
        if g.cols > WIDEST:
            fail(Code.MLS_UNSUPPORTED, g.move.span, what=f"tile {name}, whose rows have more than {WIDEST} positions")
        depth = s.tile(name).depth
        ring = Ring(
            name,
            g.tensor.name,
            g.tensor.dtype,
            g.lines,
            g.cols,
            depth,
            top,
            g.row_dim,
            g.col_dim,
            _contiguous(name, g, s),
            s.tile(name).scan,
            g.move.span,
        )
        found.append(ring)
        top += ring.bytes * depth
    if top > LDS_BYTES:
        sizes = ", ".join(f"{r.tile} {r.depth} x {r.bytes}" for r in found)
        fail(Code.MLS_LDS, s.span, got=f"{top} bytes ({sizes})", wanted=f"at most {LDS_BYTES}")
    return tuple(found), top


def _contiguous(tile: str, g: TileGeometry, s: Scheduled) -> bool:
    """Whether products that read a tile contract along its columns; also if none reads it."""
    products = [o for o in s.program.ops if isinstance(o, Product) and tile in (o.a, o.b)]
    return not products or any(g.col_axis in o.over for o in products)


def aim(tile: str, c: Context) -> Aim:
    """What is the same for all blocks of a tile that a work item brings."""
    s, g = c.scheduled, c.tiles[tile]
    row_limit = Int(1) if g.row_dim is None else _limit(g, g.row_dim, s)
    moving = _moving_dim(g, c)
    index = tuple(Int(0) if d == moving else x for d, x in enumerate(corner(g.move, s)))
    return Aim(tile, index, row_limit, _limit(g, g.col_dim, s), g.move.span, tile)


def fetch(tile: str, stage: Uniform, c: Context) -> Fetch:
    """What brings a tile at the positions at hand."""
    g = c.tiles[tile]
    dim = _moving_dim(g, c)
    moving = None if dim is None else (dim, corner(g.move, c.scheduled)[dim])
    return Fetch(tile, stage, moving, g.move.span, tile)


def read_from(tile: str, stage: Uniform, c: Context) -> ReadFrom:
    """Where a tile is read at the positions at hand."""
    g = c.tiles[tile]
    return ReadFrom(tile, stage, corner(g.move, c.scheduled), g.move.span, tile)


def _moving_dim(g: TileGeometry, c: Context) -> int | None:
    """The dimension of a tile's tensor that runs along the streamed axis."""
    found = [d for d, e in enumerate(g.move.at) if isinstance(e, Affine) and any(a == c.stream for a, _ in e.terms)]
    if len(found) > 1:
        fail(Code.MLS_UNSUPPORTED, g.move.span, what=f"tile {g.move.name}, which is streamed along two dimensions")
    return found[0] if found else None


def _limit(g: TileGeometry, dim: int, s: Scheduled) -> Uniform:
    """Where positions along a dimension of the tensor end: with it, or before it with the axis."""
    entry = g.move.at[dim]
    assert isinstance(entry, Affine)
    end = from_poly(g.tensor.dims[dim])
    (axis, _), *_ = entry.terms
    offset: Uniform = from_poly(entry.offset)
    own = op("add", from_poly(s.program.tile.axis(axis).extent), offset)
    return end if own == end else op("min", own, end)
