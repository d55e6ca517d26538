"""What a diagnostic is, how errors travel, and the one catalogue's entry type."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.syntax.span import Span


@dataclass(frozen=True)
class Entry:
    """A catalogue entry: the message (a format string over the diagnostic's fields), the rule behind it
    with its origin, and what the author can do."""

    message: str
    fixes: tuple[str, ...]
    rule: str = ""


@dataclass(frozen=True)
class Note:
    """A second place, such as "declared here"."""

    span: Span
    text: str


@dataclass(frozen=True)
class Diagnostic:
    """One fault: `code` is a member name of the catalogue; `span` None where no spec line is at fault."""

    code: str
    span: Span | None
    message: str
    got: str = ""
    wanted: str = ""
    notes: tuple[Note, ...] = ()
    fixes: tuple[str, ...] = ()
    rule: str = ""


@dataclass(eq=False)
class TilegenError(Exception):
    """The user's input is wrong or a check failed: one or more diagnostics, never an internal fault."""

    diagnostics: tuple[Diagnostic, ...] = field(default=())

    def __str__(self) -> str:
        return "\n".join(map(_in_short, self.diagnostics))


def _in_short(d: Diagnostic) -> str:
    """Place, code and message, then what was got and wanted and the ways out, a line each."""
    lines = [f"{d.span}: {d.code}: {d.message}" if d.span else f"{d.code}: {d.message}"]
    lines += [f"  {name}: {value}" for name, value in (("got", d.got), ("wanted", d.wanted)) if value]
    lines += [f"  fix: {fix}" for fix in d.fixes]
    return "\n".join(lines)
