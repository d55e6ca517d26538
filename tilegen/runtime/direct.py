"""Launches by the driver's own function, with everything laid out ahead: by the bindings each takes longer."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from threading import get_ident
from typing import Any

from tilegen.runtime import driver

_MOST_STREAMS = 64  # that a launch keeps its arguments for
_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
_OTHER_CONTEXT = 400  # CUDA_ERROR_INVALID_HANDLE: as seen on two H200, of a kernel of one where the other is current
_STREAM_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (
        ("id", ctypes.c_uint),
        ("padding", ctypes.c_uint),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_byte * 60),
    )


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


_threads: dict[int, set[int]] = {}  # by device: in which its context has been current


@dataclass(frozen=True)
class Functions:
    """Of the driver: cuLaunchKernelEx, cuCtxGetCurrent and cuStreamIsCapturing.

    A launch leaves Python to other threads, since it waits where a GPU has many before it, and what it waits for may
    need Python.
    """

    launch: Callable[..., int]
    current_context: Callable[..., int]
    is_capturing: Callable[..., int]


@cache
def functions() -> Functions:
    short = ctypes.PyDLL(driver.LIBRARY)
    return Functions(ctypes.CDLL(driver.LIBRARY).cuLaunchKernelEx, short.cuCtxGetCurrent, short.cuStreamIsCapturing)


def launcher(kernel: driver.Loaded, grid: int, pointers: int, *, dependent: bool) -> Callable[[int], None]:
    """A function that puts one launch on a stream (0 is the default one), in whatever context its thread is.

    To ask for it before each launch would take as long as the rest of this: it is asked once a thread, and where the
    driver has refused, which does nothing with a kernel in another context than its own.

    pointers: address of an array of pointers, one a parameter; whoever calls the function keeps it alive. dependent:
    the launch may begin under the end of the one before it on its stream. No CTAs: there is nothing to launch.
    """
    if not grid:
        return lambda stream: None
    launch = functions().launch
    by_stream: dict[int, tuple[Any, ...]] = {}
    holder, reference = ctypes.c_void_p, ctypes.byref
    device = kernel.device.index
    met = _threads.setdefault(device, set())

    def put(stream: int) -> None:
        arguments = by_stream.get(stream)
        if arguments is None:
            if len(by_stream) >= _MOST_STREAMS:
                by_stream.clear()
            config = reference(_config(kernel, grid, stream, dependent))
            arguments = config, holder(kernel.function), holder(pointers), None
            by_stream[stream] = arguments
        error = launch(*arguments) if get_ident() in met or _is_met(device) else _NO_CONTEXT
        if error in (_NO_CONTEXT, _OTHER_CONTEXT):
            with driver.current(device):
                error = launch(*arguments)
        if error:
            driver.refuse("launch the kernel", error)

    return put


def capturing(device: int, stream: int) -> bool:
    """Whether what is put on the stream goes into a graph instead of being run."""
    status = ctypes.c_int()
    ask = partial(functions().is_capturing, ctypes.c_void_p(stream), ctypes.byref(status))
    if _is_current(device):
        error = ask()
    else:
        with driver.current(device):
            error = ask()
    return not error and status.value != 0  # CU_STREAM_CAPTURE_STATUS_NONE


def _is_met(device: int) -> bool:
    """Whether the device's context is current in this thread, which is then known to launch in it."""
    met = _is_current(device)
    if met:
        _threads[device].add(get_ident())
    return met


def _is_current(device: int) -> bool:
    """Whether the device's context is the current one of this thread."""
    now = ctypes.c_void_p()
    return functions().current_context(ctypes.byref(now)) == 0 and now.value == driver.context(device)


def _config(kernel: driver.Loaded, grid: int, stream: int, dependent: bool) -> Config:
    config = Config((grid, 1, 1), (kernel.threads, 1, 1), kernel.shared_bytes, stream)
    if dependent:
        config.attributes = ctypes.pointer(_Attribute(id=_STREAM_SERIALIZATION, value=1))
        config.count = 1
    return config
