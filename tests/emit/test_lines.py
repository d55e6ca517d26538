"""`#line`: every statement of an op carries its spec line, everything else the line it stands on."""

from __future__ import annotations

from tilegen.syntax.span import Span
from tilegen.targets.hopper.emit.lines import Line, inside, place


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


def test_each_line_is_where_it_says() -> None:
    code = [
        Line("{"),
        *inside([Line("f();", at(7)), Line("g();", at(7)), Line("h();", at(8)), Line("int x;")]),
        Line("}"),
    ]
    text = place("\n".join(map(str, code)), "k.cu")
    found = lines_of(text, "k.cu")
    assert found["f();"] == found["g();"] == ("a.tile", 7)
    assert found["h();"] == ("a.tile", 8)
    physical = {line.strip(): n for n, line in enumerate(text.splitlines(), 1)}
    for own in ("{", "int x;", "}"):
        assert found[own] == ("k.cu", physical[own])


def test_a_following_line_needs_no_directive() -> None:
    text = place("\n".join(map(str, [Line("f();", at(7)), Line("g();", at(8))])), "k.cu")
    assert text.count("#line") == 1


def test_comments_need_no_directive() -> None:
    text = place(
        "\n".join(map(str, [Line("f();", at(7)), Line("// why"), Line("", None), Line("g();", at(7))])), "k.cu"
    )
    assert text.count('#line 7 "a.tile"') == 2
    assert "k.cu" not in text


def test_file_names_are_quoted() -> None:
    text = place(str(Line("f();", Span('od"d\\name.tile', 3, 1, 3, 1))), "k.cu")
    assert '#line 3 "od\\"d\\\\name.tile"' in text


def test_the_spec_may_be_reported_under_another_name() -> None:
    assert '#line 3 "b.tile"' in place(str(Line("f();", at(3))), "k.cu", "b.tile")
