"""Spec lines: in the margin for readers, as `#line` for the compiler."""

from __future__ import annotations

from tilegen.syntax.span import Span
from tilegen.targets.hopper.emit.lines import Line, directed, inside


def lines_of(text: str, own: str) -> dict[str, tuple[str, int]]:
    """What a compiler takes each line of a text to be."""
    found = {}
    file, number = own, 1
    for line in text.splitlines():
        if line.startswith("#line"):
            _, digits, name = line.split(maxsplit=2)
            file, number = name.strip('"'), int(digits)
            continue
        found[line.strip()] = (file, number)
        number += 1
    return found


def at(line: int) -> Span:
    return Span("a.tile", line, 1, line, 1)


def text_of(*lines: Line) -> str:
    return "\n".join(map(str, lines))


def test_each_line_is_where_it_says() -> None:
    text = text_of(
        Line("{"),
        *inside([Line("f();", at(7)), Line("g();", at(7)), Line("h();", at(8)), Line("int x;")]),
        Line("}"),
    )
    found = lines_of(directed(text, "k.cu", "a.tile"), "k.cu")
    assert found["f();"] == found["g();"] == ("a.tile", 7)
    assert found["h();"] == ("a.tile", 8)
    written = {line.split("//")[0].strip(): n for n, line in enumerate(text.splitlines(), 1)}
    for own in ("{", "int x;", "}"):
        assert found[own] == ("k.cu", written[own])


def test_the_margin_holds_the_line_and_the_compiler_does_not_see_it() -> None:
    text = text_of(Line("f();", at(7), 2))
    assert text.split() == ["f();", "//", ":7"]
    assert text.startswith("    f();")
    assert directed(text, "k.cu", "a.tile") == '#line 7 "a.tile"\n    f();\n'


def test_a_long_line_keeps_its_margin() -> None:
    text = text_of(Line("x" * 150, at(3)))
    assert text == "x" * 150 + " // :3"


def test_a_following_line_needs_no_directive() -> None:
    text = directed(text_of(Line("f();", at(7)), Line("g();", at(8))), "k.cu", "a.tile")
    assert text.count("#line") == 1


def test_comments_need_no_directive() -> None:
    text = directed(text_of(Line("f();", at(7)), Line("// why"), Line(""), Line("g();", at(7))), "k.cu", "a.tile")
    assert text.count('#line 7 "a.tile"') == 2
    assert "k.cu" not in text


def test_file_names_are_quoted() -> None:
    text = directed(text_of(Line("f();", at(3))), "k.cu", 'od"d\\name.tile')
    assert '#line 3 "od\\"d\\\\name.tile"' in text
