"""The short table after a build: what the kernel needs, and what it was made with."""

from __future__ import annotations

from rich.console import Console

from tilegen.cli.compile import headings, how_long, remarks
from tilegen.cli.console import table
from tilegen.ir.plan import Plan, RolePlan
from tilegen.runtime.compilation import Compilation
from tilegen.targets.hopper.built import Built
from tilegen.version import VERSION

THREADS_A_WARP = 32
THREADS_A_WARPGROUP = 128
SHARED_LIMIT = 227 * 1024  # bytes of shared memory that one CTA may have on Hopper


def print_summary(out: Console, done: Compilation, seconds: float) -> None:
    """What each variant needs, and what all were made with and how long that took."""
    out.print(done.title, style="bold", markup=False)
    for heading, variant in zip(headings(done), done.variants, strict=True):
        if heading:
            out.print(heading, style="bold", markup=False)
        _print_needs(out, variant.built)
    for line in remarks(done):
        out.print(line, markup=False)
    version = ".".join(map(str, done.variants[0].built.nvrtc_version))
    out.print(f"time: {_time(done, seconds)}", markup=False)
    out.print(f"made with: tilegen {VERSION}, NVRTC {version}", markup=False)


def _print_needs(out: Console, built: Built) -> None:
    """Registers per role, spills, shared memory and ring depths, and the plan's notes."""
    plan = built.plan
    rows = [
        [
            role.name,
            _threads(role, plan),
            _registers(role, plan),
        ]
        for role in plan.roles
    ]
    out.print(table(["role", "threads", "registers a thread"], rows))
    stages = ", ".join(f"{ring.name} {ring.depth}" for ring in plan.rings) or "none"
    spills = built.usage.spill_store_bytes + built.usage.spill_load_bytes
    facts = (
        ("spills", f"{spills} bytes" if spills else "none"),
        ("shared memory", f"{plan.shared_bytes} of {SHARED_LIMIT} bytes"),
        ("stages", stages),
        *(("note", note) for note in plan.notes),
    )
    for name, value in facts:
        out.print(f"{name}: {value}", markup=False)


def _threads(role: RolePlan, plan: Plan) -> int:
    """Of a role's warps: all of its warpgroups', less those of a role beside it."""
    if role.warps is not None:
        return role.warps[1] * THREADS_A_WARP
    beside = sum(r.warps[1] for r in plan.roles if r.first == role.first and r.warps)
    return role.warpgroups * THREADS_A_WARPGROUP - beside * THREADS_A_WARP


def _registers(role: RolePlan, plan: Plan) -> int:
    """A thread's. Roles in one warpgroup share the number that one of them sets."""
    beside = [r.registers for r in plan.roles if r.first == role.first and r.registers]
    return beside[0] if beside else plan.registers_at_entry


def _time(done: Compilation, seconds: float) -> str:
    words = how_long(done, seconds)
    nvrtc = " + ".join(f"{variant.built.seconds:.2f}" for variant in done.variants)
    return words if done.cached else f"{words}, of which NVRTC {nvrtc} s"
