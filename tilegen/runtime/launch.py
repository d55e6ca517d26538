"""A launch on a GPU: bound arguments laid out in host memory, put on a stream as often as wanted.

It holds copies of its arguments' bytes, not the arrays: whoever calls it keeps those alive.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any

from tilegen.runtime import driver
from tilegen.runtime.binding import Binding, Dealing
from tilegen.runtime.device_memory import DeviceWords

_LINE = 64  # bytes: tensor maps want their 128 bytes aligned so

# by all that makes a map: address, shape, strides, box …
encode_cached = lru_cache(maxsize=4096)(driver.encode)


@dataclass(frozen=True)
class GpuLaunch:
    """A kernel with its arguments in place. Nothing is allocated, encoded or waited for at a launch."""

    kernel: driver.Loaded
    grid: int
    pointers: int  # address of the array of pointers to the arguments
    storage: tuple[object, ...]
    kept: int  # bytes on the GPU that `storage` holds
    config: Any = None  # of a launch that may begin under the end of the one before

    def __call__(self, stream: int) -> None:
        """Put one launch on the stream (0 is the default one)."""
        if self.config is not None:
            driver.launch_dependent(self.kernel, self.config, self.pointers, stream)
        elif self.grid:
            driver.launch(self.kernel, self.grid, self.pointers, stream)


class Tables:
    """Memory for the tables of items that one kernel's launches make on one GPU.

    Launches on one stream share it, since each ends before the next begins; one that is captured has its own, since a
    graph may be replayed on any stream. It grows by doubling, and none is given back before the kernel goes: launches
    that are in place and graphs go on using what they were given.
    """

    def __init__(self, device: int) -> None:
        self.device = device
        self.turn = Lock()  # between a table that is made and the kernel that reads it, no other may be made
        self._by_stream: dict[int, DeviceWords] = {}
        self._kept: list[DeviceWords] = []

    def of_stream(self, stream: int, count: int) -> int:
        """The address of `count` int32 words."""
        found = self._by_stream.get(stream)
        if found is None or found.count < count:
            found = self._by_stream[stream] = self._more(max(count, 2 * found.count if found else 0))
        return found.pointer

    def fresh(self, count: int) -> int:
        """The address of `count` int32 words that nothing else uses."""
        return self._more(count).pointer

    def _more(self, count: int) -> DeviceWords:
        self._kept.append(DeviceWords(count, self.device))
        return self._kept[-1]


@dataclass(frozen=True)
class DealtLaunch:
    """A kernel behind the one that deals out its items. `fault_words`: their address."""

    kernel: driver.Loaded
    dealer: driver.Loaded
    tables: Tables
    grid: int
    dealing: Dealing
    fault_words: int
    dependent: bool
    kept = 0  # bytes on the GPU: they are the kernel's
    _placed: dict[int, tuple[GpuLaunch, GpuLaunch]] = field(default_factory=dict)  # by stream

    def __call__(self, stream: int) -> None:
        """Put one launch on the stream (0 is the default one)."""
        words = self.dealing.table + self.dealing.scratch
        with self.tables.turn:
            if driver.capturing(self.tables.device, stream):
                placed = self._at(self.tables.fresh(words))
            elif stream in self._placed:
                placed = self._placed[stream]
            else:
                placed = self._placed[stream] = self._at(self.tables.of_stream(stream, words))
            for launch in placed:
                launch(stream)

    def _at(self, table: int) -> tuple[GpuLaunch, GpuLaunch]:
        front, main = self.dealing.arguments(table, table + 4 * self.dealing.table, self.fault_words)
        return (
            _laid_out(self.dealer, 1, front, (), 0, dependent=False),
            _laid_out(self.kernel, self.grid, main, (), 0, dependent=self.dependent),
        )


def gpu_launch(kernel: driver.Loaded, binding: Binding, *, dependent: bool) -> GpuLaunch:
    """Lay the arguments out in host memory. dependent: it may begin under the end of the launch before it."""
    return _laid_out(kernel, binding.grid, binding.arguments, binding.keep, binding.kept, dependent=dependent)


def _laid_out(
    kernel: driver.Loaded,
    grid: int,
    arguments: tuple[bytes, ...],
    keep: tuple[object, ...],
    kept: int,
    *,
    dependent: bool,
) -> GpuLaunch:
    offsets, total = [], 0
    for argument in arguments:
        offsets.append(total)
        total += -(-len(argument) // _LINE) * _LINE
    block = ctypes.create_string_buffer(total + _LINE)
    base = -(-ctypes.addressof(block) // _LINE) * _LINE
    for offset, argument in zip(offsets, arguments, strict=True):
        ctypes.memmove(base + offset, argument, len(argument))
    pointers = (ctypes.c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets))
    config = driver.dependent_config(kernel, grid) if dependent and grid else None
    return GpuLaunch(kernel, grid, ctypes.addressof(pointers), (block, pointers, *keep), kept, config)
