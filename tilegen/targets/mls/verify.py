"""What every MLS program must be, whoever made it: operands, registers, labels, modifiers, directives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic
from tilegen.syntax.span import Span
from tilegen.targets.mls import isa
from tilegen.targets.mls.program import (
    SGPR,
    VGPR,
    Access,
    Float,
    Instruction,
    Int,
    Label,
    Operand,
    Program,
    Ring,
    Signed,
    Special,
    Target,
)
from tilegen.targets.mls.text import header_lines, instruction_text, line_text, operand_text

_RANGES = {"moffset": (-512, 511), "row_ror": (1, 15), "vmcnt": (0, isa.VMCNT_MAX), "lgkmcnt": (0, isa.LGKMCNT_MAX)}
_OFFSETS = {isa.GLOBAL: (-4096, 4095), isa.LDS: (0, 65535), isa.LDS_MATRIX: (0, 65535)}
_REGISTER = re.compile(r"[sv][0-9]+$|m0$|vcc$|exec$|off$")
_WORDS = {
    "s": "an SGPR or m0", "n": "an SGPR, m0 or a number", "k": "an SGPR pair, vcc or exec", "v": "a VGPR",
    "x": "a VGPR, an SGPR or a number", "f": "a VGPR, an SGPR or a number", "c": "four VGPRs or 0",
    "b": "m0 or an SGPR", "i": "a number", "l": "a label", "g": "a VGPR or a pair of them", "e": "an SGPR pair or off",
}  # fmt: skip


def program_spans(program: Program) -> list[Span]:
    """Where each line stands in the program's own text, of the file `NAME.mls`."""
    first = header_lines(program) + 1
    spans = []
    for number, line in enumerate(program.lines, start=first):
        text = line_text(line)
        body = text.split(";")[0].rstrip() or text
        start = len(body) - len(body.lstrip()) + 1
        spans.append(Span(f"{program.name}.mls", number, start, number, max(len(body) + 1, start + 1)))
    return spans


def verify(program: Program, spans: Sequence[Span] | None = None) -> list[Diagnostic]:
    """All that is wrong with a program. spans: where its lines stand (else those of its own text are taken)."""
    places = program_spans(program) if spans is None else spans
    found = [fault(Code.MLS_PROGRAM, None, what=what) for what in _header(program)]
    labels = [line.name for line in program.lines if isinstance(line, Label)]
    known = frozenset(labels)
    for line, span in zip(program.lines, places, strict=True):
        match line:
            case Instruction():
                wrong = list(_instruction(program, line, known))
            case Label(name):
                wrong = [f"the label {name} stands here again"] if labels.count(name) > 1 else []
                if _REGISTER.match(name) or name in isa.OPCODES:
                    wrong.append(f"a label cannot be called {name}")
            case _:
                wrong = []
        found += [fault(Code.MLS_PROGRAM, span, what=what) for what in wrong]
    last = next((line for line in reversed(program.lines) if isinstance(line, Instruction | Label)), None)
    if not isinstance(last, Instruction) or last.name not in ("s_endpgm", "s_branch"):
        found.append(fault(Code.MLS_PROGRAM, places[-1] if places else None, what="the program runs past its end"))
    return found


# ---- the header ----


def _header(program: Program) -> Iterator[str]:
    for name, value, least, most in (
        ("waves", program.waves, 1, isa.WAVES),
        ("lds", program.lds, 0, isa.LDS_BYTES),
        ("sgprs", program.sgprs, 0, isa.SGPRS),
        ("vgprs", program.vgprs, 0, isa.VGPRS),
    ):
        if not least <= value <= most:
            yield f"`.{name} {value}` is not from {least} to {most}"
    end = 0
    for argument in sorted(program.arguments, key=lambda a: a.offset):
        if argument.offset < end or argument.offset % argument.bytes:
            yield f"the argument {argument.name} at byte {argument.offset} overlaps another, or is not aligned"
        end = argument.offset + argument.bytes
    for names in ([a.name for a in program.arguments], [r.tile for r in program.rings]):
        yield from (f"`{name}` stands twice in the header" for name in sorted(set(names)) if names.count(name) > 1)
    for ring in program.rings:
        if not _inside(ring, program.lds):
            yield f"the ring of {ring.tile} leaves the {program.lds} bytes of LDS"


def _inside(ring: Ring, lds: int) -> bool:
    return ring.base >= 0 and ring.slots > 0 and ring.slot_bytes > 0 and ring.base + ring.slots * ring.slot_bytes <= lds


# ---- instructions ----


def _instruction(program: Program, instruction: Instruction, labels: frozenset[str]) -> Iterator[str]:
    opcode = isa.OPCODES.get(instruction.name)
    if opcode is None:
        yield f"there is no instruction {instruction.name}"
        return
    text = instruction_text(instruction)
    if len(instruction.operands) != len(opcode.forms):
        yield f"{instruction.name} takes {len(opcode.forms)} operands, and has {len(instruction.operands)}"
        return
    for operand, form in zip(instruction.operands, opcode.forms, strict=True):
        if not _fits(operand, form, instruction):
            wanted = _WORDS[form.kind] + (f", {form.width} registers" if form.width > 1 else "")
            yield f"`{operand_text(operand)}` cannot stand here in `{text}`: wanted {wanted}"
        yield from _registers(program, operand)
        if isinstance(operand, Target) and operand.label not in labels:
            yield f"there is no label {operand.label}"
    names = [name for name, _ in instruction.modifiers]
    yield from (f"{instruction.name} has no modifier {n}" for n in names if n not in opcode.modifiers)
    yield from (f"{instruction.name} has no word {w}" for w in instruction.words if w not in opcode.words)
    if len(set(names)) < len(names) or len(set(instruction.words)) < len(instruction.words):
        yield f"a modifier stands twice in `{text}`"
    for name, value in instruction.modifiers:
        least, most = _RANGES.get(name) or _OFFSETS.get(opcode.unit) or (0, 0)
        if name in opcode.modifiers and not least <= value <= most:
            yield f"{name} {value} is not from {least} to {most}"
    yield from _special_rules(instruction, opcode)
    if instruction.access is not None:
        yield from _access(program, instruction.access, opcode)
    if instruction.comment != instruction.comment.strip() or "\n" in instruction.comment:
        yield "a comment has one line, and no blank at its ends"


def _special_rules(instruction: Instruction, opcode: isa.Opcode) -> Iterator[str]:
    if opcode.unit == isa.MLS:
        if "lds" not in instruction.words:
            yield f"{instruction.name} needs the word lds"
        transposed = "t" in instruction.words
        if transposed and instruction.name in isa.PLAIN:
            yield f"{instruction.name} has no form with t: MN is its contiguous axis"
        if not transposed and instruction.name in isa.TRANSPOSED:
            yield f"{instruction.name} needs the word t: K is its contiguous axis"
    if instruction.name == "v_mov_b32_dpp" and instruction.modifier("row_ror") is None:
        yield "v_mov_b32_dpp needs row_ror"
    if instruction.name == "s_waitcnt" and not instruction.modifiers:
        yield "s_waitcnt names a counter or both"
    match instruction:
        case Instruction("s_nop", (Int(count),)) if not 0 <= count < 16:
            yield "s_nop takes a number from 0 to 15"


def _fits(operand: Operand, form: isa.Form, instruction: Instruction) -> bool:
    match form.kind, operand:
        case "s", SGPR(index, count):
            return count == form.width and index % min(count, 4) == 0
        case (("s" | "n" | "b"), Special("m0")):
            return form.width == 1
        case "n", SGPR(index, count):
            return count == form.width and index % count == 0
        case "n", Special(name):
            return form.width == 2 and name in ("vcc", "exec")
        case (("n" | "i" | "x" | "f"), Int()):
            return True
        case "n", Float():
            return form.width == 1
        case (("x" | "f"), Float()):
            return True
        case "k", SGPR(index, count):
            return count == 2 and index % 2 == 0
        case "k", Special(name):
            return name in ("vcc", "exec")
        case (("v" | "x" | "f"), VGPR(_, count)):
            return count == form.width
        case (("x" | "f" | "b"), SGPR(_, count)):
            return count == 1
        case "f", Signed(of):
            return of.count == 1
        case "c", VGPR(_, count):
            return count == form.width
        case "c", Int(value):
            return value == 0
        case "l", Target():
            return True
        case "e", SGPR(index, count):
            return count == 2 and index % 2 == 0
        case "e", Special(name):
            return name == "off"
        case "g", VGPR(_, count):
            return count == (2 if Special("off") in instruction.operands else 1)
    return False


def _registers(program: Program, operand: Operand) -> Iterator[str]:
    match operand:
        case Signed(of):
            yield from _registers(program, of)
        case SGPR(index, count) if index + count > program.sgprs:
            yield f"`{operand_text(operand)}` is beyond `.sgprs {program.sgprs}`"
        case VGPR(index, count) if index + count > program.vgprs:
            yield f"`{operand_text(operand)}` is beyond `.vgprs {program.vgprs}`"


def _access(program: Program, access: Access, opcode: isa.Opcode) -> Iterator[str]:
    if opcode.unit not in (isa.MLS, isa.LDS, isa.LDS_MATRIX, isa.GLOBAL):
        yield f"{opcode.name} moves nothing that braces could name"
    if not access.tensor:
        return
    argument = next((a for a in program.arguments if a.name == access.tensor and a.dtype is not None), None)
    if argument is None:
        yield f"there is no tensor {access.tensor} among the arguments"
    elif argument.rank != len(access.coordinates):
        yield f"{access.tensor} has {argument.rank} axes, and {len(access.coordinates)} coordinates stand here"
    for coordinate in access.coordinates:
        if isinstance(coordinate.limit, SGPR):
            yield from _registers(program, coordinate.limit)
        for part in coordinate.parts:
            if isinstance(part.of, str):
                if part.of == "line" and opcode.unit not in (isa.MLS, isa.LDS_MATRIX):
                    yield f"what {opcode.name} moves has no lines"
                continue
            yield from _registers(program, part.of)
            if part.of.count != 1 or (isinstance(part.of, VGPR) and opcode.unit not in (isa.LDS, isa.GLOBAL)):
                yield f"`{operand_text(part.of)}` cannot stand in a coordinate of {opcode.name}"
