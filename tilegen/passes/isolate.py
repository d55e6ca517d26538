"""Which tiles must be looked through before products read them, so that no row gets what it must not see.

A position that a domain leaves out of a contraction meets a weight of 0, which is exact for finite entries only:
0 * NaN and 0 * inf are NaN, for every row of the tile. Where the other factor is computed and some position of a
block can be dead while its entries are still real memory, the tile's entries that are no finite numbers leave it
first and come back, by selects, in the rows that see them. Positions past the tensor's end need none of that: TMA
fills them with zeros.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import FoldedProgram, Product
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.tile import Affine, Move
from tilegen.passes.guard import clauses_of
from tilegen.passes.schedule import source_names


def isolate(s: Scheduled) -> Scheduled:
    """`s` with a scan of every tile that needs one."""
    stream = next((r.axis for r in s.roles if r.role == "stream"), None)
    program = s.program
    tiles = tuple(replace(t, scan=_needs_scan(program.tile.move(t.tile), program, stream)) for t in s.tiles)
    return replace(s, tiles=tiles)


def _needs_scan(move: Move, program: FoldedProgram, stream: str | None) -> bool:
    """Whether a tile's entries at dead positions of what a product contracts can reach rows that do not see them."""
    if stream is not None and any(
        _has_dead_positions(move, op, program, stream) for op in _contractions(move.name, program, stream)
    ):
        return True
    return bool(_cut_elsewhere(move.name, program, stream))


def check_scans(s: Scheduled) -> None:
    """Raises TilegenError for a tile that is looked through and also read in another way, where its entries must stay
    what they are, and for one that would have to be and is not contracted along the streamed axis."""
    stream = next((r.axis for r in s.roles if r.role == "stream"), None)
    for t in s.tiles:
        if t.scan:
            for op in _cut_elsewhere(t.tile, s.program, stream):
                fail(Code.SCAN_HELD, op.span, tile=t.tile, product=op.statement, axis=", ".join(op.over))
            assert stream is not None
            products = _contractions(t.tile, s.program, stream)
            others = [op for op in s.program.ops if t.tile in source_names(op) and op not in products]
            if others:
                fail(Code.SCAN_SHARED, products[0].span, tile=t.tile, product=products[0].statement)


def _contractions(tile: str, program: FoldedProgram, stream: str) -> list[Product]:
    """The products that contract a tile along the streamed axis."""
    readers = (op for op in program.ops if tile in source_names(op))
    return [op for op in readers if isinstance(op, Product) and op.over == (stream,)]


def _cut_elsewhere(tile: str, program: FoldedProgram, stream: str | None) -> list[Product]:
    """The products that contract a tile along another axis than the streamed one, through which the domain cuts."""
    readers = (op for op in program.ops if tile in source_names(op))
    return [op for op in readers if isinstance(op, Product) and op.over != (stream,) and _is_cut(op, program)]


def _is_cut(op: Product, program: FoldedProgram) -> bool:
    """Whether clauses leave out positions of what it contracts, so that a computed factor is 0 there."""
    computed = [name for name in (op.a, op.b) if program.has(name)]
    return any(clauses_of(program.tile, program.op(name).axes, op.over) for name in computed)


def _has_dead_positions(move: Move, op: Product, program: FoldedProgram, stream: str) -> bool:
    if not any(map(program.has, (op.a, op.b))):
        return False  # both factors are tiles: no clause cuts them
    return _is_cut(op, program) or not ends_with_tensor(move, program, stream)


def ends_with_tensor(move: Move, program: FoldedProgram, stream: str) -> bool:
    """Whether the axis ends where its dimension of the tensor does, and zeros follow."""
    tensor, extent = program.tile.tensor(move.tensor), program.tile.axis(stream).extent
    return any(
        isinstance(entry, Affine) and entry.axis == stream and dim == extent
        for entry, dim in zip(move.at, tensor.dims, strict=True)
    )
