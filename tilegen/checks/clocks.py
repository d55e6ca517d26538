"""Vector clocks: which events of which agents are known to have happened, and which of them a proxy fence covers.

An agent is a thread that acts alone (the elected producer, the first thread of a warpgroup), the rest of a
warpgroup, or an mbarrier, whose events are the ends of its phases. A warpgroup's first thread issues TMA stores
and releases slots for all, so what it knows and what the others know are kept apart until they meet.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Stamps = tuple[tuple[int, int], ...]  # (agent, number of its event)
_KNOWN, _FENCED = 0, 1


class Clock:
    """What one agent knows. `both`: a row of the events known of each agent, and a row of those that are fenced."""

    __slots__ = ("both",)

    def __init__(self, both: npt.NDArray[np.int64]) -> None:
        self.both = both

    @property
    def known(self) -> npt.NDArray[np.int64]:
        known: npt.NDArray[np.int64] = self.both[_KNOWN]
        return known

    @staticmethod
    def of(agents: int) -> Clock:
        """That of one who knows of nothing."""
        return Clock(np.zeros((2, agents), np.int64))

    def join(self, other: Clock) -> None:
        """Learn what another knows."""
        np.maximum(self.both, other.both, out=self.both)

    def fence(self) -> None:
        """Everything known so far becomes visible to the asynchronous engines."""
        np.maximum(self.both[_FENCED], self.both[_KNOWN], out=self.both[_FENCED])

    def copy(self) -> Clock:
        return Clock(self.both.copy())

    def knows(self, stamps: Stamps) -> bool:
        return self._reaches(_KNOWN, stamps)

    def has_fenced(self, stamps: Stamps) -> bool:
        return self._reaches(_FENCED, stamps)

    def _reaches(self, row: int, stamps: Stamps) -> bool:
        for agent, number in stamps:  # noqa: SIM110 - one or two: what `all` takes is made in more time
            if self.both.item(row, agent) < number:
                return False
        return True


class Group:
    """A process: one thread, or a warpgroup's first thread and the rest of it."""

    def __init__(self, agents: int, first: int, rest: int | None) -> None:
        self.lead = Clock.of(agents)
        self.rest = self.lead if rest is None else Clock.of(agents)
        self._first, self._others = first, rest

    def stamp(self) -> Stamps:
        """An event of all threads."""
        lead = self._tick(self.lead, self._first)
        return (lead,) if self._others is None else (lead, self._tick(self.rest, self._others))

    def stamp_lead(self) -> Stamps:
        """An event of the first thread."""
        return (self._tick(self.lead, self._first),)

    def meet(self) -> None:
        """All threads learn what each of them knows."""
        if self.rest is not self.lead:
            self.lead.join(self.rest)
            self.rest.join(self.lead)

    def learn(self, clock: Clock) -> None:
        """Every thread learns it."""
        self.lead.join(clock)
        if self.rest is not self.lead:
            self.rest.join(clock)

    def finished(self, agent: int, event: int) -> None:
        """Every thread knows that an agent of its own has come so far."""
        for clock in (self.lead, self.rest):
            clock.both[_KNOWN, agent] = max(clock.both.item(_KNOWN, agent), event)

    def fence(self) -> None:
        self.lead.fence()
        if self.rest is not self.lead:
            self.rest.fence()

    def union(self) -> Clock:
        """What the threads know together."""
        clock = self.lead.copy()
        clock.join(self.rest)
        return clock

    def common(self) -> Clock:
        """What every thread knows."""
        if self.rest is self.lead:
            return self.lead
        return Clock(np.minimum(self.lead.both, self.rest.both))

    @staticmethod
    def _tick(clock: Clock, agent: int) -> tuple[int, int]:
        number = clock.both.item(_KNOWN, agent) + 1
        clock.both[_KNOWN, agent] = number
        return agent, number
