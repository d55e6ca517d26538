"""Attention with other scores, in the emulator, against formulas that know nothing of tilegen: capped, biased by
distance or by a tensor, tempered, sharing weight with sinks, told apart by documents."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tilegen
from tests import formulas
from tests.passes.specs import unscheduled
from tilegen.diagnostics.core import TilegenError
from tilegen.oracle.rounding import TANH
from tilegen.runtime.kernel import Kernel

SAMPLES = Path(__file__).parents[1] / "samples"
BF16 = ml_dtypes.bfloat16
MINUS_INFINITY = float("-inf")
Array = npt.NDArray[Any]


@cache
def kernel(score: str, **params: Any) -> Kernel:
    return tilegen.compile(SAMPLES / f"attention_{score}.tile", D=64, **params)


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def given(Sq: int, Sk: int, B: int = 1, Hk: int = 1, G: int = 2) -> dict[str, Array]:
    shapes = {"Q": (B, Sq, Hk * G, 64), "K": (B, Sk, Hk, 64), "V": (B, Sk, Hk, 64)}
    return {name: random(*shape, seed=n).astype(BF16) for n, (name, shape) in enumerate(shapes.items())}


def agrees(k: Kernel, inputs: dict[str, Array], causal: bool, **more: Any) -> tuple[Array, Array]:
    """O and LSE of the kernel, held against the formula. `more`: what the formula takes beside Q, K and V."""
    B, Sq, H, D = inputs["Q"].shape
    out = k(**inputs, O=np.full((B, Sq, H, D), np.nan, BF16), LSE=np.full((B, H, Sq), np.nan, np.float32))
    o, lse = out.O.astype(np.float64), out.LSE.astype(np.float64)
    want, logarithms = formulas.attention(inputs["Q"], inputs["K"], inputs["V"], D**-0.5, causal, **more)
    np.testing.assert_allclose(o, want, atol=1.5e-2, rtol=1.5e-2)
    np.testing.assert_allclose(lse, logarithms, atol=2e-5, rtol=1e-6)
    return o, lse


LENGTHS = [(1, 1), (137, 75), (100, 203)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("Sq", "Sk"), LENGTHS)
def test_capped_scores(Sq: int, Sk: int, causal: bool) -> None:
    inputs = given(Sq, Sk)
    inputs["Q"] = (8 * inputs["Q"]).astype(BF16)  # scores of ±25, which a cap of 5 bends
    agrees(kernel("softcap", causal=causal), {**inputs, "cap": 5.0}, causal, cap=5.0)  # type: ignore[dict-item]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("Sq", "Sk"), LENGTHS)
def test_a_bias_of_the_distance(Sq: int, Sk: int, causal: bool) -> None:
    slope = np.array([0.5, -0.03], np.float32)
    agrees(kernel("alibi", causal=causal), {**given(Sq, Sk), "slope": slope}, causal, slope=slope)


def test_a_bias_of_the_distance_both_ways() -> None:
    """Positions in an element-wise value: one sum an element, exact far from the origin."""
    text = (SAMPLES / "attention_alibi.tile").read_text(encoding="utf-8")
    text = text.replace("slope[h] * (j - i - (Sk - Sq))", "slope[h] * abs(2 * j - i - (Sk - Sq))")
    slope, (Sq, Sk) = np.array([-0.5, 0.01], np.float32), (137, 203)
    bias = slope[:, None, None] * np.abs(2 * np.arange(Sk) - np.arange(Sq)[:, None] - (Sk - Sq))
    agrees(tilegen.compile(text, D=64, causal=False), {**given(Sq, Sk), "slope": slope}, False, bias=bias[None])


@pytest.mark.parametrize(("W", "causal"), [("bf16", False), ("f32", True)])
@pytest.mark.parametrize(("Sq", "Sk"), [(1, 8), (137, 72), (100, 203)])
def test_a_bias_tensor(Sq: int, Sk: int, W: str, causal: bool) -> None:
    """-inf weighs 0, a row of nothing else gives 0 and -inf; NaN behind the diagonal and past the rows' ends stays
    where it is."""
    dtype = BF16 if W == "bf16" else np.float32
    stored = np.full((1, 2, Sq, -(-Sk // 8) * 8), np.nan, dtype)
    bias = stored[..., :Sk]
    bias[:] = random(1, 2, Sq, Sk)
    bias[random(1, 2, Sq, Sk, seed=1) > 0] = MINUS_INFINITY
    hidden = [Sq // 2, Sq - 1]
    bias[:, :, hidden] = MINUS_INFINITY
    if causal:
        bias[..., np.arange(Sk) > np.arange(Sq)[:, None] + Sk - Sq] = np.nan
    o, lse = agrees(kernel("bias", causal=causal, W=W), {**given(Sq, Sk), "Bias": bias}, causal, bias=bias)
    assert (o[:, hidden] == 0).all()
    assert (lse[..., hidden] == MINUS_INFINITY).all()


def test_rows_that_tma_cannot_read_are_refused() -> None:
    with pytest.raises(TilegenError) as error:
        kernel("bias", causal=False, W="bf16")(**given(9, 75), Bias=np.zeros((1, 2, 9, 75), BF16))
    assert {d.code for d in error.value.diagnostics} == {"TMA_STRIDE_ALIGNMENT"}


def test_a_bias_that_all_batches_and_heads_share() -> None:
    text = (SAMPLES / "attention_bias.tile").read_text(encoding="utf-8")
    text = text.replace("W[B, Hk * G, Sq, Sk]", "W[Sq, Sk]").replace("Bias[b, h, i, j]", "Bias[i, j]")
    bias = random(70, 72).astype(BF16)
    inputs = given(70, 72, B=2)
    agrees(tilegen.compile(text, D=64), {**inputs, "Bias": bias}, False, bias=bias[None, None])
    shared = np.broadcast_to(bias, (2, 2, 70, 72))
    agrees(kernel("bias", causal=False, W="bf16"), {**inputs, "Bias": shared}, False, bias=shared)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("Sq", "Sk"), [*LENGTHS, (70, 0)])
def test_sinks_and_temperatures(Sq: int, Sk: int, causal: bool) -> None:
    """A row without a key gives 0 and its sink; a sink of -inf counts as none; a temperature may be negative."""
    sink = np.array([1.5, MINUS_INFINITY, 60.0, -1e4], np.float32)
    temperature = np.array([3.0, -1.0, 1.0, 0.0], np.float32)
    inputs = {**given(Sq, Sk, G=4), "sink": sink, "temperature": temperature}
    o, lse = agrees(kernel("sink", causal=causal), inputs, causal, sink=sink, temperature=temperature)
    without = slice(0, max(Sq - Sk, 0) if causal or not Sk else 0)
    assert (o[:, without] == 0).all()
    np.testing.assert_allclose(
        lse[0, :, without], np.broadcast_to(sink[:, None], lse[0, :, without].shape), rtol=2.0**-22
    )


SINKS = """kernel sinks {
  size   M, N
  input  Q: bf16[M, 64]
  input  K: bf16[N, 64]
  input  c: f32[M]
  output P: f32[M, N]
  output L: f32[M]
  output plain: f32[M]
  tile q[i, d] = Q[i, d]
  tile k[j, d] = K[j, d]
  s[i, j]  = sum[d](q[i, d] * k[j, d]) / 8
  P[i, j]  = softmax[j](s[i, j]; c[i], 1, c[i] - 2)
  L[i]     = logsumexp[j](s[i, j]; c[i], 1, c[i] - 2)
  plain[i] = logsumexp[j](s[i, j])
}"""


@pytest.mark.parametrize("N", [0, 72, 200])
def test_several_extra_terms_that_vary_by_row(N: int) -> None:
    q, k, c = random(70, 64).astype(BF16), random(N, 64, seed=1).astype(BF16), 9 * random(70).astype(np.float32)
    c[:3] = MINUS_INFINITY, 300.0, -300.0
    out = tilegen.compile(SINKS)(Q=q, K=k, c=c)
    s = q.astype(np.float64) @ k.astype(np.float64).T / 8
    more = np.stack([c, np.ones(70), c - 2], axis=1).astype(np.float64)
    p, lse = formulas.masked_softmax(np.concatenate([s, more], axis=1), np.ones((70, N + 3), bool))
    np.testing.assert_allclose(out.P, p[:, :N], atol=1e-6, rtol=1e-4)
    np.testing.assert_allclose(out.L, lse, atol=1e-5, rtol=1e-6)
    np.testing.assert_allclose(out.plain, formulas.masked_softmax(s, np.ones(s.shape, bool))[1], atol=1e-5)


def test_documents_that_do_not_see_each_other() -> None:
    """A condition on data inside the score: -inf weighs 0, here in whole rows as well."""
    text = unscheduled((SAMPLES / "attention_softcap.tile").read_text(encoding="utf-8"))
    text = text.replace("  scalar cap: f32 > 0 = 30\n", "  input  a: i32[B, Sq]\n  input  z: i32[B, Sk]\n")
    text = text.replace("cap * tanh_approx(x[i, j] / cap)", "where(a[b, i] == z[b, j], x[i, j], -inf)")
    a, z = np.arange(140)[None] // 40, np.arange(150)[None] // 37
    a, z = np.concatenate([a, a + 1]).astype(np.int32), np.concatenate([z, z + 2]).astype(np.int32)
    bias = np.where(a[:, :, None] == z[:, None, :], 0.0, MINUS_INFINITY)[:, None]
    inputs = {**given(140, 150, B=2), "a": a, "z": z}
    agrees(tilegen.compile(text, D=64, causal=True), inputs, True, bias=bias)


def test_tanh_over_the_whole_range() -> None:
    """Held to its stated error against float64, in every binade."""
    squash = tilegen.compile(
        "kernel squash { size M, N  input X: f32[M, N]  output Y: f32[M, N]  tile x[i, j] = X[i, j]"
        "  Y[i, j] = tanh(x[i, j])  schedule hopper { block i 128, j 64  consumers 2 over i } }"
    )
    binades = np.ldexp(np.linspace(1, 2, 96)[None], np.arange(-120, 127)[:, None]).reshape(-1)
    x = np.concatenate([binades, np.linspace(0, 10, 128 * 256 - len(binades))])
    x = np.concatenate([x, -x]).reshape(256, 256).astype(np.float32)
    y = np.asarray(squash(X=x), np.float64)
    want = np.tanh(x.astype(np.float64))
    error = np.abs(y - want) / np.maximum(np.abs(want), 2.0**-126)
    assert error.max() <= TANH
    assert error.max() > TANH / 4, "the stated error is not loose"
    assert np.abs(y).max() <= 1


def with_slope_and_sink(sample: str, more: str = "", bias: str = "") -> str:
    """A sample's text with a distance bias and a sink in its scores, and `bias` added to them."""
    text = (SAMPLES / f"{sample}.tile").read_text(encoding="utf-8")
    score = "scale * sum[d](q[i, d] * k[j, d])"
    for old, new in (
        ("  scalar scale", f"  input  slope: f32[Hk * G]\n  input  sink: f32[Hk * G]\n{more}  scalar scale"),
        (score, f"{score} + slope[h] * (j - i - (Sk - Sq)){bias}"),
        ("softmax[j](s[i, j])", "softmax[j](s[i, j]; sink[h])"),
        ("logsumexp[j](s[i, j])", "logsumexp[j](s[i, j]; sink[h])"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


SLOPE, SINK = np.array([0.3, -0.02, 0.1, 0.5], np.float32), np.array([1.0, -2.0, 0.0, 3.0], np.float32)


def test_scores_of_heads_that_share_the_rows_of_a_tile() -> None:
    """What varies by head then varies by row."""
    text = with_slope_and_sink("attention_decode", "  input  Bias: bf16[B, Hk * G, Sq, Sk]\n", " + bias[i, j]")
    text = text.replace("  tile v[", "  tile bias[i, j] = Bias[b, h, i, j]\n  tile v[")
    more = {"slope": SLOPE, "sink": SINK}
    bias = random(2, 4, 3, 136).astype(BF16)
    inputs = {**given(3, 136, B=2, G=4), **more, "Bias": bias}
    agrees(tilegen.compile(text, D=64, causal=True), inputs, True, bias=bias, **more)


def test_scores_of_sequences_of_different_lengths() -> None:
    lengths = {"q": [70, 0, 9, 130], "k": [33, 5, 200, 130]}
    cu = {name: np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for name, n in lengths.items()}
    tokens = {name: starts[-1] for name, starts in cu.items()}
    q, k, v = (random(tokens[n], h, 64, seed=s).astype(BF16) for s, (n, h) in enumerate([("q", 4), ("k", 2), ("k", 2)]))
    compiled = tilegen.compile(with_slope_and_sink("fa3_varlen"), D=64, causal=True)
    out = compiled(Q=q, K=k, V=v, cu_q=cu["q"], cu_k=cu["k"], slope=SLOPE, sink=SINK)
    for b in range(4):
        mine, theirs = (slice(cu[name][b], cu[name][b + 1]) for name in ("q", "k"))
        o, lse = formulas.attention(
            q[None, mine], k[None, theirs], v[None, theirs], 1 / 8, True, slope=SLOPE, sink=SINK
        )
        np.testing.assert_allclose(out.O[mine].astype(np.float64), o[0], atol=1.5e-2, rtol=1.5e-2)
        np.testing.assert_allclose(out.LSE[:, mine], lse[0], atol=2e-5)
