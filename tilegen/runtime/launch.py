"""A launch on a GPU: bound arguments laid out in host memory, put on a stream as often as wanted.

It holds copies of its arguments' bytes, not the arrays: whoever calls it keeps those alive.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilegen.runtime import driver
from tilegen.runtime.binding import Binding

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


def gpu_launch(kernel: driver.Loaded, binding: Binding, *, dependent: bool) -> GpuLaunch:
    """Lay the arguments out in host memory. dependent: it may begin under the end of the launch before it."""
    offsets, total = [], 0
    for argument in binding.arguments:
        offsets.append(total)
        total += -(-len(argument) // _LINE) * _LINE
    block = ctypes.create_string_buffer(total + _LINE)
    base = -(-ctypes.addressof(block) // _LINE) * _LINE
    for offset, argument in zip(offsets, binding.arguments, strict=True):
        ctypes.memmove(base + offset, argument, len(argument))
    pointers = (ctypes.c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets))
    storage = (block, pointers, *binding.keep)
    config = driver.dependent_config(kernel, binding.grid) if dependent and binding.grid else None
    return GpuLaunch(kernel, binding.grid, ctypes.addressof(pointers), storage, binding.kept, config)
