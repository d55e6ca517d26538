"""What a diagnostic is, how errors travel, and the one catalogue's entry type."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.diagnostics.codes import Code
from tilegen.syntax.span import Span

# What the author can do where tilegen's own checks refuse what tilegen made of a spec.
REPORT = "this is a fault of tilegen, not of the spec, and nothing was built: report it with the spec"


@dataclass(frozen=True)
class Entry:
    """A catalogue entry: the message (a format string over the diagnostic's fields), the rule behind it
    with its origin, and what the author can do."""

    code: Code
    message: str
    fixes: tuple[str, ...]
    rule: str = ""

    @property
    def internal(self) -> bool:
        """Whether tilegen is at fault, not its input: the message then speaks of the plan or kernel that it made, at
        the statement of the spec that this part of it stems from."""
        return REPORT in self.fixes


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
