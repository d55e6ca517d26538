"""Diagnostics in words."""

from __future__ import annotations

import re

import pytest

from tests.sema.faults import BASE, reported, with_changes
from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Note
from tilegen.diagnostics.render import render
from tilegen.syntax.span import Source, Span

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_a_diagnostic_shows_place_line_marks_got_wanted_note_rule_and_fixes() -> None:
    text = with_changes(("= A[i, d]", "= A[j, d]"), ("tile a[i", "tile a[j"))
    shown = render(reported(text), {"spec.tile": Source("spec.tile", text)})
    assert shown.splitlines() == [
        "spec.tile:10:20: error[AXIS_EXTENT]: the axis `j` does not fit this dimension",
        "   10 |   tile a[j, d] = A[j, d]",
        "      |                    ^",
        "  got:    `j`, of extent N",
        "  wanted: an axis of extent M, which dimension 0 of `A` has",
        "  note:   spec.tile:8:16: `j` has the extent N from here",
        "    8 |   axis i in M, j in N",
        "      |                ^",
        "  rule:   an axis alone in a dimension runs over the whole of it",
        "  fix:    use an axis of the dimension's own extent, or give the tensor this axis's",
    ]


def test_faults_of_tilegen_are_told_from_the_users() -> None:
    found = fault(Code.POISON_VOTE, Span("spec.tile", 3, 1, 3, 5), statement="p")
    shown = render([found], {})
    assert shown.startswith("spec.tile:3:1: internal error[POISON_VOTE]: p: ")
    assert "report it with the spec" in shown
    assert not fault(Code.EMPTY_FILE, None).internal


def test_several_are_counted() -> None:
    found = reported(with_changes(("size M, N", "size M, N, X, Y")))
    shown = render(found, {})
    assert shown.endswith("2 errors")
    assert "spec.tile:2:14: error[UNUSED]" in shown
    assert "|" not in shown  # the text is not at hand


def test_colour_changes_nothing_but_colour() -> None:
    text = with_changes(("size M, N", "size M, N, [X]"))
    found, sources = reported(text), {"spec.tile": Source("spec.tile", text)}
    plain, coloured = render(found, sources), render(found, sources, colour=True)
    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    assert ANSI.sub("", coloured) == plain
    assert "size M, N, [X]" in plain


def test_long_lines_are_not_wrapped_in_colour() -> None:
    text = BASE.replace("size M, N", "size M, N, X" + " " * 300)
    found, sources = reported(text), {"spec.tile": Source("spec.tile", text)}
    assert ANSI.sub("", render(found, sources, colour=True)) == render(found, sources)


def test_tabs_keep_the_marks_under_their_place() -> None:
    text = "\tab\tcd\x07"
    source = Source("t.tile", text)
    diagnostic = fault(Code.SYNTAX, Span("t.tile", 1, 5, 1, 7), token="cd", hint="")
    lines = render((diagnostic,), {"t.tile": source}).splitlines()
    assert lines[1] == "    1 | \tab\tcd·"
    assert lines[2] == "      | \t  \t^^"


@pytest.mark.parametrize(("line", "end", "marks"), [(1, 99, 3), (2, 3, 3), (9, 3, 1)])
def test_spans_past_the_text_are_cut(line: int, end: int, marks: int) -> None:
    span = Span("t.tile", 1, 2, line, end)
    shown = render(
        (fault(Code.SYNTAX, span, token="x", hint=""),), {"t.tile": Source("t.tile", "abcd" if line < 9 else "a")}
    )
    assert shown.splitlines()[2].count("^") == marks


def test_a_fault_without_a_place_is_told_without_one() -> None:
    note = Note(Span("t.tile", 1, 1, 1, 2), "here")
    shown = render((fault(Code.BAD_USAGE, None, what="no such thing", command="tilegen", notes=(note,)),), {})
    assert shown.splitlines()[0] == "error[BAD_USAGE]: no such thing"
    assert "  note:   t.tile:1:1: here" in shown
