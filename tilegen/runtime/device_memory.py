"""Arrays in a GPU's memory where no framework is at hand, and the time that work on the GPU takes."""

from __future__ import annotations

import ctypes
import math
import time
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.runtime.driver import call, cuda, current, relaxed


class DeviceArray:
    """A C-contiguous copy of a numpy array on a GPU; any framework can read it by `__cuda_array_interface__`.

    Its memory is freed when it is no longer referred to.
    """

    def __init__(self, host: npt.NDArray[Any], device: int = 0) -> None:
        host = np.ascontiguousarray(host)
        self.shape, self.dtype, self._device = host.shape, host.dtype, device
        with current(device):
            self._pointer = int(call("allocate GPU memory", cuda().cuMemAlloc(max(host.nbytes, 1))))
            weakref.finalize(self, _free, self._pointer, device)
        self.write(host)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def pointer(self) -> int:
        """Address on the GPU."""
        return self._pointer

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._pointer, False),
            "strides": None,
            "stream": None,
        }

    def write(self, host: npt.NDArray[Any]) -> None:
        """Copy an array of this shape and type into it, behind everything on the default stream."""
        assert host.shape == self.shape and host.dtype == self.dtype
        host = np.ascontiguousarray(host)
        if host.nbytes:
            with current(self._device):
                call("copy to the GPU", cuda().cuMemcpyHtoD(self._pointer, host.ctypes.data, host.nbytes))

    def numpy(self) -> npt.NDArray[Any]:
        """A copy in CPU memory, after everything on the default stream is done. Raises TilegenError."""
        host = np.empty(self.shape, self.dtype)
        if host.nbytes:
            with current(self._device):
                call("copy from the GPU", cuda().cuMemcpyDtoH(host.ctypes.data, self._pointer, host.nbytes))
        return host


class DeviceWords:
    """Memory of int32 words on a GPU, with anything in it. It is freed when it is no longer referred to."""

    def __init__(self, count: int, device: int) -> None:
        self.count = count
        with current(device), relaxed():
            self.pointer = int(call("allocate GPU memory", cuda().cuMemAlloc(4 * max(count, 1))))
        weakref.finalize(self, _free, self.pointer, device)


class SharedWords:
    """int32 words of CPU memory that a GPU can write to, 0 at first. They are never freed: a graph may outlive all."""

    def __init__(self, count: int, device: int) -> None:
        flags = cuda().CU_MEMHOSTALLOC_PORTABLE | cuda().CU_MEMHOSTALLOC_DEVICEMAP
        with current(device), relaxed():
            address = int(call("allocate CPU memory that the GPU can write", cuda().cuMemHostAlloc(4 * count, flags)))
            self.pointer = int(call("find its address", cuda().cuMemHostGetDevicePointer(address, 0)))
        self.words = (ctypes.c_int32 * count).from_address(address)
        ctypes.memset(address, 0, 4 * count)


def _free(pointer: int, device: int) -> None:
    with current(device):
        cuda().cuMemFree(pointer)


def finishes(seconds: float, device: int = 0) -> bool:
    """Whether all work on the default stream ends within so many seconds. Raises TilegenError for what failed there."""
    driver = cuda()
    with current(device):
        event = call("make an event", driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        call("wait for the GPU", driver.cuEventRecord(event, 0))
        deadline = time.monotonic() + seconds
        while True:
            (error,) = driver.cuEventQuery(event)
            if error != driver.CUresult.CUDA_ERROR_NOT_READY:
                call("run the kernel", (error, None))
                driver.cuEventDestroy(event)
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(2e-4)


def seconds_on_gpu(launch: Callable[[], object], times: int, device: int = 0) -> list[float]:
    """How long each of `times` launches on the default stream takes by the GPU's clock, after one that does not count.

    Raises TilegenError where a launch fails.
    """
    driver = cuda()
    with current(device):
        events = [call("make a timer", driver.cuEventCreate(0)) for _ in range(times + 1)]
        try:
            launch()
            for event in events[:-1]:
                call("start a timer", driver.cuEventRecord(event, 0))
                launch()
            call("stop a timer", driver.cuEventRecord(events[-1], 0))
            call("run the kernel", driver.cuEventSynchronize(events[-1]))
            milliseconds = [call("read a timer", driver.cuEventElapsedTime(a, b)) for a, b in pairwise(events)]
            return [each / 1e3 for each in milliseconds]
        finally:
            for event in events:
                driver.cuEventDestroy(event)
