"""Schedules as a spec writes them, and specs with a schedule put in front of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tilegen.ir import schedule as say
from tilegen.ir.schedule import Directive
from tilegen.ir.tile_text import directive_text
from tilegen.syntax import ast
from tilegen.syntax.parsing import parse
from tilegen.syntax.span import Source

# Lines of a schedule, in order: directives that stand on one line.
_LINES: tuple[tuple[type, ...], ...] = (
    (say.Role,),
    (say.Block,),
    (say.Consumers, say.Registers),
    (say.Stages,),
    (say.Via, say.Alias, say.Hint, say.Oob, say.Multicast, say.Place),
    (say.Late, say.Ahead, say.Batch, say.Issue, say.Under),
    (say.TakeTurns,),
    (say.StaleMax,),
    (say.Walk, say.Option),
    (say.Persistent, say.Order, say.Group, say.SplitReduction),
    (say.Outputs,),
)
_LISTS = ("block", "stages", "via", "hint", "oob", "multicast", "place")  # keywords that take several items


def lines(directives: Iterable[Directive]) -> list[str]:
    """The lines of a schedule's body."""
    given = list(directives)
    rows = ([d for d in given if isinstance(d, kinds)] for kinds in _LINES)
    return ["  ".join(_joined(directive_text(d) for d in row)) for row in rows if row]


def listed(directives: Iterable[Directive]) -> str:
    """A schedule's body on one line."""
    return "  ".join(lines(directives))


def _joined(texts: Iterable[str]) -> list[str]:
    """`block i 64`, `block j 32` as `block i 64, j 32`."""
    out: list[str] = []
    for text in texts:
        keyword, _, item = text.partition(" ")
        if keyword in _LISTS and out and out[-1].startswith(keyword + " "):
            out[-1] += f", {item}"
        else:
            out.append(text)
    return out


def schedule_text(directives: Iterable[Directive], target: str, condition: str) -> str:
    """A `schedule` statement, ready to paste into a spec."""
    head = f"  schedule {target} if {condition} {{" if condition else f"  schedule {target} {{"
    return "\n".join([head, *(f"    {line}" for line in lines(directives)), "  }"])


def place_for_schedule(source: Source, target: str) -> int:
    """Where in a spec's text a schedule stands in front of all others for the target. Raises TilegenError."""
    kernel = parse(source)
    spans = [s.span for s in kernel.statements if isinstance(s, ast.ScheduleDecl) and s.target.name == target]
    if spans:
        return _offset(source.text, spans[0].line, spans[0].column)
    return _offset(source.text, kernel.span.end_line, kernel.span.end_column) - 1


def _offset(text: str, line: int, column: int) -> int:
    before: Sequence[str] = text.splitlines(keepends=True)[: line - 1]
    return sum(map(len, before)) + column - 1


def with_schedule(source: Source, directives: str, target: str = "hopper", place: int | None = None) -> Source:
    """The spec with this schedule in front of its own: the first that holds is taken. Every line keeps its number.

    `place`: what `place_for_schedule` says, where it is known. Raises TilegenError for a spec that cannot be read.
    """
    at = place_for_schedule(source, target) if place is None else place
    body = " ".join(re.sub(r"#[^\n]*", "", directives).split())
    return in_front(source, at, [(body, "")], target)


def in_front(source: Source, place: int, schedules: Iterable[tuple[str, str]], target: str = "hopper") -> Source:
    """The spec with schedules put in at a place: directives on one line, and a condition or nothing, of each."""
    added = "".join(
        # `true`, of which the passes know nothing, keeps the own ones from being told to be for nothing
        f"schedule {target} if true{f' and {condition}' if condition else ''} {{ {body} }} "
        for body, condition in schedules
    )
    return Source(source.name, source.text[:place] + added + source.text[place:])
