"""The copier's sequence: tiles that threads copy, in the order of the producer's, whose warpgroup it shares.

TMA is issued by one thread, copies by as many as there are: so that both can be had in one kernel, each has a role, and
tiles of one do not wait for the other's.
"""

from __future__ import annotations

from collections.abc import Collection
from math import gcd

from tilegen.ir.plan import ASYNCHRONOUS, Advance, CopyTile, Digit, Operation, RowStep, SignalCopies, Slot, WaitEmpty
from tilegen.ir.plan_rules.memory import PIECE
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.tile import Affine, Move
from tilegen.ir.uniform import Int, Uniform, from_poly, op
from tilegen.passes.synchronise.context import Context
from tilegen.passes.synchronise.geometry import TileGeometry, corner, offset_unit, row_limit, width_of


def copied(tile: str, s: Scheduled) -> bool:
    """Whether threads copy a tile into its slots."""
    return s.tile(tile).mover == "cp_async"


def warps_beside(tiles: Collection[str], s: Scheduled) -> tuple[tuple[int, int], tuple[int, int]]:
    """First and count of the warps of the scanner and of the copier, of the warpgroup that fills slots of these tiles.

    The copier has 2 or 4, so that each pass of its threads over a tile begins where the swizzle does.
    """
    copies = [copied(t, s) for t in tiles]
    if not any(copies):
        return (1, 3), (0, 0)
    if not all(copies):  # the first is the producer's
        return (1, 1), (2, 2)
    return ((2, 2), (0, 2)) if any(s.tile(t).scan for t in tiles) else ((0, 0), (0, 4))


def full_arrivals(tile: str, tiles: Collection[str], s: Scheduled) -> int:
    """Arrivals on a tile's full barriers: of every thread that copies it, or of the one that has TMA bring it."""
    return 32 * warps_beside(tiles, s)[1][1] if copied(tile, s) else 1


def fill_cursor(tile: str) -> str:
    """The cursor of whoever fills a tile's slots."""
    return f"{tile}_fill"


def copy(tile: str, c: Context) -> list[Operation]:
    """Wait for room, copy, signal, for each part; then move on."""
    span, out = c.tiles[tile].move.span, list[Operation]()
    for x in copies(tile, c):
        out += [WaitEmpty(x.slot, span, tile), x, SignalCopies(x.slot, x.width in ASYNCHRONOUS, span, tile)]
    return [*out, Advance(fill_cursor(tile), span, tile)]


def copies(tile: str, c: Context) -> list[CopyTile]:
    """What brings a tile at the positions at hand, for each part."""
    s, g = c.scheduled, c.tiles[tile]
    where = corner(g.move, s)
    rows, col_limit = _limits(g, where, s)
    out: list[CopyTile] = []
    for part in range(c.rings[tile].parts):
        at = list(where)
        for r in g.row_dims[:1]:
            at[r.dim] = op("add", at[r.dim], part * r.count)
        slot = Slot(tile, fill_cursor(tile), part)
        index, width = tuple(at), copy_width(g, s)
        out.append(CopyTile(g.tensor.name, index, slot, rows, g.col_dim, col_limit, width, g.move.span, tile))
    return out


def copy_width(g: TileGeometry, s: Scheduled) -> int:
    """Bytes of a copy: no more than what the tensor's rows, and the tile's columns, begin at multiples of; an element's
    where that is none that a thread can leave behind."""
    dtype = g.tensor.dtype
    return width_of(gcd(s.tile(g.move.name).width, PIECE), _column_unit(g.move, s) * dtype.bytes, dtype)


def _column_unit(move: Move, s: Scheduled) -> int:
    """What the tile's first column is always a multiple of; 0 where it is 0."""
    last = move.at[-1]
    assert isinstance(last, Affine)
    unit = offset_unit(last)
    for axis, coefficient in last.terms:
        role = next((r for r in s.roles if r.axis == axis), None)
        step = 1 if role is None else 0 if role.role == "hold" else role.block
        unit = gcd(unit, coefficient * step)
    return unit


def _limits(g: TileGeometry, where: tuple[Uniform, ...], s: Scheduled) -> tuple[tuple[RowStep, ...], Uniform]:
    """How the rows run, outermost first, each with its end, and the end of the columns: 0 where another dimension is
    left altogether."""
    dims = tuple(from_poly(d) for d in g.tensor.dims)
    inside = _inside(g, where, dims, s)
    below = 1
    steps: list[RowStep] = []
    for r in reversed(g.row_dims):
        limit = row_limit(r.axis, s, dims[r.dim]) if r.parts else dims[r.dim]
        outermost = r is g.row_dims[0]
        steps.append(RowStep(r.dim, Digit(below, 0 if outermost else r.count), _where(inside, limit)))
        below *= r.count
    return tuple(reversed(steps)), _where(inside, dims[g.col_dim])


def _where(condition: Uniform, value: Uniform) -> Uniform:
    return value if condition == Int(1) else op("select", condition, value, 0)


def _inside(g: TileGeometry, where: tuple[Uniform, ...], dims: tuple[Uniform, ...], s: Scheduled) -> Uniform:
    """Whether the dimensions of which the tile holds one position have that one."""
    program = s.program.tile
    held = {g.col_dim, *(r.dim for r in g.row_dims)}
    inside: Uniform = Int(1)
    for dim, entry in enumerate(g.move.at):
        assert isinstance(entry, Affine)
        if dim in held or (entry.axis and program.axis(entry.axis).extent == g.tensor.dims[dim]):
            continue
        both = op("and", op("ge", where[dim], 0), op("lt", where[dim], dims[dim]))
        inside = both if inside == Int(1) else op("and", inside, both)
    return inside
