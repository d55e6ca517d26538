"""Lines of generated text that know the spec line they come from, and the `#line` directives that say so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilegen.syntax.span import Span

_MARK = "\0"


@dataclass(frozen=True)
class Line:
    """`span` None: scaffolding, which belongs to the generated file itself."""

    text: str
    span: Span | None = None
    depth: int = 0

    def inside(self, levels: int = 1) -> Line:
        return Line(self.text, self.span, self.depth + levels)

    def __str__(self) -> str:
        """The indented text with a mark that `place` turns into a directive."""
        text = "  " * self.depth + self.text if self.text else ""
        return f"{_MARK}{self.span.line}:{self.span.file}{_MARK}{text}" if self.span else text


def inside(lines: Iterable[Line], levels: int = 1) -> list[Line]:
    return [line.inside(levels) for line in lines]


def place(text: str, own_file: str, spec_name: str | None = None) -> str:
    """The text with `#line` before each line that does not follow from the line before it.

    `spec_name` replaces the file that the spans name.
    """
    out: list[str] = []
    here: tuple[str, int] = (own_file, 1)  # what the compiler takes the next line to be
    for raw in text.splitlines():
        if raw.startswith(_MARK):
            place_text, _, line = raw[1:].partition(_MARK)
            number, _, file = place_text.partition(":")
            wanted = (spec_name or file, int(number))
        else:
            line = raw
            own = (own_file, len(out) + 1)
            silent = not line.strip() or line.lstrip().startswith("//")
            wanted = here if silent or here == own else (own_file, len(out) + 2)
        if wanted != here:
            name = wanted[0].replace("\\", "\\\\").replace('"', '\\"')
            out.append(f'#line {wanted[1]} "{name}"')
        out.append(line)
        here = (wanted[0], wanted[1] + 1)
    return "\n".join(out) + "\n"
