"""From an instruction to something that runs: the table of decoders, and what they share.

A decoder checks the instruction's form once, when the text is parsed, and returns a `Decoded`. Its `bind` is called
once a launch with the Machine and returns either

- a *step*: `step(s, m)` computes for the threads of slice `s` (mask `m` inside it, None for all), or
- a *control*: `control(unit, group) -> bool` for instructions that move the program counter, wait, or need lanes to
  meet; False says that the group now waits, and that the instruction has not been executed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tilegen.emulate.ptx.faults import unknown_instruction
from tilegen.emulate.ptx.module import Instruction, Operand
from tilegen.emulate.ptx.types import TYPES, Array, PtxType

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine
    from tilegen.emulate.ptx.unit import Group, Unit

Mask = Array | None
Step = Callable[[slice, Mask], None]
Control = Callable[["Unit", "Group"], bool]
Binder = Callable[["Machine"], Any]


@dataclass(frozen=True)
class Decoded:
    """What `bind(machine)` gives is a Control if `control`, else a Step."""

    bind: Binder
    control: bool = False


DECODERS: dict[str, Callable[[Instruction], Decoded]] = {}


def instruction(*opcodes: str) -> Callable[[Callable[[Instruction], Decoded]], Callable[[Instruction], Decoded]]:
    """Register a decoder for `opcodes`."""

    def register(decoder: Callable[[Instruction], Decoded]) -> Callable[[Instruction], Decoded]:
        for opcode in opcodes:
            DECODERS[opcode] = decoder
        return decoder

    return register


def decode(ins: Instruction) -> Decoded:
    """Decode one instruction, its guard included. Raises TilegenError for one that the emulator does not know."""
    decoder = DECODERS.get(ins.opcode)
    if decoder is None:
        unknown_instruction(ins.name, "no such instruction", ins.place)
    decoded = decoder(ins)
    if ins.guard is None or ins.opcode in ("bra", "brx"):
        return decoded
    return _guarded(ins, decoded)


def _guarded(ins: Instruction, decoded: Decoded) -> Decoded:
    guard, negated = ins.guard, ins.guard_negated
    assert guard is not None

    def bind_step(machine: Machine) -> Step:
        step: Step = decoded.bind(machine)
        p = machine.predicates[guard.index]

        def run(s: slice, m: Mask) -> None:
            on = ~p[s] if negated else p[s]
            if m is not None:
                on = on & m
            active = np.count_nonzero(on)
            if active == len(on):
                step(s, None)
            elif active:
                step(s, on.copy())

        return run

    def bind_control(machine: Machine) -> Control:
        control: Control = decoded.bind(machine)
        p = machine.predicates[guard.index]

        def run(unit: Unit, group: Group) -> bool:
            on = unit.bits_where(group, ~p if negated else p)
            if on == 0:
                return unit.advance(group)
            if on != group.bits:
                unit.split(group, group.bits & ~on, group.pc + 1)
            return control(unit, group)

        return run

    return Decoded(bind_control, True) if decoded.control else Decoded(bind_step)


class Modifiers:
    """The modifiers of an instruction, taken one by one; `done` refuses what nobody took."""

    def __init__(self, ins: Instruction) -> None:
        self.ins = ins
        self.left = list(ins.modifiers)

    def flag(self, name: str) -> bool:
        """Take `name` if it is there."""
        if name in self.left:
            self.left.remove(name)
            return True
        return False

    def one(self, *names: str, default: str = "") -> str:
        """Take the first modifier that is among `names`."""
        for name in self.left:
            if name in names:
                self.left.remove(name)
                return name
        return default

    def need(self, *names: str) -> str:
        """Like `one`, but it must be there."""
        return self.one(*names) or self.unknown(f"it needs one of .{', .'.join(names)}")

    def type(self, *allowed: str) -> PtxType:
        """Take the first type; it must be among `allowed` (all types of values if none are given)."""
        for name in self.left:
            if name in TYPES:
                if name == "pred" and not allowed:
                    self.unknown("it takes no predicates")
                if allowed and name not in allowed:
                    self.unknown(f"type .{name} is not one of .{', .'.join(allowed)}")
                self.left.remove(name)
                return TYPES[name]
        return self.unknown("it has no type")

    def done(self) -> None:
        """Refuse modifiers that are left."""
        if self.left:
            self.unknown(f"modifier .{self.left[0]} is not known here")

    def unknown(self, why: str) -> NoReturn:
        """Refuse the instruction."""
        unknown_instruction(self.ins.name, why, self.ins.place)

    def operands(self, *counts: int) -> tuple[Operand, ...]:
        """The operands, of which there must be one of `counts`."""
        if len(self.ins.operands) not in counts:
            self.unknown(f"it has {len(self.ins.operands)} operands, not {' or '.join(map(str, counts))}")
        return self.ins.operands


def active(s: slice, m: Mask) -> Array:
    """Indices inside the slice of the threads that execute."""
    return np.arange(s.stop - s.start) if m is None else np.nonzero(m)[0]


def put(d: Array, s: slice, m: Mask, value: Any) -> None:
    """Write `value` to the active threads of row `d`."""
    if m is None:
        d[s] = value
    else:
        np.copyto(d[s], value, where=m)


def ufunc1(f: np.ufunc, d: Array, a: Array) -> Step:
    """d = f(a) by one numpy function."""

    def step(s: slice, m: Mask) -> None:
        if m is None:
            f(a[s], d[s])
        else:
            f(a[s], out=d[s], where=m)

    return step


def ufunc2(f: np.ufunc, d: Array, a: Array, b: Array) -> Step:
    """d = f(a, b) by one numpy function."""

    def step(s: slice, m: Mask) -> None:
        if m is None:
            f(a[s], b[s], d[s])
        else:
            f(a[s], b[s], out=d[s], where=m)

    return step


def map1(f: Callable[[Array], Array], d: Array, a: Array) -> Step:
    """d = f(a), f a function on vectors of threads."""

    def step(s: slice, m: Mask) -> None:
        put(d, s, m, f(a[s]))

    return step


def map2(f: Callable[[Array, Array], Array], d: Array, a: Array, b: Array) -> Step:
    """d = f(a, b)."""

    def step(s: slice, m: Mask) -> None:
        put(d, s, m, f(a[s], b[s]))

    return step


def map3(f: Callable[[Array, Array, Array], Array], d: Array, a: Array, b: Array, c: Array) -> Step:
    """d = f(a, b, c)."""

    def step(s: slice, m: Mask) -> None:
        put(d, s, m, f(a[s], b[s], c[s]))

    return step


def simple(ptx_type: PtxType, ins: Instruction, make: Callable[..., Step]) -> Decoded:
    """A step whose destination and sources all have `ptx_type`: make(d, a, b, …)."""
    Modifiers(ins).operands(len(signature(make).parameters))

    def bind(machine: Machine) -> Step:
        d, *sources = ins.operands
        return make(machine.dst(d, ptx_type), *(machine.src(a, ptx_type) for a in sources))

    return Decoded(bind)
