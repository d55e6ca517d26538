"""From a spec's path to everything that its compilation yields; what every command starts with."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tilegen.cli.values import Parameters
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan import Plan
from tilegen.ir.tile import TileProgram
from tilegen.passes.pipeline import lower
from tilegen.sema import load
from tilegen.targets.hopper.build import Built, build


@dataclass(frozen=True)
class Compilation:
    """A spec with its parameters bound, and what became of it. `seconds` is all of it, reading included."""

    program: TileProgram
    plan: Plan
    built: Built
    seconds: float

    @property
    def title(self) -> str:
        """The kernel and its parameters in one line."""
        values = (f"{name}={str(value).lower()}" for name, value in self.program.params)
        return " ".join((self.program.name, *values))


def compile_spec(spec: Path, parameters: Parameters, target: str) -> Compilation:
    """Compile a spec and run every static check. Raises TilegenError with all that is wrong."""
    started = time.perf_counter()
    program = load(spec, parameters)
    plan = lower(program, target)
    built = build(plan, program.source)
    if built.diagnostics:
        raise TilegenError(built.diagnostics)
    return Compilation(program, plan, built, time.perf_counter() - started)
