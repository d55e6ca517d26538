"""Collects the errors of one file, so that one run reports all of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, Note, TilegenError
from tilegen.syntax.span import Span


class Faults:
    """The errors found so far."""

    def __init__(self) -> None:
        self._found: list[Diagnostic] = []

    @property
    def count(self) -> int:
        return len(self._found)

    def add(
        self,
        code: Code,
        span: Span,
        *,
        got: str = "",
        wanted: str = "",
        notes: tuple[Note, ...] = (),
        **fields: object,
    ) -> None:
        self._found.append(fault(code, span, got=got, wanted=wanted, notes=notes, **fields))

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Takes over what the block raises, so that the next statement is looked at too."""
        try:
            yield
        except TilegenError as error:
            self._found.extend(error.diagnostics)

    def raise_any(self) -> None:
        """Raises TilegenError if there are errors, in the order of the file, each once."""
        if self._found:
            unique = list(dict.fromkeys(self._found))
            unique.sort(key=lambda d: (d.span.line, d.span.column) if d.span else (0, 0))
            raise TilegenError(tuple(unique))


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is most likely a misspelling of, if any is near."""
    names = sorted(set(known))
    same_letters = [n for n in names if n.lower() == name.lower()]
    close = same_letters or difflib.get_close_matches(name, names, 1, 0.5)
    return close[0] if close else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """`did you mean …?` where a known name is close, else the known names themselves if they are few."""
    names = sorted(set(known))
    close = closest(name, names)
    if close is not None:
        return f"did you mean `{close}`?"
    return "one of " + ", ".join(f"`{n}`" for n in names) if 0 < len(names) <= 12 else ""
