"""Device arrays copy both ways, describe themselves to the launcher and free their memory; timers read what passed."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilegen.ir.dtypes import DType
from tilegen.runtime import device_memory
from tilegen.runtime.arrays import describe
from tilegen.runtime.device_memory import DeviceArray, seconds_on_gpu


class HostMemory:
    """A driver whose device memory is host memory, and whose clock moves by one millisecond a launch."""

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}
        self.launches = 0
        self.recorded: dict[int, int] = {}
        self.destroyed = 0

    def cuMemAlloc(self, size: int) -> tuple[int, int]:
        block = ctypes.create_string_buffer(b"\xa5" * size, size)
        self.blocks[ctypes.addressof(block)] = block
        return 0, ctypes.addressof(block)

    def cuMemFree(self, pointer: int) -> tuple[int]:
        del self.blocks[pointer]
        return (0,)

    def cuMemcpyHtoD(self, target: int, source: int, size: int) -> tuple[int]:
        assert len(self.blocks[target]) == size
        ctypes.memmove(target, source, size)
        return (0,)

    def cuMemcpyDtoH(self, target: int, source: int, size: int) -> tuple[int]:
        ctypes.memmove(target, source, size)
        return (0,)

    def cuEventCreate(self, flags: int) -> tuple[int, int]:
        self.recorded[len(self.recorded)] = -1
        return 0, len(self.recorded) - 1

    def cuEventRecord(self, event: int, stream: int) -> tuple[int]:
        self.recorded[event] = self.launches
        return (0,)

    def cuEventSynchronize(self, event: int) -> tuple[int]:
        return (0,)

    def cuEventElapsedTime(self, first: int, second: int) -> tuple[int, float]:
        return 0, float(self.recorded[second] - self.recorded[first])

    def cuEventDestroy(self, event: int) -> tuple[int]:
        self.destroyed += 1
        return (0,)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostMemory]:
    stand_in = HostMemory()
    monkeypatch.setattr(device_memory, "cuda", lambda: stand_in)
    monkeypatch.setattr(device_memory, "current", lambda index: nullcontext())
    yield stand_in
    gc.collect()  # arrays of the test free their memory in its own stand-in


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.bool_])
def test_an_array_comes_back_as_it_went(memory: HostMemory, dtype: Any) -> None:
    host = np.random.default_rng(1).integers(0, 2, (3, 5, 7)).astype(dtype)
    back = DeviceArray(host).numpy()
    assert back.dtype == host.dtype
    assert back.tobytes() == host.tobytes()


def test_a_strided_array_is_made_contiguous(memory: HostMemory) -> None:
    host = np.arange(24, dtype=np.float32).reshape(4, 6).T
    np.testing.assert_array_equal(DeviceArray(host).numpy(), host)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16, DType.F32, DType.I32, DType.BOOL])
def test_the_launcher_sees_its_type_shape_and_device(memory: HostMemory, dtype: DType) -> None:
    array = DeviceArray(np.ones((2, 3), dtype.numpy))
    view = describe(array, "X")
    assert (view.dtype, view.shape, view.device) == (dtype, (2, 3), "cuda:0")
    assert view.strides == (3 * dtype.bytes, dtype.bytes)
    assert view.pointer in memory.blocks


def test_an_empty_array_needs_no_copy(memory: HostMemory) -> None:
    assert DeviceArray(np.ones((0, 4), np.float32)).numpy().shape == (0, 4)


def test_memory_is_freed_with_the_last_reference(memory: HostMemory) -> None:
    array = DeviceArray(np.ones(4, np.float32))
    assert len(memory.blocks) == 1
    del array
    gc.collect()
    assert memory.blocks == {}


def test_each_launch_is_timed_and_the_first_does_not_count(memory: HostMemory) -> None:
    def launch() -> None:
        memory.launches += 1

    assert seconds_on_gpu(launch, 3) == [1e-3, 1e-3, 1e-3]
    assert memory.launches == 4
    assert memory.destroyed == 4


def test_timers_are_returned_when_a_launch_fails(memory: HostMemory) -> None:
    def launch() -> None:
        raise RuntimeError("launch failed")

    with pytest.raises(RuntimeError, match="launch failed"):
        seconds_on_gpu(launch, 2)
    assert memory.destroyed == 3
