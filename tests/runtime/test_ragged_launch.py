"""Launches of ragged kernels on a stand-in for the driver: what goes to it, in what order, in whose memory."""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tilegen
from tests.runtime.test_driver import FakeDriver, Launched
from tests.runtime.test_driver import fake as fake  # a fixture
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.dtypes import DType
from tilegen.runtime import kernel as runtime
from tilegen.runtime.arrays import ArrayView
from tilegen.runtime.graphs import Functions
from tilegen.runtime.kernel import Kernel
from tilegen.runtime.launch import encode_cached

SAMPLE = Path(__file__).parents[2] / "samples" / "fa3_varlen.tile"
SHAPES = {"cu_q": (4,), "cu_k": (4,), "Q": (300, 2, 64), "K": (400, 1, 64), "V": (400, 1, 64)}
SHAPES |= {"O": (300, 2, 64), "LSE": (2, 300)}
TYPES = {"cu_q": DType.I32, "cu_k": DType.I32, "LSE": DType.F32}
DEAL, MAIN = 601, 600


class Gpu:
    """An array on the stand-in's GPU."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.at = name, 0x1000_0000 + number * 0x10_0000


ARRAYS = {name: Gpu(name, n) for n, name in enumerate(SHAPES)}


class Driver(FakeDriver):
    """It also has streams that are captured, and memory."""

    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP = 1, 2

    def __init__(self) -> None:
        super().__init__()
        self.stream = 5
        self.launches: list[tuple[int, int, int, list[bytes]]] = []  # function, threads, stream, arguments
        self.memory = iter(range(0x7000_0000, 0x7FFF_0000, 0x1_0000))
        self.words = (ctypes.c_int32 * 8)()

    def __getattr__(self, name: str) -> Any:
        answers = {
            "cuMemAlloc": lambda count: next(self.memory) if self.relaxed() else None,
            "cuMemHostAlloc": lambda count, flags: ctypes.addressof(self.words),
            "cuMemHostGetDevicePointer": lambda address, flags: 0x5000,
            "cuMemFree": lambda pointer: None,
            "cuCtxSynchronize": lambda: None,
            "cuModuleGetFunction": lambda module, entry: DEAL if entry.endswith(b"_deal") else MAIN,
        }
        if name not in answers:
            return super().__getattr__(name)

        def recorded(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            value = answers[name](*arguments)
            return (0,) if value is None else (0, value)

        return recorded

    def look(self, launched: Launched) -> None:
        count = {DEAL: 4, MAIN: 0}[launched.function]  # of the arguments: table, scratch, faults, CTAs
        found = (ctypes.c_void_p * count).from_address(launched.pointers) if count else ()
        seen = [ctypes.string_at(p, 4 if n == 3 else 8) for n, p in enumerate(found)]
        self.launches.append((launched.function, launched.threads, launched.stream, seen))


@pytest.fixture
def gpu(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Driver:
    stand_in = Driver()
    monkeypatch.setattr("tilegen.runtime.driver._driver", lambda: stand_in)
    monkeypatch.setattr("tilegen.runtime.driver._encode_tiled", lambda: stand_in.encode_tiled)
    functions = Functions(stand_in.launch, stand_in.launch_graph, stand_in.current_context, stand_in.is_capturing)
    monkeypatch.setattr("tilegen.runtime.direct.functions", lambda: functions)

    def describe(array: Gpu, name: str) -> ArrayView:
        shape, dtype = SHAPES[array.name], TYPES.get(array.name, DType.BF16)
        strides, size = [], dtype.bytes
        for extent in reversed(shape):
            strides.insert(0, size)
            size *= extent
        return ArrayView(array.at, shape, tuple(strides), dtype, "cuda:0", "fake", array)

    monkeypatch.setattr("tilegen.runtime.device_memory._free", lambda pointer, device: None)
    monkeypatch.setattr(runtime, "describe", describe)
    monkeypatch.setattr(runtime, "current_stream", lambda view: lambda: stand_in.stream)
    encode_cached.cache_clear()
    return stand_in


@cache
def compiled() -> Kernel:
    return tilegen.compile(SAMPLE, D=64)


@pytest.fixture
def kernel(gpu: Driver) -> Kernel:
    """A fresh one: what it has loaded is the stand-in's."""
    made = compiled()
    return Kernel(made.program, made.variants)


def tables(gpu: Driver) -> list[int]:
    """The address of the table in each launch of the kernel in front."""
    return [struct.unpack("<Q", seen[0])[0] for function, _, _, seen in gpu.launches if function == DEAL]


def test_the_kernel_in_front_comes_first_on_the_same_stream(gpu: Driver, kernel: Kernel) -> None:
    kernel(**ARRAYS, G=2)
    (front, threads, stream, seen), (main, main_threads, main_stream, _) = gpu.launches
    assert (front, threads, stream) == (DEAL, 1024, 5)
    assert (main, main_threads, main_stream) == (MAIN, 128 * 5, 5)
    assert struct.unpack("<Q", seen[2])[0] == 0x5000
    assert struct.unpack("<i", seen[3])[0] == 8  # CTAs: no more than two heads of (300 + 3 * 255) / 256 blocks


def test_a_repeated_launch_allocates_and_waits_for_nothing(gpu: Driver, kernel: Kernel) -> None:
    launch = kernel.prepare(**ARRAYS, G=2)
    launch()
    gpu.calls.clear()
    launch()
    kernel(**ARRAYS, G=2)
    around = ["refused launch", "current context", "cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"]
    assert [n for n in gpu.names() if n not in around] == [
        "is capturing",
        "cuLaunchKernelEx",
        "cuLaunchKernelEx",
    ] * 2
    assert len(set(tables(gpu))) == 1


def test_launches_share_a_streams_table_and_each_capture_has_its_own(gpu: Driver, kernel: Kernel) -> None:
    launch = kernel.prepare(**ARRAYS, G=2)
    other = kernel.prepare(**{**ARRAYS, "Q": Gpu("Q", 40)}, G=2)
    for stream, captured in ((5, False), (6, False), (5, False), (7, True), (7, True), (7, False), (7, False)):
        gpu.stream, gpu.captured = stream, captured
        launch()
    other()
    a, b, c, d, e, f, g, h = tables(gpu)
    assert (c, g, h) == (a, f, f)
    assert len({a, b, d, e, f}) == 5


def test_a_streams_table_grows_and_what_is_in_place_stays_there(
    gpu: Driver, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = kernel.prepare(**ARRAYS, G=2)
    small()
    monkeypatch.setitem(SHAPES, "Q", (3000, 2, 64))
    monkeypatch.setitem(SHAPES, "O", (3000, 2, 64))
    monkeypatch.setitem(SHAPES, "LSE", (2, 3000))
    large = kernel.prepare(**ARRAYS, G=2)
    for launch in (large, small, large):
        launch()
    a, b, c, d = tables(gpu)
    assert (c, d) == (a, b)
    assert a != b
    counts = [call[1] for call in gpu.calls if call[0] == "cuMemAlloc"]
    assert counts[1] > counts[0]


def test_what_the_kernel_in_front_found_is_raised_once(gpu: Driver, kernel: Kernel) -> None:
    launch = kernel.prepare(**ARRAYS, G=2)
    launch()
    for again in (launch, lambda: kernel(**ARRAYS, G=2), kernel.check):
        gpu.words[:] = [1, 1, 2, 7, 9, 400, 0, 0]
        gpu.launches.clear()
        gpu.calls.clear()
        with pytest.raises(TilegenError, match=r"RAGGED_STARTS: cu_k .*\n.*cu_k\[2\] = 7, after 9\n.*last 400"):
            again()
        assert gpu.launches == []
        assert ("cuCtxSynchronize" in gpu.names()) == (again == kernel.check)
        kernel.check()
        launch()
        assert len(gpu.launches) == 2
