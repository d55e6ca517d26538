"""Whether the arrays of a run fit into memory, told before they are made or when they cannot be."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.tile import TileProgram
from tilegen.oracle.space import Space

_REFERENCE_BYTES = 8  # of an element: inputs are drawn, and outputs evaluated, in float64


@contextmanager
def within_memory(
    program: TileProgram, sizes: Mapping[str, int | list[int]], scalars: Mapping[str, float]
) -> Iterator[None]:
    """Fails with SIZES_TOO_LARGE, naming the largest size, for arrays beyond this machine's memory."""
    space = Space.of(program, sizes, scalars)
    largest = max(space.sizes, key=lambda name: space.sizes[name], default="")
    words = ", ".join(f"{name}={value}".replace(" ", "") for name, value in sizes.items())
    too_large = TilegenError(
        (fault(Code.SIZES_TOO_LARGE, None, kernel=program.name, sizes=words, size=largest),),
    )
    needed = sum(prod(space.stored(tensor)) for tensor in program.tensors) * _REFERENCE_BYTES
    if needed > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise too_large
    try:
        yield
    except MemoryError:
        raise too_large from None
