"""Folds: what each sample becomes, and the rules by which online softmax comes out, one claim each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.passes.specs import CASES, ROOT, case_id, folded, loaded, sample
from tilegen.ir.dtypes import DType
from tilegen.ir.folded import (
    Elementwise,
    Exponent,
    FoldedProgram,
    Guarded,
    Output,
    Product,
    Reduce,
    Rescale,
    Weight,
)
from tilegen.ir.folded_text import operation_text, print_folded
from tilegen.ir.folded_verify import verify
from tilegen.ir.tile import ParamValue
from tilegen.ir.tile_text import affine_text, expr_text
from tilegen.passes.expressions import LOG2E
from tilegen.passes.fold import fold

_T = TypeVar("_T")


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_folded_samples(case: tuple[str, dict[str, ParamValue]], golden: Callable[..., None]) -> None:
    name, params = case
    program = folded(sample(name, **params))
    verify(program)
    golden(print_folded(program))


@pytest.mark.parametrize("name", ["matmul_at", "split_reduction", "outputs_two_orders"])
def test_folded_specs(name: str, golden: Callable[..., None]) -> None:
    program = folded(sample(name))
    verify(program)
    golden(print_folded(program))


# ---- rules -----------------------------------------------------------------------------------------


def spec(equations: str, outputs: str = "output O: T[M, 64]", more: str = "") -> FoldedProgram:
    """The folded program of equations over s[i, j], the scores of two tiles, and a third tile v."""
    text = f"""kernel k(T: bf16 | f16 = bf16) {{
      size M, N
      input Q: T[M, 64]
      input K: T[N, 64]
      {"input V: T[N, 64]" if "v[" in equations else ""}
      {outputs}
      axis i in M, j in N
      {more}
      tile q[i, d] = Q[i, d]
      tile k[j, d] = K[j, d]
      {"tile v[j, e] = V[j, e]" if "v[" in equations else ""}
      s[i, j] = sum[d](q[i, d] * k[j, d])
      {equations}
    }}"""
    program = folded(loaded(text))
    verify(program)
    return program


def ops(program: FoldedProgram, kind: type[_T]) -> list[_T]:
    return [o for o in program.ops if isinstance(o, kind)]


def only(program: FoldedProgram, kind: type[_T]) -> _T:
    (found,) = ops(program, kind)
    return found


def out_text(program: FoldedProgram, output: str = "O") -> str:
    """The element-wise value that an output stores, if it is not a fold itself."""
    source = next(o for o in ops(program, Output) if o.tensor == output).source
    o = program.op(source)
    return expr_text(o.value) if isinstance(o, Elementwise) else source


SOFTMAX = "O[i, e] = sum[j](T(softmax[j](s[i, j])) * v[j, e])"


def test_a_softmax_is_a_weight_and_two_folds_divided_in_the_end() -> None:
    program = spec(SOFTMAX)
    weight, exponent = only(program, Weight), only(program, Exponent)
    assert weight.exponent == exponent.name
    assert weight.source == exponent.source
    (total,) = ops(program, Reduce)
    product = ops(program, Product)[1]
    assert total.exponent == product.exponent == exponent.name
    assert only(program, Rescale).source == product.name
    assert out_text(program) == f"ratio({product.name}[i, e], {total.name}[i])"


def test_softmax_and_logsumexp_of_one_argument_share_one_exponent() -> None:
    program = spec(SOFTMAX + " L[i] = logsumexp[j](s[i, j])", "output O: T[M, 64] output L: f32[M]")
    assert len(ops(program, Exponent)) == len(ops(program, Weight)) == len(ops(program, Reduce)) == 1
    total, exponent = only(program, Reduce).name, only(program, Exponent).name
    assert out_text(program, "L").startswith(f"({exponent}[i] + log2({total}[i])) * 0.693147")


def test_other_arguments_have_exponents_of_their_own() -> None:
    program = spec(SOFTMAX + " L[i] = logsumexp[j](2 * s[i, j])", "output O: T[M, 64] output L: f32[M]")
    assert len(ops(program, Exponent)) == len(ops(program, Weight)) == 2


def test_other_axes_have_exponents_of_their_own() -> None:
    program = spec(
        "L[i] = logsumexp[d](q[i, d]) O[i, e] = sum[j](T(softmax[j](s[i, j])) * v[j, e])",
        "output O: T[M, 64] output L: f32[M]",
    )
    assert [e.over for e in ops(program, Exponent)] == [("d",), ("j",)]


@pytest.mark.parametrize(
    ("argument", "scalar", "factor"),
    [
        ("s[i, j]", "", f"{LOG2E!r}"),
        ("0.5 * s[i, j]", "", f"{LOG2E / 2!r}"),
        ("a * s[i, j]", "scalar a: f32 > 0", f"a * {LOG2E!r}"),
        ("s[i, j] * a * 4", "scalar a: f32 >= 1", f"a * {LOG2E * 4!r}"),
        ("a * a * s[i, j]", "scalar a: f32 > 0", f"a * a * {LOG2E!r}"),
        ("a * s[i, j] / 2", "scalar a: f32 > 0", f"a * {LOG2E / 2!r}"),
        ("s[i, j] / (a * 4)", "scalar a: f32 > 0", f"{LOG2E!r} / (a * 4.0)"),
    ],
)
def test_positive_factors_join_the_multiplier_of_exp2(argument: str, scalar: str, factor: str) -> None:
    program = spec(SOFTMAX.replace("s[i, j]", argument), more=scalar)
    weight, exponent = only(program, Weight), only(program, Exponent)
    assert weight.factor is not None
    assert expr_text(weight.factor) == factor
    assert exponent.factor == weight.factor
    guarded = program.op(weight.source)
    assert isinstance(guarded, Guarded)
    assert guarded.source == "s"


@pytest.mark.parametrize(
    ("argument", "scalar"),
    [
        ("a * s[i, j]", "scalar a: f32"),
        ("a * s[i, j]", "scalar a: f32 < 0"),
        ("a * s[i, j]", "scalar a: f32 >= 0"),
        ("a * s[i, j]", "scalar a: f32 > -1"),
        ("-1 * s[i, j]", ""),
        ("0 * s[i, j]", ""),
        ("(a - 2) * s[i, j]", "scalar a: f32 > 0"),
    ],
)
def test_a_factor_that_may_not_be_positive_is_multiplied_before_the_maximum(argument: str, scalar: str) -> None:
    program = spec(SOFTMAX.replace("s[i, j]", argument), more=scalar)
    weight, exponent = only(program, Weight), only(program, Exponent)
    assert weight.factor == exponent.factor
    assert weight.factor is not None
    assert expr_text(weight.factor) == f"{LOG2E!r}"
    guarded = program.op(weight.source)
    assert isinstance(guarded, Guarded)
    multiplied = program.op(guarded.source)
    assert isinstance(multiplied, Elementwise), "the mask comes behind the multiplication"
    assert expr_text(multiplied.value).startswith("s[i, j] * ")


@pytest.mark.parametrize(
    ("argument", "source", "tilts"),
    [
        ("s[i, j] + a[i] * (j - i - (N - M))", "s", ["(j - i + M - N)"]),
        ("s[i, j] - a[i] * (i - j)", "s", ["(-i + j)"]),
        ("2 * (s[i, j] + 0.5 * (j - 3 * i) * a[i])", "s", ["(j - 3 * i)"]),
        ("j - i + s[i, j] + a[i] * (j - 1)", "s", ["(j - i)", "(j - 1)"]),
    ],
)
def test_positions_leave_the_argument_of_a_scaled_sum(argument: str, source: str, tilts: list[str]) -> None:
    program = spec(SOFTMAX.replace("s[i, j]", argument), more="input a: f32[M]")
    weight, exponent = only(program, Weight), only(program, Exponent)
    assert weight.tilts == exponent.tilts
    assert [f"({affine_text(t.position)})" for t in weight.tilts] == tilts
    assert all("j" not in program.op(t.slope).axes for t in weight.tilts)
    guarded = program.op(weight.source)
    assert isinstance(guarded, Guarded)
    assert guarded.source == source
    (first, *_) = weight.tilts
    assert f"{first.slope} * " in operation_text(weight)


@pytest.mark.parametrize(
    "argument",
    [
        "s[i, j] + a[i] * abs(i - j)",
        "s[i, j] + 2 * j * a[i] * j",
        "s[i, j] + a[i] * (i + i)",
        "s[i, j] + a[i] * (2 * j - i)",
        "max(s[i, j], a[i] * (j - i))",
        "a[i] * (s[i, j] + (j - i))",
    ],
)
def test_what_is_no_position_times_a_number_a_row_stays_in_the_argument(argument: str) -> None:
    program = spec(SOFTMAX.replace("s[i, j]", argument), more="input a: f32[M]")
    assert only(program, Weight).tilts == ()


def test_extra_terms_of_a_softmax_begin_its_exponent_and_its_sum() -> None:
    program = spec(
        "O[i, e] = sum[j](T(softmax[j](s[i, j]; a[i], 1)) * v[j, e])"
        " L[i] = logsumexp[j](s[i, j]; a[i], 1) P[i] = logsumexp[j](s[i, j])"
        " S[i] = sum[j](softmax[j](s[i, j]; a[i], 1))",
        "output O: T[M, 64] output L: f32[M] output P: f32[M] output S: f32[M]",
        "input a: f32[M]",
    )
    with_terms, without = ops(program, Exponent)
    assert without.start is None
    assert with_terms.start is not None
    start = program.op(with_terms.start)
    assert isinstance(start, Elementwise)
    assert expr_text(start.value) == f"max(a[i] * {LOG2E!r}, {LOG2E!r})"
    starts = {o.exponent: o.start for o in ops(program, Reduce) if o.statement != "S"}
    assert starts[without.name] is None
    assert starts[with_terms.name] is not None
    assert f" and {with_terms.start}" in operation_text(with_terms)
    assert any(o.start is None for o in ops(program, Reduce) if o.statement == "S"), "the weights alone are summed"


def test_factors_free_of_the_folded_axis_leave_the_fold_also_through_a_cast() -> None:
    program = spec(
        "O[i, e] = a * sum[j](T(-2 * b * softmax[j](s[i, j]) / 3) * v[j, e])", more="scalar a: f32 scalar b: f32"
    )
    weight = only(program, Weight)
    cast = next(o for o in ops(program, Elementwise) if o.dtype is DType.BF16 and o.name != "O")
    assert expr_text(cast.value) == f"bf16({weight.name}[i, j])"
    text = out_text(program)
    assert all(part in text for part in ("-2", "/ 3", "a", "ratio("))


def test_a_factor_along_the_folded_axis_stays() -> None:
    program = spec("O[i, e] = sum[j](T(softmax[j](s[i, j]) * j) * v[j, e])")
    live = next(o for o in ops(program, Guarded) if o.identity == 0)
    terms = program.op(live.source)
    assert isinstance(terms, Elementwise)
    assert "* j" in expr_text(terms.value)
    assert ops(program, Product)[1].exponent is None, "it reads the final weights"


def test_expsum_stays_scaled_until_the_end() -> None:
    program = spec("L[i] = expsum[j](s[i, j], j)", "output L: f32[M]")
    exponent, total = only(program, Exponent), only(program, Reduce)
    assert total.exponent == exponent.name
    assert out_text(program, "L") == f"{total.name}[i] * exp2({exponent.name}[i])"
    terms = program.op(only_guarded(program, 0.0).source)
    assert isinstance(terms, Elementwise)
    assert expr_text(terms.value) == f"{only(program, Weight).name}[i, j] * j"


def only_guarded(program: FoldedProgram, identity: float) -> Guarded:
    (found,) = [o for o in ops(program, Guarded) if o.identity == identity]
    return found


def test_plain_exp_stays_plain() -> None:
    program = spec("O[i, e] = sum[j](T(exp(s[i, j])) * v[j, e])")
    assert not ops(program, Exponent)
    assert not ops(program, Weight)
    assert "exp(s[i, j])" in print_folded(program)


@pytest.mark.parametrize(
    ("equation", "linear"),
    [
        ("L[i] = sum[j](softmax[j](s[i, j]) * s[i, j])", True),
        ("p[i, j] = softmax[j](s[i, j]) L[i] = sum[j](p[i, j] * p[i, j])", False),
        ("p[i, j] = softmax[j](s[i, j]) L[i] = sum[j](p[i, j] * (1 + p[i, j]))", False),
        ("p[i, j] = softmax[j](s[i, j]) L[i] = max[j](p[i, j])", False),
        ("p[i, j] = softmax[j](s[i, j]) L[i] = 0 - sum[j](p[i, j] * log(p[i, j]))", False),
    ],
)
def test_only_folds_linear_in_a_weight_are_relative_to_its_exponent(equation: str, linear: bool) -> None:
    program = spec(f"{SOFTMAX} {equation}", "output O: T[M, 64] output L: f32[M]")
    fold_of_l = next(o for o in ops(program, Reduce) if o.statement == "L" and o.kind in ("sum", "max"))
    assert (fold_of_l.exponent is not None) == linear


def test_a_square_is_no_product() -> None:
    """A product's factors each have an axis that the other lacks."""
    program = spec("L[i] = sum[d](q[i, d] * q[i, d]) * max[j](s[i, j])", "output L: f32[M]")
    assert len(ops(program, Product)) == 1
    assert any("q[i, d] * q[i, d]" in expr_text(o.value) for o in ops(program, Elementwise))


def test_products_and_element_wise_values_are_computed_once() -> None:
    program = spec(
        "O[i, e] = sum[j](T(softmax[j](s[i, j])) * v[j, e]) P[i, e] = 2 * sum[j](T(softmax[j](s[i, j])) * v[j, e])",
        "output O: T[M, 64] output P: T[M, 64]",
    )
    assert len(ops(program, Product)) == 2
    assert len(ops(program, Exponent)) == 1


@pytest.mark.parametrize("name", ["gemm", "gemm_bias_gelu", "swiglu", "copy"])
def test_without_scaled_sums_there_is_no_exponent(name: str) -> None:
    program = fold(sample(name))
    assert not [o for o in program.ops if isinstance(o, Exponent | Weight | Rescale)]


# ---- guards ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fold_text", "identity"),
    [("sum", 0.0), ("max", float("-inf")), ("min", float("inf")), ("logsumexp", -float("inf"))],
)
def test_a_fold_reads_its_identity_outside_the_domain(fold_text: str, identity: float) -> None:
    program = spec(f"L[i] = {fold_text}[j](2 * s[i, j] + j)", "output L: f32[M]", "domain i, j: j <= i").ops
    guarded = next(o for o in program if isinstance(o, Guarded) and o.statement == "L")
    assert guarded.identity == identity
    assert guarded.over == ("j",)
    assert len(guarded.clauses) == 1


def test_a_held_axis_needs_no_guard() -> None:
    program = spec("L[i] = max[d](q[i, d]) + max[j](s[i, j])", "output L: f32[M]")
    assert not [o for o in ops(program, Guarded) if o.over == ("d",)]


@pytest.mark.parametrize("domain", ["", "domain i, j: j <= i"])
def test_a_computed_factor_is_zero_outside_the_domain(domain: str) -> None:
    program = spec("O[i, e] = sum[j](T(max(s[i, j], 0)) * v[j, e])", more=domain)
    live = only_guarded(program, 0.0)
    assert len(live.clauses) == bool(domain)
    (reader,) = [o for o in ops(program, Elementwise) if live.name in expr_text(o.value)]
    assert reader.name == ops(program, Product)[1].a


def test_a_weight_needs_no_second_guard() -> None:
    program = spec(SOFTMAX, more="domain i, j: j <= i")
    assert [o.identity for o in ops(program, Guarded)] == [float("-inf")]


def test_clauses_on_parts_of_a_split_axis_guard_as_well() -> None:
    text = """kernel k(T: bf16 = bf16) {
      size G, R, M, N
      input X: T[G * R, M, N]
      output Y: f32[G * R, M]
      axis h in G * R, i in M, j in N
      split h into g, r by R
      domain g, j: j <= 9 * g
      tile x[i, j] = X[h, i, j]
      Y[h, i] = logsumexp[j](x[i, j])
    }"""
    assert len(only(folded(loaded(text)), Guarded).clauses) == 1


def test_made_names_keep_out_of_the_way_of_the_spec() -> None:
    program = spec(
        "s_live[i, j] = sum[d](q[i, d] * k[j, d]) * 2 p_max[i, j] = s_live[i, j] + s[i, j]"
        " p[i, j] = softmax[j](s[i, j]) O[i, e] = sum[j](T(p[i, j] + p_max[i, j]) * v[j, e])"
    )
    names = [o.name for o in program.ops]
    assert len(names) == len(set(names))


# ---- nothing in the compiler knows what it compiles ----------------------------------------------------


SOURCES = [
    file
    for folder in (ROOT / "tilegen" / "passes", ROOT / "tilegen" / "targets", ROOT / "templates")
    for file in sorted(folder.rglob("*"))
    if file.suffix in (".py", ".j2")
]


def test_no_pass_or_template_names_a_kind_of_kernel() -> None:
    words = re.compile("attention|flash|fa3|softcap|alibi|swiglu|gelu", re.IGNORECASE)
    assert len(SOURCES) > 30
    assert [(f.name, m.group()) for f in SOURCES for m in words.finditer(f.read_text(encoding="utf-8"))] == []


def test_no_stage_after_the_folds_knows_the_sugar() -> None:
    """`softmax` and its kind end in `fold`: later code, comments apart, does not mention them."""
    words = re.compile("softmax|logsumexp|expsum", re.IGNORECASE)
    found = []
    for file in SOURCES:
        code = re.sub(r'"""[\s\S]*?"""|#[^\n]*', "", file.read_text(encoding="utf-8"))
        if file.name != "fold.py" and words.search(code):
            found.append(file.name)
    assert found == []
