"""The record of a suite: what was run, on what, by which command, and what came of it. Complete by itself."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.suites.pool import Pool
from tilegen.bench import machine

_TURN = 5.0  # seconds between writes while a suite runs


def common(command: argparse.ArgumentParser) -> None:
    """The arguments that every suite has."""
    command.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes")
    command.add_argument("--seconds", type=float, default=0.0, metavar="S", help="stop when they are over")
    command.add_argument("-o", "--output", type=Path, metavar="FILE.md", help="write the record there")


class Record:
    """Written to a file while a suite runs, so that what is there holds when it is stopped in whatever way."""

    def __init__(self, title: str, what: str, pool: Pool, output: Path | None, *, gpu: bool = False) -> None:
        """what: is run, in the plural. gpu: on one, too."""
        facts = {**(machine.facts() if gpu else {}), **machine.host_facts(), "command": f"`{_command(output)}`"}
        self._head = [f"# {title}", "", *(f"- {name}: {value}" for name, value in facts.items())]
        self._what, self._pool, self._output = what, pool, output
        self._written = time.monotonic()

    def update(self, body: Callable[[], str], ran: int, wanted: int) -> None:
        """Write what there is, if the last time is long enough ago."""
        if self._output and time.monotonic() - self._written > _TURN:
            self._output.write_text(self._text(body(), ran, wanted, "it is still running"), encoding="utf-8")
            self._written = time.monotonic()

    def finish(self, body: str, ran: int, wanted: int) -> None:
        """Write and print it."""
        text = self._text(body, ran, wanted, "")
        if self._output:
            self._output.write_text(text, encoding="utf-8")
        print(text)

    def _text(self, body: str, ran: int, wanted: int, running: str) -> str:
        cut = self._pool.cut or running
        share = f"all {wanted} {self._what}" if ran == wanted else f"{ran} of {wanted} {self._what}"
        took = f"{self._pool.spent:.0f} s in {self._pool.jobs} processes; {f'cut ({cut}): ' if cut else ''}{share}"
        return "\n".join([*self._head, f"- time: {took}", "", body.strip("\n"), ""])


def _command(output: Path | None) -> str:
    """As given, without the folder that the record is written to."""
    words = (output.name if output and Path(word) == output else word for word in sys.argv[1:])
    return shlex.join(["python", os.path.relpath(sys.argv[0]), *words])
