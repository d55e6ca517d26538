"""Who knows what has happened: a vector clock a warp, with a component for each agent that touches shared memory.

Agents are the warps, the tensor cores (one a warpgroup, in the order of products), the store engine and the copies of
each warp (in the order of its groups), and for TMA loads each mbarrier, whose phases are its time. Three numbers
are kept of each agent: up to which event it is known to have come, up to which event its writes through the generic
proxy are visible to the asynchronous one, and up to which event it must have come by now, whether or not what it did
can be seen: copies end after what their thread has waited for, and hand on nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tilegen.emulate.ptx.types import Array

HAPPENED, VISIBLE, BEFORE = 0, 1, 2
_BARRIERS = 256


class Clocks:
    """`know[w]` is what warp w knows, int32 [3, agents]; `know[w][HAPPENED, w]` is the warp's own time."""

    def __init__(self, warps: int, units: int) -> None:
        self.warps = warps
        self.tensor = warps
        self.store = warps + units
        self.copy = self.store + warps
        self._first_barrier = self.copy + warps
        self._barriers: dict[int, int] = {}
        self.size = self._first_barrier + _BARRIERS
        self.know: Array = np.zeros((warps, 3, self.size), np.int32)
        for w in range(warps):
            self.know[w, HAPPENED, w] = 1
        #: Lanes of each warp that touched shared memory since the warp last met.
        self._touched = [0] * warps
        self._met = [0] * warps  # the warp's own time when it last met

    @property
    def readers(self) -> int:
        """Agents below this number read: all but those of copies and TMA loads."""
        return self.copy

    def barrier(self, address: int) -> int:
        """The agent of the mbarrier at an address."""
        return self._first_barrier + self._barriers.setdefault(address, len(self._barriers)) % _BARRIERS

    def nothing(self) -> Array:
        """Knowledge of nothing."""
        return np.zeros((3, self.size), np.int32)

    def time(self, warp: int) -> int:
        """The warp's own time, which its next access has."""
        return int(self.know[warp, HAPPENED, warp])

    def touch(self, warp: int, lanes: int) -> None:
        """Lanes of a warp access shared memory."""
        self._touched[warp] |= lanes

    def meet(self, warps: Iterable[int]) -> None:
        """All lanes of these warps have come to one place: what one did is over for the others."""
        for w in warps:
            self._touched[w] = 0
            self._met[w] = self.time(w)

    def before(self, warp: int) -> Array:
        """What has come before a warp's next event, int32 [agents]."""
        mine = self.know[warp]
        before: Array = np.maximum(mine[BEFORE], mine[HAPPENED])
        return before

    def publish(self, warp: int, lanes: int, to: Array) -> None:
        """Tell `to` what some lanes of a warp know; of what other lanes did since they met it says nothing."""
        mine = self.know[warp]
        mine[BEFORE] = self.before(warp)
        if self._touched[warp] & ~lanes:
            mine = mine.copy()
            mine[HAPPENED, warp] = self._met[warp]
            mine[VISIBLE, warp] = min(int(mine[VISIBLE, warp]), self._met[warp])
        np.maximum(to, mine, out=to)
        self.know[warp, HAPPENED, warp] += 1

    def learn(self, warp: int, told: Array) -> None:
        """A warp comes to know what `told` says."""
        mine = self.know[warp]
        np.maximum(mine, told, out=mine)

    def fence(self, warp: int) -> None:
        """What the warp knows of is visible to the asynchronous proxy from here on."""
        mine = self.know[warp]
        np.maximum(mine[VISIBLE], mine[HAPPENED], out=mine[VISIBLE])
        mine[HAPPENED, warp] += 1
