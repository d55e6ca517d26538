"""Diagnostics in words, for a terminal or a log: place, message, the line with the place underlined, what to do."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence

from tilegen.diagnostics.core import Diagnostic
from tilegen.syntax.span import Source, Span

_Piece = tuple[str, str]  # text and the style it has where colour is wanted
_PLACE, _CODE, _MARK, _SIDE = "bold", "bold red", "bold red", "cyan"


def render(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source], *, colour: bool = False) -> str:
    """One paragraph a diagnostic. `sources` holds the texts to quote from, by the name in their spans; a line is
    not quoted where its text is missing. `colour` adds ANSI codes."""
    pieces: list[_Piece] = []
    for number, diagnostic in enumerate(diagnostics):
        if number:
            pieces.append(("\n", ""))
        for line in _paragraph(diagnostic, sources):
            pieces += [*line, ("\n", "")]
    if len(diagnostics) > 1:
        pieces += [(f"\n{len(diagnostics)} errors\n", "bold")]
    return (_coloured(pieces) if colour else "".join(text for text, _ in pieces)).rstrip("\n")


def _paragraph(diagnostic: Diagnostic, sources: Mapping[str, Source]) -> Iterator[list[_Piece]]:
    place = f"{diagnostic.span}: " if diagnostic.span else ""
    kind = "internal error" if diagnostic.internal else "error"
    yield [(place, _PLACE), (f"{kind}[{diagnostic.code}]", _CODE), (": ", ""), (diagnostic.message, "bold")]
    if diagnostic.span:
        yield from _quote(diagnostic.span, sources, _MARK)
    for label, text in (("got", diagnostic.got), ("wanted", diagnostic.wanted)):
        if text:
            yield [(f"  {label + ':':<8}", _SIDE), (text, "")]
    for note in diagnostic.notes:
        yield [("  note:   ", _SIDE), (f"{note.span}: {note.text}", "")]
        yield from _quote(note.span, sources, _SIDE)
    if diagnostic.rule:
        yield [("  rule:   ", _SIDE), (diagnostic.rule, "")]
    for fix in diagnostic.fixes:
        yield [("  fix:    ", _SIDE), (fix, "")]


def _quote(span: Span, sources: Mapping[str, Source], style: str) -> Iterator[list[_Piece]]:
    """The span's first line, and under it carets from where no space is; tabs are kept so that the two stay aligned."""
    source = sources.get(span.file)
    if source is None:
        return
    line = "".join(c if c == "\t" or c.isprintable() else "·" for c in source.line(span.line))
    gutter = f"{span.line:>5} | "
    blank = len(line) - len(line[span.column - 1 :].lstrip())
    start = min(max(span.column - 1, blank), len(line))
    end = min(span.end_column - 1, len(line)) if span.end_line == span.line else len(line)
    indent = "".join("\t" if c == "\t" else " " for c in line[:start])
    yield [(gutter, _SIDE), (line, "")]
    yield [(" " * (len(gutter) - 2) + "| ", _SIDE), (indent, ""), ("^" * max(end - start, 1), style)]


def _coloured(pieces: list[_Piece]) -> str:
    from rich.console import Console  # takes a moment to load, and plain text has no need of it
    from rich.text import Text

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", highlight=False, soft_wrap=True)
    console.print(Text.assemble(*pieces, tab_size=8), end="")
    return out.getvalue()
