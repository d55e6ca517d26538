"""How far an implementation's output is from the oracle's, beside what the spec allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilegen.oracle.named import Array
from tilegen.oracle.outputs import Result

Place = tuple[int, ...]
TELLING = 0.5  # what is allowed, relative to the output, from which on it tells nothing of it


@dataclass(frozen=True)
class Comparison:
    """worst: the largest |got - value| / allowed over the points that are in the domain and finite; at most 1 is
    right. worst_at: where, None if there is no such point.
    relative: the largest ||got - value|| / ||value|| (Frobenius) over the slices along the batch axes; None for an
    output with fewer than two other dimensions (such as LSE), for which absolute errors count.
    absolute: the largest |got - value|.
    slack: ||allowed|| / ||value|| over those points, no point allowed more than the largest |value|; 0 where all are 0.
    mismatches: points where one side is NaN or infinite and the other is not the same, and points outside the domain
    that do not hold the `else` constant. mismatch_at: the first of them.
    """

    worst: float
    worst_at: Place | None
    relative: float | None
    absolute: float
    slack: float
    mismatches: int
    mismatch_at: Place | None

    @property
    def right(self) -> bool:
        """Whether everything is as the spec allows."""
        return self.mismatches == 0 and self.worst <= 1.0

    @property
    def telling(self) -> bool:
        """Whether an output that is `right` is known to be: nearly anything would be, if more were allowed."""
        return self.slack <= TELLING


def compare(result: Result, got: Array, batch_axes: tuple[int, ...]) -> Comparison:
    """Compare an output with the oracle's. `batch_axes`: the dimensions (batch, head) whose slices are judged apart.

    Raises ValueError for an array of another shape.
    """
    if got.shape != result.value.shape:
        raise ValueError(f"the output has shape {got.shape}, wanted {result.value.shape}")
    got = np.asarray(got).astype(np.float64)
    value, allowed = result.value, result.allowed
    with np.errstate(all="ignore"):
        finite = np.isfinite(value)
        may_overflow = result.defined & finite & np.isinf(allowed)
        same = np.where(finite, np.isfinite(got) | (may_overflow & (got * value > 0)), _identical(got, value))
        outside = ~result.defined & ~(_identical(got, value) | (np.abs(got - value) <= allowed))
        wrong = np.where(result.defined, ~same, outside)
        counted = result.defined & finite & np.isfinite(got)
        error = np.where(counted, np.abs(got - value), 0.0)
        ratio = np.where(error > 0, error / allowed, 0.0)
    place = _first(ratio == ratio.max()) if counted.any() else None
    return Comparison(
        worst=float(ratio.max(initial=0.0)),
        worst_at=place,
        relative=_frobenius(error, np.where(counted, value, 0.0), batch_axes),
        absolute=float(error.max(initial=0.0)),
        slack=_slack(allowed[counted], value[counted]),
        mismatches=int(np.count_nonzero(wrong)),
        mismatch_at=_first(wrong),
    )


def _slack(allowed: Array, value: Array) -> float:
    largest = float(np.abs(value).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    return float(np.linalg.norm(np.minimum(allowed / largest, 1.0)) / np.linalg.norm(value / largest))


def _identical(got: Array, value: Array) -> Array:
    same: Array = (got == value) | (np.isnan(got) & np.isnan(value))
    return same


def _first(where: Array) -> Place | None:
    return tuple(int(n) for n in np.argwhere(where)[0]) if where.any() else None


def _frobenius(error: Array, value: Array, batch_axes: tuple[int, ...]) -> float | None:
    others = tuple(n for n in range(value.ndim) if n not in batch_axes)
    if len(others) < 2:
        return None
    norm = np.sqrt(np.sum(value**2, axis=others))
    distance = np.sqrt(np.sum(error**2, axis=others))
    ratio = np.divide(distance, norm, out=np.where(distance > 0, np.inf, 0.0), where=norm > 0)
    return float(np.max(ratio, initial=0.0))
