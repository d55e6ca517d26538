"""The `gpu` fixture: kernels, and a process to run them in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gpu.harness import Harness


@pytest.fixture(scope="session")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    harness = Harness(tmp_path_factory.mktemp("kernels"))
    yield harness
    harness.close()
