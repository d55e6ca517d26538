"""Where the commands print: results to stdout, faults to stderr, colour only on a terminal."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tilegen.cli.output import CannotPrintError

_WIDTH = 10_000  # no line is wrapped or cut: a terminal wraps what is wider, and shows all of it


def stdout() -> Console:
    """A console on the present stdout. Raises CannotPrintError where the process was started without one."""
    if sys.stdout is None:  # its descriptor was closed
        raise CannotPrintError(errno.EBADF, os.strerror(errno.EBADF))
    return Console(file=sys.stdout, width=_WIDTH, highlight=False)


def stderr_has_colour() -> bool:
    return Console(file=sys.stderr).color_system is not None


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A plain table: columns of numbers to the right, others to the left."""
    made = Table(box=None, pad_edge=False)
    for column, name in enumerate(header):
        numbers = bool(rows) and all(_is_number(row[column]) for row in rows)
        made.add_column(name, justify="right" if numbers else "left", header_style="dim", no_wrap=numbers)
    for row in rows:
        made.add_row(*(Text(str(cell)) for cell in row))
    return made


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float) or str(cell) == ""
