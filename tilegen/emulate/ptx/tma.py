"""Tensor and plain bulk copies: cp.async.bulk…, cp.reduce.async.bulk.tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx import tma_engine
from tilegen.emulate.ptx.addressing import address_reader, shared_address
from tilegen.emulate.ptx.atomics import combine_function
from tilegen.emulate.ptx.decode import Decoded, Mask, Modifiers, Step, active
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.module import Address, Immediate, Instruction, Operand
from tilegen.emulate.ptx.types import TYPES, Array

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

_RANKS = ("1d", "2d", "3d", "4d", "5d")
_SHARED = ("shared::cluster", "shared::cta")
_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def _nothing(machine: Machine) -> Step:
    return lambda s, m: None


def _commit(machine: Machine) -> Step:
    def step(s: slice, m: Mask) -> None:
        threads = s.start + active(s, m)
        for thread in threads.tolist():
            machine.cta.engines.commit(("store", thread), thread)
        if machine.watch is not None:
            machine.watch.commit_stores(threads)

    return step


def _wait(left: int) -> Callable[[Machine], Step]:
    def bind(machine: Machine) -> Step:
        def step(s: slice, m: Mask) -> None:
            threads = s.start + active(s, m)
            for thread in threads.tolist():
                machine.cta.engines.wait(("store", thread), thread, left)
            if machine.watch is not None:
                machine.watch.wait_stores(threads, left)

        return step

    return bind


def bulk(ins: Instruction, mods: Modifiers, reduce: bool) -> Decoded:
    """cp.async.bulk and cp.reduce.async.bulk, these words already taken."""
    if mods.flag("commit_group"):
        mods.done()
        return Decoded(_commit)
    if mods.flag("wait_group"):
        mods.flag("read")
        mods.done()
        (left,) = mods.operands(1)
        if not isinstance(left, Immediate):
            mods.unknown("it needs a number")
        return Decoded(_wait(int(left.value)))
    if mods.flag("prefetch"):
        return Decoded(_nothing)
    if mods.flag("tensor"):
        return _tensor(ins, mods, reduce)
    if reduce:
        mods.unknown("only tensors reduce")
    return _plain(ins, mods)


def _tensor(ins: Instruction, mods: Modifiers, reduce: bool) -> Decoded:
    rank = int(mods.need(*_RANKS)[0])
    to = mods.left[0] if mods.left else ""
    mods.need("global", *_SHARED)
    mods.need("global", *_SHARED)
    mods.flag("tile")
    hint = mods.flag("L2::cache_hint")
    if to != "global" and not reduce:
        multicast = mods.flag("multicast::cluster")
        mods.need("mbarrier::complete_tx::bytes")
        mods.done()
        operands = mods.operands(3 + hint + multicast)
        return _tensor_load(ins, mods, rank, operands[3] if multicast else None)
    mods.need("bulk_group")
    reduction = mods.need(*_REDUCTIONS) if reduce else ""
    mods.done()
    mods.operands(2 + hint)
    return _tensor_store(ins, mods, rank, reduction)


def _coordinates(machine: Machine, operand: object, rank: int, mods: Modifiers) -> list[Array]:
    if not isinstance(operand, Address) or len(operand.coordinates) != rank:
        mods.unknown(f"it needs a tensor map with {rank} coordinates")
    return [machine.src(c, TYPES["s32"]) for c in operand.coordinates]


def _tensor_load(ins: Instruction, mods: Modifiers, rank: int, mask: Operand | None) -> Decoded:
    place, source, barrier = ins.operands[:3]

    def bind(machine: Machine) -> Step:
        shared, mbarrier = shared_address(machine, place), shared_address(machine, barrier)
        descriptor = address_reader(machine, source)
        coordinates = _coordinates(machine, source, rank, mods)
        pc = machine.program.binding_at
        ctas = None if mask is None else machine.src(mask, TYPES["u16"])

        def step(s: slice, m: Mask) -> None:
            to, bar, tm = shared(s), mbarrier(s), descriptor(s)
            for i in active(s, m):
                at = s.start + int(i)
                box = [int(c[at]) for c in coordinates]
                if ctas is None:
                    tma_engine.load(machine, int(to[i]), int(tm[i]), box, int(bar[i]), at, pc)
                else:
                    tma_engine.load_to_all(machine, int(to[i]), int(tm[i]), box, int(bar[i]), at, pc, int(ctas[at]))

        return step

    return Decoded(bind)


def _tensor_store(ins: Instruction, mods: Modifiers, rank: int, reduction: str) -> Decoded:
    target, place = ins.operands[:2]

    def bind(machine: Machine) -> Step:
        shared, descriptor = shared_address(machine, place), address_reader(machine, target)
        coordinates = _coordinates(machine, target, rank, mods)
        pc = machine.program.binding_at

        def step(s: slice, m: Mask) -> None:
            source, tm = shared(s), descriptor(s)
            for i in active(s, m):
                at = s.start + int(i)
                box = [int(c[at]) for c in coordinates]
                combine = _combine(machine, int(tm[i]), reduction, at) if reduction else None
                tma_engine.store(machine, int(source[i]), int(tm[i]), box, at, pc, combine)

        return step

    return Decoded(bind)


def _combine(machine: Machine, descriptor: int, reduction: str, thread: int) -> Callable[[Array, Array], Array]:
    name = tma_engine.tensor_map(machine, descriptor, thread).dtype.replace("i", "s")
    t = TYPES[name]
    f = combine_function(reduction, t)
    if f is None:
        raise FaultError(f"a TMA reduction .{reduction} of {name}", thread)
    return lambda old, new: f(old.view(t.dtype), new.view(t.dtype)).view(np.uint8)


def _plain(ins: Instruction, mods: Modifiers) -> Decoded:
    """A run of bytes: [to], [from], size[, mbarrier]."""
    to = mods.left[0] if mods.left else ""
    mods.need("global", *_SHARED)
    mods.need("global", *_SHARED)
    signals = mods.flag("mbarrier::complete_tx::bytes")
    if not signals:
        mods.need("bulk_group")
    multicast, hint = mods.flag("multicast::cluster"), mods.flag("L2::cache_hint")
    mods.done()
    mods.operands(3 + signals + multicast + hint)
    origin = ins.modifiers[ins.modifiers.index(to) + 1]

    def bind(machine: Machine) -> Step:
        targets = (
            shared_address(machine, ins.operands[0]) if to != "global" else address_reader(machine, ins.operands[0])
        )
        sources = (
            shared_address(machine, ins.operands[1]) if origin != "global" else address_reader(machine, ins.operands[1])
        )
        sizes = machine.src(ins.operands[2], TYPES["u32"])
        barriers = shared_address(machine, ins.operands[3]) if signals else None
        spaces = machine.spaces

        def step(s: slice, m: Mask) -> None:
            target, source = targets(s), sources(s)
            for i in active(s, m):
                thread = s.start + int(i)
                size = int(sizes[thread])
                if size % 16 or int(target[i]) % 16 or int(source[i]) % 16:
                    raise FaultError("a bulk copy needs addresses and a size that are multiples of 16 bytes", thread)
                if size:
                    offsets = np.arange(0, size, 8, dtype=np.uint64)
                    who = np.full(len(offsets), thread)
                    data = spaces.gather(_space(origin), source[i] + offsets, 8, 1, who)
                    spaces.scatter(_space(to), target[i] + offsets, 8, data, who)
                machine.cta.events += 1
                if barriers is not None:
                    machine.cta.mbarriers.complete(int(barriers(s)[i]), size)

        return step

    return Decoded(bind)


def _space(name: str) -> str:
    return "global" if name == "global" else "shared"
