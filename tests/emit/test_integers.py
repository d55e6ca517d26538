"""Uniform expressions printed as C++ mean what they mean in Python."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emit.c_expressions import Evaluator
from tilegen.ir.uniform import Int, Op, Sym, Uniform, evaluate, op
from tilegen.targets.hopper.emit.integers import Integers

NATURAL = frozenset(("n", "m"))
PRINTER = Integers(lambda name: name, lambda helper: helper, NATURAL)

_DIVISIONS = ("floordiv", "ceildiv", "mod")
_TWO = ("add", "sub", "mul", "min", "max", "lt", "le", "gt", "ge", "eq", "ne", "and", "or")


def _grown(inner: st.SearchStrategy[Uniform]) -> st.SearchStrategy[Uniform]:
    divisor = st.integers(1, 9).map(Int) | st.just(op("add", "n", 1))
    return st.one_of(
        st.builds(lambda o, a, b: Op(o, (a, b)), st.sampled_from(_TWO), inner, inner),
        st.builds(lambda o, a, b: Op(o, (a, b)), st.sampled_from(_DIVISIONS), inner, divisor),
        st.builds(lambda a, b, c: Op("select", (a, b, c)), inner, inner, inner),
    )


expressions = st.recursive(
    st.one_of(st.integers(-50, 50).map(Int), st.sampled_from(("n", "m", "x", "y")).map(Sym)), _grown, max_leaves=10
)


@settings(max_examples=400, deadline=None)
@given(expressions, st.integers(0, 40), st.integers(0, 40), st.integers(-40, 40), st.integers(-40, 40))
def test_printed_expressions_have_the_value_of_the_tree(e: Uniform, n: int, m: int, x: int, y: int) -> None:
    """Plain / and % stand only where the numerator is natural (the evaluator asserts it)."""
    values = {"n": n, "m": m, "x": x, "y": y}
    assert Evaluator(PRINTER.text(e), values).result() == evaluate(e, values)
    assert Evaluator(f"2 * {PRINTER.factor(e)} - {PRINTER.term(e)}", values).result() == evaluate(e, values)


def test_divisions_of_natural_numbers_are_plain() -> None:
    assert PRINTER.text(op("ceildiv", "n", 192)) == "(n + 191) / 192"
    assert PRINTER.text(op("floordiv", op("mul", "n", "m"), 80)) == "n * m / 80"
    assert PRINTER.text(op("mod", "n", op("ceildiv", "m", 64))) == "n % ((m + 63) / 64)"


def test_divisions_of_other_numbers_round_by_a_helper() -> None:
    asked: list[str] = []
    printer = Integers(lambda name: name, lambda helper: asked.append(helper) or helper, NATURAL)
    assert printer.text(op("floordiv", "x", 80)) == "floor_div(x, 80)"
    assert printer.text(op("ceildiv", op("sub", "n", "m"), 80)) == "ceil_div(n - m, 80)"
    assert printer.text(op("mod", "x", 8)) == "floor_mod(x, 8)"
    assert asked == ["floor_div", "ceil_div", "floor_mod"]


def test_what_is_bound_to_a_natural_number_is_one() -> None:
    assert not PRINTER.is_natural(Sym("row"))
    assert PRINTER.with_natural("row").is_natural(op("add", "row", op("max", op("sub", "n", "m"), 0)))
    assert not PRINTER.with_natural("row").is_natural(op("sub", "row", "n"))
