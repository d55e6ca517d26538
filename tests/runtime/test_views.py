"""Strided views in the emulator: right wherever they lie in memory, written nowhere else, and at any distance."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tilegen
from tests import formulas
from tests.layouts import NO_FAR_ARRAYS, far, framed
from tilegen.runtime.kernel import Kernel

Array = npt.NDArray[Any]
SAMPLES = Path(__file__).parents[2] / "samples"
BF16 = ml_dtypes.bfloat16
B, S, H, D = 2, 70, 2, 64


@cache
def attention() -> Kernel:
    return tilegen.compile(SAMPLES / "fa3_fwd.tile", D=D, causal=True)


@cache
def vectors() -> Kernel:
    """Vectors along rows and columns and single elements, of every type that a vector may have."""
    return tilegen.compile("""kernel vectors {
      size   B, M, N
      input  X: f32[B, M, N]
      input  row: i32[B, M]
      input  column: bf16[N, B]
      input  single: f32[B]
      output Y: f32[B, M, N]
      output total: f32[M, B]
      tile x[i, j] = X[b, i, j]
      y[i, j] = x[i, j] + row[b, i] * column[j, b] + single[b]
      Y[b, i, j] = y[i, j]
      total[i, b] = max[j](y[i, j])
    }""")


def random(*shape: int) -> Array:
    return np.random.default_rng(prod(shape)).standard_normal(shape).astype(BF16)


def check(q: Array, k: Array, v: Array, kernel: Kernel | None = None, **outputs: Array) -> None:
    out = (kernel or attention())(Q=q, K=k, V=v, **outputs)
    o, lse = formulas.attention(q, k, v, scale=D**-0.5, causal=True)
    np.testing.assert_allclose(out.O.astype(np.float64), o, atol=2e-2, rtol=2e-2)
    np.testing.assert_allclose(out.LSE, lse, atol=1e-4)


def expanded(x: Array) -> Array:
    return np.broadcast_to(x, (B, S, H, D))


INPUTS: dict[str, Callable[[], tuple[Array, ...]]] = {
    "fused": lambda: tuple(random(B, S, 3, H, D)[:, :, n] for n in range(3)),
    "fused in each head": lambda: tuple(random(B, S, H, 3 * D)[..., n * D : n * D + D] for n in range(3)),
    "batch and sequence swapped": lambda: tuple(random(3, S, B, H, D).transpose(0, 2, 1, 3, 4)),
    "heads before the sequence": lambda: tuple(random(3, B, H, S, D).transpose(0, 1, 3, 2, 4)),
    "every second token, some heads": lambda: tuple(random(3, B + 2, 2 * S, 4 * H, D)[:, 1:-1, ::2, 1 : 1 + H]),
    "one head for all": lambda: tuple(expanded(x) for x in random(3, B, S, 1, D)),
    "one batch for all": lambda: tuple(expanded(x) for x in random(3, 1, S, H, D)),
    "one token for all": lambda: tuple(expanded(x) for x in random(3, B, 1, H, D)),
}


@pytest.mark.parametrize("layout", INPUTS)
def test_inputs_with_strides(layout: str) -> None:
    """Case 28 among them: an expanded tensor is right by a map whose stride is 0."""
    check(*INPUTS[layout]())


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 2, 3), (0, 2, 1, 3), (2, 1, 0, 3)])
def test_outputs_with_strides_and_margins(order: tuple[int, ...]) -> None:
    o, o_untouched = framed((B, S, H, D), BF16, order)
    lse, lse_untouched = framed((B, H, S), np.float32, tuple(n for n in order if n != 3))
    check(*random(3, B, S, H, D), O=o, LSE=lse)
    assert o_untouched()
    assert lse_untouched()


def test_outputs_stored_by_rows_may_lie_backwards() -> None:
    o, lse = np.full((B, S, H, D), np.nan, BF16), np.full((B, H, S), np.nan, np.float32)
    inputs, backwards = random(3, B, S, H, D), {"O": o[:, ::-1], "LSE": lse[..., ::-1]}
    with pytest.raises(tilegen.TilegenError, match="write `via O rows` in the schedule"):
        attention()(**dict(zip("QKV", inputs, strict=True)), **backwards)
    assert np.isnan(o).all() and np.isnan(lse).all()
    text = (SAMPLES / "fa3_fwd.tile").read_text()
    assert "via O tma" in text
    by_rows = tilegen.compile(text.replace("via O tma", "via O rows"), D=D, causal=True)
    check(*inputs, kernel=by_rows, **backwards)


@NO_FAR_ARRAYS
@pytest.mark.parametrize(
    ("strides", "lse_strides"),
    [
        ((64 * H, 2**26, 64, 1), (64, 128, 2**27)),  # case 26: stored [S, B, …]
        ((2**32, 64 * H, 64, 1), (2**32, S, 1)),
        ((64 * S, 64, 2**32, 1), (S, 2**32, 1)),
    ],
    ids=["tokens", "batches", "heads"],
)
def test_offsets_past_32_bits(strides: tuple[int, ...], lse_strides: tuple[int, ...]) -> None:
    """Cases 25 and 26, where the last element is more than 2**32 elements away: maps, stores and LSE."""
    inputs = [far((B, S, H, D), strides, BF16) for _ in range(3)]
    for array, values in zip(inputs, random(3, B, S, H, D), strict=True):
        array[...] = values
    o, lse = far((B, S, H, D), strides, BF16), far((B, H, S), lse_strides, np.float32)
    assert max(x.strides[n] * (x.shape[n] - 1) // x.itemsize for x in (*inputs, o, lse) for n in range(3)) > 2**31
    check(*inputs, O=o, LSE=lse)


def check_vectors(place: Callable[[tuple[int, ...], Any], Array]) -> None:
    rng, shape = np.random.default_rng(7), (3, 130, 68)
    values = {
        "X": rng.standard_normal(shape).astype(np.float32),
        "row": rng.integers(-3, 4, shape[:2]).astype(np.int32),
        "column": rng.standard_normal((shape[2], shape[0])).astype(BF16),
        "single": rng.standard_normal(shape[0]).astype(np.float32),
    }
    given = {name: place(v.shape, v.dtype) for name, v in values.items()}
    for name, v in values.items():
        given[name][...] = v
    y, total = place(shape, np.dtype(np.float32)), place((shape[1], shape[0]), np.dtype(np.float32))
    vectors()(**given, Y=y, total=total)
    column = values["column"].astype(np.float64).T[:, None]
    wanted = values["X"] + values["row"][..., None] * column + values["single"][:, None, None]
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(total, wanted.max(2).T, rtol=1e-5, atol=1e-5)


def test_vectors_with_strides() -> None:
    def backwards(shape: tuple[int, ...], dtype: Any) -> Array:
        """Every third element, the last first; what TMA moves is only spread out."""
        if len(shape) == 3:
            return np.empty((shape[1] + 1, shape[0], shape[2] + 4), dtype)[1:, :, 4:].transpose(1, 0, 2)
        return np.empty([3 * n for n in shape], dtype)[tuple(slice(None, None, -3) for _ in shape)]

    check_vectors(backwards)


@NO_FAR_ARRAYS
def test_vectors_past_32_bits() -> None:
    def apart(shape: tuple[int, ...], dtype: Any) -> Array:
        return far(shape, {1: (2**33,), 2: (2**33, 2**25), 3: (2**33, 2**25, 1)}[len(shape)], dtype)

    check_vectors(apart)
