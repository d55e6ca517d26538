"""The short table after a build: what the kernel needs, and what it was made with."""

from __future__ import annotations

from rich.console import Console

from tilegen.cli.compile import headings, how_long, remarks
from tilegen.cli.console import table
from tilegen.inspect.budget import registers_of, threads_of
from tilegen.ir.machines import MACHINES
from tilegen.runtime.compilation import Compilation
from tilegen.targets.hopper.built import Built
from tilegen.version import VERSION


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
            threads_of(role, plan),
            registers_of(role, plan, built.usage.registers),
        ]
        for role in plan.roles
    ]
    out.print(table(["role", "threads", "registers a thread"], rows))
    stages = ", ".join(f"{ring.name} {ring.depth}" for ring in plan.rings) or "none"
    spills = built.usage.spill_store_bytes + built.usage.spill_load_bytes
    facts = (
        ("spills", f"{spills} bytes" if spills else "none"),
        ("shared memory", f"{plan.shared_bytes} of {MACHINES[plan.target].shared_bytes} bytes"),
        ("stages", stages),
        *(("note", note) for note in plan.notes),
    )
    for name, value in facts:
        out.print(f"{name}: {value}", markup=False)


def _time(done: Compilation, seconds: float) -> str:
    words = how_long(done, seconds)
    nvrtc = " + ".join(f"{variant.built.seconds:.2f}" for variant in done.variants)
    return words if done.cached else f"{words}, of which NVRTC {nvrtc} s"
