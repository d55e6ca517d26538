"""Indices at positions of the domain: what is refused and in which words, and what is not."""

from __future__ import annotations

import pytest

from tests.sema.faults import loaded, reported
from tilegen.ir.outside import undecided

MATRIX = """kernel k { size S %s input X: f32[S, S] output Y: f32[S, S] else 0
    axis i in S, n in S domain i, n: %s Y[i, n] = X[%s] }"""
VECTOR = "kernel k { size S input X: f32[S] output Y: f32[S] Y[i] = %s }"
BLOCKS = """kernel k { size N, C input X: f32[N * %s] output Y: f32[N * %s] else 0 axis i in N * %s
    split i into u, v by %s domain u: u > 0 Y[i] = X[i - %s] }"""
K_AT_LEAST_1 = "scalar k: i32 >= 1 = 1"
K = "scalar k: i32 = 1"


@pytest.mark.parametrize(
    ("scalars", "domain", "index", "got", "fix"),
    [
        ("", "n <= i", "i, n + 4", "S + 3 at n = S - 1, i = S - 1", "`domain n: n + 4 < S`"),
        ("", "n <= i", "i - 1, n", "-1 at i = 0, n = 0", "`domain i: i - 1 >= 0`"),
        ("", "n <= i", "n, i + 1", "S at i = S - 1, n = 0", "`domain i: i + 1 < S`"),
        ("", "n >= i - 7 or n < 4", "i, n + 1", "S at n = S - 1, i = 0", "`domain n: n + 1 < S`"),
        ("", "n <= i and X[i, n] > 0", "i, n - 1", "-1 at n = 0, i = 0", "`domain n: n - 1 >= 0`"),
        (K_AT_LEAST_1, "n <= i", "i + k, n", "S + k - 1 at i = S - 1, n = 0", "`domain i: i + k < S`"),
        ("scalar k: i32 <= -1 = -1", "n <= i", "i + k, n", "k at i = 0, n = 0", "`domain i: i + k >= 0`"),
    ],
)  # fmt: skip
def test_an_index_that_leaves_at_a_position_of_the_domain_is_refused_there(
    scalars: str, domain: str, index: str, got: str, fix: str
) -> None:
    (found,) = reported(MATRIX % (scalars, domain, index))
    assert (found.code, found.got) == ("INDEX_RANGE", got)
    assert fix in found.fixes[0]
    clause = found.fixes[0].split("`")[1]
    assert loaded((MATRIX % (scalars, domain, index)).replace("Y[i, n] =", f"{clause} Y[i, n] ="))


@pytest.mark.parametrize(
    ("scalars", "domain", "index"),
    [
        ("", "n < i", "i, n + 1"),
        ("", "1 <= n <= i", "i, n - 1"),
        ("", "i < n", "i, n - 1"),
        ("", "i < n", "i + 1, n"),
        ("", "n + 4 <= i", "i - 4, n + 4"),
        ("", "n < i and (n >= i - 7 or n < 4)", "i, n + 1"),
        (K_AT_LEAST_1, "n + k <= i", "i - k, n + k"),
    ],
)
def test_inequalities_of_several_axes_keep_an_index_inside(scalars: str, domain: str, index: str) -> None:
    assert undecided(loaded(MATRIX % (scalars, domain, index))) == ()


@pytest.mark.parametrize(
    ("scalars", "domain", "index", "symbols"),
    [
        ("", "n <= i and i < 4", "i, n + 1", {"S"}),  # leaves for S up to 4
        (K, "n <= i", "i + k, n", {"S", "k"}),
        (K, "n <= i if k > 0", "i, n - k", {"S", "k"}),
    ],
)
def test_what_sizes_and_scalars_decide_is_left_to_the_launch(
    scalars: str, domain: str, index: str, symbols: set[str]
) -> None:
    (found,) = undecided(loaded(MATRIX % (scalars, domain, index)))
    assert found.symbols == symbols


@pytest.mark.parametrize(
    ("value", "codes"),
    [
        ("where(i > 0 and i < S - 1, X[i - 1] + X[i + 1], 0)", []),
        ("where(not i >= 1 or i > S, 0, X[i - 1])", []),
        ("where(i >= 0, X[i - 1], 0)", ["INDEX_RANGE"]),
        ("where(i > 0, 0, X[i - 1])", ["INDEX_RANGE"]),
        ("X[i] + X[S]", ["INDEX_RANGE"]),
    ],
)
def test_a_choice_keeps_what_it_does_not_look_at_inside(value: str, codes: list[str]) -> None:
    if codes:
        assert [d.code for d in reported(VECTOR % value)] == codes
    else:
        assert undecided(loaded(VECTOR % value)) == ()


def test_clauses_that_count_are_those_of_the_reader() -> None:
    text = """kernel k { size S input X: f32[S] input Q: f32[S] output Y: f32[S] axis i in S, j in S
        domain i, j: j < i t[j] = 2 * X[j + 1] %s }"""
    assert loaded(text % "Y[i] = sum[j](t[j] * Q[i])").domain
    (found,) = reported(text % "axis z in S u[z] = sum[j](t[j]) + 0 * z Y[i] = u[i] * Q[i]")
    assert (found.code, found.got) == ("INDEX_RANGE", "S at j = S - 1")


def test_conditions_read_where_no_other_one_decides() -> None:
    text = "kernel k { size S input X: f32[S] input d: i32[S] output Y: f32[S] else 0 domain i: %s Y[i] = X[i] }"
    assert loaded(text % "i == 0 or d[i - 1] == d[i]").domain
    assert loaded(text % "i > 0 and d[i - 1] == d[i]").domain
    assert [d.got for d in reported(text % "d[i - 1] == d[i]")] == ["-1 at i = 0"]


def test_parts_of_an_axis_say_where_it_is() -> None:
    assert undecided(loaded(BLOCKS.replace(", C", "") % (64, 64, 64, 64, 64))) == ()
    assert [d.got for d in reported(BLOCKS.replace(", C", "") % (64, 64, 64, 64, 65))] == ["-1 at i = 64"]
    (found,) = undecided(loaded(BLOCKS % ("C", "C", "C", "C", 1)))  # a product of a size and a position
    assert found.symbols == {"N", "C"}


RAGGED = """kernel k { size B, S scalar l: i32 >= %s = 1 input cu: i32[B + 1] input X: f32[B, S]
    output Y: f32[B, S] else 0 ragged S over B by cu axis b in B, i in S domain i: %s Y[b, i] = X[b, i - l] }"""


@pytest.mark.parametrize(
    ("least", "domain", "code"),
    [
        ("0", "i >= l", None),
        ("-1", "i >= l", "INDEX_OF_SEQUENCE"),  # i + 1 for the last i
        ("0", "i < 4", "INDEX_OF_SEQUENCE"),
        ("1", "i < 4", "INDEX_RANGE"),
    ],
)
def test_lengths_of_sequences_are_no_launchs_to_judge(least: str, domain: str, code: str | None) -> None:
    text = RAGGED % (least, domain)
    if code is None:
        assert undecided(loaded(text)) == ()
    else:
        assert [d.code for d in reported(text)] == [code]
