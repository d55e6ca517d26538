"""mbarriers and named barriers in a run, in absolute generations.

Hardware knows a phase's parity only. So besides counting, each wait and arrival is checked against what its
process knows: whatever the order of the other processes, it must meet the phase it is meant for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tilegen.checks.clocks import Clock, Stamps
from tilegen.checks.shared import Site


class BarrierName(NamedTuple):
    """The full or empty barrier of a ring's slot."""

    ring: str
    kind: str  # full | empty
    stage: int
    part: int
    rank: int | None = None  # of the CTA that has it, in a cluster

    def __str__(self) -> str:
        part = f", part {self.part}" if self.part else ""
        return f"{self.kind} barrier of {self.ring}, stage {self.stage}{part}{in_cluster(self.rank)}"


def in_cluster(rank: int | None) -> str:
    """Which CTA of a cluster it is, behind the name of what it has; nothing without a cluster."""
    return "" if rank is None else f", CTA {rank} of the cluster"


@dataclass
class Phase:
    """The phase that is not over yet."""

    clock: Clock
    arrivals: int = 0
    sites: list[Site] = field(default_factory=list)


@dataclass
class MBarrier:
    """`agent`: its number in clocks; its events are the ends of phases, the first being number 1."""

    name: BarrierName
    agent: int
    count: int
    clocks: int  # agents in a clock
    done: int = 0  # phases over
    phase: Phase = field(init=False)
    ends: dict[int, Clock] = field(default_factory=dict)
    waits: dict[int, list[tuple[Stamps, Site]]] = field(default_factory=dict)
    expected: dict[int, int] = field(default_factory=dict)  # bytes by generation
    loaded: dict[int, int] = field(default_factory=dict)
    arrived: dict[int, set[str]] = field(default_factory=dict)  # processes by generation

    def __post_init__(self) -> None:
        self.phase = Phase(Clock.of(self.clocks))

    def knows_before(self, clock: Clock, generation: int) -> bool:
        """Whether the end of the phase before `generation` is known, so that parity cannot mislead: by a wait, or
        since all that it took is known: arrivals, and no bytes."""
        if generation == 0 or clock.knows(((self.agent, generation),)):
            return True
        end = self.ends.get(generation - 1)
        if end is None or self.expected.get(generation - 1):
            return False
        others = np.arange(len(clock.known)) != self.agent
        return bool((clock.known >= end.known)[others].all())

    def arrive(self, site: Site, clock: Clock, count: int) -> None:
        """`count` arrivals in the current phase, which may end it."""
        self.phase.arrivals += count
        self.phase.sites.append(site)
        self.phase.clock.join(clock)
        self.arrived.setdefault(self.done, set()).add(site.process)

    @property
    def complete(self) -> bool:
        """Whether the current phase has all its arrivals and bytes."""
        short = self.loaded.get(self.done, 0) < self.expected.get(self.done, 0)
        return self.phase.arrivals >= self.count and not short

    def finish(self) -> list[Site]:
        """End the current phase. Returns waits for the phase before that may miss it: this end does not follow them."""
        clock = self.phase.clock
        missed = [site for stamps, site in self.waits.pop(self.done - 1, []) if not clock.knows(stamps)]
        clock.both[:, self.agent] = self.done + 1  # the ends of phases are no writes: nothing to fence
        self.ends[self.done] = clock
        self.ends.pop(self.done - 2, None)
        self.done += 1
        self.phase = Phase(Clock.of(self.clocks))
        return missed


@dataclass
class Meeting:
    """The barrier of the whole CTA. arrived: who is there, of `count` processes; clock: what they know together."""

    count: int
    clock: Clock
    done: int = 0  # meetings over
    arrived: dict[str, Site] = field(default_factory=dict)
    over: Clock | None = None  # what everybody knew at the last one

    def arrive(self, site: Site, clock: Clock) -> None:
        """One process has come, with what its threads know; the last one ends the meeting."""
        self.arrived[site.process] = site
        self.clock.join(clock)
        if len(self.arrived) == self.count:
            self.over, self.clock = self.clock, Clock.of(len(self.clock.known))
            self.arrived = {}
            self.done += 1


@dataclass
class TurnBarrier:
    """The named barrier on which one warpgroup waits for its turn."""

    passed: Clock | None = None
    site: Site | None = None  # of the pass that is not taken yet
    last_wait: Stamps = ()
