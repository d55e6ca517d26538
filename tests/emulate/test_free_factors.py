"""Factors that are free of a product's axes leave its sum, and a sum of no points stays 0 whatever they are."""

from __future__ import annotations

import numpy as np
import pytest

import tilegen

BESIDE = """kernel g {
  size M, N, K
  input A: f16[M, K]
  input B: f16[K, N]
  input R: f16[M, N]
  input left: f32[M]
  input right: f16[N]
  output C: f32[M, N]
  tile a[m, k] = A[m, k]
  tile b[k, n] = B[k, n]
  tile r[m, n] = R[m, n]
  C[m, n] = sum[k](TERM)
  schedule hopper { block m 64, n 64, k 64  consumers 1 over m }
}"""

TERMS = (
    "left[m] * a[m, k] * b[k, n] * r[m, n] * right[n]",
    "left[m] * a[m, k] * r[m, n] * (right[n] * b[k, n])",
    "-a[m, k] * (-right[n] * left[m]) * b[k, n] * r[m, n]",
)


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("K", [72, 0])
def test_factors_stand_anywhere_in_a_sum(term: str, K: int) -> None:
    rng = np.random.default_rng(1)
    A, B, R = (rng.standard_normal(shape).astype(np.float16) for shape in ((70, K), (K, 72), (70, 72)))
    left, right = rng.standard_normal(70).astype(np.float32), rng.standard_normal(72).astype(np.float16)
    left[3], right[5] = np.nan, np.inf
    got = np.asarray(
        tilegen.compile(BESIDE.replace("TERM", term)).emulate({"A": A, "B": B, "R": R, "left": left, "right": right})
    )
    if not K:
        assert np.array_equal(got, np.zeros((70, 72))), "a sum of no points is 0, also beside a NaN"
        return
    exact = (A.astype(np.float64) @ B) * R * left[:, None] * right[None, :]
    assert np.array_equal(np.isfinite(got), np.isfinite(exact))
    finite = np.isfinite(exact)
    assert np.max(np.abs(got[finite] - exact[finite])) < 1e-4 * np.max(np.abs(exact[finite]))


GATED = """kernel gated {
  size M, N
  input Q: f16[M, 64]
  input K: f16[N, 64]
  input V: f16[N, 64]
  input gate: f32[M]
  output O: f32[M, 64]
  axis i in M, j in N
  domain i, j: j <= i + N - M
  tile q[i, d] = Q[i, d]
  tile k[j, d] = K[j, d]
  tile v[j, e] = V[j, e]
  p[i, j] = softmax[j](sum[d](q[i, d] * k[j, d]) / 8)
  O[i, e] = sum[j](gate[i] * f16(p[i, j]) * v[j, e])
}"""


def test_a_row_without_points_is_0_beside_a_gate_that_is_no_number() -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((n, 64)).astype(np.float16) for n in (90, 24, 24))
    gate = rng.standard_normal(90).astype(np.float32)
    gate[[7, 80]] = np.nan
    got = np.asarray(tilegen.compile(GATED).emulate({"Q": q, "K": k, "V": v, "gate": gate}))
    assert np.array_equal(got[:66], np.zeros((66, 64))), "rows up to 65 see no key"
    assert np.all(np.isnan(got[80]))
    score = q.astype(np.float64) @ k.T / 8
    score[np.arange(24)[None, :] > np.arange(90)[:, None] - 66] = -np.inf
    weight = np.exp(score[66:])
    exact = gate[66:, None] * (weight / weight.sum(1, keepdims=True)) @ v
    assert np.nanmax(np.abs(got[66:] - exact)) < 5e-3
