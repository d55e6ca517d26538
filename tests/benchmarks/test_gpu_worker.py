"""Calls in a process that may die."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.builds import ROOT
from tilegen.bench.gpu_worker import CallFailedError, GpuWorker, WorkerDiedError

HERE = "tests.benchmarks.remote"


@pytest.fixture(scope="module")
def worker() -> Iterator[GpuWorker]:
    it = GpuWorker()
    yield it
    it.close()


def test_values_come_back_from_one_process(worker: GpuWorker) -> None:
    assert worker.call(f"{HERE}:double", 21) == 42
    there = worker.call(f"{HERE}:pid")
    assert there != os.getpid()
    assert worker.call(f"{HERE}:pid") == there


def test_what_is_raised_is_told_and_the_process_lives(worker: GpuWorker) -> None:
    there = worker.call(f"{HERE}:pid")
    with pytest.raises(CallFailedError, match="ZeroDivisionError"):
        worker.call(f"{HERE}:divide", 1)
    with pytest.raises(CallFailedError, match=r"^3 is not 4$"):
        worker.call(f"{HERE}:disagree")
    with pytest.raises(CallFailedError, match="nothing"):
        worker.call(f"{HERE}:nothing")
    assert worker.call(f"{HERE}:pid") == there


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("hang",), "did not finish within 5 s: it hangs"),
        (("sleep", 60.0), "no answer within 0.5 s"),
        (("crash",), "exit code 7"),
    ],
)
def test_a_dead_process_is_replaced(worker: GpuWorker, call: tuple[str, ...], words: str) -> None:
    there = worker.call(f"{HERE}:pid")
    with pytest.raises(WorkerDiedError, match=words):
        worker.call(f"{HERE}:{call[0]}", *call[1:], limit=0.5 if call[0] == "sleep" else 30)
    assert worker.call(f"{HERE}:pid") not in (there, os.getpid())


def test_the_watchdog_ends_a_process_that_is_stuck() -> None:
    program = """
import time
from tilegen.bench.watchdog import watchdog
with watchdog("quick", 30):
    print("done", flush=True)
with watchdog("cuDNN on a cell", 0.2):
    time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=50)
    assert (done.returncode, done.stdout) == (3, "done\n")
    assert "cuDNN on a cell: nothing came back from the GPU within 0.2 s" in done.stderr
