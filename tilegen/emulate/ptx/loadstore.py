"""ld, ldu, st, in every state space, with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.addressing import address_reader
from tilegen.emulate.ptx.convert import widened
from tilegen.emulate.ptx.decode import Decoded, Mask, Modifiers, Step, instruction
from tilegen.emulate.ptx.module import Address, Instruction, Operand, Sink, Symbol, Vector
from tilegen.emulate.ptx.types import TYPES, Array, PtxType

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

_SPACES = {
    "global": "global",
    "const": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared",
    "local": "local",
    "param": "param",
    "param::entry": "param",
    "param::func": "param",
}
_ORDER = ("weak", "relaxed", "acquire", "release", "volatile", "mmio")
_HINTS = ("ca", "cg", "cs", "lu", "cv", "wb", "wt")


def space_of(mods: Modifiers) -> str:
    """Take the state space; without one the address is generic."""
    return _SPACES.get(mods.one(*_SPACES), "generic")


def access_modifiers(mods: Modifiers) -> None:
    """Take orderings, scopes and cache hints, which change nothing here."""
    mods.one(*_ORDER)
    mods.one("cta", "cluster", "gpu", "sys")
    mods.flag("nc")
    mods.one(*_HINTS)
    for name in list(mods.left):
        if name.startswith(("L1::", "L2::")):
            mods.flag(name)


def _access(ins: Instruction, operands: int) -> tuple[Modifiers, str, int, PtxType]:
    mods = Modifiers(ins)
    access_modifiers(mods)
    space = space_of(mods)
    count = int(mods.one("v2", "v4", "v8", default="v1")[1:])
    t = mods.type()
    mods.done()
    # A cache policy may follow.
    mods.operands(operands, operands + 1)
    return mods, space, count, t


def _items(operand: Operand, count: int, mods: Modifiers) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        mods.unknown(f"it moves {count} values, {len(items)} operands are given")
    return items


def resolve_space(machine: Machine, space: str, operand: Operand) -> str:
    """Parameters of the kernel and of device functions live apart: the variable tells which."""
    if space != "param":
        return space
    if isinstance(operand, Address) and isinstance(operand.base, Symbol):
        return machine.symbols[operand.base.name][0]
    return "param"


def active_addresses(reader: Callable[[slice], Array], s: slice, m: Mask, threads: Array) -> tuple[Array, Array]:
    """Addresses and thread indices of the active threads."""
    address = reader(s)
    if m is None:
        return address, threads[s]
    return address[m], threads[s][m]


@instruction("ld", "ldu")
def load(ins: Instruction) -> Decoded:
    """ld: narrower types extend to the register's width."""
    mods, space, count, t = _access(ins, 2)
    items = _items(ins.operands[0], count, mods)

    def bind(machine: Machine) -> Step:
        where = resolve_space(machine, space, ins.operands[1])
        reader = address_reader(machine, ins.operands[1])
        rows = [None if isinstance(i, Sink) else widened(machine, i, t) for i in items]
        all_threads = np.arange(machine.threads)
        width, dtype = t.bytes, t.dtype
        spaces = machine.spaces
        watch, pc = machine.watch if where in ("shared", "generic") else None, machine.program.binding_at

        def step(s: slice, m: Mask) -> None:
            address, threads = active_addresses(reader, s, m, all_threads)
            values = spaces.gather(where, address, width, count, threads).view(dtype)
            if watch is not None:
                watch.load(threads, address, width * count, pc)
            for k, row in enumerate(rows):
                if row is not None:
                    d, extend = row
                    if m is None:
                        d[s] = extend(values[:, k])
                    else:
                        d[s][m] = extend(values[:, k])

        return step

    return Decoded(bind)


@instruction("st")
def store(ins: Instruction) -> Decoded:
    """st: stores the low bytes of wider registers."""
    mods, space, count, t = _access(ins, 2)
    items = _items(ins.operands[1], count, mods)
    raw = TYPES[f"b{t.bits}"]

    def bind(machine: Machine) -> Step:
        where = resolve_space(machine, space, ins.operands[0])
        reader = address_reader(machine, ins.operands[0])
        rows = [machine.src(i, t).view(raw.dtype) for i in items]
        all_threads = np.arange(machine.threads)
        spaces = machine.spaces
        watch, pc = machine.watch if where in ("shared", "generic") else None, machine.program.binding_at
        outside = machine.watch if where == "global" else None

        def step(s: slice, m: Mask) -> None:
            address, threads = active_addresses(reader, s, m, all_threads)
            values = rows[0][s].reshape(-1, 1) if count == 1 else np.stack([row[s] for row in rows], axis=1)
            spaces.scatter(where, address, t.bytes, values if m is None else values[m], threads)
            if watch is not None:
                watch.store_shared(threads, address, t.bytes, items, pc)
            if outside is not None:
                outside.store_global(threads, address, t.bytes, items, pc)

        return step

    return Decoded(bind)


@instruction("alloca", "stacksave", "stackrestore")
def stack(ins: Instruction) -> Decoded:
    """Dynamic stack memory."""
    Modifiers(ins).unknown("dynamic stack memory is not supported")
