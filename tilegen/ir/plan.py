"""The plan: one sequence of operations a role, with every wait, arrival, byte, fence and register written down.

`synchronise` makes it; nothing rewrites it. Templates spell it, the checks read it, JSON carries it.

Conventions
- A ring's positions are absolute: a *cursor* counts the slots that a role has passed, from 0, over all work
  items. Stage = position mod depth, parity = (position div depth) & 1. A role moves a cursor by `Advance` only.
- Full barriers are waited with the parity of the position, empty barriers with the opposite one, so that the
  first `depth` fills find the ring empty.
- `tile[rows, cols]` in shared memory: columns are cut into chunks of `chunk` elements (the swizzle width), each
  chunk stored as `rows` lines: byte(r, c) = (c div chunk) * rows * line + r * line + swizzled((c mod chunk) * size).
- Fragments belong to one warpgroup of 128 threads. Layouts (hardware.md 3.4; thread t of 128, lane = t mod 32):
    acc  64 x cols, cols/2 registers: element v at row 16*(t/32) + lane/4 + 8*((v/2)%2),
         column 8*(v/4) + 2*(lane%4) + v%2
    a    the A operand of wgmma: acc's elements packed two to a register, cols/4 registers
    pair acc's elements of a 16-bit type, two neighbours of a row to a register, cols/4 registers: entries as they lie
    row  one value a row, 2 registers (v is the row half), equal in the four lanes of a quad unless `partial`
    col  one value a column, cols/4 registers: element v at column 8*(v/2) + 2*(lane%4) + v%2
- Element-wise arithmetic is f32. Row and col fragments loaded from i32 tensors, and i32 elements bound by LetFloat,
  stay whole numbers; a comparison that one of them stands in, and nothing but whole numbers with it, is made in
  32-bit integers, and so is every comparison of whole numbers in a Mask. Anywhere else they are converted.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import TypeAlias

from tilegen.ir.dtypes import DType
from tilegen.ir.uniform import Int, Op, Sym, Uniform, op
from tilegen.records import dataclass
from tilegen.syntax.span import Span

WARPS = 4  # of a warpgroup
CLUSTER_RANK = "cluster.rank"  # the name of a CTA's number in its cluster
ABOUT_DOMAIN = "domain clause"  # what a note begins with that tells of one
ASYNCHRONOUS = (16, 8, 4)  # bytes that a thread can have copied to shared memory without waiting for them
STORE_CHUNK = 16  # bytes: a TMA store writes no less, past the end of rows

# ---- what the kernel is given ----------------------------------------------------------------------


@dataclass(frozen=True)
class MapParam:
    """A tensor map by value (128 bytes)."""

    descriptor: str


@dataclass(frozen=True)
class SizeParam:
    """A size or an integer scalar, int32."""

    name: str


@dataclass(frozen=True)
class ScalarParam:
    """A float scalar, f32."""

    name: str


@dataclass(frozen=True)
class PointerParam:
    """Base address of a tensor."""

    tensor: str


@dataclass(frozen=True)
class StrideParam:
    """Stride of a tensor's dimension (0 is the outermost) in elements, int64."""

    tensor: str
    dim: int


@dataclass(frozen=True)
class TableParam:
    """Pointer to the table that deals out the work items (see ItemTable), int32."""


@dataclass(frozen=True)
class ScratchParam:
    """Pointer to the int32 words that dealing items out on the device takes (see Sequences)."""


@dataclass(frozen=True)
class FaultParam:
    """Pointer to the int32 words that say what is wrong with the starts of sequences (see Sequences)."""


@dataclass(frozen=True)
class CtasParam:
    """CTAs that items are dealt out to, int32."""


Param: TypeAlias = (
    "MapParam | SizeParam | ScalarParam | PointerParam | StrideParam"
    " | TableParam | ScratchParam | FaultParam | CtasParam"
)


@dataclass(frozen=True)
class MapDim:
    """One dimension of a tensor map, innermost first.

    Plain: the whole tensor dimension `dim`. `chunk` > 0: the inner dimension cut into chunks: `part` "inner" is
    the position inside a chunk (extent `chunk`), "outer" the chunk number (extent dims[dim] / chunk, stride
    chunk elements). `by`: the dimension of a split axis cut likewise at each multiple of a size known at launch, and
    `part` "inner" is clipped there.
    """

    dim: int
    box: int
    chunk: int = 0
    part: str = ""
    by: Int | Sym | Op | None = None


@dataclass(frozen=True)
class Descriptor:
    """A tensor map, built at launch from the real shape and strides."""

    name: str
    tensor: str
    dims: tuple[MapDim, ...]
    swizzle: int  # bytes: 0, 32, 64, 128
    fill: str  # "zero" | "nan"
    store: bool
    span: Span


# ---- shared memory ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Buffer:
    """A tile in shared memory, `stages` of them `stage_bytes` apart from `offset` (bytes in dynamic shared memory).

    `parts`: independent copies, one for each consumer warpgroup; copy p of stage s is number s * parts + p.
    `line` is the bytes of a chunk's row. `host` names the buffer whose bytes these are, if aliased.
    """

    name: str
    dtype: DType
    rows: int
    cols: int
    chunk: int
    line: int
    swizzle: int
    offset: int
    stage_bytes: int
    stages: int
    parts: int
    host: str | None
    span: Span


@dataclass(frozen=True)
class Scan:
    """Slots of a ring are looked through before their readers take them (see ScanSlot).

    clean: offset of an mbarrier for each stage and part, `arrivals` arrivals, that says a slot was (none in a ring
    without barriers). flag: offset of an int32, 0 until an entry that is no finite number was found.
    """

    clean: int
    arrivals: int
    flag: int


@dataclass(frozen=True)
class RingBarriers:
    """The mbarriers of one kind (full | empty | clean), one for each stage and part, from `offset` on."""

    kind: str
    offset: int
    arrivals: int


@dataclass(frozen=True)
class Sharers:
    """CTAs of a cluster whose rings hold the same: `count` of them, `stride` ranks apart. The nth has the number n."""

    count: int
    stride: int

    @property
    def number(self) -> Uniform:
        """Of the CTA at hand."""
        return op("mod", op("floordiv", CLUSTER_RANK, self.stride), self.count)

    def ranks(self, rank: int) -> tuple[int, ...]:
        """Of those that share with the CTA of this rank, itself among them."""
        first = rank - rank // self.stride % self.count * self.stride
        return tuple(first + n * self.stride for n in range(self.count))


@dataclass(frozen=True)
class Ring:
    """A buffer with a full and an empty mbarrier for each stage and part; with none (no arrivals, release "none") where
    those who read a slot have filled it, wait for their own copies and meet.

    full: `full_arrivals` arrivals plus the expected bytes, if TMA fills it; empty: `empty_arrivals` arrivals, of one
    thread a warpgroup (`release` "warpgroup") or of one a warp ("warp"; always of a role that has only some warps of
    its warpgroup). Barrier of stage s, part p: offset + 8 * (s * parts + p).

    sharers: each of these CTAs has TMA bring a share of a tile to all of them, so a full barrier sees the bytes of all
    shares, and a slot is freed on the empty barrier of each: `empty_arrivals` counts the consumers of them all.
    """

    name: str
    buffer: str
    depth: int
    parts: int
    full: int
    empty: int
    full_arrivals: int
    empty_arrivals: int
    release: str
    bytes: int  # of a tile; expected by a full barrier each time, where TMA brings them
    span: Span
    scan: Scan | None = None
    sharers: Sharers | None = None

    @property
    def shares(self) -> int:
        """How many CTAs fill a slot together."""
        return 1 if self.sharers is None else self.sharers.count

    @property
    def barriers(self) -> tuple[RingBarriers, ...]:
        """Those of every kind that the ring has."""
        if self.release == "none":
            return ()
        both = (
            RingBarriers("full", self.full, self.full_arrivals),
            RingBarriers("empty", self.empty, self.empty_arrivals),
        )
        return both if self.scan is None else (*both, RingBarriers("clean", self.scan.clean, self.scan.arrivals))


@dataclass(frozen=True)
class Cursor:
    """A counter of one role over a ring's positions."""

    name: str
    ring: str


@dataclass(frozen=True)
class Slot:
    """`ring@cursor`, in the part that is the constant `part`, or the reader's own warpgroup if None."""

    ring: str
    cursor: str
    part: int | None = None


# ---- fragments and element expressions ---------------------------------------------------------------


@dataclass(frozen=True)
class Fragment:
    """Registers of a warpgroup. `storage` names the fragment whose registers hold it (its own name: its own; empty:
    none, it exists inside a Sweep only)."""

    name: str
    layout: str  # acc | a | pair | row | col
    rows: int
    cols: int
    dtype: DType
    storage: str
    span: Span

    @property
    def registers(self) -> int:
        """32-bit registers a thread of a fragment of this layout."""
        if self.layout == "row":
            return 2
        if self.layout == "col":
            return self.cols // 4
        return self.cols // (4 if self.layout in ("a", "pair") else 2)


@dataclass(frozen=True)
class Element:
    """The element of a fragment at this position; row and col fragments are broadcast."""

    fragment: str


@dataclass(frozen=True)
class Literal:
    value: float


@dataclass(frozen=True)
class Value:
    """A uniform float: a scalar parameter, or a name bound by LetFloat."""

    name: str


@dataclass(frozen=True)
class IntValue:
    """A uniform integer, converted to f32."""

    value: Uniform


@dataclass(frozen=True)
class Digit:
    """Where a row is along one of several axes that share the rows: its number in the warpgroup's 64 div `divide`, mod
    `modulo` if that is not 0."""

    divide: int
    modulo: int

    @property
    def positions(self) -> int:
        """Positions that a warpgroup's rows reach."""
        return self.modulo or 64 // self.divide


@dataclass(frozen=True)
class Coordinate:
    """Global position of this element along the fragment's "row" or "col" direction, as f32: origin + local index, of
    which a row may count by a digit."""

    along: str
    origin: Uniform
    digit: Digit | None = None


@dataclass(frozen=True)
class Place:
    """row_factor * row + col_factor * column + offset at this element, as f32; row and column local to the fragment.

    In a row fragment the column is the first that the lane holds. digits: as in Bound.
    """

    row_factor: int
    col_factor: int
    offset: Uniform
    digits: tuple[tuple[int, Digit], ...] = ()


@dataclass(frozen=True)
class Past:
    """How many columns this element stands past the first that its lane holds, as f32."""


@dataclass(frozen=True)
class Compute:
    """op: add sub mul neg fma(a, b, c) · div (within 2 units) · div_rn (rounded to nearest) ·
    ex2 lg2 rcp sqrt rsqrt tanh tanh_approx erf abs floor min max pow ·
    eq ne lt le gt ge and or not · select(c, a, b) · round(x) to `dtype` and back ·
    ratio(a, b): a / b, 0 where b is 0"""

    op: str
    args: tuple[ElementExpr, ...]
    dtype: DType | None = None


ElementExpr: TypeAlias = Element | Literal | Value | IntValue | Coordinate | Place | Past | Compute


@dataclass(frozen=True)
class Chunks:
    """Counts a direction of a fragment in chunks: (origin + local index) div length, length > 0. Of a row the index may
    be a digit."""

    origin: Uniform
    length: Uniform
    digit: Digit | None = None


@dataclass(frozen=True)
class Bound:
    """A condition on an element: row_factor * row + col_factor * col + offset >= 0; row, col local to the fragment,
    or numbers of chunks.

    digits: (factor, digit of the row), added where several axes share the rows.
    """

    row_factor: int
    col_factor: int
    offset: Uniform
    row_chunks: Chunks | None = None
    col_chunks: Chunks | None = None
    digits: tuple[tuple[int, Digit], ...] = ()

    @property
    def uniform(self) -> bool:
        """Whether it is the same for all elements."""
        return not (self.row_factor or self.col_factor or self.digits)


# ---- operations ------------------------------------------------------------------------------------
# Each carries the span of the spec's statement that it comes from; `statement` is that statement's name.


@dataclass(frozen=True)
class Let:
    """Bind a uniform integer for the rest of the enclosing body."""

    name: str
    value: Uniform
    span: Span
    statement: str = ""


ALWAYS = Int(1)  # what holds wherever it is asked for


@dataclass(frozen=True)
class LetFloat:
    """Bind a uniform float. `value` has no fragment in it. `load`: (tensor, index a dimension) reads one element
    instead, or is 0 where `exists` is 0."""

    name: str
    value: ElementExpr | None
    load: tuple[str, tuple[Uniform, ...]] | None
    span: Span
    statement: str = ""
    exists: Uniform = ALWAYS


@dataclass(frozen=True)
class Work:
    """The loop over work items: binds `index`. static: index = CTA, CTA + CTAs, … < total; single: index = CTA (where
    CTAs form clusters, numbers of clusters); table: the items that the table lists for the CTA, and `fields`, some of
    its own, from the item's row in it."""

    index: str
    total: Uniform
    mode: str
    body: tuple[Operation, ...]
    span: Span
    statement: str = ""
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class For:
    """for var in [start, stop): body. `label` says what the loop is, for readers ("inside", "right straddle")."""

    var: str
    start: Uniform
    stop: Uniform
    body: tuple[Operation, ...]
    label: str
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class If:
    """A branch that the whole role takes together."""

    condition: Uniform
    body: tuple[Operation, ...]
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class SetRegisters:
    count: int
    increase: bool
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Expect:
    """One arrival on the full barrier of the slot, and the bytes it is to expect."""

    slot: Slot
    bytes: int
    span: Span
    statement: str = ""


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
class CtaSync:
    """All threads of the CTA meet (barrier 0): what each wrote, and has awaited of its copies, is seen by all, and
    nobody still reads what was read before."""

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
class WaitFull:
    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class WaitEmpty:
    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class ArriveEmpty:
    """Release the slot: this role reads it no more in this generation."""

    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class WaitClean:
    """Wait until the slot has been looked through; it is full then."""

    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class ArriveClean:
    """The slot has been looked through, by this warp: one arrival a warp."""

    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class ScanSlot:
    """Entries of a slot that are no finite numbers become 0, and the ring's flag goes up if there are any."""

    slot: Slot
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Advance:
    """Move a cursor to the next position."""

    cursor: str
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class OrderWait:
    """Wait for this warpgroup's turn (named barrier `first_id` + warpgroup, 2 x 128 threads)."""

    first_id: int
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class OrderPass:
    """Hand the turn to the next warpgroup, cyclically."""

    first_id: int
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class OrderStart:
    """Before the first turn: the last warpgroup passes, so that warpgroup 0 begins."""

    first_id: int
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class GroupSync:
    """All 128 threads of each warpgroup meet (named barrier `first_id` + warpgroup)."""

    first_id: int
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class FenceAsync:
    """Generic writes to shared memory become visible to TMA and wgmma (fence.proxy.async)."""

    span: Span
    statement: str = ""


@dataclass(frozen=True)
class SlotOperand:
    """A wgmma operand in shared memory, in a ring slot.

    major: "k" or "mn": which direction is contiguous. offsets: bytes added to the slot for each k step (of 16
    columns for 16-bit types). warpgroup: bytes added for each warpgroup index. leading, stride: the
    descriptor's LBO and SBO in bytes (hardware.md 3.4).
    """

    slot: Slot
    major: str
    offsets: tuple[int, ...]
    warpgroup: int
    leading: int
    stride: int
    swizzle: int


@dataclass(frozen=True)
class FragmentOperand:
    """The A operand in registers (layout "a"): k step n is registers 4n … 4n+3."""

    fragment: str


@dataclass(frozen=True)
class BufferOperand:
    """The A operand in this warpgroup's part of a buffer that the role itself writes; fields as in SlotOperand."""

    buffer: str
    major: str
    offsets: tuple[int, ...]
    leading: int
    stride: int
    swizzle: int


@dataclass(frozen=True)
class Mma:
    """Issue a product: accumulator (acc) += a x b over len(offsets) k steps; zero: the first step overwrites, always,
    never, or where the condition holds.

    Asynchronous: accumulator, A fragment, buffer and slots are in flight until a MmaWait retires `token`.
    """

    token: str
    accumulator: str
    a: SlotOperand | FragmentOperand | BufferOperand
    b: SlotOperand
    n: int
    dtype: DType
    zero: bool | Int | Sym | Op
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class WarpMma:
    """A product that each warp computes for its own 16 rows, over when the operation is: accumulator (acc) += a x b
    over len(b.offsets) k steps; zero: the first step overwrites.

    Operands in shared memory lie as those of Mma do; each warp reads them itself (ldmatrix), into registers.
    """

    accumulator: str
    a: SlotOperand | FragmentOperand
    b: SlotOperand
    n: int
    dtype: DType
    zero: bool
    span: Span
    statement: str = ""


# What multiplies matrices, by a warpgroup or by warps.
AnyMma: TypeAlias = Mma | WarpMma


@dataclass(frozen=True)
class MmaFence:
    """wgmma.fence: registers written before are visible to the products issued after."""

    span: Span
    statement: str = ""


@dataclass(frozen=True)
class MmaCommit:
    """Close a wgmma group holding the tokens issued since the last commit."""

    tokens: tuple[str, ...]
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class MmaWait:
    """Wait until at most `pending` groups are unfinished. `retires`: tokens known complete after it."""

    pending: int
    retires: tuple[str, ...]
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Init:
    """Every element of a fragment := value."""

    fragment: str
    value: float
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Map:
    """out := expression, element by element, over out's layout."""

    out: str
    value: ElementExpr
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class FmaOob:
    """out (acc) := a * b + c in a 16-bit type, rounded once, and +0 where a or b is the NaN that TMA fills with.

    Numbers that are no fragment of layout pair are the type's own already. At least one factor is such a fragment, and
    the addend is none: there the NaN counts as any other.
    """

    out: str
    a: ElementExpr
    b: ElementExpr
    c: ElementExpr
    dtype: DType
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Mask:
    """Elements for which some conjunction of `alternatives` holds keep their value; the others become `identity`.

    A condition is a bound, or an expression over the fragment's layout that is no number but true or false.
    """

    fragment: str
    alternatives: tuple[tuple[Bound | ElementExpr, ...], ...]
    identity: float
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class RowFold:
    """out (row) := fold of an acc fragment along its columns. kind: sum max min.

    scope "quad": over the whole row, in all four lanes; "thread": this thread's elements only (out is partial).
    """

    out: str
    source: str
    kind: str
    scope: str
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class QuadReduce:
    """Combine a partial row fragment over the four lanes of each row."""

    fragment: str
    kind: str
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Relayout:
    """out (a, 16-bit) := source (acc, f32) rounded to out's type and packed: an accumulator becomes an A operand.

    A last half k step is filled up with zeros.
    """

    out: str
    source: str
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class CopyOperand:
    """out (a) := source (a): what was packed while a product that reads `out` was in flight is its next operand."""

    out: str
    source: str
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
class Sweep:
    """Element-wise operations carried out together, a few columns at a time, over accumulators of one width; and the
    tiles that they read and the buffers that they write.

    Fragments stored nowhere (`Fragment.storage` empty) exist inside a Sweep only, a few columns of them at a time.
    """

    body: tuple[Map | RowFold | Relayout | ReadShared | WriteShared, ...]
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class IfVote:
    """A warp takes the branch together if any of its threads holds a non-zero element in a row fragment.

    It holds no synchronisation: what a row then does must depend on that row alone.
    """

    fragment: str
    body: tuple[Operation, ...]
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class IfSpoiled:
    """A branch that is taken if a scan of the ring has ever found an entry that is no finite number.

    It holds no synchronisation, and changes nothing where the item at hand has no such entry.
    """

    ring: str
    body: tuple[Operation, ...]
    span: Span
    statement: str = ""


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


Operation: TypeAlias = (
    "Let | LetFloat | Work | For | If | IfVote | IfSpoiled | Sweep | SetRegisters"
    " | Expect | TmaLoad | CopyTile | SignalCopies | CopyCommit | CopyWait | CtaSync | TmaStore | StoreCommit"
    " | StoreWait | WaitFull | WaitEmpty"
    " | WaitClean | ArriveEmpty | ArriveClean | ScanSlot | Advance | OrderWait | OrderPass | OrderStart | GroupSync"
    " | FenceAsync"
    " | Mma | WarpMma | MmaFence | MmaCommit | MmaWait | Init | Map | FmaOob | Mask | RowFold | QuadReduce"
    " | Relayout | CopyOperand | ReadShared | WriteShared | LoadVector | StoreRows | StoreVector | Mend"
)


# ---- the whole -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RolePlan:
    """One sequence run by `warpgroups` warpgroups from `first` on. elected: by one thread of the first warp only
    (after SetRegisters, which all its warps run). In a consumer, or a worker, which is the only role of its plan and
    does everything, the symbol `warpgroup` is its index in the role.
    warps: the only warps of its one warpgroup that run it, (first, count); the registers are set by the role that
    the warpgroup's first warp runs.
    together: so many of its warpgroups are the same 128 threads, which do each operation for one after the other, and
    what is not of a warpgroup once. Fragments are of each."""

    name: str
    kind: str  # producer | copier | consumer | scanner | worker
    first: int
    warpgroups: int
    registers: int | None
    elected: bool
    cursors: tuple[Cursor, ...]
    fragments: tuple[Fragment, ...]
    body: tuple[Operation, ...]
    warps: tuple[int, int] | None = None
    together: int = 1

    @property
    def thread_groups(self) -> int:
        """Groups of 128 threads that its warpgroups are."""
        return self.warpgroups // self.together

    @property
    def warps_of_group(self) -> tuple[int, int]:
        """(first, count) of the warps of each of its warpgroups that run it."""
        return self.warps or (0, WARPS)

    def frees_by_warp(self, ring: Ring) -> bool:
        """Whether one thread of each of its warps frees a slot; otherwise one thread of all."""
        return ring.release == "warp" or self.warps is not None

    def releases(self, ring: Ring) -> int:
        """Arrivals with which each of its warpgroups frees a slot."""
        return self.warps_of_group[1] if self.frees_by_warp(ring) else 1

    @property
    def threads(self) -> int:
        """Threads that run it."""
        return 1 if self.elected else 32 * self.thread_groups * self.warps_of_group[1]


@dataclass(frozen=True)
class Lengths:
    """Sequences one behind the other on an axis of `tokens` positions.

    `starts`: the tensor, int32[count + 1], of where each begins, the end of the last one behind them. `start` and
    `length`: the names that an item's own sequence gives values to.
    """

    starts: str
    tokens: Uniform
    start: str
    length: str


@dataclass(frozen=True)
class Sequences:
    """Items made of sequences whose lengths stand in the device's memory: a kernel of its own deals them out there.

    Each of `count` sequences makes `units` (over its own lengths); all of them, `all_units`, are ordered by cost, the
    costliest first, equals as they come. Item numbers run in the order of dealing: of `items` (over `all_units`) each
    is one with the unit of rank `rank` by the bindings of `ranking`. Then `position` (which sequence), its lengths and
    `unit` (which of its units) are known, and the table's `lets` follow. No launch has more than `most_units`.

    The kernel's parameters are `params`; of the numbers among them, the host works out `given` from sizes. Words of
    scratch memory: `scratch`. Fault words: 1 if the starts of a launch were wrong, and then which of `lengths`, at
    which entry, its value, the one before it, the tokens.
    """

    count: Uniform
    position: str
    lengths: tuple[Lengths, ...]
    units: Uniform
    unit: str
    all_units: str
    most_units: Uniform
    items: Uniform
    ranking: tuple[Let, ...]
    rank: str
    given: tuple[Let, ...]
    scratch: Uniform
    params: tuple[Param, ...]


@dataclass(frozen=True)
class ItemTable:
    """How work items are dealt out: in order, each to the CTA that is free first by these costs.

    The table is int32[rounds, CTAs, width]; column c lists the items of CTA c, then rows that begin with `total` to
    the end, at least once. A row is the item's number and the values of `fields`, padded to a multiple of 4.
    Values and cost of an item: with its number bound to `item` and then `lets`; costs are numbers of any one unit.

    The host makes it, or, with `sequences`, the device: `total` is then no less than the number of items, and a
    unit's cost is that with the names that `ranking` binds at 0. Items go round by round: of as many as there are
    CTAs the costliest to the CTA with the least work so far.
    """

    item: str
    total: Uniform
    lets: tuple[Let, ...]
    cost: Uniform
    fields: tuple[str, ...]
    sequences: Sequences | None = None

    @property
    def width(self) -> int:
        """int32 words a row: 16-byte pieces, so that a row is read in few loads."""
        return -(-(1 + len(self.fields)) // 4) * 4


@dataclass(frozen=True)
class TensorShape:
    """What a kernel parameter's tensor looks like: extents as polynomials' uniform expressions, outermost first."""

    name: str
    dtype: DType
    dims: tuple[Uniform, ...]
    output: bool


@dataclass(frozen=True)
class Plan:
    """A kernel, or one variant of it. `grid`: CTAs to launch (may use `sm_count`), 0: nothing to do. `shared_bytes`:
    dynamic, from a base aligned to 1024. `guard`: of several plans of one kernel a launch takes the first whose guard,
    over sizes and integer scalars (also such as are no parameters) and alignments (`variants.alignment`), holds; None
    holds always.

    `dependent`: a launch may begin under the end of the one before it on its stream; it waits for that one before any
    thread touches the tensors. `registers_at_entry`: what the compiler gives each thread before SetRegisters. `notes`:
    what the compiler mended or chose, in words. `cluster`: CTAs that run together, of consecutive numbers; they do each
    work item together, begin when the barriers of all are made, and end together.
    """

    name: str
    target: str
    source_name: str
    params: tuple[Param, ...]
    tensors: tuple[TensorShape, ...]
    descriptors: tuple[Descriptor, ...]
    buffers: tuple[Buffer, ...]
    rings: tuple[Ring, ...]
    roles: tuple[RolePlan, ...]
    threads: int
    shared_bytes: int
    registers_at_entry: int
    grid: Uniform
    table: ItemTable | None = None
    notes: tuple[str, ...] = field(default=())
    dependent: bool = False
    guard: Int | Sym | Op | None = None
    cluster: int = 1

    def descriptor(self, name: str) -> Descriptor:
        return self._descriptors[name]

    def buffer(self, name: str) -> Buffer:
        return self._buffers[name]

    def ring(self, name: str) -> Ring:
        return self._rings[name]

    def role(self, name: str) -> RolePlan:
        return next(r for r in self.roles if r.name == name)

    def tensor(self, name: str) -> TensorShape:
        return self._tensors[name]

    @cached_property
    def _descriptors(self) -> dict[str, Descriptor]:
        return {d.name: d for d in self.descriptors}

    @cached_property
    def _buffers(self) -> dict[str, Buffer]:
        return {b.name: b for b in self.buffers}

    @cached_property
    def _rings(self) -> dict[str, Ring]:
        return {r.name: r for r in self.rings}

    @cached_property
    def _tensors(self) -> dict[str, TensorShape]:
        return {t.name: t for t in self.tensors}
