"""Wrong usage of a command, said with the command whose help tells what it takes."""

from __future__ import annotations

from typing import NoReturn

import click

from tilegen.diagnostics.catalogue import Code, fail


def wrong_usage(what: str, *, got: str = "", wanted: str = "") -> NoReturn:
    """Fail with BAD_USAGE, pointing at the help of the command that is being called."""
    context = click.get_current_context(silent=True)
    command = f"tilegen {context.info_name}" if context is not None and context.parent is not None else "tilegen"
    fail(Code.BAD_USAGE, None, got=got, wanted=wanted, what=what, command=command)


def no_defect(defect: str | None) -> None:
    """Fail with BAD_USAGE where a defect is asked for of a machine that has none."""
    if defect is not None:
        wrong_usage("--defect is of the target mls", got=f"--defect {defect}", wanted="--target mls with it")
