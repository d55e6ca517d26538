"""Shapes that follow from the decisions: which way a value or tile runs, its bytes, its tensor map.

A tile has at most two directions longer than 1: its columns (the tensor's innermost dimension, contiguous) and
its rows. A value in registers has rows along the workers' axis and columns along one other axis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import DType
from tilegen.ir.folded import Product
from tilegen.ir.plan import ASYNCHRONOUS, Descriptor, Digit, MapDim, Sharers
from tilegen.ir.plan_rules.memory import PIECE
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.tile import Affine, Axis, Move, Tensor
from tilegen.ir.uniform import Int, Sym, Uniform, from_poly, op
from tilegen.passes.synchronise.rows import WARPGROUP_ROWS, row_axes, row_part
from tilegen.syntax.span import Span

MAX_BOX = 256  # elements in a box dimension (cuTensorMapEncodeTiled)
MAX_RANK = 5  # of what TMA takes
SWIZZLES = (128, 64, 32)  # bytes of a line, the widest first
ATOM_ROWS = 8  # rows of a swizzle atom
COLUMNS = 8  # of a fragment, held by a quad
K_STEP_BYTES = 32  # a wgmma k step: 16 elements of 16 bits
K_STEP = 16


def extent_in_tile(axis: str, scheduled: Scheduled) -> int:
    """Positions of an axis that one tile holds; 1 for a part of a split axis, unless it is among the rows."""
    for role in scheduled.roles:
        if role.axis == axis:
            return role.block
    part = row_part(axis, scheduled)
    return part.block if part else 1


def whole(axis: str, scheduled: Scheduled) -> bool:
    return scheduled.has_role(axis, "hold")


@dataclass(frozen=True)
class Shape:
    """Layout of a value in a warpgroup's registers: the axes of the rows that it varies along, and its column axis."""

    rows: tuple[str, ...]
    cols: str | None
    width: int  # positions along cols, 1 without

    @property
    def layout(self) -> str:
        if self.rows and self.cols:
            return "acc"
        return "row" if self.rows else "col" if self.cols else "uniform"


def value_shape(axes: tuple[str, ...], scheduled: Scheduled, span: Span, name: str) -> Shape:
    """The shape of a value over `axes`. Raises TilegenError if it would need more than two directions."""
    rows = tuple(dict.fromkeys(r.axis for a in axes if (r := row_part(a, scheduled))))
    wide = [a for a in axes if row_part(a, scheduled) is None and extent_in_tile(a, scheduled) > 1]
    if len(wide) > 1:
        wanted = f"rows along {' and '.join(r.axis for r in row_axes(scheduled))}, and columns along one other axis"
        what = f"a value of `{name}`"
        fail(Code.TOO_MANY_DIRECTIONS, span, what=what, axes=", ".join([*rows, *wide]), wanted=wanted)
    return Shape(rows, wide[0] if wide else None, extent_in_tile(wide[0], scheduled) if wide else 1)


@dataclass(frozen=True)
class RowDim:
    """A tensor dimension along the rows of a tile. `count`: its positions in one box. `parts`: the outer and the inner
    part of the split axis that indexes it, where the inner part alone runs along the rows."""

    dim: int  # 0 outermost
    axis: str
    count: int
    parts: tuple[str, str] | None


@dataclass(frozen=True)
class TileGeometry:
    """A tile in shared memory (one part of it, if the consumers hold parts of their own).

    It is stored in whole chunks of `lines` lines. What lies there past `rows` and `cols` is zero where the tensor ends
    with the tile (`ends`), since no box brings anything from outside a tensor.
    """

    move: Move
    tensor: Tensor
    row_dims: tuple[RowDim, ...]  # outermost first
    col_dim: int
    col_axis: str
    rows: int
    cols: int
    lines: int  # of a chunk
    chunk: int  # columns a chunk
    line: int  # bytes of a chunk's row
    swizzle: int
    ends: bool  # columns past `cols` are outside the tensor
    chunk_dimension: bool  # one box brings every chunk: the inner dimension is cut in two
    box_lines: int  # of one box: a tile of more lines than a box takes is brought by several
    sharers: Sharers | None = None  # CTAs that each bring a share of it, of whole chunks, or else of the lines of each

    @property
    def row_dim(self) -> int | None:
        return self.row_dims[0].dim if self.row_dims else None

    @property
    def row_axis(self) -> str | None:
        return self.row_dims[0].axis if self.row_dims else None

    @property
    def row_axes(self) -> str:
        return " and ".join(r.axis for r in self.row_dims)

    @property
    def bytes(self) -> int:
        return self.chunks * self.lines * self.line

    @property
    def chunks(self) -> int:
        return -(-self.cols // self.chunk)

    @property
    def shares(self) -> int:
        return self.sharers.count if self.sharers else 1

    @property
    def share_chunks(self) -> int:
        """Chunks of a share."""
        return self.chunks // self.shares if self.chunks % self.shares == 0 else self.chunks

    @property
    def share_lines(self) -> int:
        """Lines that a share has of a chunk."""
        return self.lines if self.chunks % self.shares == 0 else self.lines // self.shares

    @property
    def columns_apart(self) -> int:
        """Columns from the beginning of a share to that of the next."""
        return self.share_chunks * self.chunk if self.share_chunks < self.chunks else 0

    @property
    def lines_apart(self) -> int:
        return self.share_lines if self.share_lines < self.lines else 0

    @property
    def bytes_apart(self) -> int:
        """In a slot."""
        return self.columns_apart // self.chunk * self.lines * self.line + self.lines_apart * self.line

    def depth(self, contracted: str) -> int:
        """Positions that a product along `contracted` goes over: whole k steps, where what is added is zero."""
        if self.col_axis != contracted:
            return self.lines
        return up(self.cols, K_STEP) if self.ends else self.cols


def offset_unit(entry: Affine) -> int:
    """What an index's offset is always a multiple of; 0 where it is 0."""
    return gcd(*(coefficient for _, coefficient in entry.offset.terms))


def inside_a_piece(entry: Affine, dtype: DType) -> bool:
    """Whether columns with this index begin inside 16 bytes of a row, where no box begins."""
    return offset_unit(entry) * dtype.bytes % PIECE != 0


def width_of(most: int, unit: int, dtype: DType) -> int:
    """Bytes of a copy, `most` at the most, that begins at multiples of `unit` bytes: an element's where that is none
    that a thread can leave behind."""
    width = gcd(most, unit)
    return width if width in ASYNCHRONOUS else dtype.bytes


def up(value: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-value // unit) * unit


def tile_geometry(move: Move, scheduled: Scheduled) -> TileGeometry:
    """Geometry of a move's tile. Raises TilegenError for what a box cannot be."""
    program = scheduled.program.tile
    tensor = program.tensor(move.tensor)
    extents = []
    for entry in move.at:
        if not isinstance(entry, Affine):
            fail(Code.LOOKUP_UNSUPPORTED, entry.span, name=move.name)
        sizes = [extent_in_tile(axis, scheduled) for axis, _ in entry.terms]
        if any(s > 1 for s in sizes) and (len(sizes) > 1 or entry.terms[0][1] != 1):
            fail(Code.INDEX_NOT_AFFINE_UNIT, entry.span, tile=move.name)
        extents.append(max(sizes, default=1))
    col_dim = len(extents) - 1
    last = move.at[col_dim]
    assert isinstance(last, Affine)
    if not last.terms:
        fail(Code.INNER_NOT_TILED, last.span, tile=move.name, tensor=tensor.name)
    row_dims = _row_dims(move, extents[:-1], scheduled)
    rows = prod(r.count for r in row_dims)
    cols, size = extents[col_dim], tensor.dtype.bytes
    lines = rows
    if row_dims and _contracted(move.name, row_dims[0].axis, scheduled):
        lines = up(rows, K_STEP) if _ends(move, row_dims[0].dim, scheduled) else rows
    inner = last.terms[0][0]
    line = _line(move, cols * size, whole(inner, scheduled))
    if cols % COLUMNS:
        got = f"{cols} positions"
        fail(Code.INNER_EXTENT, move.span, tile=move.name, axis=inner, got=got, wanted=f"a multiple of {COLUMNS}")
    rank = len(tensor.dims) + sum(1 for r in row_dims if r.parts)
    if scheduled.tile(move.name).mover == "tma":
        if rank > MAX_RANK:
            fail(Code.RANK, tensor.span, tensor=tensor.name, got=str(rank), wanted=f"at most {MAX_RANK}")
        if inside_a_piece(last, tensor.dtype):
            got, wanted = f"an offset of {last.offset}, of elements of {size} bytes", f"a multiple of {PIECE} bytes"
            code = Code.MLS_COLUMN_OFFSET if scheduled.target == "mls" else Code.TMA_COLUMN_OFFSET
            fail(code, last.span, tile=move.name, tensor=tensor.name, got=got, wanted=wanted)
    chunk = line // size
    ends = _ends(move, col_dim, scheduled)
    shared = sharers(move.name, scheduled)
    g = TileGeometry(
        move, tensor, row_dims, col_dim, inner, rows, cols, lines, chunk, line, line, ends, False, lines, shared
    )
    _check_share(g, scheduled)
    box_lines = _box_lines(move, row_dims, g.share_lines)
    several = g.share_chunks > 1 and cols % chunk == 0
    return replace(g, box_lines=box_lines, chunk_dimension=ends and several and rank < MAX_RANK and box_lines == lines)


def sharers(tile: str, scheduled: Scheduled) -> Sharers | None:
    """The CTAs that load a tile once for all of them."""
    axis = scheduled.tile(tile).multicast
    return Sharers(scheduled.clustered(axis), scheduled.cluster_stride(axis)) if axis else None


def _check_share(g: TileGeometry, scheduled: Scheduled) -> None:
    """A share is a number of whole chunks, or of a single row dimension's lines, in whole swizzle patterns."""
    whole_lines = g.lines % (g.shares * ATOM_ROWS) == 0 and len(g.row_dims) == 1
    if g.chunks % g.shares and not whole_lines:
        fail(
            Code.MULTICAST_SHARE,
            scheduled.tile(g.move.name).span,
            tile=g.move.name,
            count=g.shares,
            got=f"{g.lines} rows in {g.chunks} columns of {g.line} bytes",
            wanted=f"a multiple of {g.shares * ATOM_ROWS} rows of one axis, or of {g.shares} columns",
        )


def _box_lines(move: Move, row_dims: tuple[RowDim, ...], lines: int) -> int:
    """Lines of each of the fewest equal boxes that bring a chunk; each begins where a swizzle pattern does."""
    if lines <= MAX_BOX:
        return lines
    for count in range(-(-lines // MAX_BOX), lines // ATOM_ROWS + 1):
        if lines % (count * ATOM_ROWS) == 0:
            return lines // count
    axis, wanted = row_dims[0].axis, f"a multiple of {ATOM_ROWS}"
    fail(Code.ATOM_ROWS, move.span, tile=move.name, axis=axis, got=str(lines), wanted=wanted)


def _row_dims(move: Move, extents: list[int], scheduled: Scheduled) -> tuple[RowDim, ...]:
    """The dimensions beside the innermost of which the tile holds several positions: one, or some of the rows'."""
    program = scheduled.program.tile
    found: list[tuple[int, RowDim]] = []  # with the place among the rows
    order = [r.axis for r in row_axes(scheduled)]
    for dim, count in enumerate(extents):
        if count == 1:
            continue
        entry = move.at[dim]
        assert isinstance(entry, Affine)
        axis = entry.terms[0][0]
        part, split = row_part(axis, scheduled), program.axis(axis).split
        if part is None:
            found.append((-1, RowDim(dim, axis, count, None)))
            continue
        cut = split is not None and part.axis != axis
        if cut and entry.offset.terms:
            fail(Code.INDEX_NOT_AFFINE_UNIT, entry.span, tile=move.name)
        if part.outermost and scheduled.tile(move.name).apart:
            count = part.positions
        parts = (split.outer, split.inner) if split is not None and cut else None
        found.append((order.index(part.axis), RowDim(dim, axis, count, parts)))
    if len(found) > 1 and any(place < 0 for place, _ in found):
        axes = ", ".join(a for a in move.axes if extent_in_tile(a, scheduled) > 1)
        wanted = f"columns, and beside them rows along {' and '.join(order)}, or along one other axis"
        what = f"the tile `{move.name}`"
        fail(Code.TOO_MANY_DIRECTIONS, move.span, what=what, axes=axes, wanted=wanted)
    return tuple(r for _, r in sorted(found, key=lambda f: f[0]))


def _ends(move: Move, dim: int, scheduled: Scheduled) -> bool:
    """Whether a tile holds a whole dimension of its tensor."""
    entry = move.at[dim]
    if not isinstance(entry, Affine) or len(entry.terms) != 1 or entry.offset.terms:
        return False
    axis, coefficient = entry.terms[0]
    length = scheduled.program.tile.tensor(move.tensor).dims[dim].constant
    return coefficient == 1 and whole(axis, scheduled) and length == extent_in_tile(axis, scheduled)


def _contracted(tile: str, axis: str, scheduled: Scheduled) -> bool:
    return any(isinstance(o, Product) and tile in (o.a, o.b) and axis in o.over for o in scheduled.program.ops)


def _line(move: Move, width: int, held: bool) -> int:
    """Bytes of a line for rows of `width` bytes: of a held axis the swizzle that stores least, and of equals the
    widest; of others one that cuts the row evenly, since what lies behind a block is no padding."""
    if held:
        return _padded_line(width)
    for swizzle in SWIZZLES:
        if width % swizzle == 0:
            return swizzle
    last = move.at[-1]
    assert isinstance(last, Affine)
    got, wanted = f"{width} bytes", f"a multiple of {SWIZZLES[-1]} bytes"
    fail(Code.INNER_EXTENT, move.span, tile=move.name, axis=last.terms[0][0], got=got, wanted=wanted)


def _padded_line(width: int) -> int:
    narrowest = 32 if width <= 32 else 64  # narrower lines cost the engines more than a little room saves
    return min((s for s in SWIZZLES if s >= narrowest), key=lambda s: up(width, s))


@dataclass(frozen=True)
class FactorGeometry:
    """A computed first factor in shared memory: a warpgroup's 64 rows, `cols` columns in whole k steps."""

    dtype: DType
    cols: int
    line: int  # bytes of a chunk's row, and the swizzle
    span: Span

    @property
    def chunk(self) -> int:
        return self.line // self.dtype.bytes

    @property
    def bytes(self) -> int:
        return up(self.cols, self.chunk) * self.dtype.bytes * WARPGROUP_ROWS

    @property
    def operand(self) -> Operand:
        offsets = _along_lines(self.cols // K_STEP, self.line, WARPGROUP_ROWS)
        return Operand("k", offsets, 0, 16, ATOM_ROWS * self.line, self.line)


def factor_geometry(width: int, dtype: DType, span: Span) -> FactorGeometry:
    cols = up(width, K_STEP)
    return FactorGeometry(dtype, cols, _padded_line(cols * dtype.bytes), span)


def descriptor(name: str, g: TileGeometry, scheduled: Scheduled, *, store: bool, span: Span) -> Descriptor:
    """The tensor map of a tile: innermost dimension, rows, chunk number, then the others with boxes of 1.

    `scheduled` tells the extents of split axes, whose dimensions are cut in two.
    """
    dims = [MapDim(g.col_dim, g.chunk, g.chunk if g.chunk_dimension else 0, "inner" if g.chunk_dimension else "")]
    by = {r.dim: extent(scheduled.program.tile.axis(r.parts[1])) for r in g.row_dims if r.parts}
    for r in reversed(g.row_dims):
        # lines of zeros, and several boxes, are what tiles of one row dimension alone have
        side = g.box_lines if len(g.row_dims) == 1 else r.count
        dims.append(MapDim(r.dim, side, 0, "inner" if r.parts else "", by.get(r.dim)))
    if g.chunk_dimension:
        dims.append(MapDim(g.col_dim, g.share_chunks, g.chunk, "outer"))
    for d in reversed(range(len(g.tensor.dims))):
        if d in by:
            dims.append(MapDim(d, 1, 0, "outer", by[d]))
        elif d != g.col_dim and all(d != r.dim for r in g.row_dims):
            dims.append(MapDim(d, 1))
    fill = "zero" if store else scheduled.tile(name).fill
    return Descriptor(name, g.tensor.name, tuple(dims), g.swizzle, fill, store, span)


@dataclass(frozen=True)
class Box:
    """One TMA instruction of a tile: its coordinates, where it lands in the slot, its bytes."""

    coordinates: tuple[Uniform, ...]
    offset: int
    bytes: int


def boxes(g: TileGeometry, where: tuple[Uniform, ...], scheduled: Scheduled, part: Uniform) -> tuple[Box, ...]:
    """The boxes that bring a tile whose corner in the tensor is `where` (one position a dimension), or the `part`th of
    those that the consumers hold apart; of a shared tile the CTA's own share, as if its offsets began at 0."""
    outer = {r.dim: position(r.parts[0], scheduled) for r in g.row_dims if r.parts}
    row_dims = {r.dim for r in g.row_dims}
    rest = tuple(
        outer.get(d, where[d])
        for d in reversed(range(len(where)))
        if d in outer or (d != g.col_dim and d not in row_dims)
    )
    rows = tuple(
        op(
            "add",
            position(r.parts[1], scheduled) if r.parts else where[r.dim],
            op("mul", part, r.count) if r is g.row_dims[0] else 0,
        )
        for r in reversed(g.row_dims)
    )
    number: Uniform = g.sharers.number if g.sharers else Int(0)
    if g.chunk_dimension:
        chunk = op("mul", number, g.share_chunks)
        return (Box((Int(0), *rows, chunk, *rest), 0, g.bytes // g.shares),)
    size = g.box_lines * g.line
    column = op("add", where[g.col_dim], op("mul", number, g.columns_apart))
    rows = tuple(op("add", row, op("mul", number, g.lines_apart)) for row in rows)
    return tuple(
        Box(
            (op("add", column, c * g.chunk), *(op("add", row, first) for row in rows), *rest),
            c * g.lines * g.line + first * g.line,
            size,
        )
        for c in range(g.share_chunks)
        for first in range(0, g.share_lines, g.box_lines)
    )


# ---- positions of axes -----------------------------------------------------------------------------


def position(axis: str, scheduled: Scheduled) -> Uniform:
    """First position of an axis that the current tile holds, by the names the plan binds."""
    role = next((r for r in scheduled.roles if r.axis == axis), None)
    if role is None:
        split = scheduled.program.tile.axis(axis).split
        if split is not None and row_part(axis, scheduled) and scheduled.role(split.outer).block == 1:
            inner = scheduled.program.tile.axis(split.inner)
            return op(
                "add", op("mul", position(split.outer, scheduled), extent(inner)), position(split.inner, scheduled)
            )
        for a in scheduled.program.tile.axes:  # an axis that is visited position by position gives its parts theirs
            if a.split and axis in (a.split.outer, a.split.inner) and _by_ones(a.name, scheduled):
                length = extent(scheduled.program.tile.axis(a.split.inner))
                return op("floordiv" if axis == a.split.outer else "mod", position(a.name, scheduled), length)
        _check_bound(axis, scheduled)
        return Sym(axis)
    if role.role == "hold":
        return Int(0)
    return Sym(axis if role.block == 1 and role.role == "grid" else f"{axis}.0")


def _by_ones(axis: str, scheduled: Scheduled) -> bool:
    return any(r.axis == axis and r.role == "stream" and r.block == 1 for r in scheduled.roles)


def _check_bound(axis: str, scheduled: Scheduled) -> None:
    """An axis without a role is known where the split that it belongs to gives it one value for a work item."""
    program = scheduled.program.tile
    for whole in program.axes:
        if whole.split and axis in (whole.name, whole.split.outer, whole.split.inner):
            names = (whole.split.outer, whole.split.inner) if axis == whole.name else (whole.name,)
            held = [r for r in scheduled.roles if r.axis in names and r.role == "grid" and r.block == 1]
            if len(held) != len(names):
                fail(Code.PART_IN_TILE, whole.split.span, axis=axis, whole=" and ".join(names))


def affine_position(entry: Affine, scheduled: Scheduled) -> Uniform:
    total = from_poly(entry.offset)
    for axis, coefficient in entry.terms:
        total = op("add", op("mul", position(axis, scheduled), coefficient), total)
    return total


def corner(move: Move, scheduled: Scheduled) -> tuple[Uniform, ...]:
    """Position of the tile's first element in each tensor dimension."""
    return tuple(affine_position(e, scheduled) for e in move.at if isinstance(e, Affine))


def row_origin(axis: str, scheduled: Scheduled) -> Uniform:
    """Position along an axis of the rows, or a split axis whose inner part is one, of this warpgroup's first row."""
    part = row_part(axis, scheduled)
    assert part is not None
    return op("add", position(axis, scheduled), op("mul", "warpgroup", part.step))


def linear(
    terms: tuple[tuple[str, int], ...], offset: Uniform, shape: Shape, scheduled: Scheduled
) -> tuple[int, int, Uniform, tuple[tuple[int, Digit], ...]]:
    """sum(coefficient * axis) + offset at each element of a value: the factors of its row and its column, what is the
    same for all of them, and the factors of what counts rows by a digit."""
    row = col = 0
    digits: list[tuple[int, Digit]] = []
    for axis, coefficient in terms:
        origin, part = position(axis, scheduled), row_part(axis, scheduled)
        if part is not None and part.axis in shape.rows:
            origin = row_origin(axis, scheduled)
            if part.digit is None:
                row = coefficient
            else:
                digits.append((coefficient, part.digit))
        elif axis == shape.cols:
            col = coefficient
        scaled = op("mul", origin, abs(coefficient))
        offset = op("add" if coefficient > 0 else "sub", offset, scaled)
    return row, col, offset, tuple(digits)


def row_limit(axis: str, scheduled: Scheduled, length: Uniform) -> Uniform:
    """Where positions along such an axis end: at the end of the dimension, or of the outer part's position at hand."""
    program = scheduled.program.tile
    split, part = program.axis(axis).split, row_part(axis, scheduled)
    if split is None or part is None or part.axis == axis:
        return length
    return op("mul", op("add", position(split.outer, scheduled), 1), extent(program.axis(split.inner)))


def extent(axis: Axis) -> Uniform:
    return from_poly(axis.extent)


@dataclass(frozen=True)
class Operand:
    """How a product reads a tile: see plan.SlotOperand."""

    major: str
    offsets: tuple[int, ...]
    warpgroup: int
    leading: int
    stride: int
    swizzle: int


def operand(g: TileGeometry, contracted: str, *, by_rows: bool) -> Operand:
    """A tile as a wgmma operand contracted along `contracted` (canonical layouts: hardware.md 3.4).

    by_rows: the operand's other direction is shared out to the warpgroups (64 positions each).
    """
    steps = g.depth(contracted) // K_STEP
    atom = ATOM_ROWS * g.line
    if g.col_axis == contracted:
        offsets = _along_lines(steps, g.line, g.lines)
        return Operand("k", offsets, WARPGROUP_ROWS * g.line if by_rows else 0, 16, atom, g.swizzle)
    offsets = tuple(n * K_STEP * g.line for n in range(steps))
    # contiguous along m or n: chunks of `chunk` positions lie lines * line apart
    apart = g.lines * g.line
    return Operand("mn", offsets, (WARPGROUP_ROWS // g.chunk) * apart if by_rows else 0, apart, atom, g.swizzle)


def _along_lines(steps: int, line: int, lines: int) -> tuple[int, ...]:
    """Where the k steps of an operand that is contiguous along k begin: inside the swizzled line, then in the next
    chunk."""
    a_line = line // K_STEP_BYTES
    return tuple((n // a_line) * lines * line + (n % a_line) * K_STEP_BYTES for n in range(steps))


def check_product_tile(g: TileGeometry, contracted: str, span: Span, product: str) -> None:
    """Shapes that wgmma asks of an operand tile: whole k steps, whole swizzle atoms."""
    length = g.depth(contracted)
    if length % K_STEP:
        fail(Code.K_STEP, span, product=product, axis=contracted, got=str(length), wanted="a multiple of 16")
    if g.lines % ATOM_ROWS:
        fail(Code.ATOM_ROWS, span, tile=g.move.name, axis=g.row_axes, got=str(g.lines), wanted="a multiple of 8")
