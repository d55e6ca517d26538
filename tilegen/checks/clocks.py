"""Vector clocks: which events of which agents are known to have happened, and which of them a proxy fence covers.

An agent is a thread that acts alone (the elected producer, the first thread of a warpgroup), the rest of a
warpgroup, or an mbarrier, whose events are the ends of its phases. A warpgroup's first thread issues TMA stores
and releases slots for all, so what it knows and what the others know are kept apart until they meet.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Stamps = tuple[tuple[int, int], ...]  # (agent, number of its event)


class Clock:
    """What one agent knows."""

    __slots__ = ("fenced", "known")

    def __init__(self, agents: int) -> None:
        self.known = np.zeros(agents, dtype=np.int64)
        self.fenced = np.zeros(agents, dtype=np.int64)

    def join(self, other: Clock) -> None:
        """Learn what another knows."""
        np.maximum(self.known, other.known, out=self.known)
        np.maximum(self.fenced, other.fenced, out=self.fenced)

    def fence(self) -> None:
        """Everything known so far becomes visible to the asynchronous engines."""
        np.maximum(self.fenced, self.known, out=self.fenced)

    def copy(self) -> Clock:
        new = Clock(0)
        new.known, new.fenced = self.known.copy(), self.fenced.copy()
        return new

    def knows(self, stamps: Iterable[tuple[int, int]]) -> bool:
        return all(self.known[agent] >= number for agent, number in stamps)

    def has_fenced(self, stamps: Iterable[tuple[int, int]]) -> bool:
        return all(self.fenced[agent] >= number for agent, number in stamps)


class Group:
    """A process: one thread, or a warpgroup's first thread and the rest of it."""

    def __init__(self, agents: int, first: int, rest: int | None) -> None:
        self.lead = Clock(agents)
        self.rest = self.lead if rest is None else Clock(agents)
        self._agents = (first,) if rest is None else (first, rest)

    def stamp(self) -> Stamps:
        """An event of all threads."""
        return tuple(
            self._tick(clock, agent) for clock, agent in zip((self.lead, self.rest), self._agents, strict=False)
        )

    def stamp_lead(self) -> Stamps:
        """An event of the first thread."""
        return (self._tick(self.lead, self._agents[0]),)

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
            clock.known[agent] = max(clock.known[agent], event)

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
        clock = Clock(0)
        clock.known = np.minimum(self.lead.known, self.rest.known)
        clock.fenced = np.minimum(self.lead.fenced, self.rest.fenced)
        return clock

    @staticmethod
    def _tick(clock: Clock, agent: int) -> tuple[int, int]:
        clock.known[agent] += 1
        return agent, int(clock.known[agent])
