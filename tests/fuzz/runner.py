"""Runs cases of a fuzzed kind and sorts what comes of them: a diagnostic or success is fine, all else is a finding."""

from __future__ import annotations

import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tilegen.diagnostics.core import TilegenError

_ROOT = f"{Path(__file__).resolve().parents[2]}/"
LIMIT = 10.0  # seconds of the processor that a case may take


class TookTooLongError(BaseException):
    """A case is not done in time. No Exception, so that nothing that is fuzzed takes it for one of its own."""


@dataclass(frozen=True)
class Case:
    """Something fuzzed: what it was made from, and the text."""

    origin: str
    text: str


@dataclass(frozen=True)
class Suite:
    """A kind of input. make: a case at random · run: through the code, to the word for what it became; raises
    TilegenError. trusted: a diagnostic that blames tilegen is a finding too."""

    name: str
    make: Callable[[random.Random], Case]
    run: Callable[[Case], str]
    trusted: bool


@dataclass(frozen=True)
class Finding:
    """A case that came to no good end, by the seed that makes it again."""

    seed: str
    origin: str
    what: str
    text: str


@dataclass
class Tally:
    """Outcomes by name, what was found, and the longest time of the processor, with its seed."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    seconds: float = 0.0

    def add(self, part: Tally) -> None:
        """Enter what came of other cases."""
        self.outcomes += part.outcomes
        self.findings += part.findings
        self.slowest = max(self.slowest, part.slowest)
        self.seconds += part.seconds


def fuzz(suite: Suite, seeds: Iterable[str]) -> Tally:
    """Make and run a case a seed."""
    tally = Tally()
    begun = time.perf_counter()
    for seed in seeds:
        one(suite, seed, tally)
    tally.seconds = time.perf_counter() - begun
    return tally


def one(suite: Suite, seed: str, tally: Tally) -> None:
    """Run the case of a seed and enter what came of it."""
    case = suite.make(random.Random(f"{suite.name} {seed}"))
    started = time.process_time()
    try:
        with within(LIMIT):
            outcome = suite.run(case)
    except TilegenError as error:
        outcome = error.diagnostics[0].code
        if suite.trusted and blames(error):
            tally.findings.append(Finding(seed, case.origin, str(error), case.text))
    except TookTooLongError:
        outcome = f"over {LIMIT:.0f} s"
        tally.findings.append(Finding(seed, case.origin, outcome, case.text))
    except Exception:
        outcome = "traceback"
        tally.findings.append(Finding(seed, case.origin, traceback.format_exc().replace(_ROOT, ""), case.text))
    tally.outcomes[outcome] += 1
    tally.slowest = max(tally.slowest, (time.process_time() - started, seed))


def blames(error: TilegenError) -> bool:
    """Whether a diagnostic says that tilegen itself is at fault: an answer to a damaged plan, a finding for a spec."""
    return any(d.internal for d in error.diagnostics)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises TookTooLongError inside, where that takes the processor longer. In the main thread only."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TookTooLongError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
