"""Matrix products, and tiles read from LDS.

A product is made transposed: the machine's rows are the columns of what the spec computes, its columns the 16 rows of
the wave. So an accumulator is the next product's operand as it stands (`layouts`).
"""

from __future__ import annotations

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import DType
from tilegen.ir.mls_plan import WAVE_ROWS, MlsPlan, Ring, TileOperand, WaveProduct
from tilegen.ir.plan import FragmentOperand, ReadShared
from tilegen.targets.mls.lower.lanes import LANE, Lanes
from tilegen.targets.mls.lower.layouts import WIDTH, blocks
from tilegen.targets.mls.lower.movement import WAVE, Movement
from tilegen.targets.mls.lower.writer import Writer, nth
from tilegen.targets.mls.program import SGPR, VGPR, Operand

_PRODUCT = {DType.BF16: "v_mmac_f32_16x16x16_bf16", DType.F16: "v_mmac_f32_16x16x16_f16"}


_EXPONENT = {DType.BF16: 0x7F80, DType.F16: 0x7C00}


class Products:
    """flags: by scanned tile, the lanes that have met an entry of it that is no finite number."""

    def __init__(self, w: Writer, lanes: Lanes, movement: Movement, plan: MlsPlan) -> None:
        self.w = w
        self.lanes = lanes
        self.movement = movement
        self.plan = plan
        self.flags: dict[str, SGPR] = {}

    def begin(self) -> None:
        """Nothing has been met."""
        for ring in self.plan.rings:
            if ring.scanned:
                self.flags[ring.tile] = flag = self.w.scalar(2)
                self.w.keep(flag)
                self.w.op("s_mov_b64", flag, 0, comment=f"{ring.tile}: finite so far")

    def product(self, op: WaveProduct) -> None:
        w, out = self.w, self.lanes.of(op.accumulator)
        right = self.plan.ring(op.right.tile)
        source = self._address(right, None, None)
        left_source: SGPR | None = None
        own: SGPR | None = None
        if isinstance(op.left, TileOperand):
            own = w.scalar()
            w.op("s_mul_i32", own, WAVE, WAVE_ROWS, comment="this wave's rows")
            left_source = self._own_address(op.left, own)
        w.op("s_nop", 0)
        count = blocks(op.n)
        with w.vector_scratch(2) as b, w.vector_scratch(2 * count) as a:
            for k in range(op.depth // WIDTH):
                factor: Operand
                if isinstance(op.left, FragmentOperand):
                    factor = nth(self.lanes.of(op.left.fragment), 2 * k, 2)
                else:
                    assert left_source is not None
                    self._read(b, op.left, 0, k * WIDTH, left_source, own)
                    factor = b
                for m in range(count):
                    self._read(nth(a, 2 * m, 2), op.right, m * WIDTH, k * WIDTH, source, None)
                w.wait_lds()
                if op.clean:
                    for r in range(2 * count):
                        self._clean(nth(a, r), op)
                for m in range(count):
                    d = nth(out, 4 * m, 4)
                    start: Operand | int = 0 if op.zero and not k else d
                    w.op(_PRODUCT[op.dtype], d, nth(a, 2 * m, 2), factor, start, comment=op.name)
        w.release(source)
        if left_source is not None and own is not None:
            w.release(left_source, own)

    def _clean(self, pair: VGPR, op: WaveProduct) -> None:
        """Numbers of a register that are not finite become 0; that there were any is remembered."""
        w, flag = self.w, self.flags[op.right.tile]
        exponent = _EXPONENT[op.dtype]
        with w.vector_scratch(1) as part, w.scratch(2) as found:
            for shift, other in ((0, 0xFFFF0000), (16, 0x0000FFFF)):
                w.op("v_and_b32", part, exponent << shift, pair)
                w.op("v_cmp_eq_u32", found, part, exponent << shift)
                w.op("v_and_b32", part, other, pair)
                w.op("v_cndmask_b32", pair, pair, part, found, comment=f"{op.right.tile}: finite numbers alone")
                w.op("s_or_b64", flag, flag, found)

    def _address(self, ring: Ring, row: SGPR | None, col: SGPR | None) -> SGPR:
        """LDS address of the slot at hand, of a row, a multiple of 16, or of a column, a multiple of 16."""
        w, piece = self.w, ring.piece
        out = w.scalar()
        w.op("s_mov_b32", out, self.movement.slot(ring), comment=f"{ring.tile}: the slot")
        with w.scratch(1) as offset:
            if row is not None:
                w.op("s_mul_i32", offset, row, piece.line)
                w.op("s_add_i32", out, out, offset)
            if col is not None:
                w.op("s_lshr_b32", offset, col, piece.cols.bit_length() - 1)
                w.op("s_mul_i32", offset, offset, ring.stripes * piece.bytes)
                w.op("s_add_i32", out, out, offset)
                w.op("s_and_b32", offset, col, piece.cols - 1)
                w.op("s_mul_i32", offset, offset, piece.dtype.bytes)
                w.op("s_add_i32", out, out, offset)
        return out

    def _own_address(self, left: TileOperand, own: SGPR) -> SGPR:
        ring = self.plan.ring(left.tile)
        return self._address(ring, own, None) if left.along == "cols" else self._address(ring, None, own)

    def _read(
        self, out: VGPR, operand: TileOperand, free: int, contracted: int, source: SGPR, own: SGPR | None
    ) -> None:
        """16 positions of the direction that is not contracted, from `free` on, and 16 contracted ones."""
        ring = self.plan.ring(operand.tile)
        own_part: tuple[Operand, ...] = () if own is None else (own,)
        if operand.along == "cols":
            name, row, col = "ds_read_matrix_b16", free, contracted
            access = self.movement.read(ring, row, col, of_row=(*own_part, "line"))
        else:
            name, row, col = "ds_read_matrix_trans_b16", contracted, free
            access = self.movement.read(ring, row, col, of_col=(*own_part, "run"))
        self.w.op(name, out, source, access=access, offset=place(ring, row, col))

    # ---- element by element ----

    def read_shared(self, op: ReadShared) -> None:
        """This wave's rows of a tile as f32."""
        w, lanes = self.w, self.lanes
        ring = self.plan.ring(op.slot.ring)
        f, out = lanes.fragments[op.out], lanes.of(op.out)
        if op.digit is not None:
            fail(Code.MLS_UNSUPPORTED, op.span, what=f"tile {ring.tile}, whose rows several rows share")
        with w.scratch(1) as own:
            w.op("s_mul_i32", own, WAVE, WAVE_ROWS, comment="this wave's rows")
            source = self._address(ring, own, None)
            if ring.dtype.bytes == 4:
                self._read_words(out, ring, blocks(f.cols), source, own)
            else:
                self._read_halves(out, ring, blocks(f.cols), source, own)
            w.release(source)

    def _read_halves(self, out: VGPR, ring: Ring, count: int, source: SGPR, own: SGPR) -> None:
        w = self.w
        w.op("s_nop", 0)
        for m in range(count):  # into the registers that the numbers end in: the halves of a pair make four of them
            access = self.movement.read(ring, 0, m * WIDTH, of_row=(own, "line"))
            w.op("ds_read_matrix_b16", nth(out, 4 * m, 2), source, access=access, offset=place(ring, 0, m * WIDTH))
        w.wait_lds()
        convert = "v_cvt_f32_bf16" if ring.dtype is DType.BF16 else "v_cvt_f32_f16"
        for m in range(count):
            x = [nth(out, 4 * m + e) for e in range(4)]
            for e in (1, 0):
                w.op("v_lshrrev_b32", x[2 * e + 1], 16, x[e])
                w.op(convert, x[2 * e + 1], x[2 * e + 1])
                w.op(convert, x[2 * e], x[e])

    def _read_words(self, out: VGPR, ring: Ring, count: int, source: SGPR, own: SGPR) -> None:
        """Of 32-bit numbers there is no matrix read: a lane's four columns lie together."""
        w = self.w
        with w.vector_scratch(1) as at, w.vector_scratch(1) as line:
            w.op("v_and_b32", line, 15, LANE)
            w.op("v_mul_lo_u32", at, line, ring.piece.line)
            w.op("v_add_u32", at, at, source)
            self.lanes.add_times(at, ring.dtype.bytes, self.lanes.first)
            for m in range(count):
                access = self.movement.read(ring, 0, m * WIDTH, (own, line), (self.lanes.first, "run"))
                w.op("ds_read_b128", nth(out, 4 * m, 4), at, access=access, offset=place(ring, 0, m * WIDTH))
            w.wait_lds()


def place(ring: Ring, row: int, col: int) -> int:
    """Bytes from a slot's begin to an element at the begin of a row's block."""
    part, inside = divmod(col, ring.piece.cols)
    return part * ring.stripes * ring.piece.bytes + row * ring.piece.line + inside * ring.dtype.bytes
