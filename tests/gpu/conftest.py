"""The `gpu` fixture: kernels, and a process to run them in. What the run measured, told at its end and in a record."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import record
from tests.gpu.harness import Harness, Measured

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # jax would take most of the memory for good

MEASURED = pytest.StashKey[Measured]()


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    harness = Harness(tmp_path_factory.mktemp("kernels"))
    request.config.stash[MEASURED] = harness.measured
    yield harness
    harness.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    measured = config.stash.get(MEASURED, Measured()).lines()
    if measured:
        terminalreporter.section("measured on the GPU")
    for line in measured:
        terminalreporter.write_line(line)
    path: Path | None = config.getoption("--gpu-record")
    if path is not None and not hasattr(config, "workeroutput"):  # of all, not of one of several processes
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(record.markdown(terminalreporter.stats, record.machine(), measured), encoding="utf-8")
        terminalreporter.write_line(f"the record of this run is in {path}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Of one of several processes that share out the files (`-n 4 --dist loadfile`): to be told to the first."""
    config: Any = session.config
    if hasattr(config, "workeroutput"):
        measured = config.stash.get(MEASURED, Measured())
        config.workeroutput["measured"] = {**vars(measured), "counts": dict(measured.counts)}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told = getattr(node, "workeroutput", {}).get("measured")
    if told:
        node.config.stash.setdefault(MEASURED, Measured()).add(
            Measured(told["notes"], told["worst"], Counter(told["counts"]))
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing interrupts a call that waits for the GPU: a test that takes too long ends the process, saying where."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(120, method="thread"))
