"""A box of a tensor map at a coordinate: what of it is inside the tensor, and where each element lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tilegen.ir.plan_rules.memory import PIECE
from tilegen.targets.hopper.tensor_map import TensorMap

BANKS, BANK_BYTES = 32, 4


def swizzled(byte: int, span: int) -> int:
    """Where a swizzle of `span` bytes (0: none) puts a byte of shared memory."""
    return byte ^ (byte >> 7 & span // PIECE - 1) << 4 if span else byte


def bank(byte: int) -> int:
    """The bank of a byte of shared memory."""
    return byte // BANK_BYTES % BANKS


@dataclass(frozen=True)
class Box:
    """What one TMA instruction moves. Indices into it, as coordinates, are in elements, innermost first."""

    map: TensorMap
    coordinates: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.map.box_shape

    @property
    def inside(self) -> tuple[range, ...]:
        """The indices along each dimension whose elements are inside the tensor; elsewhere a load fills."""
        return tuple(
            range(min(max(0, -(first // step)), count), max(0, min(count, -((first - extent) // step))))
            for first, extent, step, count in zip(
                self.coordinates, self.map.dims, self.map.steps, self.shape, strict=True
            )
        )

    def holds(self, index: Sequence[int]) -> bool:
        """Whether an element of the box is inside the tensor."""
        return all(n in part for n, part in zip(index, self.inside, strict=True))

    def position(self, index: Sequence[int]) -> tuple[int, ...]:
        """Coordinates in the tensor of an element of the box."""
        return tuple(first + n * step for first, n, step in zip(self.coordinates, index, self.map.steps, strict=True))

    def global_byte(self, index: Sequence[int]) -> int:
        """Bytes from the tensor's start to an element of the box, also to one outside."""
        pitches = (self.map.element_bytes, *self.map.strides)
        return sum(at * pitch for at, pitch in zip(self.position(index), pitches, strict=True))

    def shared_byte(self, index: Sequence[int], start: int) -> int:
        """The byte of shared memory that holds an element, of a box that begins at byte `start`."""
        return swizzled(start + self._place(index), self.map.swizzle)

    def _place(self, index: Sequence[int]) -> int:
        """Bytes in front of an element in the box, before the swizzle."""
        row = sum(n * prod(self.shape[1:dim]) for dim, n in enumerate(index) if dim)
        return row * self.map.row_bytes + index[0] * self.map.element_bytes

    def corners(self) -> Iterator[tuple[int, ...]]:
        """The indices of the first and the last element along each dimension, the innermost changing first."""
        ends = [(0,) if count == 1 else (0, count - 1) for count in self.shape]
        for reversed_index in product(*reversed(ends)):
            yield tuple(reversed(reversed_index))

    def pieces(self) -> Iterator[tuple[int, ...]]:
        """The index of the first element of each 16 bytes, in the order of the box."""
        step = max(PIECE // self.map.element_bytes, 1)
        ranges = [range(0, self.shape[0], step), *(range(n) for n in self.shape[1:])]
        for reversed_index in product(*reversed(ranges)):
            yield tuple(reversed(reversed_index))
