"""Work on fragments: fills, maps, masks, folds along rows, casts to operands."""

from __future__ import annotations

from tilegen.ir.folded import FOLD_IDENTITY
from tilegen.ir.plan import Bound, Chunks, ElementExpr, Init, Map, Mask, QuadReduce, Relayout, RowFold
from tilegen.targets.mls.lower.lanes import LANE, Lanes, pack_name
from tilegen.targets.mls.lower.layouts import WIDTH, column, registers
from tilegen.targets.mls.lower.writer import Writer, nth, number
from tilegen.targets.mls.program import VGPR, Int, Operand

_NAN = Int(0x7FC00000)
_FOLD = {"sum": "v_add_f32", "max": "v_max_f32", "min": "v_min_f32"}


class Fragments:
    def __init__(self, w: Writer, lanes: Lanes) -> None:
        self.w = w
        self.lanes = lanes

    def init(self, op: Init) -> None:
        f = self.lanes.fragments[op.fragment]
        for n in range(registers(f)):
            self.w.op("v_mov_b32", nth(self.lanes.of(f.name), n), number(op.value), comment="" if n else f.name)

    def map(self, op: Map) -> None:
        f = self.lanes.fragments[op.out]
        out = self.lanes.of(op.out)
        with self.lanes.operation(op.value):
            for n in range(registers(f)):
                found = self.lanes.value(op.value, n)
                self._move(nth(out, n), found)
                self.w.remark_last(op.out)

    def _move(self, out: VGPR, found: Operand) -> None:
        """out := found, by the instruction that made it if it made nothing else."""
        if self.w.retarget(found, out):
            return
        plain = self.lanes.plain(found)
        self.w.op("v_mov_b32", out, plain)
        self.lanes.free(plain)

    # ---- masks ----

    def mask(self, op: Mask) -> None:
        f, w = self.lanes.fragments[op.fragment], self.w
        out = self.lanes.of(op.fragment)
        bounds = [c for conditions in op.alternatives for c in conditions if isinstance(c, Bound)]
        leads = {b: self._lead(b) for b in dict.fromkeys(bounds)}
        expressions = [c for conditions in op.alternatives for c in conditions if not isinstance(c, Bound)]
        with self.lanes.operation(*expressions):
            for n in range(registers(f)):
                keep = self._any(op, leads, n)
                register = nth(out, n)
                w.op("v_cndmask_b32", register, number(op.identity), register, keep, comment=op.fragment)
                w.release(keep)
        w.release(*leads.values())

    def _any(self, op: Mask, leads: dict[Bound, VGPR], n: int) -> Operand:
        found: Operand | None = None
        for conditions in op.alternatives:
            held = self._all(conditions, leads, n)
            if found is None:
                found = held
            else:
                self.w.op("s_or_b64", found, found, held)
                self.w.release(held)
        assert found is not None
        return found

    def _all(self, conditions: tuple[Bound | ElementExpr, ...], leads: dict[Bound, VGPR], n: int) -> Operand:
        found: Operand | None = None
        for c in conditions:
            held = self._holds(c, leads[c], n) if isinstance(c, Bound) else self.lanes.truth(c, n)
            if found is None:
                found = held
            else:
                self.w.op("s_and_b64", found, found, held)
                self.w.release(held)
        if found is None:
            found = self.w.scalar(2)
            self.w.op("s_mov_b64", found, -1)
        return found

    def _lead(self, b: Bound) -> VGPR:
        """What a bound says at the lane's first column, its columns in chunks left out."""
        lanes = self.lanes
        row = 0 if b.row_chunks else b.row_factor
        col = 0 if b.col_chunks else b.col_factor
        out = lanes.lane_sum(b.offset, row, col, b.digits)
        if b.row_chunks:
            digits = ((1, b.row_chunks.digit),) if b.row_chunks.digit else ()
            at = lanes.lane_sum(b.row_chunks.origin, 0 if digits else 1, 0, digits)
            self._divide(at, b.row_chunks)
            lanes.add_times(out, b.row_factor, at)
            self.w.release(at)
        return out

    def _holds(self, b: Bound, lead: VGPR, n: int) -> Operand:
        w = self.w
        keep = w.scalar(2)
        if b.col_chunks:
            with w.vector_scratch(1) as total:
                at = self.lanes.lane_sum(b.col_chunks.origin, 0, 1, ())
                w.op("v_add_u32", at, at, column(n))
                self._divide(at, b.col_chunks)
                w.op("v_mov_b32", total, lead)
                self.lanes.add_times(total, b.col_factor, at)
                w.release(at)
                w.op("v_cmp_ge_i32", keep, total, 0)
            return keep
        w.op("v_cmp_ge_i32", keep, lead, -b.col_factor * column(n))
        return keep

    def _divide(self, x: VGPR, chunks: Chunks) -> None:
        """x := x div the length, rounded down; both below 2**31, x no less than 0."""
        w, s = self.w, self.lanes.s
        length = s.value(chunks.length)
        q, rest, estimate, inverse = (w.vector() for _ in range(4))
        w.op("v_cvt_f32_u32", inverse, length, comment="division")
        w.op("v_rcp_f32", inverse, inverse)
        w.op("v_mov_b32", rest, x)
        w.op("v_mov_b32", q, 0)
        for _ in range(2):
            w.op("v_cvt_f32_i32", estimate, rest)
            w.op("v_mul_f32", estimate, estimate, inverse)
            w.op("v_cvt_i32_f32", estimate, estimate)
            w.op("v_add_u32", q, q, estimate)
            w.op("v_mul_lo_u32", rest, q, length)
            w.op("v_sub_u32", rest, x, rest)
        w.op("v_ashrrev_i32", estimate, 31, rest)
        w.op("v_add_u32", q, q, estimate, comment="one too many")
        w.op("v_and_b32", estimate, estimate, length)
        w.op("v_add_u32", rest, rest, estimate)
        with w.scratch(2) as over:
            w.op("v_cmp_ge_i32", over, rest, length)
            w.op("v_addc_co_u32", x, over, q, 0, over)
        w.release(q, rest, estimate, inverse)
        s.release_unnamed(length)

    # ---- folds ----

    def row_fold(self, op: RowFold) -> None:
        w, lanes = self.w, self.lanes
        f = lanes.fragments[op.source]
        source, out = lanes.of(op.source), lanes.of(op.out)
        spoiled = self._unordered(op.kind)
        within = self._columns_that_exist(f.cols)
        with w.vector_scratch(1) as total, w.vector_scratch(1) as one:
            count = registers(f)
            for n in range(count):
                x: Operand = nth(source, n)
                if within is not None and n >= count - 4:
                    w.op("v_cndmask_b32", one, number(FOLD_IDENTITY[op.kind]), x, within)
                    x = one
                self._note(spoiled, x, first=not n)
                if n:
                    w.op(_FOLD[op.kind], total, total, x)
                else:
                    w.op("v_mov_b32", total, x)
            self._spoil(spoiled, total)
            if op.scope == "quad":
                self._across(total, op.kind)
            w.op("v_mov_b32", out, total, comment=op.out)
        if within is not None:
            w.release(within)

    def _columns_that_exist(self, cols: int) -> Operand | None:
        """Lanes whose columns of the last block are less than `cols`; None where it is whole."""
        if cols % WIDTH == 0:
            return None
        mask = self.w.scalar(2)
        self.w.op("v_cmp_lt_i32", mask, self.lanes.first, cols % WIDTH)
        return mask

    def _unordered(self, kind: str) -> Operand | None:
        """Room for the lanes that have met a NaN, which a maximum leaves out."""
        return None if kind == "sum" else self.w.scalar(2)

    def _note(self, spoiled: Operand | None, x: Operand, *, first: bool) -> None:
        if spoiled is None:
            return
        if first:
            self.w.op("v_cmp_u_f32", spoiled, x, x)
            return
        with self.w.scratch(2) as more:
            self.w.op("v_cmp_u_f32", more, x, x)
            self.w.op("s_or_b64", spoiled, spoiled, more)

    def _spoil(self, spoiled: Operand | None, x: Operand) -> None:
        if spoiled is not None:
            self.w.op("v_cndmask_b32", x, x, _NAN, spoiled)
            self.w.release(spoiled)

    def quad_reduce(self, op: QuadReduce) -> None:
        self._across(self.lanes.of(op.fragment), op.kind)

    def _across(self, x: VGPR, kind: str) -> None:
        """Combine the four lanes of a row: 16 and 32 lanes apart."""
        w = self.w
        with w.vector_scratch(1) as other, w.vector_scratch(1) as at:
            for distance in (16, 32):
                w.op("v_xor_b32", at, distance, LANE)
                w.op("v_lshlrev_b32", at, 2, at)
                w.op("ds_bpermute_b32", other, at, x)
                w.wait_lds()
                spoiled = self._unordered(kind)
                self._note(spoiled, x, first=True)
                self._note(spoiled, other, first=False)
                w.op(_FOLD[kind], x, x, other)
                self._spoil(spoiled, x)

    # ---- operands ----

    def relayout(self, op: Relayout) -> None:
        w, lanes = self.w, self.lanes
        f, g = lanes.fragments[op.source], lanes.fragments[op.out]
        source, out = lanes.of(op.source), lanes.of(op.out)
        within = self._columns_that_exist(f.cols)
        count = registers(f)
        for n in range(0, count, 2):
            pair: tuple[Operand, ...] = (nth(source, n), nth(source, n + 1))
            w.op(pack_name(g.dtype), nth(out, n // 2), *pair, comment=op.out)
            if within is not None and n >= count - 4:
                w.op("v_cndmask_b32", nth(out, n // 2), 0, nth(out, n // 2), within)
        if within is not None:
            w.release(within)
