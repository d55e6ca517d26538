"""The `gpu` fixture: kernels, and a process to run them in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu.harness import Harness

_HARNESS = pytest.StashKey[Harness]()


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    harness = Harness(tmp_path_factory.mktemp("kernels"))
    request.config.stash[_HARNESS] = harness
    yield harness
    harness.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    harness = config.stash.get(_HARNESS, None)
    if harness is None:
        return
    terminalreporter.section("measured on the GPU")
    for line in harness.measured():
        terminalreporter.write_line(line)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing interrupts a call that waits for the GPU: a test that takes too long ends the process, saying where."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(120, method="thread"))
