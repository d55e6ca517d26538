"""mov, and the packing forms of mov."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.decode import Decoded, Mask, Modifiers, Step, instruction, put
from tilegen.emulate.ptx.module import Immediate, Instruction, Sink, Special, Symbol, Vector
from tilegen.emulate.ptx.spaces import RANK_SHIFT
from tilegen.emulate.ptx.specials import CLOCKS, read_clock
from tilegen.emulate.ptx.types import TYPES, Array, PtxType

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine


@instruction("mov")
def move(ins: Instruction) -> Decoded:
    """mov: registers, constants, special registers, addresses; a vector on one side splits or joins a word."""
    mods = Modifiers(ins)
    t = mods.type(*TYPES)
    mods.done()
    destination, source = mods.operands(2)
    for vector in (source, destination):
        if isinstance(vector, Vector) and f"b{t.bits // max(len(vector.items), 1)}" not in TYPES:
            mods.unknown(f"a .{t.name} has no {len(vector.items)} parts")
    if isinstance(source, Vector):
        return _join(ins, t)
    if isinstance(destination, Vector):
        return _split(ins, t)
    raw = t if t.kind == "pred" else TYPES[f"b{t.bits}"]

    def bind(machine: Machine) -> Step:
        d = machine.dst(destination, raw)
        if isinstance(source, Special) and source.name in CLOCKS:
            return lambda s, m: put(d, s, m, raw.dtype.type(read_clock(machine, source.name)))
        if isinstance(source, Immediate) or (isinstance(source, Symbol) and machine.ctas == 1):
            value = machine.src(source, t)[:1].view(raw.dtype)[0]
            return lambda s, m: put(d, s, m, value)
        a = machine.src(source, raw)

        def step(s: slice, m: Mask) -> None:
            if m is None:
                d[s] = a[s]
            else:
                np.copyto(d[s], a[s], where=m)

        return step

    return Decoded(bind)


def _join(ins: Instruction, t: PtxType) -> Decoded:
    destination, source = ins.operands
    assert isinstance(source, Vector)
    items = source.items
    part = TYPES[f"b{t.bits // len(items)}"]

    def bind(machine: Machine) -> Step:
        full = TYPES[f"b{t.bits}"]
        d = machine.dst(destination, full)
        # Each part is written through a view of the destination's bytes, so nothing has to be shifted together.
        parts: list[Array] = [d.view(part.dtype)[i :: len(items)] for i in range(len(items))]
        rows = [machine.src(item, part) for item in items]
        overlap = any(np.shares_memory(d, row) for row in rows)

        def step(s: slice, m: Mask) -> None:
            values = [row[s].copy() for row in rows] if overlap else [row[s] for row in rows]
            for p, value in zip(parts, values, strict=True):
                put(p, s, m, value)

        return step

    return Decoded(bind)


def _split(ins: Instruction, t: PtxType) -> Decoded:
    destination, source = ins.operands
    assert isinstance(destination, Vector)
    items = destination.items
    part = TYPES[f"b{t.bits // len(items)}"]

    def bind(machine: Machine) -> Step:
        a = machine.src(source, TYPES[f"b{t.bits}"])
        rows = [None if isinstance(item, Sink) else machine.dst(item, part) for item in items]

        def step(s: slice, m: Mask) -> None:
            pieces = np.ascontiguousarray(a[s]).view(part.dtype).reshape(-1, len(items))
            for i, row in enumerate(rows):
                if row is not None:
                    put(row, s, m, pieces[:, i])

        return step

    return Decoded(bind)


@instruction("createpolicy")
def create_policy(ins: Instruction) -> Decoded:
    """createpolicy: a cache hint has no effect here; the policy word is 0."""
    mods = Modifiers(ins)
    mods.need("fractional", "range", "cvt")
    for name in list(mods.left):
        if name.startswith(("L2", "global")):
            mods.flag(name)
    mods.need("b64")
    mods.done()

    def bind(machine: Machine) -> Step:
        d = machine.dst(ins.operands[0], TYPES["b64"])
        return lambda s, m: put(d, s, m, np.uint64(0))

    return Decoded(bind)


@instruction("mapa")
def map_shared(ins: Instruction) -> Decoded:
    """mapa: the address of the same shared variable in another CTA of the cluster."""
    mods = Modifiers(ins)
    mods.one("shared::cluster")
    t = mods.type("u32", "u64")
    mods.done()
    destination, source, number = mods.operands(3)

    def bind(machine: Machine) -> Step:
        d, a, ranks = machine.dst(destination, t), machine.src(source, t), machine.src(number, TYPES["u32"])
        inside = t.dtype.type((1 << t.bits) - 1 & ~(0xFF << RANK_SHIFT))

        def step(s: slice, m: Mask) -> None:
            put(d, s, m, a[s] & inside | ranks[s].astype(t.dtype) << t.dtype.type(RANK_SHIFT))

        return step

    return Decoded(bind)


@instruction("getctarank")
def cta_rank(ins: Instruction) -> Decoded:
    """getctarank: the rank of the CTA that a shared address is in."""
    mods = Modifiers(ins)
    mods.one("shared::cluster")
    t = mods.type("u32", "u64")
    mods.done()
    destination, source = mods.operands(2)

    def bind(machine: Machine) -> Step:
        d, a = machine.dst(destination, TYPES["u32"]), machine.src(source, t)
        return lambda s, m: put(d, s, m, (a[s] >> t.dtype.type(RANK_SHIFT) & t.dtype.type(0xFF)).astype(np.uint32))

    return Decoded(bind)
