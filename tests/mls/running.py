"""Run the programs of tests/mls/programs.py on random data."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tests.mls.programs import COPY, GEMM, SOFTMAX, program
from tilegen.emulate.mls import Report, launch
from tilegen.targets.mls.program import Program

Array = npt.NDArray[Any]


def random(shape: tuple[int, ...], dtype: Any, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def poison(shape: tuple[int, ...], dtype: Any) -> Array:
    return np.full(shape, np.nan, dtype)


def copy(m: int, n: int, made: Program | None = None, **options: Any) -> tuple[Array, Array, Report]:
    """Y, what it is to be, and the launch's report."""
    x, y = random((m, n), ml_dtypes.bfloat16, 0), poison((m, n), ml_dtypes.bfloat16)
    grid = (-(-n // 32), -(-m // 16), 1)
    report = launch(made or program(COPY), grid, {"X": x, "Y": y, "M": m, "N": n}, **options)
    return y.astype(np.float32), x.astype(np.float32), report


def gemm(m: int, n: int, k: int, made: Program | None = None, **options: Any) -> tuple[Array, Array, Report]:
    a, b = random((m, k), ml_dtypes.bfloat16, 1), random((k, n), ml_dtypes.bfloat16, 2)
    c = poison((m, n), np.float32)
    grid = (-(-m // 16), -(-n // 32), 1)
    report = launch(made or program(GEMM), grid, {"A": a, "B": b, "C": c, "M": m, "N": n, "K": k}, **options)
    return c, a.astype(np.float64) @ b.astype(np.float64), report


def softmax(m: int, made: Program | None = None, **options: Any) -> tuple[Array, Array, Report]:
    x, y = random((m, 16), np.float32, 3), poison((m, 16), np.float32)
    report = launch(made or program(SOFTMAX), (-(-m // 16), 1, 1), {"X": x, "Y": y, "M": m}, **options)
    weights = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return y, weights / weights.sum(axis=1, keepdims=True), report
