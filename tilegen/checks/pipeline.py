"""The canonical run of a plan: whether its barriers, rings and turns work at given sizes, whatever the order of events.

A plan never branches on synchronisation, so its processes are determinate: one run, in absolute generations and
with what each process knows of the others recorded, speaks for every interleaving. It completes or shows who
waits for whom; every arrival counts in the phase it is meant for, no wait can miss its phase; bytes and counts
are exact; accesses to the same bytes are ordered, and fenced where threads' writes meet asynchronous engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tilegen.checks.deadlock import report_deadlock
from tilegen.checks.items import cluster_of
from tilegen.checks.machine import Event, Machine, Step, StopRun
from tilegen.checks.process import Process, Waiting
from tilegen.checks.regions import Regions
from tilegen.checks.shared import Site
from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic
from tilegen.ir import plan as ir
from tilegen.ir.deal import DealError
from tilegen.ir.plan_walk import operations
from tilegen.ir.uniform import evaluate


@dataclass(frozen=True)
class Trace:
    """What happened in the CTAs run, one after the other, and what was wrong; first: the CTA and place of the first
    fault."""

    events: tuple[Event, ...]
    diagnostics: tuple[Diagnostic, ...]
    first: tuple[int, Site] | None = None


def run(
    plan: ir.Plan,
    symbols: Mapping[str, int],
    ctas: Iterable[int],
    regions: Regions | None = None,
    observe: Callable[[Step], None] | None = None,
) -> Trace:
    """Run these CTAs of a verified plan, each with those of its cluster. `symbols`: every size and integer scalar, and
    sm_count.

    `regions`: the plan's, where many runs share it. observe: told of every step of a process. Raises KeyError for a
    symbol that is missing.
    """
    regions = regions or Regions(plan)
    count = evaluate(plan.grid, symbols)
    events: list[Event] = []
    diagnostics: dict[Diagnostic, None] = {}
    first: tuple[int, Site] | None = None
    for cluster in dict.fromkeys(cluster_of(plan, cta) for cta in ctas):
        machines: list[Machine] = []
        for cta in cluster:
            Machine(plan, cta, regions, observe, machines)
        try:
            _run_together(machines, symbols, count)
        except (ZeroDivisionError, DealError) as error:
            what = str(error) if isinstance(error, DealError) else "it divides by 0"
            reason = f"at sizes that a launch may have, {what}"
            diagnostics[fault(Code.INVALID_PLAN, None, reason=reason, line=plan.name)] = None
        for machine in machines:
            events += machine.events
            diagnostics.update(dict.fromkeys(machine.diagnostics))
            if first is None and machine.first is not None:
                first = machine.cta, machine.first
    return Trace(tuple(events), tuple(diagnostics), first)


def check(plan: ir.Plan, symbols: Mapping[str, int]) -> list[Diagnostic]:
    """What is wrong with a verified plan at these sizes: its first, middle and last CTAs are run."""
    count = evaluate(plan.grid, symbols)
    chosen = sorted({0, count // 2, count - 1}) if count > 0 else []
    return list(run(plan, symbols, chosen).diagnostics)


def _run_together(machines: list[Machine], symbols: Mapping[str, int], ctas: int) -> None:
    """Run the CTAs of a cluster, or a single one."""
    processes = [
        Process(machine, role, index, group, ctas, symbols)
        for machine in machines
        for index, role in enumerate(machine.plan.roles)
        for group in range(role.warpgroups)
    ]
    running = {p.name: p.run() for p in processes}
    waiting: dict[str, Waiting] = {}
    try:
        while running:
            moved = False
            for name in list(running):
                if name in waiting and not waiting[name].over:
                    continue
                moved = True
                found = next(running[name], None)
                if found is None:
                    del running[name]
                    waiting.pop(name, None)
                else:
                    waiting[name] = found
            if not moved:
                report_deadlock(processes, waiting)
                return
    except StopRun:
        return
    for machine in machines:
        _report_unread(machine, [p for p in processes if p.machine is machine])


def _report_unread(machine: Machine, processes: list[Process]) -> None:
    """Loads that nobody waited for: their bytes may come when the CTA has gone."""
    for ring in machine.plan.rings:
        for part in range(ring.parts):
            filled = sum(
                max(b.expected, default=-1) + 1
                for name, b in machine.barriers.items()
                if (name.ring, name.kind, name.part) == (ring.name, "full", part)
            )
            waited = max((p.waits.get((ring.name, part), 0) for p in processes), default=0)
            if filled > waited:
                machine.fault(
                    Code.PIPELINE_UNREAD,
                    _filling(machine, processes, ring),
                    got=f"{filled} fills, {waited} waits",
                    ring=ring.name,
                )


def _filling(machine: Machine, processes: list[Process], ring: ir.Ring) -> Site:
    """Where the ring is filled."""
    return next(
        Site(p.name, o, path)
        for p in processes
        for path, o in operations(p.role, p.role_index)
        if isinstance(o, ir.Expect | ir.SignalCopies) and o.slot.ring == ring.name
    )
