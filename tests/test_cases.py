"""Faults that users of such kernels met elsewhere: each an input and the right behaviour, by the number it has in the
project's list of them. Kernels run in the emulator; case 49 (streams and graphs) is in tests/gpu, and with a driver
that only counts in tests/runtime/test_kernel.py, case 16 in tests/runtime/test_ragged.py, those from 35 to 47 but for
40 and 41 in tests/test_cases_movement.py."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tests import formulas
from tests.layouts import NO_FAR_ARRAYS, far
from tilegen.runtime.kernel import Kernel

SAMPLES = Path(__file__).parents[1] / "samples"
BF16 = ml_dtypes.bfloat16
MINUS_INFINITY = float("-inf")


@cache
def attention(causal: bool) -> Kernel:
    return tilegen.compile(SAMPLES / "fa3_fwd.tile", D=64, causal=causal)


def run_attention(sq: int, sk: int, *, causal: bool, seed: int = 0) -> tuple[dict[str, Any], Any]:
    """(inputs, outputs) of one batch and two heads; the outputs held NaN before."""
    rng = np.random.default_rng(seed)
    inputs = {
        name: rng.standard_normal((1, length, 2, 64)).astype(BF16) for name, length in (("Q", sq), ("K", sk), ("V", sk))
    }
    out = {
        "O": np.full((1, sq, 2, 64), np.nan, BF16),
        "LSE": np.full((1, 2, sq), np.nan, np.float32),
    }
    return inputs, attention(causal)(**inputs, **out)


def check_attention(sq: int, sk: int, *, causal: bool) -> Any:
    inputs, out = run_attention(sq, sk, causal=causal)
    q, k, v = (inputs[n].astype(np.float64) for n in ("Q", "K", "V"))
    o, lse = formulas.attention(q, k, v, scale=64**-0.5, causal=causal)
    assert np.isfinite(out.O.astype(np.float64)).all()
    np.testing.assert_allclose(out.O.astype(np.float64), o, atol=2e-2, rtol=2e-2)
    np.testing.assert_allclose(out.LSE, lse, atol=1e-4)
    return inputs, out


def test_case_1_more_queries_than_keys_align_at_the_bottom_right() -> None:
    inputs, out = check_attention(5, 2, causal=True)
    assert (out.O[0, :3] == 0).all()
    assert (out.LSE[0, :, :3] == MINUS_INFINITY).all()
    np.testing.assert_array_equal(out.O[0, 3], inputs["V"][0, 0])  # row 3 sees key 0 alone


def test_case_2_the_last_of_few_queries_sees_every_key() -> None:
    check_attention(3, 128, causal=True)
    inputs, out = run_attention(3, 128, causal=True)
    inputs["V"][0, 127] += np.asarray(8, BF16)
    changed = attention(True)(**inputs)
    assert (changed.O[0, 2] != out.O[0, 2]).any()


@pytest.mark.parametrize(("sq", "sk"), [(700, 70), (300, 1)])
def test_cases_3_and_15_rows_without_a_key_are_0(sq: int, sk: int) -> None:
    _, out = check_attention(sq, sk, causal=True)
    assert (out.O[0, : sq - sk] == 0).all()
    assert (out.LSE[0, :, : sq - sk] == MINUS_INFINITY).all()


@cache
def window() -> Kernel:
    return tilegen.compile(SAMPLES / "attention_window.tile", D=64)


def run_window(sq: int, sk: int, left: int, right: int) -> tuple[dict[str, Any], Any]:
    """(inputs, outputs) of two heads; the same inputs for the same lengths, the outputs held NaN before."""
    rng = np.random.default_rng(sq)
    shapes = {"Q": (1, sq, 2, 64), "K": (1, sk, 2, 64), "V": (1, sk, 2, 64)}
    inputs = {name: rng.standard_normal(shape).astype(BF16) for name, shape in shapes.items()}
    out = {"O": np.full((1, sq, 2, 64), np.nan, BF16), "LSE": np.full((1, 2, sq), np.nan, np.float32)}
    return inputs, window()(**inputs, **out, left=left, right=right)


def test_case_5_a_window_of_minus_1_is_none_and_one_of_all_positions_is_causal() -> None:
    S = 200
    inputs, none = run_window(S, S, -1, -1)
    arrays = [inputs[name] for name in "QKV"]
    o, lse = formulas.attention(*arrays, scale=64**-0.5)
    np.testing.assert_allclose(none.O.astype(np.float64), o, atol=2e-2, rtol=2e-2)
    np.testing.assert_allclose(none.LSE, lse, atol=1e-4)
    o, lse = formulas.attention(*arrays, scale=64**-0.5, causal=True)
    first, *others = [run_window(S, S, left, 0)[1] for left in (-1, S, S - 1)]
    np.testing.assert_allclose(first.O.astype(np.float64), o, atol=2e-2, rtol=2e-2)
    np.testing.assert_allclose(first.LSE, lse, atol=1e-4)
    for other in others:
        np.testing.assert_array_equal(other.O, first.O)
        np.testing.assert_array_equal(other.LSE, first.LSE)


@pytest.mark.parametrize("sk", [1, 20, 64])
def test_case_7_rows_of_a_window_without_a_key_in_range_are_0(sk: int) -> None:
    inputs, out = run_window(129, sk, 32, 64)
    seen = formulas.visible(129, sk, False, (32, 64))
    assert not seen.any(1).all()
    o, lse = formulas.attention(*(inputs[name] for name in "QKV"), scale=64**-0.5, window=(32, 64))
    np.testing.assert_allclose(out.O.astype(np.float64), o, atol=2e-2, rtol=2e-2)
    assert (out.O[0, ~seen.any(1)] == 0).all()
    assert (out.LSE[0, :, ~seen.any(1)] == MINUS_INFINITY).all()
    np.testing.assert_allclose(out.LSE[0][:, seen.any(1)], lse[0][:, seen.any(1)], atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_case_8_no_keys_at_all(causal: bool) -> None:
    _, out = run_attention(70, 0, causal=causal)
    assert (out.O == 0).all()
    assert (out.LSE == MINUS_INFINITY).all()


@cache
def ragged(D: int, T: str) -> Kernel:
    return tilegen.compile(SAMPLES / "fa3_varlen.tile", D=D, T=T, causal=True)


def check_ragged(q: list[int], k: list[int], heads: int, D: int, T: str) -> tuple[Any, Any]:
    """O and LSE of sequences of these lengths, causal, each as the formula has it alone."""
    rng, dtype = np.random.default_rng(sum(q) + heads), {"bf16": BF16, "f16": np.float16}[T]
    cu_q, cu_k = (np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32) for lengths in (q, k))
    given = {
        name: rng.standard_normal((sum(lengths), heads, D)).astype(dtype)
        for name, lengths in (("Q", q), ("K", k), ("V", k))
    }
    o, lse = np.full((sum(q), heads, D), np.nan, dtype), np.full((heads, sum(q)), np.nan, np.float32)
    ragged(D, T)(**given, cu_q=cu_q, cu_k=cu_k, O=o, LSE=lse)
    assert np.isfinite(o.astype(np.float64)).all()
    for b in range(len(q)):
        rows, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
        if q[b]:
            arrays = (given["Q"][None, rows], given["K"][None, keys], given["V"][None, keys])
            wanted, wanted_lse = formulas.attention(*arrays, scale=D**-0.5, causal=True)
            np.testing.assert_allclose(o[rows].astype(np.float64), wanted[0], atol=2e-2, rtol=2e-2)
            np.testing.assert_allclose(lse[:, rows], wanted_lse[0], atol=1e-4)
    return o, lse


def test_case_9_sequences_of_no_queries_or_no_keys() -> None:
    check_ragged([0, 0, 1023], [0, 1, 2045], 1, 64, "bf16")
    o, lse = check_ragged([0, 0, 0], [0, 0, 0], 1, 64, "bf16")
    assert o.size == lse.size == 0
    o, lse = check_ragged([3, 5], [0, 2], 1, 64, "bf16")  # causal: rows 0 to 2 of the second see no key either
    assert (o[:6] == 0).all()
    assert (lse[:, :6] == MINUS_INFINITY).all()


def test_case_18_few_ragged_queries_of_many_heads_are_all_written() -> None:
    check_ragged([3], [7], 16, 192, "f16")
    check_ragged([3, 1, 3], [7, 2, 9], 16, 192, "f16")


def test_case_19_other_head_sizes_are_refused_by_name() -> None:
    """Multiples of 8 are right: tests/test_shapes.py."""
    with pytest.raises(tilegen.TilegenError) as caught:
        tilegen.compile(SAMPLES / "fa3_fwd.tile", D=76)
    assert [(d.code, d.wanted) for d in caught.value.diagnostics] == [("PARAMETER_VALUE", "32 .. 256 by 8")]
    text = (SAMPLES / "fa3_fwd.tile").read_text(encoding="utf-8")
    with pytest.raises(tilegen.TilegenError) as caught:
        tilegen.compile(text.replace("32 .. 256 by 8 = 128", "76 = 76"))
    assert caught.value.diagnostics[0].code == "INNER_EXTENT"


@pytest.mark.parametrize("causal", [False, True])
def test_case_11_what_stands_behind_the_last_key_does_not_matter(causal: bool) -> None:
    rng = np.random.default_rng(11)
    q = rng.standard_normal((1, 70, 2, 64)).astype(BF16)
    longer = np.full((2, 1, 200, 2, 64), np.nan, BF16)
    longer[:, :, :90] = rng.standard_normal((2, 1, 90, 2, 64)).astype(BF16)
    views = attention(causal)(Q=q, K=longer[0][:, :90], V=longer[1][:, :90])
    trimmed = attention(causal)(Q=q, K=longer[0][:, :90].copy(), V=longer[1][:, :90].copy())
    assert np.isfinite(views.O.astype(np.float64)).all()
    np.testing.assert_array_equal(views.O, trimmed.O)
    np.testing.assert_array_equal(views.LSE, trimmed.LSE)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_case_12_rows_that_do_not_see_a_value_stay_finite(value: float) -> None:
    inputs, clean = run_attention(100, 100, causal=True)
    inputs["V"][0, 60, :, 5] = value
    out = attention(True)(**inputs)
    np.testing.assert_array_equal(out.O[0, :60], clean.O[0, :60])
    assert not np.isfinite(out.O[0, 60:, :, 5].astype(np.float64)).any()
    np.testing.assert_array_equal(np.delete(out.O[0], 5, 2), np.delete(clean.O[0], 5, 2))
    np.testing.assert_array_equal(out.LSE, clean.LSE)


@pytest.mark.parametrize("length", [9, 12, 137, 1025])
def test_case_21_odd_lengths(length: int) -> None:
    check_attention(length, length, causal=False)


def check_views(q: Any, k: Any, v: Any, o: Any, lse: Any) -> None:
    """Of one batch: attention on these arrays as they lie."""
    rng = np.random.default_rng(q.shape[1])
    for x in (q, k, v):
        if x.flags.writeable:
            x[...] = rng.standard_normal(x.shape).astype(BF16)
    attention(True)(Q=q, K=k, V=v, O=o, LSE=lse)
    wanted_o, wanted_lse = formulas.attention(q, k, v, scale=64**-0.5, causal=True)
    np.testing.assert_allclose(o.astype(np.float64), wanted_o, atol=2e-2, rtol=2e-2)
    np.testing.assert_allclose(lse, wanted_lse, atol=1e-4)


@NO_FAR_ARRAYS
def test_case_25_the_last_element_lies_past_32_bits() -> None:
    """In inputs, in what rows of O are stored to, and in LSE."""
    strides = (0, 64, 2**32, 1)
    q, k, v, o = (far((1, 70, 2, 64), strides, BF16) for _ in range(4))
    check_views(q, k, v, o, far((1, 2, 70), (0, 2**32, 1), np.float32))


@NO_FAR_ARRAYS
def test_case_26_keys_stored_by_token_reach_past_32_bits() -> None:
    """[S, B, D] viewed as [B, S, 1, D] with S * stride > 2**31."""
    q, o = np.empty((1, 70, 1, 64), BF16), np.empty((1, 70, 1, 64), BF16)
    k, v = (far((90, 1, 64), (2**26, 64, 1), BF16)[:, :, None].transpose(1, 0, 2, 3) for _ in range(2))
    assert k.strides[1] * 89 > 2**31 * 2
    check_views(q, k, v, o, np.empty((1, 1, 70), np.float32))


def test_case_28_expanded_keys_are_read_through_a_stride_of_0() -> None:
    rng = np.random.default_rng(28)
    q, o = np.empty((3, 70, 4, 64), BF16), np.empty((3, 70, 4, 64), BF16)
    k, v = (np.broadcast_to(rng.standard_normal((1, 90, 1, 64)).astype(BF16), (3, 90, 4, 64)) for _ in range(2))
    assert k.strides[0] == k.strides[2] == 0
    check_views(q, k, v, o, np.empty((3, 4, 70), np.float32))


def refusal(kernel: Kernel, **arrays: Any) -> tilegen.TilegenError:
    with pytest.raises(tilegen.TilegenError) as caught:
        kernel(**arrays)
    return caught.value


def test_case_30_rows_that_are_no_multiple_of_16_bytes_are_named() -> None:
    kernel = tilegen.compile(SAMPLES / "copy.tile", T="f16")
    error = refusal(kernel, X=np.ones((16, 250), np.float16))
    assert any(d.code == "TMA_STRIDE_ALIGNMENT" and "X" in d.message for d in error.diagnostics)
    assert "500" in str(error) + "".join(d.got for d in error.diagnostics)


@pytest.mark.parametrize("columns", [250, 252])
def test_case_31_rows_of_250_and_of_252_floats(columns: int) -> None:
    kernel = tilegen.compile(SAMPLES / "copy.tile", T="f32")
    x = np.arange(16.0 * columns, dtype=np.float32).reshape(16, columns)
    if columns % 4:
        error = refusal(kernel, X=x)
        assert any(d.code == "TMA_STRIDE_ALIGNMENT" and "X" in d.message for d in error.diagnostics)
    else:
        np.testing.assert_array_equal(kernel(X=x), x)


def test_case_32_a_base_off_by_4_bytes_is_named() -> None:
    kernel = tilegen.compile(SAMPLES / "copy.tile", T="f16")
    whole = np.ones(16 * 256 + 64, np.float16)
    start = -whole.ctypes.data % 16 // 2 + 2
    error = refusal(kernel, X=whole[start : start + 16 * 256].reshape(16, 256))
    assert any(d.code == "TMA_ADDRESS" and "X" in d.message for d in error.diagnostics)


@pytest.mark.parametrize("rows", [1, 5, 63, 127, 129, 300])
def test_cases_34_and_40_a_partial_last_tile_of_a_vector(rows: int) -> None:
    kernel = tilegen.compile(SAMPLES / "gemm_logsumexp.tile", D=64)
    rng = np.random.default_rng(rows)
    h, w = (rng.standard_normal((n, 64)).astype(BF16) for n in (rows, 200))
    framed = np.full(rows + 8, np.nan, np.float32)
    kernel(H=h, W=w, LSE=framed[4 : 4 + rows])
    logits = h.astype(np.float64) @ w.astype(np.float64).T
    top = logits.max(1)
    np.testing.assert_allclose(framed[4 : 4 + rows], top + np.log(np.exp(logits - top[:, None]).sum(1)), atol=1e-4)
    assert np.isnan(framed[:4]).all()
    assert np.isnan(framed[4 + rows :]).all()


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_case_41_no_steps_one_step_fewer_steps_than_stages(stages: int) -> None:
    text = (SAMPLES / "gemm.tile").read_text(encoding="utf-8")
    spec = text.replace("stages a 3, b 3", f"stages a {stages}, b {stages}").replace("n 256", "n 64")
    kernel = tilegen.compile(spec)
    rng = np.random.default_rng(stages)
    for steps in (0, 1, 2, stages, stages + 1, 2 * stages + 1):
        a = rng.standard_normal((130, 64 * steps)).astype(BF16)
        b = rng.standard_normal((64 * steps, 72)).astype(BF16)
        c = np.full((130, 72), np.nan, BF16)
        kernel(A=a, B=b, C=c)
        expected = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(c.astype(np.float64), expected, atol=0.1, rtol=1e-2)


def test_an_output_that_no_work_would_reach_is_named() -> None:
    """Beside an axis of extent 0 that it does not run along, an output would hold whatever was there."""
    kernel = tilegen.compile("""kernel k {
      size   B, M
      input  X: f32[M, 64]
      input  Y: f32[B, M, 64]
      output C: f32[B, M, 64]
      output Z: f32[M]
      tile x[i, d] = X[i, d]
      tile y[i, d] = Y[b, i, d]
      C[b, i, d] = y[i, d] + x[i, d]
      Z[i] = sum[d](x[i, d])
    }""")
    x = np.ones((70, 64), np.float32)
    error = refusal(kernel, X=x, Y=np.ones((0, 70, 64), np.float32))
    assert [(d.code, "output Z" in d.message) for d in error.diagnostics] == [("OUTPUT_UNWRITTEN", True)]
    np.testing.assert_array_equal(kernel(X=x, Y=np.ones((1, 70, 64), np.float32)).Z, np.full(70, 64, np.float32))
    empty = kernel(X=x[:0], Y=np.ones((3, 0, 64), np.float32))
    assert empty.C.shape == (3, 0, 64)
