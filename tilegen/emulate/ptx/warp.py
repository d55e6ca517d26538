"""Instructions in which the lanes of a warp work together: shfl, vote, match, redux, elect, activemask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.barrier import members
from tilegen.emulate.ptx.decode import Control, Decoded, Modifiers, instruction
from tilegen.emulate.ptx.module import Immediate, Instruction, Operand, Pair, Sink
from tilegen.emulate.ptx.types import TYPES, Array, PtxType
from tilegen.emulate.ptx.unit import WARP, Group, Lanes, Unit

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

Compute = Callable[[Unit, Group, "MemberSets"], None]


class MemberSets:
    """The sets of lanes that work together: for each warp and member mask, the living lanes of it in the group."""

    def __init__(self, unit: Unit, group: Group, masks: Array, full: bool) -> None:
        self._unit, self._group, self._masks, self._full = unit, group, masks, full

    def __iter__(self) -> Iterator[Lanes]:
        unit, bits = self._unit, self._group.bits
        for w in range(0, unit.size, WARP):
            warp = bits & 0xFFFFFFFF << w
            if not warp:
                continue
            if self._full:
                yield unit.lanes(warp)
                continue
            threads = unit.lanes(warp).threads
            for mask in np.unique(self._masks[threads]):
                chosen = warp & int(mask) << w
                if chosen:
                    yield unit.lanes(chosen)


def _together(ins: Instruction, mask: Operand, make: Callable[[Machine], Compute]) -> Decoded:
    """A control that waits until the lanes of the member mask are here, then computes for them."""

    def bind(machine: Machine) -> Control:
        masks = machine.src(mask, TYPES["u32"])
        constant = isinstance(mask, Immediate)
        compute = make(machine)

        def control(unit: Unit, group: Group) -> bool:
            lanes = unit.lanes(group.bits)
            full = bool((masks[:1] if constant else masks[lanes.threads]).min() == 0xFFFFFFFF)
            need = unit.warp_bits(group.bits) if full else members(unit, group, masks)
            if not unit.gather(group, need, ins.name):
                return False
            compute(unit, group, MemberSets(unit, group, masks, full))
            return unit.advance(group)

        return control

    return Decoded(bind, control=True)


@instruction("shfl")
def shuffle(ins: Instruction) -> Decoded:
    """shfl.sync in its four modes. A lane that reads one outside the member mask gets that lane's register as it is."""
    mods = Modifiers(ins)
    mods.need("sync")
    mode = mods.need("up", "down", "bfly", "idx")
    mods.need("b32")
    mods.done()
    destination, source, by, clamp, mask = mods.operands(5)
    first = destination.first if isinstance(destination, Pair) else destination

    def make(machine: Machine) -> Compute:
        d, a = machine.dst(first, TYPES["b32"]), machine.src(source, TYPES["b32"])
        p = None
        if isinstance(destination, Pair) and not isinstance(destination.second, Sink):
            p = machine.dst(destination.second, TYPES["pred"])
        b, c = machine.src(by, TYPES["b32"]), machine.src(clamp, TYPES["b32"])
        fixed = isinstance(by, Immediate) and isinstance(clamp, Immediate)
        known: dict[tuple[int, int], tuple[Array, Array]] = {}

        def sources(threads: Array) -> tuple[Array, Array]:
            lane = threads % WARP
            n = b[threads].astype(np.int64) & 31
            limit = c[threads].astype(np.int64)
            segment = limit >> 8 & 31
            low = lane & segment
            top = low | (limit & 31 & ~segment)
            if mode == "up":
                j, inside = lane - n, lane - n >= top
            elif mode == "idx":
                j = low | (n & ~segment)
                inside = j <= top
            else:
                j = lane + n if mode == "down" else lane ^ n
                inside = j <= top
            return threads - lane + np.where(inside, j, lane), inside

        def compute(unit: Unit, group: Group, _sets: MemberSets) -> None:
            threads = unit.lanes(group.bits).threads
            key = unit.base, group.bits
            found = known.get(key) if fixed else None
            if found is None:
                found = sources(threads)
                if fixed:
                    known[key] = found
            d[threads] = a[found[0]]
            if p is not None:
                p[threads] = found[1]

        return compute

    return _together(ins, mask, make)


@instruction("vote")
def vote(ins: Instruction) -> Decoded:
    """vote.sync.{all, any, uni, ballot}."""
    mods = Modifiers(ins)
    mods.need("sync")
    mode = mods.need("all", "any", "uni", "ballot")
    mods.need("pred", "b32")
    mods.done()
    destination, predicate, mask = mods.operands(3)

    def make(machine: Machine) -> Compute:
        d = machine.dst(destination, TYPES["b32" if mode == "ballot" else "pred"])
        p, negated = machine.predicate(predicate)

        def compute(unit: Unit, group: Group, sets: MemberSets) -> None:
            on = unit.bits_where(group, ~p if negated else p)
            for lanes in sets:
                yes = on & lanes.bits
                if mode == "ballot":
                    shift = (int(lanes.threads[0]) - unit.base) // WARP * WARP
                    d[lanes.threads] = yes >> shift & 0xFFFFFFFF
                elif mode == "any":
                    d[lanes.threads] = yes != 0
                elif mode == "all":
                    d[lanes.threads] = yes == lanes.bits
                else:
                    d[lanes.threads] = yes in (0, lanes.bits)

        return compute

    return _together(ins, mask, make)


@instruction("activemask")
def active_mask(ins: Instruction) -> Decoded:
    """The lanes of the warp that run together now."""
    Modifiers(ins).need("b32")

    def bind(machine: Machine) -> Control:
        d = machine.dst(ins.operands[0], TYPES["b32"])

        def control(unit: Unit, group: Group) -> bool:
            for w in range(0, unit.size, WARP):
                bits = group.bits >> w & 0xFFFFFFFF
                if bits:
                    d[unit.lanes(bits << w).threads] = bits
            return unit.advance(group)

        return control

    return Decoded(bind, control=True)


_REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "add": np.add.reduce,
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}


@instruction("redux")
def reduce_over_warp(ins: Instruction) -> Decoded:
    """redux.sync: an integer reduction over the member lanes."""
    mods = Modifiers(ins)
    mods.need("sync")
    name = mods.need(*_REDUCTIONS)
    t = mods.type("u32", "s32", "b32")
    mods.done()
    destination, source, mask = mods.operands(3)
    f = _REDUCTIONS[name]

    def make(machine: Machine) -> Compute:
        d, a = machine.dst(destination, t), machine.src(source, t)

        def compute(unit: Unit, group: Group, sets: MemberSets) -> None:
            values = [(lanes.threads, np.asarray(f(a[lanes.threads])).astype(t.dtype)) for lanes in sets]
            for threads, value in values:
                d[threads] = value

        return compute

    return _together(ins, mask, make)


@instruction("match")
def match(ins: Instruction) -> Decoded:
    """match.any/all.sync: which member lanes hold the same value."""
    mods = Modifiers(ins)
    mode = mods.need("any", "all")
    mods.need("sync")
    t: PtxType = mods.type("b32", "b64")
    mods.done()
    destination, source, mask = mods.operands(3)
    first = destination.first if isinstance(destination, Pair) else destination

    def make(machine: Machine) -> Compute:
        d, a = machine.dst(first, TYPES["b32"]), machine.src(source, t)
        p = None
        if isinstance(destination, Pair) and not isinstance(destination.second, Sink):
            p = machine.dst(destination.second, TYPES["pred"])

        def compute(unit: Unit, group: Group, sets: MemberSets) -> None:
            for lanes in sets:
                values = a[lanes.threads]
                lane_bits = np.uint32(1) << (lanes.threads % WARP).astype(np.uint32)
                same = values[:, None] == values[None, :]
                masks = np.where(same, lane_bits[None, :], np.uint32(0)).sum(axis=1, dtype=np.uint32)
                if mode == "all":
                    agree = bool(same.all())
                    masks = masks if agree else np.zeros_like(masks)
                    if p is not None:
                        p[lanes.threads] = agree
                d[lanes.threads] = masks

        return compute

    return _together(ins, mask, make)


@instruction("elect")
def elect(ins: Instruction) -> Decoded:
    """elect.sync d|p, mask: the lowest member lane is the leader."""
    mods = Modifiers(ins)
    mods.need("sync")
    mods.done()
    destination, mask = mods.operands(2)
    if not isinstance(destination, Pair):
        mods.unknown("it needs two destinations, d|p")

    def make(machine: Machine) -> Compute:
        d = None if isinstance(destination.first, Sink) else machine.dst(destination.first, TYPES["b32"])
        p = None if isinstance(destination.second, Sink) else machine.dst(destination.second, TYPES["pred"])

        def compute(unit: Unit, group: Group, sets: MemberSets) -> None:
            for lanes in sets:
                leader = lanes.threads[0]
                if d is not None:
                    d[lanes.threads] = leader % WARP
                if p is not None:
                    p[lanes.threads] = lanes.threads == leader

        return compute

    return _together(ins, mask, make)
