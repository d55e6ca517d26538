"""One CTA while it runs: its warpgroups, barriers and register pool, and the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.memory import MemoryFaultError
from tilegen.emulate.ptx.barrier import NamedBarriers
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.hang import report_hang
from tilegen.emulate.ptx.mbarrier import Mbarriers
from tilegen.emulate.ptx.unit import WARPGROUP, Group, Unit

if TYPE_CHECKING:
    from tilegen.emulate.ptx.asynccopy import Copies
    from tilegen.emulate.ptx.machine import Machine

_TURN = 64


class Cta:
    """The state that lives as long as a CTA. `events` counts changes that another thread could be waiting for."""

    def __init__(self, machine: Machine, index: tuple[int, int, int]) -> None:
        self.machine = machine
        self.index = index
        self.events = 0
        self.turns = 0
        self.mbarriers = Mbarriers(self)
        self.barriers = NamedBarriers(self)
        self.copies: list[Copies] = []  # of single threads, on their way
        self.copy_groups = np.zeros(machine.threads, np.int64)  # that each thread has closed
        self.free_registers = 0
        self.units = [
            Unit(self, base, min(WARPGROUP, machine.threads - base), machine.entry_pc, machine.entry_registers)
            for base in range(0, machine.threads, WARPGROUP)
        ]

    def run(self) -> None:
        """Run to the end. Raises TilegenError for a fault, a hang or too many steps."""
        timeout_events = -1
        live = list(self.units)
        while live:
            busy = False
            for unit in live:
                busy |= self._turn(unit)
            live = [unit for unit in live if unit.groups]
            if busy or not live:
                continue
            # Nothing can run. On the hardware too a try_wait gives up after a while; if that changes nothing, it hangs.
            timed = [g for u in live for g in u.groups if g.wait is not None and g.wait.kind == "mbarrier"]
            if not timed or timeout_events == self.events:
                report_hang(self)
            timeout_events = self.events
            for group in timed:
                group.timed_out = True
                group.wait = None

    def _turn(self, unit: Unit) -> bool:
        ran = False
        for _ in range(_TURN):
            group = unit.pick()
            if group is None:
                break
            ran = True
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
            machine.fault(run.start + run.steps.index(step), fault, lanes)
        run.executions += lanes.warps
        group.pc = run.end
        if run.control is None:
            unit.moved(group)
            return
        try:
            if run.control(unit, group):
                run.controls += lanes.warps
        except (FaultError, MemoryFaultError) as fault:
            machine.fault(run.end, fault, unit.lanes(group.bits))

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
