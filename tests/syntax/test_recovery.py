"""One run reports every syntax error of a file, each where it is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sema.faults import BASE, underlined
from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.syntax import parse
from tilegen.syntax.span import Source


def errors(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(TilegenError) as error:
        parse(Source("spec.tile", text))
    return error.value.diagnostics


def marked(text: str) -> list[tuple[str, str]]:
    return [(d.code, underlined(text, d.span)) for d in errors(text) if d.span]


def test_parsing_resumes_at_the_next_statement() -> None:
    text = """\
kernel k {
  size M,
  inptu A: T[M]
  input B: T[M;]
  output C T[M]
  tile a[i = A[i]
  C[i] = 2 * ) a[i]
  s[i] = a[i] +
  axis i of M
  domain i: i <
  ragged M by B
}
"""
    assert marked(text) == [
        ("UNKNOWN_STATEMENT", "inptu"), ("SYNTAX", ";"), ("SYNTAX", "T"), ("SYNTAX", "="), ("SYNTAX", ")"),
        ("SYNTAX", "axis"), ("SYNTAX", "ragged"),
    ]  # fmt: skip


def test_parsing_resumes_at_the_next_directive() -> None:
    text = """\
kernel k {
  schedule hopper {
    block i,
    blokc j 3
    late O to 1
    walk j down
    outputs x { grid 3  stream j  stages 2 }
    persistent
  }
  size M;
}
"""
    assert [code for code, _ in marked(text)][-1] == "SYNTAX"
    assert [m for _, m in marked(text)] == [",", "to", "3", "2", "}", ";"]


def test_what_could_stand_there_is_said() -> None:
    (found,) = errors("kernel k { size M input A: f32[M) }")
    assert (found.got, found.wanted) == ("`)`", "`]`")
    (found,) = errors("kernel k { sized M }")
    assert found.wanted == "`size`?"
    (found,) = errors("kernel k { schedule hopper { block i 64  consumer 2 over i  stages a 3 } }")
    assert (found.got, found.wanted) == ("`consumer`", "`consumers`?")


@pytest.mark.parametrize(
    "text", ["kernel k {", "kernel k { size M", "kernel", "kernel k { schedule hopper { walk j down }"]
)
def test_an_open_kernel_is_told_at_the_end(text: str) -> None:
    (found,) = errors(text)
    assert found.code == "UNEXPECTED_END"
    assert "`}`" in found.wanted or "a name" in found.wanted


def test_text_behind_the_kernel_is_refused() -> None:
    assert marked("kernel a { } kernel b { }") == [("SYNTAX", "kernel")]
    (found,) = errors("kernel a { } kernel b { }")
    assert found.wanted == "the end of the file: it holds one kernel"


def test_letters_that_are_not_ascii_are_told_from_signs_without_meaning() -> None:
    assert marked("kernel é { size M }")[0] == ("NOT_ASCII", "é")
    assert marked("kernel a { size M€ }")[0] == ("BAD_CHARACTER", "€")


@pytest.mark.parametrize("text", ["exp(" * 3000 + "i" + ")" * 3000, "-" * 3000 + "i", "i * " * 3000 + "i"])
def test_what_is_nested_too_deeply_is_refused(text: str) -> None:
    (found,) = errors(f"kernel k {{ x[i] = {text} }}")
    assert found.code == "TOO_DEEP"


def test_parentheses_alone_are_no_depth() -> None:
    parse(Source("spec.tile", f"kernel k {{ x[i] = {'(' * 3000}i{')' * 3000} + {'i + ' * 60} i }}"))


def test_a_missing_comma_is_found_at_the_next_name() -> None:
    assert marked("kernel k { input A: f32[M N] }") == [("SYNTAX", "N")]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_damage_is_reported_and_never_raises_anything_else(data: st.DataObject) -> None:
    """Cutting out, doubling or replacing a stretch gives a tree or errors with places inside the text."""
    start = data.draw(st.integers(0, len(BASE) - 1))
    end = data.draw(st.integers(start, min(start + 12, len(BASE))))
    new = data.draw(st.sampled_from(["", "[", "}", "{", "= ", ", ,", "tile", "\n", "@", "é", BASE[start:end] * 2]))
    text = BASE[:start] + new + BASE[end:]
    found: tuple[Diagnostic, ...] = ()
    try:
        parse(Source("spec.tile", text))
    except TilegenError as error:
        found = error.diagnostics or (fault(Code.BAD_USAGE, None, what="an error without diagnostics", command=""),)
    for d in found:
        assert d.span is not None
        assert 1 <= d.span.line <= text.count("\n") + 1
        assert 1 <= d.span.column <= max(len(line) for line in text.splitlines()) + 1


@pytest.mark.parametrize(
    ("statement", "fix"),
    [
        ("// the axes\n axis i in M", "comments start with `#`"),
        ("axis i in M // the axis", "comments start with `#`"),
        ("axis i in M /* the axis */", "comments start with `#`"),
        ("scalar x: f32 = 0.5; axis i in M", "leave the `;` out: nothing stands between statements"),
        ("domain i, j: i = j", "a comparison is written `==`"),
        ("s[i, j] = where(i = j, 1, 0)", "a comparison is written `==`"),
        ("domain i, j <= i", "name the condition's axes, and put a `:` before it: `domain i, j, …: …`"),
        ("schedule hopper { persistent }", "say how: `persistent static`, `persistent counter`, `persistent table`"),
    ],
)
def test_what_other_languages_write_is_told_apart(statement: str, fix: str) -> None:
    found = errors(f"kernel k {{ size M, N\n {statement}\n }}")[0]
    assert found.code == "SYNTAX"
    assert found.fixes[0] == fix


def test_other_mistakes_have_no_such_hint() -> None:
    for statement in ("axis i of M", "tile a[i = A[i]", "axis i in M / ", "domain i: j <= ", "output C T[M]"):
        assert all(len(d.fixes) == 1 for d in errors(f"kernel k {{ size M, N\n {statement}\n }}"))


def test_what_has_to_stand_there_is_wanted_alone() -> None:
    assert errors("kernel k { domain i, j <= i }")[0].wanted == "`:`"
    assert errors("kernel k { schedule hopper { persistent } }")[0].wanted == "static or counter or table"


def test_how_an_equation_is_written_is_no_help_in_a_schedule() -> None:
    (inside,) = errors("kernel k { schedule hopper { blocks m 64 } }")
    (outside,) = errors("kernel k { sizes M }")
    assert (inside.code, outside.code) == ("UNKNOWN_STATEMENT", "UNKNOWN_STATEMENT")
    assert not any("equation" in fix for fix in inside.fixes)
    assert any("equation" in fix for fix in outside.fixes)
