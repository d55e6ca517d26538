"""How faults leave the command line: rendered on stderr, with an exit code, never as a traceback."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Any

import click

from tilegen.cli.output import CannotPrintError, watched_stdout
from tilegen.diagnostics.catalogue import Code, fault
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
        # arrays are made by the sizes that are given
        Code.ARRAY_ALIGNMENT,
        Code.INTEGER_RANGE,
        Code.MLS_LINES,
        Code.NO_VARIANT,
        Code.NOT_BOXED,
        Code.TMA_STORE_ROWS,
        Code.TMA_STRIDE_ALIGNMENT,
        # scalars are given by --size alone
        Code.SCALAR_CONSTRAINT,
        Code.SCALAR_MISSING,
        Code.SCALAR_VALUE,
        Code.SIZES_TOO_LARGE,
        Code.TARGET_UNSUPPORTED,
        Code.UNKNOWN_PARAMETER,
    )
)


# Allocations between two collections: a command's process ends soon, and most of what it makes lives until then.
_COLLECT = (20_000, 20, 20)


class Commands(click.Group):
    """A group whose commands may raise TilegenError, and that says so where stdout takes nothing."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        gc.set_threshold(*_COLLECT)
        try:
            with watched_stdout():
                return super().main(*arguments, **options)
        except CannotPrintError as error:
            reason = error.strerror or str(error)
            click.echo(show((fault(Code.CANNOT_PRINT, None, reason=reason),)).splitlines()[0], err=True)
            _drop_stdout()
            sys.exit(CHECK_FAILED)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except TilegenError as error:
            click.echo(show(error.diagnostics), err=True)
            ctx.exit(WRONG_USAGE if all(d.code in _USAGE for d in error.diagnostics) else CHECK_FAILED)


def _drop_stdout() -> None:
    """Send what stdout still holds nowhere: Python would try to write it once more at its end."""
    if sys.stdout is None:
        return
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no file stands behind it
        return


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
