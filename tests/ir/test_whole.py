"""What counts as a whole number, and which divisions are rounded to nearest for it."""

from __future__ import annotations

import pytest

from tilegen.ir.tile import Apply
from tilegen.ir.walk import subexpressions
from tilegen.sema.loading import load
from tilegen.syntax.span import Source

SPEC = """kernel k(R: 3 = 3) {{
  size N
  input X: f32[N]
  input ids: i32[N]
  output Y: f32[N]
  output Z: f32[N]
  scalar n: i32 > 0
  scalar t: f32 > 0
  Y[i] = {value}
  Z[i] = X[i] + ids[i] + n + t + R
}}"""


@pytest.mark.parametrize(
    ("value", "ops"),
    [
        ("i / R", ["div_rn"]),
        ("(i - N) / n", ["div_rn"]),
        ("ids[i] / (2 * n + 1)", ["div_rn"]),
        ("floor(X[i]) / 3.0", ["div_rn"]),
        ("where(X[i] > 0, i, 2) / n", ["div_rn"]),
        ("X[i] / 3", ["div"]),
        ("i / t", ["div"]),
        ("i / 2.5", ["div"]),
        ("i / n / n", ["div_rn", "div"]),
        ("floor(X[i] / 3)", ["div_rn"]),
        ("floor(bf16(X[i] / t) + 1)", ["div_rn"]),
        ("floor(sum[i](X[i] / t))", ["div"]),
        ("where(X[i] / t > 1, X[i] / t, 0)", ["div_rn", "div"]),
    ],
)
def test_divisions(value: str, ops: list[str]) -> None:
    program = load(Source("k.tile", SPEC.format(value=value)), {})
    output = program.definition("Y")
    found = [e.op for e in subexpressions(output.value) if isinstance(e, Apply) and e.op.startswith("div")]
    assert sorted(found) == sorted(ops)
