"""Faults of the emulated program, from the instruction that meets one to the error that the user sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.diagnostics.core import Note
from tilegen.emulate.ptx.module import Place
from tilegen.syntax.span import Span


class FaultError(Exception):
    """What an instruction found wrong: `what` in words, the linear thread index where one thread is at fault, other
    places that belong to it."""

    def __init__(
        self,
        what: str,
        thread: int | None = None,
        code: Code = Code.EMULATED_FAULT,
        notes: Sequence[tuple[Span | None, str]] = (),
    ) -> None:
        super().__init__(what)
        self.what = what
        self.thread = thread
        self.code = code
        self.notes = tuple(Note(span, text) for span, text in notes if span is not None)


def unknown_instruction(name: str, why: str, place: Place) -> NoReturn:
    """The text holds an instruction, or a form of one, that the emulator does not know."""
    fail(Code.PTX_UNKNOWN_INSTRUCTION, place.source, instruction=name, why=why, line=place.line)


def syntax_error(what: str, place: Place) -> NoReturn:
    """The text is no PTX as the emulator reads it."""
    fail(Code.PTX_SYNTAX, place.source, what=what, line=place.line)


def execution_fault(
    what: str,
    instruction: str,
    place: Place,
    where: str,
    code: Code = Code.EMULATED_FAULT,
    notes: tuple[Note, ...] = (),
) -> NoReturn:
    """An instruction did something that the hardware forbids, or leaves open; `where` names thread and CTA."""
    fail(code, place.source, notes=notes, what=what, instruction=instruction, line=place.line, where=where)
