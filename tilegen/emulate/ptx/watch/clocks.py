"""Who knows what has happened: a vector clock a warp, with a component for each agent that touches shared memory.

Agents are the warps, the tensor cores (one a warpgroup, in the order of products), the store engine and the copies of
each warp (in the order of its groups), and for TMA loads each mbarrier, whose phases are its time. Three numbers
are kept of each agent: up to which event it is known to have come, up to which event its writes through the generic
proxy are visible to the asynchronous one, and up to which event it must have come by now, whether or not what it did
can be seen: copies end after what their thread has waited for, and hand on nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from tilegen.emulate.ptx.types import Array

HAPPENED, VISIBLE, BEFORE = 0, 1, 2
Lanes: TypeAlias = "Array | slice | int"
_BARRIERS = 256


@dataclass
class Told:
    """What those say who came to one place, and at which time of its own each lane of a warp came there last."""

    know: Array
    lanes: dict[int, Array] = field(default_factory=dict)


class Clocks:
    """`know[w]` is what warp w knows, int32 [3, agents]; `know[w][HAPPENED, w]` is the warp's own time.

    Lanes that go apart tell others what they did one after the other. So each has a time, which counts what it told and
    is the warp's where they are together: what one has done by then is told once all have come that far.
    """

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
        self._times: Array = np.ones((warps, 32), np.int32)
        #: When each lane touched shared memory last; 0: not since the warp last met.
        self._touched: Array = np.zeros((warps, 32), np.int32)
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
        """The warp's own time: that of its lanes, or of the one that is ahead."""
        return int(self.know[warp, HAPPENED, warp])

    def touch(self, warp: int, lanes: Array) -> Array:
        """Lanes of a warp access shared memory: at which time each."""
        now: Array = self._times[warp, lanes]
        self._touched[warp, lanes] = now
        return now

    def meet(self, warps: Iterable[int]) -> None:
        """All lanes of these warps have come to one place: what one did is over for the others."""
        for w in warps:
            self._touched[w] = 0
            self._met[w] = self.time(w)
            self._go_on(w, slice(None), self._met[w])

    def before(self, warp: int) -> Array:
        """What has come before a warp's next event, int32 [agents]."""
        mine = self.know[warp]
        before: Array = np.maximum(mine[BEFORE], mine[HAPPENED])
        return before

    def publish(self, warp: int, lanes: Lanes, to: Told) -> None:
        """Tell `to` what some lanes of a warp know. Of what its lanes did since they met, that much is told as is over
        for all: up to when the first came here that has not come here, or has done more since."""
        mine = self.know[warp]
        mine[BEFORE] = self.before(warp)
        came = to.lanes.setdefault(warp, np.zeros(32, np.int32))
        came[lanes] = self._times[warp, lanes]
        ahead = self._touched[warp] > came
        if ahead.any():
            over = max(int(came[ahead].min()), self._met[warp])
            mine = mine.copy()
            mine[HAPPENED, warp] = over
            mine[VISIBLE, warp] = min(int(mine[VISIBLE, warp]), over)
        np.maximum(to.know, mine, out=to.know)
        self._go_on(warp, lanes, self._times[warp, lanes])

    def _go_on(self, warp: int, lanes: Lanes, after: Array | int) -> None:
        self._times[warp, lanes] = after + 1
        self.know[warp, HAPPENED, warp] = max(self.time(warp), int(self._times[warp].max()))

    def learn(self, warp: int, told: Array) -> None:
        """A warp comes to know what `told` says."""
        mine = self.know[warp]
        np.maximum(mine, told, out=mine)

    def fence(self, warp: int) -> None:
        """What the warp knows of is visible to the asynchronous proxy from here on."""
        mine = self.know[warp]
        np.maximum(mine[VISIBLE], mine[HAPPENED], out=mine[VISIBLE])
        self._go_on(warp, slice(None), self._times[warp])
