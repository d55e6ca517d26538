"""Lines of generated text that know the spec line they come from: a margin for readers, `#line` for the compiler."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tilegen.syntax.span import Span

_MARGIN = 100  # columns
_IN_MARGIN = re.compile(r" +// :(\d+)$")


@dataclass(frozen=True)
class Line:
    """`span` None: scaffolding, which belongs to the generated file itself."""

    text: str
    span: Span | None = None
    depth: int = 0

    def inside(self, levels: int = 1) -> Line:
        return Line(self.text, self.span, self.depth + levels)

    def __str__(self) -> str:
        """The indented text, with the spec line in the right margin."""
        text = "  " * self.depth + self.text if self.text else ""
        return f"{text:<{_MARGIN}} // :{self.span.line}" if self.span else text


def inside(lines: Iterable[Line], levels: int = 1) -> list[Line]:
    return [line.inside(levels) for line in lines]


def without_margin(line: str) -> tuple[str, int | None]:
    """A generated line without its margin, and the spec line that stood there."""
    margin = _IN_MARGIN.search(line)
    return (line[: margin.start()], int(margin[1])) if margin else (line, None)


def directed(text: str, own_file: str, spec_file: str) -> str:
    """The text for the compiler: `#line` before each line that does not follow from the line before it.

    A line with a margin belongs to the spec's line there; any other is a line of the text itself. Comments and empty
    lines belong wherever they stand.
    """
    out: list[str] = []
    here: tuple[str, int] = (own_file, 1)  # what the compiler takes the next line to be
    for number, line in enumerate(text.splitlines(), 1):
        code, spec_line = without_margin(line)
        wanted = (own_file, number) if spec_line is None else (spec_file, spec_line)
        if spec_line is None and (not line.strip() or line.lstrip().startswith("//")):
            wanted = here
        if wanted != here:
            name = wanted[0].replace("\\", "\\\\").replace('"', '\\"')
            out.append(f'#line {wanted[1]} "{name}"')
        out.append(code)
        here = (wanted[0], wanted[1] + 1)
    return "\n".join(out) + "\n"
