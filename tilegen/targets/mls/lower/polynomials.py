"""Functions that the machine lacks, or has as an approximation only: fits of the relative error."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.targets.mls.lower.writer import Writer, number
from tilegen.targets.mls.program import VGPR, Operand, Signed

_TANGENT = ((1.12844145e-05, 0.00293773669, 0.129133105, 0.999999821),
            (2.41312023e-07, 0.000236788532, 0.0237612482, 0.462465078, 1.0))  # fmt: skip
_FAR = (-0.00174367568, 0.0219899453, -0.129957005, -0.941057146, -1.61448085, -0.00316785858)
_NEAR = (-0.000586210226, 0.0049675121, -0.0267488696, 0.112813212, -0.376124471, 1.12837911)
_MEETING = 0.95  # where erf changes from a polynomial to an exponential


def _horner(w: Writer, coefficients: Sequence[float], x: VGPR, out: VGPR) -> None:
    w.op("v_mov_b32", out, number(coefficients[0]))
    for c in coefficients[1:]:
        w.op("v_fma_f32", out, out, x, number(c))


def tangent(w: Writer, x: Operand) -> VGPR:
    """tanh within 5 units, and never beyond 1; a NaN stays one. A register to be released."""
    a, square, below, out = (w.vector() for _ in range(4))
    w.op("v_min_f32", a, x, number(7.9))
    w.op("v_max_f32", a, a, number(-7.9))
    w.op("v_mul_f32", square, a, a)
    _horner(w, _TANGENT[0], square, out)
    _horner(w, _TANGENT[1], square, below)
    w.op("v_rcp_f32", below, below)
    w.op("v_mul_f32", out, out, a)
    w.op("v_mul_f32", out, out, below)
    w.op("v_min_f32", out, out, number(1.0))
    w.op("v_max_f32", out, out, number(-1.0))
    mask = w.scalar(2)
    w.op("v_cmp_u_f32", mask, x, x)
    w.op("v_cndmask_b32", out, out, 0x7FC00000, mask)
    w.release(a, square, below, mask)
    return out


def error_function(w: Writer, x: Operand) -> VGPR:
    """erf within 3 units. A register to be released."""
    a, square, near, out = (w.vector() for _ in range(4))
    w.op("v_mul_f32", a, x, number(1.0))
    w.op("v_mul_f32", square, a, a)
    _horner(w, _NEAR, square, near)
    w.op("v_mul_f32", near, near, a)
    w.op("v_mul_f32", square, Signed(a, False, True), number(1.0))
    _horner(w, _FAR, square, out)
    w.op("v_exp_f32", out, out)
    w.op("v_sub_f32", out, number(1.0), out)
    with w.vector_scratch(1) as sign:
        w.op("v_and_b32", sign, 0x80000000, a)
        w.op("v_or_b32", out, out, sign)
    mask = w.scalar(2)
    w.op("v_cmp_lt_f32", mask, square, number(_MEETING))
    w.op("v_cndmask_b32", out, out, near, mask)
    w.release(a, square, near, mask)
    return out


def power(w: Writer, x: Operand, y: Operand) -> VGPR:
    """x to the power y, as C has it: of a negative x for whole y alone. A register to be released."""
    out, turned, whole = (w.vector() for _ in range(3))
    w.op("v_mul_f32", out, x, number(1.0))
    w.op("v_log_f32", out, Signed(out, False, True))
    w.op("v_mul_f32", out, out, y)
    w.op("v_exp_f32", out, out)
    negative, other = w.scalar(2), w.scalar(2)
    w.op("v_cmp_lt_f32", negative, x, number(0.0))
    w.op("v_mul_f32", turned, y, number(0.5))
    w.op("v_floor_f32", whole, turned)
    w.op("v_cmp_neq_f32", other, turned, whole, comment="an odd number, or none that is whole")
    w.op("s_and_b64", other, other, negative)
    w.op("v_mul_f32", turned, out, number(-1.0))
    w.op("v_cndmask_b32", out, out, turned, other)
    w.op("v_mul_f32", turned, y, number(1.0))
    w.op("v_floor_f32", whole, turned)
    w.op("v_cmp_neq_f32", other, turned, whole)
    w.op("s_and_b64", other, other, negative)
    w.op("v_cndmask_b32", out, out, 0x7FC00000, other)
    w.op("v_cmp_eq_f32", other, turned, number(0.0))
    w.op("v_cndmask_b32", out, out, number(1.0), other)
    w.release(turned, whole, negative, other)
    return out
