"""The machines that plans are made for, by target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """architecture: what code is compiled for, if no GPU is named. shared_bytes: of a CTA's dynamic memory, at most.
    movers: what can bring a tile. least, below: compute capabilities of the GPUs that run it, from the one on and up to
    the other; None: all later ones, each by code compiled for it. words: one of those GPUs."""

    architecture: str
    shared_bytes: int
    movers: tuple[str, ...]
    least: tuple[int, int]
    below: tuple[int, int] | None
    words: str

    def has(self, capability: tuple[int, int]) -> bool:
        """Whether a GPU of this compute capability is one."""
        return capability >= self.least and (self.below is None or capability < self.below)

    def architecture_on(self, capability: tuple[int, int]) -> str:
        """What code must be compiled for to run on such a GPU: code for an earlier one of the same first number will
        do."""
        if self.below is not None or capability[0] == self.least[0]:
            return self.architecture
        return f"sm_{capability[0]}{capability[1]}"


MACHINES = {
    # `a`: with what later GPUs do not have either
    "hopper": Machine("sm_90a", 227 << 10, ("tma", "cp_async"), (9, 0), (9, 1), "Hopper GPU"),
    "sm_80": Machine("sm_80", 163 << 10, ("cp_async",), (8, 0), None, "GPU of compute capability 8.0 or above"),
}
