"""What a diagnostic is, and how errors travel."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.syntax.span import Span


@dataclass(frozen=True)
class Note:
    """A second place, such as "declared here"."""

    span: Span
    text: str


@dataclass(frozen=True)
class Diagnostic:
    """One fault: `code` is the name of a Code; `span` None where no spec line is at fault. internal: it is
    tilegen's, in what it made of `span`."""

    code: str
    span: Span | None
    message: str
    got: str = ""
    wanted: str = ""
    notes: tuple[Note, ...] = ()
    fixes: tuple[str, ...] = ()
    rule: str = ""
    internal: bool = False


@dataclass(eq=False)
class TilegenError(Exception):
    """The user's input is wrong or a check failed: one or more diagnostics. Any other exception is a fault that no
    check has found."""

    diagnostics: tuple[Diagnostic, ...] = field(default=())

    def __str__(self) -> str:
        return "\n".join(map(_in_short, self.diagnostics))


def _in_short(d: Diagnostic) -> str:
    """Place, code and message, then what was got and wanted and the ways out, a line each."""
    lines = [f"{d.span}: {d.code}: {d.message}" if d.span else f"{d.code}: {d.message}"]
    lines += [f"  {name}: {value}" for name, value in (("got", d.got), ("wanted", d.wanted)) if value]
    lines += [f"  fix: {fix}" for fix in d.fixes]
    return "\n".join(lines)
