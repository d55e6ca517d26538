"""How faults leave the command line: rendered on stderr, with an exit code, never as a traceback."""

from __future__ import annotations

from pathlib import Path

import click

from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.syntax.span import Source

CHECK_FAILED, WRONG_USAGE = 1, 2
# What is wrong with the command line rather than with the spec.
_USAGE = frozenset(
    code.name
    for code in (
        Code.BAD_USAGE,
        Code.CACHE_UNREADABLE,
        Code.CANNOT_WRITE,
        Code.FILE_IS_FOLDER,
        Code.FILE_MISSING,
        Code.FILE_UNREADABLE,
        Code.PARAMETER_MISSING,
        Code.PARAMETER_VALUE,
        Code.TARGET_UNSUPPORTED,
        Code.UNKNOWN_PARAMETER,
    )
)


class Commands(click.Group):
    """A group whose commands may raise TilegenError."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except TilegenError as error:
            click.echo(show(error.diagnostics), err=True)
            ctx.exit(WRONG_USAGE if all(d.code in _USAGE for d in error.diagnostics) else CHECK_FAILED)


def show(diagnostics: tuple[Diagnostic, ...]) -> str:
    """The diagnostics in words, each with the line of the spec it is about."""
    from tilegen.cli.console import stderr_has_colour
    from tilegen.diagnostics.render import render

    return render(diagnostics, _sources(diagnostics), colour=stderr_has_colour())


def _sources(diagnostics: tuple[Diagnostic, ...]) -> dict[str, Source]:
    spans = [d.span for d in diagnostics] + [note.span for d in diagnostics for note in d.notes]
    found = {}
    for name in {span.file for span in spans if span is not None}:
        try:
            found[name] = Source(name, Path(name).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue  # a spec compiled from a string has no file to quote
    return found
