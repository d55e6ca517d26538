"""Extents that are no whole number of swizzle lines, in the emulator: what is added to fill them is never seen.

Outputs lie in memory of NaN, and are NaN before; what lies around them must stay as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tilegen
from tests import formulas
from tests.variants import for_all_sizes
from tilegen.passes.pipeline import lower_all
from tilegen.runtime.kernel import Kernel
from tilegen.sema.loading import load
from tilegen.syntax.reading import read_source

SAMPLES = Path(__file__).parents[1] / "samples"
TYPES: dict[str, npt.DTypeLike] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
Array = npt.NDArray[Any]


@cache
def built(spec: str, **params: Any) -> Kernel:
    return for_all_sizes(tilegen.compile(SAMPLES / f"{spec}.tile" if "\n" not in spec else spec, **params))


def framed(shape: tuple[int, ...], dtype: npt.DTypeLike) -> tuple[Array, Array]:
    """(an array of NaN, all memory that it lies in): rows of NaN around it in each dimension, 8 of the innermost."""
    memory = np.full([*(n + 2 for n in shape[:-1]), shape[-1] + 16], np.nan, dtype)
    return memory[(*(slice(1, n + 1) for n in shape[:-1]), slice(8, 8 + shape[-1]))], memory


def run(kernel: Kernel, inputs: Mapping[str, Array], outputs: Mapping[str, tuple[tuple[int, ...], str]]) -> Any:
    """The outputs in float64. Every point is written, and nothing beside."""
    placed = {name: framed(shape, TYPES[dtype]) for name, (shape, dtype) in outputs.items()}
    given = {}
    for name, values in inputs.items():
        given[name], _ = framed(values.shape, values.dtype)
        given[name][...] = values
    kernel(**given, **{name: array for name, (array, _) in placed.items()})
    found = {}
    for name, (array, memory) in placed.items():
        found[name] = array.astype(np.float64)
        assert not np.isnan(found[name]).any(), name
        array[...] = np.nan
        assert np.isnan(memory.astype(np.float64)).all(), f"{name}: written outside"
    return found


def normal(rng: np.random.Generator, *shape: int, dtype: str) -> Array:
    return rng.standard_normal(shape).astype(TYPES[dtype])


# ---- heads ---------------------------------------------------------------------------------------

# (D, D of V or None for the same, type, causal)
HEADS = [
    (72, None, "f16", False), (80, None, "bf16", True), (200, None, "bf16", False), (192, 128, "bf16", True),
    (64, 256, "f16", False),
]  # fmt: skip


@pytest.mark.parametrize(("D", "DV", "T", "causal"), HEADS, ids=lambda x: str(x))
@pytest.mark.parametrize(("Sq", "Sk"), [(3, 7), (70, 101)], ids=["3x7", "70x101"])
def test_every_head_size_is_right(D: int, DV: int | None, T: str, causal: bool, Sq: int, Sk: int) -> None:
    """Cases 18 and 19."""
    rng = np.random.default_rng([D, Sq])
    name, more = ("attention_mixed_heads", {"DV": DV}) if DV else ("fa3_fwd", {})
    DV = DV or D
    q, k, v = (normal(rng, 1, S, H, E, dtype=T) for S, H, E in ((Sq, 4, D), (Sk, 2, D), (Sk, 2, DV)))
    kernel = built(name, T=T, D=D, causal=causal, **more)
    out = run(kernel, {"Q": q, "K": k, "V": v}, {"O": ((1, Sq, 4, DV), T), "LSE": ((1, 4, Sq), "f32")})
    f64 = [x.astype(np.float64) for x in (q, k, v)]
    o, lse = formulas.attention(*f64, scale=D**-0.5, causal=causal)
    np.testing.assert_allclose(out["O"], o, atol=2e-2 if T == "bf16" else 3e-3, rtol=2e-2)
    np.testing.assert_allclose(out["LSE"], lse, atol=1e-4)


@pytest.mark.parametrize(("size", "stored"), [(72, 96), (80, 96), (96, 96), (104, 128), (128, 128), (200, 224)])
def test_the_swizzle_that_stores_least_is_taken(size: int, stored: int) -> None:
    plan = lower_all(load(read_source(SAMPLES / "fa3_fwd.tile"), {"D": size}))[-1]
    buffer = plan.buffer("v")
    assert -(-buffer.cols // buffer.chunk) * buffer.chunk == stored
    assert plan.ring("v").bytes == 80 * stored * 2 if size <= 128 else 64 * stored * 2
    assert any(note.startswith(f"tile v: {size} columns are stored") for note in plan.notes) == (stored > size)


def test_nothing_is_computed_beyond_the_next_16_columns() -> None:
    text = built("fa3_fwd", D=72).ptx
    assert "m64n72k16" in text  # O
    assert text.count("m64n80k16") % 5 == 0  # S: 80 positions of j, 80 of d in five steps
    assert "m64n128k16" not in text


def test_values_of_512_are_refused_by_name_where_they_would_be_held() -> None:
    """An accumulator of 64 x 512 does not fit a warpgroup's registers; without `hold`, blocks of 128 are items."""
    with pytest.raises(tilegen.TilegenError) as caught:
        tilegen.compile(SAMPLES / "attention_mixed_heads.tile", DV=512)
    assert [(d.code, d.wanted) for d in caught.value.diagnostics] == [("PARAMETER_VALUE", "32 .. 256 by 8")]
    text = (
        (SAMPLES / "attention_mixed_heads.tile").read_text(encoding="utf-8").replace("DV: 32 .. 256", "DV: 32 .. 512")
    )
    with pytest.raises(tilegen.TilegenError) as caught:
        tilegen.compile(text.replace("block i 128, j 64", "hold e  block i 128, j 64"), DV=512)
    assert [(d.code, d.got) for d in caught.value.diagnostics] == [("MMA_WIDTH", "512")]


# ---- products ------------------------------------------------------------------------------------

PRODUCTS = {  # (spec, transposed A, transposed B, blocks)
    "both along k": ("A: T[M, 72]", "B: T[N, 72]", "block m 128, n 72"),
    "second along n": ("A: T[M, 72]", "B: T[72, N]", "block m 128, n 64"),
    "both across k": ("A: T[72, M]", "B: T[72, N]", "block m 128, n 96"),
    "through shared memory": ("A: T[M, 40]", "B: T[40, 104]", "block m 128  via C tma"),
}


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_over_a_part_of_a_step_are_right(name: str, computed: bool) -> None:
    first, second, schedule = PRODUCTS[name]
    M, N, K = 136, 104, 72 if "72" in first else 40
    a, b = "m, k" if first[5] == "M" else "k, m", "n, k" if second[5] == "N" else "k, n"
    if computed and a == "k, m":
        pytest.skip("rows run along the lines of A: it is no tile to compute with")
    factor = f"T(2 * a[{a}] * a[{a}])" if computed else f"a[{a}]"
    spec = f"""kernel k(T: bf16 | f16 = f16) {{
  size M{", N" if "N" in second else ""}
  input {first}
  input {second}
  output C: T[M, {"N" if "N" in second else N}]
  axis m in M, n in {"N" if "N" in second else N}, k in {K}
  tile a[{a}] = A[{a}]
  tile b[{b}] = B[{b}]
  C[m, n] = sum[k]({factor} * b[{b}])
  schedule hopper {{ {schedule}  consumers 2 over m }}
}}"""
    rng = np.random.default_rng(3)
    A = normal(rng, *((M, K) if a == "m, k" else (K, M)), dtype="f16")
    B = normal(rng, *((N, K) if b == "n, k" else (K, N)), dtype="f16")
    out = run(built(spec), {"A": A, "B": B}, {"C": ((M, N), "f16")})
    left, right = (A if a == "m, k" else A.T).astype(np.float64), (B.T if b == "n, k" else B).astype(np.float64)
    want = (2 * left * left if computed else left) @ right
    np.testing.assert_allclose(out["C"], want, atol=0.1 if computed else 0.02, rtol=2e-3)


def test_what_is_behind_a_part_of_a_row_is_not_added() -> None:
    """k runs over 72 of 80 columns, and no whole number of steps: nothing makes the other 8 zero."""
    spec = """kernel k {
  size M, N
  input A: bf16[M, 80]
  input B: bf16[N, 80]
  output C: f32[M, N]
  axis m in M, n in N, k in SIZE
  tile a[m, k] = A[m, k]
  tile b[n, k] = B[n, k + 8]
  C[m, n] = sum[k](a[m, k] * b[n, k])
  schedule hopper { block m 128, n 64  consumers 2 over m }
}"""
    with pytest.raises(tilegen.TilegenError) as caught:
        tilegen.compile(spec.replace("SIZE", "72"))
    assert [d.code for d in caught.value.diagnostics] == ["K_STEP"]
    rng = np.random.default_rng(4)
    A, B = normal(rng, 70, 80, dtype="bf16"), normal(rng, 64, 80, dtype="bf16")
    out = run(built(spec.replace("SIZE", "48")), {"A": A, "B": B}, {"C": ((70, 64), "f32")})
    want = A[:, :48].astype(np.float64) @ B[:, 8:56].astype(np.float64).T
    np.testing.assert_allclose(out["C"], want, atol=1e-4)


# ---- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("T", "D"), [("bf16", 72), ("f16", 40), ("f32", 24), ("f32", 104)])
def test_rows_that_are_held_whole_are_right(T: str, D: int) -> None:
    """Folds of an element-wise value, a vector along the columns, a scaled sum of one tile, a store through TMA."""
    spec = f"""kernel k(T: bf16 | f16 | f32) {{
  size M
  input X: T[M, {D}]
  input w: f32[{D}]
  output Y: T[M, {D}]
  output low: f32[M]
  output P: f32[M, {D}]
  tile x[i, d] = X[i, d]
  Y[i, d] = x[i, d] * rsqrt(sum[d](x[i, d] * x[i, d]) / {D}) * w[d]
  low[i]  = min[d](x[i, d] + 9)
  P[i, d] = softmax[d](3 * x[i, d])
  schedule hopper {{ block i 128  consumers 2 over i  via Y tma }}
}}"""
    rng = np.random.default_rng(D)
    X, w = normal(rng, 70, D, dtype=T), normal(rng, D, dtype="f32")
    out = run(built(spec, T=T), {"X": X, "w": w}, {"Y": ((70, D), T), "low": ((70,), "f32"), "P": ((70, D), "f32")})
    x = X.astype(np.float64)
    want = x / np.sqrt((x * x).mean(axis=1, keepdims=True)) * w
    np.testing.assert_allclose(out["Y"], want, rtol=1e-5 if T == "f32" else 1e-2)
    np.testing.assert_allclose(out["low"], (x + 9).min(axis=1), rtol=1e-6)
    np.testing.assert_allclose(out["P"], formulas.row_softmax(3 * x), rtol=1e-4)
