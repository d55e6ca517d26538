"""Short specs for the oracle's tests, one feature each, with sizes to run them at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilegen.ir.tile import TileProgram
from tilegen.sema import load
from tilegen.syntax.span import Source


def spec(text: str, **params: Any) -> TileProgram:
    """The Tile program of a kernel given as text."""
    return load(Source("test.tile", text), params)


@dataclass(frozen=True)
class Feature:
    text: str
    runs: tuple[tuple[dict[str, Any], dict[str, Any]], ...]  # sizes, scalars
    params: Mapping[str, Any] = field(default_factory=dict)


WINDOW = """
kernel window(T: bf16 = bf16) {
  size Sq, Sk
  input  Q: T[Sq, 16]
  input  K: T[Sk, 16]
  input  V: T[Sk, 16]
  output O: T[Sq, 16]
  output LSE: f32[Sq]
  scalar left: i32 = -1
  scalar right: i32 = -1
  axis i in Sq, j in Sk
  domain i, j: j >= i + Sk - Sq - left if left >= 0
  domain i, j: j <= i + Sk - Sq + right if right >= 0
  tile q[i, d] = Q[i, d]
  tile k[j, d] = K[j, d]
  tile v[j, e] = V[j, e]
  s[i, j] = sum[d](q[i, d] * k[j, d])
  O[i, e] = sum[j](T(softmax[j](s[i, j])) * v[j, e])
  LSE[i] = logsumexp[j](s[i, j])
}
"""

SINK = """
kernel sink(T: bf16 = bf16) {
  size Sq, Sk, H
  input  X: f32[H, Sq, Sk]
  input  C: f32[H]
  input  V: T[H, Sk, 8]
  output O: T[H, Sq, 8]
  output LSE: f32[H, Sq]
  axis h in H, i in Sq, j in Sk
  domain i, j: j < i
  tile x[i, j] = X[h, i, j]
  tile v[j, e] = V[h, j, e]
  O[h, i, e] = sum[j](T(softmax[j](x[i, j]; C[h])) * v[j, e])
  LSE[h, i] = logsumexp[j](x[i, j]; C[h], 0.5)
}
"""

DOCUMENTS = """
kernel documents {
  size B, S
  input  X: f32[B, S, S]
  input  doc: i32[B, S]
  output top: f32[B, S]
  output low: f32[B, S]
  output total: f32[B, S]
  axis b in B, i in S, j in S
  domain b, i, j: doc[b, i] == doc[b, j] or j + 3 < i
  domain i, j: j != i
  top[b, i] = max[j](X[b, i, j])
  low[b, i] = min[j](X[b, i, j])
  total[b, i] = sum[j](X[b, i, j])
}
"""

TRIANGLE = """
kernel triangle {
  size N
  input  X: f32[N, N]
  output Y: f32[N, N] else 7
  output cumulative: f32[N]
  axis i in N, j in N
  domain i, j: 2 * j <= i + 1
  Y[i, j] = X[i, j] * (i - 2 * j) + exp2(X[j, i])
  cumulative[i] = sum[j](Y[i, j])
}
"""

FUNCTIONS = """
kernel functions {
  size N
  input  X: f32[N]
  output Y: f32[N]
  output Z: f32[N]
  scalar bias: f32 = 1 / (N + 1)
  axis i in N
  a[i] = abs(X[i]) + 0.25
  Y[i] = log(a[i]) + log2(a[i]) - sqrt(a[i]) / rsqrt(a[i]) + pow(a[i], 1.5) - floor(4 * X[i]) * bias
  Z[i] = select(X[i] > 0 and not (i == 2) or X[i] < -1, max(X[i], a[i], 0.5), -min(sigmoid(X[i]), tanh(X[i])))
}
"""

PARTS = """
kernel parts {
  size A, Bn
  input  X: f32[A * Bn, 4]
  input  W: f32[A, 4]
  output Y: f32[A * Bn] else -2
  output outer: f32[A]
  output inner: f32[Bn]
  axis h in A * Bn, d in 4
  split h into g, r by Bn
  domain h: h != 4
  Y[h] = sum[d](X[h, d] * W[g, d]) + r
  outer[g] = sum[r](Y[h] * Y[h])
  inner[r] = max[g](Y[h]) + sum[g, d](X[h, d] * X[h, d])
}
"""

GATHER = """
kernel gathered {
  size N, M, P
  input  X: f32[P, 4]
  input  tab: i32[N, M]
  output Y: f32[N, 4]
  axis n in N, m in M, d in 4
  domain n, m: m <= n
  tile x[m, d] = X[tab[n, m], d]
  Y[n, d] = sum[m](x[m, d] * (m + 1))
}
"""

TRIPLE = """
kernel triple {
  size I, J, K, L
  input  A: bf16[I, K]
  input  B: bf16[K, J]
  input  C: f32[K, L]
  output Y: f32[I, J]
  output Z: f32[J]
  axis i in I, j in J, k in K, l in L
  domain k, l: k + l >= 2
  Y[i, j] = sum[k, l](-A[i, k] * B[k, j] * C[k, l] / (l + 1))
  Z[j] = sum[i, k](A[i, k]) + sum[k](B[k, j])
}
"""

EXPSUM = """
kernel scaled {
  size I, J
  input  X: f32[I, J]
  input  V: bf16[J, 4]
  output Y: f32[I, 4]
  output Z: f32[I]
  axis i in I, j in J, e in 4
  domain i, j: j <= i + 1
  Y[i, e] = expsum[j](X[i, j], bf16(X[i, j]) * V[j, e]) / expsum[j](X[i, j], 1)
  Z[i] = expsum[j](2 * X[i, j], j)
}
"""

RENAMED = """
kernel renamed {
  size N
  input  X: f32[N, 4]
  output Y: f32[N]
  axis i in N, j in N, d in 4
  n[i] = sum[d](X[i, d] * X[i, d])
  Y[i] = sum[j](n[j] * max(n[i] - n[j], 0))
}
"""

CHUNKED = """
kernel chunked {
  size S
  input  X: f32[S, 3]
  output Y: f32[S, 3]
  axis i in S, j in S
  domain i, j: j <= i
  domain i, j: i - j < 3
  Y[i, d] = max[j](X[j, d] - 0.5 * (i - j))
}
"""

MODULUS = """
kernel labels {
  size N
  input  X: f32[N]
  output Y: f32[N]
  axis i in N
  Y[i] = i32(2.5 * X[i]) * 1.0 + i * i
}
"""

RAGGED_MEAN = """
kernel mean {
  size B, S
  input  cu: i32[B + 1]
  input  X: f32[B, 2, S]
  output Y: f32[B, 2]
  output Z: f32[B, 2, S]
  ragged S over B by cu
  axis b in B, c in 2, i in S
  Y[b, c] = sum[i](X[b, c, i]) / S
  Z[b, c, i] = X[b, c, i] * (S - i) + b
}
"""

FEATURES: dict[str, Feature] = {
    "windows with guards": Feature(
        WINDOW,
        (
            ({"Sq": 5, "Sk": 4}, {}),
            ({"Sq": 5, "Sk": 4}, {"left": -1, "right": 0}),
            ({"Sq": 4, "Sk": 6}, {"left": 1, "right": 2}),
            ({"Sq": 6, "Sk": 2}, {"left": 1, "right": 1}),
        ),
    ),
    "softmax with a sink": Feature(SINK, (({"Sq": 3, "Sk": 4, "H": 2}, {}), ({"Sq": 2, "Sk": 0, "H": 1}, {}))),
    "predicates and alternatives": Feature(DOCUMENTS, (({"B": 2, "S": 6}, {}), ({"B": 1, "S": 1}, {}))),
    "an output with points outside its domain": Feature(TRIANGLE, (({"N": 6}, {}), ({"N": 1}, {}))),
    "scalar functions": Feature(FUNCTIONS, (({"N": 12}, {}), ({"N": 5}, {"bias": -3.5}))),
    "wholes and parts of a split axis": Feature(PARTS, (({"A": 3, "Bn": 2}, {}), ({"A": 1, "Bn": 6}, {}))),
    "lookups": Feature(GATHER, (({"N": 4, "M": 3, "P": 5}, {}),)),
    "products of more than two factors": Feature(TRIPLE, (({"I": 3, "J": 2, "K": 4, "L": 3}, {}),)),
    "scaled sums": Feature(EXPSUM, (({"I": 4, "J": 5}, {}), ({"I": 2, "J": 0}, {}))),
    "an equation read at another axis": Feature(RENAMED, (({"N": 5}, {}),)),
    "a band": Feature(CHUNKED, (({"S": 7}, {}),)),
    "a cast to integers": Feature(MODULUS, (({"N": 9}, {}),)),
    "ragged sizes as numbers": Feature(RAGGED_MEAN, (({"B": 3, "S": [2, 4, 1]}, {}),)),
}
