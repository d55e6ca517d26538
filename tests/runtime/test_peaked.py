"""What an old exponent costs in accuracy where a few weights are most of a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tilegen
from tests import formulas
from tilegen.passes.synchronise import scaled

Array = npt.NDArray[Any]
TEXT = (Path(__file__).parents[2] / "samples" / "fa3_fwd.tile").read_text()
ROWS, KEYS, HEADS, D = 256, 1024, 2, 64


def peaked(kind: str) -> list[Array]:
    """Q, K and V whose scores have a few large ones: of 36 standard deviations, growing in the order of visiting the
    keys, or with outliers among the numbers."""
    rng = np.random.default_rng(8)
    q, k, v = (rng.standard_normal((1, n, HEADS, D)) for n in (ROWS, KEYS, KEYS))
    if kind == "wide":
        q, k = 6 * q, 6 * k
    elif kind == "ramp":
        k *= np.linspace(12, 0.1, KEYS)[:, None, None]
    else:
        for x in (q, k, v):
            x[rng.random(x.shape) < 0.1] *= 20
    return [x.astype(ml_dtypes.bfloat16) for x in (q, k, v)]


def error(text: str, inputs: list[Array]) -> float:
    """Of O by the Frobenius norm."""
    q, k, v = inputs
    out = tilegen.compile(text, D=D)(Q=q, K=k, V=v)
    want, lse = formulas.attention(q, k, v, scale=D**-0.5, causal=False)
    np.testing.assert_allclose(out.LSE, lse, atol=1e-3)
    away: Array = out.O.astype(np.float64) - want
    return float(np.linalg.norm(away) / np.linalg.norm(want))


@pytest.mark.parametrize("kind", ["wide", "ramp", "outliers"])
def test_an_old_exponent_is_not_far_behind(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = peaked(kind)
    assert "    stale_max" in TEXT
    exact = error("\n".join(line for line in TEXT.split("\n") if "    stale_max" not in line), inputs)
    assert 0 < exact < 3e-3
    assert error(TEXT, inputs) < 1.22 * exact
    monkeypatch.setattr(scaled, "LIMIT", 2.0**40)
    assert error(TEXT + " ", inputs) > 1.22 * exact
