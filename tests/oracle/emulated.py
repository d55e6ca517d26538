"""Kernels in numpy float32 that round as hardware does: blocks, tensor cores that truncate, online softmax."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LOG2E = np.float32(1.4426950408889634)


def truncate(x: Array) -> Array:
    """float64 to float32, towards zero."""
    near = x.astype(np.float32)
    over = np.abs(near.astype(np.float64)) > np.abs(x)
    return np.where(over, np.nextafter(near, np.float32(0)), near)


def tensor_core(a: Array, b: Array, accumulator: Array | None = None) -> Array:
    """accumulator + a @ b: exact products, 16 at a time, each step's sum truncated to float32."""
    M, K = a.shape
    total = np.zeros((M, b.shape[1]), np.float32) if accumulator is None else accumulator
    a, b = a.astype(np.float64), b.astype(np.float64)
    for k in range(0, K, 16):
        total = truncate(total.astype(np.float64) + a[:, k : k + 16] @ b[k : k + 16])
    return total


def attention(
    q: Array, k: Array, v: Array, scale: float, causal: bool, *, block: int = 80, stale: bool = False, skip: int = -1
) -> tuple[Array, Array]:
    """O (in q's type) and LSE of one head [S, D]. `stale`: the maximum of the first block that a row sees stays;
    `skip`: a block of keys that is left out (a bug)."""
    Sq, Sk, dtype = len(q), len(k), q.dtype
    c = np.float32(scale) * LOG2E
    m, z = np.full(Sq, -np.inf, np.float32), np.zeros(Sq, np.float32)
    out = np.zeros((Sq, v.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for n, start in enumerate(range(0, Sk, block)):
            if n == skip:
                continue
            keys = slice(start, start + block)
            s = tensor_core(q, k[keys].T)
            if causal:
                j = np.arange(start, start + s.shape[1])
                s = np.where(j[None, :] <= np.arange(Sq)[:, None] + Sk - Sq, s, np.float32(-np.inf))
            top = np.maximum(m, s.max(axis=1))
            if stale:
                top = np.where(np.isneginf(m), top, m)
            reference = np.where(np.isneginf(top), np.float32(0), top) * c
            p = np.exp2(s * c - reference[:, None])
            rescale = np.where(np.isneginf(m), np.float32(0), np.exp2(m * c - reference))
            z = z * rescale + p.sum(axis=1, dtype=np.float32)
            out = tensor_core(p.astype(dtype), v[keys], out * rescale[:, None])
            m = top
        lse = np.where(z == 0, np.float32(-np.inf), (m * c + np.log2(z)) / LOG2E)
        out = np.where(z[:, None] == 0, np.float32(0), out * (np.float32(1) / z)[:, None])
    return out.astype(dtype), lse
