"""The values of a program's scalars at a launch: given ones checked, the others by their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.dtypes import DType
from tilegen.ir.tile import Apply, Cast, Expr, Number, Scalar, Symbol, TileProgram
from tilegen.oracle.arithmetic import apply
from tilegen.oracle.field import Field

Value = float | int

_F32_BOUND = float(2**128 - 2**103)  # what is as large rounds to infinity


def scalar_values(program: TileProgram, sizes: Mapping[str, object], given: Mapping[str, Value]) -> dict[str, Value]:
    """Every scalar, as the kernel receives it: a float rounded to f32, or an int.

    `sizes` for the defaults (one that uses a ragged size cannot be evaluated: pass the scalar). Raises TilegenError
    with everything that is wrong: UNKNOWN_ARGUMENT, SCALAR_MISSING, SCALAR_VALUE, SCALAR_CONSTRAINT.
    """
    known = {s.name for s in program.scalars}
    faults = [
        fault(Code.UNKNOWN_ARGUMENT, None, kernel=program.name, name=name, known=", ".join(sorted(known)) or "none")
        for name in given
        if name not in known
    ]
    values: dict[str, Value] = {}
    for scalar in program.scalars:
        found = _value(scalar, sizes, given)
        if isinstance(found, Diagnostic):
            faults.append(found)
        else:
            values[scalar.name] = found
    if faults:
        raise TilegenError(tuple(faults))
    return values


def _value(scalar: Scalar, sizes: Mapping[str, object], given: Mapping[str, Value]) -> Value | Diagnostic:
    value: object = given.get(scalar.name)
    if value is None and scalar.default is not None:
        value = _default(scalar.default, sizes)
    if value is None:
        return fault(Code.SCALAR_MISSING, scalar.span, scalar=scalar.name, dtype=scalar.dtype)
    typed = _typed(value, scalar.dtype)
    if typed is None:
        wanted = "a whole number below 2**31" if scalar.dtype is DType.I32 else "a number in the range of f32"
        return fault(
            Code.SCALAR_VALUE, scalar.span, got=str(value), wanted=wanted,
            value=value, scalar=scalar.name, dtype=scalar.dtype,
        )  # fmt: skip
    rule = scalar.constraint
    if rule is not None and not rule.holds(typed):
        constraint = f"{rule.op} {rule.bound:g}"
        return fault(
            Code.SCALAR_CONSTRAINT, rule.span, got=f"{typed:g}", wanted=constraint,
            scalar=scalar.name, value=f"{typed:g}", constraint=constraint,
        )  # fmt: skip
    return typed


def _typed(value: object, dtype: DType) -> Value | None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    if dtype is DType.I32:
        whole = -(2**31) <= value < 2**31 and float(value).is_integer()
        return int(value) if whole else None
    if np.isfinite(number := _float(value)) and abs(number) >= _F32_BOUND:
        return None
    return float(np.float32(number))


def _float(value: float | np.floating[Any] | np.integer[Any]) -> float:
    try:
        return float(value)
    except OverflowError:  # an int beyond float64
        return _F32_BOUND


def _default(expr: Expr, sizes: Mapping[str, object]) -> float | None:
    """The value of a default over the sizes, or None if it uses one that has no single value."""
    try:
        with np.errstate(all="ignore"):
            return float(_field(expr, sizes).value)
    except LookupError:
        return None


def _field(expr: Expr, sizes: Mapping[str, object]) -> Field:
    match expr:
        case Number(value):
            return Field.exact((), np.asarray(float(value)))
        case Symbol(name):
            size = sizes[name]
            if not isinstance(size, int | np.integer):
                raise LookupError(name)
            return Field.exact((), np.asarray(float(size)))
        case Apply(op, args):
            return apply(op, tuple(_field(a, sizes) for a in args))
        case Cast(value):
            return _field(value, sizes)
    raise TypeError(f"a default is uniform, this depends on axes: {expr}")
