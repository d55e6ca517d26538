"""What stands in vector registers, and element expressions over it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import (
    Compute,
    Coordinate,
    Digit,
    Element,
    ElementExpr,
    Fragment,
    IntValue,
    Literal,
    Past,
    Place,
    Value,
)
from tilegen.ir.uniform import Uniform
from tilegen.targets.mls import isa
from tilegen.targets.mls.lower.layouts import column, digit_of, registers
from tilegen.targets.mls.lower.polynomials import error_function, power, tangent
from tilegen.targets.mls.lower.scalars import Scalars
from tilegen.targets.mls.lower.writer import Writer, nth, number
from tilegen.targets.mls.program import SGPR, VGPR, Float, Int, Operand, Signed

LANE = VGPR(isa.LANE)
_NAN = Int(0x7FC00000)
_COMPARISONS = {"eq": "eq", "ne": "neq", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
_WHOLE = frozenset(("add", "sub", "mul", "neg", "fma"))
_DIRECT = {"add": "v_add_f32", "sub": "v_sub_f32", "mul": "v_mul_f32", "fma": "v_fma_f32"}
_UNARY = {
    "ex2": "v_exp_f32",
    "lg2": "v_log_f32",
    "rcp": "v_rcp_f32",
    "sqrt": "v_sqrt_f32",
    "rsqrt": "v_rsq_f32",
    "floor": "v_floor_f32",
}
_PACK = {DType.BF16: "v_cvt_pk_bf16_f32", DType.F16: "v_cvt_pk_f16_f32"}
_UNPACK = {DType.BF16: "v_cvt_f32_bf16", DType.F16: "v_cvt_f32_f16"}


def pack_name(dtype: DType) -> str:
    """The instruction that rounds two numbers to a 16-bit type."""
    return _PACK[dtype]


class Lanes:
    """Fragments and uniform floats by name; evaluates element expressions, an element a lane at a time.

    row, first: registers that hold the lane's row in its group's 64, and its first column.
    """

    def __init__(self, w: Writer, scalars: Scalars, fragments: tuple[Fragment, ...]) -> None:
        self.w = w
        self.s = scalars
        self.fragments = {f.name: f for f in fragments}
        self.held: dict[str, VGPR] = {}
        self.floats: dict[str, Operand] = {}
        self.whole: set[str] = set()  # uniform values that are whole numbers
        for f in fragments:
            if f.storage == f.name:
                self.held[f.name] = w.vector(registers(f))
                w.keep(self.held[f.name])
        self.row, self.first = w.vector(), w.vector()
        w.keep(self.row)
        w.keep(self.first)
        self._known: dict[object, Operand] = {}  # of one operation, computed ahead of its elements

    def of(self, fragment: str) -> VGPR:
        """The registers of a fragment."""
        return self.held[self.fragments[fragment].storage or fragment]

    @contextmanager
    def transient(self, name: str) -> Iterator[VGPR]:
        """Registers for a fragment that exists inside a sweep."""
        f = self.fragments[name]
        with self.w.vector_scratch(registers(f)) as room:
            self.held[name] = room
            yield room
            del self.held[name]

    # ---- one operation ----

    @contextmanager
    def operation(self, *expressions: ElementExpr) -> Iterator[None]:
        """Computes what is the same for all of a lane's elements ahead of them, and keeps it as long as this lasts."""
        for e in expressions:
            self._hoist(e)
        yield
        self.w.release(*self._known.values())
        self._known.clear()

    def _hoist(self, e: ElementExpr) -> None:
        if not isinstance(e, Compute):
            return
        if self._row_only(e) and e.op not in ("neg", "abs", *_COMPARISONS, "and", "or", "not"):
            if e not in self._known:
                self._known[e] = self.value(e, 0)
            return
        for a in e.args:
            self._hoist(a)

    def _row_only(self, e: ElementExpr) -> bool:
        if isinstance(e, Element):
            return self.fragments[e.fragment].layout == "row"
        if isinstance(e, Coordinate):
            return e.along == "row"
        if isinstance(e, Place):
            return not e.col_factor
        if isinstance(e, Past):
            return False
        return not isinstance(e, Compute) or all(map(self._row_only, e.args))

    # ---- numbers ----

    def value(self, e: ElementExpr, n: int) -> Operand:
        """An expression at a lane's nth element, as f32: a register to be released, or something that stands."""
        if e in self._known:
            return self._known[e]
        if isinstance(e, Element):
            return self._element(e, n)
        if isinstance(e, Literal):
            return number(e.value)
        if isinstance(e, Value):
            found = self.floats[e.name]
            return self._converted(found, ("float", e)) if e.name in self.whole else found
        if isinstance(e, IntValue):
            return self._once(("float", e), lambda: self._convert(self.s.value(e.value)))
        if isinstance(e, Coordinate):
            return self._coordinate(e, n)
        if isinstance(e, Place):
            return self._place(e, n)
        if isinstance(e, Past):
            return number(float(column(n)))
        return self._compute(e, n)

    def _element(self, e: Element, n: int) -> Operand:
        f = self.fragments[e.fragment]
        register = nth(self.of(e.fragment), 0 if f.layout == "row" else n)
        if f.dtype is DType.I32:
            return self._convert(register)
        return register

    def _convert(self, whole: Operand) -> VGPR:
        out = self.w.vector()
        self.w.op("v_cvt_f32_i32", out, whole)
        self.s.release_unnamed(whole)
        return out

    def _converted(self, whole: Operand, key: object) -> Operand:
        return self._once(key, lambda: self._convert(whole))

    def _once(self, key: object, make: object) -> Operand:
        if key not in self._known:
            assert callable(make)
            self._known[key] = make()
        return self._known[key]

    def free(self, *operands: Operand) -> None:
        """Release what is nobody's."""
        known = (*self._known.values(), *self.floats.values())
        self.w.release(*(o for o in operands if _bare(o) not in known and o not in known))

    def _coordinate(self, e: Coordinate, n: int) -> Operand:
        lead = self._once(("lead", e), lambda: self._lead_of(e))
        if e.along == "row" or not column(n):
            return lead
        out = self.w.vector()
        self.w.op("v_add_f32", out, lead, number(float(column(n))))
        return out

    def _lead_of(self, e: Coordinate) -> VGPR:
        whole = self.lane_sum(e.origin, 1 if e.along == "row" and e.digit is None else 0, int(e.along == "col"), ())
        if e.along == "row" and e.digit is not None:
            self.w.release(whole)
            whole = self.lane_sum(e.origin, 0, 0, ((1, e.digit),))
        self.w.op("v_cvt_f32_i32", whole, whole)
        return whole

    def _place(self, e: Place, n: int) -> Operand:
        def make() -> VGPR:
            out = self.lane_sum(e.offset, e.row_factor, e.col_factor, e.digits)
            self.w.op("v_cvt_f32_i32", out, out)
            return out

        lead = self._once(("lead", e), make)
        past = e.col_factor * column(n)
        if not past:
            return lead
        out = self.w.vector()
        self.w.op("v_add_f32", out, lead, number(float(past)))
        return out

    def lane_sum(
        self, offset: Uniform, row_factor: int, col_factor: int, digits: tuple[tuple[int, Digit], ...]
    ) -> VGPR:
        """offset + row_factor * row + col_factor * first column + digits of the row, whole, in a register to be
        released."""
        w, out = self.w, self.w.vector()
        start = self.s.value(offset)
        w.op("v_mov_b32", out, start)
        self.s.release_unnamed(start)
        for factor, register in ((row_factor, self.row), (col_factor, self.first)):
            self.add_times(out, factor, register)
        for factor, d in digits:
            with w.vector_scratch(1) as at:
                self.digit(at, d)
                self.add_times(out, factor, at)
        return out

    def digit(self, out: VGPR, d: Digit | None) -> None:
        """out := where the lane's row is along one of the axes that share the rows."""
        shift, mask = digit_of(d)
        self.w.op("v_lshrrev_b32", out, shift, self.row)
        if mask:
            self.w.op("v_and_b32", out, mask, out)

    def add_times(self, out: VGPR, factor: int, register: VGPR) -> None:
        if factor in (1, -1):
            self.w.op("v_add_u32" if factor == 1 else "v_sub_u32", out, out, register)
        elif factor:
            with self.w.vector_scratch(1) as scaled:
                self.w.op("v_mul_lo_u32", scaled, register, factor & 0xFFFFFFFF)
                self.w.op("v_add_u32", out, out, scaled)

    # ---- operations ----

    def _compute(self, e: Compute, n: int) -> Operand:
        w = self.w
        if e.op in _COMPARISONS or e.op in ("and", "or", "not"):
            mask = self.truth(e, n)
            out = w.vector()
            w.op("v_cndmask_b32", out, number(0.0), number(1.0), mask)
            w.release(mask)
            return out
        if e.op == "select":
            a, b = self.value(e.args[1], n), self.value(e.args[2], n)
            mask = self.truth(e.args[0], n)
            return self._selected(mask, a, b)
        if e.op == "div" and isinstance(e.args[1], Literal) and 2.0**-100 < abs(e.args[1].value) < 2.0**100:
            return self._apply("v_mul_f32", self.value(e.args[0], n), number(1.0 / e.args[1].value))
        args = [self.value(a, n) for a in e.args]
        return self._operation(e, args)

    def _operation(self, e: Compute, args: list[Operand]) -> Operand:
        w = self.w
        if e.op == "neg":
            return _negated(args[0])
        if e.op == "abs":
            return _magnitude(args[0])
        if e.op in _DIRECT:
            return self._apply(_DIRECT[e.op], *args)
        if e.op in _UNARY:
            return self._apply(_UNARY[e.op], *args)
        if e.op in ("min", "max"):
            return self._extreme(e.op, *args)
        if e.op in ("div", "ratio"):
            return self._quotient(e.op, *args)
        if e.op == "div_rn":
            return self._rounded_quotient(*args)
        if e.op == "tanh_approx":
            return self._apply("v_tanh_f32", *args)
        if e.op == "tanh":
            return self._polynomial(tangent, args[0])
        if e.op == "erf":
            return self._polynomial(error_function, args[0])
        if e.op == "pow":
            raised = power(w, *args)
            self.free(*args)
            return raised
        if e.op == "round":
            assert e.dtype is not None
            out = self._apply(_PACK[e.dtype], args[0], number(0.0))
            w.op(_UNPACK[e.dtype], out, out)
            return out
        fail(Code.FUNCTION_UNSUPPORTED, w.span, function=e.op)

    def _apply(self, name: str, *args: Operand) -> VGPR:
        self.free(*args)
        out = self.w.vector()
        self.w.op(name, out, *args)
        return out

    def _selected(self, mask: Operand, a: Operand, b: Operand) -> VGPR:
        a, b = self.plain(a), self.plain(b)
        self.free(a, b)
        out = self.w.vector()
        self.w.op("v_cndmask_b32", out, b, a, mask)
        self.w.release(mask)
        return out

    def plain(self, x: Operand) -> Operand:
        """Without a sign modifier, which only float sources take."""
        return self._apply("v_mul_f32", x, number(1.0)) if isinstance(x, Signed) else x

    def _extreme(self, op: str, a: Operand, b: Operand) -> VGPR:
        """NaN where either is, which v_max and v_min leave out."""
        w, out = self.w, self.w.vector()
        mask = w.scalar(2)
        w.op("v_cmp_u_f32", mask, a, b)
        w.op(f"v_{op}_f32", out, a, b)
        w.op("v_cndmask_b32", out, out, _NAN, mask)
        w.release(mask)
        self.free(a, b)
        return out

    def _quotient(self, op: str, a: Operand, b: Operand) -> VGPR:
        w = self.w
        inverse = w.vector()
        w.op("v_rcp_f32", inverse, b)
        w.op("v_mul_f32", inverse, a, inverse)
        if op == "ratio":
            with w.scratch(2) as empty:
                w.op("v_cmp_eq_f32", empty, b, number(0.0))
                w.op("v_cndmask_b32", inverse, inverse, number(0.0), empty)
        self.free(a, b)
        return inverse

    def _rounded_quotient(self, a: Operand, b: Operand) -> VGPR:
        """Rounded to nearest: the reciprocal, and then the quotient, each mended by what is left of the product. Where
        that is no number (a divisor of 0, an infinite side) the quotient stands as it is."""
        w = self.w
        quotient = w.vector()
        with w.vector_scratch(1) as inverse, w.vector_scratch(1) as rest, w.scratch(2) as lost:
            w.op("v_rcp_f32", inverse, b)
            w.op("v_mul_f32", quotient, a, inverse)
            w.op("v_fma_f32", rest, _negated(b), inverse, number(1.0))
            w.op("v_fma_f32", inverse, rest, inverse, inverse)
            for _ in range(2):
                w.op("v_fma_f32", rest, _negated(b), quotient, a)
                w.op("v_fma_f32", rest, rest, inverse, quotient)
                w.op("v_cmp_u_f32", lost, rest, rest)
                w.op("v_cndmask_b32", quotient, rest, quotient, lost)
        self.free(a, b)
        return quotient

    def _polynomial(self, make: object, x: Operand) -> VGPR:
        assert callable(make)
        out = make(self.w, x)
        assert isinstance(out, VGPR)
        self.free(x)
        return out

    # ---- truth ----

    def truth(self, e: ElementExpr, n: int) -> SGPR:
        """A condition as a bit a lane: a pair to be released."""
        w = self.w
        if isinstance(e, Compute) and e.op in _COMPARISONS:
            mask = w.scalar(2)
            if all(map(self._is_whole, e.args)):
                a, b = (self._integer(x, n) for x in e.args)
                name = "ne" if e.op == "ne" else _COMPARISONS[e.op]
                w.op(f"v_cmp_{name}_i32", mask, a, b)
                self.s.release_unnamed(a, b)
            else:
                a, b = (self.value(x, n) for x in e.args)
                w.op(f"v_cmp_{_COMPARISONS[e.op]}_f32", mask, a, b)
                self.free(a, b)
            return mask
        if isinstance(e, Compute) and e.op in ("and", "or"):
            mask = self.truth(e.args[0], n)
            for other in e.args[1:]:
                more = self.truth(other, n)
                w.op(f"s_{e.op}_b64", mask, mask, more)
                w.release(more)
            return mask
        if isinstance(e, Compute) and e.op == "not":
            mask = self.truth(e.args[0], n)
            w.op("s_xor_b64", mask, mask, -1)
            return mask
        x = self.value(e, n)
        mask = w.scalar(2)
        w.op("v_cmp_neq_f32", mask, x, number(0.0))
        self.free(x)
        return mask

    def _from_i32(self, e: ElementExpr) -> bool:
        if isinstance(e, Value):
            return e.name in self.whole
        return isinstance(e, Element) and self.fragments[e.fragment].dtype is DType.I32

    def _is_whole(self, e: ElementExpr) -> bool:
        if isinstance(e, Compute):
            return e.op in _WHOLE and all(map(self._is_whole, e.args))
        if isinstance(e, Literal):
            return math.isfinite(e.value) and e.value == int(e.value) and abs(e.value) < 2.0**31
        return isinstance(e, IntValue | Coordinate | Place) or self._from_i32(e)

    def _integer(self, e: ElementExpr, n: int) -> Operand:
        """A whole number in 32-bit integers: a register to be released, or something that stands."""
        w = self.w
        if isinstance(e, Literal):
            return Int(int(e.value))
        if isinstance(e, IntValue):
            return self.s.value(e.value)
        if isinstance(e, Value):
            return self.floats[e.name]
        if isinstance(e, Element):
            f = self.fragments[e.fragment]
            return nth(self.of(e.fragment), 0 if f.layout == "row" else n)
        if isinstance(e, Coordinate):
            by_row = e.along == "row"
            digits = ((1, e.digit),) if by_row and e.digit is not None else ()
            out = self.lane_sum(e.origin, int(by_row and not digits), int(not by_row), digits)
            if not by_row and column(n):
                w.op("v_add_u32", out, out, column(n))
            return out
        if isinstance(e, Place):
            out = self.lane_sum(e.offset, e.row_factor, e.col_factor, e.digits)
            if e.col_factor:
                w.op("v_add_u32", out, out, (e.col_factor * column(n)) & 0xFFFFFFFF)
            return out
        assert isinstance(e, Compute)
        args = [self._integer(a, n) for a in e.args]
        out = w.vector()
        if e.op == "neg":
            w.op("v_sub_u32", out, 0, args[0])
        elif e.op == "mul":
            w.op("v_mul_lo_u32", out, *args)
        elif e.op == "fma":
            w.op("v_mul_lo_u32", out, *args[:2])
            w.op("v_add_u32", out, out, args[2])
        else:
            w.op("v_add_u32" if e.op == "add" else "v_sub_u32", out, *args)
        self.s.release_unnamed(*args)
        return out

    def uniform(self, name: str, e: ElementExpr) -> None:
        """Bind a float that all lanes share."""
        with self.operation():
            found = self.plain(self.value(e, 0))
            out = self.w.vector()
            self.w.op("v_mov_b32", out, found, comment=name)
            self.free(found)
        old = self.floats.get(name)
        self.floats[name] = out
        if old is not None:
            self.w.release(old)


def _bare(x: Operand) -> Operand:
    return x.of if isinstance(x, Signed) else x


def _magnitude(x: Operand) -> Operand:
    inner = _bare(x)
    if isinstance(inner, Int):  # the pattern of an infinity or NaN
        return Int(inner.value & 0x7FFFFFFF)
    if isinstance(inner, Float):
        return Float(abs(inner.value))
    assert isinstance(inner, SGPR | VGPR)
    return Signed(inner, False, True)


def _negated(x: Operand) -> Operand:
    if isinstance(x, Float):
        return Float(-x.value)
    if isinstance(x, Int):  # the pattern of an infinity or NaN
        return Int(x.value ^ 0x80000000)
    if isinstance(x, Signed):
        return x.of if x.negative and not x.magnitude else Signed(x.of, not x.negative, x.magnitude)
    assert isinstance(x, SGPR | VGPR)
    return Signed(x, True)
