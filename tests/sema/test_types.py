"""Types of expressions, and what counts as a product."""

from __future__ import annotations

import pytest

from tests.sema.faults import loaded, reported
from tilegen.ir.dtypes import DType
from tilegen.ir.products import product_factors
from tilegen.ir.reach import AxisTree, Named
from tilegen.ir.tile import Apply, Cast, Expr, Fold, Number, TileProgram
from tilegen.ir.walk import subexpressions

KERNEL = """\
kernel k(T: bf16 | f16 = bf16, on: bool = true, D: int = 16) {
  size M, N
  input A: T[M, D]
  input B: T[N, D]
  input W: f32[D]
  input ids: i32[M]
  output C: f32[M, N]
  scalar x: f32 = 1 / sqrt(D)
  scalar w: i32 = N - 1
  axis i in M, j in N
  tile a[i, d] = A[i, d]
  tile b[j, d] = B[j, d]
  all[i, j] = sum[d](a[i, d] * b[j, d]) + x + w + W[0] + ids[i] + select(on, 1, 2)
  C[i, j] = all[i, j] + %s
}
"""


def value(text: str) -> Expr:
    """What is added to `all` in C."""
    total = loaded(KERNEL % text).definition("C").value
    assert isinstance(total, Apply)
    return total.args[1]


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("a[i, 0]", DType.BF16),
        ("a[i, 0] * 2", DType.F32),
        ("-a[i, 0]", DType.F32),
        ("(i - j)", DType.I32),
        ("i * N + ids[i]", DType.F32),  # joins an f32 sum
        ("abs(i - j) * 2", DType.I32),
        ("min(i, j, w)", DType.I32),
        ("i / 2", DType.F32),
        ("exp(i)", DType.F32),
        ("x * i", DType.F32),
        ("select(i < j, i, j)", DType.I32),
        ("select(i < j, a[i, 0], b[j, 0])", DType.BF16),
        ("select(i < j, a[i, 0], 0)", DType.F32),
        ("where(i < j and not on, x, 0)", DType.F32),
        ("T(x)", DType.BF16),
        ("f16(x)", DType.F16),
        ("sum[d](d * d)", DType.I32),
        ("max[d](W[d])", DType.F32),
        ("logsumexp[d](W[d]; 0)", DType.F32),
    ],
)
def test_types_follow_from_what_is_written(text: str, dtype: DType) -> None:
    got = value(text)
    if text.startswith("i * N"):
        got = loaded(KERNEL % text).definition("C").value
    assert got.dtype is dtype


def test_whole_numbers_beside_f32_are_f32() -> None:
    product = value("2 * x")
    assert isinstance(product, Apply)
    assert product.args[0] == Number(2.0, DType.F32, product.args[0].span)


def test_a_cast_to_the_same_type_is_none() -> None:
    assert not isinstance(value("T(a[i, 0])"), Cast)
    assert isinstance(value("f16(a[i, 0])"), Cast)


def test_what_is_known_at_build_time_is_a_number() -> None:
    scalar = loaded(KERNEL % "x").scalars[0]
    assert isinstance(scalar.default, Number)
    assert scalar.default.value == 0.25
    assert isinstance(value("D * (3 + 1)"), Number)
    program = loaded(KERNEL % "x")
    assert all(not (isinstance(e, Apply) and e.op == "select") for e in subexpressions(program.definition("all").value))


@pytest.mark.parametrize(
    "condition", ["i < j and D > 0", "D > 0 and i < j", "i < j or D == 0", "not (D > 0 and i >= j)"]
)
def test_a_constant_that_leaves_a_condition_undecided_is_no_part_of_it(condition: str) -> None:
    chosen = value(f"select({condition}, x, 0)")
    assert isinstance(chosen, Apply)
    ops = [e.op for e in subexpressions(chosen.args[0]) if isinstance(e, Apply)]
    assert ops in (["lt"], ["not", "ge"])


def test_a_default_over_sizes_stays_an_expression() -> None:
    default = loaded(KERNEL % "x").scalars[1].default
    assert isinstance(default, Apply)
    assert default.dtype is DType.I32


# ---- products ------------------------------------------------------------------------------------


def products(program: TileProgram) -> list[tuple[str, str]]:
    tree = AxisTree(program.axes)
    names = {n.name: Named.of(n, tree) for n in (*program.moves, *program.definitions)}
    found = [
        product_factors(e, names, tree)
        for d in program.definitions
        for e in subexpressions(d.value)
        if isinstance(e, Fold) and d.name == "C"
    ]
    return [(str(f[0].dtype), str(f[1].dtype)) for f in found if f]


@pytest.mark.parametrize(
    "text",
    [
        "sum[d](a[i, d] * b[j, d])",
        "sum[d](2 * x * a[i, d] * b[j, d] / w)",
        "sum[d](-(a[i, d]) * b[j, d])",
        "sum[d](T(exp(a[i, d])) * T(b[j, d] + W[d]))",
    ],
)
def test_two_factors_with_axes_of_their_own_are_a_product(text: str) -> None:
    assert products(loaded(KERNEL % text)) == [("bf16", "bf16")]


@pytest.mark.parametrize(
    "text",
    [
        "sum[d](a[i, d] * a[i, d])",  # a row's own square
        "sum[d](a[i, d] * W[d])",  # a vector of weights has no axis of its own
        "sum[d](a[i, d] * b[j, d] * W[d])",  # three factors
        "sum[d](a[i, d] + b[j, d])",
        "sum[d](a[i, d] / b[j, d])",
        "max[d](a[i, d] * b[j, d])",
        "sum[d](exp(a[i, d] * b[j, d]))",
    ],
)
def test_other_folds_are_no_products_and_may_be_f32(text: str) -> None:
    assert products(loaded(KERNEL % text)) == []


def test_both_factors_must_be_narrow_as_written() -> None:
    found = reported(KERNEL % "sum[d](exp(a[i, d]) * (2 + b[j, d]))")
    assert [(d.code, d.got) for d in found] == [("PRODUCT_FACTOR", "f32"), ("PRODUCT_FACTOR", "f32")]


@pytest.mark.parametrize(
    ("equation", "cast"),
    [
        ("sum[d](exp(a[i, d]) * b[j, d])", "T(exp(a[i, d]))"),
        ("sum[d](a[i, d] * B32[j, d])", "T(B32[j, d])"),
        ("sum[d](f16(a[i, d]) * B32[j, d])", "f16(B32[j, d])"),
    ],
)
def test_the_cast_of_a_factor_is_written_out(equation: str, cast: str) -> None:
    text = KERNEL % equation
    (found,) = [d for d in reported(text.replace("output", "input B32: f32[N, D] output", 1)) if d.code != "UNUSED"]
    assert found.code == "PRODUCT_FACTOR"
    assert found.fixes == (f"cast it where it stands: `{cast}`",)


def test_fold_of_a_product_over_part_of_its_axes_is_none() -> None:
    assert products(loaded(KERNEL % "sum[d, j](a[i, d] * f32(b[j, d]))")) == []
