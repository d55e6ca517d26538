"""One CTA while it runs: its warpgroups, barriers and register pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.memory import MemoryFaultError
from tilegen.emulate.ptx.barrier import NamedBarriers
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.unit import WARPGROUP, Group, Unit

if TYPE_CHECKING:
    from tilegen.emulate.ptx.asynccopy import Copies
    from tilegen.emulate.ptx.cluster import Cluster
    from tilegen.emulate.ptx.wgmma import Flying


class Cta:
    """The state that lives as long as a CTA. `first`: its first thread among all that the machine has."""

    def __init__(self, cluster: Cluster, index: tuple[int, int, int], rank: int) -> None:
        machine = self.machine = cluster.machine
        self.cluster = cluster
        self.index = index
        self.rank = rank
        self.first = rank * machine.threads_apart
        self.turns = 0
        self.mbarriers = cluster.mbarriers
        self.barriers = NamedBarriers(self)
        self.engines = cluster.engines
        self.copies: list[Copies] = []  # of single threads, on their way
        self.copy_groups = np.zeros(machine.threads, np.int64)  # that each thread has closed
        self.flying: dict[tuple[int, bytes], Flying] = {}  # accumulators of products under way, by warpgroup
        self.copied = 0  # how many there were
        self.free_registers = 0
        self.units = [
            Unit(
                self,
                self.first + base,
                min(WARPGROUP, machine.cta_threads - base),
                machine.entry_pc,
                machine.entry_registers,
            )
            for base in range(0, machine.cta_threads, WARPGROUP)
        ]

    @property
    def events(self) -> int:
        """Changes that another thread of the cluster could be waiting for."""
        return self.cluster.events

    @events.setter
    def events(self, count: int) -> None:
        self.cluster.events = count

    def turn(self, unit: Unit) -> bool:
        """Run a warpgroup for a while. False if it could not run."""
        ran = False
        for _ in range(self.engines.turn()):
            group = unit.pick()
            if group is None:
                break
            ran = True
            if self.engines.hold(unit, group):
                continue
            self._step(unit, group)
        return ran

    def _step(self, unit: Unit, group: Group) -> None:
        machine = self.machine
        run = machine.program.run_at(group.pc)
        lanes = unit.lanes(group.bits)
        s, m = lanes.s, lanes.m
        machine.steps += len(run.steps) + 1
        if machine.steps > machine.step_limit:
            machine.too_many_steps(self)
        step = None
        if machine.watch is not None:
            machine.watch.run(unit, group, run)
        try:
            for step in run.steps:
                step(s, m)
        except (FaultError, MemoryFaultError) as fault:
            assert step is not None
            machine.fault(run.start + run.steps.index(step), fault, int(lanes.threads[0]))
        run.executions += lanes.warps
        group.pc = run.end
        if run.control is None:
            unit.moved(group)
            return
        try:
            if run.control(unit, group):
                run.controls += lanes.warps
        except (FaultError, MemoryFaultError) as fault:
            machine.fault(run.end, fault, int(unit.lanes(group.bits).threads[0]))

    def exited(self) -> None:
        """Some threads have exited: barriers may now be complete."""
        self.events += 1
        self.barriers.recheck()

    def wake(self, kind: str, key: object) -> None:
        """Groups that wait for (`kind`, `key`) run again."""
        for unit in self.units:
            for group in unit.groups:
                if group.wait is not None and group.wait.kind == kind and group.wait.key == key:
                    group.wait = None
