"""Domain clauses in normal form mean what was written."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sema.faults import loaded
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.tile import Affine, Apply, Clause, Expr, Guard, Number, Position, Symbol
from tilegen.ir.tile_text import print_program

HEAD = (
    "kernel k(causal: bool = false, D: int = 4) {{ size M, N scalar w: i32"
    " input X: f32[M, N] output Y: f32[M, N] else 0"
)
TAIL = "axis i in M, j in N {domain} domain i, j: i + j + w >= 0 if w > 0 and causal and D == 4 Y[i, j] = X[i, j] }}"


def clauses(domain: str, params: Mapping[str, bool | int] | None = None) -> tuple[Clause, ...]:
    return loaded((HEAD + " " + TAIL).format(domain=domain), params).domain


def lines(domain: str, params: Mapping[str, bool | int] | None = None) -> list[str]:
    text = print_program(loaded((HEAD + " " + TAIL).format(domain=domain), params))
    return [line.strip().removeprefix("domain ") for line in text.splitlines() if line.startswith("  domain")]


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("i, j: j <= i + N - M", "i - j - M + N >= 0"),
        ("i, j: j < i", "i - j - 1 >= 0"),
        ("i, j: j >= i - w", "-i + j + w >= 0"),
        ("i, j: j > i", "-i + j - 1 >= 0"),
        ("i, j: j == 2 * i", "2 * i - j >= 0 and -2 * i + j >= 0"),
        ("i, j: j != i", "i - j - 1 >= 0 or -i + j - 1 >= 0"),
        ("i, j: i - w <= j <= i + w", "j - i + w >= 0 and i - j + w >= 0"),
        ("i, j: not (j <= i or j >= 3 * i)", "-i + j - 1 >= 0 and 3 * i - j - 1 >= 0"),
        ("j: D * j < N", "-4 * j + N - 1 >= 0"),
    ],
)
def test_comparisons_become_affine_forms(written: str, normal: str) -> None:
    (line,) = lines(f"domain {written}")
    assert line.partition(": ")[2] == normal


def test_guards_known_at_build_time_keep_or_drop_a_clause() -> None:
    assert clauses("domain i, j: j <= i if causal") == ()
    assert len(clauses("domain i, j: j <= i if not causal")) == 1
    assert len(clauses("domain i, j: j <= i if D == 4 and not causal")) == 1
    assert len(clauses("domain i, j: j <= i if causal or D > 3")) == 1


def test_guards_known_at_launch_stay() -> None:
    (clause,) = clauses("domain i, j: j <= i if w >= 0 and D == 4")
    assert isinstance(clause.guard, Guard)
    assert (str(clause.guard.left), clause.guard.op, str(clause.guard.right)) == ("w", ">=", "0")


def test_members_that_always_hold_are_dropped() -> None:
    assert clauses("domain i, j: j <= i or 1 < 2 or D == 4") == ()
    (clause,) = clauses("domain i, j: j <= i and 3 < D")
    assert len(clause.alternatives) == 1
    assert len(clause.alternatives[0]) == 1


def test_factors_known_at_launch_only_mask() -> None:
    (clause,) = clauses("domain i, j: j <= w * i")
    ((member,),) = clause.alternatives
    assert isinstance(member, Apply)
    assert member.op == "le"


def test_reads_in_a_condition_only_mask() -> None:
    text = "kernel k { size M input doc: i32[M] input X: f32[M, M] output Y: f32[M, M] else -inf"
    text += " domain i, j: doc[i] == doc[j] and j <= i Y[i, j] = X[i, j] }"
    program = loaded(text)
    assert "domain i, j: doc[i] == doc[j] and i - j >= 0" in print_program(program)
    assert program.tensor("Y").otherwise == float("-inf")


# ---- the normal form against plain evaluation ----------------------------------------------------

_OPS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip

_side = st.sampled_from(["i", "j", "i + w", "2 * j - 3", "M - N + i", "w * j", "D", "j - i", "5"])
_comparison = st.tuples(_side, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), _side).map(" ".join)
_condition = st.recursive(
    _comparison,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda c: f"not ({c})"),
    ),
    max_leaves=4,
)


def _number(expr: Expr, at: Mapping[str, int]) -> float:
    match expr:
        case Number(value):
            return value
        case Symbol(name) | Position(name):
            return at[name]
        case Apply("add", (a, b)):
            return _number(a, at) + _number(b, at)
        case Apply("sub", (a, b)):
            return _number(a, at) - _number(b, at)
        case Apply("mul", (a, b)):
            return _number(a, at) * _number(b, at)
        case _:
            raise AssertionError(expr)


def _holds(member: Affine | Expr, at: Mapping[str, int]) -> bool:
    if isinstance(member, Affine):
        return sum(c * at[a] for a, c in member.terms) + member.offset.evaluate(at) >= 0
    assert isinstance(member, Apply)
    if member.op == "not":
        return not _holds(member.args[0], at)
    return _OPS[member.op](int(_number(member.args[0], at)), int(_number(member.args[1], at)))


@settings(max_examples=120, deadline=None)
@given(_condition, st.integers(-4, 4))
def test_the_normal_form_holds_where_the_condition_does(condition: str, w: int) -> None:
    mentioned = [a for a in ("i", "j") if a in condition.replace("not", "").replace("if", "")]
    text = (HEAD + " " + TAIL).format(domain=f"domain {', '.join(mentioned) or 'i'}: {condition}")
    program, codes = None, set()
    try:
        program = loaded(text)
    except TilegenError as error:
        codes = {d.code for d in error.diagnostics}
    if program is None:  # conditions that never hold, or that are about no axis, are refused; nothing else is
        assert codes
        assert codes <= {"DOMAIN_EMPTY", "DOMAIN_AXIS_UNUSED"}
        return
    for i in range(6):
        for j in range(6):
            at = {"i": i, "j": j, "w": w, "M": 5, "N": 7, "D": 4}
            wanted = bool(eval(condition, {}, at))
            got = all(any(all(_holds(m, at) for m in g) for g in c.alternatives) for c in program.domain)
            assert got == wanted, (at, print_program(program))
