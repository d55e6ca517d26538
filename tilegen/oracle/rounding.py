"""The error model: how far a right implementation may stand from the value over the reals.

Every value of the oracle travels with a bound on |implementation - value| (a running forward error bound).
What an implementation may do, and what each costs here:

- *Element-wise f32 arithmetic*: one unit in the last place, ULP * |result|, per operation. Rounding to nearest
  costs half of that; the rest pays for contraction to fma and for constants folded into one another.
- *Built-ins*: the errors that PTX states for `ex2.approx`, `lg2.approx`, `rcp.approx`, `rsqrt.approx`; e**x is
  computed as 2**(x * log2 e), whose argument is rounded too. tanh keeps within TANH, relative to its value,
  and tanh_approx within what PTX states for `tanh.approx`.
  Results under the smallest normal f32 may be zero.
- *Whole numbers*: what has the form of one (`ir.whole`) is exact up to 2**24 where its arguments are, and a division
  of two such numbers is rounded to nearest, so that its floor is theirs over the reals.
- *Positions*: a factor times a whole-number expression of positions may be taken apart into what is the same for a
  block and what varies inside it, at most POSITIONS positions: a unit of the factor for each of them.
- *Sums*: `summation_error`. An f32 sum of n terms makes n roundings, to nearest, each at most half a unit of a
  partial sum M: 4 * sqrt(n) units of M (n, if fewer). A tensor core adds the 16 terms of a k-step to the accumulator
  with truncation, and truncates the terms as they are aligned to the largest; truncation is biased, so these errors
  add linearly: two units of M per k-step. Online rescaling costs a rounding of M per block of at least 32 terms.
  M is at most the sum of the terms' magnitudes, and, unless the terms are ordered against us, at most |sum| plus
  four times the root of the sum of their squares: the smaller of the two is used.
- *Written casts and the store*: one unit of the type at the value cast (`unit`). Factors that are pulled out of a
  fold move the value within its binade; half a unit at the new place is never more than one at the old.
- *Casts inside a fold* of n terms: their errors e_j, |e_j| <= u_j, are those of a rounding. A systematic relative
  part (every term cast in the same direction) shifts the result by at most one relative unit of it; the rest is
  taken as independent and uniform with mean 0, so that it exceeds 4 * sqrt(sum u_j**2) with a probability below
  8e-11 (a uniform variable on [-u, u] is sub-Gaussian with variance u**2 / 3). The plain worst case, sum u_j, caps
  both. Independence is claimed only along axes that the cast value itself spans, only through products and
  quotients, and only for the first fold; otherwise the worst case counts.
"""

from __future__ import annotations

import numpy as np

from tilegen.ir.dtypes import DType
from tilegen.oracle.named import Array

ULP = 2.0**-23  # unit in the last place of f32, relative
SMALLEST_NORMAL = 2.0**-126  # of f32: `.ftz` may turn anything below it into 0
LARGEST = float(np.finfo(np.float32).max)
TANH = 5 * ULP  # relative error of tanh
TANH_APPROX = 2.0**-11  # of tanh_approx: tanh.approx.f32
EX2 = 2.0**-22  # relative error of ex2.approx.ftz
LG2 = 2.0**-22  # absolute error of lg2.approx.ftz in (0.5, 2), relative elsewhere
POSITIONS = 256  # the most positions of an axis that a tile holds
COVERAGE = 4.0  # multiples of a root of a sum of squares that count as a bound
TENSOR_CORE_STEP = 16  # terms that a tensor core adds at a time
RESCALE_BLOCK = 32  # the fewest terms between two rescalings of an accumulator


def unit(value: Array, bound: Array, dtype: DType) -> Array:
    """A unit of `dtype` where each value, known to `bound`, may be cast: its spacing at max(|x|, smallest normal).

    It is inf where the value may overflow the type, and 0 where it is not finite."""
    magnitude = np.maximum(np.abs(value) + bound, 2.0**dtype.smallest_normal_exponent)
    _, exponent = np.frexp(magnitude)
    largest = (2.0 - 2.0 ** (1 - dtype.precision)) * 2.0 ** (1 - dtype.smallest_normal_exponent)
    spacing = np.where(magnitude > largest, np.inf, np.ldexp(1.0, exponent - dtype.precision))
    units: Array = np.where(np.isfinite(value), spacing, 0.0)
    return units


def proper(bound: Array, value: Array) -> Array:
    """`bound` on the error of an f32 value made whole: unbounded where it is no number or f32 may overflow, and 0
    where the value itself is not finite, which is exact."""
    lost = np.isnan(bound) | (np.abs(value) + bound > LARGEST)
    whole: Array = np.where(np.isfinite(value), np.where(lost, np.inf, bound), 0.0)
    return whole


def relative_unit(dtype: DType) -> float:
    """The largest unit of `dtype` relative to the (normal) value it stands at."""
    return float(2.0 ** (1 - dtype.precision))


def representation_error(value: float) -> float:
    """What a number loses when it is held in f32."""
    with np.errstate(over="ignore"):
        return abs(value - float(np.float32(value))) if np.isfinite(value) else 0.0


def summation_error(n: int, total: Array, magnitudes: Array, squares: Array, tensor_core: bool) -> Array:
    """Bound on what adding `n` terms in f32 loses; `magnitudes`, `squares` are sum |t| and sum t**2."""
    partial = np.minimum(magnitudes, np.abs(total) + COVERAGE * np.sqrt(squares))
    steps = float(-(-n // RESCALE_BLOCK))
    products = np.minimum(magnitudes, COVERAGE * np.sqrt(squares))  # each term's own rounding
    if tensor_core:
        steps += 2.0 * -(-n // TENSOR_CORE_STEP)
        products = np.zeros(())  # there they are exact
    else:
        steps += min(float(n), COVERAGE * n**0.5)
    error: Array = ULP * (steps * partial + products)
    return error


def cast_error(total: Array, units: Array, squares: Array, relative: float) -> Array:
    """Bound on what casts inside a sum cost it; `units`, `squares` are sum u and sum u**2."""
    return np.minimum(units, COVERAGE * np.sqrt(squares) + relative * np.abs(total))


def exponential_error(exponent: Array, bound: Array, reference: Array | float = 0.0) -> Array:
    """Relative error of e**(exponent - reference) computed as 2**(… * log2 e), `exponent` known to `bound`."""
    return np.expm1(bound + ULP * (np.abs(exponent) + np.abs(reference))) + EX2
