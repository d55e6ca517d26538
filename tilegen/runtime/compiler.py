"""The whole way from a spec to a kernel, each stage checked."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

from tilegen.checks import resources
from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.tile import ParamValue, TileProgram
from tilegen.passes.pipeline import lower
from tilegen.sema.loading import load
from tilegen.syntax.span import Source
from tilegen.targets.hopper.build import assemble
from tilegen.targets.hopper.built import Built
from tilegen.targets.hopper.emit import emit


def compile_spec(source: Source, params: Mapping[str, str | ParamValue], target: str) -> tuple[TileProgram, Built]:
    """The program and its kernel. Raises TilegenError with the faults of the first stage that has any."""
    program = load(source, params)
    plan = lower(program, target)
    if faults := resources.check(plan):
        raise TilegenError(tuple(faults))
    cuda = emit(plan)
    # NVRTC and nvdisasm take longer than the trial runs, and leave Python to them: once they have begun
    begun = Event()
    with ThreadPoolExecutor(1) as other:
        building = other.submit(assemble, plan, cuda, begun.set)
        building.add_done_callback(lambda _: begun.set())  # or failed before that
        begun.wait()
        from tilegen.checks.trials import check_all  # loaded meanwhile too

        faults = check_all(plan)
    if faults:
        raise TilegenError(tuple(faults))
    return program, _with_remarks(building.result())


def _with_remarks(built: Built) -> Built:
    """Machine code that only spends more than it need is right: the plan says so. Raises TilegenError for the rest."""
    wasteful = [d for d in built.diagnostics if d.code == Code.GATE_OVERHEAD.name]
    if len(wasteful) < len(built.diagnostics):
        raise TilegenError(built.diagnostics)
    remarks = (f"{d.message}: {d.got} in place of {d.wanted}" for d in wasteful)
    return replace(built, plan=replace(built.plan, notes=(*built.plan.notes, *remarks)), diagnostics=())
