"""SASS of a cubin: nvdisasm's text, and its instructions, basic blocks and loops.

The gates and `inspect` ask it what the assembler made of a plan; nothing here knows the plan.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.targets.hopper.control_flow import Block, Loop, basic_blocks, natural_loops
from tilegen.targets.hopper.nvrtc import strip_root
from tilegen.targets.hopper.tools import nvdisasm

MOVES = ("MOV", "IMAD.MOV")
TENSOR_CORE = ("HGMMA", "QGMMA", "IGMMA", "BGMMA", "HMMA")
# What shows that a Hopper feature is really in the machine code: name -> opcodes that count for it.
EVIDENCE: dict[str, tuple[str, ...]] = {
    "UTMALDG": ("UTMALDG",),
    "UTMASTG": ("UTMASTG",),
    "SYNCS.ARRIVE.TRANS64": ("SYNCS.ARRIVE.TRANS64",),
    "ELECT": ("ELECT",),
    "HGMMA": ("HGMMA",),
    "HMMA": ("HMMA",),
    "USETMAXREG": ("USETMAXREG",),
    "LDGSTS": ("LDGSTS",),
    "ARRIVES.LDGSTSBAR": ("ARRIVES.LDGSTSBAR",),
    "PREEXIT": ("PREEXIT",),
    "ACQBULK": ("ACQBULK",),
    "LDL": ("LDL",),
    "STL": ("STL",),
}
NO_BYTES = ".A1T0"  # of a SYNCS.ARRIVE.TRANS64 that arrives once and expects no bytes


@dataclass(frozen=True)
class Place:
    """A line of a source text, as `#line` named it."""

    file: str
    line: int


@dataclass(frozen=True)
class Instruction:
    """One machine instruction. `places` has its source line first, then where that was inlined, outwards. labels: those
    in front of it."""

    address: int
    predicate: str  # "@P0", "@!UP1", or ""
    opcode: str  # with modifiers: "HGMMA.64x80x16.F32.BF16"
    operands: tuple[str, ...]
    places: tuple[Place, ...] = ()
    target: int | None = None  # of a branch, or of BSSY: an address
    labels: tuple[str, ...] = ()

    def is_a(self, *names: str) -> bool:
        """Whether the opcode is one of these, modifiers beyond those named allowed."""
        return any(self.opcode == n or self.opcode.startswith(n + ".") for n in names)

    @property
    def is_copy(self) -> bool:
        """Whether it moves a register. A literal that is moved is a value of the spec's own, such as one of `where`."""
        return self.is_a(*MOVES) and not re.match(r"-?\d", self.operands[-1])

    def __str__(self) -> str:
        return " ".join(filter(None, (self.predicate, self.opcode, ", ".join(self.operands))))


@dataclass(frozen=True)
class Function:
    """The code of one kernel."""

    name: str
    instructions: tuple[Instruction, ...]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return basic_blocks(self.instructions)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Natural loops in order of their first instruction, nested ones included."""
        return natural_loops(self.blocks)

    def code(self, blocks: Iterable[int]) -> tuple[Instruction, ...]:
        """The instructions of these blocks, in the order given."""
        return tuple(i for b in blocks for i in self.blocks[b].instructions)

    @cached_property
    def product_loops(self) -> tuple[Loop, ...]:
        """The innermost loops that hold tensor-core instructions: the consumers' streamed loops."""
        busy = [p for p in self.loops if any(i.is_a(*TENSOR_CORE) for i in self.code(sorted(p.blocks)))]
        return tuple(p for p in busy if not any(q.blocks < p.blocks for q in busy))

    def evidence(self) -> dict[str, int]:
        """How often each opcode of EVIDENCE stands in the code, and how many loads are MULTICAST."""
        telling = [i for i in self.instructions if NO_BYTES not in i.opcode]
        counts = {name: count(telling, *opcodes) for name, opcodes in EVIDENCE.items()}
        counts["MULTICAST"] = sum(".MULTICAST" in i.opcode for i in self.instructions)
        return counts

    def register_counts(self) -> tuple[int, ...]:
        """What the setmaxnreg instructions ask for, in order of address."""
        asked = (i.operands[-1] for i in self.instructions if i.is_a("USETMAXREG"))
        return tuple(int(operand, 0) for operand in asked)


@dataclass(frozen=True)
class Sass:
    """The disassembly of a cubin."""

    text: str
    functions: tuple[Function, ...] = field(repr=False)

    def function(self, name: str) -> Function:
        """Raises KeyError where the cubin has no such kernel."""
        for f in self.functions:
            if f.name == name:
                return f
        raise KeyError(name)


def count(instructions: Iterable[Instruction], *names: str) -> int:
    return sum(i.is_a(*names) for i in instructions)


def histogram(instructions: Iterable[Instruction]) -> Counter[str]:
    """How often each opcode, with its modifiers, occurs."""
    return Counter(i.opcode for i in instructions)


# ---- nvdisasm ------------------------------------------------------------------------------------


def disassemble(cubin: bytes) -> str:
    """The text of every code section, with source lines. Raises TilegenError where nvdisasm is absent or fails."""
    tool = nvdisasm()
    if tool is None:
        fail(Code.DISASSEMBLER_MISSING, None)
    try:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            # -ndf: it would name targets of indirect jumps, which there are none of, for a third of its time
            done = subprocess.run([tool, "-c", "-gi", "-ndf", file.name], capture_output=True, text=True, check=False)
    except OSError as error:  # no room for temporary files
        fail(Code.DISASSEMBLER_FAILED, None, reason=error.strerror or str(error))
    if done.returncode:
        fail(Code.DISASSEMBLER_FAILED, None, reason=done.stderr.strip().replace(file.name, "the cubin"))
    return strip_root(done.stdout)


# ---- its text ------------------------------------------------------------------------------------

_SECTION = re.compile(r"^\.text\.(\S+):$")
_LABEL = re.compile(r"^(\.L_\S+|\$\S+):$")
_PLACE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*(?:\(\*.*\*\))?\s*;")
_TARGET = re.compile(r"`\((\S+)\)")


def parse_sass(text: str) -> Sass:
    """The functions of an `nvdisasm -c` text, with or without `-g`."""
    functions: list[Function] = []
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []  # labels of the next instruction
    places: list[Place] = []
    fresh = False  # a place was read since the last instruction
    name = ""

    def finish() -> None:
        if name:
            functions.append(Function(name, tuple(_resolved(i, labels) for i in found)))

    for line in text.splitlines():
        if m := _INSTRUCTION.match(line):
            address = int(m[1], 16)
            labels.update((label, address) for label in waiting)
            found.append(Instruction(address, m[2] or "", m[3], _operands(m[4]), tuple(places), labels=tuple(waiting)))
            waiting.clear()
            fresh = False
        elif m := _PLACE.match(line):
            if not fresh:
                places.clear()
            fresh = True
            places.append(Place(m[1], int(m[2])))
        elif m := _SECTION.match(line):
            finish()
            name, found, labels, places, fresh = m[1], [], {}, [], False
        elif m := _LABEL.match(line):
            waiting.append(m[1])
    finish()
    return Sass(text, tuple(functions))


def _operands(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


def _resolved(i: Instruction, labels: dict[str, int]) -> Instruction:
    m = _TARGET.search(i.operands[-1]) if i.operands else None
    if m is None or m[1] not in labels:
        return i
    return replace(i, target=labels[m[1]])
