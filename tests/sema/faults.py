"""A spec without faults, and helpers that put one in and look at what is reported."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.tile import TileProgram
from tilegen.sema import load
from tilegen.syntax.span import Source, Span

BASE = """\
kernel k(T: bf16 | f16 = bf16, D: 64 | 128 = 64, flag: bool = false) {
  size M, N
  input A: T[M, D]
  input B: T[N, D]
  output C: f32[M, N] else 0
  scalar x: f32 > 0 = 1
  scalar w: i32 = 3
  axis i in M, j in N
  domain i, j: j <= i + w if flag
  tile a[i, d] = A[i, d]
  tile b[j, d] = B[j, d]
  s[i, j] = x * sum[d](a[i, d] * b[j, d])
  C[i, j] = s[i, j] + w
  schedule hopper { block i 64, j 64 consumers 1 over i }
  schedule mls if not flag { waves 4 }
}
"""


def with_changes(*changes: tuple[str, str]) -> str:
    """BASE with each text replaced by another; it must occur once."""
    text = BASE
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def loaded(text: str, params: Mapping[str, str | int | float | bool] | None = None) -> TileProgram:
    return load(Source("spec.tile", text), dict(params or {}))


def reported(text: str, params: Mapping[str, str | int | float | bool] | None = None) -> tuple[Diagnostic, ...]:
    """The diagnostics of a spec that has faults."""
    try:
        loaded(text, params)
    except TilegenError as error:
        return error.diagnostics
    raise AssertionError("no fault was found")


def underlined(text: str, span: Span) -> str:
    """What a span covers."""
    lines = text.splitlines()[span.line - 1 : span.end_line]
    if len(lines) == 1:
        return lines[0][span.column - 1 : span.end_column - 1]
    return "\n".join([lines[0][span.column - 1 :], *lines[1:-1], lines[-1][: span.end_column - 1]])
