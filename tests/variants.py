"""Variants of a kernel taken apart, for tests of what only one of them has."""

from __future__ import annotations

from tilegen.runtime.kernel import Kernel


def for_all_sizes(kernel: Kernel) -> Kernel:
    """The kernel with its last variant alone, at all sizes."""
    return Kernel(kernel.program, kernel.variants[-1:])
