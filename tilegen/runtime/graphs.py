"""Graphs of one kernel each, for launches that come again: the driver puts one on a stream in half the time that it
takes for the kernel itself."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from tilegen.diagnostics.core import TilegenError
from tilegen.runtime import driver

_DEFAULT = (0, 1)  # the default stream, as no stream and by its name, CU_STREAM_LEGACY


@dataclass(frozen=True)
class Functions:
    """Of the driver: cuLaunchKernelEx, cuGraphLaunch, cuCtxGetCurrent and cuStreamIsCapturing.

    A launch leaves Python to other threads, since it waits where a GPU has many before it, and what it waits for may
    need Python.
    """

    launch: Callable[..., int]
    launch_graph: Callable[..., int]
    current_context: Callable[..., int]
    is_capturing: Callable[..., int]


class Question(NamedTuple):
    """What must be so where a thread makes a graph, or puts one on a stream.

    The kernel's context is the current one: in another the default stream is another stream, and nothing would say so;
    without one the driver crashes when a graph is made. And the stream is not being captured: the driver would refuse
    the graph and spoil the capture. The default stream cannot be (and takes nothing at all while a stream that waits
    for it is).
    """

    ask: Callable[[], int]  # writes `answer`; what it returns is 0 if it could
    answer: ctypes.c_void_p | ctypes.c_int
    wanted: int


# Puts an executable graph on its stream, in the one thread that it is for, where what has to be so is so; says whether.
Graph: TypeAlias = Callable[[], bool]

# Executable graphs that nothing refers to any more: driver, graph, device. The driver is told when the next one is
# made: a finalizer may run anywhere, in a thread that is ending, too.
_left: deque[tuple[Any, int, int]] = deque()


def questions(functions: Functions, device: int, stream: int) -> tuple[Question, ...]:
    """Those to ask before a graph is put on a stream of a device."""
    context = ctypes.c_void_p()
    current = Question(partial(functions.current_context, ctypes.byref(context)), context, driver.context(device))
    if stream in _DEFAULT:
        return (current,)
    status = ctypes.c_int()
    ask = partial(functions.is_capturing, ctypes.c_void_p(stream), ctypes.byref(status))
    return current, Question(ask, status, 0)  # CU_STREAM_CAPTURE_STATUS_NONE


def hold(asked: Sequence[Question]) -> bool:
    for ask, answer, wanted in asked:  # noqa: SIM110 (a generator would take longer)
        if ask() or answer.value != wanted:
            return False
    return True


def launched(
    functions: Functions, kernel: driver.Loaded, grid: int, pointers: int, stream: int, asked: tuple[Question, ...]
) -> Graph | None:
    """A graph of this launch (the arguments are `launcher`'s), which was put on the stream once, where what is asked
    holds; None where that cannot be done."""
    error, on = -1, ctypes.c_void_p(stream)
    with suppress(TilegenError, RuntimeError), driver.relaxed():
        executable = made(kernel, grid, pointers)
        error = functions.launch_graph(executable, on)  # the first launch of a graph may allocate memory
    return None if error else _graph(functions.launch_graph, executable, on, asked)


def _graph(
    launch: Callable[..., int], executable: ctypes.c_void_p, stream: ctypes.c_void_p, asked: tuple[Question, ...]
) -> Graph:
    (ask, answer, wanted), *others = asked

    def put() -> bool:  # the first question is asked here: to call Python once more takes a tenth of the launch
        if ask() or answer.value != wanted or (others and not hold(others)):
            return False
        return not launch(executable, stream)

    return put


def made(kernel: driver.Loaded, grid: int, pointers: int) -> ctypes.c_void_p:
    """An executable graph of one launch, which holds copies of the arguments. It is destroyed some time after it is no
    longer referred to, which may be before it has run.

    Raises TilegenError or RuntimeError where the driver makes none.
    """
    _destroy_left()
    cuda, what = driver.cuda(), "make a graph"
    node = cuda.CUDA_KERNEL_NODE_PARAMS()
    node.func, node.sharedMemBytes, node.kernelParams = kernel.function, kernel.shared_bytes, pointers
    node.gridDimX, node.gridDimY, node.gridDimZ = grid, 1, 1
    node.blockDimX, node.blockDimY, node.blockDimZ = kernel.threads, 1, 1
    graph = driver.call(what, cuda.cuGraphCreate(0))
    try:
        driver.call(what, cuda.cuGraphAddKernelNode(graph, None, 0, node))
        address = int(driver.call(what, cuda.cuGraphInstantiate(graph, 0)))
    finally:
        cuda.cuGraphDestroy(graph)
    executable = ctypes.c_void_p(address)
    weakref.finalize(executable, _left.append, (cuda, address, kernel.device.index)).atexit = False
    return executable


def _destroy_left() -> None:
    """Each by the driver that made it."""
    with suppress(IndexError):  # another thread may take the last
        while _left:
            cuda, executable, device = _left.popleft()
            with suppress(TilegenError, RuntimeError), driver.current(device), driver.relaxed():
                cuda.cuGraphExecDestroy(executable)
