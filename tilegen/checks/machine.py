"""One CTA in a run: its barriers, its shared memory, what it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tilegen.checks.barriers import BarrierName, MBarrier, Meeting, TurnBarrier
from tilegen.checks.clocks import Clock, Group
from tilegen.checks.regions import Regions
from tilegen.checks.shared import SharedMemory, Site
from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, Note
from tilegen.ir import plan as ir
from tilegen.ir.plan_op_text import operation_text
from tilegen.ir.plan_text import Path


class StopRun(Exception):  # noqa: N818 - not an error of its own: the fault is reported already
    """The state after a fault says nothing about what follows."""


class Event(NamedTuple):
    """A step of the run that synchronises or moves data. `position`: the ring position, -1 without."""

    cta: int
    process: str
    operation: ir.Operation
    path: Path
    position: int


@dataclass(frozen=True)
class Step:
    """An operation that a process comes to, once each time. rank: of its CTA in the cluster. group: of its role's
    warpgroups. cursors: where the role's cursors stand."""

    process: str
    rank: int
    group: int
    operation: ir.Operation
    path: Path
    cursors: Mapping[str, int]


@dataclass
class Machine:
    """State shared by a CTA's processes. observe: told of every step that one of them comes to. cluster: the machines
    of all CTAs that run together, by rank; each puts itself there."""

    plan: ir.Plan
    cta: int
    regions: Regions
    observe: Callable[[Step], None] | None = None
    cluster: list[Machine] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    first: Site | None = None  # of the faults
    _seen: set[tuple[Code, Path]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.numbers = self.regions.numbers
        self.rank = self.cta % self.plan.cluster
        self.cluster.append(self)
        counts = {
            self._name(ring, group.kind, stage, part): group.arrivals
            for ring in self.plan.rings
            for group in ring.barriers
            for stage in range(ring.depth)
            for part in range(ring.parts)
        }
        threads = sum(r.warpgroups * (1 if r.elected else 2) for r in self.plan.roles)
        processes = sum(r.warpgroups for r in self.plan.roles)
        copying = threads + len(counts)  # then, for each process, its groups of copies: the ends of groups are events
        own = copying + processes
        self.agents, self._next_agent = own * self.plan.cluster, own * self.rank
        first = self._next_agent + threads
        self._next_copies = self._next_agent + copying
        self.meeting = Meeting(processes, Clock.of(self.agents))
        self.barriers = {
            name: MBarrier(name, first + n, count, self.agents) for n, (name, count) in enumerate(counts.items())
        }
        self.turns: dict[int, TurnBarrier] = {}
        self.memory = SharedMemory(self.regions.count, self._memory_fault)

    def copies_agent(self) -> int:
        """The agent of the next process's copies."""
        self._next_copies += 1
        return self._next_copies - 1

    def group(self, role: ir.RolePlan) -> Group:
        """Clocks for the next process."""
        first = self._next_agent
        self._next_agent += 1 if role.elected else 2
        return Group(self.agents, first, None if role.elected else first + 1)

    def barrier(self, slot: ir.Slot, kind: str, position: int, group: int) -> tuple[MBarrier, int]:
        """The barrier of a slot and the generation of a position."""
        ring = self.plan.ring(slot.ring)
        name = self._name(ring, kind, position % ring.depth, part_of(ring, slot, group))
        return self.barriers[name], position // ring.depth

    def _name(self, ring: ir.Ring, kind: str, stage: int, part: int) -> BarrierName:
        return BarrierName(ring.name, kind, stage, part, self.rank if self.plan.cluster > 1 else None)

    def sharers(self, ring: ir.Ring) -> list[Machine]:
        """The CTAs whose slots of a ring are filled and freed together with this one's, by their numbers."""
        return [self] if ring.sharers is None else [self.cluster[rank] for rank in ring.sharers.ranks(self.rank)]

    def turn(self, barrier: int) -> TurnBarrier:
        return self.turns.setdefault(barrier, TurnBarrier())

    # ---- steps ----

    def arrive(self, site: Site, barrier: MBarrier, generation: int, clock: Clock, known: Clock, count: int) -> None:
        """Arrivals for a generation. `known`: what every arriving thread knows. Raises StopRun if they go astray."""
        if barrier.done != generation or barrier.phase.arrivals + count > barrier.count:
            self.fault(
                Code.PIPELINE_ARRIVALS,
                site,
                notes=tuple(Note(s.operation.span, f"{s.process} arrives here") for s in barrier.phase.sites[:3]),
                got=f"{barrier.phase.arrivals + count} arrivals in round {barrier.done}",
                wanted=f"{barrier.count} in round {generation}",
                barrier=str(barrier.name),
                generation=generation,
                current=barrier.done,
            )
            raise StopRun
        if not barrier.knows_before(known, generation):
            self.fault(
                Code.PIPELINE_ARRIVALS, site, barrier=str(barrier.name), generation=generation,
                current=f"{generation - 1}, in some order of events",
            )  # fmt: skip
        barrier.arrive(site, clock, count)
        self.settle(barrier)

    def settle(self, barrier: MBarrier) -> None:
        """End the barrier's phase if it is complete."""
        if not barrier.complete:
            return
        generation = barrier.done
        if barrier.loaded.get(generation, 0) > barrier.expected.get(generation, 0):
            self.bytes_fault(barrier.phase.sites[-1], barrier, generation)
            raise StopRun
        for site in barrier.finish():
            self.fault(Code.PIPELINE_LAPPED, site, barrier=str(barrier.name), generation=generation - 1)

    # ---- faults ----

    def bytes_fault(self, site: Site, barrier: MBarrier, generation: int) -> None:
        """Report that other bytes come than a full barrier expects."""
        self.fault(
            Code.PIPELINE_BYTES,
            site,
            got=f"{barrier.loaded.get(generation, 0)} bytes",
            wanted=str(barrier.expected.get(generation, 0)),
            ring=barrier.name.ring,
        )

    def fault(
        self, code: Code, site: Site, *, notes: tuple[Note, ...] = (), got: str = "", wanted: str = "", **fields: object
    ) -> None:
        """Report a fault once a place."""
        if (code, site.path) in self._seen:
            return
        self._seen.add((code, site.path))
        self.first = self.first or site
        self.diagnostics.append(
            fault(
                code,
                site.operation.span,
                got=got,
                wanted=wanted,
                notes=notes,
                who=site.process,
                statement=site.operation.statement or operation_text(site.operation),
                **fields,
            )
        )

    def _memory_fault(self, code: Code, site: Site, other: Site | None, what: str) -> None:
        if other is None:
            self.fault(code, site, got=what)
            return
        words = f"{what}: {operation_text(other.operation)} ({other.process})"
        self.fault(code, site, notes=(Note(other.operation.span, words),))


def part_of(ring: ir.Ring, slot: ir.Slot, group: int) -> int:
    """The part of a ring that a slot names, for a warpgroup of its role."""
    if slot.part is not None:
        return slot.part
    return group if ring.parts > 1 else 0
