"""What became of each statement of a spec: its operations in the plan, its instructions in the machine code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.ir.plan import For, If, Operation, Plan, Work
from tilegen.ir.plan_op_text import operation_text
from tilegen.ir.plan_walk import body_of
from tilegen.ir.tile import Definition, Move, TileProgram
from tilegen.targets.hopper.sass import Function, Instruction

_INDENT = "    "


@dataclass(frozen=True)
class Step:
    """The operations of one statement in one body of a role: `where` names the enclosing loops, outermost first."""

    role: str
    where: str
    # (lines, how many), in order of first appearance: a sweep or vote with its body, indented, others on one line
    operations: tuple[tuple[tuple[str, ...], int], ...]


@dataclass(frozen=True)
class Statement:
    """A move or equation, and what it became. `instructions`: (opcode without modifiers, how many), most first."""

    line: int
    text: str
    steps: tuple[Step, ...]
    instructions: tuple[tuple[str, int], ...]


def statements(program: TileProgram, plan: Plan, code: Function) -> tuple[Statement, ...]:
    """Every move and equation of the spec, in the order of its lines."""
    found = sorted(moves_and_equations(program), key=lambda item: (item.span.line, item.span.column))
    steps = [(role.name, where, operation) for role in plan.roles for where, operation in _walk(role.body, ())]
    return tuple(
        Statement(
            item.span.line,
            " ".join(program.source.line(n).split("#")[0].strip() for n in _lines(item)).strip(),
            _steps(steps, item.name),
            _instructions(program.source.name, _lines(item), code.instructions),
        )
        for item in found
    )


def unclaimed(program: TileProgram, code: Function) -> int:
    """How many instructions stem from no move or equation: set-up, work decoding, loop counters."""
    lines = {n for item in moves_and_equations(program) for n in _lines(item)}
    return sum(not stems_from(i, program.source.name, lines) for i in code.instructions)


def moves_and_equations(program: TileProgram) -> tuple[Move | Definition, ...]:
    """Those of the spec, moves first."""
    return (*program.moves, *program.definitions)


def _lines(item: Move | Definition) -> range:
    return range(item.span.line, item.span.end_line + 1)


def _walk(body: tuple[Operation, ...], where: tuple[str, ...]) -> Iterator[tuple[str, Operation]]:
    """Every operation that is no loop and no branch of all threads, and where it stands."""
    for operation in body:
        if isinstance(operation, Work):
            yield from _walk(operation.body, (*where, "each work item"))
        elif isinstance(operation, For):
            yield from _walk(operation.body, (*where, operation.label or f"for {operation.var}"))
        elif isinstance(operation, If):
            yield from _walk(operation.body, (*where, operation_text(operation).rstrip(":")))
        else:
            yield " › ".join(where), operation


def _lines_of(operation: Operation, statement: str) -> tuple[str, ...]:
    """The operation as plan.txt shows it, less what belongs to other statements; () where nothing is left."""
    inner = body_of(operation)
    if not inner:
        return (operation_text(operation),) if operation.statement == statement else ()
    held = tuple(_INDENT + line for part in inner for line in _lines_of(part, statement))
    return (operation_text(operation), *held) if held else ()


def _steps(every: list[tuple[str, str, Operation]], statement: str) -> tuple[Step, ...]:
    grouped: dict[tuple[str, str], Counter[tuple[str, ...]]] = {}
    for role, where, operation in every:
        if lines := _lines_of(operation, statement):
            grouped.setdefault((role, where), Counter())[lines] += 1
    return tuple(Step(role, where, tuple(kinds.items())) for (role, where), kinds in grouped.items())


def _instructions(file: str, lines: range, code: tuple[Instruction, ...]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(i.opcode.split(".")[0] for i in code if stems_from(i, file, lines)).most_common())


def stems_from(instruction: Instruction, file: str, lines: range | set[int]) -> bool:
    """Whether the innermost spec line that the instruction names is one of these."""
    own = next((place for place in instruction.places if place.file == file), None)
    return own is not None and own.line in lines
