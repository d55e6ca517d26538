"""min and max of floating-point numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.emulate.ptx.rounding import canonical32
from tilegen.emulate.ptx.types import Array, PtxType

Function = Callable[..., Array]


def extremum(largest: bool, nan: bool, xorsign: bool, t: PtxType) -> Function:
    """min or max: a NaN loses (or wins, with `nan`), -0 is less than +0; `xorsign` compares magnitudes."""
    pick: Function = (np.maximum if nan else np.fmax) if largest else (np.minimum if nan else np.fmin)

    def compute(a: Array, b: Array) -> Array:
        sign = np.signbit(a) != np.signbit(b) if xorsign else None
        if xorsign:
            a, b = np.abs(a), np.abs(b)
        value = pick(a, b)
        zero = value == 0
        if np.count_nonzero(zero):
            minus = (np.signbit(a) & np.signbit(b)) if largest else (np.signbit(a) | np.signbit(b))
            both = zero & (a == 0) & (b == 0)
            value = np.where(both, np.where(minus, a.dtype.type(-0.0), a.dtype.type(0)), value)
        if sign is not None:
            value = np.where(np.isnan(value), value, np.copysign(value, np.where(sign, -1.0, 1.0).astype(value.dtype)))
        return canonical32(value) if t.bits == 32 else value

    return compute
