"""Source texts and places in them. Every node of every stage carries a Span."""

from __future__ import annotations

from tilegen.records import dataclass


@dataclass(frozen=True)
class Source:
    """The text of one `.tile` file, with the name it is reported under."""

    name: str
    text: str

    def line(self, number: int) -> str:
        """The text of line `number` (1-based), without its line end; '' past the end."""
        lines = self.text.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class Span:
    """Half-open range of characters in a source; lines and columns are 1-based."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def until(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.file, self.line, self.column, other.end_line, other.end_column)
