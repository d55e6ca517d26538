"""Runs the tests' small kernels on a GPU, so that the emulator can be compared with it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from cuda.bindings import driver, nvrtc

from tests.emulate.support import PRELUDE


def _ok(result: tuple[Any, ...]) -> Any:
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) == 2 else result[1:]


@cache
def _module(source: str) -> Any:
    _ok(driver.cuInit(0))
    device = _ok(driver.cuDeviceGet(0))
    _ok(driver.cuCtxSetCurrent(_ok(driver.cuDevicePrimaryCtxRetain(device))))
    _, program = nvrtc.nvrtcCreateProgram((PRELUDE + source).encode(), b"test.cu", 0, [], [])
    options = [b"--gpu-architecture=sm_90a", b"-default-device"]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert int(error) == 0, error
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    cubin = bytearray(size)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    return _ok(driver.cuModuleLoadData(bytes(cubin)))


def run_on_gpu(
    source: str, *arguments: np.ndarray | int, grid: int, block: int, shared: int = 0, entry: str = "k"
) -> None:
    """Like `support.run`, on device 0: arrays are copied there and back."""
    function = _ok(driver.cuModuleGetFunction(_module(source), entry.encode()))
    pointers = {}
    values: list[np.ndarray] = []
    for n, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            pointers[n] = _ok(driver.cuMemAlloc(max(argument.nbytes, 1)))
            _ok(driver.cuMemcpyHtoD(pointers[n], argument.ctypes.data, argument.nbytes))
            values.append(np.array([int(pointers[n])], np.uint64))
        else:
            values.append(np.array([argument], np.int32))
    table = np.array([v.ctypes.data for v in values], np.uint64)
    _ok(driver.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, 0, table.ctypes.data, 0))
    _ok(driver.cuCtxSynchronize())
    for n, pointer in pointers.items():
        array = arguments[n]
        assert isinstance(array, np.ndarray)
        _ok(driver.cuMemcpyDtoH(array.ctypes.data, pointer, array.nbytes))
        _ok(driver.cuMemFree(pointer))
