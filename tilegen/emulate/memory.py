"""A virtual 64-bit global memory whose allocations are numpy arrays."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tilegen.diagnostics.catalogue import Code, fail

_FIRST = 0x7F00_0000_0000
_ALIGN = 256
_GUARD = 1 << 16


class MemoryFaultError(Exception):
    """An access outside every allocation, or a misaligned one: the address, what is wrong in words, and the thread."""

    def __init__(self, address: int, what: str, thread: int | None = None) -> None:
        super().__init__(what)
        self.address = address
        self.what = what
        self.thread = thread


@dataclass
class Block:
    """One allocation: its array, the array's bytes, and views of them as wider unsigned integers."""

    base: int
    array: npt.NDArray[np.generic]
    bytes: npt.NDArray[np.uint8]
    views: dict[int, npt.NDArray[np.generic]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.base + len(self.bytes)

    def view(self, width: int) -> npt.NDArray[np.generic]:
        """The bytes as unsigned integers of `width` bytes; a partial last one is left out."""
        found = self.views.get(width)
        if found is None:
            whole = len(self.bytes) // width * width
            found = self.views[width] = self.bytes[:whole].view(np.dtype(f"u{width}"))
        return found


class GlobalMemory:
    """Allocations at 256-byte aligned addresses, unmapped guards of 64 KiB and more between them.

    The arrays are not copied: what a kernel stores is seen in them.
    """

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._blocks: list[Block] = []
        self._next = _FIRST

    def alloc(self, array: npt.NDArray[np.generic]) -> int:
        """Map a C-contiguous `array` and return its address. Raises ValueError for another layout or a read-only array
        that cannot be viewed as bytes."""
        if not array.flags.c_contiguous:
            raise ValueError("GlobalMemory.alloc wants a C-contiguous array")
        base = self._next
        block = Block(base, array, array.reshape(-1).view(np.uint8))
        self._bases.append(base)
        self._blocks.append(block)
        self._next = -(-(block.end + _GUARD) // _ALIGN) * _ALIGN
        return base

    def block(self, address: int, nbytes: int, thread: int | None = None) -> Block:
        """The allocation that holds all of [address, address + nbytes). Raises MemoryFaultError."""
        index = bisect_right(self._bases, address) - 1
        if index >= 0 and address + nbytes <= self._blocks[index].end:
            return self._blocks[index]
        raise MemoryFaultError(address, self._describe(address, nbytes), thread)

    def _describe(self, address: int, nbytes: int) -> str:
        text = f"{nbytes} bytes at {address:#x} lie in no allocation"
        index = bisect_right(self._bases, address) - 1
        if index >= 0:
            block = self._blocks[index]
            shape = ", ".join(map(str, block.array.shape))
            text += f"; the nearest below is {block.array.dtype}[{shape}] at {block.base:#x}"
            text += f", whose end is passed by {address + nbytes - block.end} bytes"
        return text

    def read(self, address: int, nbytes: int) -> bytes:
        """Bytes at `address`. Raises TilegenError outside an allocation."""
        try:
            block = self.block(address, nbytes)
        except MemoryFaultError as fault:
            fail(Code.EMULATED_ADDRESS, None, what=fault.what)
        offset = address - block.base
        return block.bytes[offset : offset + nbytes].tobytes()

    def array(self, address: int) -> npt.NDArray[np.generic]:
        """The array mapped at exactly `address`. Raises TilegenError if there is none."""
        index = bisect_right(self._bases, address) - 1
        if index < 0 or self._bases[index] != address:
            fail(Code.EMULATED_ADDRESS, None, what=f"no allocation starts at {address:#x}")
        return self._blocks[index].array
