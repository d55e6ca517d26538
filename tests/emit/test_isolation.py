"""Entries that are no finite numbers reach the rows that see them, and change no bit of any other."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tilegen
from tests.variants import for_all_sizes

SAMPLES = Path(__file__).parents[2] / "samples"
Array = npt.NDArray[Any]
BAD = (np.nan, np.inf, -np.inf)


@cache
def kernel(name: str, **params: Any) -> Any:
    return for_all_sizes(tilegen.compile(SAMPLES / f"{name}.tile", **params))


def inputs(D: int, Sq: int, Sk: int, dtype: Any, g: np.random.Generator) -> dict[str, Array]:
    def normal(*shape: int) -> Array:
        return g.standard_normal(shape).astype(dtype)

    return {"Q": normal(1, Sq, 2, D), "K": normal(1, Sk, 1, D), "V": normal(1, Sk, 1, D)}


def spoil(v: Array, count: int, g: np.random.Generator) -> Array:
    """A copy with entries that are no finite numbers at random places."""
    out = v.copy()
    places = (np.zeros(count, int), g.integers(v.shape[1], size=count), np.zeros(count, int))
    out[(*places, g.integers(v.shape[3], size=count))] = g.choice(BAD, size=count).astype(v.dtype)
    return out


def judge(clean: Array, got: Array, v: Array, sees: Array) -> None:
    """O of a clean and of a spoilt V: what each row sees of the entries, and otherwise the same bits."""
    with np.errstate(invalid="ignore"):
        entries = np.where(np.isfinite(v), 0, v.astype(np.float64))[0, :, 0]
        wanted = np.array([entries[row].sum(axis=0) for row in sees])[:, None]
    wanted = np.broadcast_to(wanted, got.shape[1:])
    touched = ~np.isfinite(wanted)
    assert touched.any()
    assert not touched.all()
    np.testing.assert_array_equal(got[0].astype(np.float64)[touched], wanted[touched])
    np.testing.assert_array_equal(got[0].view(np.uint16)[~touched], clean[0].view(np.uint16)[~touched])


@pytest.mark.parametrize(
    ("D", "T", "Sq", "Sk"),
    [(64, "bf16", 300, 333), (64, "f16", 130, 70), (128, "bf16", 70, 190), (256, "f16", 70, 129)],
)
def test_causal(D: int, T: str, Sq: int, Sk: int) -> None:
    """Case 12."""
    g = np.random.default_rng([D, Sq])
    k = kernel("fa3_fwd", D=D, T=T, causal=True)
    given = inputs(D, Sq, Sk, {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[T], g)
    clean = k(**given)
    given["V"] = spoil(given["V"], 12, g)
    got = k(**given)
    sees = np.arange(Sk)[None, :] <= np.arange(Sq)[:, None] + Sk - Sq
    judge(clean.O, got.O, given["V"], sees)
    np.testing.assert_array_equal(clean.LSE, got.LSE)


def test_a_window() -> None:
    """Dead keys on both sides of what a row sees."""
    g = np.random.default_rng(5)
    Sq, Sk, left, right = 200, 280, 20, 33
    given = inputs(64, Sq, Sk, ml_dtypes.bfloat16, g)
    k = kernel("attention_window", D=64)
    clean = k(**given, left=left, right=right)
    given["V"] = spoil(given["V"], 9, g)
    got = k(**given, left=left, right=right)
    on = np.arange(Sq)[:, None] + Sk - Sq
    j = np.arange(Sk)[None, :]
    judge(clean.O, got.O, given["V"], (j >= on - left) & (j <= on + right))


def test_keys_that_a_row_does_not_see_may_hold_anything() -> None:
    g = np.random.default_rng(6)
    given = inputs(64, 150, 150, ml_dtypes.bfloat16, g)
    k = kernel("fa3_fwd", D=64, causal=True)
    clean = k(**given)
    given["K"] = given["K"].copy()
    given["K"][0, 100] = np.nan
    got = k(**given)
    np.testing.assert_array_equal(clean.O[:, :100].view(np.uint16), got.O[:, :100].view(np.uint16))
    np.testing.assert_array_equal(clean.LSE[..., :100], got.LSE[..., :100])
    assert np.isnan(got.O[:, 100:].astype(np.float32)).all()
    assert np.isnan(got.LSE[..., 100:]).all()


def test_isolate_fast_gives_up_the_rows_of_a_tile() -> None:
    """What it gives up, and that its results are otherwise those of the exact kernel."""
    text = (SAMPLES / "fa3_fwd.tile").read_text(encoding="utf-8").replace("skip_rows", "skip_rows  isolate fast")
    fast, exact = tilegen.compile(text, D=64, causal=True), kernel("fa3_fwd", D=64, causal=True)
    g = np.random.default_rng(7)
    given = inputs(64, 150, 150, ml_dtypes.bfloat16, g)
    np.testing.assert_array_equal(fast(**given).O.view(np.uint16), exact(**given).O.view(np.uint16))
    given["V"] = given["V"].copy()
    given["V"][0, 140, 0, 3] = np.inf
    assert np.isfinite(exact(**given).O[0, :140].astype(np.float32)).all()
    assert np.isnan(fast(**given).O[0, :140, :, 3].astype(np.float32)).any()


def test_a_tile_smaller_than_what_the_scanner_looks_at_in_one_go() -> None:
    """96 threads, 16 bytes each; the last tile of the ring lies at the end of shared memory."""
    text = (SAMPLES / "attention_mixed_heads.tile").read_text(encoding="utf-8")
    text = text[: text.index("  # accumulators hold")] + "schedule hopper { block i 64, j 16  consumers 1 over i }\n}"
    g = np.random.default_rng(8)
    k = tilegen.compile(text, D=32, DV=32, causal=True)
    given = inputs(32, 70, 70, ml_dtypes.bfloat16, g)
    clean = k(**given)
    given["V"] = spoil(given["V"], 5, g)
    judge(clean.O, k(**given).O, given["V"], np.tri(70, dtype=bool))
