"""Where wgmma finds its operands: shared-memory descriptors and register fragments.

Fragments: thread t = 32 w + 4 g + q of the warpgroup. An accumulator register i = 4 j + 2 h + b holds row
16 w + 8 h + g, column 8 j + 2 q + b. A operand register r = 2 j + h with e elements holds row 16 w + 8 h + g, columns
4 e j + e q + (0 … e-1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilegen.emulate.ptx.types import Array

_SPANS = {0: 0, 1: 128, 2: 64, 3: 32}
_ROWS = 8


@dataclass(frozen=True)
class MatrixDescriptor:
    """Fields of the 64-bit descriptor, in bytes; `span` is the swizzle (0 for none)."""

    start: int
    leading: int
    stride: int
    base_offset: int
    span: int

    @staticmethod
    def from_bits(bits: int) -> MatrixDescriptor:
        """Decode."""
        return MatrixDescriptor(
            (bits & 0x3FFF) << 4,
            (bits >> 16 & 0x3FFF) << 4,
            (bits >> 32 & 0x3FFF) << 4,
            bits >> 49 & 7,
            _SPANS[bits >> 62 & 3],
        )


@lru_cache(maxsize=2048)
def element_indices(bits: int, extent: int, depth: int, size: int, mn_major: bool) -> Array:
    """Index (in elements of `size` bytes, from shared address 0) of each element, [extent (M or N), depth (K)]."""
    d = MatrixDescriptor.from_bits(bits)
    mn = np.arange(extent)[:, None]
    k = np.arange(depth)[None, :]
    if mn_major:
        # Runs of MN: swizzle-wide (16 bytes without swizzle), 8 of K below each other.
        run = (d.span or 16) // size
        along, across = (d.leading, d.stride) if d.span else (d.stride, d.leading)
        address = mn // run * along + mn % run * size + k % _ROWS * (run * size) + k // _ROWS * across
    elif d.span:
        address = mn % _ROWS * d.span + mn // _ROWS * d.stride + k * size
    else:
        chunk = 16 // size
        address = mn % _ROWS * 16 + mn // _ROWS * d.stride + k // chunk * d.leading + k % chunk * size
    address = address + d.start
    if d.span:
        # Lines of 128 bytes count from the start address, plus the base offset: right for any start the manual allows.
        phase = (address >> 7) - (d.start >> 7) + d.base_offset & d.span // 16 - 1
        address = address ^ phase << 4
    indices: Array = address // size
    indices.flags.writeable = False
    return indices


@lru_cache(maxsize=2048)
def chunk_indices(bits: int, extent: int, depth: int, size: int, mn_major: bool) -> Array:
    """The 16-byte pieces of shared memory, numbered from address 0, that hold these elements; each once, rising."""
    pieces: Array = np.unique(element_indices(bits, extent, depth, size, mn_major) * size // 16)
    pieces.flags.writeable = False
    return pieces


def accumulator_to_matrix(registers: Array) -> Array:
    """[N/2 registers, 128 threads] to [64, N]."""
    n = registers.shape[0] // 4
    return registers.reshape(n, 2, 2, 4, 8, 4).transpose(3, 1, 4, 0, 5, 2).reshape(64, n * 8)


def matrix_to_accumulator(matrix: Array) -> Array:
    """[64, N] to [N/2 registers, 128 threads]."""
    n = matrix.shape[1] // 8
    return matrix.reshape(4, 2, 8, n, 4, 2).transpose(3, 1, 5, 0, 2, 4).reshape(n * 4, 128)


def operand_to_matrix(registers: Array, elements: int) -> Array:
    """A operand: [4 registers, 128 threads, elements a register] to [64, 8 * elements]."""
    return registers.reshape(2, 2, 4, 8, 4, elements).transpose(2, 1, 3, 0, 4, 5).reshape(64, 8 * elements)
