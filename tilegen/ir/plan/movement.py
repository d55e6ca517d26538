"""Operations that move elements between tensors, shared memory and registers."""

from __future__ import annotations

from tilegen.ir.plan.memory import Slot
from tilegen.ir.plan.values import Digit
from tilegen.ir.uniform import Uniform
from tilegen.records import dataclass
from tilegen.syntax.span import Span

ASYNCHRONOUS = (16, 8, 4)  # bytes that a thread can have copied to shared memory without waiting for them
STORE_CHUNK = 16  # bytes: a TMA store writes no less, past the end of rows


@dataclass(frozen=True)
class TmaLoad:
    """Issue one box: coordinates innermost first, to `offset` bytes inside the slot; completes on its full barrier.

    hint: how long L2 is to hold on to it: "keep" (evicted last), "stream" (first) or "" (no hint). Where the ring has
    sharers, the box comes to all of them, `share` bytes further for each number of this CTA among them.
    """

    descriptor: str
    coordinates: tuple[Uniform, ...]
    slot: Slot
    offset: int
    bytes: int
    span: Span
    statement: str = ""
    hint: str = ""
    share: int = 0


@dataclass(frozen=True)
class RowStep:
    """One of the axes that a tile's rows run along: a row is `digit` positions further along dimension `dim`, and lies
    outside from `limit` (a global position) on."""

    dim: int
    digit: Digit
    limit: Uniform


@dataclass(frozen=True)
class CopyTile:
    """Bring a tile into a slot by copies of the role's threads, to where TMA would have put it.

    index: one uniform a dimension, the tile's corner; columns run along `col_dim`, the innermost, as many as the
    buffer's chunks hold. What lies before the tensor, or from a limit on, becomes 0. width: bytes of a copy, of which
    every row of the tile begins at a multiple: 16, 8 or 4 is an asynchronous one (cp.async), over for those who see
    what SignalCopies signals; an element's is a load and, of 16 bytes together, a store.
    """

    tensor: str
    index: tuple[Uniform, ...]
    slot: Slot
    rows: tuple[RowStep, ...]
    col_dim: int
    col_limit: Uniform
    width: int
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class SignalCopies:
    """One arrival of each of the role's threads on the full barrier of the slot, once its copies are over. No thread
    waits for its copies if they are `asynchronous` (cp.async.mbarrier.arrive.noinc); else they were over before."""

    slot: Slot
    asynchronous: bool
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class CopyCommit:
    """Close the group of copies that each of the role's threads has begun so far, which may be none."""

    span: Span
    statement: str = ""


@dataclass(frozen=True)
class CopyWait:
    """Each thread waits until at most `pending` of its own groups of copies are unfinished. What others have copied is
    there once they meet."""

    pending: int
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class TmaStore:
    """Issue one box from a stage of a buffer (this warpgroup's part, `offset` bytes inside) to global memory, by one
    thread.

    hint: as in TmaLoad.
    """

    descriptor: str
    coordinates: tuple[Uniform, ...]
    buffer: str
    offset: int
    bytes: int
    span: Span
    statement: str = ""
    hint: str = ""
    stage: int = 0


@dataclass(frozen=True)
class StoreCommit:
    """Close the group of TMA stores issued so far, by the thread that issued them."""

    span: Span
    statement: str = ""


@dataclass(frozen=True)
class StoreWait:
    """Wait until at most `pending` groups are unfinished: `read` until their shared memory is read, else until
    written."""

    pending: int
    read: bool
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class ScanSlot:
    """Entries of a slot that are no finite numbers become 0, and the ring's flag goes up if there are any."""

    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class ReadShared:
    """out := this warpgroup's rows of the tile in a slot, 64, or those at a digit of each row: as f32 (acc), or as they
    lie (pair)."""

    out: str
    slot: Slot
    row_offset: int  # rows added for each warpgroup index
    span: Span
    statement: str = ""
    digit: Digit | None = None


@dataclass(frozen=True)
class WriteShared:
    """This warpgroup's part of a stage of a buffer := source (acc), from its column `first` on, rounded to the buffer's
    type.

    A buffer of several stages, or narrower than the source, takes a piece of it. Of the last one there may be less than
    the buffer is wide. A last half k step of a buffer that is wider than the source is filled up with zeros.
    """

    buffer: str
    source: str
    span: Span
    statement: str = ""
    stage: int = 0
    first: int = 0


@dataclass(frozen=True)
class LoadVector:
    """out (row or col) := elements of a tensor along one dimension, as f32 or whole; 0 at or past `limit`.

    index: one uniform a dimension; dimension `dim` adds the element's local position, or that digit of it (where the
    warpgroup begins is in the index already). from_below: positions may lie below 0, where elements are 0 too.
    """

    out: str
    tensor: str
    index: tuple[Uniform, ...]
    dim: int
    limit: Uniform
    span: Span
    statement: str = ""
    digit: Digit | None = None
    from_below: bool = False


@dataclass(frozen=True)
class StoreRows:
    """Rows of an acc fragment, rounded to the tensor's type, to global memory from registers.

    index: one uniform a dimension, the fragment's corner; rows run along `row_dim`, columns along `col_dim`
    (the innermost, stride 1). Elements at or past `row_limit` / `col_limit` (global positions) are not written.
    `vector`: elements stored at once (16 bytes).  `whole_vectors`: col_limit never cuts a vector. `shared`: the axes
    that share the rows, where they are several; `row_dim` and `row_limit` are then the outermost's.
    """

    fragment: str
    tensor: str
    index: tuple[Uniform, ...]
    row_dim: int
    col_dim: int
    row_limit: Uniform
    col_limit: Uniform
    vector: int
    whole_vectors: bool
    span: Span
    statement: str = ""
    shared: tuple[RowStep, ...] = ()


@dataclass(frozen=True)
class StoreVector:
    """A row fragment along dimension `dim` of a tensor, by one lane a row; nothing at or past `limit`. `shared` as in
    StoreRows."""

    fragment: str
    tensor: str
    index: tuple[Uniform, ...]
    dim: int
    limit: Uniform
    span: Span
    statement: str = ""
    shared: tuple[RowStep, ...] = ()


@dataclass(frozen=True)
class Mend:
    """What a scan took out of a block comes back: to each row of an accumulator the entries that are no finite numbers
    of those positions that are live for it (`live`, an acc fragment, is not 0 there).

    index: the block's corner in the tensor, one uniform a dimension; the block's positions run along `dim`, of which
    `count` exist; columns run along `col_dim` up to `col_limit`.
    """

    fragment: str
    live: str
    tensor: str
    index: tuple[Uniform, ...]
    dim: int
    col_dim: int
    count: Uniform
    col_limit: Uniform
    span: Span
    statement: str = ""
