"""What `tilegen run` takes from the oracle: sizes, scalars, random inputs, and the comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.oracle.specs import GATHER, RAGGED_MEAN, TRIANGLE, WINDOW, spec
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.dtypes import DType
from tilegen.oracle import Result, batch_axes, compare, default_sizes, evaluate, random_inputs, scalar_values
from tilegen.sema import load

ROOT = Path(__file__).parents[2]
FA3 = "samples/fa3_fwd.tile"


def codes(error: pytest.ExceptionInfo[TilegenError]) -> list[str]:
    return [d.code for d in error.value.diagnostics]


# ---- scalars -------------------------------------------------------------------------------------


def test_defaults_are_evaluated_and_rounded_as_the_kernel_receives_them() -> None:
    assert scalar_values(load(ROOT / FA3, {"D": 128}), {}, {}) == {"scale": float(np.float32(128**-0.5))}
    assert scalar_values(load(ROOT / FA3, {"D": 64}), {}, {"scale": 0.1}) == {"scale": float(np.float32(0.1))}
    program = spec(
        "kernel k { size N  input X: f32[N]  output Y: f32[N]  scalar a: f32 = 2 / (N + 1)  Y[i] = a * X[i] }"
    )
    assert scalar_values(program, {"N": 3}, {}) == {"a": 0.5}


def test_integer_scalars_stay_integers() -> None:
    values = scalar_values(spec(WINDOW), {}, {"left": 3.0})
    assert values == {"left": 3, "right": -1}
    assert all(type(v) is int for v in values.values())


@pytest.mark.parametrize("value", [0, -1.5, float("nan")])
def test_a_constraint_is_checked(value: float) -> None:
    with pytest.raises(TilegenError) as error:
        scalar_values(load(ROOT / FA3, {}), {}, {"scale": value})
    assert codes(error) == ["SCALAR_CONSTRAINT"]
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.wanted == "> 0"
    assert diagnostic.span is not None
    assert "scale" in diagnostic.message


def test_a_scalar_without_a_default_must_be_given() -> None:
    program = spec("kernel k { size N  input X: f32[N]  output Y: f32[N]  scalar a: f32  Y[i] = a * X[i] }")
    with pytest.raises(TilegenError) as error:
        scalar_values(program, {"N": 3}, {})
    assert codes(error) == ["SCALAR_MISSING"]
    assert scalar_values(program, {"N": 3}, {"a": 7}) == {"a": 7.0}


@pytest.mark.parametrize("value", [1.5, 2**31, "3", True])
def test_a_value_of_the_wrong_kind_is_refused(value: Any) -> None:
    with pytest.raises(TilegenError) as error:
        scalar_values(spec(WINDOW), {}, {"left": value})
    assert codes(error) == ["SCALAR_VALUE"]


@pytest.mark.parametrize("value", [1e39, -3.4028236e38, 10**400])
def test_a_number_beyond_f32_is_refused(value: float) -> None:
    with pytest.raises(TilegenError) as error:
        scalar_values(load(ROOT / FA3, {}), {}, {"scale": value})
    assert codes(error) == ["SCALAR_VALUE"]


def test_numbers_within_f32_are_rounded_to_it() -> None:
    largest = float(np.finfo(np.float32).max)
    program = spec("kernel k { size N  input X: f32[N]  output Y: f32[N]  scalar a: f32  Y[i] = a * X[i] }")
    for value, wanted in ((largest, largest), (3.40282353e38, largest), (np.inf, np.inf), (-np.inf, -np.inf)):
        assert scalar_values(program, {"N": 3}, {"a": value}) == {"a": wanted}


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(TilegenError) as error:
        scalar_values(spec(WINDOW), {}, {"left": 1.5, "rihgt": 2, "right": 0.5})
    assert codes(error) == ["UNKNOWN_ARGUMENT", "SCALAR_VALUE", "SCALAR_VALUE"]


# ---- sizes and inputs ------------------------------------------------------------------------------


def test_small_sizes_are_odd_and_few() -> None:
    assert default_sizes(load(ROOT / FA3, {}), small=True) == {"B": 1, "Sq": 137, "Sk": 137, "Hk": 1, "G": 2}
    visited = """kernel visited {
      size   B, M, N
      input  X: bf16[B, M, N]
      output Y: bf16[B, M, N]
      tile x[i, j] = X[b, i, j]
      Y[b, i, j] = 2 * x[i, j]
    }"""
    assert default_sizes(spec(visited), small=True) == {"B": 2, "M": 137, "N": 136}
    gemm = default_sizes(load(ROOT / "samples/gemm.tile", {}), small=True)
    assert gemm == {"M": 137, "N": 136, "K": 136}  # rows of whole 16-byte chunks


ROWS = """kernel rows {
  size   M, N, K
  input  A: T[M, 3 * K]
  input  B: T[N, 3 * K]
  output C: f32[M, N]
  tile a[m, k] = A[m, k]
  tile b[n, k] = B[n, k]
  C[m, n] = sum[k](where(KEEP, 1, 0))
  schedule hopper { VIA }
}"""


@pytest.mark.parametrize(
    ("dtype", "target", "via", "N", "K"),
    [
        ("bf16", "hopper", "via C rows", 137, 48),  # 144 numbers
        ("f32", "hopper", "via C rows", 137, 48),
        ("bool", "hopper", "via C rows", 137, 48),
        ("bf16", "hopper", "via C tma", 136, 48),
        ("bf16", "hopper", "stages C 2", 136, 48),
        ("bf16", "sm_80", "via C tma", 137, 48),  # hopper alone stores so
        ("bf16", "mls", "via C rows", 136, 48),
    ],
)
def test_sizes_make_rows_as_the_target_needs_them(dtype: str, target: str, via: str, N: int, K: int) -> None:
    keep = "a[m, k] and b[n, k]" if dtype == "bool" else "a[m, k] > b[n, k]"
    program = spec(ROWS.replace("T[", f"{dtype}[").replace("KEEP", keep).replace("VIA", via))
    assert default_sizes(program, small=True, target=target) == {"M": 137, "N": N, "K": K}
    whole = default_sizes(program, small=False, target=target)
    assert all(whole["K"] * 3 * t.dtype.bytes % 16 == 0 for t in program.tensors if not t.output)


def test_rows_of_single_bytes_are_longer() -> None:
    masked = """kernel masked {
      size   M, N
      input  X: bf16[M, N]
      input  keep: bool[M, N]
      output Y: bf16[M, N]
      tile x[i, j] = X[i, j]
      tile m[i, j] = keep[i, j]
      Y[i, j] = where(m[i, j], x[i, j], 0)
    }"""
    assert default_sizes(spec(masked), small=True) == {"M": 137, "N": 144}


def test_large_sizes_are_long() -> None:
    sizes = default_sizes(load(ROOT / FA3, {}), small=False)
    assert sizes["Sq"] == sizes["Sk"] == 2048
    assert sizes["Hk"] == sizes["G"] == 2


def test_sizes_stand_in_the_spec() -> None:
    sizes = default_sizes(load(ROOT / "tests/specs/ragged.tile", {}), small=True)
    assert sizes["H"] == 2
    assert sizes["B"] == 3 == len(sizes["Sq"]) == len(sizes["Sk"])
    assert 0 in sizes["Sq"]
    paged = default_sizes(load(ROOT / "tests/specs/paged.tile", {}), small=True)
    assert 1 < paged["P"] * 64 <= 256


@pytest.mark.parametrize("small", [True, False])
def test_every_spec_has_inputs_at_its_default_sizes(small: bool) -> None:
    for path in [*(ROOT / "samples").glob("*.tile"), *(ROOT / "tests/specs").glob("*.tile")]:
        program = load(path, {})
        sizes = default_sizes(program, small=small)
        scalar_values(program, sizes, {})
        if small:
            data = random_inputs(program, sizes, 0)
            assert data.keys() == {t.name for t in program.tensors if not t.output}
            assert all(data[t.name].dtype == t.dtype.numpy for t in program.tensors if not t.output)


def test_inputs_are_fresh_for_a_seed_and_the_same_for_the_same() -> None:
    program = load(ROOT / FA3, {"D": 64})
    sizes = {"B": 1, "Sq": 200, "Sk": 100, "Hk": 1, "G": 1}
    one, again, other = (random_inputs(program, sizes, seed) for seed in (1, 1, 2))
    assert all((one[n] == again[n]).all() for n in one)
    assert (one["Q"] != other["Q"]).mean() > 0.9
    assert (one["K"] != one["V"]).mean() > 0.9
    q = one["Q"].astype(np.float64)
    assert one["Q"].dtype == ml_dtypes.bfloat16
    assert abs(q.mean()) < 0.05
    assert abs(q.std() - 1) < 0.05


def test_tables_hold_positions_that_exist() -> None:
    data = random_inputs(spec(GATHER), {"N": 30, "M": 20, "P": 5}, 0)
    assert set(np.unique(data["tab"])) == set(range(5))
    ragged = random_inputs(spec(RAGGED_MEAN), {"B": 3, "S": [2, 0, 5]}, 0)
    assert ragged["cu"].tolist() == [0, 2, 2, 7]
    assert ragged["cu"].dtype == np.int32
    assert ragged["X"].shape == (2, 7)
    paged = random_inputs(load(ROOT / "tests/specs/paged.tile", {}), {"B": 50, "H": 1, "S": 1, "P": 4, "N": 7}, 0)
    assert paged["used"].max() > 128
    assert paged["used"].max() <= 256


def test_sizes_and_arrays_that_do_not_fit_are_refused() -> None:
    program = load(ROOT / "samples/gemm.tile", {})
    sizes = {"M": 4, "N": 8, "K": 8}
    data = random_inputs(program, sizes, 0)
    with pytest.raises(ValueError, match="input A has shape"):
        evaluate(program, sizes | {"M": 5}, {}, data)
    with pytest.raises(ValueError, match="size K takes a number"):
        evaluate(program, {"M": 4, "N": 8}, {}, data)
    ragged = spec(RAGGED_MEAN)
    with pytest.raises(ValueError, match="list of lengths"):
        random_inputs(ragged, {"B": 3, "S": 4}, 0)
    with pytest.raises(ValueError, match="2 lengths"):
        random_inputs(ragged, {"B": 3, "S": [4, 5]}, 0)


def test_only_the_outputs_asked_for_are_evaluated() -> None:
    program = load(ROOT / FA3, {"D": 64})
    sizes = {"B": 1, "Sq": 3, "Sk": 3, "Hk": 1, "G": 1}
    data = random_inputs(program, sizes, 0)
    assert evaluate(program, sizes, {"scale": 1.0}, data, outputs=["LSE"]).keys() == {"LSE"}


@pytest.mark.parametrize(
    ("path", "output", "axes"),
    [
        (FA3, "O", (0, 2)),
        (FA3, "LSE", (0, 1)),
        ("tests/specs/attention_bwd.tile", "dK", (0, 2)),
        ("tests/specs/paged.tile", "O", (0, 1)),
        ("tests/specs/ragged.tile", "O", (1,)),
        ("samples/gemm.tile", "C", ()),
        ("samples/row_softmax.tile", "Y", ()),
    ],
)
def test_batch_axes_are_those_that_products_share(path: str, output: str, axes: tuple[int, ...]) -> None:
    assert batch_axes(load(ROOT / path, {}), output) == axes


# ---- comparing -------------------------------------------------------------------------------------


def result(value: Any, allowed: float = 0.5, dtype: DType = DType.F32) -> Result:
    value = np.asarray(value, dtype=np.float64)
    return Result(value, np.full(value.shape, allowed), np.ones(value.shape, dtype=bool), dtype)


def test_the_worst_point_is_found() -> None:
    got = compare(result([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.1, 2.0], [2.0, 4.0]]), ())
    assert got.worst == 2.0
    assert got.worst_at == (1, 0)
    assert got.absolute == 1.0
    assert got.relative == pytest.approx(np.sqrt(1.01) / np.sqrt(30))
    assert not got.right
    assert compare(result([1.0]), np.array([1.5]), ()).right


def test_slices_are_judged_apart() -> None:
    value = np.array([[[100.0, 0], [0, 100]], [[1, 0], [0, 1]]])
    got = compare(result(value), value + np.full((2, 1, 1), 0.1), (0,))
    assert got.relative == pytest.approx(0.2 / np.sqrt(2))
    assert compare(result(value), value, (0, 1)).relative is None


@pytest.mark.parametrize(
    ("value", "got", "mismatches"),
    [
        ([np.nan, -np.inf, np.inf, 1.0], [np.nan, -np.inf, np.inf, 1.0], 0),
        ([np.nan, 1.0], [1.0, 1.0], 1),
        ([-np.inf, 1.0], [-1e30, 1.0], 1),
        ([-np.inf, 1.0], [np.inf, 1.0], 1),
        ([1.0, 1.0], [np.nan, np.inf], 2),
    ],
)
def test_what_is_not_finite_must_be_the_same(value: list[float], got: list[float], mismatches: int) -> None:
    judged = compare(result(value), np.array(got), ())
    assert judged.mismatches == mismatches
    assert judged.right == (mismatches == 0)
    assert (judged.mismatch_at is None) == (mismatches == 0)


def test_points_outside_the_domain_hold_the_constant() -> None:
    program = spec(TRIANGLE)
    data = random_inputs(program, {"N": 4}, 0)
    want = evaluate(program, {"N": 4}, {}, data)["Y"]
    assert not want.defined.all()
    assert (want.value[~want.defined] == 7).all()
    right = want.value.astype(np.float32)
    assert compare(want, right, ()).right
    wrong = right.copy()
    wrong[0, 3] = 0
    judged = compare(want, wrong, ())
    assert (judged.mismatches, judged.mismatch_at) == (1, (0, 3))
    assert judged.worst <= 1


def test_an_exact_output_allows_nothing() -> None:
    judged = compare(result([1.0, 2.0], allowed=0.0), np.array([1.0, 2.0 + 1e-12]), ())
    assert judged.worst == np.inf
    with pytest.raises(ValueError, match="shape"):
        compare(result([1.0]), np.zeros(2), ())


def test_empty_outputs_compare() -> None:
    judged = compare(result(np.zeros((0, 4))), np.zeros((0, 4)), ())
    assert judged.right
    assert judged.worst_at is None
    assert replace(judged, worst=2.0).right is False
