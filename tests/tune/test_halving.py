"""Successive halving by a clock of the test's own."""

from __future__ import annotations

import pytest

from tilegen.bench.rounds import Sample
from tilegen.tune.halving import FINAL_ROUNDS, FINALISTS, FULL, LostError, Standing, Turn, halve, turns

NAMES = [f"n{n}" for n in range(16)]  # n0 is the own one


class Timer:
    """Schedule n takes 100 - n milliseconds by a clock that drifts by tenths from round to round; a turn takes its
    length."""

    def __init__(self, lost: dict[str, int] | None = None) -> None:
        self.seconds, self.log, self.lost = 0.0, [], lost or {}
        self.turns: dict[str, list[Turn]] = {}
        self.log: list[str] = []

    def measure(self, name: str, turn: Turn) -> Sample:
        done = self.turns.setdefault(name, [])
        if len(done) == self.lost.get(name, -1):
            raise LostError("hangs: for ever")
        done.append(turn)
        self.log.append(name)
        self.seconds += (turn.warm_ms + turn.measure_ms) / 1e3
        return Sample((100.0 - int(name[1:])) * (1 + len(done) / 10))

    def halve(self, deadline: float = 1e9, names: list[str] | None = None) -> Standing:
        return halve(names or NAMES, "n0", self.measure, deadline, now=lambda: self.seconds)


def test_the_fastest_is_found_and_the_own_one_stays_to_the_end() -> None:
    timer = Timer()
    standing = timer.halve()
    assert standing.ranking()[:FINALISTS] == ["n15", "n14", "n13", "n12"]
    rounds = len(turns(len(NAMES)))
    assert standing.rounds == len(timer.turns["n0"]) == len(timer.turns["n15"]) == rounds
    assert {len(timer.turns[n]) for n in ("n1", "n2", "n7")} == {1}
    ratio = standing.ratio("n15")
    assert ratio is not None
    assert ratio.median == pytest.approx(100 / 85)
    assert timer.turns["n15"][-FINAL_ROUNDS:] == [FULL] * FINAL_ROUNDS
    assert standing.full == set(range(rounds - FINAL_ROUNDS, rounds))


def test_who_is_left_out_early_costs_little() -> None:
    timer = Timer()
    timer.halve()
    lengths = [turn.measure_ms for turn in timer.turns["n15"]]
    assert lengths == sorted(lengths)
    assert sum(len(t) for t in timer.turns.values()) < len(NAMES) * len(lengths) / 2


def test_the_order_changes_from_round_to_round() -> None:
    timer = Timer()
    standing = timer.halve(names=NAMES[:4])
    rounds = [tuple(timer.log[n : n + 4]) for n in range(0, len(timer.log), 4)]
    assert len(rounds) == FINAL_ROUNDS
    assert standing.full == set(range(FINAL_ROUNDS))
    assert len(set(rounds)) > 2


def test_somebody_who_is_lost_is_out_and_the_others_go_on() -> None:
    standing = Timer({"n15": 2, "n3": 0}).halve()
    assert standing.lost == {"n15": "hangs: for ever", "n3": "hangs: for ever"}
    assert standing.ranking()[0] == "n14"
    assert not {"n15", "n3"} & set(standing.ranking())


def test_where_the_own_one_is_lost_the_fastest_is_the_measure() -> None:
    standing = Timer({"n0": 0}).halve()
    assert standing.against == "n15"
    assert standing.ranking()[0] == "n15"


def test_no_round_but_the_first_begins_after_the_deadline() -> None:
    timer = Timer()
    standing = timer.halve(deadline=0.0)
    assert standing.rounds == 1
    assert len(standing.ranking()) == len(NAMES)
    assert not standing.full
    standing = Timer().halve(deadline=1.2)
    assert 1 < standing.rounds < len(turns(len(NAMES)))
    assert standing.ranking()[0] == "n15"


def test_nobody_at_all_is_no_winner() -> None:
    standing = Timer(dict.fromkeys(NAMES, 0)).halve()
    assert standing.ranking() == []
    assert len(standing.lost) == len(NAMES)
