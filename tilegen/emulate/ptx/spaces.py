"""State spaces: from an address in PTX to a place in a numpy array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.emulate.memory import MemoryFaultError
from tilegen.emulate.ptx.types import Array

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

#: Generic addresses of shared, local and parameter space: window in the top byte, offset below.
WINDOW_SHIFT = 56
WINDOWS = {"shared": 1 << WINDOW_SHIFT, "local": 2 << WINDOW_SHIFT, "param": 3 << WINDOW_SHIFT}
#: In a cluster a shared address has the CTA's rank above its offset, and memory is laid out by that.
RANK_SHIFT = 18
_SPACE_OF = {0: "global", 1: "shared", 2: "local", 3: "param"}
_OFFSET = (1 << WINDOW_SHIFT) - 1

Piece = tuple[Any, Array, Array]


class Spaces:
    """Resolves vectors of addresses. A *piece* is (selection of the vector or `...`, flat array of unsigned integers of
    the wanted width, indices into it)."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._views: dict[tuple[str, int], Array] = {}
        self.shared_end = machine.shared_end
        self.shared_base = machine.shared_base

    def view(self, space: str, width: int) -> Array:
        """All of a space that is no global memory, flat, as unsigned integers of `width` bytes."""
        found = self._views.get((space, width))
        if found is None:
            m = self.machine
            flat = {"shared": m.shared, "local": m.local, "frame": m.frame, "param": m.params}[space].reshape(-1)
            found = self._views[space, width] = flat.view(np.dtype(f"u{width}"))
        return found

    def pieces(self, space: str, address: Array, width: int, count: int, threads: Array) -> Iterator[Piece]:
        """Places of `count` elements of `width` bytes at each of `address` (uint64); aligned to the whole access.
        Raises MemoryFaultError for the first thread that is out of bounds or misaligned."""
        nbytes = width * count
        if nbytes > 1:
            bad = (address & np.uint64(nbytes - 1)) != 0
            if bad.any():
                i = int(bad.argmax())
                at = int(address[i])
                raise MemoryFaultError(at, f"address {at:#x} is not aligned to {nbytes} bytes", int(threads[i]))
        yield from self._place(space, address, width, nbytes, threads)

    def _place(self, space: str, address: Array, width: int, nbytes: int, threads: Array) -> Iterator[Piece]:
        if space == "shared":
            self._bounds(self._offset(address), nbytes, threads, self.shared_base, self.shared_end, "shared memory")
            yield ..., self.view("shared", width), (address // np.uint64(width)).astype(np.intp)
        elif space in ("local", "frame"):
            held = self.machine.local if space == "local" else self.machine.frame
            self._bounds(address, nbytes, threads, 0, held.shape[1], f"{space} memory")
            index = threads.astype(np.uint64) * np.uint64(held.shape[1]) + address
            yield ..., self.view(space, width), (index // np.uint64(width)).astype(np.intp)
        elif space == "param":
            self._bounds(address, nbytes, threads, 0, len(self.machine.params), "the kernel's parameters")
            yield ..., self.view("param", width), (address // np.uint64(width)).astype(np.intp)
        elif space == "generic":
            yield from self._generic(address, width, nbytes, threads)
        else:
            yield from self._global(address, width, nbytes, threads)

    def _offset(self, address: Array) -> Array:
        """Where shared addresses are in the CTA that each is in."""
        if self.machine.ctas == 1:
            return address
        for rank in np.unique(address >> np.uint64(RANK_SHIFT)):
            self.machine.cta.cluster.reach(int(rank) << RANK_SHIFT)
        return address & np.uint64(self.machine.offset_bits)

    def _bounds(self, address: Array, nbytes: int, threads: Array, low: int, high: int, what: str) -> None:
        if int(address.min()) >= low and int(address.max()) + nbytes <= high:
            return
        bad = (address < low) | (address > high - nbytes)
        i = int(bad.argmax())
        at = int(address[i])
        raise MemoryFaultError(
            at, f"{nbytes} bytes at {at:#x} are outside {what}, which spans [{low:#x}, {high:#x})", int(threads[i])
        )

    def _generic(self, address: Array, width: int, nbytes: int, threads: Array) -> Iterator[Piece]:
        window = address >> np.uint64(WINDOW_SHIFT)
        for value in np.unique(window):
            space = _SPACE_OF.get(int(value), "global")
            chosen = window == value
            low = address & np.uint64(_OFFSET) if space != "global" else address
            if chosen.all():
                yield from self._place(space, low, width, nbytes, threads)
                continue
            at = np.nonzero(chosen)[0]
            for inner, view, index in self._place(space, low[at], width, nbytes, threads[at]):
                yield at[inner], view, index

    def _global(self, address: Array, width: int, nbytes: int, threads: Array) -> Iterator[Piece]:
        block = self.machine.memory.block(int(address[0]), nbytes, int(threads[0]))
        if int(address.min()) >= block.base and int(address.max()) + nbytes <= block.end:
            yield ..., block.view(width), ((address - np.uint64(block.base)) // np.uint64(width)).astype(np.intp)
            return
        left = np.ones(len(address), np.bool_)
        while left.any():
            first = int(left.argmax())
            block = self.machine.memory.block(int(address[first]), nbytes, int(threads[first]))
            inside = left & (address >= np.uint64(block.base)) & (address <= np.uint64(block.end - nbytes))
            at = np.nonzero(inside)[0]
            yield at, block.view(width), ((address[at] - np.uint64(block.base)) // np.uint64(width)).astype(np.intp)
            left &= ~inside

    def gather(self, space: str, address: Array, width: int, count: int, threads: Array) -> Array:
        """Loaded elements, [threads, count], unsigned integers of `width` bytes."""
        out = np.empty((len(address), count), np.dtype(f"u{width}"))
        for chosen, view, index in self.pieces(space, address, width, count, threads):
            for k in range(count):
                out[chosen, k] = view[index + k] if k else view[index]
        return out

    def scatter(self, space: str, address: Array, width: int, values: Array, threads: Array) -> None:
        """Store `values` [threads, count]; of threads that write the same place the highest wins."""
        if space == "param":
            raise MemoryFaultError(int(address[0]), "the kernel's parameters cannot be written", int(threads[0]))
        count = values.shape[1]
        for chosen, view, index in self.pieces(space, address, width, count, threads):
            self.writable(view, int(address[0]), int(threads[0]))
            for k in range(count):
                view[index + k] = values[chosen, k]

    @staticmethod
    def writable(view: Array, address: int, thread: int) -> None:
        """Raise MemoryFaultError for an allocation whose array is read-only."""
        if not view.flags.writeable:
            raise MemoryFaultError(address, f"the array mapped around {address:#x} is read-only", thread)

    def read(self, address: int, nbytes: int, thread: int) -> bytes:
        """Bytes at a generic address, for the engines."""
        low, space = address & _OFFSET, _SPACE_OF.get(address >> WINDOW_SHIFT, "global")
        if space == "global":
            block = self.machine.memory.block(address, nbytes, thread)
            return block.bytes[address - block.base : address - block.base + nbytes].tobytes()
        flat = self.view(space, 1)
        if low + nbytes > len(flat):
            raise MemoryFaultError(address, f"{nbytes} bytes at {address:#x} are outside {space} space", thread)
        return flat[low : low + nbytes].tobytes()
