"""What a plan asks of the machine: shared memory, registers, threads, named barriers.

The user's schedule decides these, so every message says what to make smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, Note
from tilegen.ir import plan as ir
from tilegen.ir.liveness import OVERHEAD, live_points, registers_of_storages
from tilegen.ir.machines import MACHINES
from tilegen.ir.plan_text import Path
from tilegen.ir.plan_walk import all_operations
from tilegen.syntax.span import Span

MAX_THREADS = 1024
MAX_REGISTERS = 255
NAMED_BARRIERS = 16


def check(plan: ir.Plan) -> list[Diagnostic]:
    """Everything the plan asks for that the machine does not have."""
    return [
        *_shared_memory(plan),
        *_threads(plan),
        *_named_barriers(plan),
        *_register_file(plan),
        *(d for need in register_needs(plan) for d in _role_registers(plan, need)),
    ]


# ---- shared memory -----------------------------------------------------------------------------------


def _shared_memory(plan: ir.Plan) -> Iterator[Diagnostic]:
    most = MACHINES[plan.target].shared_bytes
    if plan.shared_bytes <= most:
        return
    owners = sorted((b for b in plan.buffers if b.host is None), key=_total, reverse=True)
    largest = owners[0]
    yield fault(
        Code.SHARED_MEMORY_FULL,
        largest.span,
        got=f"{plan.shared_bytes} bytes",
        wanted=f"at most {most}",
        notes=tuple(Note(b.span, f"{b.name}: {_copies(b)} = {_total(b)} bytes") for b in owners),
        kernel=plan.name,
        over=plan.shared_bytes - most,
        largest=largest.name,
        shrink=_shrink(largest, plan.shared_bytes - most),
        share="" if plan.target == "sm_80" else "let an output use the bytes of a tile: `alias OUTPUT, TILE`",
    )


def _total(buffer: ir.Buffer) -> int:
    return buffer.stage_bytes * buffer.stages * buffer.parts


def _copies(buffer: ir.Buffer) -> str:
    parts = f" x {buffer.parts} consumers" if buffer.parts > 1 else ""
    stages = f"{buffer.stages} stages x " if buffer.stages > 1 else ""
    return f"{stages}{buffer.stage_bytes} bytes{parts}"


def _shrink(buffer: ir.Buffer, over: int) -> str:
    stages = buffer.stages - -(-over // (buffer.stage_bytes * buffer.parts))
    if stages > 0:
        return f"give {buffer.name} fewer stages: `stages {buffer.name} {stages}`"
    fewer = "fewer stages, and " if buffer.stages > 1 else ""
    return f"use {fewer}a smaller block for the axes of {buffer.name}"


# ---- threads and barriers ----------------------------------------------------------------------------


def _threads(plan: ir.Plan) -> Iterator[Diagnostic]:
    if plan.threads > MAX_THREADS:
        role = max(plan.roles, key=lambda r: r.warpgroups)
        yield fault(
            Code.TOO_MANY_THREADS,
            _role_span(role),
            got=f"{plan.threads} threads",
            wanted=f"at most {MAX_THREADS}",
            role=role.name,
            warpgroups=role.warpgroups,
        )


def _named_barriers(plan: ir.Plan) -> Iterator[Diagnostic]:
    last, where = 0, None
    for role, _, operation in all_operations(plan):
        if isinstance(operation, ir.OrderWait | ir.OrderPass | ir.OrderStart | ir.GroupSync):
            end = operation.first_id + role.warpgroups
            if end > last:
                last, where = end, operation.span
    if last > NAMED_BARRIERS:
        yield fault(Code.TOO_MANY_BARRIERS, where, got=f"{last} named barriers", wanted=f"at most {NAMED_BARRIERS}")


# ---- registers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RegisterPlace:
    """Registers a thread that hold live fragments before an operation; `fragments`: storages, largest first."""

    path: Path
    span: Span
    statement: str
    registers: int
    fragments: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class RegisterNeed:
    """What a role needs: the most over its places, and the most over each statement's."""

    role: ir.RolePlan
    overhead: int
    peak: RegisterPlace | None  # None: the role has no fragments
    statements: tuple[tuple[str, RegisterPlace], ...]

    @property
    def registers(self) -> int:
        """Registers a thread, the overhead among them."""
        return self.overhead + (self.peak.registers if self.peak else 0)


def register_needs(plan: ir.Plan) -> tuple[RegisterNeed, ...]:
    """The register need of each role, in the plan's order."""
    return tuple(_need(role, index) for index, role in enumerate(plan.roles))


def _need(role: ir.RolePlan, index: int) -> RegisterNeed:
    sizes = registers_of_storages(role)
    peak: RegisterPlace | None = None
    statements: dict[str, RegisterPlace] = {}
    for point in live_points(role, index):
        held = tuple(sorted(((s, sizes[s]) for s in point.live), key=lambda e: (-e[1], e[0])))
        place = RegisterPlace(
            point.path, point.operation.span, point.operation.statement, sum(size for _, size in held), held
        )
        if held and (peak is None or place.registers > peak.registers):
            peak = place
        best = statements.get(place.statement)
        if best is None or place.registers > best.registers:
            statements[place.statement] = place
    return RegisterNeed(role, OVERHEAD[role.kind], peak, tuple(statements.items()))


def _register_file(plan: ir.Plan) -> Iterator[Diagnostic]:
    """setmaxnreg beyond what the CTA was launched with waits for ever (hardware.md 3.2)."""
    roles = [r for r in plan.roles if not r.warps_of_group[0]]  # the others share a warpgroup's registers
    asked = sum(128 * r.thread_groups * (r.registers or plan.registers_at_entry) for r in roles)
    given = plan.registers_at_entry * plan.threads
    if asked <= given:
        return
    split = " + ".join(f"{128 * r.thread_groups} x {r.registers or plan.registers_at_entry}" for r in roles)
    yield fault(
        Code.REGISTER_FILE_FULL,
        next((s for r in plan.roles if (s := _role_span(r)) is not None), None),
        got=f"{split} = {asked} registers",
        wanted=f"at most {plan.threads} x {plan.registers_at_entry} = {given}",
    )


def _role_registers(plan: ir.Plan, need: RegisterNeed) -> Iterator[Diagnostic]:
    available = min(need.role.registers or plan.registers_at_entry, MAX_REGISTERS)
    if need.peak is None or need.registers <= available:
        return
    spans = {f.name: f.span for f in need.role.fragments}
    largest = need.peak.fragments[0][0]
    yield fault(
        Code.REGISTERS_FULL,
        need.peak.span,
        got=f"{need.peak.registers} for values + {need.overhead} for addresses and counters = {need.registers}",
        wanted=f"at most {available} a thread",
        notes=tuple(Note(spans[name], f"{name}: {size} registers") for name, size in need.peak.fragments),
        role=need.role.name,
        largest=largest,
        **_relief(plan, need.role),
    )


def _relief(plan: ir.Plan, role: ir.RolePlan) -> dict[str, str]:
    """What a user may write on this machine."""
    if not any(isinstance(o, ir.Mma | ir.WarpMma) for _, _, o in all_operations(plan)):
        stream = (
            "let the axis along the columns be streamed, not held whole: `stream AXIS` in the schedule, or declare "
            "its extent as a size"
        )
        return {"stream": stream, "blocks": "", "more": "", "shorter": ""}
    blocks = {"stream": "", "blocks": "use smaller blocks, or more consumers for the same block"}
    if plan.target == "sm_80":
        more = "let a warp multiply 16 rows: `warp_rows 16`" if role.together > 1 else ""
        return {**blocks, "more": more, "shorter": ""}
    return {
        **blocks,
        "more": f"give the {role.name} more `registers`",
        "shorter": "drop `late` or `ahead`, where there is one: a step that runs late keeps its values for longer",
    }


def _role_span(role: ir.RolePlan) -> Span | None:
    return role.body[0].span if role.body else None
