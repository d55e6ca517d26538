"""Tensors without a tile: elements and vectors that are read, and rows and vectors that are stored."""

from __future__ import annotations

from collections.abc import Collection

from tilegen.ir.dtypes import DType
from tilegen.ir.mls_plan import MlsPlan, Restore
from tilegen.ir.plan import Digit, LetFloat, LoadVector, RowStep, StoreRows, StoreVector
from tilegen.ir.uniform import Int as UInt
from tilegen.ir.uniform import Uniform
from tilegen.targets.mls.lower.accesses import coordinate
from tilegen.targets.mls.lower.lanes import LANE, Lanes, pack_name
from tilegen.targets.mls.lower.layouts import WIDTH, blocks, column, registers
from tilegen.targets.mls.lower.scalars import Scalars
from tilegen.targets.mls.lower.writer import EXEC, OFF, Writer, high, low, nth, number
from tilegen.targets.mls.program import SGPR, VGPR, Access, Coordinate, Int, Operand

_EXPONENT = 0x7F800000  # of an f32: all ones in infinities and NaN
_TOGETHER = 4  # columns that a lane holds side by side


class Tensors:
    def __init__(self, w: Writer, scalars: Scalars, lanes: Lanes, plan: MlsPlan) -> None:
        self.w = w
        self.s = scalars
        self.lanes = lanes
        self.plan = plan

    # ---- addresses ----

    def _base(
        self, tensor: str, index: tuple[Uniform, ...], left_out: Collection[int] = ()
    ) -> tuple[SGPR, list[Operand]]:
        """Address of an element, a pair to be released, and its coordinates, to be released too. left_out: dimensions
        that the address is to be at 0 of: only what is not negative may be added to it."""
        w, size = self.w, self.plan.tensor(tensor).dtype.bytes
        base = w.scalar(2)
        self.s.load(tensor, base)
        w.wait_lds()
        at = [self.s.value(x) for x in index]
        for dim, where in enumerate(at):
            if where != Int(0) and dim not in left_out:
                self.s.add_offset(base, where, tensor, dim, size)
        return base, at

    def _address(self, base: SGPR) -> VGPR:
        """A pair in every lane, to be released."""
        out = self.w.vector(2)
        for half in (low, high):
            self.w.op("v_mov_b32", half(out), half(base))
        return out

    def _step(self, address: VGPR, count: VGPR, tensor: str, dim: int) -> None:
        """address += count * stride of a dimension, in 64 bits."""
        w = self.w
        stride = self.s.byte_stride(tensor, dim, self.plan.tensor(tensor).dtype.bytes)
        with w.scratch(2) as carry, w.vector_scratch(1) as upper:
            w.op("v_mul_lo_u32", upper, count, high(stride))
            w.op("v_mad_u64_u32", address, carry, count, low(stride), address)
            w.op("v_add_u32", high(address), high(address), upper)
        w.release(stride)

    # ---- reads ----

    def load_float(self, op: LetFloat) -> None:
        """One element of a tensor, the same for all lanes."""
        assert op.load is not None
        w, (tensor, index) = self.w, op.load
        dtype = self.plan.tensor(tensor).dtype
        out, over = w.vector(), None
        if op.exists != UInt(1):
            over = w.label("over")
            w.op("v_mov_b32", out, 0, comment=f"{op.name}: 0 outside")
            self.s.branch_unless(op.exists, over)
        base, at = self._base(tensor, index)
        address = self._address(base)
        w.op(_load(dtype), out, address, OFF, access=Access(tensor, tensor, tuple(map(coordinate, at))))
        w.op("s_waitcnt", vmcnt=0)
        self._widen(out, dtype)
        w.release(base, address)
        self.s.release_unnamed(*at)
        if over is not None:
            w.place(over)
        old = self.lanes.floats.get(op.name)
        self.lanes.floats[op.name] = out
        if dtype is DType.I32:
            self.lanes.whole.add(op.name)
        if old is not None:
            w.release(old)

    def _widen(self, x: VGPR, dtype: DType) -> None:
        if dtype.bytes == 2:
            self.w.op("v_cvt_f32_bf16" if dtype is DType.BF16 else "v_cvt_f32_f16", x, x)

    def load_vector(self, op: LoadVector) -> None:
        w, lanes = self.w, self.lanes
        f, out = lanes.fragments[op.out], lanes.of(op.out)
        dtype = self.plan.tensor(op.tensor).dtype
        base, at = self._base(op.tensor, op.index, {op.dim} if op.from_below else ())
        limit = self.s.value(op.limit)
        start = at[op.dim]
        below = "v_cmp_lt_u32" if op.from_below else "v_cmp_lt_i32"  # unsigned, what lies below 0 is past the end
        with w.vector_scratch(1) as local, w.scratch(2) as saved:
            if f.layout == "row":
                lanes.digit(local, op.digit)
            else:
                w.op("v_mov_b32", local, lanes.first)
            for n in range(registers(f)):
                here = nth(out, n)
                w.op("v_mov_b32", here, 0, comment=f"{op.out}: 0 past the end")
                with w.vector_scratch(1) as place, w.scratch(2) as within:
                    w.op("v_add_u32", place, local, 0 if f.layout == "row" else column(n))
                    address = self._address(base)
                    if not op.from_below:
                        self._step(address, place, op.tensor, op.dim)
                    access = _lane_access(op.tensor, at, {op.dim: (place,)})
                    with w.vector_scratch(1) as global_place:
                        w.op("v_add_u32", global_place, place, start)
                        if op.from_below:
                            self._step(address, global_place, op.tensor, op.dim)
                        w.op(below, within, global_place, limit)
                    w.op("s_and_saveexec_b64", saved, within)
                    w.op(_load(dtype), here, address, OFF, access=access)
                    w.op("s_mov_b64", EXEC, saved)
                    w.release(address)
            w.op("s_waitcnt", vmcnt=0)
            for n in range(registers(f)):
                self._widen(nth(out, n), dtype)
        w.release(base)
        self.s.release_unnamed(*at, limit)

    def restore(self, op: Restore) -> None:
        """An element a lane at a time: those that are finite, and rows that do not see them, add 0."""
        w, lanes = self.w, self.lanes
        f, out = lanes.fragments[op.fragment], lanes.of(op.fragment)
        dtype = self.plan.tensor(op.tensor).dtype
        base, at = self._base(op.tensor, op.index)
        limit = self.s.value(op.limit)
        with w.scratch(2) as live, w.scratch(2) as mask, w.scratch(2) as saved, w.vector_scratch(1) as place:
            w.op("v_cmp_neq_f32", live, lanes.of(op.live), number(0.0))
            for n in range(registers(f)):
                with w.vector_scratch(1) as x, w.vector_scratch(1) as exponent:
                    w.op("v_add_u32", place, lanes.first, column(n))
                    w.op("v_mov_b32", x, 0)
                    address = self._address(base)
                    self._step(address, place, op.tensor, op.dim)
                    w.op("v_cmp_lt_i32", mask, place, limit)
                    w.op("s_and_saveexec_b64", saved, mask)
                    access = _lane_access(op.tensor, at, {op.dim: (place,)})
                    w.op(_load(dtype), x, address, OFF, access=access)
                    w.op("s_mov_b64", EXEC, saved)
                    w.op("s_waitcnt", vmcnt=0)
                    self._widen(x, dtype)
                    w.op("v_and_b32", exponent, _EXPONENT, x)
                    w.op("v_cmp_eq_u32", mask, exponent, _EXPONENT)
                    w.op("s_and_b64", mask, mask, live)
                    w.op("v_cndmask_b32", x, 0, x, mask)
                    w.op("v_add_f32", nth(out, n), nth(out, n), x, comment=op.fragment)
                    w.release(address)
        w.release(base)
        self.s.release_unnamed(*at, limit)

    # ---- stores ----

    def _rows(
        self, tensor: str, at: list[Operand], row_dim: int, row_limit: Uniform, shared: tuple[RowStep, ...]
    ) -> tuple[SGPR, dict[int, VGPR]]:
        """The lanes whose row is stored, and each row dimension's step of the lane, to be released."""
        w, lanes = self.w, self.lanes
        steps: dict[int, VGPR] = {}
        live = w.scalar(2)
        limits: list[tuple[int, Uniform, Digit | None]] = [(s.dim, s.limit, s.digit) for s in shared]
        for n, (dim, limit, digit) in enumerate(limits or [(row_dim, row_limit, None)]):
            steps[dim] = w.vector()
            lanes.digit(steps[dim], digit)
            end = self.s.value(limit)
            with w.vector_scratch(1) as place, w.scratch(2) as within:
                w.op("v_add_u32", place, steps[dim], at[dim])
                w.op("v_cmp_lt_i32", within if n else live, place, end)
                if n:
                    w.op("s_and_b64", live, live, within)
            self.s.release_unnamed(end)
        return live, steps

    def store_rows(self, op: StoreRows) -> None:
        w, lanes = self.w, self.lanes
        f, source = lanes.fragments[op.fragment], lanes.of(op.fragment)
        dtype = self.plan.tensor(op.tensor).dtype
        base, at = self._base(op.tensor, op.index)
        live, steps = self._rows(op.tensor, at, op.row_dim, op.row_limit, op.shared)
        address = self._address(base)
        for dim, step in steps.items():
            self._step(address, step, op.tensor, dim)
        with w.vector_scratch(1) as bytes_in, w.scratch(2) as carry:  # the lane's first column
            w.op("v_mul_lo_u32", bytes_in, lanes.first, dtype.bytes)
            w.op("v_add_co_u32", low(address), carry, low(address), bytes_in)
            w.op("v_addc_co_u32", high(address), carry, high(address), 0, carry)
        limit = self.s.value(op.col_limit)
        with w.vector_scratch(1) as col, w.scratch(2) as within, w.scratch(2) as saved:
            w.op("v_add_u32", col, lanes.first, at[op.col_dim])
            for m in range(blocks(f.cols)):
                with w.vector_scratch(1) as last:
                    w.op("v_add_u32", last, col, m * WIDTH + _TOGETHER)
                    w.op("v_cmp_le_i32", within, last, limit)
                w.op("s_and_b64", within, within, live)
                access = self._stored(op, at, steps, col, m * WIDTH)
                name, data = self._packed(source, m, dtype)
                w.op("s_and_saveexec_b64", saved, within)
                w.op(name, address, data, OFF, access=access, offset=m * WIDTH * dtype.bytes, comment=op.tensor)
                w.op("s_mov_b64", EXEC, saved)
                w.release(data)
        w.release(base, live, address, *steps.values())
        self.s.release_unnamed(*at, limit)

    def _stored(self, op: StoreRows, at: list[Operand], steps: dict[int, VGPR], col: VGPR, constant: int) -> Access:
        places: dict[int, tuple[Operand | str, ...]] = {dim: (step,) for dim, step in steps.items()}
        whole = [*at]
        whole[op.col_dim] = Int(constant)
        places[op.col_dim] = (col, "run")
        return _lane_access(op.tensor, whole, places)

    def _packed(self, source: VGPR, m: int, dtype: DType) -> tuple[str, VGPR]:
        """The store of four numbers, and their registers (to be released, if they are copies)."""
        if dtype.bytes == 4:
            return "global_store_dwordx4", nth(source, 4 * m, 4)
        data = self.w.vector(2)
        for half in range(2):
            pair = (nth(source, 4 * m + 2 * half), nth(source, 4 * m + 2 * half + 1))
            self.w.op(pack_name(dtype), nth(data, half), *pair)
        return "global_store_dwordx2", data

    def store_vector(self, op: StoreVector) -> None:
        """By the first of the four lanes that hold a row."""
        w, lanes = self.w, self.lanes
        dtype = self.plan.tensor(op.tensor).dtype
        base, at = self._base(op.tensor, op.index)
        live, steps = self._rows(op.tensor, at, op.dim, op.limit, op.shared)
        address = self._address(base)
        for dim, step in steps.items():
            self._step(address, step, op.tensor, dim)
        with w.scratch(2) as first, w.scratch(2) as saved, w.vector_scratch(1) as data:
            w.op("v_cmp_lt_i32", first, LANE, WIDTH)
            w.op("s_and_b64", first, first, live)
            x: Operand = lanes.of(op.fragment)
            name = "global_store_dword"
            if dtype.bytes == 2:
                w.op(pack_name(dtype), data, x, x)
                x, name = data, "global_store_short"
            w.op("s_and_saveexec_b64", saved, first)
            access = _lane_access(op.tensor, at, {dim: (step,) for dim, step in steps.items()})
            w.op(name, address, x, OFF, access=access, comment=op.tensor)
            w.op("s_mov_b64", EXEC, saved)
        w.release(base, live, address, *steps.values())
        self.s.release_unnamed(*at)


def _load(dtype: DType) -> str:
    return "global_load_ushort" if dtype.bytes == 2 else "global_load_dword"


def _lane_access(tensor: str, at: list[Operand], more: dict[int, tuple[Operand | str, ...]]) -> Access:
    found: list[Coordinate] = [coordinate(x, None, *more.get(dim, ())) for dim, x in enumerate(at)]
    return Access(tensor, tensor, tuple(found))
