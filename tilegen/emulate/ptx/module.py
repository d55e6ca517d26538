"""A parsed PTX module: instructions with their operands, functions and variables. Plain frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilegen.syntax.span import Span

if TYPE_CHECKING:
    from tilegen.emulate.ptx.decode import Decoded


@dataclass(frozen=True)
class Register:
    """A register of the module's register file: `width` in bits (1 = predicate), `index` in that width's array."""

    name: str
    width: int
    index: int


@dataclass(frozen=True)
class Immediate:
    """A literal. `value` is the raw pattern of `0f`/`0d` literals, whose `width` is 32 or 64, else the number."""

    value: int | float
    width: int = 0


@dataclass(frozen=True)
class Special:
    """A special register such as `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Symbol:
    """The address of a variable, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Not:
    """`!p`: a negated predicate."""

    operand: Register


@dataclass(frozen=True)
class Pair:
    """`p|q`: two destinations."""

    first: Register | Sink
    second: Register | Sink


@dataclass(frozen=True)
class Sink:
    """`_`: a result nobody wants."""


@dataclass(frozen=True)
class Vector:
    """`{a, b, …}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Address:
    """`[base + offset]`; `coordinates` for a tensor operand `[map, {x, y, …}]`."""

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Label:
    """A branch target or a function: its name, and for a target the index of the instruction that it stands before."""

    name: str
    target: int = -1


Operand = Register | Immediate | Special | Symbol | Not | Pair | Sink | Vector | Address | Label


@dataclass(frozen=True)
class Place:
    """Where an instruction stands: 1-based line of the PTX text, and the source place that `.loc` gives for it."""

    line: int
    source: Span | None = None


@dataclass(frozen=True)
class Instruction:
    """One instruction: opcode, its modifiers in order (types among them), operands, guard predicate."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    place: Place
    guard: Register | None = None
    guard_negated: bool = False

    @property
    def name(self) -> str:
        """The instruction as PTX spells it, without operands."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True)
class Variable:
    """A variable: state space, alignment and size in bytes, initial bytes (b'' = none); `extern` unsized is dynamic.

    `relocations` are (byte offset, symbol) of initialisers that hold another variable's address.
    """

    name: str
    space: str
    align: int
    size: int
    init: bytes = b""
    extern: bool = False
    relocations: tuple[tuple[int, Symbol], ...] = ()


@dataclass(frozen=True)
class Function:
    """A kernel (`entry`) or a device function. `order` is the scheduling rank of each instruction (see cfg.py)."""

    name: str
    entry: bool
    params: tuple[Variable, ...]
    results: tuple[Variable, ...]
    locals: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    decoded: tuple[Decoded, ...]
    leaders: frozenset[int]
    order: tuple[int, ...]
    max_threads: int = 0
    max_registers: int = 0
    min_blocks: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclass(frozen=True)
class Module:
    """Everything in one PTX text. `registers` gives how many registers of each width the functions use together."""

    version: str
    target: str
    functions: dict[str, Function]
    variables: dict[str, Variable]
    registers: dict[int, int] = field(default_factory=dict)
