"""Reads beside the position at hand: what the domain leaves of a shifted index is read, and nothing outside."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.cli.main import main

TARGETS = {"hopper": ("--emulate",), "sm_80": ("--target", "sm_80", "--emulate"), "mls": ("--target", "mls")}
MATRIX = """kernel shifted {{
  size   M, N
  input  X: f32[M, N]
  input  W: f32[{length}]
  output Y: f32[M, N] else 0
  axis   i in M, j in N
  domain {domain}
  tile x[i, j] = X[i, j]
  Y[i, j] = x[i, j] + W[{index}]
}}
"""
BATCH = """kernel shifted_batch {
  size   H, M, N
  input  X: f32[M, H, N]
  input  W: f32[H]
  input  V: f32[H, N]
  output Y: f32[M, H, N] else 0
  axis   i in M, h in H, j in N
  domain h: h >= 1 and h < H - 1
  tile x[i, h, j] = X[i, h, j]
  Y[i, h, j] = x[i, h, j] + W[h - 1] + V[h + 1, j]
  schedule hopper { block h 1, i 128, j 64  consumers 2 over i }
  schedule sm_80 { block h 1, i 128, j 64  consumers 2 over i }
  schedule mls { block h 1, i 64, j 64 }
}
"""
SCORES = """kernel shifted_scores(D: 32 .. 256 by 8 = 64) {
  size   N
  input  Q: bf16[N, D]
  input  K: bf16[N, D]
  input  bias: f32[N]
  output LSE: f32[N] else -inf
  axis   i in N, j in N, d in D
  domain i, j: j >= 3 and j <= i
  tile q[i, d] = Q[i, d]
  tile k[j, d] = K[j, d]
  s[i, j] = sum[d](q[i, d] * k[j, d])
  LSE[i] = logsumexp[j](s[i, j] * 0.1 + bias[j - 3])
}
"""
NEXT = """kernel shifted_product {{
  size   N
  input  Q: bf16[N, 64]
  input  K: bf16[N, 64]
  output L: f32[N]
  axis   i in N, j in N
  domain i, j: {domain}
  tile q[i, d] = Q[i, d]
  tile k[j, d] = K[{index}, d]
  L[i] = logsumexp[j](sum[d](q[i, d] * k[j, d]) * 0.1)
}}
"""
CHOICE = """kernel shifted_choice {
  size   N
  input  Q: bf16[N, 64]
  input  K: bf16[N, 64]
  input  W: f32[N]
  output L: f32[N]
  axis   i in N, j in N
  domain i, j: j <= i
  tile q[i, d] = Q[i, d]
  tile k[j, d] = K[j, d]
  s[i, j] = sum[d](q[i, d] * k[j, d]) * 0.1
  L[i] = logsumexp[j](s[i, j] + where(j + 1 < N, W[j + 1], 0) + where(j < 1, 0, W[j - 1]))
}
"""
SPECS = {
    "next": (NEXT.format(domain="j < i", index="j + 1"), "N=136"),
    "next of a window": (NEXT.format(domain="j < i and (j >= i - 7 or j < 4)", index="j + 1"), "N=136"),
    "last": (NEXT.format(domain="1 <= j <= i", index="j - 1"), "N=136"),
    "last above": (NEXT.format(domain="i < j", index="j - 1"), "N=136"),
    "choice": (CHOICE, "N=136"),
    "columns": (MATRIX.format(length="N", domain="j: j >= 5", index="j - 5"), "M=70,N=136"),
    "rows": (MATRIX.format(length="M", domain="i: i >= 5", index="i - 5"), "M=70,N=136"),
    "elements": (BATCH, "H=4,M=70,N=72"),
    "scores": (SCORES, "N=136"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SPECS)
def test_a_shifted_read_ends_at_both_ends(name: str, target: str, tmp_path: Path) -> None:
    text, sizes = SPECS[name]
    spec = tmp_path / "shifted.tile"
    spec.write_text(text)
    done = CliRunner().invoke(main, ["run", str(spec), *TARGETS[target], "--size", sizes], catch_exceptions=False)
    if target == "mls" and name.startswith("last"):
        assert "MLS_UNSUPPORTED" in done.output and "which can begin before its tensor" in done.output
    else:
        assert done.exit_code == 0, done.output
