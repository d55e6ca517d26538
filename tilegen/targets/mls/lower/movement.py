"""How tiles come to LDS: descriptors, filters, loads, and zeros where there is nothing to load.

What a descriptor's bounds do elsewhere stands here as instructions. Three rules keep it right, and each defect that
can be asked for breaks one: offsets are 64 bits wide with their carry (`carry`); a load whose filter is the whole piece
is not issued (`tail`); the piece is then zeroed (`dirty-lds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.ir.mls_plan import Aim, Fetch, MlsPlan, ReadFrom, Ring
from tilegen.ir.uniform import Int as UInt
from tilegen.ir.uniform import Sym, Uniform, op
from tilegen.targets.mls import isa
from tilegen.targets.mls.lower.lanes import LANE
from tilegen.targets.mls.lower.scalars import Scalars
from tilegen.targets.mls.lower.writer import Writer, high, low, nth
from tilegen.targets.mls.program import SGPR, Access, Coordinate, Int, Operand, Part

WAVE = SGPR(isa.WAVE)
CARRY, TAIL, DIRTY_LDS = "carry", "tail", "dirty-lds"
DEFECTS = (CARRY, TAIL, DIRTY_LDS)
_FILTER_BITS = 8


@dataclass(frozen=True)
class Aimed:
    """Where a tile's loads begin for a work item: the address with what does not move, the stride of its lines in
    elements, and each coordinate."""

    base: SGPR
    stride: Operand
    at: tuple[Operand, ...]
    limits: tuple[Operand, Operand]  # of rows, of columns


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
                self._add(base, where, ring, dim)
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
        self.aimed[op_.tile] = Aimed(base, stride, tuple(at), limits)

    def _add(self, base: SGPR, where: Operand, ring: Ring, dim: int) -> None:
        """base += where * stride of a dimension, in bytes."""
        w, size = self.w, ring.dtype.bytes
        if dim == ring.col_dim:
            with w.scratch(2) as offset:
                w.op("s_mul_i32", low(offset), where, size)
                w.op("s_mul_hi_u32", high(offset), where, size)
                w.op("s_add_u32", low(base), low(base), low(offset), comment=f"{ring.tile}: base, low word")
                self._carry(high(base), high(base), high(offset), ring)
            return
        stride = self.s.byte_stride(ring.tensor, dim, size)
        with w.scratch(2) as offset:
            self.s.product(offset, where, stride)
            w.op("s_add_u32", low(base), low(base), low(offset), comment=f"{ring.tile}: base, low word")
            self._carry(high(base), high(base), high(offset), ring)
        w.release(stride)

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
        aimed = self.aimed[op_.tile]
        at = list(aimed.at)
        base = aimed.base
        moved: SGPR | None = None
        if op_.moving is not None:
            dim, where = op_.moving
            at[dim] = s.value(where)
            moved = w.scalar(2)
            w.op("s_mov_b64", moved, base)
            self._add(moved, at[dim], ring, dim)
            base = moved
        slot = self._stage(ring, op_.stage)
        waves = self.plan.waves
        for n in range(-(-ring.pieces // waves)):
            self._piece(ring, n, base, at, slot)
        s.w_release(slot)
        if moved is not None:
            w.release(moved)
            assert op_.moving is not None
            s.w_release(at[op_.moving[0]])

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

    def _piece(self, ring: Ring, n: int, base: SGPR, at: list[Operand], slot: Operand) -> None:
        """The nth piece of each wave."""
        w, waves, piece, limits = self.w, self.plan.waves, ring.piece, self.aimed[ring.tile].limits
        done, zero = w.label(f"{ring.tile}_done"), w.label(f"{ring.tile}_zero")
        number = w.scalar()
        w.op("s_add_i32", number, WAVE, n * waves, comment=f"{ring.tile}: this wave's piece {n}")
        if (n + 1) * waves > ring.pieces:
            w.op("s_cmp_lt_i32", number, ring.pieces)
            w.op("s_cbranch_scc0", done)
        row, col = self._corner(number, ring)
        target = w.scalar()
        w.op("s_lshl_b32", target, number, piece.bytes.bit_length() - 1)
        w.op("s_add_i32", target, target, slot)
        # filters: what lies past the limits
        lines, run = w.scalar(), w.scalar()
        top = Int(0) if ring.row_dim is None else at[ring.row_dim]
        self._filter(lines, row, top, limits[0], piece.rows, zero)
        self._filter(run, col, at[ring.col_dim], limits[1], piece.cols, zero)
        d = self.descriptor
        with w.scratch(2) as offset:
            self._offset(offset, row, col, ring)
            w.op("s_add_u32", low(d), low(base), low(offset), comment=f"{ring.tile}: base, low word")
            self._carry(nth(d, 1), high(base), high(offset), ring)
        w.op("s_and_b32", nth(d, 1), nth(d, 1), 0xFFFF)
        w.op("s_mov_b32", nth(d, 2), self.aimed[ring.tile].stride)
        w.op("s_lshl_b32", lines, lines, _FILTER_BITS)
        w.op("s_or_b32", nth(d, 3), lines, run, comment=f"{ring.tile}: filters")
        w.op("s_nop", 0)
        name, words = _load_name(ring)
        w.op(name, d, target, words=words, access=self._access(ring, at, row, col))
        if TAIL not in self.defects:
            w.op("s_branch", done)
            w.place(zero)
            self._zero(ring, target)
        w.place(done)
        w.release(number, row, col, target, lines, run)

    def _corner(self, number: SGPR, ring: Ring) -> tuple[SGPR, SGPR]:
        """Row and column of a piece in its tile, from its number: the stripes of rows run fastest."""
        w = self.w
        stripe, col = w.scalar(), w.scalar()
        if ring.stripes & (ring.stripes - 1):  # exact for numbers below 2**16 / stripes
            w.op("s_mul_i32", col, number, -(-65536 // ring.stripes))
            w.op("s_lshr_b32", col, col, 16)
            w.op("s_mul_i32", stripe, col, ring.stripes)
            w.op("s_sub_i32", stripe, number, stripe)
        else:
            w.op("s_lshr_b32", col, number, ring.stripes.bit_length() - 1)
            w.op("s_and_b32", stripe, number, ring.stripes - 1)
        w.op("s_mul_i32", stripe, stripe, ring.piece.rows)
        w.op("s_mul_i32", col, col, ring.piece.cols)
        return stripe, col

    def _filter(self, out: SGPR, corner: SGPR, at: Operand, limit: Operand, size: int, zero: str) -> None:
        """out := how many positions of a piece lie past the limit. Where all do, the piece is zeroed instead."""
        w = self.w
        w.op("s_add_i32", out, corner, at)
        w.op("s_add_i32", out, out, size)
        w.op("s_sub_i32", out, out, limit)
        w.op("s_max_i32", out, out, 0)
        if TAIL in self.defects:
            w.op("s_min_i32", out, out, size, comment="defect tail: a filter of the whole piece is issued")
            return
        w.op("s_cmp_ge_i32", out, size, comment="nothing of it is there")
        w.op("s_cbranch_scc1", zero)

    def _offset(self, out: SGPR, row: SGPR, col: SGPR, ring: Ring) -> None:
        """Bytes from the tile's corner to a piece's."""
        w, size, stride = self.w, ring.dtype.bytes, self.aimed[ring.tile].stride
        w.op("s_mul_i32", low(out), row, stride)
        w.op("s_mul_hi_u32", high(out), row, stride)
        w.op("s_add_u32", low(out), low(out), col)
        w.op("s_addc_u32", high(out), high(out), 0)
        self.s.scaled(out, size)

    def _zero(self, ring: Ring, target: SGPR) -> None:
        w = self.w
        if DIRTY_LDS in self.defects:
            w.remark(f"defect dirty-lds: nothing zeroes this piece of {ring.tile}")
            return
        address, zeros = w.vector(), w.vector(4)
        w.op("v_lshlrev_b32", address, 4, LANE)
        w.op("v_add_u32", address, address, target)
        for n in range(4):
            w.op("v_mov_b32", nth(zeros, n), 0)
        w.op("ds_write_b128", address, zeros, access=Access(ring.tile), comment=f"{ring.tile}: nothing to load")
        w.release(address, zeros)

    def read(self, ring: Ring, row: int, col: int, of_row: Operand | None, of_col: Operand | None) -> Access:
        """What a read of 16 rows and 16 columns is to find in the slot at hand; of_row, of_col: registers added to
        where it begins."""
        found, aimed = [], self.aimed[ring.tile]
        for dim, e in enumerate(self.index[ring.tile]):
            sums = summed(e, self.s.names)
            if sums is None:
                known = aimed.at[dim]
                sums = ((), known.value) if isinstance(known, Int) else ((known,), 0)
            more: list[Operand | str] = list(sums[0])
            if dim == ring.row_dim:
                more += ([of_row] if of_row is not None else []) + ["line"]
                found.append(coordinate(Int(row + sums[1]), aimed.limits[0], *more))
            elif dim == ring.col_dim:
                more += ([of_col] if of_col is not None else []) + ["run"]
                found.append(coordinate(Int(col + sums[1]), aimed.limits[1], *more))
            else:
                found.append(coordinate(Int(sums[1]), None, *more))
        return Access(ring.tile, ring.tensor, tuple(found))

    def _access(self, ring: Ring, at: list[Operand], row: SGPR, col: SGPR) -> Access:
        found, limits = [], self.aimed[ring.tile].limits
        for dim, where in enumerate(at):
            if dim == ring.row_dim:
                found.append(coordinate(where, limits[0], row, "line"))
            elif dim == ring.col_dim:
                found.append(coordinate(where, limits[1], col, "run"))
            else:
                found.append(coordinate(where))
        return Access(ring.tile, ring.tensor, tuple(found))


def summed(e: Uniform, names: Mapping[str, Operand]) -> tuple[tuple[Operand, ...], int] | None:
    """The registers and the constant whose sum an expression is, if it is one of names and numbers."""
    if isinstance(e, UInt):
        return (), e.value
    if isinstance(e, Sym):
        found = names[e.name]
        return ((), found.value) if isinstance(found, Int) else ((found,), 0)
    if e.op not in ("add", "sub"):
        return None
    a, b = (summed(x, names) for x in e.args)
    if a is None or b is None or (e.op == "sub" and b[0]):
        return None
    return (*a[0], *b[0]), a[1] + b[1] if e.op == "add" else a[1] - b[1]


def coordinate(at: Operand, limit: Operand | None = None, *more: Operand | str) -> Coordinate:
    """A sum of registers and literals."""
    parts: list[Part] = []
    constant = 0
    for x in (at, *more):
        if isinstance(x, Int):
            constant += x.value
        else:
            parts.append(Part(x))  # type: ignore[arg-type]
    bound = limit.value if isinstance(limit, Int) else limit
    return Coordinate(tuple(parts), constant, bound)  # type: ignore[arg-type]


def _slot(tile: str) -> str:
    """The name of the address of the slot that is read; no name of a spec has a dot."""
    return f"{tile}.slot"


def _load_name(ring: Ring) -> tuple[str, tuple[str, ...]]:
    """Pieces of 16 rows; word t where products contract along the rows' own direction."""
    if ring.dtype.bytes == 4:
        return "matrix_load_16x16_b32", ("t", "lds")
    return ("matrix_load_16x32_b16", ("t", "lds")) if ring.contiguous else ("matrix_load_32x16_b16", ("lds",))
