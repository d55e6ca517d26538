"""The `gpu` fixture: kernels, and a process to run them in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gpu.harness import Harness

_NOTES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    harness = Harness(tmp_path_factory.mktemp("kernels"))
    request.config.stash[_NOTES] = harness.notes
    yield harness
    harness.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    notes = config.stash.get(_NOTES, [])
    if notes:
        terminalreporter.section("measured on the GPU")
        for note in notes:
            terminalreporter.write_line(note)
