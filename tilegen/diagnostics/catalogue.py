"""The catalogue of diagnostics. A code's name is stable; its entry says it in the author's words.

Use `fault(Code.X, span, field=…)` to make a Diagnostic and `fail(...)` to raise one at once.
"""

from __future__ import annotations

from typing import NoReturn

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.core import Diagnostic, Note, TilegenError
from tilegen.syntax.span import Span

__all__ = ["Code", "fail", "fault"]


def fault(
    code: Code,
    span: Span | None,
    *,
    got: str = "",
    wanted: str = "",
    notes: tuple[Note, ...] = (),
    **fields: object,
) -> Diagnostic:
    """A diagnostic with the entry's message and fixes filled in from `fields`. A fix that is empty then is none."""
    from tilegen.diagnostics.entries import ENTRIES  # which nothing waits for where all is well

    entry = ENTRIES[code]
    return Diagnostic(
        code=code.name,
        span=span,
        message=entry.message.format(**fields),
        got=got,
        wanted=wanted,
        notes=notes,
        fixes=tuple(filter(None, (f.format(**fields) for f in entry.fixes))),
        rule=entry.rule,
        internal=entry.internal,
    )


def fail(
    code: Code,
    span: Span | None,
    *,
    got: str = "",
    wanted: str = "",
    notes: tuple[Note, ...] = (),
    **fields: object,
) -> NoReturn:
    """Raise a TilegenError holding this one diagnostic."""
    raise TilegenError((fault(code, span, got=got, wanted=wanted, notes=notes, **fields),))
