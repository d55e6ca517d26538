"""From a plan to CUDA C++: one statement an op, nothing decided here."""

from tilegen.targets.hopper.emit.kernel import emit

__all__ = ["emit"]
