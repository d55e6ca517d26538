"""Domains of the samples: in the emulator against formulas, and against the fewest blocks that must be loaded."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tests import formulas
from tilegen.ir.plan import MapParam, Plan
from tilegen.oracle import evaluate, random_inputs, scalar_values
from tilegen.passes.pipeline import lower
from tilegen.runtime.kernel import Kernel
from tilegen.sema import load
from tilegen.syntax.span import Source

SAMPLES = Path(__file__).parents[1] / "samples"
BF16 = ml_dtypes.bfloat16
MINUS_INFINITY = float("-inf")
Array = np.ndarray[Any, Any]


@cache
def kernel(name: str, **params: Any) -> Kernel:
    return tilegen.compile(SAMPLES / f"attention_{name}.tile", **{"D": 64, **params})


def positions(Sq: int, Sk: int) -> tuple[Array, Array]:
    """Of queries and keys, the last of both at one place: [Sq, 1], [1, Sk]."""
    return np.arange(Sq)[:, None] + (Sk - Sq), np.arange(Sk)[None, :]


def check(name: str, Sq: int, Sk: int, seen: Array, *, heads: int = 1, **more: Any) -> Any:
    """Runs a sample on poisoned outputs; rows that see nothing are exactly 0 and -inf. `seen`: [Sq, Sk]."""
    params = {k: more.pop(k) for k in ("causal",) if k in more}
    k = kernel(name, **params)
    rng = np.random.default_rng(Sq + Sk)
    q, kk, v = (rng.standard_normal((1, n, heads, 64)).astype(BF16) for n in (Sq, Sk, Sk))
    out = {"O": np.full((1, Sq, heads, 64), np.nan, BF16), "LSE": np.full((1, heads, Sq), np.nan, np.float32)}
    got = k(Q=q, K=kk, V=v, **out, **more)
    p, lse = formulas.masked_softmax(formulas.scores(q, kk, 0.125), seen)
    o = np.einsum("bhij,bjhd->bihd", p, formulas.f64(v))
    np.testing.assert_allclose(got.O.astype(np.float64), o, atol=2e-2, rtol=2e-2)
    empty = ~seen.any(axis=1)
    assert (got.O[0, empty] == 0).all()
    assert (got.LSE[0, :, empty] == MINUS_INFINITY).all()
    np.testing.assert_allclose(got.LSE[0, :, ~empty], np.moveaxis(lse[0][:, ~empty], 0, 1), atol=1e-4)
    assert loads_of(k, "k") == loads_of(k, "v") == heads * least_blocks(k.plan, seen)
    return got


def loads_of(k: Kernel, tile: str) -> int:
    """Boxes of a tile that the last call requested; one brings a whole block at D = 64."""
    report = k.last_report
    assert report is not None
    number = next(n for n, p in enumerate(k.plan.params) if p == MapParam(tile))
    return sum(count for name, count in report.tma_loads.items() if name.endswith(f"_param_{number}"))


def least_blocks(plan: Plan, seen: Array) -> int:
    """Blocks of keys with a point of the domain in them, summed over blocks of queries."""
    rows = 64 * plan.role("consumer").warpgroups
    cols = plan.buffer("k").rows
    blocks = [
        seen[i : i + rows, j : j + cols] for i in range(0, len(seen), rows) for j in range(0, seen.shape[1], cols)
    ]
    return sum(bool(b.any()) for b in blocks)


# ---- windows ---------------------------------------------------------------------------------------

LENGTHS = [(300, 300), (137, 430), (430, 137), (9, 12), (5, 0)]


@pytest.mark.parametrize(("Sq", "Sk"), LENGTHS)
@pytest.mark.parametrize(("left", "right"), [(40, 0), (70, 33), (0, -1)])
def test_window(Sq: int, Sk: int, left: int, right: int) -> None:
    check("window", Sq, Sk, formulas.visible(Sq, Sk, False, (left, right)), left=left, right=right)


@pytest.mark.parametrize(("Sq", "Sk"), [(137, 137), (300, 200), (70, 300)])
def test_case_5_windows_without_a_bound(Sq: int, Sk: int) -> None:
    """(-1, -1) is no window; (-1, 0), (S, 0) and (S - 1, 0) are causal."""
    S = max(Sq, Sk)
    check("window", Sq, Sk, np.ones((Sq, Sk), bool), left=-1, right=-1)
    for left in (-1, S, S - 1):
        check("window", Sq, Sk, formulas.visible(Sq, Sk, True), left=left, right=0)


@pytest.mark.parametrize("Sk", [20, 60])
def test_case_7_rows_without_a_key_in_range_are_0(Sk: int) -> None:
    """Window (32, 64) of 129 queries over few keys."""
    seen = formulas.visible(129, Sk, False, (32, 64))
    assert not seen.any(axis=1).all()
    check("window", 129, Sk, seen, left=32, right=64)


@pytest.mark.parametrize("size", [9, 12, 137, 1025])
def test_case_21_odd_lengths(size: int) -> None:
    check("window", size, size, formulas.visible(size, size, False, (100, 0)), left=100, right=0)


def test_what_a_window_is_given_by_scalars_of_any_size() -> None:
    check("window", 100, 200, np.ones((100, 200), bool), left=2**20, right=2**20)


# ---- prefixes, global tokens -----------------------------------------------------------------------


@pytest.mark.parametrize(("Sq", "Sk"), LENGTHS)
@pytest.mark.parametrize("prefix", [0, 100, 1000])
def test_prefix_lm(Sq: int, Sk: int, prefix: int) -> None:
    i, j = positions(Sq, Sk)
    check("prefix_lm", Sq, Sk, (j < prefix) | (j <= i), prefix=prefix)


@pytest.mark.parametrize(("Sq", "Sk"), [(430, 430), (137, 430), (430, 300), (5, 0)])
@pytest.mark.parametrize(("first", "window"), [(4, 30), (70, 0), (128, 64)])
@pytest.mark.parametrize("causal", [False, True])
def test_global_tokens(Sq: int, Sk: int, first: int, window: int, causal: bool) -> None:
    i, j = positions(Sq, Sk)
    seen = (j < first) | (i < first) | (abs(i - j) <= window)
    check("global_tokens", Sq, Sk, seen & (j <= i) if causal else seen, globals=first, window=window, causal=causal)


# ---- chunks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("C", "N"), [(100, 4), (64, 5), (7, 30)])
@pytest.mark.parametrize("causal", [False, True])
def test_chunks(C: int, N: int, causal: bool) -> None:
    i, j = positions(N * C, N * C)
    same = i // C == j // C
    check("chunks", N * C, N * C, same & (j <= i) if causal else same, C=C, causal=causal)


def test_conditions_on_chunks_of_queries_or_keys_alone(tmp_path: Path) -> None:
    """A key of the chunks before, or of another chunk's first half; slopes of chunk numbers other than 1."""
    text = SPEC.replace("SCHEDULE", "walk j down skip_rows").replace(
        "DOMAIN", "split i into ci, oi by C  split j into cj, oj by C  domain ci, cj: 2 * cj <= ci + 1 or cj == ci + t"
    )
    text = text.replace("size Sq = 150, Sk = 220, B = 2", "size C = 30, N = 5, B = 2")
    text = text.replace("Sq", "N * C").replace("Sk", "N * C")
    for name in "acwe":
        line = next(x for x in text.splitlines() if x.startswith(f"  input {name}:"))
        text = text.replace(line + "\n", "")
    path = tmp_path / "spec.tile"
    path.write_text(text)
    program, run = load(path, {}), tilegen.compile(path)
    for C, t in ((30, 1), (64, -1)):
        sizes = {"C": C, "N": 5, "B": 2}
        data = random_inputs(program, sizes, 3)
        want = evaluate(program, sizes, {"t": t}, data)["O"].value
        np.testing.assert_allclose(run(**data, C=C, t=t), want, atol=1e-3)


# ---- documents -------------------------------------------------------------------------------------


def documents(length: int, seed: int, base: int) -> Array:
    """Runs of equal numbers, neighbours one apart."""
    return (base + np.sort(np.random.default_rng(seed).integers(0, 5, length))).astype(np.int32)


@pytest.mark.parametrize(("Sq", "Sk"), [(300, 300), (137, 300), (300, 137), (5, 0)])
@pytest.mark.parametrize("causal", [False, True])
def test_documents(Sq: int, Sk: int, causal: bool) -> None:
    """Numbers beyond 2**24, which f32 would round together."""
    base = 2**31 - 5
    doc_q, doc_k = documents(Sq, 0, base), documents(Sk, 1, base)
    doc_q[Sq // 2] = -1  # sees nothing
    i, j = positions(Sq, Sk)
    same = doc_q[:, None] == doc_k[None, :]
    k = kernel("documents", causal=causal)
    seen = same & (j <= i) if causal else same
    rng = np.random.default_rng(2)
    q, kk, v = (rng.standard_normal((1, n, 2, 64)).astype(BF16) for n in (Sq, Sk, Sk))
    out = {"O": np.full((1, Sq, 2, 64), np.nan, BF16), "LSE": np.full((1, 2, Sq), np.nan, np.float32)}
    got = k(Q=q, K=kk, V=v, doc_q=doc_q[None], doc_k=doc_k[None], **out)
    p, lse = formulas.masked_softmax(formulas.scores(q, kk, 0.125), seen)
    np.testing.assert_allclose(
        got.O.astype(np.float64), np.einsum("bhij,bjhd->bihd", p, formulas.f64(v)), atol=2e-2, rtol=2e-2
    )
    empty = ~seen.any(axis=1)
    assert empty.any()
    assert (got.O[0, empty] == 0).all()
    assert (got.LSE[0, :, empty] == MINUS_INFINITY).all()
    np.testing.assert_allclose(got.LSE[0, :, ~empty], np.moveaxis(lse[0][:, ~empty], 0, 1), atol=1e-4)
    # the numbers only mask; beside them the clause of the diagonal bounds what is loaded
    loaded = (j <= i) if causal else np.ones((Sq, Sk), bool)
    assert loads_of(k, "k") == 2 * least_blocks(k.plan, loaded)


# ---- what a domain may be made of ------------------------------------------------------------------

SPEC = """
kernel k(T: bf16 = bf16) {
  size Sq = 150, Sk = 220, B = 2
  input Q: T[B, Sq, 64]
  input K: T[B, Sk, 64]
  input a: i32[B, Sq]
  input c: i32[B, Sk]
  input w: f32[Sk]
  input e: i32[B]
  output O: f32[B, Sq]
  scalar t: i32 = 1
  axis b in B, i in Sq, j in Sk
  DOMAIN
  tile q[i, d] = Q[b, i, d]
  tile k[j, d] = K[b, j, d]
  s[i, j] = sum[d](q[i, d] * k[j, d]) * 0.1
  O[b, i] = logsumexp[j](s[i, j])
  schedule hopper { block i 128, j 32 consumers 2 over i SCHEDULE }
}
"""
ALL = "domain b, i, j: a[b, i] != c[b, j] + t and w[j] < 0.5 and e[b] <= c[b, j]"


@pytest.mark.parametrize("schedule", ["", "stale_max walk j down skip_rows"])
@pytest.mark.parametrize(
    "domain",
    [
        f"{ALL}",
        "domain b, i, j: a[b, i] == c[b, j] or j < 40 or i - 10 <= j <= i + 5  domain b, j: e[b] <= c[b, j]"
        "  domain j: w[j] < 1 or j < 3 if t >= 0",
        "domain b, i, j: not (a[b, i] == c[b, j] and j > i) if t == 0  domain b, i, j: a[b, i] + t > e[b] or w[j] < 0",
        "domain b, i, j: a[b, i] == c[b, j] if t > 0  domain i, j: Sk * i >= Sq * j  domain b, j: w[j] < e[b]",
    ],
)
def test_predicates_beside_inequalities(domain: str, schedule: str, tmp_path: Path) -> None:
    """Conjunctions, alternatives, negations and guards, at launch against the oracle."""
    used = [name for name in "acwet" if f"{name}[" in domain or (name == "t" and " t" in domain)]
    text = SPEC.replace("DOMAIN", domain).replace("SCHEDULE", schedule)
    for line in [x for x in text.splitlines() if x.strip()[:6] in ("input ", "scalar")]:
        name = line.split(":")[0].split()[-1]
        if name in "acwet" and name not in used:
            text = text.replace(line + "\n", "")
    program = load(Source("spec.tile", text), {})
    sizes = {"Sq": 150, "Sk": 220, "B": 2}
    path = tmp_path / "spec.tile"
    path.write_text(text)
    run = tilegen.compile(path)
    scalars = scalar_values(program, sizes, {})
    data = random_inputs(program, sizes, 3)
    want = evaluate(program, sizes, scalars, data)["O"].value
    got = run(**data)
    np.testing.assert_allclose(got, want, atol=1e-3)


def test_a_domain_of_many_alternatives_masks_by_some_and_says_so() -> None:
    domain = "domain i, j: j < 9 or j > 40 or j == i  domain i, j: j < 20 or j > i or j == 30"
    text = SPEC.replace("DOMAIN", domain).replace("SCHEDULE", "")
    for name in ("a: i32", "c: i32", "w: f32", "e: i32", "t: i32"):
        line = next(x for x in text.splitlines() if f" {name}" in x)
        text = text.replace(line + "\n", "")
    plan = lower(load(Source("spec.tile", text), {}))
    assert any("line 8" in note and "only mask" in note for note in plan.notes)
