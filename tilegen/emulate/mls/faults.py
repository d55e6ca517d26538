"""Faults of an emulated MLS program, from the part that meets one to the error that the user sees."""

from __future__ import annotations

from typing import NoReturn

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.diagnostics.core import Note
from tilegen.syntax.span import Span
from tilegen.targets.mls.program import Instruction, Program
from tilegen.targets.mls.text import instruction_text


class FaultError(Exception):
    """What an instruction met: `code` of the catalogue, `what` in words."""

    def __init__(self, code: Code, what: str) -> None:
        super().__init__(what)
        self.code = code
        self.what = what


def report(error: FaultError, program: Program, instruction: Instruction, place: Span, where: str) -> NoReturn:
    """Raise the fault as a diagnostic; `where` names wave and workgroup."""
    tile = f"tile {instruction.access.tile}: " if instruction.access else ""
    notes: tuple[Note, ...] = ()
    if instruction.line:
        whole = Span(program.source, instruction.line, 1, instruction.line + 1, 1)
        notes = (Note(whole, instruction.comment or "the statement that it is for"),)
    fail(
        error.code, place, notes=notes,
        what=f"{tile}{error.what} (`{instruction_text(instruction)}`, {where})",
    )  # fmt: skip
