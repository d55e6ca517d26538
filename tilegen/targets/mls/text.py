"""MLS programs as text, which `parsing.parse` reads back to the same program."""

from __future__ import annotations

import numpy as np

from tilegen.targets.mls.program import (
    SGPR,
    VGPR,
    Access,
    Argument,
    Coordinate,
    Float,
    Instruction,
    Int,
    Label,
    Line,
    Operand,
    Part,
    Program,
    Remark,
    Signed,
    Special,
    Target,
)

_INDENT = "    "
_COMMENT_COLUMN = 60
_DECIMAL = 1 << 16  # larger patterns are read more easily in hexadecimal


def program_text(program: Program) -> str:
    """The whole file, with a line end at its end."""
    return "\n".join([*_header(program), "", *map(line_text, program.lines)]) + "\n"


def header_lines(program: Program) -> int:
    """How many lines of its text stand in front of the program's own."""
    return len(_header(program)) + 1


def _header(program: Program) -> list[str]:
    return [
        f".kernel {program.name}",
        f".source {program.source}",
        f".waves {program.waves}",
        f".lds {program.lds}",
        f".sgprs {program.sgprs}",
        f".vgprs {program.vgprs}",
        *(f".arg {a.offset} {a.name}: {_kind(a)}" for a in program.arguments),
        *(f".ring {r.tile}: {r.dtype} at {r.base}, {r.slots} of {r.slot_bytes}" for r in program.rings),
    ]


def line_text(line: Line) -> str:
    """One line, without its line end."""
    if isinstance(line, Label):
        return f"{line.name}:"
    if isinstance(line, Remark):
        return f"; {line.text}".rstrip()
    body = _INDENT + instruction_text(line)
    comment = " | ".join(([f"@{line.line}"] if line.line else []) + ([line.comment] if line.comment else []))
    return f"{body:<{_COMMENT_COLUMN}} ; {comment}" if comment else body


def instruction_text(instruction: Instruction) -> str:
    """An instruction without its comment."""
    parts = [instruction.name]
    if instruction.operands:
        parts.append(", ".join(map(operand_text, instruction.operands)))
    form = "{}({})" if instruction.name == "s_waitcnt" else "{}:{}"
    parts += [form.format(name, value) for name, value in instruction.modifiers]
    parts += instruction.words
    if instruction.access is not None:
        parts.append(access_text(instruction.access))
    return " ".join(parts)


def operand_text(operand: Operand) -> str:
    match operand:
        case SGPR(index, count):
            return _range("s", index, count)
        case VGPR(index, count):
            return _range("v", index, count)
        case Special(name):
            return name
        case Int(value):
            return str(value) if abs(value) < _DECIMAL else hex(value)
        case Float(value):
            return float_text(value)
        case Signed(of, negative, magnitude):
            inner = operand_text(of)
            return f"{'-' if negative else ''}{f'|{inner}|' if magnitude else inner}"
        case Target(label):
            return label


def float_text(value: float) -> str:
    """The shortest decimal that is this number in f32, with a point or an exponent in it."""
    text = str(np.float32(value))
    return text if any(c in text for c in ".e") else f"{text}.0"


def access_text(access: Access) -> str:
    if not access.tensor:
        return f"{{{access.tile}}}"
    return f"{{{access.tile}: {access.tensor}[{', '.join(map(_coordinate, access.coordinates))}]}}"


def _coordinate(coordinate: Coordinate) -> str:
    parts = list(map(_part, coordinate.parts))
    if coordinate.constant or not parts:
        parts.append(str(coordinate.constant))
    text = " + ".join(parts)
    match coordinate.limit:
        case None:
            return text
        case SGPR():
            return f"{text} < {operand_text(coordinate.limit)}"
        case limit:
            return f"{text} < {limit}"


def _part(part: Part) -> str:
    text = part.of if isinstance(part.of, str) else operand_text(part.of)
    if part.divisor != 1 or part.rest:
        text = f"{text} {'%' if part.rest else '/'} {part.divisor}"
    return text if part.factor == 1 else f"{part.factor} * {text}"


def _kind(argument: Argument) -> str:
    return f"{argument.kind} {argument.dtype}[{argument.rank}]" if argument.dtype is not None else argument.kind


def _range(letter: str, index: int, count: int) -> str:
    return f"{letter}{index}" if count == 1 else f"{letter}[{index}:{index + count - 1}]"
