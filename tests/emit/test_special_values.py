"""NaN, and divisors without a normal reciprocal: emulated kernels against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.emit.running import run
from tilegen.oracle import compare, evaluate, random_inputs, scalar_values
from tilegen.passes.pipeline import lower
from tilegen.sema import load
from tilegen.syntax.span import Source

SIZES = {"M": 70, "N": 40}
Inputs = dict[str, npt.NDArray[Any]]


def both(equations: str, outputs: str, change: dict[str, tuple[tuple[int, ...], float]]) -> Inputs:
    """The kernel's outputs, which agree with the oracle's, for random inputs with one element of each changed."""
    text = f"""kernel k {{
      size M, N
      input X: f32[M, N]
      input y: f32[M]
      {outputs}
      axis i in M, j in N
      tile x[i, j] = X[i, j]
      {equations}
      schedule hopper {{ block i 128, j 16 consumers 2 over i }}
    }}"""
    program = load(Source("special.tile", text), {})
    scalars = scalar_values(program, SIZES, {})
    inputs = dict(random_inputs(program, SIZES, 3))
    for name, (at, value) in change.items():
        inputs[name][at] = value
    got = run(lower(program), inputs, scalars, SIZES)
    for name, result in evaluate(program, SIZES, scalars, inputs).items():
        found = compare(result, got[name], ())
        assert found.right, (name, found)
    return got


@pytest.mark.parametrize("column", [0, 17, 39])
def test_a_nan_in_one_element(column: int) -> None:
    got = both(
        "high[i] = max[j](x[i, j]) low[i] = min[j](x[i, j])"
        " A[i, j] = max(x[i, j], 0) B[i, j] = min(0.5, x[i, j]) P[i, j] = softmax[j](x[i, j] + 0 * y[i])",
        "output high: f32[M] output low: f32[M] output A: f32[M, N] output B: f32[M, N] output P: f32[M, N]",
        {"X": ((66, column), np.nan)},
    )
    for name, values in got.items():
        nan: npt.NDArray[np.bool_] = np.isnan(values)
        assert np.unique(np.nonzero(nan)[0]).tolist() == [66], name
        assert nan.sum() == (40 if name == "P" else 1), name


@pytest.mark.parametrize("divisor", [2.0**-128, -3 * 2.0**-149, 1.7 * 2.0**127, 2.0**127, np.inf, 0.0])
def test_a_division_by_a_number_a_row(divisor: float) -> None:
    got = both("O[i, j] = x[i, j] * 0.001 / y[i]", "output O: f32[M, N]", {"y": ((3,), divisor)})
    assert np.isfinite(got["O"][4]).all()
    if abs(divisor) == 2.0**-128:
        assert np.isfinite(got["O"][3]).any()
