"""The order of turns, and rounds that fit a budget."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import pytest

from tilegen.bench.rounds import Cell, Sample, order, run_rounds


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7])
def test_everybody_follows_everybody_equally_often(count: int) -> None:
    rounds = max(1, count) if count % 2 == 0 else 2 * count
    rows = [order(count, number) for number in range(rounds)]
    assert all(sorted(row) == list(range(count)) for row in rows)
    pairs = Counter(pair for row in rows for pair in pairwise(row))
    assert len(pairs) == max(0, count * (count - 1))
    assert len(set(pairs.values())) <= 1


class Clock:
    """A measurement takes a second of it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.log: list[str] = []

    def measured(self, launch: object) -> Sample:
        self.seconds += 1
        self.log.append(str(launch))
        return Sample(self.seconds)


def cells(count: int, providers: int) -> list[Cell]:
    names = [chr(ord("a") + n) for n in range(providers)]
    return [
        Cell(SimpleNamespace(label=f"cell {n}"), launches={name: f"{n}{name}" for name in names})  # type: ignore[misc]
        for n in range(count)
    ]


def run(board: list[Cell], rounds: int, budget: float) -> tuple[int, Clock, list[int]]:
    clock, told = Clock(), []
    done = run_rounds(board, rounds, budget, clock.measured, told.append, lambda: clock.seconds)
    return done, clock, told


def test_a_round_visits_every_cell_and_everybody() -> None:
    board = cells(2, 3)
    done, clock, told = run(board, 2, 1000)
    assert (done, told) == (2, [1, 2])
    assert sorted(clock.log[:6]) == ["0a", "0b", "0c", "1a", "1b", "1c"]
    assert clock.log[:3] != clock.log[6:9]
    assert all(len(samples) == 2 for cell in board for samples in cell.samples.values())


@pytest.mark.parametrize(("budget", "rounds"), [(6, 1), (11.9, 1), (12, 2), (29, 4), (31, 5)])
def test_rounds_that_do_not_fit_are_dropped_from_all_cells(budget: float, rounds: int) -> None:
    board = cells(2, 3)
    done, clock, _ = run(board, 5, budget)
    assert done == rounds
    assert clock.seconds <= budget
    assert {len(samples) for cell in board for samples in cell.samples.values()} == {rounds}


def test_a_budget_too_small_for_one_round_stops_between_cells() -> None:
    board = cells(4, 3)
    done, _, told = run(board, 5, 4)
    assert (done, told) == (0, [])
    assert [sorted(cell.samples) for cell in board] == [["a", "b", "c"], ["a", "b", "c"], [], []]
