"""Compile a spec for the MLS machine: of the schedules that it leaves open, the first that the machine has room for."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.mls_plan import MlsPlan
from tilegen.ir.tile import TileProgram
from tilegen.passes.pipeline import to_folded
from tilegen.passes.synchronise_mls import synchronise
from tilegen.passes.synchronise_mls.schedule import schedules
from tilegen.targets.mls.lower.kernel import lower
from tilegen.targets.mls.lower.movement import Moved
from tilegen.targets.mls.program import Program
from tilegen.targets.mls.text import program_text

_NO_ROOM = frozenset({Code.MLS_LDS.name, Code.MLS_REGISTERS.name})


@dataclass(frozen=True)
class MlsBuilt:
    """What a compilation yields: the plan, the program made of it, its text, and which lines move which tile."""

    plan: MlsPlan
    program: Program
    moved: tuple[Moved, ...]

    @property
    def text(self) -> str:
        return program_text(self.program)


def build(program: TileProgram, defects: frozenset[str] = frozenset()) -> MlsBuilt:
    """The program of the first of its schedules for mls. defects: `targets.mls.lower.movement.DEFECTS`.

    Raises TilegenError for what cannot be, naming what it would take where no choice of blocks has room.
    """
    chosen = program.schedule("mls")
    guard = chosen.guard if chosen else None
    folded = to_folded(program)
    first: TilegenError | None = None
    for s in schedules(folded, program.directives("mls")):
        try:
            plan = synchronise(s, guard)
            made = lower(plan, defects)
            return MlsBuilt(plan, made.program, made.moved)
        except TilegenError as error:
            if any(d.code not in _NO_ROOM for d in error.diagnostics):
                raise
            first = error  # of the last and smallest choice
    assert first is not None
    raise first
