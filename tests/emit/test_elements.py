"""Element-wise work, run in the emulator against numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from tests.emit.plans import apply
from tests.emit.running import run
from tests.emit.small_plans import S, acc, outer_plan, row, vector_plan
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import (
    Bound,
    Compute,
    Coordinate,
    Element,
    ElementExpr,
    Fragment,
    IntValue,
    Literal,
    Map,
    Mask,
    QuadReduce,
    Relayout,
    RowFold,
    Value,
)
from tilegen.ir.uniform import Int, op
from tilegen.targets.hopper.emit import emit
from tilegen.targets.hopper.emit.literals import literal

A, B, R, C = (Element(n) for n in "abrc")
F64 = npt.NDArray[np.float64]
INF, NAN = math.inf, math.nan


def vector(value: ElementExpr, a: F64, b: F64, t: float = 0.0) -> F64:
    arrays = {"A": a.astype(np.float32), "B": b.astype(np.float32)}
    return run(vector_plan(value), arrays, {"t": t})["Y"].astype(np.float64)


def numbers(low: float, high: float, n: int = 61) -> F64:
    return np.random.default_rng(5).uniform(low, high, n).astype(np.float32).astype(np.float64)


ONE = np.ones(61)
UNARY: dict[str, tuple[Callable[[F64], F64], F64, float]] = {
    # (reference, arguments, ulps of f32)
    "ex2": (np.exp2, numbers(-40, 40), 4),
    "lg2": (np.log2, numbers(2, 1000), 4),
    "rcp": (lambda x: 1 / x, numbers(-5, 5), 2),
    "sqrt": (np.sqrt, numbers(0, 100), 2),
    "rsqrt": (lambda x: 1 / np.sqrt(x), numbers(0.01, 100), 3),
    "tanh": (np.tanh, np.concatenate([numbers(-3, 3, 40), numbers(-0.01, 0.01, 20), [30.0]]), 8),
    "tanh_approx": (np.tanh, np.concatenate([numbers(-3, 3, 40), numbers(-0.01, 0.01, 20), [30.0]]), 2**12),
    "erf": (np.vectorize(math.erf), np.concatenate([numbers(-3, 3, 40), numbers(-0.01, 0.01, 20), [9.0]]), 4),
    "abs": (np.abs, numbers(-5, 5), 0),
    "neg": (np.negative, numbers(-5, 5), 0),
    "floor": (np.floor, numbers(-5, 5), 0),
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument(name: str) -> None:
    reference, x, ulps = UNARY[name]
    y, wanted = vector(apply(name, A), x, ONE[: len(x)]), reference(x)
    assert np.all(np.abs(y - wanted) <= ulps * np.spacing(np.abs(wanted).astype(np.float32)))


BINARY: dict[str, tuple[Callable[[F64, F64], F64], float]] = {
    "add": (np.add, 0.5),
    "sub": (np.subtract, 0.5),
    "mul": (np.multiply, 0.5),
    "div": (np.divide, 2),
    "div_rn": (np.divide, 0.5),
    "min": (np.minimum, 0),
    "max": (np.maximum, 0),
    "pow": (np.power, 8),
    "ratio": (np.divide, 3),
}


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arguments(name: str) -> None:
    reference, ulps = BINARY[name]
    a, b = numbers(0.1, 9), numbers(-3, 3)[::-1]
    wanted = reference(a, b)
    y = vector(apply(name, A, B), a, b)
    assert np.all(np.abs(y - wanted) <= (ulps + 0.01) * np.spacing(np.abs(wanted).astype(np.float32)))


@pytest.mark.parametrize("name", ["max", "min"])
def test_a_nan_wins(name: str) -> None:
    a, b = np.array([NAN, 2.0, NAN, 5.0, -INF]), np.array([1.0, NAN, NAN, 3.0, INF])
    wanted = BINARY[name][0](a, b)
    assert np.array_equal(vector(apply(name, A, B), a, b), wanted, equal_nan=True)
    zero = BINARY[name][0](a, np.zeros(5))
    assert np.array_equal(vector(apply(name, A, Literal(0.0)), a, b), zero, equal_nan=True)


def test_divisions_over_the_whole_range() -> None:
    """By divisors without a normal reciprocal, and by subnormal ones."""
    a = np.array([2.0**-10, 3.0, -(2.0**100), 2.0**-140, 1.5, 1.0, 0.0, 7.0])
    b = np.array([2.0**-128, 1.7 * 2.0**127, 1.3 * 2.0**127, 5 * 2.0**-149, -(2.0**127), INF, 2.0**-149, 2.0**-149])
    b = b.astype(np.float32).astype(np.float64)
    with np.errstate(over="ignore"):
        wanted = (a / b).astype(np.float32).astype(np.float64)
    y = vector(apply("div", A, B), a, b)
    finite = np.isfinite(wanted)
    assert np.array_equal(y[~finite], wanted[~finite])
    y, wanted = y[finite], wanted[finite]
    assert np.all(np.abs(y - wanted) <= 2 * np.spacing(np.abs(wanted).astype(np.float32)))


@pytest.mark.parametrize("divisor", [3.0, -0.25, 1e30, 7e-31, 1e-33, 8e37])
def test_divisions_by_one_number_for_all_elements(divisor: float) -> None:
    """By its reciprocal, still within the 2 ulp of a division; a constant beyond 2**100 is divided by."""
    a = numbers(-9, 9)
    wanted = a / np.float64(np.float32(divisor))
    room = 2.01 * np.spacing(np.abs(wanted).astype(np.float32)) + 2.0**-126  # subnormal results may be flushed
    assert np.all(np.abs(vector(apply("div", A, Literal(divisor)), a, ONE) - wanted) <= room)
    assert np.all(np.abs(vector(apply("div", A, Value("t")), a, ONE, t=divisor) - wanted) <= room)


def test_the_largest_divisors_cost_some_bits() -> None:
    """Their reciprocal is subnormal."""
    a = np.array([3.0, -7e37, 1.5])
    y = vector(apply("div", A, Value("t")), a, ONE[:3], t=3e38)
    assert np.allclose(y, a.astype(np.float32) / 3e38, rtol=2.0**-20, atol=2.0**-149)


def test_dividing_by_a_uniform_value_costs_a_product() -> None:
    text = emit(vector_plan(apply("div", apply("div", A, Value("t")), Literal(8.0))))
    assert "const float t_rcp = reciprocal(t);" in text
    assert "__fmul_rn(__fmul_rn(a[v], t_rcp), 0.125f)" in text
    assert "divide" not in text


@pytest.mark.parametrize("divisor", [3.0, 41.0, 49.0])
def test_a_division_rounded_to_nearest_is_no_product_with_a_reciprocal(divisor: float) -> None:
    a = divisor * np.arange(1.0, 9.0)
    for below in (Literal(divisor), Value("t")):
        y = vector(apply("floor", apply("div_rn", A, below)), a, ONE[:8], t=divisor)
        assert np.array_equal(y, np.arange(1.0, 9.0))


@pytest.mark.parametrize(("name", "reference"), [("tanh", np.tanh), ("erf", np.vectorize(math.erf))])
def test_functions_keep_their_ends(name: str, reference: Callable[[F64], F64]) -> None:
    x = np.array([0.0, 1e-30, -1e-30, 0.5999, 0.6, 0.9499, 0.95, -0.95, 20.0, -20.0, 1e38, -1e38, INF, -INF, NAN])
    y, wanted = vector(apply(name, A), x, np.ones(len(x))), reference(x.astype(np.float32).astype(np.float64))
    assert np.array_equal(np.isnan(y), np.isnan(wanted))
    assert np.array_equal(np.signbit(y[:-1]), np.signbit(wanted[:-1]))
    assert np.all(np.abs(y[:-1] - wanted[:-1]) <= 8 * np.spacing(np.abs(wanted[:-1]).astype(np.float32)))
    assert np.all(np.abs(y[:-1]) <= 1)


def test_a_ratio_to_zero_is_zero() -> None:
    y = vector(apply("ratio", A, B), np.array([3.0, -INF, NAN, 1.0]), np.array([0.0, 0.0, 0.0, 4.0]))
    assert list(y) == [0.0, 0.0, 0.0, 0.25]


def test_fma_rounds_once() -> None:
    a = np.full(8, 1 + 2.0**-12)
    y = vector(apply("fma", A, A, B), a, np.full(8, -(1 + 2.0**-11)))
    assert np.all(y == 2.0**-24)
    product_first = vector(apply("add", apply("mul", A, A), B), a, np.full(8, -(1 + 2.0**-11)))
    assert np.all(product_first == 0)


@pytest.mark.parametrize(
    ("name", "sign"), [("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")]
)
def test_comparisons(name: str, sign: str) -> None:
    a, b = np.array([1.0, 2, 3, NAN, INF, -0.0]), np.array([2.0, 2, 2, NAN, INF, 0.0])
    wanted = [eval(f"x {sign} y", {"x": x, "y": y}) for x, y in zip(a, b, strict=True)]
    assert list(vector(apply("select", apply(name, A, B), Literal(7), Literal(-7)), a, b)) == [
        7 if w else -7 for w in wanted
    ]
    assert list(vector(apply(name, A, B), a, b)) == [float(w) for w in wanted]


def test_truth_values_combine() -> None:
    a, b = np.array([1.0, 1, -1, -1]), np.array([1.0, -1, 1, -1])
    x, y = apply("gt", A, Literal(0)), apply("gt", B, Literal(0))
    for expr, wanted in (
        (apply("and", x, y), [1, 0, 0, 0]),
        (apply("or", x, y), [1, 1, 1, 0]),
        (apply("not", apply("or", x, y)), [0, 0, 0, 1]),
        (apply("and", A, apply("not", y)), [0, 1, 0, 1]),  # a number is true where it is not 0
    ):
        assert list(vector(expr, a, b)) == wanted


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16, DType.F32])
def test_rounding_to_a_type_and_back(dtype: DType) -> None:
    x = numbers(-4, 4)
    y = vector(Compute("round", (A,), dtype), x, ONE)
    assert np.array_equal(y, x.astype(np.float32).astype(dtype.numpy).astype(np.float64))
    assert dtype is DType.F32 or not np.array_equal(x, y)


def test_uniform_values() -> None:
    x = numbers(-4, 4, 50)
    y = vector(apply("add", apply("mul", A, Value("t")), IntValue(op("sub", "M", 60))), x, ONE[:50], t=0.5)
    assert np.array_equal(y, (x / 2 - 10).astype(np.float32))


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16, DType.F32, DType.I32, DType.BOOL])
def test_vectors_of_each_type_are_loaded(dtype: DType) -> None:
    a = (np.arange(40) % 7 - 3).astype(dtype.numpy)
    y = run(vector_plan(A, dtype), {"A": a, "B": a}, {"t": 0.0})["Y"]
    assert np.array_equal(y, a.astype(np.float32))


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
def test_vectors_are_rounded_when_stored(dtype: DType) -> None:
    a = numbers(-4, 4).astype(np.float32)
    assert np.array_equal(run(vector_plan(A, out=dtype), {"A": a, "B": a}, {"t": 0.0})["Y"], a.astype(dtype.numpy))


def test_strided_vectors() -> None:
    a = np.arange(120, dtype=np.float32)
    assert np.array_equal(run(vector_plan(A), {"A": a[::2], "B": a[::2]}, {"t": 0.0})["Y"], a[::2])


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.0, 1e-30, 3.4e38, 1e39, -INF, 0.1, 1 / 3, 2.0**-149, 123456789.0, 1.5e9]
)
def test_literals_are_exact(value: float) -> None:
    text = literal(value)
    with np.errstate(over="ignore"):
        wanted = np.float32(value)
    if text.startswith("__int_as_float"):
        got = np.array([int(text[15:-1], 16)], np.uint32).view(np.float32)[0]
    else:
        assert text.endswith("f")
        assert "." in text or "e" in text
        got = np.float32(text[:-1])
    assert got == wanted
    assert np.signbit(got) == np.signbit(wanted)


def test_literals_have_the_fewest_digits_that_are_exact() -> None:
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.normal(size=200), 10.0 ** rng.uniform(-4, 8, 200), rng.integers(1, 10**9, 100)])
    for x in values.astype(np.float32):
        shortest = np.format_float_positional(x, unique=True, trim="0")
        assert literal(float(x)) == f"{shortest}f"


def test_what_is_needed_twice_is_computed_once() -> None:
    twice = apply("ex2", A)
    text = emit(vector_plan(apply("mul", twice, apply("add", twice, B))))
    assert text.count("ex2(a[v])") == 1


# ---- acc fragments: where each element is -----------------------------------------------------------


def outer(value: ElementExpr, shape: tuple[int, int], cols: int, **options: object) -> npt.NDArray[np.float32]:
    m, n = shape
    inputs = {"R": np.arange(m, dtype=np.float32), "C": np.arange(n, dtype=np.float32) * 1000}
    return run(outer_plan(value, cols, **options), inputs)["Y"]  # type: ignore[arg-type]


@pytest.mark.parametrize("cols", [8, 24, 80])
def test_rows_and_columns_are_broadcast(cols: int) -> None:
    y = outer(apply("add", R, C), (64, cols), cols)
    assert np.array_equal(y, np.arange(64)[:, None] + 1000.0 * np.arange(cols))


def test_coordinates_are_global() -> None:
    at = apply("add", Coordinate("row", Int(100)), apply("mul", Coordinate("col", op("sub", "N", 40)), Literal(1000.0)))
    assert np.array_equal(outer(at, (64, 32), 32), 100.0 + np.arange(64)[:, None] + 1000.0 * (np.arange(32) - 8))


def test_coordinates_of_row_fragments() -> None:
    y = vector(apply("add", Coordinate("row", Int(7)), A), np.zeros(61), ONE)
    assert np.array_equal(y, 7 + np.arange(61))


BOUNDS = {
    "a column limit": ((Bound(0, -1, op("sub", "N", 12)),),),
    "causal": ((Bound(1, -1, Int(-3)),),),
    "a window": ((Bound(1, -1, Int(5)), Bound(-1, 1, Int(4))),),
    "whole rows": ((Bound(-1, 0, Int(20)),),),
    "rows and columns": ((Bound(-1, 0, Int(20)), Bound(0, -1, Int(9)), Bound(1, -1, Int(0)), Bound(2, 1, Int(-30))),),
    "steep": ((Bound(1, -3, Int(7)), Bound(-1, 2, Int(9))),),
    "either of two": ((Bound(0, -1, Int(7)),), (Bound(1, -1, Int(-9)), Bound(0, 1, Int(-4)))),
    "nothing": ((Bound(0, -1, Int(-100)),),),
    "everything": ((),),
}


@pytest.mark.parametrize("which", BOUNDS)
def test_masks_keep_what_their_bounds_say(which: str) -> None:
    bounds, (m, n) = BOUNDS[which], (64, 24)
    kept = np.zeros((m, n), bool)
    i, j = np.arange(m)[:, None], np.arange(n)[None]
    for conjunction in bounds:
        held = np.ones((m, n), bool)
        for b in conjunction:
            offset = b.offset.value if isinstance(b.offset, Int) else n - 12
            held &= b.row_factor * i + b.col_factor * j + offset >= 0
        kept |= held
    y = outer(apply("add", R, C), (m, n), n, more=(Mask("y", bounds, -INF, S),))
    assert np.array_equal(y, np.where(kept, i + 1000.0 * j, -INF))


def test_a_mask_selects_and_never_computes() -> None:
    y = outer(apply("div", R, apply("mul", C, Literal(0.0))), (64, 8), 8, more=(Mask("y", BOUNDS["nothing"], 5.0, S),))
    assert np.all(y == 5.0)


@pytest.mark.parametrize("scope", ["quad", "thread"])
@pytest.mark.parametrize(("kind", "fold"), [("sum", np.sum), ("max", np.max), ("min", np.min)])
def test_folds_along_rows(kind: str, fold: Callable[..., F64], scope: str) -> None:
    i, j = np.arange(64)[:, None], np.arange(24)[None]
    x = (i - 20.0) * (1000.0 * j - 7000)
    value = apply("mul", apply("sub", R, Literal(20.0)), apply("sub", C, Literal(7000.0)))
    more = [RowFold("f", "y", kind, scope, S)]
    if scope == "thread":
        more.append(QuadReduce("f", kind, S))  # type: ignore[arg-type]
    more.append(Map("y", Element("f"), S))  # type: ignore[arg-type]
    y = outer(value, (64, 24), 24, more=tuple(more), fragments=(row("f"),))
    assert np.array_equal(y, np.broadcast_to(fold(x, axis=1, keepdims=True), (64, 24)))


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
@pytest.mark.parametrize("column", [0, 3, 7])
def test_a_nan_makes_the_fold_of_its_row_nan(kind: str, column: int) -> None:
    here = apply("and", apply("eq", C, Literal(1000.0 * column)), apply("eq", R, Literal(5.0)))
    value = apply("select", here, Literal(NAN), C)
    more = (RowFold("f", "y", kind, "quad", S), Map("y", Element("f"), S))
    y = outer(value, (64, 8), 8, more=more, fragments=(row("f"),))
    assert np.isnan(y[5]).all()
    wanted = {"max": 7000.0, "min": 0.0, "sum": 28000.0}[kind]
    assert np.all(np.delete(y, 5, axis=0) == wanted)


def test_a_fragment_may_share_registers() -> None:
    """e is s under another name, as where exponentials overwrite the scores."""
    shared = replace(acc("e", 24), storage="y")
    more = (Map("e", apply("mul", Element("y"), Literal(2.0)), S), Map("y", apply("add", Element("e"), R), S))
    y = outer(apply("add", R, C), (64, 24), 24, more=more, fragments=(shared,))
    assert np.array_equal(y, 3.0 * np.arange(64)[:, None] + 2000.0 * np.arange(24))


def test_relayout_packs_pairs_in_order() -> None:
    p = Fragment("p", "a", 64, 32, DType.BF16, "p", S)
    text = emit(outer_plan(apply("add", R, C), 32, more=(Relayout("p", "y", S),), fragments=(p,)))
    assert "pack_bf16(y[2 * v], y[2 * v + 1])" in text
    assert "unsigned p[8];" in text


# ---- rows to global memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.F16])
@pytest.mark.parametrize("cols", [8, 16, 40, 64, 80])
def test_rows_are_stored_by_vectors(cols: int, dtype: DType, whole: bool) -> None:
    m, n = 61, cols
    inputs = {"R": np.arange(m, dtype=np.float32) / 7, "C": np.arange(n, dtype=np.float32)}
    plan = outer_plan(apply("add", R, C), cols, dtype, 16 // dtype.bytes, whole)
    wanted = (inputs["R"][:, None] + inputs["C"]).astype(dtype.numpy)
    assert np.array_equal(run(plan, inputs)["Y"], wanted)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_vectors_end_where_the_tensor_ends(dtype: DType) -> None:
    """Rows are 16-byte aligned, the limits cut a tile and, unless vectors are whole, a vector."""
    m, n = 50, 32
    inputs = {"R": np.arange(m, dtype=np.float32), "C": np.arange(n, dtype=np.float32)}
    plan = outer_plan(apply("add", R, C), 64, dtype, 16 // dtype.bytes, True)
    wanted = (inputs["R"][:, None] + inputs["C"]).astype(dtype.numpy)
    assert np.array_equal(run(plan, inputs)["Y"], wanted)


@pytest.mark.parametrize("vector", [1, 8])
def test_a_second_tile_starts_where_it_should(vector: int) -> None:
    m, n = 70, 40
    inputs = {"R": np.arange(m, dtype=np.float32), "C": np.arange(n, dtype=np.float32)}
    plan = outer_plan(apply("add", R, C), 24, DType.BF16, vector, True, start=(64, 16))
    y = run(plan, inputs)["Y"].astype(np.float32)
    wanted = (inputs["R"][:, None] + inputs["C"]).astype(DType.BF16.numpy).astype(np.float32)
    assert np.array_equal(y[64:, 16:], wanted[64:, 16:])
    assert np.isnan(y[:64]).all()
    assert np.isnan(y[:, :16]).all()


def test_an_unknown_vector_is_refused() -> None:
    with pytest.raises(ValueError, match="stored 3 elements at once"):
        emit(outer_plan(apply("add", R, C), 16, DType.BF16, 3))


def test_uniform_names_of_a_plan_may_be_words_of_the_text() -> None:
    """A size called `row` or `v` hides nothing that a function uses."""
    m, n = 64, 8
    inputs = {"R": np.arange(m, dtype=np.float32), "C": np.arange(n, dtype=np.float32)}
    value = apply("add", apply("add", R, C), IntValue(op("add", "row", op("add", "v", "int"))))
    plan = outer_plan(value, n, sizes=("row", "v", "int"))
    y = run(plan, inputs, {"row": 1, "v": 2, "int": 3}, {})["Y"]
    assert np.array_equal(y, inputs["R"][:, None] + inputs["C"] + 6)
