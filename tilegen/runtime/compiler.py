"""The whole way from a spec to a kernel, each stage checked."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

from tilegen.checks import resources
from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan import Plan
from tilegen.ir.tile import ParamValue, TileProgram
from tilegen.passes.pipeline import lower_all
from tilegen.sema.loading import load
from tilegen.syntax.span import Source
from tilegen.targets.hopper.build import assemble
from tilegen.targets.hopper.built import Built
from tilegen.targets.hopper.emit import emit


def plan_spec(
    source: Source, params: Mapping[str, str | ParamValue], target: str
) -> tuple[TileProgram, tuple[Plan, ...]]:
    """The program and a plan a variant. Raises TilegenError with the faults of the first stage that has any."""
    program = load(source, params)
    plans = lower_all(program, target)
    if faults := [fault for plan in plans for fault in resources.check(plan)]:
        raise TilegenError(tuple(dict.fromkeys(faults)))
    return program, plans


def compile_plan(plan: Plan, stem: str, program: TileProgram) -> Built:
    """A plan's kernel; `stem` names its text in what the machine code says of it, `program` is what its movement
    is held against. Raises TilegenError."""
    cuda = emit(plan)
    # NVRTC and nvdisasm take longer than the trial runs, and leave Python to them: once they have begun
    begun = Event()
    with ThreadPoolExecutor(1) as other:
        building = other.submit(assemble, plan, cuda, stem, begun.set)
        building.add_done_callback(lambda _: begun.set())  # or failed before that
        begun.wait()
        from tilegen.checks.movement.check import check_movement  # loaded meanwhile too
        from tilegen.checks.trials import check_all

        faults = check_all(plan, shown=True)
        movement = check_movement(plan, program)
    if faults or movement.diagnostics:
        raise TilegenError((*faults, *movement.diagnostics))
    return _with_remarks(building.result(), movement.unknown)


def compiled_for(architecture: str, plan: Plan, cuda: str) -> bytes:
    """The cubin of a plan's text for another architecture than its target's. Raises TilegenError."""
    return _with_remarks(assemble(plan, cuda, plan.name, architecture=architecture), ()).cubin


def _with_remarks(built: Built, unknown: tuple[str, ...]) -> Built:
    """Machine code that only spends more than it need is right: the plan says so, and what of its movement could not be
    judged. Raises TilegenError for the rest."""
    wasteful = [d for d in built.diagnostics if d.code == Code.GATE_OVERHEAD.name]
    if len(wasteful) < len(built.diagnostics):
        raise TilegenError(built.diagnostics)
    remarks = [f"{d.message}: {d.got} in place of {d.wanted}" for d in wasteful]
    remarks += [f"the checks on movement cannot judge {what}" for what in unknown]
    return replace(built, plan=replace(built.plan, notes=(*built.plan.notes, *remarks)), diagnostics=())
