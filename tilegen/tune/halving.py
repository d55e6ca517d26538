"""Successive halving: everybody is timed a little, the better half a little longer, and the last few in full.

In every round everybody runs once, in an order that changes from round to round, and is judged by how its times stand
to those of one of them in the same rounds, so that a clock that gives way slows down both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from tilegen.bench.report import Ratio, paired
from tilegen.bench.rounds import Sample, order

FINALISTS = 4
FINAL_ROUNDS = 5


@dataclass(frozen=True)
class Turn:
    """How long one turn is: milliseconds of warm-up, and of measurement."""

    warm_ms: float
    measure_ms: float


FIRST = Turn(10, 20)
FULL = Turn(80, 110)

Measure = Callable[[str, Turn], Sample]


class LostError(RuntimeError):
    """Somebody cannot be timed any more; the text says why."""


@dataclass
class Standing:
    """What was measured. samples: by name, in rounds · lost: why somebody is out of it for good · against: whose times
    the ratios are to · rounds: how many were whole · full: those of them whose turns were full."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    against: str = ""
    rounds: int = 0
    full: set[int] = field(default_factory=set)

    def ratio(self, name: str) -> Ratio | None:
        """How many times as fast somebody is as `against`, paired by rounds: full ones, for who was in any."""
        return paired(self.counting(name), self.samples.get(self.against, []))

    def counting(self, name: str) -> list[Sample]:
        """Somebody's samples of full rounds, or of all where it was in none."""
        samples = self.samples.get(name, [])
        return [s for s in samples if s.round in self.full] or samples

    def ranking(self) -> list[str]:
        """The fastest first, of those that lasted longest; who is lost is not in it."""

        def worth(name: str) -> tuple[int, float, str]:
            ratio = self.ratio(name)
            return -len(self.samples[name]), -ratio.median if ratio else 0.0, name

        return sorted((n for n in self.samples if n not in self.lost), key=worth)


def turns(count: int) -> list[tuple[Turn, bool]]:
    """The turns of each round for so many, and whether half of them leave after it: at first short ones, twice as long
    each time, and full ones for the finalists."""
    rounds: list[tuple[Turn, bool]] = []
    turn = FIRST
    while count > FINALISTS:
        rounds.append((turn, True))
        count = max(FINALISTS, ceil(count / 2))
        turn = Turn(min(2 * turn.warm_ms, FULL.warm_ms), min(2 * turn.measure_ms, FULL.measure_ms))
    return [*rounds, *((FULL, False) for _ in range(FINAL_ROUNDS))]


def halve(
    names: Sequence[str],
    against: str,
    measure: Measure,
    deadline: float,
    told: Callable[[int, int], object] = lambda done, rounds: None,
    now: Callable[[], float] = time.monotonic,
) -> Standing:
    """Find the fastest. `measure` times one of them and raises LostError for one that cannot be; `against`, the
    measure of all, stays to the end, and where it is lost the fastest takes its place. After `deadline` no round begins
    but the first. `told` hears how many rounds are done, of how many.
    """
    standing = Standing(against=against)
    staying = list(dict.fromkeys(names))
    rounds = turns(len(staying))
    for number, (turn, leaving) in enumerate(rounds):
        if number and now() > deadline:
            break
        for place in order(len(staying), number):
            _measured(staying[place], number, turn, measure, standing)
        staying = [n for n in staying if n not in standing.lost]
        if standing.against in standing.lost and staying:
            standing.against = min(staying, key=lambda n: standing.samples[n][-1].milliseconds)
        standing.rounds = number + 1
        if not leaving:
            standing.full.add(number)
        told(number + 1, len(rounds))
        if leaving:
            staying = _better_half(staying, standing)
    return standing


def _measured(name: str, number: int, turn: Turn, measure: Measure, standing: Standing) -> None:
    try:
        sample = measure(name, turn)
    except LostError as e:
        standing.lost[name] = str(e)
        return
    standing.samples.setdefault(name, []).append(replace(sample, round=number))


def _better_half(staying: list[str], standing: Standing) -> list[str]:
    keep = max(FINALISTS, ceil(len(staying) / 2))
    best = set([n for n in standing.ranking() if n in staying][:keep]) | {standing.against}
    return [n for n in staying if n in best]
