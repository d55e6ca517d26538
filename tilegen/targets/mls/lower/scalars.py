"""Uniform whole numbers in scalar registers: arithmetic, conditions, 64-bit offsets, the kernel's arguments."""

from __future__ import annotations

from tilegen.ir.uniform import Int as UInt
from tilegen.ir.uniform import Op, Sym, Uniform
from tilegen.targets.mls import isa
from tilegen.targets.mls.lower.writer import Writer, high, low
from tilegen.targets.mls.program import SGPR, Argument, Int, Operand

ARGUMENTS = SGPR(isa.ARGUMENTS, 2)
_PLAIN = {"add": "s_add_i32", "sub": "s_sub_i32", "mul": "s_mul_i32", "min": "s_min_i32", "max": "s_max_i32"}
_COMPARE = {"eq": "eq", "ne": "lg", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


class Scalars:
    """Whole numbers that all lanes share. `names`: where the values bound so far stand."""

    def __init__(self, w: Writer, arguments: dict[str, Argument]) -> None:
        self.w = w
        self.arguments = arguments
        self.names: dict[str, Operand] = {}

    # ---- arguments ----

    def load(self, name: str, into: SGPR) -> None:
        """An argument of the kernel; to be waited for."""
        suffix = {1: "", 2: "x2", 4: "x4", 8: "x8"}[into.count]
        self.w.op(f"s_load_dword{suffix}", into, ARGUMENTS, self.arguments[name].offset, comment=name)

    # ---- expressions ----

    def value(self, e: Uniform) -> Operand:
        """Its value: a literal, the register of a name, or one to be released."""
        if isinstance(e, UInt):
            return Int(e.value)
        if isinstance(e, Sym):
            return self.names[e.name]
        if e.op in _PLAIN:
            a, b = (self.value(x) for x in e.args)
            return self._into(_PLAIN[e.op], a, b)
        if e.op in _COMPARE or e.op in ("and", "or"):
            return self._truth(e)
        if e.op == "select":
            return self._select(e)
        return self._division(e)

    def register(self, e: Uniform) -> SGPR:
        """The same in a register, also of a literal."""
        found = self.value(e)
        if isinstance(found, SGPR):
            return found
        out = self.w.scalar()
        self.w.op("s_mov_b32", out, found)
        return out

    def bind(self, name: str, e: Uniform) -> SGPR:
        """Put a value into a register of its own and give it a name. The caller releases it."""
        found = self.value(e)
        if isinstance(found, SGPR) and found not in self.names.values():
            out = found
            self.w.remark_last(name)
        else:
            out = self.w.scalar()
            self.w.op("s_mov_b32", out, found, comment=name)
        self.names[name] = out
        return out

    def _into(self, name: str, *sources: Operand) -> SGPR:
        self.release_unnamed(*sources)
        out = self.w.scalar()
        self.w.op(name, out, *sources)
        return out

    def release_unnamed(self, *operands: Operand) -> None:
        """Give back registers that no name stands for."""
        held = self.names.values()
        self.w.release(*(o for o in operands if o not in held))

    def condition(self, e: Uniform) -> None:
        """Leave in scc whether it holds."""
        if isinstance(e, Op) and e.op in _COMPARE:
            a, b = (self.value(x) for x in e.args)
            self.w.op(f"s_cmp_{_COMPARE[e.op]}_i32", a, b)
            self.release_unnamed(a, b)
        else:
            found = self.value(e)
            self.w.op("s_cmp_lg_i32", found, 0)
            self.release_unnamed(found)

    def branch_unless(self, e: Uniform, label: str) -> None:
        self.condition(e)
        self.w.op("s_cbranch_scc0", label)

    def _truth(self, e: Op) -> SGPR:
        if e.op in _COMPARE:
            self.condition(e)
            out = self.w.scalar()
            self.w.op("s_cselect_b32", out, 1, 0)
            return out
        a, b = (self.value(x) for x in e.args)  # 0 or 1 each
        return self._into("s_and_b32" if e.op == "and" else "s_or_b32", a, b)

    def _select(self, e: Op) -> SGPR:
        a, b = self.value(e.args[1]), self.value(e.args[2])
        self.condition(e.args[0])
        return self._into("s_cselect_b32", a, b)

    # ---- division ----

    def _division(self, e: Op) -> SGPR:
        dividend, divisor = e.args
        if isinstance(divisor, UInt) and divisor.value & (divisor.value - 1) == 0:
            shift = divisor.value.bit_length() - 1
            a = self.value(dividend)
            if e.op == "mod":
                return self._into("s_and_b32", a, Int(divisor.value - 1))
            if e.op == "ceildiv":
                a = self._into("s_add_i32", a, Int(divisor.value - 1))
            return self._into("s_ashr_i32", a, Int(shift))
        a, b = self.register(dividend), self.value(divisor)
        if e.op == "ceildiv":
            room = self.w.scalar()
            self.w.op("s_sub_i32", room, b, 1)
            self.w.op("s_add_i32", room, a, room)
            self.release_unnamed(a)
            a = room
        quotient = self._floor(a, b)
        if e.op != "mod":
            self.release_unnamed(a, b)
            return quotient
        self.w.op("s_mul_i32", quotient, quotient, b)
        self.w.op("s_sub_i32", quotient, a, quotient)
        self.release_unnamed(a, b)
        return quotient

    def _floor(self, a: Operand, b: Operand) -> SGPR:
        """a / b rounded down, b > 0: an estimate by the reciprocal, twice, then a step up or down."""
        w = self.w
        sign, x, q, rest, part = (w.scalar() for _ in range(5))
        w.op("s_ashr_i32", sign, a, 31, comment="division")
        w.op("s_xor_b32", x, a, sign)
        with w.vector_scratch(1) as inverse, w.vector_scratch(1) as estimate:
            w.op("v_cvt_f32_u32", inverse, b)
            w.op("v_rcp_f32", inverse, inverse)
            for n, (of, out) in enumerate(((x, q), (rest, part))):
                w.op("v_cvt_f32_i32", estimate, of)
                w.op("v_mul_f32", estimate, estimate, inverse)
                w.op("v_cvt_i32_f32", estimate, estimate)
                w.op("v_readfirstlane_b32", out, estimate)
                if n:
                    w.op("s_add_i32", q, q, part)
                w.op("s_mul_i32", rest, q, b)
                w.op("s_sub_i32", rest, x, rest)
        w.op("s_ashr_i32", part, rest, 31)
        w.op("s_add_i32", q, q, part, comment="one too many")
        w.op("s_and_b32", part, part, b)
        w.op("s_add_i32", rest, rest, part)
        w.op("s_cmp_ge_i32", rest, b)
        w.op("s_addc_u32", q, q, 0, comment="one too few")
        w.op("s_xor_b32", q, q, sign)
        w.release(sign, x, rest, part)
        return q

    # ---- 64 bits ----

    def add_offset(self, base: SGPR, index: Operand, tensor: str, dim: int, scale: int) -> None:
        """base (a pair) += index * stride of a tensor's dimension * scale, in 64 bits. scale: a power of two."""
        w = self.w
        stride = self.byte_stride(tensor, dim, scale)
        with w.scratch(2) as offset:
            self.product(offset, index, stride)
            w.op("s_add_u32", low(base), low(base), low(offset))
            w.op("s_addc_u32", high(base), high(base), high(offset))
        w.release(stride)

    def product(self, out: SGPR, index: Operand, stride: SGPR) -> None:
        """out (a pair) := index * stride, of which the stride is a pair."""
        w = self.w
        w.op("s_mul_i32", low(out), index, high(stride))
        w.op("s_mul_hi_u32", high(out), index, low(stride))
        w.op("s_add_u32", high(out), high(out), low(out))
        w.op("s_mul_i32", low(out), index, low(stride))

    def scaled(self, pair: SGPR, scale: int) -> None:
        """A pair times a power of two."""
        while scale > 1:
            self.w.op("s_add_u32", low(pair), low(pair), low(pair))
            self.w.op("s_addc_u32", high(pair), high(pair), high(pair))
            scale //= 2

    def byte_stride(self, tensor: str, dim: int, scale: int) -> SGPR:
        """A dimension's stride in bytes, a pair to be released."""
        out = self.w.scalar(2)
        self.load(f"{tensor}.stride{dim}", out)
        self.w.wait_lds()
        self.scaled(out, scale)
        return out
