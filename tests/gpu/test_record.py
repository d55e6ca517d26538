"""The record of a GPU run, made from reports as pytest makes them. No GPU is needed."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.gpu import conftest, record
from tests.gpu.harness import Measured
from tilegen.bench.gpu_worker import CallFailedError, GpuWorker


def report(test: str, duration: float, longrepr: object = None) -> SimpleNamespace:
    return SimpleNamespace(nodeid=test, duration=duration, longrepr=longrepr)


STATS = {
    "": [report("tests/gpu/test_a.py::test_one", 4.0), report("tests/gpu/test_b.py::test_three", 0.25)],
    "passed": [report("tests/gpu/test_a.py::test_one", 1.0), report("tests/gpu/test_b.py::test_three", 0.5)],
    "failed": [report("tests/gpu/test_a.py::test_two[x]", 2.0)],
    "skipped": [report("tests/gpu/test_b.py::test_four", 0.0, ("test_b.py", 3, "Skipped: no cupy"))],
    "warnings": [object()],
}


def test_the_record_counts_by_file_and_tells_what_did_not_pass() -> None:
    text = record.markdown(STATS, {"gpu": "NVIDIA H200", "driver": "580"}, ["lg2: error up to 2.3e-07"])
    lines = text.splitlines()
    assert lines[2:4] == ["- gpu: NVIDIA H200", "- driver: 580"]
    assert "| tests/gpu/test_a.py | 1 | 1 | 0 | 0 | 0 | 0 | 7.0 |" in lines
    assert "| tests/gpu/test_b.py | 1 | 0 | 0 | 1 | 0 | 0 | 0.8 |" in lines
    assert "| all | 2 | 1 | 0 | 1 | 0 | 0 | 7.8 |" in lines
    assert "- failed: tests/gpu/test_a.py::test_two[x]" in lines
    assert "- 1: no cupy" in lines
    slowest = lines[lines.index("## Slowest") + 2 :]
    assert slowest[0] == "- 5.0 s: tests/gpu/test_a.py::test_one"
    assert lines[-1] == "- lg2: error up to 2.3e-07"


def test_a_run_without_measurements_has_no_empty_sections() -> None:
    text = record.markdown({"passed": STATS["passed"]}, {}, [])
    assert "## Not passed" not in text
    assert "## Measured" not in text


def test_a_machine_that_cannot_be_asked_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(self: GpuWorker, function: str) -> object:
        raise CallFailedError("Traceback\n  somewhere\nModuleNotFoundError: No module named 'torch'\n")

    monkeypatch.setattr(GpuWorker, "call", call)
    assert record.machine() == {"machine": "not known: ModuleNotFoundError: No module named 'torch'"}


def test_what_processes_measured_comes_together() -> None:
    """As each tells it at its end, in what pytest-xdist can send; one that ran no test on a GPU tells nothing."""
    config = SimpleNamespace(stash=pytest.Stash())
    for error in (2e-3, 3e-3):
        measured = Measured(["a note"], {"O": error}, Counter(rows=4))
        process: Any = SimpleNamespace(config=SimpleNamespace(stash=pytest.Stash(), workeroutput={}))
        process.config.stash[conftest.MEASURED] = measured
        conftest.pytest_sessionfinish(process)
        conftest.pytest_testnodedown(SimpleNamespace(config=config, workeroutput=process.config.workeroutput))
    conftest.pytest_testnodedown(SimpleNamespace(config=config, workeroutput={}))
    lines = config.stash[conftest.MEASURED].lines()
    assert lines == ["a note", "a note", "largest error of O: 3.00e-03", "rows: 8"]
