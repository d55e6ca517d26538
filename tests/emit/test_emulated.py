"""The hand-written plans run in the emulator, against numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tests.emit.plans import attention_plan, copy_plan, gemm_plan
from tests.emit.running import random, run
from tilegen.ir.dtypes import DType

F64 = npt.NDArray[np.float64]


def f64(x: npt.NDArray[np.generic]) -> F64:
    return x.astype(np.float64)


def distance(got: npt.NDArray[np.generic], wanted: F64) -> float:
    """Relative, Frobenius; NaN where anything was left unwritten."""
    return float(np.linalg.norm(f64(got) - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize(
    ("dtype", "cols", "swizzle"),
    [
        (DType.BF16, 64, 128), (DType.F16, 128, 128), (DType.BF16, 32, 64), (DType.BF16, 16, 32), (DType.F16, 24, 0),
        (DType.F32, 32, 128), (DType.F32, 64, 128), (DType.F32, 16, 64), (DType.F32, 8, 32),
    ],
)  # fmt: skip
def test_a_copy_through_shared_memory(dtype: DType, cols: int, swizzle: int) -> None:
    """Several items for a CTA, edges in both directions, every swizzle and type."""
    x = random((300, 3 * cols - 8), dtype)
    assert np.array_equal(run(copy_plan(dtype, cols, swizzle), {"X": x})["Y"], x)


@pytest.mark.parametrize(("dtype", "most"), [(DType.BF16, 2.5e-3), (DType.F16, 3e-4)])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 256, 64), (200, 512, 136), (65, 320, 8), (300, 256, 520)])
def test_a_gemm(dtype: DType, most: float, m: int, n: int, k: int) -> None:
    a, b = random((m, k), dtype, 1), random((k, n), dtype, 2)
    assert distance(run(gemm_plan(dtype), {"A": a, "B": b})["C"], f64(a) @ f64(b)) < most


def attention(q: F64, k: F64, v: F64) -> tuple[F64, F64]:
    """Causal, aligned at the bottom right; O and the logarithm of the sums."""
    rows, keys = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])
    s = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
    s = np.where(keys <= rows + k.shape[1] - q.shape[1], s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - top)
    total = e.sum(-1, keepdims=True)
    return np.einsum("bhij,bjhd->bihd", e / total, v), (top + np.log(total))[..., 0]


@pytest.mark.parametrize(("dtype", "most"), [(DType.BF16, 3e-3), (DType.F16, 5e-4)])
@pytest.mark.parametrize(("sq", "sk", "heads"), [(1, 1, 1), (64, 300, 1), (200, 250, 2), (250, 250, 3)])
def test_attention(dtype: DType, most: float, sq: int, sk: int, heads: int) -> None:
    q, k, v = (random((1, n, heads, 128), dtype, seed) for seed, n in enumerate((sq, sk, sk)))
    scale = float(np.log2(np.e) / np.sqrt(128))
    got = run(attention_plan(dtype), {"Q": q, "K": k, "V": v}, {"scale_log2": scale})
    o, lse = attention(f64(q), f64(k), f64(v))
    assert distance(got["O"], o) < most
    assert np.abs(f64(got["LSE"]) - lse).max() < 1e-5
