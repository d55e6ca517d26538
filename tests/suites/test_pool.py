"""Suites in processes: what some do not live through costs no other's result."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.suites.pool import Pool, Task
from tests.suites.record import Record
from tests.suites.tasks import die, divide, double, place, sleep


def test_each_task_comes_to_its_end() -> None:
    tasks = [Task("a", double, n) for n in range(5)]
    tasks += [
        Task("b", die, 7),
        Task("b", divide, 1),
        Task("b", sleep, 60.0),
        Task("b", double, 21),
        Task("b", double, lambda: 0),
    ]
    with Pool(2) as pool:
        done = list(pool.each(tasks, limit=3.0))
    assert sorted(d.value for d in done if d.task.function is double and not d.failure) == [0, 2, 4, 6, 8, 42]
    failures = {d.task.function: d.failure for d in done if d.failure}
    assert "exit code 7" in failures.pop(die)
    assert failures.pop(divide).startswith("ZeroDivisionError")
    assert "no answer within 3 s" in failures.pop(sleep)
    assert "pickle" in failures.pop(double)
    assert not failures
    assert not pool.cut


def test_a_process_stays_with_a_group_and_with_what_comes_of_it() -> None:
    order = []
    with Pool(1) as pool:
        for done in pool.each([Task(name, place, name) for name in "abab"], limit=10.0):
            name, threads = done.value
            order.append(name)
            assert threads == "1"
            if order.count(name) == 1 and name in "ab":
                pool.add([Task(done.task.group, place, name + "'") for _ in range(2)])
    assert order == ["a", "a", "a'", "a'", "b", "b", "b'", "b'"]


def test_groups_share_the_time_that_there_is() -> None:
    """One process, and in the time of all of the first group's tasks it would come to no other."""
    with Pool(1, seconds=3.0) as pool:
        done = list(pool.each([Task(name, sleep, 0.1) for name in "abc" for _ in range(100)], limit=10.0))
    assert {d.task.group for d in done} == set("abc")
    assert 3 <= len(done) < 30
    assert pool.cut == "3 s were over"


def test_what_is_under_way_is_ended_with_the_time() -> None:
    begun = time.monotonic()
    with Pool(2, seconds=2.0) as pool:
        done = list(pool.each([Task("a", double, 1), Task("a", sleep, 60.0), Task("b", sleep, 60.0)], limit=100.0))
    assert [d.value for d in done] == [2]
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_suite_and_keeps_its_results(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Pool(1) as pool:
        done = []
        for one in pool.each([Task("", double, 4), Task("", sleep, 60.0)], limit=100.0):
            done.append(one.value)
            os.kill(os.getpid(), number)
    assert done == [8]
    assert pool.cut == f"stopped by {number.name}"
    assert signal.getsignal(number) == before


def test_a_record_is_complete_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEGEN_REVISION", "abc123")
    monkeypatch.setattr(sys, "argv", ["tools/some.py", "--each", "3", "-o", str(tmp_path / "a record.md")])
    with Pool(3, seconds=5.0) as pool:
        record = Record("Faults", "mutants", pool, tmp_path / "a record.md")
        record.finish("| kind |\n", 2, 2)
        whole = (tmp_path / "a record.md").read_text(encoding="utf-8")
        pool.cut = "5 s were over"
        record.finish("| kind |\n", 1, 2)
        cut = (tmp_path / "a record.md").read_text(encoding="utf-8")
    assert whole.startswith("# Faults\n\n- date: ")
    assert "\n- revision: abc123\n- command: `python tools/some.py --each 3 -o 'a record.md'`\n- time: 0 s" in whole
    assert whole.endswith(" s in 3 processes; all 2 mutants\n\n| kind |\n")
    assert cut.endswith(" s in 3 processes; cut (5 s were over): 1 of 2 mutants\n\n| kind |\n")
