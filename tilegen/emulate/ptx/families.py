"""Imports every family of instructions, so that its decoders are registered."""

from tilegen.emulate.ptx import (
    approximate,
    arithmetic,
    asynccopy,
    atomics,
    barrier,
    bits,
    compare,
    control,
    convert,
    loadstore,
    matrix,
    mbarrier,
    move,
    tma,
    warp,
    wgmma,
)

__all__ = [
    "approximate",
    "arithmetic",
    "asynccopy",
    "atomics",
    "barrier",
    "bits",
    "compare",
    "control",
    "convert",
    "loadstore",
    "matrix",
    "mbarrier",
    "move",
    "tma",
    "warp",
    "wgmma",
]
