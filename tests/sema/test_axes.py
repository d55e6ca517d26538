"""Extents, split axes and what a definition carries along."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sema.faults import loaded, reported, underlined
from tilegen.ir.reach import AxisTree
from tilegen.sema import load

ROOT = Path(__file__).parents[2]

SPLIT = """\
kernel k {
  size B, S, Hk, G
  input Q: bf16[B, S, Hk * G]
  input K: bf16[B, S, Hk]
  output both: f32[B, S, Hk * G]
  output O: f32[B, S, %s]
  axis h in Hk * G
  split h into g, r by G
  tile q[i] = Q[b, i, h]
  tile k[i] = K[b, i, g]
  both[b, i, h] = q[i] * k[i]
  %s
}
"""


def extents(text: str) -> dict[str, str]:
    return {a.name: str(a.extent) for a in loaded(text).axes}


def test_undeclared_axes_take_the_extent_of_what_they_index() -> None:
    text = "kernel k { size M, N input A: f32[M, 2 * N, 3] output C: f32[M] C[i] = sum[j, z](A[i, j, z]) }"
    assert extents(text) == {"i": "M", "j": "2 * N", "z": "3"}


def test_an_axis_that_renames_a_bracket_takes_its_extent() -> None:
    text = "kernel k { size M, N input A: f32[M, N] output C: f32[M] s[i, j] = A[i, j] C[i] = sum[u](s[i, u]) }"
    assert extents(text)["u"] == "N"


def test_every_dimension_that_an_axis_stands_alone_in_must_agree() -> None:
    text = "kernel k { size M, N input A: f32[M, N] output C: f32[N, N] C[i, j] = A[i, j] }"
    (found,) = reported(text)
    assert (found.code, found.got) == ("AXIS_EXTENT", "`i`, of extent N")
    assert "extent M" in found.wanted


def test_a_tile_that_is_read_in_another_order_is_shown_as_it_was_declared() -> None:
    text = """kernel k { size M, N  input A: f32[M, N]  output C: f32[M, N]
      tile a[i, j] = A[i, j]
      C[i, j] = a[j, i] }"""
    for found in reported(text):
        assert found.code == "AXIS_EXTENT"
        assert found.notes[0].text == "declared as `a[i, j]`"
        assert found.notes[0].span is not None
        assert underlined(text, found.notes[0].span) == "tile a[i, j] = A[i, j]"


@pytest.mark.parametrize(
    ("equations", "place"),
    [
        ("C[i] = a[i, d] + w", "a[i, d]"),
        ("s[i] = max(2 * a[i, d], 0) z[i] = s[i] + w C[i] = z[i]", "a[i, d]"),
        ("s[i, d] = 2 * a[i, d] C[i] = s[i, d]", "s[i, d]"),
        ("C[i] = w * d", "d"),
    ],
)
def test_an_axis_that_is_left_over_is_shown_where_it_comes_in(equations: str, place: str) -> None:
    text = f"""kernel k {{ size M, D  input A: f32[M, D]  output C: f32[M]  scalar w: f32
      tile a[i, d] = A[i, d]
      {equations} }}"""
    (found,) = [d for d in reported(text) if d.code != "UNUSED"]
    assert found.code == "AXIS_LEFT_OVER"
    assert found.notes[0].text == "`d` comes in here"
    assert found.notes[0].span is not None
    assert underlined(text, found.notes[0].span) == place


def test_shifted_axes_may_index_other_extents() -> None:
    text = "kernel k { size M input A: f32[M + 2] output C: f32[M] axis i in M C[i] = A[i] + A[i + 1] + A[i + 2] }"
    assert extents(text) == {"i": "M"}
    assert [d.code for d in reported(text.replace("axis i in M", ""))] == ["AXIS_EXTENT"]  # M + 2 from A, M from C


def test_an_index_that_leaves_its_dimension_is_refused_where_no_clause_limits_it() -> None:
    text = "kernel k { size M input A: f32[M] output C: f32[M] else 0 axis i in M C[i] = A[i - 1] + A[2 * i - M + 1] }"
    got = ["-1 at i = 0", "-M + 1 at i = 0"]  # which is inside for M = 1 alone
    assert [(d.code, d.got) for d in reported(text)] == [("INDEX_RANGE", g) for g in got]
    assert reported(text.replace("i - 1]", "i + M]"))[0].got == "2 * M - 1 at i = M - 1"
    assert loaded(text.replace("C[i] =", "domain i: i > 0 and 2 * i >= M - 1 C[i] =")).domain


SHIFTED = """kernel k { size N scalar lag: i32 >= 0 = 1 input X: f32[N] output Y: f32[N] else 0 axis i in N, j in N
    domain i: i < N - 1 domain j: %s Y[j] = lag * X[%s] + max[i](X[i]) }"""


@pytest.mark.parametrize(
    ("condition", "index", "got"),
    [
        ("j + 1 < N", "j + 8", "N + 6 at j = N - 2"),
        ("j < N - 1", "j + 5", "N + 3 at j = N - 2"),
        ("j - 8 < N", "j - 8", "-8 at j = 0"),
        ("j >= 3", "j - 5", "-2 at j = 3"),
        ("j >= 5 or j < N - 9", "j - 5", "-5 at j = 0"),
        ("j >= 2 and j >= 3", "j - 5", "-2 at j = 3"),
        ("2 * j >= 7", "j - 5", "-1 at j = 4"),
        ("X[j] > 0", "j - 5", "-5 at j = 0"),
    ],
)
def test_a_domain_that_does_not_keep_an_index_inside_is_refused(condition: str, index: str, got: str) -> None:
    assert [(d.code, d.got) for d in reported(SHIFTED % (condition, index))] == [("INDEX_RANGE", got)]


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        ("j >= 5", "j - 5"),
        ("j > 4 and j < N - 1", "j - 5"),
        ("j >= 7 or 5 <= j <= 6", "j - 5"),
        ("j < N - 8", "j + 8"),
        ("j + lag < N", "j + lag"),
        ("not j < 5", "j - 5"),
        ("2 * j >= 10", "j - 5"),
    ],
)
def test_a_domain_that_keeps_an_index_inside_is_not(condition: str, index: str) -> None:
    assert len(loaded(SHIFTED % (condition, index)).domain) == 2


@pytest.mark.parametrize(
    ("last", "equation", "axes"),
    [
        ("Hk * G", "O[b, i, h] = q[i]", ("b", "i", "h")),
        ("Hk", "O[b, i, g] = k[i]", ("b", "i", "g")),
        ("Hk * G", "O[b, i, h] = q[i] * k[i]", ("b", "i", "h")),  # g is a function of h
        ("Hk * G", "O[b, i, h] = k[i]", ("b", "i", "h")),
        ("Hk", "O[b, i, g] = sum[r](q[i])", ("b", "i", "g")),  # h without r is g
        ("G", "O[b, i, r] = sum[g](q[i] * k[i])", ("b", "i", "r")),
        ("Hk, G", "O[b, i, g, r] = q[i]", ("b", "i", "g", "r")),  # both parts give h
        ("Hk", "s[i] = q[i] + k[i] O[b, i, g] = max[r](s[i])", ("b", "i", "g")),
    ],
)
def test_split_axes_are_resolved(last: str, equation: str, axes: tuple[str, ...]) -> None:
    assert loaded(SPLIT % (last, equation)).definition("O").axes == axes


def test_a_fold_over_a_split_axis_needs_both_parts() -> None:
    (found,) = reported(SPLIT % ("1", "O[b, i, z] = sum[h](k[i]) + 0 * z"))
    assert found.code == "FOLD_AXIS_MISSING"
    assert loaded(SPLIT % ("1", "O[b, i, z] = sum[h](q[i]) + z")).definition("O").axes == ("b", "i", "z")


def test_what_is_carried_stands_behind_the_brackets() -> None:
    program = load(ROOT / "samples" / "fa3_fwd.tile", {})
    assert program.move("k").axes == ("b", "j", "g", "d")
    assert program.definition("s").axes == ("i", "j", "b", "h")
    assert program.definition("p").axes == ("i", "j", "b", "h")
    assert program.definition("O").axes == ("b", "i", "h", "e")


def test_a_lookup_reaches_the_axes_of_its_own_index() -> None:
    program = load(ROOT / "tests" / "specs" / "paged.tile", {})
    assert program.move("k").axes == ("b", "pg", "row", "h", "d")
    assert program.definition("s").axes == ("i", "j", "b", "h")


def test_the_backward_pass_sums_over_a_group_of_heads() -> None:
    program = load(ROOT / "tests" / "specs" / "attention_bwd.tile", {"causal": True})
    assert program.definition("ds").axes == ("i", "j", "b", "h")
    assert program.definition("dK").axes == ("b", "j", "g", "d")


def test_equations_are_put_in_an_order_in_which_each_reads_earlier_ones() -> None:
    text = "kernel k { size M input A: f32[M] output C: f32[M] C[i] = y[i] y[i] = x[i] + 1 x[i] = A[i] }"
    assert [d.name for d in loaded(text).definitions] == ["x", "y", "C"]


def test_splits_may_stand_in_any_order() -> None:
    text = "kernel k { size A, B, C input X: f32[A * B * C] output Y: f32[A] axis h in A * B * C"
    text += " split g into u, v by B split h into g, r by C Y[u] = sum[v, r](X[h]) }"
    assert {a: e for a, e in extents(text).items() if a in "guvr"} == {"g": "A * B", "r": "C", "u": "A", "v": "B"}


def test_axis_trees_of_two_levels() -> None:
    text = """
    kernel k { size A, B, C input X: f32[A * B * C] output Y: f32[A]
      axis h in A * B * C split h into g, r by C split g into u, v by B
      Y[u] = sum[v, r](X[h]) }"""
    program = loaded(text)
    tree = AxisTree(program.axes)
    assert tree.atoms("h") == ("u", "v", "r")
    assert tree.normal(["u", "r", "h"]) == ("h",)
    assert tree.minus(["h"], ["v"]) == ("u", "r")
    assert tree.minus(["h"], ["r"]) == ("g",)
    assert tree.covers(["g", "r"], "h")
    assert not tree.covers(["g"], "h")
