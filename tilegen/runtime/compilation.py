"""From a spec to everything that its compilation yields: what `tilegen.compile` and every command start with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.checks import resources
from tilegen.checks.trials import check_all
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan import Plan
from tilegen.ir.tile import ParamValue, TileProgram
from tilegen.passes.pipeline import lower
from tilegen.runtime.kernel import Kernel
from tilegen.sema.loading import load
from tilegen.syntax.span import Source
from tilegen.targets.hopper.build import Built, build


@dataclass(frozen=True)
class Compilation:
    """A spec with its parameters bound, and what became of it."""

    program: TileProgram
    plan: Plan
    built: Built

    @property
    def title(self) -> str:
        """The kernel and its parameters in one line."""
        values = (f"{name}={str(value).lower()}" for name, value in self.program.params)
        return " ".join((self.program.name, *values))

    def kernel(self) -> Kernel:
        return Kernel(self.program, self.plan, self.built)


def compile_source(source: Source, params: Mapping[str, str | ParamValue], target: str = "hopper") -> Compilation:
    """Compile a spec and run every static check. Raises TilegenError with all that is wrong."""
    program = load(source, params)
    plan = lower(program, target)
    if faults := resources.check(plan) or check_all(plan):
        raise TilegenError(tuple(faults))
    built = build(plan, source)
    if built.diagnostics:
        raise TilegenError(built.diagnostics)
    return Compilation(program, plan, built)
