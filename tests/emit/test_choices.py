"""`where` on scores, by position and by data: the machine code passes its gates, and the kernel is right."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tilegen.runtime.kernel import Kernel

SAMPLE = Path(__file__).parents[2] / "samples" / "fa3_fwd.tile"
NEAR = "i - j < 64"
SAME = "a[i] == c[j]"


@cache
def attention(condition: str) -> Kernel:
    text = SAMPLE.read_text(encoding="utf-8")
    for old, new in (
        ("softmax[j](s[i, j])", f"softmax[j](where({condition}, s[i, j], -inf))"),
        ("  LSE[b, h, i]  = logsumexp[j](s[i, j])\n", ""),
        ("  output LSE: f32[B, Hk * G, Sq]\n", "  input a: i32[Sq]\n  input c: i32[Sk]\n" if condition == SAME else ""),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return tilegen.compile(text, D=128)


@pytest.mark.parametrize("condition", [NEAR, SAME])
def test_scores_may_be_chosen(condition: str) -> None:
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((1, 200, 1, 128)).astype(ml_dtypes.bfloat16) for _ in range(3))
    document = np.sort(rng.integers(0, 4, 200)).astype(np.int32)
    data: dict[str, Any] = {"a": document, "c": document} if condition == SAME else {}
    o = np.full((1, 200, 1, 128), np.nan, ml_dtypes.bfloat16)
    attention(condition)(Q=q, K=k, V=v, O=o, **data)
    i = np.arange(200)
    seen = document[:, None] == document if condition == SAME else i[:, None] - i < 64
    q, k, v = (x[0, :, 0].astype(np.float64) for x in (q, k, v))
    s = np.where(seen, q @ k.T / np.sqrt(128), -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    expected = p / p.sum(1, keepdims=True) @ v
    error = np.linalg.norm(o[0, :, 0].astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error <= 3e-3
