"""MLS programs as data: what the lowering builds, the assembler reads back, the checks and the emulator take.

`program_text` prints one; `tilegen.targets.mls.parsing.parse` reads the text back to the same program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tilegen.ir.dtypes import DType

# ---- operands ----


@dataclass(frozen=True)
class SGPR:
    """Scalar registers index … index + count - 1."""

    index: int
    count: int = 1


@dataclass(frozen=True)
class VGPR:
    """Vector registers index … index + count - 1."""

    index: int
    count: int = 1


@dataclass(frozen=True)
class Special:
    """m0, vcc, exec, or `off`: a global access without an SGPR base."""

    name: str


@dataclass(frozen=True)
class Int:
    """A 32-bit pattern, or a 64-bit one sign-extended, as a whole number from -2**31 to 2**32 - 1."""

    value: int


@dataclass(frozen=True)
class Float:
    """An f32 number; the value is exact in f32 and finite (others are written as patterns)."""

    value: float


@dataclass(frozen=True)
class Signed:
    """A float source with modifiers: -x, |x|, -|x|."""

    of: SGPR | VGPR
    negative: bool = False
    magnitude: bool = False


@dataclass(frozen=True)
class Target:
    """A label as an operand."""

    label: str


Operand: TypeAlias = "SGPR | VGPR | Special | Int | Float | Signed | Target"

# ---- what an instruction moves: for reports, checks and the emulator; the machine ignores it ----


@dataclass(frozen=True)
class Part:
    """One summand of a coordinate: factor * (of / divisor), or factor * (of % divisor) where `rest`; / rounds down.

    of: a register of the executing wave at this moment (a VGPR: of each lane), or "line", "run": the position inside
    what the instruction moves, along the non-contiguous and the contiguous direction ("run" alone for accesses of a
    lane: the number of the element among those it moves).
    """

    of: SGPR | VGPR | str
    factor: int = 1
    divisor: int = 1
    rest: bool = False


@dataclass(frozen=True)
class Coordinate:
    """Sum of parts and a constant. limit: positions from there on are outside what is to be moved, even where the
    tensor goes on (None: the tensor's extent alone counts)."""

    parts: tuple[Part, ...]
    constant: int = 0
    limit: SGPR | int | None = None


@dataclass(frozen=True)
class Access:
    """The elements of a tensor that a load brings, a read is to find, or a store writes; outside the tensor, or from
    a limit on, a read is to find zeros. tile: its name in the spec, or that of what stands in LDS.

    tensor "": only the tile's name is known (values that lanes wrote, or zeros written over rows of a tile).
    """

    tile: str
    tensor: str = ""
    coordinates: tuple[Coordinate, ...] = ()


# ---- lines ----


@dataclass(frozen=True)
class Instruction:
    """name: in isa.OPCODES; operands in its order; modifiers (`offset` 16) and words (`t`) in its order, those left
    out being 0 and absent. comment: free text, one line; line: of the spec, 0 for none."""

    name: str
    operands: tuple[Operand, ...] = ()
    modifiers: tuple[tuple[str, int], ...] = ()
    words: tuple[str, ...] = ()
    access: Access | None = None
    comment: str = ""
    line: int = 0

    def modifier(self, name: str) -> int | None:
        """Its value; None if it is left out."""
        return dict(self.modifiers).get(name)


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True)
class Remark:
    """A line of its own with a comment."""

    text: str


Line: TypeAlias = "Instruction | Label | Remark"

# ---- the kernel ----


@dataclass(frozen=True)
class Argument:
    """A value at byte `offset` of the kernel's arguments.

    kind: "input", "output" (the 64-bit address of a tensor of `rank` axes; every element of an output is written
    exactly once), "i32", "i64", "f32". rank and dtype are those of a tensor.
    """

    offset: int
    name: str
    kind: str
    dtype: DType | None = None
    rank: int = 0

    @property
    def bytes(self) -> int:
        return 4 if self.kind in ("i32", "f32") else 8


@dataclass(frozen=True)
class Ring:
    """Where a tile stands in LDS: `slots` of `slot_bytes` each, from byte `base` on."""

    tile: str
    dtype: DType
    base: int
    slots: int
    slot_bytes: int


@dataclass(frozen=True)
class Program:
    """One kernel: workgroups of `waves` waves, `lds` bytes of LDS; sgprs, vgprs: the number of registers it uses
    (the highest index plus one). source: the spec's name in reports."""

    name: str
    source: str
    waves: int
    lds: int
    sgprs: int
    vgprs: int
    arguments: tuple[Argument, ...]
    rings: tuple[Ring, ...]
    lines: tuple[Line, ...]

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        return tuple(line for line in self.lines if isinstance(line, Instruction))

    @property
    def argument_bytes(self) -> int:
        return max((a.offset + a.bytes for a in self.arguments), default=0)

    def argument(self, name: str) -> Argument:
        return next(a for a in self.arguments if a.name == name)
