"""CTAs that run together: what they share, and the scheduler. A CTA without a cluster is one of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.cta import Cta
from tilegen.emulate.ptx.engines import Engines
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.hang import report_hang
from tilegen.emulate.ptx.mbarrier import Mbarriers
from tilegen.emulate.ptx.spaces import RANK_SHIFT
from tilegen.emulate.ptx.types import Array

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine
    from tilegen.emulate.ptx.unit import Unit


class Cluster:
    """The state that lives as long as a cluster. `events` counts changes that another thread could be waiting for."""

    def __init__(self, machine: Machine, indices: Sequence[tuple[int, int, int]]) -> None:
        self.machine = machine
        self.events = 0
        self.mbarriers = Mbarriers(self)
        self.engines = Engines(self, machine.rng)
        self.ctas = [Cta(self, index, rank) for rank, index in enumerate(indices)]
        self.cluster_phase = 0
        self.cluster_arrived: dict[Unit, int] = {}
        self.cluster_thread_phase: Array = np.zeros(machine.threads, np.int64)

    @property
    def units(self) -> list[Unit]:
        return [unit for cta in self.ctas for unit in cta.units]

    def run(self) -> None:
        """Run to the end. Raises TilegenError for a fault, a hang or too many steps."""
        timeout_events = -1
        live = self.units
        while live:
            busy = False
            for unit in self.engines.order(live):
                self.machine.cta = unit.cta
                busy |= unit.cta.turn(unit)
                busy |= self.engines.tick()
            live = [unit for unit in live if unit.groups]
            if busy or not live or self.engines.stir():
                continue
            # Nothing can run. On the hardware too a try_wait gives up after a while; if that changes nothing, it hangs.
            timed = [g for u in live for g in u.groups if g.wait is not None and g.wait.kind == "mbarrier"]
            if not timed or timeout_events == self.events:
                report_hang(self)
            timeout_events = self.events
            for group in timed:
                group.timed_out = True
                group.wait = None
        self.engines.finish()
        if self.machine.watch is not None:
            self.machine.watch.end()

    def wake(self, kind: str, key: object) -> None:
        """Groups that wait for (`kind`, `key`) run again."""
        for cta in self.ctas:
            cta.wake(kind, key)

    def reach(self, address: int) -> None:
        """Raise FaultError for a shared address in a CTA that is no member or has gone."""
        if len(self.ctas) == 1:
            return
        rank = address >> RANK_SHIFT
        if rank >= len(self.ctas):
            raise FaultError(f"shared address {address:#x} is in CTA {rank} of a cluster of {len(self.ctas)}")
        if not any(unit.groups for unit in self.ctas[rank].units):
            raise FaultError(f"shared address {address:#x} is in CTA {rank} of the cluster, which has ended")

    # ---- the barrier of the cluster ----

    def cluster_arrive(self, unit: Unit, bits: int) -> None:
        """Threads arrive at the cluster barrier."""
        if self.cluster_arrived.get(unit, 0) & bits:
            raise FaultError("a thread arrives twice at the cluster barrier without waiting for it in between")
        self.cluster_arrived[unit] = self.cluster_arrived.get(unit, 0) | bits
        self.cluster_thread_phase[unit.lanes(bits).threads] = self.cluster_phase
        self.events += 1
        self.cluster_check()

    def cluster_check(self) -> None:
        """Let the waiting groups go if all threads that live have arrived."""
        if self.cluster_arrived and all(u.alive & ~self.cluster_arrived.get(u, 0) == 0 for u in self.units):
            self.cluster_phase += 1
            self.cluster_arrived.clear()
            self.wake("cluster", None)
