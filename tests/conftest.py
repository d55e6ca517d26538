"""Pytest options shared by every test: the `gpu` mark, golden files with `--update-golden`, and `--gpu-record`."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        default=False,
        help="rewrite the files under tests/golden with what the tests produce now",
    )
    parser.addoption(
        "--gpu-record",
        type=Path,
        metavar="FILE",
        help="write a record of this run of tests/gpu: machine, versions, counts, times, measurements (Markdown)",
    )


def gpu_present() -> bool:
    """Whether a CUDA driver is here and sees at least one device of compute capability 9.0."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    if driver.cuInit(0) != 0:
        return False
    count = ctypes.c_int(0)
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return False
    device, major = ctypes.c_int(0), ctypes.c_int(0)
    compute_capability_major = 75  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDeviceGetAttribute(ctypes.byref(major), compute_capability_major, device)
    return major.value == 9


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not gpu_present():
        skip = pytest.mark.skip(reason="needs a Hopper GPU")
        for item in marked:
            item.add_marker(skip)


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep out of the user's cache, and compile each kernel once a run. A TILEGEN_CACHE that is set is used."""
    with pytest.MonkeyPatch.context() as patch:
        if not os.environ.get("TILEGEN_CACHE"):
            patch.setenv("TILEGEN_CACHE", str(tmp_path_factory.mktemp("compile_cache")))
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare text with tests/golden/<test file>/<test name><suffix>: `golden(text, suffix=".txt")`.

    The file is rewritten instead under `--update-golden`; without it a missing file fails the test.
    """
    module = Path(str(request.node.fspath)).relative_to(Path(__file__).parent).with_suffix("")
    name = re.sub(r"[^\w.=+-]+", "_", request.node.name).strip("_")
    update = request.config.getoption("--update-golden")

    def check(text: str, suffix: str = ".txt") -> None:
        path = GOLDEN / module / (name + suffix)
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"{path} is missing; write it with --update-golden")
        assert text == path.read_text(encoding="utf-8"), f"differs from {path}; rewrite it with --update-golden"

    return check
