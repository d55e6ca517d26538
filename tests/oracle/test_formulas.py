"""The oracle against independent formulas, at sizes where loops over points would take too long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests import formulas
from tilegen.oracle import Result, evaluate, random_inputs, scalar_values
from tilegen.sema import load

ROOT = Path(__file__).parents[2]


def run(
    path: str, params: dict[str, Any], sizes: dict[str, Any], inputs: dict[str, np.ndarray] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Result], dict[str, float | int]]:
    program = load(ROOT / path, params)
    scalars = scalar_values(program, sizes, {})
    data = random_inputs(program, sizes, 1) | (inputs or {})
    return data, evaluate(program, sizes, scalars, data), scalars


def close(got: Result, want: np.ndarray) -> None:
    np.testing.assert_allclose(got.value, want, rtol=1e-11, atol=1e-12)
    assert got.defined.all()


@pytest.mark.parametrize(("Sq", "Sk"), [(1, 1), (9, 130), (130, 9), (137, 137), (64, 257)])
@pytest.mark.parametrize(("Hk", "G"), [(2, 1), (1, 4), (2, 3)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(Sq: int, Sk: int, Hk: int, G: int, causal: bool) -> None:
    sizes = {"B": 2, "Sq": Sq, "Sk": Sk, "Hk": Hk, "G": G}
    data, got, scalars = run("samples/fa3_fwd.tile", {"D": 64, "causal": causal}, sizes)
    out, LSE = formulas.attention(data["Q"], data["K"], data["V"], scalars["scale"], causal)
    close(got["O"], out)
    close(got["LSE"], LSE)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("score", "given"),
    [("alibi", ["slope"]), ("bias", ["Bias"]), ("sink", ["sink", "temperature"]), ("softcap", ["cap"])],
)
def test_attention_with_other_scores(score: str, given: list[str], causal: bool) -> None:
    sizes = {"B": 2, "Sq": 80, "Sk": 70, "Hk": 2, "G": 2}
    data, got, scalars = run(f"samples/attention_{score}.tile", {"D": 64, "causal": causal}, sizes)
    more = {name.lower(): data[name] if name in data else scalars[name] for name in given}
    out, LSE = formulas.attention(data["Q"], data["K"], data["V"], scalars["scale"], causal, **more)
    close(got["O"], out)
    close(got["LSE"], LSE)


def test_gemm_and_its_transpose() -> None:
    data, got, _ = run("samples/gemm.tile", {}, {"M": 130, "N": 72, "K": 300})
    close(got["C"], formulas.gemm(data["A"], data["B"]))
    data, got, _ = run("tests/specs/matmul_at.tile", {}, {"M": 130, "N": 72, "K": 300})
    close(got["C"], formulas.gemm(data["A"].T, data["B"]))


def test_epilogues() -> None:
    sizes = {"M": 40, "N": 72, "K": 60}
    data, got, _ = run("samples/gemm_bias_gelu.tile", {}, sizes)
    close(got["C"], formulas.gemm_bias_gelu(data["A"], data["B"], data["bias"]))
    data, got, _ = run("samples/swiglu.tile", {}, sizes)
    close(got["Y"], formulas.swiglu(data["X"], data["W1"], data["W2"]))


def test_rows() -> None:
    data, got, _ = run("samples/gemm_logsumexp.tile", {"D": 64}, {"M": 33, "V": 1000})
    close(got["LSE"], formulas.logsumexp(formulas.gemm(data["H"], data["W"].T)))
    data, got, _ = run("samples/row_softmax.tile", {}, {"M": 33, "N": 1000})
    close(got["Y"], formulas.row_softmax(data["X"]))
    data, got, _ = run("samples/copy.tile", {"T": "f32"}, {"M": 33, "N": 101})
    assert (got["Y"].value == data["X"]).all()
    assert not got["Y"].allowed.any()
    data, got, _ = run("samples/difference.tile", {}, {"M": 33, "N": 101})
    np.testing.assert_array_equal(got["D"].value, formulas.difference(data["X"], 1))
    assert not got["D"].defined[-1].any()


def test_two_loop_orders_and_a_split_reduction() -> None:
    data, got, _ = run("tests/specs/outputs_two_orders.tile", {}, {"M": 60, "N": 70})
    s = formulas.gemm(data["X"], data["Y"].T)
    close(got["rows"], (s * s).sum(axis=1))
    close(got["columns"], s.max(axis=0))
    data, got, _ = run("tests/specs/split_reduction.tile", {}, {"M": 60, "S": 500})
    Q, K, V = (data[n][None, :, None, :] for n in "QKV")
    out, LSE = formulas.attention(Q, K, V, 1 / 8)
    close(got["O"], out[0, :, 0])
    close(got["LSE"], LSE[0, 0])


def test_pages() -> None:
    sizes = {"B": 2, "H": 2, "S": 7, "P": 3, "N": 9}
    used = np.array([150, 64], dtype=np.int32)
    data, got, scalars = run("tests/specs/paged.tile", {}, sizes, {"used": used})
    for b in range(2):
        pages = data["tab"][b]
        assert len(set(pages.tolist()) | {-1}) > 1
        K, V = (np.concatenate([data[n][p] for p in pages])[: used[b]] for n in "KV")
        out, _ = formulas.attention(data["Q"][b].transpose(1, 0, 2)[None], K[None], V[None], scalars["scale"])
        close(Result(*(x[b] for x in _arrays(got["O"])), got["O"].dtype), out[0].transpose(1, 0, 2))


@pytest.mark.parametrize("causal", [False, True])
def test_ragged_sequences(causal: bool) -> None:
    q, k = [9, 0, 130, 1], [12, 7, 65, 0]
    sizes = {"B": 4, "Sq": q, "Sk": k, "H": 2}
    data, got, scalars = run("tests/specs/ragged.tile", {"causal": causal}, sizes)
    assert data["Q"].shape == (140, 2, 64)
    assert data["cu_q"].tolist() == [0, 9, 9, 139, 140]
    parts = []
    for b in range(4):
        Q = data["Q"][sum(q[:b]) : sum(q[: b + 1])][None]
        K, V = (data[n][sum(k[:b]) : sum(k[: b + 1])][None] for n in "KV")
        parts.append(formulas.attention(Q, K, V, scalars["scale"], causal)[0][0])
    close(got["O"], np.concatenate(parts))


@pytest.mark.parametrize("causal", [False, True])
def test_backward_pass(causal: bool) -> None:
    sizes = {"B": 2, "Sq": 20, "Sk": 24, "Hk": 2, "G": 2}
    program = load(ROOT / "tests/specs/attention_bwd.tile", {"causal": causal})
    scalars = scalar_values(program, sizes, {})
    data = {n: a.astype(np.float64) for n, a in random_inputs(program, sizes, 3).items()}
    out, LSE = formulas.attention(data["Q"], data["K"], data["V"], scalars["scale"], causal)
    got = evaluate(program, sizes, scalars, data | {"O": out, "LSE": LSE})
    wanted = formulas.attention_backward(data["Q"], data["K"], data["V"], data["dO"], scalars["scale"], causal)
    for name, want in zip(("dQ", "dK", "dV"), wanted, strict=True):
        np.testing.assert_allclose(got[name].value, want, rtol=1e-9, atol=1e-11)


def test_the_backward_formulas_are_the_derivatives() -> None:
    random = np.random.default_rng(5)
    Q, dO = (random.standard_normal((1, 5, 2, 4)) for _ in range(2))
    K, V = (random.standard_normal((1, 6, 1, 4)) for _ in range(2))
    arrays = [Q, K, V]
    gradients = formulas.attention_backward(*arrays, dO, 0.5, True)
    step = 1e-5
    for n, gradient in enumerate(gradients):
        for place in [(0, 0, 0, 0), (0, 4, 0, 3), (0, 2, 0, 1)]:
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in arrays]
                moved[n][place] += sign * step
                ends.append((formulas.attention(*moved, 0.5, True)[0] * dO).sum())
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(gradient[place], rel=1e-6, abs=1e-8)


def test_one_long_head() -> None:
    sizes = {"B": 1, "Sq": 256, "Sk": 4096, "Hk": 1, "G": 1}
    data, got, scalars = run("samples/fa3_fwd.tile", {"D": 64, "causal": True}, sizes)
    out, LSE = formulas.attention(data["Q"], data["K"], data["V"], scalars["scale"], True)
    close(got["O"], out)
    close(got["LSE"], LSE)


def test_low_precision_inputs_are_taken_as_they_are() -> None:
    data, got, _ = run("samples/gemm.tile", {"T": "f16"}, {"M": 4, "N": 8, "K": 8})
    assert data["A"].dtype == np.float16
    assert got["C"].dtype.numpy == np.float16
    data, _, _ = run("samples/gemm.tile", {}, {"M": 4, "N": 8, "K": 8})
    assert data["A"].dtype == ml_dtypes.bfloat16


def _arrays(result: Result) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return result.value, result.allowed, result.defined
