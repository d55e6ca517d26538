"""What a plan takes of an SM: shared memory byte by byte, registers role by role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.checks.resources import RegisterNeed, register_needs
from tilegen.ir.machines import MACHINES
from tilegen.ir.plan import Buffer, Plan, RolePlan
from tilegen.syntax.span import Span

THREADS_A_WARP = 32
THREADS_A_WARPGROUP = 128
REGISTER_FILE = 64 * 1024  # 32-bit registers of an SM


def threads_of(role: RolePlan, plan: Plan) -> int:
    """Threads of a role's warps: all of its warpgroups', less those of a role beside it."""
    if role.warps is not None:
        return role.warps[1] * THREADS_A_WARP
    beside = sum(r.warps[1] for r in plan.roles if r.first == role.first and r.warps)
    return role.thread_groups * THREADS_A_WARPGROUP - beside * THREADS_A_WARP


def registers_of(role: RolePlan, plan: Plan, compiled: int | None = None) -> int:
    """A thread's. Roles in one warpgroup share the number that one of them sets; where none is set, all have what the
    code was compiled with, or at most can be."""
    beside = [r.registers for r in plan.roles if r.first == role.first and r.registers]
    return beside[0] if beside else compiled or plan.registers_at_entry


@dataclass(frozen=True)
class Area:
    """Bytes [start, stop) of shared memory. guest: they are another buffer's as well."""

    name: str
    start: int
    stop: int
    kind: str  # tile | barriers | free
    what: str
    span: Span | None
    guest: bool = False


def areas(plan: Plan) -> tuple[Area, ...]:
    """A CTA's shared memory in the order of addresses, each copy of a tile by itself, up to what it may have."""
    found = [area for b in plan.buffers for area in _copies(b)]
    for ring in plan.rings:
        size = 8 * ring.depth * ring.parts
        for group in ring.barriers:
            what = f"{ring.depth * ring.parts} barriers of {group.arrivals} arrivals"
            end = group.offset + size
            found.append(Area(f"{ring.name} {group.kind}", group.offset, end, "barriers", what, ring.span))
        if ring.scan is not None:
            flag = ring.scan.flag
            found.append(Area(f"{ring.name} flag", flag, flag + 4, "barriers", "flag of the scan", ring.span))
    found.sort(key=lambda area: (area.start, area.guest))
    used = max((area.stop for area in found), default=0)
    most = MACHINES[plan.target].shared_bytes
    if used < most:
        found.append(Area("free", used, most, "free", "not used by this kernel", None))
    return tuple(found)


def _copies(b: Buffer) -> Iterator[Area]:
    host = f", in the bytes of {b.host}" if b.host else ""
    what = f"{b.dtype}[{b.rows}, {b.cols}]" + (f", {b.swizzle}-byte swizzle" if b.swizzle else "") + host
    for stage in range(b.stages):
        for part in range(b.parts):
            start = b.offset + (stage * b.parts + part) * b.stage_bytes
            names = [f"stage {stage}"] * (b.stages > 1) + [f"part {part}"] * (b.parts > 1)
            name = " ".join([b.name, ", ".join(names)]).strip()
            yield Area(name, start, start + b.stage_bytes, "tile", what, b.span, b.host is not None)


@dataclass(frozen=True)
class Held:
    """Registers a thread: what for."""

    name: str
    registers: int
    span: Span | None = None


@dataclass(frozen=True)
class RoleBudget:
    """A role's registers where it needs most. granted: a thread's. held: largest first; then what is beside the values.
    where: the statement there. statements: of each, the most that it needs."""

    role: str
    threads: int
    granted: int
    held: tuple[Held, ...]
    where: Held | None
    statements: tuple[Held, ...]

    @property
    def free(self) -> int:
        return max(self.granted - sum(h.registers for h in self.held), 0)


def budgets(plan: Plan) -> tuple[RoleBudget, ...]:
    """Of each role, in the plan's order."""
    return tuple(_budget(need, plan) for need in register_needs(plan))


def _budget(need: RegisterNeed, plan: Plan) -> RoleBudget:
    spans = {f.name: f.span for f in need.role.fragments}
    peak = need.peak
    held = [Held(name, size, spans.get(name)) for name, size in (peak.fragments if peak else ()) if size]
    held.append(Held("addresses and counters", need.overhead))
    return RoleBudget(
        need.role.name,
        threads_of(need.role, plan),
        registers_of(need.role, plan),
        tuple(held),
        Held(peak.statement or "the role", need.registers, peak.span) if peak else None,
        tuple(Held(name, need.overhead + p.registers, p.span) for name, p in need.statements if name),
    )
