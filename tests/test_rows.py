"""Several axes along a tile's rows, in the emulator: heads of a group with short queries, and any two axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tilegen
from tests import formulas
from tests.passes.specs import schedule_of
from tests.test_shapes import SAMPLES, Array, built, normal, run
from tilegen.cli.main import main

DECODE = (SAMPLES / "attention_decode.tile").read_text(encoding="utf-8")
BLOCKS = "block i I, r R, j 64\n    consumers 1 over i, r"
# queries and heads a group: fewer than the blocks, as many, and more, none of which divides another
SIZES = [(1, 1), (2, 3), (17, 12), (9, 8)]


def check_attention(spec: str, T: str, causal: bool, **params: Any) -> None:
    kernel = built(spec, T=T, D=72, causal=causal, **params)
    for Sq, G in SIZES:
        rng = np.random.default_rng([Sq, G])
        q, k, v = (normal(rng, 2, S, H, 72, dtype=T) for S, H in ((Sq, 2 * G), (90, 2), (90, 2)))
        out = run(kernel, {"Q": q, "K": k, "V": v}, {"O": ((2, Sq, 2 * G, 72), T), "LSE": ((2, 2 * G, Sq), "f32")})
        o, lse = formulas.attention(*(x.astype(np.float64) for x in (q, k, v)), scale=72**-0.5, causal=causal)
        np.testing.assert_allclose(out["O"], o, atol=2e-2 if T == "bf16" else 3e-3, rtol=2e-2, err_msg=f"{Sq}, {G}")
        np.testing.assert_allclose(out["LSE"], lse, atol=1e-4, err_msg=f"{Sq}, {G}")


@pytest.mark.parametrize(("I", "R", "T", "causal"), [(1, 64, "bf16", False), (16, 4, "f16", True)])
def test_heads_of_a_group_share_the_rows(I: int, R: int, T: str, causal: bool) -> None:  # noqa: E741
    check_attention(DECODE, T, causal, I=I, R=R)


@pytest.mark.parametrize(("rows", "blocks"), [("i, r", "block i 64, r 1"), ("r, i", "block i 1, r 64")])
def test_one_of_the_axes_may_have_one_position(rows: str, blocks: str) -> None:
    spec = DECODE.replace("I: 1 | 4 | 8 | 16 = 8, R: 4 | 8 | 16 | 64 = 8,", "").replace("block i I, r R", blocks)
    check_attention(spec.replace("over i, r", f"over {rows}"), "bf16", causal=True)


@pytest.mark.parametrize("rows", ["i, r", "r, i"])
def test_consumers_share_out_rows_of_two_axes(rows: str) -> None:
    """The outermost axis goes from one consumer to the next; what leaves through shared memory is clipped as well."""
    spec = DECODE.replace("I: 1 | 4 | 8 | 16 = 8, R: 4 | 8 | 16 | 64 = 8,", "").replace(
        "block i I, r R, j 64", f"block i {'32, r 4' if rows == 'i, r' else '8, r 16'}, j 64"
    )
    spec = spec.replace("consumers 1 over i, r", f"consumers 2 over {rows}").replace(
        "walk j down", "walk j down  skip_rows  stale_max  take_turns over s, O  via O tma"
    )
    check_attention(spec, "bf16", causal=True)


EVERYTHING = """kernel k {
  size   C, Sk, Hk, G
  input  Q: bf16[C * 6, Hk * G, 64]
  input  K: bf16[Sk, Hk, 64]
  input  slope: f32[Hk * G]
  input  shift: f32[C * 6]
  input  bias: f32[C * 6, Sk]
  output O: f32[C * 6, Hk * G]
  output top: f32[Hk * G, C * 6]
  axis   h in Hk * G, i in C * 6, j in Sk
  split  h into g, r by G
  split  i into c, t by 6
  domain i, j: 2 * j <= 3 * i + 5
  domain c, j: 8 * c <= j + 12
  domain h, j: j >= h
  domain i, h, j: j >= i - h - 60
  tile q[i, d] = Q[i, h, d]
  tile k[j, d] = K[j, g, d]
  tile y[i, j] = bias[i, j]
  s[i, j] = sum[d](q[i, d] * k[j, d]) / 8 + slope[h] * (j - i) + shift[i] + y[i, j] + h / 16 - r / 4
  O[i, h] = sum[j](s[i, j])
  top[h, i] = max[j](s[i, j])
  schedule hopper { block i 16, r 8, j 64  consumers 2 over i, r  walk j down  skip_rows }
}"""


@pytest.mark.parametrize(("Sq", "G"), [(6, 3), (18, 5), (72, 8), (24, 12)])
def test_vectors_positions_tiles_and_domains_know_where_a_row_is_along_each_axis(Sq: int, G: int) -> None:
    rng = np.random.default_rng(Sq)
    Sk, H = 70, 2 * G
    inputs: dict[str, Array] = {
        "Q": normal(rng, Sq, H, 64, dtype="bf16"),
        "K": normal(rng, Sk, 2, 64, dtype="bf16"),
        "slope": normal(rng, H, dtype="f32"),
        "shift": normal(rng, Sq, dtype="f32"),
        "bias": normal(rng, Sq, 72, dtype="f32")[:, :Sk],
    }
    # rows of 72 numbers, of which 70 are read: TMA steps by multiples of 16 bytes
    kernel = built(EVERYTHING)
    out = run_strided(kernel, inputs, {"O": ((Sq, H), "f32"), "top": ((H, Sq), "f32")})
    i, h, j = np.arange(Sq)[:, None, None], np.arange(H)[None, :, None], np.arange(Sk)[None, None, :]
    q, k = inputs["Q"].astype(np.float64), inputs["K"].astype(np.float64)
    s = np.einsum("ihd,jhd->ihj", q, np.repeat(k, G, axis=1)) / 8
    s = s + inputs["slope"][None, :, None] * (j - i) + inputs["shift"][:, None, None] + inputs["bias"][:, None, :]
    s = s + h / 16 - (h % G) / 4
    live = (2 * j <= 3 * i + 5) & (8 * (i // 6) <= j + 12) & (j >= h) & (j >= i - h - 60)
    np.testing.assert_allclose(out["O"], np.where(live, s, 0).sum(axis=2), atol=2e-3)
    np.testing.assert_allclose(out["top"].T, np.where(live, s, -np.inf).max(axis=2), atol=1e-4)


def run_strided(kernel: Any, inputs: dict[str, Array], outputs: Any) -> Any:
    """As `run`, with the inputs where they are, and infinities among the outputs."""
    placed = {name: np.full(shape, np.nan, np.float32) for name, (shape, _) in outputs.items()}
    kernel(**inputs, **placed)
    assert not any(np.isnan(x).any() for x in placed.values())
    return placed


@pytest.mark.parametrize("index", ["m, n, k", "n, m, k"])
def test_rows_of_two_plain_axes(index: str) -> None:
    spec = f"""kernel k(T: bf16 | f16 = f16) {{
  size M, N, P
  input A: T[{"M, N" if index[0] == "m" else "N, M"}, 40]
  input B: T[40, P]
  output C: T[M, N, P]
  tile a[m, n, k] = A[{index}]
  tile b[k, p] = B[k, p]
  C[m, n, p] = sum[k](a[m, n, k] * b[k, p])
  schedule hopper {{ grid m, n, p  block m 8, n 16, p 64  consumers 2 over m, n }}
}}"""
    rng = np.random.default_rng(7)
    A, B = normal(rng, 11, 21, 40, dtype="f16"), normal(rng, 40, 72, dtype="f16")
    given = A if index[0] == "m" else np.ascontiguousarray(A.transpose(1, 0, 2))
    out = run(built(spec), {"A": given, "B": B}, {"C": ((11, 21, 72), "f16")})
    np.testing.assert_allclose(out["C"], A.astype(np.float64) @ B.astype(np.float64), atol=2e-2, rtol=2e-3)


def test_sequences_of_different_lengths_take_heads_that_share_the_rows(tmp_path: Path) -> None:
    text = (SAMPLES / "fa3_varlen.tile").read_text(encoding="utf-8")
    spec = tmp_path / "spec.tile"
    spec.write_text(schedule_of(text, "block i 8, r 8, j 64  consumers 1 over i, r  late O by 1  batch O, s"), "utf-8")
    lengths = ("--size", "Sq=[0,3,17,9],Sk=[5,70,90,0],Hk=2,G=5")
    result = CliRunner().invoke(main, ["run", str(spec), "--emulate", "-D", "causal=true", "-D", "D=72", *lengths])
    assert result.exit_code == 0, result.output


def test_what_is_visited_follows_the_position_of_the_rows_along_each_axis() -> None:
    """17 queries of 12 heads: three blocks of heads, each with two of queries, of which the first sees one block of the
    65 keys, and the second both."""
    kernel = built(DECODE, T="f16", D=72, causal=True, I=16, R=4)
    rng = np.random.default_rng(0)
    q, k, v = (normal(rng, 1, S, H, 72, dtype="f16") for S, H in ((17, 12), (65, 1), (65, 1)))
    kernel(Q=q, K=k, V=v)
    assert kernel.last_report is not None
    boxes = -(-72 // kernel.plan.buffer("k").chunk)
    # one box of queries for each of 3 chunks an item, and as many of keys and of values for each block
    assert sorted(kernel.last_report.tma_loads.values()) == [boxes * 3 * 2, boxes * 3 * (1 + 2), boxes * 3 * (1 + 2)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("block i I, r R", "block i 8, r 4"), "BLOCK_OF_WORKERS"),
        ((BLOCKS, "block i 16, r 12, j 64  consumers 3 over i, r"), "BLOCK_OF_ROWS"),
        (("over i, r", "over i, g"), "CONSUMER_AXIS"),
        ((BLOCKS, "block i 64, r 8, j 64  consumers 1 over i"), "BLOCK_OF_PART"),
        (("LSE[b, h, i]  = logsumexp[j](s[i, j])", "LSE[b, i]  = sum[d](q[i, d] * q[i, d])"), "AXIS_LEFT_OVER"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)  # fmt: skip
def test_what_rows_cannot_be_is_refused_by_name(change: tuple[str, str], code: str) -> None:
    spec = DECODE.replace(" I: 1 | 4 | 8 | 16 = 8, R: 4 | 8 | 16 | 64 = 8,", "") if "I" in change[0] else DECODE
    assert change[0] in spec
    spec = spec.replace(*change)
    with pytest.raises(tilegen.TilegenError) as caught:
        tilegen.compile(spec)
    assert code in [d.code for d in caught.value.diagnostics]
