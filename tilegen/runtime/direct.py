"""Launches by the driver's own function, with everything laid out ahead: by the bindings each takes longer."""

from __future__ import annotations

import ctypes
import math
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from threading import get_ident
from typing import Any

from tilegen.runtime import driver
from tilegen.runtime.graphs import Functions, Graph, hold, launched, questions

AFTER = 8  # launches of a kernel to make a graph, which takes as long as some fifty of those
_MOST = 64  # threads and streams that a launch keeps its arguments and graphs for
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


_threads: defaultdict[int, set[int]] = defaultdict(set)  # by device: in which its context has been current


@cache
def functions() -> Functions:
    short = ctypes.PyDLL(driver.LIBRARY)
    long = ctypes.CDLL(driver.LIBRARY)
    return Functions(long.cuLaunchKernelEx, long.cuGraphLaunch, short.cuCtxGetCurrent, short.cuStreamIsCapturing)


class _Place:
    """A thread and a stream. arguments: of cuLaunchKernelEx · times: of how many launches · graph: made after some, for
    these two alone, since an executable graph is launched by one thread at a time and does not run beside itself."""

    __slots__ = ("arguments", "graph", "times")

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments
        self.times: float = 0
        self.graph: Graph | None = None


class _Launcher:
    """See `launcher`. What most launches, which do not come again, need of it is small."""

    __slots__ = ("_dependent", "_functions", "_grid", "_kernel", "_places", "_pointers")

    def __init__(self, kernel: driver.Loaded, grid: int, pointers: int, dependent: bool) -> None:
        self._kernel, self._grid, self._pointers, self._dependent = kernel, grid, pointers, dependent
        self._functions = functions()
        self._places: dict[tuple[int, int], _Place] = {}

    def put(self, stream: int) -> None:
        """By a graph, where this thread has launched often enough on this stream."""
        place = self._places.get((get_ident(), stream)) or self._place(stream)
        graph = place.graph
        done = graph() if graph is not None else place.times >= AFTER and self._begin(place, stream)
        if not done:
            self._launch(place)

    def plainly(self, stream: int) -> None:
        """By the driver's launch of a kernel."""
        self._launch(self._place(stream))

    def _launch(self, place: _Place) -> None:
        place.times += 1
        launch, arguments, device = self._functions.launch, place.arguments, self._kernel.device.index
        error = launch(*arguments) if get_ident() in _threads[device] or _is_met(device) else _NO_CONTEXT
        if error in (_NO_CONTEXT, _OTHER_CONTEXT):
            with driver.current(device):
                error = launch(*arguments)
        if error:
            driver.refuse("launch the kernel", error)

    def _begin(self, place: _Place, stream: int) -> bool:
        """Whether this launch was put on the stream by a graph made for it."""
        asked = questions(self._functions, self._kernel.device.index, stream)
        if not hold(asked):
            return False
        graph = launched(self._functions, self._kernel, self._grid, self._pointers, stream, asked)
        if graph is None:
            place.times = -math.inf  # it is not tried again
            return False
        place.graph = graph
        return True

    def _place(self, stream: int) -> _Place:
        key = get_ident(), stream
        place = self._places.get(key)
        if place is None:
            if len(self._places) >= _MOST:
                self._places.clear()
            config = ctypes.byref(_config(self._kernel, self._grid, stream, self._dependent))
            place = _Place((config, ctypes.c_void_p(self._kernel.function), ctypes.c_void_p(self._pointers), None))
            self._places[key] = place
        return place


def launcher(kernel: driver.Loaded, grid: int, pointers: int, *, dependent: bool) -> Callable[[int], None]:
    """A function that puts one launch on a stream (0 is the default one), in whatever context its thread is.

    To ask for it before each launch would take as long as the rest of this: it is asked once a thread, and where the
    driver has refused, which does nothing with a kernel in another context than its own. What a thread has put on one
    stream some times it puts there by a graph of its own from then on, where one can be made and used.

    pointers: address of an array of pointers, one a parameter; whoever calls the function keeps it alive. dependent:
    the launch may begin under the end of the one before it on its stream, which that of a graph cannot. No CTAs: there
    is nothing to launch.
    """
    if not grid:
        return lambda stream: None
    made = _Launcher(kernel, grid, pointers, dependent)
    return made.plainly if dependent else made.put


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
