"""Divisions of whole numbers are exact under a floor, on every machine, and to the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilegen
from tilegen.ir.tile import TileProgram
from tilegen.oracle import evaluate, poisoned
from tilegen.runtime.mls import run
from tilegen.sema.loading import load
from tilegen.syntax.span import Source
from tilegen.targets.mls.build import build

Arrays = dict[str, npt.NDArray[Any]]

SPEC = """kernel every(R: 41 | 49 = 41) {
  size   M, N
  input  X: f32[M, N]
  output rest: f32[M, N]
  output part: f32[M, N]
  output same: f32[M, N]
  output cut: f32[M, N]
  scalar P: i32 > 0 = 41
  tile x[i, j] = X[i, j]
  rest[i, j] = i - j - R * floor((i - j) / R)
  part[i, j] = where(floor(j / P) == 1, x[i, j], 0)
  same[i, j] = where(3 * j / (2 * P) == 3, x[i, j], 0)
  cut[i, j] = floor(x[i, j] / R)
  schedule sm_80 { block i 128, j 32  warp_rows 16 }
}"""
M, N = 5, 136
SIZES = {"M": M, "N": N}


def program(R: int) -> TileProgram:
    return load(Source("every.tile", SPEC), {"R": R})


def wanted(X: npt.NDArray[Any], R: int, P: int) -> Arrays:
    i, j = np.arange(M)[:, None], np.arange(N)[None]
    return {
        "rest": np.broadcast_to((i - j) % R, (M, N)),
        "part": np.where(j // P == 1, X, 0),
        "same": np.where(j == 2 * P, X, 0),
        "cut": np.floor(X / np.float32(R)),
    }


def data(R: int) -> npt.NDArray[Any]:
    """Multiples of R, and the numbers beside them."""
    whole = (np.arange(M * N, dtype=np.float32).reshape(M, N) - 300) * np.float32(R)
    away = np.random.default_rng(2).integers(-1, 2, (M, N))
    return np.nextafter(whole, whole + away.astype(np.float32))


@pytest.mark.parametrize("R", [41, 49])
@pytest.mark.parametrize("target", ["hopper", "sm_80", "mls"])
def test_kernels_divide_whole_numbers_as_integers_do(target: str, R: int) -> None:
    X, P = data(R), 90 - R
    if target == "mls":
        made = program(R)
        got = {name: array.copy() for name, array in poisoned(made, SIZES).items()}
        run(build(made), made, {"X": X}, got, {**SIZES, "P": P})
    else:
        out = tilegen.compile(SPEC, R=R, target=target)(X=X, P=P)
        got = {name: getattr(out, name) for name in wanted(X, R, P)}
    for name, array in wanted(X, R, P).items():
        assert np.array_equal(got[name], array), name


@pytest.mark.parametrize("R", [41, 49])
def test_the_oracle_allows_no_error_of_them(R: int) -> None:
    X, P = data(R), 90 - R
    results = evaluate(program(R), SIZES, {"P": P}, {"X": X})
    for name, array in wanted(X, R, P).items():
        if name != "cut":  # the f32 quotient may round up to a whole number
            assert np.array_equal(results[name].value, array), name
            assert not results[name].allowed.any(), name


def test_a_quotient_with_a_name_of_its_own_is_rounded_as_any_other() -> None:
    text = """kernel k { size N input X: f32[N] output Y: f32[N]
        y[j] = X[j] / 41  Y[j] = floor(y[j]) }"""
    allowed = evaluate(load(Source("k.tile", text), {}), {"N": 2}, {}, {"X": np.array([41, 60], np.float32)})[
        "Y"
    ].allowed
    assert allowed[0] >= 1 > allowed[1]
