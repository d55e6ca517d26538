"""PTX as NVRTC writes it, a line an instruction: what stands where, and changes of single lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

_INSTRUCTION = re.compile(r"^\s*(?:(@!?%?\w+)\s+)?([a-z][\w.:]*)(?:\s+(.*?))?\s*;\s*$")
_LABEL = re.compile(r"^\s*([$\w]+):\s*$")
_REGISTER = re.compile(r"%[a-z]+\d+\b")
_ENTRY = re.compile(r"\.(?:entry|func)\s+(\w+)")
_MAP = re.compile(r"\.param \.align 128 \.b8 (\w+)\[128\]")
_WIDTHS = {"%r": "b32", "%rd": "b64", "%rs": "b16", "%f": "f32", "%p": "pred"}


@dataclass(frozen=True)
class Instruction:
    """`at`: the line's index. `guard`: "@%p1", "@!%p1" or "". Operands are texts, brackets kept together."""

    at: int
    function: str
    guard: str
    name: str
    operands: tuple[str, ...]

    @property
    def opcode(self) -> str:
        return self.name.split(".")[0]

    @property
    def type(self) -> str:
        """The last modifier."""
        return self.name.rsplit(".", 1)[-1]

    def __str__(self) -> str:
        return f"{self.guard + ' ' if self.guard else ''}{self.name} {', '.join(self.operands)}".rstrip() + ";"

    def put(self, n: int, operand: str) -> Instruction:
        """With operand n replaced."""
        return replace(self, operands=(*self.operands[:n], operand, *self.operands[n + 1 :]))

    def swapped(self, n: int, m: int) -> Instruction:
        """With two operands exchanged."""
        return self.put(n, self.operands[m]).put(m, self.operands[n])

    def starts(self, *prefixes: str) -> bool:
        return self.name.startswith(prefixes)


Lines = tuple[str, ...]


@dataclass(frozen=True)
class Mutant:
    """A change of a text: new lines in place of some. `where` tells it."""

    kind: str
    where: str
    edits: tuple[tuple[int, Lines], ...]

    def applied(self, text: Text) -> str:
        lines: list[Lines] = [(line,) for line in text.lines]
        for at, new in self.edits:
            lines[at] = new
        return "\n".join(line for group in lines for line in group) + "\n"


class Text:
    """A module's text, taken apart."""

    def __init__(self, ptx: str) -> None:
        self.lines: Lines = tuple(ptx.rstrip("\0 \n").splitlines())
        self.labels: dict[str, int] = {}  # those of blocks; `again` stands once a wait
        found = []
        function = ""
        for at, line in enumerate(self.lines):
            if entry := _ENTRY.search(line):
                function = entry[1]
            if label := _LABEL.match(line):
                self.labels[label[1]] = at
            elif (match := _INSTRUCTION.match(line)) and not line.lstrip().startswith((".", "//")):
                operands = tuple(_split(match[3])) if match[3] else ()
                found.append(Instruction(at, function, match[1] or "", match[2], operands))
        self.instructions = tuple(found)

    @cached_property
    def by_line(self) -> dict[int, int]:
        """Positions in `instructions` by line."""
        return {i.at: n for n, i in enumerate(self.instructions)}

    @cached_property
    def _writers(self) -> dict[tuple[str, str], tuple[Instruction, ...]]:
        out: dict[tuple[str, str], list[Instruction]] = {}
        for i in self.instructions:
            if i.operands and i.opcode not in ("st", "bra", "bar", "wgmma", "mbarrier", "cp", "prefetch", "stmatrix"):
                for register in registers(i.operands[0]):
                    out.setdefault((i.function, register), []).append(i)
        return {register: tuple(every) for register, every in out.items()}

    def writers(self, i: Instruction, register: str) -> tuple[Instruction, ...]:
        """The instructions that write a register of i's function: as first operand, or in a pair or vector there."""
        return self._writers.get((i.function, register), ())

    @cached_property
    def maps(self) -> tuple[str, ...]:
        """Parameters that are tensor maps."""
        return tuple(_MAP.findall("\n".join(self.lines)))

    def named(self, *prefixes: str) -> Iterator[Instruction]:
        """Instructions whose names begin so."""
        return (i for i in self.instructions if i.starts(*prefixes))

    def where(self, i: Instruction) -> str:
        """An instruction with its line, for people."""
        text = str(i)
        return f"line {i.at + 1} `{text if len(text) < 120 else text[:60] + ' … ' + text[-50:]}`"

    def straight_between(self, first: int, last: int) -> bool:
        """Whether nothing branches, and nothing is branched to, between two lines."""
        return not any(
            _LABEL.match(line) or re.match(r"\s*(@!?\S+\s+)?(bra|ret|exit)\b", line)
            for line in self.lines[first + 1 : last]
        )


def registers(operand: str) -> list[str]:
    return _REGISTER.findall(operand)


def width(register: str) -> str:
    """The type a register is declared with."""
    return _WIDTHS[re.sub(r"\d+$", "", register)]


def through(i: Instruction, n: int, register: str, *making: str) -> Lines:
    """An instruction that reads, in operand n, another register in place of this one. `making`: the instructions that
    compute it; `{new}` and `{old}` in them stand for the two."""
    kind = width(register)
    new = "mutated"
    made = tuple(line.format(new=new, old=register) + ";" for line in making)
    # whole words: %r1 is not a part of %r12
    operand = re.sub(re.escape(register) + r"\b", new, i.operands[n])
    return ("{", f".reg .{'s32' if kind == 'b32' else kind} {new};", *made, str(i.put(n, operand)), "}")


def shifted(i: Instruction, n: int, by: int) -> Lines:
    """An instruction with `by` added to operand n: to a number, to an address, to the first register in it."""
    operand = i.operands[n]
    if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", operand):
        return (str(i.put(n, str(int(operand, 0) + by))),)
    if operand.startswith("[") and "," not in operand:
        base, _, offset = operand.strip("[] ").partition("+")
        moved = int(offset or 0) + by
        return (str(i.put(n, f"[{base}+{moved}]")),)
    register = registers(operand)[0]
    return through(i, n, register, f"add.{'s64' if width(register) == 'b64' else 's32'} {{new}}, {{old}}, {by}")


def _split(text: str) -> Iterable[str]:
    """Operands at the commas outside brackets."""
    depth, start = 0, 0
    for at, character in enumerate(text):
        if character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()
