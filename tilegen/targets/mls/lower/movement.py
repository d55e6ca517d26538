"""How tiles come to LDS: descriptors, filters, loads, and zeros where there is nothing to load.

What a descriptor's bounds do elsewhere stands here as instructions. Three rules keep it right, and each defect that
can be asked for breaks one: offsets are 64 bits wide with their carry (`carry`); a load whose filter is the whole piece
is not issued (`tail`); the piece is then zeroed (`dirty-lds`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilegen.ir.mls_plan import Aim, Fetch, MlsPlan, ReadFrom, Ring
from tilegen.ir.uniform import Uniform, op
from tilegen.targets.mls import isa
from tilegen.targets.mls.lower.accesses import coordinate, summed
from tilegen.targets.mls.lower.lanes import LANE
from tilegen.targets.mls.lower.scalars import Scalars
from tilegen.targets.mls.lower.writer import Writer, high, low, nth
from tilegen.targets.mls.program import SGPR, Access, Int, Operand

WAVE = SGPR(isa.WAVE)
CARRY, TAIL, DIRTY_LDS = "carry", "tail", "dirty-lds"
DEFECTS = (CARRY, TAIL, DIRTY_LDS)
_FILTER_BITS = 8


@dataclass(frozen=True)
class Aimed:
    """Where a wave's loads of a tile begin for a work item: the address with what does not move, the stride of its
    lines in elements, each coordinate of the tile's corner; and the wave's first piece: its row, its column, and where
    it is put, in bytes of a slot."""

    base: SGPR
    stride: Operand
    at: tuple[Operand, ...]
    limits: tuple[Operand, Operand]  # of rows, of columns
    row: Operand
    col: Operand
    place: Operand


@dataclass(frozen=True)
class _Share:
    """How waves share out a tile's pieces: by stripes of rows, every `waves`th; where there are fewer stripes than
    waves, `groups` of waves have the same stripes, and take every `groups`th column of pieces."""

    groups: int
    stripes: int  # of a wave, at most
    columns: int  # of a wave, at most

    @staticmethod
    def of(ring: Ring, waves: int) -> _Share:
        power = ring.stripes & (ring.stripes - 1) == 0
        groups = waves // ring.stripes if power and ring.stripes < waves and waves % ring.stripes == 0 else 1
        return _Share(groups, 1 if groups > 1 else -(-ring.stripes // waves), -(-ring.columns // groups))


@dataclass(frozen=True)
class Moved:
    """Lines `first` … `last` - 1 of a program do a part of moving a tile: "aim", once for a work item, or "fetch"."""

    tile: str
    what: str
    first: int
    last: int


class Movement:
    """Matrix loads of all rings. The descriptor of the load at hand stands in four registers of its own."""

    def __init__(self, w: Writer, scalars: Scalars, plan: MlsPlan, defects: frozenset[str]) -> None:
        self.w = w
        self.s = scalars
        self.plan = plan
        self.defects = defects
        self.moved: list[Moved] = []
        self.aimed: dict[str, Aimed] = {}
        self.index: dict[str, tuple[Uniform, ...]] = {}  # of tiles in the slots that are read
        self.descriptor = w.scalar(4)
        w.keep(self.descriptor)

    # ---- a work item ----

    def aim(self, op_: Aim) -> None:
        first = len(self.w.lines)
        self._aim(op_)
        self.moved.append(Moved(op_.tile, "aim", first, len(self.w.lines)))

    def _aim(self, op_: Aim) -> None:
        w, ring = self.w, self.plan.ring(op_.tile)
        base = w.scalar(2)
        self.s.load(ring.tensor, base)
        w.wait_lds()
        at: list[Operand] = []
        for dim, index in enumerate(op_.index):
            where = self.s.value(index)
            if where != Int(0):
                self._add(base, base, where, ring, dim)
            at.append(where)
        stride: Operand = Int(ring.piece.cols)
        if ring.row_dim is not None:
            pair = w.scalar(2)
            self.s.load(f"{ring.tensor}.stride{ring.row_dim}", pair)
            w.wait_lds()
            stride = w.scalar()
            w.op("s_mov_b32", stride, low(pair), comment=f"{op_.tile}: stride of its rows, in elements")
            w.release(pair)
        limits = (self.s.value(op_.row_limit), self.s.value(op_.col_limit))
        row, col, place = self._first_piece(ring)
        with w.scratch(2) as offset:
            w.op("s_mul_i32", low(offset), row, stride)
            w.op("s_mul_hi_u32", high(offset), row, stride)
            if col != Int(0):
                w.op("s_add_u32", low(offset), low(offset), col)
                w.op("s_addc_u32", high(offset), high(offset), 0)
            self.s.scaled(offset, ring.dtype.bytes)
            self._sum(base, base, offset, ring)
        self.aimed[op_.tile] = Aimed(base, stride, tuple(at), limits, row, col, place)

    def _first_piece(self, ring: Ring) -> tuple[Operand, Operand, Operand]:
        """Row and column of this wave's first piece, and its place in a slot."""
        w, piece, share = self.w, ring.piece, _Share.of(ring, self.plan.waves)
        row, place = w.scalar(), w.scalar()
        if share.groups == 1:
            w.op("s_mul_i32", row, WAVE, piece.rows, comment=f"{ring.tile}: this wave's first row")
            w.op("s_mul_i32", place, WAVE, piece.bytes)
            return row, Int(0), place
        col = w.scalar()
        w.op("s_and_b32", row, WAVE, ring.stripes - 1)
        w.op("s_mul_i32", row, row, piece.rows, comment=f"{ring.tile}: this wave's first row")
        w.op("s_lshr_b32", col, WAVE, ring.stripes.bit_length() - 1)
        w.op("s_mul_i32", col, col, piece.cols, comment=f"{ring.tile}: this wave's first column")
        w.op("s_mul_i32", place, WAVE, piece.bytes)  # its stripe, and its column of pieces times their number
        return row, col, place

    def _add(self, out: SGPR, base: SGPR, where: Operand, ring: Ring, dim: int) -> None:
        """out := base + where * stride of a dimension, in bytes."""
        w, size = self.w, ring.dtype.bytes
        if dim == ring.col_dim:
            with w.scratch(2) as offset:
                w.op("s_mul_i32", low(offset), where, size)
                w.op("s_mul_hi_u32", high(offset), where, size)
                self._sum(out, base, offset, ring)
            return
        stride = self.s.byte_stride(ring.tensor, dim, size)
        with w.scratch(2) as offset:
            self.s.product(offset, where, stride)
            self._sum(out, base, offset, ring)
        w.release(stride)

    def _sum(self, out: SGPR, a: SGPR, b: SGPR, ring: Ring) -> None:
        """out := a + b, pairs."""
        self.w.op("s_add_u32", low(out), low(a), low(b), comment=f"{ring.tile}: base, low word")
        self._carry(high(out), high(a), high(b), ring)

    def _carry(self, out: Operand, a: Operand, b: Operand, ring: Ring) -> None:
        """The high word of a sum whose low word was just added."""
        if CARRY in self.defects:
            self.w.op("s_add_u32", out, a, b, comment=f"{ring.tile}: base, high word; defect carry: its carry is lost")
        else:
            self.w.op("s_addc_u32", out, a, b, comment=f"{ring.tile}: base, high word, with the carry")

    # ---- a fetch ----

    def fetch(self, op_: Fetch) -> None:
        first = len(self.w.lines)
        self._fetch(op_)
        self.moved.append(Moved(op_.tile, "fetch", first, len(self.w.lines)))

    def _fetch(self, op_: Fetch) -> None:
        w, s, ring = self.w, self.s, self.plan.ring(op_.tile)
        aimed, share, d = self.aimed[op_.tile], _Share.of(ring, self.plan.waves), self.descriptor
        at = list(aimed.at)
        base = aimed.base
        if op_.moving is not None:
            dim, where = op_.moving
            at[dim] = s.value(where)
            base = nth(d, 0, 2)
            self._add(base, aimed.base, at[dim], ring, dim)
        target = w.scalar()
        slot = self._stage(ring, op_.stage)
        w.op("s_add_i32", target, slot, aimed.place, comment=f"{ring.tile}: this wave's place in the slot")
        s.release_unnamed(slot)
        w.op("s_mov_b32", nth(d, 2), aimed.stride)
        for stripe in range(share.stripes):
            self._stripe(ring, share, stripe, base, at, target)
        w.release(target)
        if op_.moving is not None:
            s.release_unnamed(at[op_.moving[0]])

    def _stage(self, ring: Ring, stage: Uniform) -> Operand:
        """The LDS address of a stage."""
        return self.s.value(op("add", op("mul", stage, ring.bytes), ring.offset))

    def read_from(self, op_: ReadFrom) -> None:
        ring = self.plan.ring(op_.tile)
        self.s.bind(_slot(op_.tile), op("add", op("mul", op_.stage, ring.bytes), ring.offset))
        self.index[op_.tile] = op_.index

    def slot(self, ring: Ring) -> Operand:
        """The LDS address of the stage that a tile is read from."""
        return self.s.names[_slot(ring.tile)]

    def _stripe(self, ring: Ring, share: _Share, stripe: int, base: SGPR, at: list[Operand], target: SGPR) -> None:
        """This wave's pieces of its stripe of that number: one descriptor, moved along the columns by moffset."""
        w, d, piece, waves = self.w, self.descriptor, ring.piece, self.plan.waves
        aimed = self.aimed[ring.tile]
        done = w.label(f"{ring.tile}_done")
        zero = w.label(f"{ring.tile}_zero")
        first = stripe * waves * piece.rows
        if share.groups == 1 and (stripe + 1) * waves > ring.stripes:
            w.op("s_cmp_lt_i32", WAVE, ring.stripes - stripe * waves)
            w.op("s_cbranch_scc0", done)
        self._unless_missing(ring, share, 0, done)
        if stripe:
            with w.scratch(2) as offset:
                w.op("s_mul_i32", low(offset), aimed.stride, waves * piece.rows)
                w.op("s_mul_hi_u32", high(offset), aimed.stride, waves * piece.rows)
                self.s.scaled(offset, ring.dtype.bytes)
                self._sum(nth(d, 0, 2), nth(d, 0, 2), offset, ring)
        elif base != nth(d, 0, 2):
            w.op("s_mov_b64", nth(d, 0, 2), base)
        w.op("s_and_b32", nth(d, 1), nth(d, 1), 0xFFFF)
        lines = w.scalar()
        top = Int(0) if ring.row_dim is None else at[ring.row_dim]
        self._filter(lines, (aimed.row, top, Int(first)), aimed.limits[0], piece.rows, zero)
        by_row = nth(d, 3) if self._whole_columns(ring, at) else lines
        w.op("s_lshl_b32", by_row, lines, _FILTER_BITS, comment=f"{ring.tile}: the filter of its rows")
        for n in range(share.columns):
            self._piece(ring, share, n, stripe, at, target, by_row)
        w.release(lines)
        if TAIL not in self.defects:
            w.op("s_branch", done)
            w.place(zero)
            self._zero(ring, share, target, stripe, range(share.columns))
        w.place(done)

    def _place(self, ring: Ring, share: _Share, n: int, stripe: int) -> int:
        """Bytes from a wave's first piece to another of its own."""
        return (n * share.groups * ring.stripes + stripe * self.plan.waves) * ring.piece.bytes

    def _piece(
        self, ring: Ring, share: _Share, n: int, stripe: int, at: list[Operand], target: SGPR, by_row: SGPR
    ) -> None:
        """A wave's nth piece of a stripe. by_row: where the filter of its rows stands."""
        w, d, piece = self.w, self.descriptor, ring.piece
        aimed = self.aimed[ring.tile]
        over, zero, done = (w.label(f"{ring.tile}_{word}") for word in ("over", "zero", "done"))
        col = n * share.groups * piece.cols
        partial = n > 0 and self._unless_missing(ring, share, n, over)
        whole = self._whole_columns(ring, at)
        if not whole:
            with w.scratch(1) as run:
                self._filter(run, (aimed.col, at[ring.col_dim], Int(col)), aimed.limits[1], piece.cols, zero)
                w.op("s_or_b32", nth(d, 3), by_row, run, comment=f"{ring.tile}: and of its columns")
        place = self._place(ring, share, n, stripe)
        with w.scratch(1) as to:
            w.op("s_add_i32", to, target, place)
            w.op("s_nop", 0)
            name, words = _load_name(ring)
            rows = stripe * self.plan.waves * piece.rows
            w.op(name, d, to, words=words, access=self._access(ring, at, rows, col), moffset=col)
        if not whole and TAIL not in self.defects:
            w.op("s_branch", done)
            w.place(zero)
            self._zero(ring, share, target, stripe, (n,))
            w.place(done)
        if partial:
            w.place(over)

    def _partial(self, ring: Ring, share: _Share, n: int) -> bool:
        """Leave in scc whether this wave's group has an nth piece, where some have none. Whether that is so."""
        partial = (n + 1) * share.groups > ring.columns
        if partial:
            col = n * share.groups * ring.piece.cols
            self.w.op("s_cmp_lt_i32", self.aimed[ring.tile].col, ring.cols - col)
        return partial

    def _unless_missing(self, ring: Ring, share: _Share, n: int, label: str) -> bool:
        """Branch where this wave's group has no nth piece. Whether there is such a group."""
        partial = self._partial(ring, share, n)
        if partial:
            self.w.op("s_cbranch_scc0", label)
        return partial

    def _whole_columns(self, ring: Ring, at: list[Operand]) -> bool:
        """Whether the tile's columns end with a piece, whatever the launch."""
        limit = self.aimed[ring.tile].limits[1]
        return at[ring.col_dim] == Int(0) and limit == Int(ring.columns * ring.piece.cols)

    def _filter(self, out: SGPR, corner: tuple[Operand, ...], limit: Operand, size: int, zero: str) -> None:
        """out := how many positions of a piece lie past the limit. Where all do, the piece is zeroed instead."""
        w = self.w
        constant = size + sum(x.value for x in corner if isinstance(x, Int))
        given: list[Operand] = [x for x in corner if not isinstance(x, Int)]
        first, *more = given or [Int(0)]
        if isinstance(limit, Int):
            w.op("s_add_i32", out, first, constant - limit.value)
        else:
            w.op("s_sub_i32", out, first, limit)
            w.op("s_add_i32", out, out, constant)
        for x in more:
            w.op("s_add_i32", out, out, x)
        w.op("s_max_i32", out, out, 0)
        if TAIL in self.defects:
            w.op("s_min_i32", out, out, size, comment="defect tail: a filter of the whole piece is issued")
            return
        w.op("s_cmp_ge_i32", out, size, comment="nothing of it is there")
        w.op("s_cbranch_scc1", zero)

    def _zero(self, ring: Ring, share: _Share, target: SGPR, stripe: int, pieces: Iterable[int]) -> None:
        """Zeros over these of the wave's pieces of a stripe; over its first one again in place of one that is not
        there, so that no way leads around them."""
        w = self.w
        if DIRTY_LDS in self.defects:
            w.remark(f"defect dirty-lds: nothing zeroes this of {ring.tile}")
            return
        address, zeros = w.vector(), w.vector(4)
        for n in range(4):
            w.op("v_mov_b32", nth(zeros, n), 0)
        for n in pieces:
            place, first = (self._place(ring, share, m, stripe) for m in (n, 0))
            with w.scratch(1) as to:
                if n and self._partial(ring, share, n):
                    w.op("s_cselect_b32", to, place, first)
                    w.op("s_add_i32", to, to, target)
                else:
                    w.op("s_add_i32", to, target, place)
                w.op("v_lshlrev_b32", address, 4, LANE)
                w.op("v_add_u32", address, address, to)
                said = f"{ring.tile}: nothing to load"
                w.op("ds_write_b128", address, zeros, access=Access(ring.tile), comment=said)
        w.release(address, zeros)

    def read(
        self,
        ring: Ring,
        row: int,
        col: int,
        of_row: tuple[Operand | str, ...] = ("line",),
        of_col: tuple[Operand | str, ...] = ("run",),
    ) -> Access:
        """What a read is to find in the slot at hand, from a row and a column on; of_row, of_col: what is added to
        them, by default the position inside what a matrix read takes."""
        found, aimed = [], self.aimed[ring.tile]
        for dim, e in enumerate(self.index[ring.tile]):
            sums = summed(e, self.s.names)
            if sums is None:
                known = aimed.at[dim]
                sums = ((), known.value) if isinstance(known, Int) else ((known,), 0)
            more = sums[0]
            if dim == ring.row_dim:
                found.append(coordinate(Int(row + sums[1]), aimed.limits[0], *more, *of_row))
            elif dim == ring.col_dim:
                found.append(coordinate(Int(col + sums[1]), aimed.limits[1], *more, *of_col))
            else:
                found.append(coordinate(Int(sums[1]), None, *more))
        return Access(ring.tile, ring.tensor, tuple(found))

    def _access(self, ring: Ring, at: list[Operand], row: int, col: int) -> Access:
        """What a load brings, of the wave's piece that begins so many rows and columns behind its first."""
        found, aimed = [], self.aimed[ring.tile]
        for dim, where in enumerate(at):
            if dim == ring.row_dim:
                found.append(coordinate(where, aimed.limits[0], aimed.row, Int(row), "line"))
            elif dim == ring.col_dim:
                found.append(coordinate(where, aimed.limits[1], aimed.col, Int(col), "run"))
            else:
                found.append(coordinate(where))
        return Access(ring.tile, ring.tensor, tuple(found))


def _slot(tile: str) -> str:
    """The name of the address of the slot that is read; no name of a spec has a dot."""
    return f"{tile}.slot"


def _load_name(ring: Ring) -> tuple[str, tuple[str, ...]]:
    """Pieces of 16 rows; word t where products contract along the rows' own direction."""
    if ring.dtype.bytes == 4:
        return "matrix_load_16x16_b32", ("t", "lds")
    return ("matrix_load_16x32_b16", ("t", "lds")) if ring.contiguous else ("matrix_load_32x16_b16", ("lds",))
