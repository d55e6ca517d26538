"""Reference formulas in numpy float64, written independently of the compiler and of its oracle.

Layouts are those of the samples: Q, O [B, Sq, H, D]; K, V [B, Sk, Hk, D], query head h reads key head h // (H / Hk);
LSE [B, H, Sq]. Inputs of any type; results are float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def f64(x: npt.ArrayLike) -> Array:
    return np.asarray(x).astype(np.float64)


def visible(Sq: int, Sk: int, causal: bool, window: tuple[int, int] = (-1, -1)) -> Array:
    """[Sq, Sk] bool, aligned at the bottom right: the last query sees the last key. A negative side is unlimited."""
    i, j = np.arange(Sq)[:, None] + (Sk - Sq), np.arange(Sk)[None, :]
    seen = np.ones((Sq, Sk), dtype=bool)
    if causal:
        seen &= j <= i
    left, right = window
    if left >= 0:
        seen &= j >= i - left
    if right >= 0:
        seen &= j <= i + right
    return seen


def masked_softmax(s: Array, seen: Array) -> tuple[Array, Array]:
    """Weights and logsumexp along the last axis; rows that see nothing give weights 0 and -inf."""
    with np.errstate(invalid="ignore", divide="ignore"):
        m = np.max(np.where(seen, s, -np.inf), axis=-1, initial=-np.inf, keepdims=True)
        e = np.exp(np.where(seen, s - np.where(np.isneginf(m), 0.0, m), -np.inf))
        z = e.sum(axis=-1, keepdims=True)
        p = np.where(z == 0, 0.0, e / z)
        lse = np.where(np.isneginf(m), -np.inf, m + np.log(z))[..., 0]
    return p, lse


def scores(Q: Array, K: Array, scale: float) -> Array:
    """scale * Q Kᵀ: [B, H, Sq, Sk]."""
    Q, K = f64(Q), f64(K)
    K = np.repeat(K, Q.shape[2] // K.shape[2], axis=2)
    return scale * np.einsum("bihd,bjhd->bhij", Q, K)


def attention(
    Q: Array,
    K: Array,
    V: Array,
    scale: float,
    causal: bool = False,
    *,
    cap: float | None = None,
    slope: Array | None = None,
    bias: Array | None = None,
    temperature: Array | None = None,
    sink: Array | None = None,
    window: tuple[int, int] = (-1, -1),
) -> tuple[Array, Array]:
    """O and LSE. `slope` [H]: ALiBi, slope * (j - i - (Sk - Sq)) added to the (capped) score. `bias` [B, H, Sq, Sk].

    `sink` [H]: a key more for every row, with this score and values of 0.
    """
    s = scores(Q, K, scale)
    H, Sq, Sk = s.shape[1:]
    if temperature is not None:
        s = s * f64(temperature)[None, :, None, None]
    if cap is not None:
        s = cap * np.tanh(s / cap)
    if bias is not None:
        s = s + f64(bias)
    if slope is not None:
        distance = np.arange(Sk)[None, :] - np.arange(Sq)[:, None] - (Sk - Sq)
        s = s + f64(slope)[None, :, None, None] * distance
    seen = np.broadcast_to(visible(Sq, Sk, causal, window), s.shape)
    if sink is not None:
        s = np.concatenate([s, np.broadcast_to(f64(sink)[None, :, None, None], (*s.shape[:3], 1))], axis=3)
        seen = np.concatenate([seen, np.ones((*s.shape[:3], 1), dtype=bool)], axis=3)
    p, lse = masked_softmax(s, seen)
    p = p[..., :Sk]
    v = np.repeat(f64(V), H // V.shape[2], axis=2)
    return np.einsum("bhij,bjhe->bihe", p, v), lse


def attention_backward(
    Q: Array, K: Array, V: Array, dO: Array, scale: float, causal: bool = False
) -> tuple[Array, Array, Array]:
    """dQ, dK, dV of sum(O * dO), by the analytic formulas on a forward pass of its own."""
    s = scores(Q, K, scale)
    H, Sq, Sk = s.shape[1:]
    Hk = K.shape[2]
    p, _ = masked_softmax(s, visible(Sq, Sk, causal))
    k, v = (np.repeat(f64(x), H // Hk, axis=2) for x in (K, V))
    dO = f64(dO)
    dp = np.einsum("bihe,bjhe->bhij", dO, v)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dQ = scale * np.einsum("bhij,bjhd->bihd", ds, k)
    dk = scale * np.einsum("bhij,bihd->bjhd", ds, f64(Q))
    dv = np.einsum("bhij,bihe->bjhe", p, dO)
    B, D = Q.shape[0], Q.shape[3]
    dK, dV = (x.reshape(B, Sk, Hk, H // Hk, D).sum(axis=3) for x in (dk, dv))
    return dQ, dK, dV


def gemm(A: Array, B: Array) -> Array:
    return f64(A) @ f64(B)


def gelu(x: Array) -> Array:
    return 0.5 * x * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2.0)))


def gemm_bias_gelu(A: Array, B: Array, bias: Array) -> Array:
    return gelu(gemm(A, B) + f64(bias))


def swiglu(X: Array, W1: Array, W2: Array) -> Array:
    gate = gemm(X, W1)
    return gate / (1.0 + np.exp(-gate)) * gemm(X, W2)


def difference(X: Array, lag: int) -> Array:
    """Of rows `lag` apart; 0 for those without one."""
    x = f64(X)
    return np.pad(x[lag:] - x[: len(x) - lag], ((0, lag), (0, 0)))


def logsumexp(x: Array) -> Array:
    """Along the last axis."""
    x = f64(x)
    return masked_softmax(x, np.ones(x.shape, dtype=bool))[1]


def row_softmax(x: Array) -> Array:
    """Along the last axis."""
    x = f64(x)
    return masked_softmax(x, np.ones(x.shape, dtype=bool))[0]


def frobenius(got: Array, want: Array, batch_axes: tuple[int, ...] = ()) -> float:
    """The largest ||got - want|| / ||want|| over the slices along the batch axes."""
    others = tuple(n for n in range(want.ndim) if n not in batch_axes)
    distance = np.sqrt(((f64(got) - want) ** 2).sum(axis=others))
    norm = np.sqrt((want**2).sum(axis=others))
    return float(np.max(np.where(norm > 0, distance / np.where(norm > 0, norm, 1.0), distance), initial=0.0))
