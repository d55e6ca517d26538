"""How a search goes on: a bar a stage on a terminal, a line a stage elsewhere, with counts of what became of it."""

from __future__ import annotations

import sys
import time
from collections import Counter
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_SHOWN = 5  # outcomes on the bar, the most frequent ones


class Board:
    """Goes to stderr, so that stdout holds results alone."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._steps = 0
        self._name = ""
        self._began = time.monotonic()
        self._task: TaskID | None = None
        console = Console(file=sys.stderr)
        self._live = console.is_terminal
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[told]}", markup=False, style="dim"),
            console=console,
            disable=not self._live,
        )

    def __enter__(self) -> Board:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._bars.stop()

    def stage(self, name: str, steps: int | None) -> None:
        """A stage begins; one that is under way gets to know its steps."""
        if name == self._name and self._task is not None:
            self._bars.update(self._task, total=steps, completed=self._steps)
            return
        self._end()
        self._name, self._steps, self._began = name, 0, time.monotonic()
        self._counts.clear()
        self._task = self._bars.add_task(name, total=steps, told="")

    def step(self, outcome: str) -> None:
        """Something is done; `outcome` is why it is out, or nothing."""
        self._steps += 1
        if outcome:
            self._counts[outcome] += 1
        if self._task is not None:
            self._bars.update(self._task, completed=self._steps, told=self._told())

    def _told(self) -> str:
        return ", ".join(f"{outcome} {count}" for outcome, count in self._counts.most_common(_SHOWN))

    def _end(self) -> None:
        if self._task is None:
            return
        self._bars.update(self._task, total=self._steps)
        if not self._live:
            out = f"; out: {self._told()}" if self._counts else ""
            seconds = time.monotonic() - self._began
            print(f"{self._name}: {self._steps} in {seconds:.1f} s{out}", file=sys.stderr)
        self._task = None
