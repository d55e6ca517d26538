"""Who waits for whom when no process can go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.checks.barriers import MBarrier, Meeting, TurnBarrier
from tilegen.checks.machine import part_of
from tilegen.checks.process import Process, Waiting
from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import Note
from tilegen.ir import plan as ir
from tilegen.ir.plan_op_text import operation_text
from tilegen.ir.plan_walk import operations


@dataclass(frozen=True)
class _Edge:
    """`source` waits for `target`, None where nobody is left who could act."""

    source: str
    target: str | None
    waiting: Waiting
    why: str


def report_deadlock(processes: Sequence[Process], waiting: dict[str, Waiting]) -> None:
    """Report the wait cycle among `waiting` (by process name), or the chain that ends at nobody."""
    if _report_bytes(processes, waiting):
        return
    edges = {name: _edge(processes, name, wait) for name, wait in waiting.items()}
    chain = _chain(edges)
    ended = chain[-1].target is not None and chain[-1].target not in waiting
    first = chain[0]
    steps = "; ".join(e.why for e in chain)
    end = f"; {chain[-1].target} has ended" if ended else ""
    of = next(p for p in processes if p.name == first.source)
    of.machine.fault(
        Code.PIPELINE_DEADLOCK,
        first.waiting.site,
        notes=tuple(
            Note(e.waiting.site.operation.span, f"{operation_text(e.waiting.site.operation)}: {e.why}") for e in chain
        ),
        why=steps + end,
    )


def _report_bytes(processes: Sequence[Process], waiting: dict[str, Waiting]) -> bool:
    """Report barriers that lack nothing but bytes, which nobody is to bring any more."""
    found = False
    for name, wait in waiting.items():
        barrier = wait.barrier
        if isinstance(barrier, MBarrier) and barrier.phase.arrivals >= barrier.count and not _late(processes, barrier):
            own = next(p for p in processes if p.name == name)
            own.machine.bytes_fault(barrier.phase.sites[-1], barrier, barrier.done)
            found = True
    return found


def _edge(processes: Sequence[Process], name: str, wait: Waiting) -> _Edge:
    barrier = wait.barrier
    own = next(p for p in processes if p.name == name)
    if isinstance(barrier, TurnBarrier):
        others = [p for p in processes if p.role is own.role and p.machine is own.machine]
        before = others[own.index - 1].name
        return _Edge(name, before, wait, f"{name} waits for its turn, which {before} has not handed on")
    if isinstance(barrier, Meeting):
        absent = [p.name for p in processes if p.machine is own.machine and p.name not in barrier.arrived]
        return _Edge(name, absent[0], wait, f"{name} waits where all threads meet, and {absent[0]} has not come")
    late = _late(processes, barrier)
    what = f"round {wait.generation} of the {barrier.name}"
    if not late:
        counts = f"{barrier.phase.arrivals} of {barrier.count} arrivals have come, and nobody else arrives there"
        return _Edge(name, None, wait, f"{name} waits for {what}: {counts}")
    verb = "filled" if barrier.name.kind == "full" else "released"
    return _Edge(name, late[0], wait, f"{name} waits for {what}, which {late[0]} has not {verb}")


def _late(processes: Sequence[Process], barrier: MBarrier) -> list[str]:
    """Who is still to arrive, or to load, in the barrier's phase."""
    done = barrier.arrived.get(barrier.done, set())
    return [p.name for p in processes if p.name not in done and _serves(p, barrier)]


def _serves(process: Process, barrier: MBarrier) -> bool:
    """Whether the process arrives at this barrier, or loads for it, at all."""
    kind = ir.Expect if barrier.name.kind == "full" else ir.ArriveEmpty
    ring = process.machine.plan.ring(barrier.name.ring)
    if all(barrier.name not in m.barriers for m in process.machine.sharers(ring)):
        return False
    return any(
        isinstance(o, kind) and o.slot.ring == ring.name and part_of(ring, o.slot, process.index) == barrier.name.part
        for _, o in operations(process.role, process.role_index)
    )


def _chain(edges: dict[str, _Edge]) -> list[_Edge]:
    """The cycle that the waits run into, or the longest chain without one."""
    best: list[_Edge] = []
    for start in edges:
        walked: list[_Edge] = []
        name: str | None = start
        while name is not None and name in edges and name not in [e.source for e in walked]:
            walked.append(edges[name])
            name = edges[name].target
        at = next((n for n, e in enumerate(walked) if e.source == name), None)
        if at is not None:
            return walked[at:]
        if len(walked) > len(best):
            best = walked
    return best
