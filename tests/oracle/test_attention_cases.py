"""Attention where users found other kernels wrong: what the oracle says the right answer is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import formulas
from tests.oracle.specs import SINK, WINDOW, spec
from tilegen.oracle import evaluate, random_inputs, scalar_values
from tilegen.sema import load

ROOT = Path(__file__).parents[2]


def attention(
    Sq: int, Sk: int, causal: bool = True, D: int = 64, **changed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """O [Sq, D] and LSE [Sq] of one head, and the inputs."""
    program = load(ROOT / "samples/fa3_fwd.tile", {"D": D, "causal": causal})
    sizes: dict[str, Any] = {"B": 1, "Sq": Sq, "Sk": Sk, "Hk": 1, "G": 1}
    data = random_inputs(program, sizes, 2)
    for name, array in changed.items():
        data[name] = array
    got = evaluate(program, sizes, scalar_values(program, sizes, {}), data)
    return got["O"].value[0, :, 0], got["LSE"].value[0, 0], data


def test_more_queries_than_keys_leaves_the_first_rows_empty() -> None:
    out, LSE, data = attention(5, 2)
    assert not out[:3].any()
    assert np.isneginf(LSE[:3]).all()
    v, score = formulas.f64(data["V"])[0, :, 0], formulas.scores(data["Q"], data["K"], 1 / 8)[0, 0]
    np.testing.assert_array_equal(out[3], v[0])
    assert LSE[3] == pytest.approx(score[3, 0])
    weights = np.exp(score[4]) / np.exp(score[4]).sum()
    np.testing.assert_allclose(out[4], weights @ v)


def test_the_last_row_sees_every_key() -> None:
    out, LSE, data = attention(3, 128)
    full, lse = formulas.attention(data["Q"], data["K"], data["V"], 1 / 8, False)
    np.testing.assert_allclose(out[2], full[0, 2, 0], atol=1e-13)
    assert LSE[2] == pytest.approx(lse[0, 0, 2])
    assert LSE[0] < lse[0, 0, 0]


def test_hundreds_of_rows_without_a_key() -> None:
    out, LSE, _ = attention(700, 30)
    assert not out[:670].any()
    assert np.isneginf(LSE[:670]).all()
    assert np.isfinite(LSE[670:]).all()
    assert np.abs(out[670:]).min(axis=1).all()


@pytest.mark.parametrize("causal", [False, True])
def test_no_keys_at_all(causal: bool) -> None:
    out, LSE, _ = attention(4, 0, causal)
    assert out.shape == (4, 64)
    assert not out.any()
    assert np.isneginf(LSE).all()


def test_no_queries_at_all() -> None:
    out, LSE, _ = attention(0, 4)
    assert out.shape == (0, 64)
    assert LSE.shape == (0,)


@pytest.mark.parametrize("length", [9, 12, 137, 1025])
def test_lengths_that_fit_no_block(length: int) -> None:
    out, LSE, data = attention(length, length)
    want, lse = formulas.attention(data["Q"], data["K"], data["V"], 1 / 8, True)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out, want[0, :, 0], atol=1e-12)
    np.testing.assert_allclose(LSE, lse[0, 0], atol=1e-12)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_values_at_masked_keys_do_not_exist(poison: float) -> None:
    out, LSE, data = attention(6, 6)
    V, K = data["V"].copy(), data["K"].copy()
    V[0, 4], K[0, 4] = poison, poison
    bad, lse, _ = attention(6, 6, V=V, K=K)
    np.testing.assert_array_equal(bad[:4], out[:4])
    np.testing.assert_array_equal(lse[:4], LSE[:4])
    assert not np.isfinite(bad[4:]).any()


def test_a_value_that_is_not_finite_reaches_only_its_own_column() -> None:
    out, _, data = attention(6, 6)
    V = data["V"].copy()
    V[0, 2, 0, 7] = np.inf
    bad, _, _ = attention(6, 6, V=V)
    assert (bad[2:, 7] == np.inf).all()
    bad[2:, 7] = out[2:, 7]
    np.testing.assert_allclose(bad, out, atol=1e-14)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_neighbours_of_a_value_that_is_not_finite_keep_their_own_tolerance(poison: float) -> None:
    """Rows of few keys: what another column holds at one of them takes nothing from what the weights' casts cost."""
    program = load(ROOT / "samples/attention_window.tile", {"D": 64})
    sizes = {"B": 1, "Sq": 15, "Sk": 18, "Hk": 1, "G": 2}
    scalars = scalar_values(program, sizes, {"left": 4, "right": 1})
    data = random_inputs(program, sizes, 3)
    plain = evaluate(program, sizes, scalars, data)["O"]
    V = data["V"].copy()
    V[np.random.default_rng(3).random(V.shape) < 0.05] = poison
    some = evaluate(program, sizes, scalars, data | {"V": V})["O"]
    clean = np.isfinite(some.value)
    assert 0.1 < clean.mean() < 0.99
    np.testing.assert_allclose(some.value[clean], plain.value[clean], atol=1e-14)
    np.testing.assert_allclose(some.allowed[clean], plain.allowed[clean], rtol=1e-9)


def test_windows() -> None:
    program = spec(WINDOW)
    for Sq, Sk in [(9, 9), (129, 40), (12, 30)]:
        sizes = {"Sq": Sq, "Sk": Sk}
        data = random_inputs(program, sizes, 4)

        def run(left: int, right: int, sizes: dict[str, int] = sizes, data: Any = data) -> np.ndarray:
            scalars = scalar_values(program, sizes, {"left": left, "right": right})
            return evaluate(program, sizes, scalars, data)["O"].value

        for left, right in [(-1, -1), (-1, 0), (3, 5), (32, 64), (0, 0)]:
            Q, K, V = (data[n][None, :, None, :] for n in "QKV")
            want, _ = formulas.attention(Q, K, V, 1.0, window=(left, right))
            np.testing.assert_allclose(run(left, right), want[0, :, 0], atol=1e-12)
        longest = max(Sq, Sk)
        np.testing.assert_array_equal(run(longest, 0), run(-1, 0))


def test_a_sink_is_all_that_an_empty_row_sees() -> None:
    program = spec(SINK)
    sizes = {"Sq": 3, "Sk": 4, "H": 1}
    data = random_inputs(program, sizes, 6)
    got = evaluate(program, sizes, {}, data)
    c = float(data["C"][0])
    assert not got["O"].value[0, 0].any()
    assert got["LSE"].value[0, 0] == pytest.approx(np.log(np.exp(c) + np.exp(0.5)))


@pytest.mark.parametrize(("score", "weight"), [(np.nan, np.nan), (np.inf, np.nan), (-np.inf, 0.0)])
def test_live_scores_that_are_not_finite(score: float, weight: float) -> None:
    program = load(ROOT / "samples/row_softmax.tile", {"T": "f16"})
    X = np.zeros((2, 4), dtype=np.float16)
    X[0, 1] = score
    got = evaluate(program, {"M": 2, "N": 4}, {}, {"X": X})["Y"].value
    np.testing.assert_array_equal(got[0], [weight] * 4 if np.isnan(weight) else [1 / 3, 0, 1 / 3, 1 / 3])
    np.testing.assert_array_equal(got[1], [0.25] * 4)


def test_a_live_row_of_nothing_but_minus_infinity() -> None:
    program = spec("""
        kernel rows { size M, N  input X: f32[M, N]  output Y: f32[M, N]  output L: f32[M]
          axis i in M, j in N
          Y[i, j] = softmax[j](X[i, j])
          L[i] = logsumexp[j](X[i, j]) }
    """)
    X = np.full((1, 3), -np.inf, dtype=np.float32)
    got = evaluate(program, {"M": 1, "N": 3}, {}, {"X": X})
    np.testing.assert_array_equal(got["Y"].value, np.zeros((1, 3)))
    assert np.isneginf(got["L"].value).all()


def test_large_scores_keep_their_range() -> None:
    program = load(ROOT / "samples/row_softmax.tile", {})
    X = np.array([[3e4, 3e4, 0.0], [-3e4, -3.01e4, -3e4]], dtype=np.float32)
    got = evaluate(program, {"M": 2, "N": 3}, {}, {"X": X})["Y"].value
    np.testing.assert_allclose(got, [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], atol=1e-40)
