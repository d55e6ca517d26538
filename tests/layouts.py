"""Numpy arrays at unusual places in memory."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numpy.lib.stride_tricks import as_strided

Array = npt.NDArray[Any]
_NORESERVE = 0x4000  # MAP_NORESERVE of Linux

NO_FAR_ARRAYS = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="`far` needs Linux")


def framed(shape: tuple[int, ...], dtype: Any, order: tuple[int, ...]) -> tuple[Array, Callable[[], bool]]:
    """A view with margins along every dimension, its dimensions in memory in this order, in memory that is all NaN;
    and whether all around it still is."""
    around = np.full([shape[n] + (16 if n == len(shape) - 1 else 3) for n in order], np.nan, dtype)
    inner = around[tuple(slice(8, 8 + shape[n]) if n == len(shape) - 1 else slice(1, 1 + shape[n]) for n in order)]

    def untouched() -> bool:
        left = around.copy()
        left[tuple(slice(8, 8 + shape[n]) if n == len(shape) - 1 else slice(1, 1 + shape[n]) for n in order)] = np.nan
        return bool(np.isnan(left.astype(np.float32)).all())

    return inner.transpose(np.argsort(order)), untouched


def far(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Array:
    """An array of 0 with these strides in elements, in address space that no memory backs until it is touched."""
    size = np.dtype(dtype).itemsize
    reach = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    memory = mmap.mmap(-1, (reach + 1) * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    return as_strided(np.frombuffer(memory, dtype), shape, [s * size for s in strides])
