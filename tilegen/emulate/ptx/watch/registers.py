"""Registers that products have in flight, and those touched since the last wgmma.fence: as bit masks, a bit a register.

One mask a run of instructions tells whether any of them touches a register, so that a run costs one AND and one OR.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tilegen.emulate.ptx.module import Address, Instruction, Not, Operand, Pair, Register, Vector
from tilegen.emulate.ptx.types import Array


def registers_of(instruction: Instruction) -> int:
    """The 32-bit registers that an instruction names."""
    mask = 0
    for operand in instruction.operands:
        mask |= _mask(operand)
    return mask


def _mask(operand: Operand) -> int:
    match operand:
        case Register(_, 32, index):
            return 1 << index
        case Vector(items):
            return _any(items)
        case Pair(first, second):
            return _mask(first) | _mask(second)
        case Not(inner):
            return _mask(inner)
        case Address(base, _, coordinates):
            return _mask(base) | _any(coordinates)
    return 0


def _any(items: Iterable[Operand]) -> int:
    mask = 0
    for item in items:
        mask |= _mask(item)
    return mask


def bits(registers: Array) -> int:
    """The mask of registers by their indices."""
    mask = 0
    for index in registers.tolist():
        mask |= 1 << index
    return mask


@dataclass(frozen=True)
class Product:
    """A product in flight: `number` counts those of its warpgroup from 1."""

    number: int
    pc: int
    accumulator: int
    fragment: int


@dataclass
class Flight:
    """The registers of one warpgroup. `waited[w]`: the last product that warp w of it knows to be over."""

    products: list[Product] = field(default_factory=list)
    waited: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    flying: int = 0
    touched: int = 0
    fenced: bool = False

    def issue(self, product: Product) -> None:
        self.products.append(product)
        self.flying |= product.accumulator | product.fragment

    def wait(self, warps: Iterable[int], number: int) -> None:
        """Warps of the group know that products up to `number` are over."""
        for w in warps:
            self.waited[w] = max(self.waited[w], number)
        over = min(self.waited)
        self.products = [p for p in self.products if p.number > over]
        self.flying = 0
        for p in self.products:
            self.flying |= p.accumulator | p.fragment

    def of(self, warps: Iterable[int], mask: int) -> Product | None:
        """A product that has one of these registers of one of these warps in flight."""
        after = min(self.waited[w] for w in warps)
        return next((p for p in self.products if p.number > after and (p.accumulator | p.fragment) & mask), None)
