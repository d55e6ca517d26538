"""A launch on a GPU: bound arguments laid out in host memory, put on a stream as often as wanted.

It holds copies of its arguments' bytes, not the arrays: whoever calls it keeps those alive.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import lru_cache
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


@dataclass(frozen=True)
class DealtLaunch:
    """A kernel behind the one that deals out its items. Both keep their table in memory of the stream's own, so that
    launches on two streams do not meet in it; one that is captured into a graph has its own as well."""

    kernel: driver.Loaded
    dealer: driver.Loaded
    grid: int
    dealing: Dealing
    fault_words: int  # address
    kept: int
    dependent: bool
    _placed: dict[int, tuple[GpuLaunch, GpuLaunch]] = field(default_factory=dict)  # by stream
    _captured: list[tuple[GpuLaunch, GpuLaunch]] = field(default_factory=list)

    def __call__(self, stream: int) -> None:
        """Put one launch on the stream (0 is the default one)."""
        if driver.capturing(self.kernel.device.index, stream):
            placed = self._place()
            self._captured.append(placed)
        else:
            placed = self._placed.get(stream) or self._placed.setdefault(stream, self._place())
        for launch in placed:
            launch(stream)

    def _place(self) -> tuple[GpuLaunch, GpuLaunch]:
        device = self.kernel.device.index
        table, scratch = (DeviceWords(n, device) for n in (self.dealing.table, self.dealing.scratch))
        front, main = self.dealing.arguments(table.pointer, scratch.pointer, self.fault_words)
        keep = (table, scratch)
        return (
            _laid_out(self.dealer, 1, front, keep, 0, dependent=False),
            _laid_out(self.kernel, self.grid, main, keep, 0, dependent=self.dependent),
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
