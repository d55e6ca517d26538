"""Global memory of the MLS emulator: pages of 4 KiB, tensors between pages that are not mapped."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.diagnostics.catalogue import Code
from tilegen.emulate.mls.faults import FaultError
from tilegen.targets.mls.isa import ADDRESS_BITS, PAGE_BYTES, PART_BYTES

Addresses = npt.NDArray[np.int64]
_GIB4 = 1 << 32


@dataclass(eq=False)
class Tensor:
    """A tensor in memory: strides in bytes, `base` the address of its first element, `size` bytes from there on.

    `first` is the address of `data`, the bytes of its pages; `writer` holds, for each byte of an output, the number
    of the instruction that wrote it, -1 where none has yet.
    """

    name: str
    base: int
    size: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int
    first: int
    data: npt.NDArray[np.uint8]
    writer: npt.NDArray[np.int32] | None
    _halves: npt.NDArray[np.uint16] = field(init=False)

    def __post_init__(self) -> None:
        self._halves = self.data.view(np.uint16)

    @property
    def end(self) -> int:
        return self.base + self.size

    @property
    def pages_end(self) -> int:
        return self.first + len(self.data)

    def halves(self, addresses: Addresses) -> npt.NDArray[np.uint16]:
        """The 16-bit values at even addresses, all of them inside."""
        values: npt.NDArray[np.uint16] = self._halves[(addresses - self.first) >> 1]
        return values

    def write(self, addresses: Addresses, values: npt.NDArray[np.uint16]) -> None:
        """Store 16-bit values at even addresses, all of them inside."""
        self._halves[(addresses - self.first) >> 1] = values

    def array(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """A view of the tensor's elements."""
        return np.ndarray(self.shape, dtype, self.data.data, self.base - self.first, self.strides)

    def element(self, address: int) -> str:
        """The element at an address, `K[0, 31, 2, 8]`, also beyond an end of its last axes."""
        rest = address - self.base
        order = sorted(range(len(self.shape)), key=lambda k: -self.strides[k])
        found = dict.fromkeys(order, 0)
        for axis in order:
            if self.strides[axis] > 0 and self.shape[axis] > 1:
                found[axis], rest = divmod(rest, self.strides[axis])
        return f"{self.name}[{', '.join(str(found[k]) for k in range(len(self.shape)))}]"


class PagedMemory:
    """Tensors at addresses of 48 bits. By default a tensor ends where its last page does, and one of more than a page
    lies across a multiple of 4 GiB: what runs over its end, or loses a carry, is met at once."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []  # by address
        self._bases: list[int] = []
        self._border = _GIB4

    def place(self, name: str, array: npt.NDArray[Any], *, output: bool = False, straddle: bool = False) -> Tensor:
        """Copy an array of any (not negative) strides into memory. straddle: across 4 GiB, even where the tensor then
        ends inside a page."""
        if any(s < 0 for s in array.strides):
            raise ValueError(f"{name} has a negative stride")
        empty = array.size == 0
        size = 0 if empty else sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
        size += 0 if empty else array.itemsize
        padded = -(-max(size, 1) // PART_BYTES) * PART_BYTES
        half = padded // 2 // PART_BYTES * PART_BYTES
        end = self._border + max(padded // 2 // PAGE_BYTES, 1) * PAGE_BYTES
        base = self._border - half if straddle else end - padded
        self._border += -(-(padded + PAGE_BYTES) // _GIB4) * _GIB4 + _GIB4
        first = base // PAGE_BYTES * PAGE_BYTES
        pages = -(-(base + padded - first) // PAGE_BYTES) * PAGE_BYTES
        data = np.full(pages, 0xFF, np.uint8)
        writer = np.full(pages, -1, np.int32) if output else None
        tensor = Tensor(name, base, size, array.shape, array.strides, array.itemsize, first, data, writer)
        if not empty and not output:
            tensor.array(array.dtype)[...] = array
        self.tensors.append(tensor)
        self._bases.append(base)
        return tensor

    def find(self, address: int, size: int) -> Tensor:
        """The tensor that holds these bytes. Raises FaultError: a page fault, or bytes that no tensor has."""
        tensor = self._at_or_below(address)
        if tensor is not None and address + size <= tensor.end:
            return tensor
        if not 0 <= address < 1 << ADDRESS_BITS:
            raise FaultError(Code.MLS_PAGE_FAULT, f"{address:#x} is no address of {ADDRESS_BITS} bits")
        for byte in (address, address + size - 1):
            if not self.mapped(byte):
                raise FaultError(
                    Code.MLS_PAGE_FAULT,
                    f"page fault at {address:#x}: the page at {byte // PAGE_BYTES * PAGE_BYTES:#x} is not mapped; "
                    + self.describe(address),
                )
        raise FaultError(Code.MLS_OUTSIDE, f"the bytes at {address:#x} belong to no tensor; {self.describe(address)}")

    def mapped(self, address: int) -> bool:
        """Whether the page of an address is there."""
        return any(t.first <= address < t.pages_end for t in self.tensors)

    def describe(self, address: int) -> str:
        """What lies at or before an address."""
        tensor = self._at_or_below(address)
        if tensor is None:
            return "no tensor begins at or below it"
        if address < tensor.end:
            return f"it is {tensor.element(address)}"
        return f"{address - tensor.end} bytes past the end of {tensor.name}, which lies at {tensor.base:#x}"

    def _at_or_below(self, address: int) -> Tensor | None:
        index = bisect_right(self._bases, address) - 1
        return self.tensors[index] if index >= 0 else None

    def locate(self, addresses: Addresses, size: int) -> Tensor:
        """The one tensor that holds `size` bytes at each address. Raises FaultError for the first that it does not."""
        lowest = int(addresses.min())
        tensor = self._at_or_below(lowest)
        if tensor is not None and int(addresses.max()) + size <= tensor.end:
            return tensor
        touched = [self.find(address, size) for address in addresses.tolist()]
        names = sorted({t.name for t in touched})
        raise FaultError(Code.MLS_OUTSIDE, f"one access reaches {' and '.join(names)}")
