"""Tiles that hold NaN outside of their tensor (`oob x nan`): what becomes a multiply-add, and what needs no select."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.passes import interpret
from tests.passes.specs import loaded, sample, text_of
from tests.passes.test_meaning import agrees
from tests.plan import edits
from tilegen.checks.movement.check import Judgement, check_movement
from tilegen.diagnostics.core import TilegenError
from tilegen.emulate.ptx.half import OOB_NAN
from tilegen.ir import plan as ir
from tilegen.ir.dtypes import DType
from tilegen.ir.plan_verify import verify
from tilegen.ir.plan_walk import all_operations
from tilegen.passes.pipeline import lower, lower_all

VARIOGRAM = text_of("variogram")
PLAIN = loaded(text_of("difference").replace("oob y nan", ""))
ITS_OWN = "d[i, j] * d[i, j]"
# The product of a row and itself, shifted to either side: both are factors.
CORRELATION = {"i32 >= 0": "i32", "j + 8": "0 <= j + 8", "y[i, j] - x": "y[i, j] * x", ITS_OWN: "d[i, j]"}
SCALED = """kernel scaled {
  size M, N
  input X: f16[M, N]
  output U: f32[M]
  axis i in M, j in N
  domain j: j >= 8
  tile x[i, j] = X[i, j]
  tile y[i, j] = X[i, j - 8]
  U[i] = FOLD
  schedule hopper { block i 64, j 64 consumers 1 over i oob y nan }
}"""


def variogram(directives: str = "oob y nan", value: str = ITS_OWN) -> str:
    return VARIOGRAM.replace("oob y nan", directives).replace(ITS_OWN, value)


def correlation(lag: int, directives: str = "oob x nan, y nan") -> str:
    text = variogram(directives)
    for old, new in {**CORRELATION, " = 1 ": f" = {lag} "}.items():
        text = text.replace(old, new, 1)
    return text.replace("X[i, 0 <= j", "X[i, j")


def of(plan: ir.Plan, kind: type) -> list[ir.Operation]:
    return [o for _, _, o in all_operations(plan) if isinstance(o, kind)]


# ---- what it means -----------------------------------------------------------------------------------


@pytest.mark.parametrize("T", ["f16", "bf16"])
@pytest.mark.parametrize("lag", [0, 1, 9, 18, 500])
def test_a_fold_over_a_shifted_axis_needs_no_select(lag: int, T: str) -> None:
    program = loaded(variogram().replace(" = 1 ", f" = {lag} "), T=T)
    plan = lower(program)
    assert not of(plan, ir.Mask) and len(of(plan, ir.FmaOob)) == 1
    assert sum(isinstance(o, ir.For) for o in plan.roles[-1].body[1].body) == 1  # type: ignore[attr-defined]
    agrees(program, plan, {"M": 70, "N": 152})


@pytest.mark.parametrize("lag", [0, 1, 9, -9, 18, -19, -500])
def test_two_factors_may_both_lie_outside(lag: int) -> None:
    program = loaded(correlation(lag))
    plan = lower(program)
    assert not of(plan, ir.Mask) and len(of(plan, ir.FmaOob)) == 1
    agrees(program, plan, {"M": 70, "N": 152})


def test_an_output_that_is_0_elsewhere_needs_none_either() -> None:
    program = sample("difference")
    plan = lower(program)
    assert [d.fill for d in plan.descriptors if not d.store] == ["zero", "nan"]
    assert not of(plan, ir.Mask) and of(plan, ir.FmaOob)
    agrees(program, plan, {"M": 140, "N": 72})
    assert of(lower(PLAIN), ir.Mask)


@pytest.mark.parametrize(
    "text",
    [
        variogram().replace("i32 >= 0", "i32"),  # before the row begins
        correlation(3, "oob y nan"),  # where x lies outside is for a select to know
        correlation(3, "oob x nan"),
        *(variogram(value=v) for v in ("d[i, j] + 1", "exp(d[i, j])", "d[i, j] * i", "where(d[i, j] > 0, d[i, j], 2)")),
    ],
)
def test_what_is_not_sure_to_be_0_outside_has_a_select(text: str) -> None:
    program = loaded(text)
    plan = lower(program)
    assert of(plan, ir.Mask) and of(plan, ir.FmaOob)
    agrees(program, plan, {"M": 70, "N": 152})


@pytest.mark.parametrize(
    "value",
    [
        "-3 * abs(d[i, j])",
        "max(d[i, j], -d[i, j])",
        "where(d[i, j] > i, d[i, j], 2 * d[i, j])",
        "T(x[i, j] * y[i, j]) + d[i, j]",
        "T(w[j] - y[i, j]) * d[i, j]",
        "T(x[i, j] + y[i, j] * -2) * d[i, j]",
        "T(y[i, j] * w[j] - T(y[i, j] * 3)) * d[i, j]",
        "T(-y[i, j] * 2 + T(0.3)) * 5 * d[i, j] / 4",
        "T(T(i) - y[i, j] * w[j]) - d[i, j]",
        "T(w[j] * y[i, j] + x[i, j]) * d[i, j]",
        "T(-T(w[j] + 2) * y[i, j]) * d[i, j]",
        "T(x[i, j] - w[j] * y[i, j]) * d[i, j]",
    ],
)
def test_forms_of_a_multiply_add(value: str) -> None:
    text = (
        variogram(value=value)
        .replace("output V", "input W: T[N] output V")
        .replace("d[i, j] =", "tile w[j] = W[j] d[i, j] =")
    )
    program = loaded(text if "w[j]" in value else variogram(value=value))
    plan = lower(program)
    assert of(plan, ir.FmaOob)
    agrees(program, plan, {"M": 70, "N": 152})


@pytest.mark.parametrize(
    "fold",
    [
        "expsum[j](x[i, j], f16(y[i, j] * x[i, j]))",
        "expsum[j](f16(y[i, j] * x[i, j]), f16(y[i, j] * x[i, j]))",
        "expsum[j](f16(y[i, j] - x[i, j]), f16(y[i, j] - x[i, j]))",
        "expsum[j](x[i, j], x[i, j] + f16(y[i, j] * x[i, j]))",
        "expsum[j](x[i, j], w[i, j] * f16(y[i, j] * x[i, j]))",
    ],
)
def test_a_multiply_add_beside_an_accumulator_whose_registers_it_takes(fold: str) -> None:
    """Its factors are read ahead of it, what else is read beside such an accumulator within a sweep."""
    text = SCALED.replace("FOLD", fold)
    if "w[i, j]" in fold:
        text = text.replace("output", "input W: f16[M, N] output").replace("tile y", "tile w[i, j] = W[i, j] tile y")
    program = loaded(text)
    plan = lower(program)
    assert of(plan, ir.FmaOob)
    assert bool(of(plan, ir.Sweep)) is ("w[i, j]" in fold)
    agrees(program, plan, {"M": 70, "N": 152})


def test_numbers_are_those_of_the_plain_kernel() -> None:
    """Multiplied and rounded alike, to the bit: a product of 16-bit numbers is exact in f32, as is a difference."""
    data = {"X": np.random.default_rng(5).standard_normal((140, 72)).astype(np.float16)}
    sizes = {"M": 140, "N": 72}
    with_nan, plain = (
        interpret.run(lower(program), sizes, {"lag": 9}, data, lazy=True) for program in (sample("difference"), PLAIN)
    )
    assert np.array_equal(with_nan["D"].view(np.uint16), plain["D"].view(np.uint16))


def test_other_nans_are_the_specs() -> None:
    """A NaN in X makes its differences NaN; the one pattern that stands for what lies outside makes 0."""
    x = np.ones((140, 72), np.float16)
    x[30, 5] = np.nan
    x[50, 6] = np.uint16(OOB_NAN).view(np.float16)
    got = interpret.run(lower(sample("difference")), {"M": 140, "N": 72}, {"lag": 1}, {"X": x}, lazy=True)["D"]
    assert np.argwhere(np.isnan(got)).tolist() == [[29, 5], [30, 5], [50, 6]]


def test_copies_by_threads_fill_with_zeros() -> None:
    """Of `via y auto`, the plan that TMA is not for."""
    with pytest.raises(TilegenError) as error:
        lower_all(loaded(text_of("difference").replace("oob y nan", "oob y nan via y auto")))
    assert {d.code for d in error.value.diagnostics} == {"OOB_COPIES"}


# ---- that nothing else is let through -----------------------------------------------------------------


def test_the_checks_see_what_a_fill_does() -> None:
    program = sample("difference")
    plan = lower(program)
    assert check_movement(plan, program) == Judgement((), ())
    zeros = tuple(replace(d, fill="zero") for d in plan.descriptors)
    found = check_movement(replace(plan, descriptors=zeros), program).diagnostics
    assert {d.code for d in found} == {"POISON_STORE"}


def test_the_checks_see_a_fold_that_takes_in_a_fill() -> None:
    program = loaded(variogram())
    plan = lower(program)
    assert check_movement(plan, program) == Judgement((), ())
    zeros = tuple(replace(d, fill="zero" if d.name == "y" else d.fill) for d in plan.descriptors)
    found = check_movement(replace(plan, descriptors=zeros), program).diagnostics
    assert "POISON_FOLD" in {d.code for d in found}
    plain = edits.change(plan, "consumer", ir.FmaOob, lambda o: (ir.Map(o.out, ir.Compute("sub", (o.a, o.c)), o.span),))
    (fault, *_) = check_movement(plain, program).diagnostics
    assert fault.code == "POISON_FOLD" and "no entry" in fault.got


C = "consumer"
BROKEN = {
    "read as numbers": (
        lambda p: edits.fragment(edits.drop(p, C, ir.FmaOob), "y.regs", layout="acc", dtype=DType.F32),
        "y is filled with NaN outside its tensor, and read as numbers",
    ),
    "of f32": (lambda p: edits.alter(p, C, ir.FmaOob, dtype=DType.F32), "there is no fma.rn.oob of f32"),
    "without entries": (
        lambda p: edits.alter(p, C, ir.FmaOob, a=ir.Literal(0.0)),
        "no factor is entries of a tile, as they lie",
    ),
    "of another type": (
        lambda p: edits.alter(p, C, ir.FmaOob, dtype=DType.BF16),
        "y.regs is f16 of 64 columns, D_out bf16 of 64",
    ),
    "entries in an expression": (
        lambda p: edits.alter(p, C, ir.FmaOob, c=ir.Element("y.regs")),
        "y.regs of layout pair cannot be read into D_out of layout acc",
    ),
}


@pytest.mark.parametrize(("change", "message"), BROKEN.values(), ids=BROKEN)
def test_rules_of_the_plan(change, message: str) -> None:  # type: ignore[no-untyped-def]
    plan = lower(sample("difference"))
    verify(plan)
    with pytest.raises(Exception, match=message.replace(".", r"\.")):
        verify(change(plan))


def test_the_plan_tells_of_it() -> None:
    assert lower(sample("difference")).notes == ("D: 0 outside the domain by the NaN that fills y, without a select",)
    assert lower(loaded(variogram())).notes == ("V: 0 outside the domain by the NaN that fills y, without a select",)
    assert (
        "V: 0 outside the domain by the NaN that fills x and y, without a select" in lower(loaded(correlation(1))).notes
    )
    (note,) = lower(loaded(correlation(1, "oob x nan"))).notes
    assert note == "tile x: its NaN saves no select"
    assert not lower(loaded(variogram("oob x zero"))).notes
