"""Tile programs print as text that reads back as the same program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tilegen.ir.tile import TileProgram
from tilegen.ir.tile_text import print_program
from tilegen.ir.tile_verify import verify
from tilegen.sema import load
from tilegen.syntax.span import Source, Span

ROOT = Path(__file__).parents[2]
SAMPLES = sorted(ROOT.glob("samples/*.tile"))
SPECS = [*SAMPLES, *sorted(ROOT.glob("tests/specs/*.tile"))]

EVERYTHING = """\
kernel everything(T: bf16 | f16 = bf16, R: 4 | 8 = 4) {
  size B = 2, S = 8, P, N
  input  cu: i32[B + 1]
  input  tab: i32[B, P]
  input  X: T[B, S, 3 * R]
  input  Y: T[N, R]
  output Z: f32[B, S] else -inf
  output W: i32[P * R] else 0
  scalar w: i32 >= -1 = S - 1
  scalar f: f32 = 1.5e-7
  ragged S over B by cu
  axis   b in B, i in S, c in 3 * R, k in P * R
  split  k into pg, row by R
  domain b, i: i - w <= 2 * b <= i + S or not (i == b and b > 3) if w >= 0
  domain i: i * w > S or f < 0.5 and i != 3
  domain b, k: b + k >= b + 1
  domain k: tab[0, pg] > 0 and k != 2
  tile x[i, c] = X[b, i, c]
  tile y[k] = Y[tab[b, pg], row]
  m[i] = max[c](x[i, c]) - -1e300 * (f - (w - i)) / (f / f)
  t[i] = expsum[c](f32(x[i, c]) - m[i], 2) + logsumexp[c](x[i, c]; m[i], 0) + min(m[i], f, sqrt(f))
  Z[b, i] = t[i] * select(i < w and not f >= 1 or i == 3, pow(m[i], -2), -m[i]) + sum[k](y[k]) * f32(T(m[i]))
  W[k] = min(k, w) - abs(-k + w)
  schedule hopper {
    outputs Z { grid b  stream c  block i 64, c R }
    outputs W { grid k }
    group b by 48 KB  place x shared  hint x stream
    isolate fast  exact_max  split c by 2  via x auto  registers 232, 40
  }
  schedule mls { waves 4 prefetch 2 }
}
"""


def placeless(node: object) -> object:
    """A node without its places."""
    if isinstance(node, tuple):
        return tuple(placeless(part) for part in node)
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        fields = [f.name for f in dataclasses.fields(node) if f.name not in ("span", "source", "params")]
        return (type(node).__name__, *(placeless(getattr(node, name)) for name in fields))
    assert not isinstance(node, Span)
    return node


def ordered(program: TileProgram) -> TileProgram:
    """With axes by name: splits print behind the axes that are declared."""
    return dataclasses.replace(program, axes=tuple(sorted(program.axes, key=lambda a: a.name)))


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_the_text_reads_back_as_the_same_program(path: Path) -> None:
    program = load(path, {})
    assert_round_trip(program)


@pytest.mark.parametrize("params", [{}, {"T": "f16", "R": 8}])
def test_every_form_reads_back(params: dict[str, str | int | float | bool]) -> None:
    program = load(Source("spec.tile", EVERYTHING), dict(params))
    verify(program)
    assert_round_trip(program)


@pytest.mark.parametrize(
    "value", ["exp(" * 94 + "A[i]" + ")" * 94, "A[i] - " * 94 + "i", "-A[i] * (" * 45 + "2" + ")" * 45]
)
def test_the_deepest_expressions_read_back(value: str) -> None:
    program = load(Source("spec.tile", f"kernel k {{ size M input A: f32[M] output C: f32[M] C[i] = {value} }}"), {})
    verify(program)
    assert_round_trip(program)


def assert_round_trip(program: TileProgram) -> None:
    text = print_program(program)
    again = load(Source("printed.tile", text), {})
    verify(again)
    assert placeless(ordered(again)) == placeless(ordered(program))


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_text_of_each_spec(path: Path, golden: Callable[..., None]) -> None:
    causal = "causal: bool" in path.read_text(encoding="utf-8")
    golden(print_program(load(path, {"causal": True} if causal else {})), suffix=".tile")
