"""Each entry of the catalogue that the front end may report fires, once, where the fault is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sema.faults import BASE, loaded, reported, underlined, with_changes
from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.entries import SECTIONS

SPECS = Path(__file__).parent.parent / "specs"
Change = tuple[str, str]
S = "s[i, j] = x * sum[d](a[i, d] * b[j, d])"
DOMAIN = "domain i, j: j <= i + w if flag"
INPUT = "input B: T[N, D]"
SCHEDULE = "block i 64, j 64 consumers 1 over i"

# code, changes to BASE, what is underlined
CASES: list[tuple[Code, list[Change], str]] = [
    (Code.SYNTAX, [("size M, N", "size M, N, , input Z: T[M]")], ","),
    (Code.BAD_CHARACTER, [("i + w", "i + @w")], "@"),
    (Code.UNKNOWN_STATEMENT, [("tile b[", "tiel b[")], "tiel"),
    (Code.UNKNOWN_STATEMENT, [(SCHEDULE, "blokc i 64, j 64")], "blokc"),
    (Code.UNKNOWN_STATEMENT, [("consumers 1", "consumer 1")], "consumer"),
    (Code.PARAMETER_MISSING, [(" = 64, flag", ", flag")], "D: 64 | 128"),
    (Code.PARAMETER_VALUE, [("= 64, flag", "= 32, flag")], "32"),
    (Code.PARAMETER_RANGE, [("64 | 128", "64 .. 128 by 3")], "64 .. 128 by 3"),
    (Code.UNKNOWN_NAME, [("= x * sum", "= x * y * sum")], "y"),
    (Code.UNKNOWN_NAME, [("block i 64, j 64", "block i 64, jj 64")], "jj"),
    (Code.UNKNOWN_NAME, [("flag: bool", "flag: boole")], "boole"),
    (Code.UNKNOWN_TYPE, [("output C: f32", "output C: f23")], "f23"),
    (Code.UNKNOWN_FUNCTION, [("= x * sum", "= exq(x) * sum")], "exq"),
    (Code.UNKNOWN_FUNCTION, [("sum[d]", "smu[d]")], "smu"),
    (Code.WRONG_KIND, [("sum[d]", "sum[M]")], "M"),
    (Code.WRONG_KIND, [("= x * sum", "= x * i[0] * sum")], "i"),
    (Code.WRONG_KIND, [("j <= i + w", "j <= i + a[i, 0]")], "a"),
    (Code.RESERVED_NAME, [("size M, N", "size M, N, exp")], "exp"),
    (Code.REDEFINED, [("size M, N", "size M, N, A")], "A"),
    (Code.REDEFINED, [("C[i, j] = s", "s[i, j] = 2 * x C[i, j] = s")], "s"),
    (Code.REDEFINED, [("C[i, j] = s", "C[i, j] = 1 C[i, j] = s")], "C"),
    (Code.INPUT_ASSIGNED, [("C[i, j] = s", "A[i, d] = s[i, 0] C[i, j] = s"), (DOMAIN, "")], "A"),
    (Code.OUTPUT_UNDEFINED, [("size M, N", "size M, N output Z: T[M]")], "Z"),
    (Code.UNUSED, [("size M, N", "size M, N, X")], "X"),
    (Code.UNUSED, [("size M, N", "size M, N input Z: T[M]")], "Z"),
    (Code.UNUSED, [("axis i in M", "axis z in M, i in M")], "z"),
    (Code.UNUSED, [("C[i, j] = s", "z[i, j] = 2 * s[i, j] C[i, j] = s")], "z"),
    (Code.UNUSED, [("flag: bool", "E: int = 3, flag: bool")], "E"),
    (Code.BAD_CONSTANT, [("> 0 = 1", "> 0 = 1 / 0")], "1 / 0"),
    (Code.BAD_CONSTANT, [("> 0 = 1", "> 0 = sqrt(-1)")], "sqrt(-1)"),
    (Code.BAD_CONSTANT, [("if flag", "if D")], "D"),
    (Code.BAD_CONSTANT, [("= x * sum", "= x + pow(10, 400) + sum")], "pow(10, 400)"),
    (Code.BAD_CONSTANT, [("= x * sum", "= x + pow(10, 9999999999) + sum")], "pow(10, 9999999999)"),
    (Code.BAD_CONSTANT, [("= x * sum", "= x + pow(-8, 0.5) + sum")], "pow(-8, 0.5)"),
    (Code.BAD_CONSTANT, [("= x * sum", f"= x + {10**38} * 4 + sum")], f"{10**38} * 4"),
    (Code.INTEGER_LITERAL, [("= x * sum", f"= x + {'9' * 400} + sum")], "9" * 400),
    (Code.INTEGER_LITERAL, [("= x * sum", f"= x + {'9' * 5000} + sum")], "9" * 5000),
    (Code.INTEGER_LITERAL, [(DOMAIN, "domain i, j: j <= i + 99999999999")], "j <= i + 99999999999"),
    (Code.INTEGER_LITERAL, [("+ w if flag", "+ w if w > 99999999999")], "w > 99999999999"),
    (Code.INTEGER_LITERAL, [(DOMAIN, "domain i, j: 2147483648 * j <= i")], "2147483648 * j <= i"),
    (Code.INTEGER_LITERAL, [("s[i, j] + w", "s[i, j] + (i + 99999999999)")], "99999999999"),
    (Code.INTEGER_LITERAL, [("i32 = 3", "i32 = 2147483648")], "2147483648"),
    (Code.INTEGER_LITERAL, [("size M, N", "size M = 2147483648, N")], "M = 2147483648"),
    (Code.NOT_CONSTANT, [("else 0", "else N")], "N"),
    (Code.BAD_EXTENT, [(INPUT, "input B: T[N, D] input Z: f32[M - M]"), ("= x * sum", "= Z[0] * x * sum")], "M - M"),
    (Code.BAD_EXTENT, [("axis i in M", "axis i in 1.5")], "1.5"),
    (Code.BAD_INDEX, [("= A[i, d]", "= A[i / 2, d]")], "i / 2"),
    (Code.BAD_INDEX, [("= A[i, d]", "= A[N * i, d]")], "N * i"),
    (Code.INDEX_RANGE, [("= B[j, d]", "= B[j + 1, d]"), (DOMAIN, "")], "j + 1"),
    (Code.LOOKUP_TYPE, [("= A[i, d]", "= A[B[i, 0], d]")], "B[i, 0]"),
    (Code.WRONG_RANK, [("b[j, d])", "b[j])")], "b[j]"),
    (Code.WRONG_RANK, [("= B[j, d]", "= B[j, d, 0]")], "B[j, d, 0]"),
    (Code.NEEDS_INDEX, [("= x * sum", "= x * a * sum")], "a"),
    (Code.AXIS_EXTENT, [("= A[i, d]", "= A[j, d]"), ("tile a[i", "tile a[j")], "j"),
    (Code.AXIS_EXTENT_UNKNOWN, [("= A[i, d]", "= A[i + z, d]"), ("tile a[i, d]", "tile a[i, d, z]")], "z"),
    (Code.AXIS_USED_ONCE, [("= B[j, d]", "= B[j, dd]")], "dd"),
    (Code.AXIS_TWICE, [("sum[d]", "sum[d, d]")], "d"),
    (Code.AXIS_TWICE, [("tile b[j, d]", "tile b[j, j]")], "j"),
    (Code.AXIS_NOT_REACHED, [("tile b[j, d]", "tile b[j, d, i]"), ("b[j, d])", "b[j, d, i])")], "i"),
    (Code.AXIS_LEFT_OVER, [("C[i, j] = s[i, j]", "C[i, j] = a[i, d] + s[i, j]")], "a[i, d] + s[i, j] + w"),
    (Code.SPLIT_TWICE, [(DOMAIN, "split i into p, q by M split i into u, v by M")], "i"),
    (Code.SPLIT_CYCLE, [(DOMAIN, "split p into p, q by M")], "p"),
    (Code.REDEFINED, [(DOMAIN, "split i into i, q by M")], "i"),
    (Code.SPLIT_UNEVEN, [(DOMAIN, "split i into p, q by 3")], "3"),
    (Code.DOMAIN_AXIS_MISSING, [("domain i, j:", "domain j:")], "j <= i + w"),
    (Code.DOMAIN_AXIS_UNUSED, [("domain i, j:", "domain i, j, d:")], "d"),
    (Code.DOMAIN_EMPTY, [(DOMAIN, "domain i, j: j <= i + w and 1 > 2")], "j <= i + w and 1 > 2"),
    (Code.GUARD, [("if flag", "if w > 0 or w < 3")], "w > 0 or w < 3"),
    (Code.GUARD, [("if flag", "if w > 0 and N > 3")], "w > 0 and N > 3"),
    (Code.READ_OUTSIDE_DOMAIN, [(" if flag", ""), ("C[i, j] = s[i, j]", "C[i, j] = s[i, 0] + j")], "s[i, 0]"),
    (Code.ELSE_MISSING, [(" if flag", ""), (" else 0", "")], "output C: f32[M, N]"),
    (Code.SCALAR_TYPE, [("scalar x: f32", "scalar x: f16")], "f16"),
    (Code.CONSTRAINT, [("f32 > 0", "f32 != 0")], "0"),
    (Code.DEFAULT_CONSTRAINT, [("> 0 = 1", "> 0 = 0 - D")], "0 - D"),
    (Code.WRONG_TYPE, [("= x * sum", "= (x > 1) * sum")], "x > 1"),
    (Code.WRONG_TYPE, [("= x * sum", "= select(x, 1, 2) * sum")], "x"),
    (Code.WRONG_TYPE, [("i32 = 3", "i32 = 3.5")], "3.5"),
    (Code.WRONG_TYPE, [("= x * sum", "= x * T * sum")], "T"),
    (Code.ARGUMENTS, [("= x * sum", "= exp(x, 1) * sum")], "exp(x, 1)"),
    (Code.ARGUMENTS, [("sum[d](a[i, d] * b[j, d])", "sum[d](a[i, d] * b[j, d], 1)")], "sum[d](a[i, d] * b[j, d], 1)"),
    (Code.ARGUMENTS, [("= x * sum", "= T(x, x) * sum")], "T(x, x)"),
    (Code.FOLD_NEEDS_AXES, [("= x * sum", "= sum(x) * sum")], "sum"),
    (Code.NO_OUTPUT, [(BASE, "kernel empty {}")], "empty"),
    (Code.FOLD_AXES, [("= x * sum[d]", "= x * sum[d, 2]")], "2"),
    (Code.FOLD_AXIS_MISSING, [("= x * sum", "= sum[d](x) * sum")], "sum[d](x)"),
    (Code.EXTRA_TERM_AXIS, [(S, "s[i, j] = x * logsumexp[d](a[i, d] + b[j, d]; a[i, d])")], "a[i, d]"),
    (Code.CYCLE, [("C[i, j] = s", "u[i, j] = v[i, j] v[i, j] = u[i, j] + 1 C[i, j] = u[i, j] + s")], "u"),
    (Code.OUTPUT_TYPE, [("output C: f32", "output C: i32")], "s[i, j] + w"),
    (Code.PRODUCT_FACTOR, [("sum[d](a[i, d]", "sum[d](2 * exp(a[i, d])")], "exp(a[i, d])"),
    (Code.PRODUCT_TYPES, [("sum[d](a[i, d]", "sum[d](f16(a[i, d])")], "sum[d](f16(a[i, d]) * b[j, d])"),
    (Code.UNKNOWN_TARGET, [("schedule hopper", "schedule hoper")], "hoper"),
    (Code.SCHEDULE_CONDITION, [("schedule hopper", "schedule hopper if N > 3 and x > 3")], "x"),
    (Code.SCHEDULE_CONDITION, [("schedule hopper", "schedule hopper if N * 0.5 > 3 or D > 64")], "N * 0.5 > 3"),
    (Code.SCHEDULE_CONDITION, [("schedule hopper", "schedule hopper if flag or N")], "N"),
    (Code.SCHEDULE_UNREACHABLE, [("schedule mls", "schedule hopper if N < 9 {} schedule mls")], "hopper"),
    (Code.UNKNOWN_OPTION, [(SCHEDULE, "wave 4")], "wave"),
    (Code.DIRECTIVE_TWICE, [("j 64", "j 64, i 32")], "i 32"),
    (Code.DIRECTIVE_TWICE, [(SCHEDULE, "persistent static persistent table")], "persistent table"),
    (Code.DIRECTIVE_NUMBER, [("consumers 1", "consumers 0")], "0"),
    (Code.DIRECTIVE_NUMBER, [("consumers 1", "consumers flag")], "flag"),
    (Code.DIRECTIVE_NUMBER, [(SCHEDULE, "group i by 999999999999")], "999999999999"),
    (Code.DIRECTIVE_NUMBER, [(SCHEDULE, "group i by 2048 MB")], "2048"),
    (Code.DIRECTIVE_WORD, [(SCHEDULE, "walk j sideways")], "sideways"),
    (Code.DIRECTIVE_WORD, [(SCHEDULE, "order longest")], "longest"),
    (Code.DIRECTIVES_DISAGREE, [(SCHEDULE, "stale_max exact_max")], "exact_max"),
    (Code.NAMED_TWICE, [(SCHEDULE, "batch s, s")], "s"),
]  # fmt: skip

ELSEWHERE = {  # tested in the named file
    Code.SPEC_TYPE: "../runtime/test_compile.py",
    Code.FILE_MISSING: "test_loading.py", Code.FILE_IS_FOLDER: "test_loading.py",
    Code.FILE_UNREADABLE: "test_loading.py", Code.FILE_ENCODING: "test_loading.py",
    Code.RAGGED_TABLE: "below", Code.RAGGED_DIMENSION: "below", Code.SCHEDULE_RAGGED: "test_conditions.py",
    Code.TOO_DEEP: "../syntax/test_recovery.py",
    Code.UNKNOWN_PARAMETER: "test_params.py", Code.UNEXPECTED_END: "../syntax/test_recovery.py",
    Code.EMPTY_FILE: "test_loading.py", Code.NOT_ASCII: "../syntax/test_recovery.py",
    Code.INDEX_OF_SEQUENCE: "test_ranges.py",
}  # fmt: skip


def test_the_spec_that_the_cases_change_is_right() -> None:
    assert loaded(BASE).definition("C").index == ("i", "j")
    assert loaded(BASE, {"flag": True}).domain


@pytest.mark.parametrize(("code", "changes", "marked"), CASES, ids=[f"{c[0].name}-{n}" for n, c in enumerate(CASES)])
def test_a_fault_is_reported_once_and_where_it_is(code: Code, changes: list[Change], marked: str) -> None:
    text = with_changes(*changes)
    params = {"flag": True} if code is Code.DOMAIN_AXIS_MISSING else {}
    found = reported(text, params)
    assert [d.code for d in found] == [code.name]
    assert found[0].span is not None
    assert underlined(text, found[0].span) == marked
    assert found[0].fixes


@pytest.mark.parametrize(
    ("code", "old", "new", "marked"),
    [
        (Code.RAGGED_TABLE, "cu_q: i32[B + 1]", "cu_q: i32[B]", "cu_q"),
        (Code.RAGGED_TABLE, "cu_q: i32[B + 1]", "cu_q: f32[B + 1]", "cu_q"),
        (Code.RAGGED_DIMENSION, "output O: T[B,", "input X: T[Sq, H] output O: T[B,", "input X: T[Sq, H]"),
        (Code.WRONG_KIND, "over B by cu_q", "over D by cu_q", "D"),
        (Code.REDEFINED, "ragged Sk over", "ragged Sq over B by cu_q ragged Sk over", "Sq"),
    ],
)
def test_a_fault_of_a_ragged_size(code: Code, old: str, new: str, marked: str) -> None:
    text = (SPECS / "ragged.tile").read_text(encoding="utf-8")
    assert text.count(old) == 1
    text = text.replace(old, new).replace(
        "s[i, j] = scale", "s[i, j] = X[0, h] * scale" if "X" in new else "s[i, j] = scale"
    )
    found = reported(text)
    assert [d.code for d in found] == [code.name]
    assert found[0].span is not None
    assert underlined(text, found[0].span) == marked


def test_every_entry_of_the_front_end_is_tested() -> None:
    codes = {entry.code for entry in SECTIONS["syntax and names"]}
    assert codes == {case[0] for case in CASES} | set(ELSEWHERE)


def test_all_errors_of_a_file_are_reported_in_one_go_and_in_order() -> None:
    text = with_changes(
        ("size M, N", "size M, N, X"), ("= A[i, d]", "= A[i, dd]"), ("= x * sum", "= xx * sum"),
        ("consumers 1", "consumers 0"),
        ("output C: f32", "output C: f23"),
    )  # fmt: skip
    found = reported(text)
    assert [d.code for d in found] == [
        "UNUSED", "UNKNOWN_TYPE", "AXIS_USED_ONCE", "UNKNOWN_NAME", "DIRECTIVE_NUMBER"
    ]  # fmt: skip


def test_a_misspelt_name_is_matched_to_the_one_meant() -> None:
    found = reported(with_changes(("b[j, d])", "bb[j, d])")))
    assert [(d.code, d.wanted) for d in found] == [("UNKNOWN_NAME", "did you mean `b`?")]


def test_a_second_place_says_where_the_first_declaration_is() -> None:
    text = with_changes(("size M, N", "size M, N, A"))
    (found,) = reported(text)
    assert [underlined(text, note.span) for note in found.notes] == ["A"]
    assert found.notes[0].span != found.span
