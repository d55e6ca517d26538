"""The plan of a kernel for the MLS machine: one sequence that every wave of a workgroup runs.

There are no roles: waves bring the tiles themselves, wait for their own loads by a counter and for each other's by a
barrier. What computes is spelt by the operations of `plan` (maps, masks, folds, stores); what moves tiles, waits and
multiplies is here. A workgroup does one work item.

Conventions
- `group` waves of 16 rows each are what the operations of `plan` call a warpgroup: the symbol `warpgroup` is a wave's
  number div 4, and a fragment holds 64 rows, 16 a wave.
- A tile stands in LDS in pieces (`Piece`), one matrix load each, in order of their columns, then of their rows.
- Reads of a tile go to the stage that the last `ReadFrom` in the same body or around it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from tilegen.ir.dtypes import DType
from tilegen.ir.plan import Fragment, FragmentOperand, ItemTable, Operation, TensorShape
from tilegen.ir.uniform import Int, Op, Sym, Uniform
from tilegen.syntax.span import Source, Span

WAVES = 4  # of a group: 64 rows
WAVE_ROWS = 16
LANES = 64


@dataclass(frozen=True)
class Piece:
    """What one matrix load brings: rows x columns of a tile, the columns contiguous in memory and in LDS."""

    rows: int
    cols: int
    dtype: DType

    @property
    def line(self) -> int:
        """Bytes from one row to the next, in LDS."""
        return self.cols * self.dtype.bytes

    @property
    def bytes(self) -> int:
        return self.rows * self.line


def piece(dtype: DType) -> Piece:
    """Of 16-bit numbers 16 x 32, of 32-bit ones 16 x 16: a kibibyte."""
    return Piece(16, 32 if dtype.bytes == 2 else 16, dtype)


@dataclass(frozen=True)
class Ring:
    """A tile's place in LDS: `depth` stages from `offset` on, whose rows and columns are made up to whole pieces."""

    tile: str
    tensor: str
    dtype: DType
    rows: int
    cols: int
    depth: int
    offset: int
    row_dim: int | None  # of the tensor; None: one row
    col_dim: int
    contiguous: bool  # products contract along the columns, or there are none
    scanned: bool  # products look for what is no finite number in it (`WaveProduct.clean`)
    span: Span

    @property
    def piece(self) -> Piece:
        return piece(self.dtype)

    @property
    def stripes(self) -> int:
        """Pieces along the rows."""
        return -(-self.rows // self.piece.rows)

    @property
    def columns(self) -> int:
        """Pieces along the columns."""
        return -(-self.cols // self.piece.cols)

    @property
    def pieces(self) -> int:
        return self.stripes * self.columns

    @property
    def bytes(self) -> int:
        """Of a stage."""
        return self.pieces * self.piece.bytes


@dataclass(frozen=True)
class ReadItem:
    """Bind the names that the item at hand has in the host's list of items (`MlsPlan.table`)."""

    fields: tuple[str, ...]
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Aim:
    """What of a tile's address is the same for a whole work item is worked out.

    index: the corner in the tensor, 0 along the dimension that `Fetch` moves. What lies at or past `row_limit` and
    `col_limit` (global positions) is no part of the tile.
    """

    tile: str
    index: tuple[Uniform, ...]
    row_limit: Uniform
    col_limit: Uniform
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Fetch:
    """The waves share out a tile's pieces and issue a matrix load for each, into a stage of its ring.

    moving: the dimension along which the tile is streamed, and its position. What lies past the limits becomes zero: by
    the filters of a load, or, where nothing of a piece is left, by stores of zeros instead of a load.
    """

    tile: str
    stage: Uniform
    moving: tuple[int, Uniform] | None
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class ReadFrom:
    """Reads of a tile find it in this stage; there it holds what is at `index` in the tensor and behind it."""

    tile: str
    stage: Uniform
    index: tuple[Uniform, ...]
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class WaitLoads:
    """Until this wave's own matrix loads and stores to LDS have been done."""

    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Barrier:
    """All waves of the workgroup meet."""

    span: Span
    statement: str = ""


@dataclass(frozen=True)
class TileOperand:
    """A factor in LDS. along: "cols" if what is contracted runs along the tile's columns, else "rows".
    by_group: its rows are shared out to the groups, 64 each, and to the waves, 16 each."""

    tile: str
    along: str
    by_group: bool


@dataclass(frozen=True)
class WaveProduct:
    """accumulator (+)= left x right: 16 rows a wave, `n` columns, `depth` contracted positions. zero: it begins.

    clean: entries of the right factor that are no finite numbers count as 0, and the wave remembers that there were any
    in this tile (`plan.IfSpoiled`): some rows do not see all positions, and a weight of 0 does not silence them.
    """

    name: str
    accumulator: str
    left: TileOperand | FragmentOperand
    right: TileOperand
    n: int
    depth: int
    dtype: DType
    zero: bool
    clean: bool
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Restore:
    """Entries of one position that are no finite numbers come back: each that a product took for 0 is added to the rows
    of an accumulator that see the position (`live`, a row fragment, is not 0 there).

    index: the position's first entry in the tensor; an accumulator's columns run along `dim`, up to `limit`.
    """

    fragment: str
    live: str
    tensor: str
    index: tuple[Uniform, ...]
    dim: int
    limit: Uniform
    span: Span
    statement: str = ""


MlsOperation: TypeAlias = "Operation | ReadItem | Aim | Fetch | ReadFrom | WaitLoads | Barrier | WaveProduct | Restore"


def within(body: Sequence[MlsOperation]) -> tuple[Operation, ...]:
    """A body for the loops and branches of `plan`, whose types know its own operations alone."""
    return cast("tuple[Operation, ...]", tuple(body))


@dataclass(frozen=True)
class MlsPlan:
    """A kernel, or one variant of it.

    items: workgroups to launch. table: of sequences, whose lengths the host knows, it lists the items instead: a row of
    the table's fields each.
    """

    name: str
    source: Source
    tensors: tuple[TensorShape, ...]
    scalars: tuple[tuple[str, bool], ...]  # sizes and scalars that are used, in order; whether a float
    rings: tuple[Ring, ...]
    fragments: tuple[Fragment, ...]
    body: tuple[MlsOperation, ...]
    waves: int
    lds_bytes: int
    items: Uniform
    title: str
    blocks: tuple[tuple[str, int], ...]  # of axes of which a tile holds several positions
    table: ItemTable | None = None
    notes: tuple[str, ...] = field(default=())
    guard: Int | Sym | Op | None = None

    def ring(self, tile: str) -> Ring:
        return next(r for r in self.rings if r.tile == tile)

    def tensor(self, name: str) -> TensorShape:
        return next(t for t in self.tensors if t.name == name)
