"""cp: the asynchronous copies of single threads (cp.async), and the way to the bulk ones.

A copy lands as late as it may: when its thread waits for it, or when an mbarrier is told of it, which a seed puts off.
Until then its bytes in shared memory are poison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.addressing import address_reader, shared_address
from tilegen.emulate.ptx.decode import Decoded, Mask, Modifiers, Step, active, instruction
from tilegen.emulate.ptx.loadstore import active_addresses
from tilegen.emulate.ptx.mbarrier import Arrivals
from tilegen.emulate.ptx.module import Immediate, Instruction
from tilegen.emulate.ptx.tma import bulk
from tilegen.emulate.ptx.types import TYPES, Array

if TYPE_CHECKING:
    from tilegen.emulate.ptx.cta import Cta
    from tilegen.emulate.ptx.machine import Machine


@instruction("cp")
def copy(ins: Instruction) -> Decoded:
    """cp.async…"""
    mods = Modifiers(ins)
    reduce = mods.flag("reduce")
    mods.need("async")
    if mods.flag("bulk"):
        return bulk(ins, mods, reduce)
    if reduce:
        mods.unknown("only bulk copies reduce")
    if mods.flag("commit_group"):
        mods.done()
        return Decoded(_commit)
    if mods.flag("wait_all"):
        mods.done()
        return Decoded(_wait(None))
    if mods.flag("wait_group"):
        mods.done()
        (left,) = mods.operands(1)
        if not isinstance(left, Immediate):
            mods.unknown("it needs a number")
        return Decoded(_wait(int(left.value)))
    if mods.flag("mbarrier"):
        return _arrive(ins, mods)
    return _copy(ins, mods)


_POISON = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True)
class Copies:
    """Copies of some threads that have not landed: where each goes, its words, its group; `number` counts in a CTA."""

    threads: Array
    targets: Array
    words: Array
    groups: Array
    number: int

    def where(self, chosen: Array) -> Copies:
        """Some of them."""
        return replace(
            self,
            threads=self.threads[chosen],
            targets=self.targets[chosen],
            words=self.words[chosen],
            groups=self.groups[chosen],
        )


def _land(cta: Cta, threads: Array, pending: int | None = None, upto: int | None = None) -> None:
    """Let copies of these threads land: all of them, or those in groups that are closed, less the last `pending`; or
    those up to a number."""
    left: list[Copies] = []
    closed = cta.copy_groups
    for copies in cta.copies:
        if upto is not None and copies.number > upto:
            left.append(copies)
            continue
        now = np.isin(copies.threads, threads)
        if pending is not None:
            now &= copies.groups < closed[copies.threads] - pending
        if now.any():
            cta.machine.spaces.scatter("shared", copies.targets[now], 4, copies.words[now], copies.threads[now])
        if not now.all():
            left.append(copies.where(~now))
    cta.copies = left
    cta.events += 1


def _commit(machine: Machine) -> Step:
    watch = machine.watch

    def step(s: slice, m: Mask) -> None:
        threads = s.start + active(s, m)
        machine.cta.copy_groups[threads] += 1
        if watch is not None:
            watch.commit_copies(threads)

    return step


def _wait(left: int | None) -> Callable[[Machine], Step]:
    def bind(machine: Machine) -> Step:
        def step(s: slice, m: Mask) -> None:
            threads = s.start + active(s, m)
            _land(machine.cta, threads, left)
            if machine.watch is not None:
                machine.watch.wait_copies(threads, left)

        return step

    return bind


def _copy(ins: Instruction, mods: Modifiers) -> Decoded:
    """[to], [from], bytes[, bytes that exist: the rest is zero]."""
    mods.need("ca", "cg")
    mods.need("shared", "shared::cta")
    mods.need("global")
    for name in list(mods.left):
        if name.startswith("L2::"):
            mods.flag(name)
    mods.done()
    to, source, size, *rest = mods.operands(3, 4, 5)
    if not isinstance(size, Immediate) or size.value not in (4, 8, 16):
        mods.unknown("its size must be 4, 8 or 16")
    nbytes = int(size.value)

    def bind(machine: Machine) -> Step:
        targets, sources = shared_address(machine, to), address_reader(machine, source)
        exists = machine.src(rest[0] if rest else size, TYPES["u32"])
        threads = np.arange(machine.threads)
        spaces = machine.spaces
        watch, pc = machine.watch, machine.program.binding_at

        def step(s: slice, m: Mask) -> None:
            address, who = active_addresses(sources, s, m, threads)
            target, _ = active_addresses(targets, s, m, threads)
            have = exists[who]
            data = np.zeros((len(who), nbytes), np.uint8)
            for count in np.unique(have):
                chosen = np.nonzero(have == count)[0]
                for k in range(min(int(count), nbytes)):
                    data[chosen, k : k + 1] = spaces.gather("global", address[chosen] + np.uint64(k), 1, 1, who[chosen])
            spaces.scatter("shared", target, 4, np.full((len(who), nbytes // 4), _POISON), who)
            if watch is not None:
                watch.copy(who, target, nbytes, pc)
            machine.cta.copied += 1
            groups = machine.cta.copy_groups[who]
            machine.cta.copies.append(Copies(who, target, data.view(np.uint32), groups, machine.cta.copied))

        return step

    return Decoded(bind)


def _arrive(ins: Instruction, mods: Modifiers) -> Decoded:
    """cp.async.mbarrier.arrive{.noinc}: the thread's copies are done, so with .noinc this is an arrival."""
    mods.need("arrive")
    counted = mods.flag("noinc")
    mods.one("shared", "shared::cta")
    mods.need("b64")
    mods.done()
    mods.operands(1)

    def bind(machine: Machine) -> Step:
        where = shared_address(machine, ins.operands[0])
        pc = machine.program.binding_at

        def step(s: slice, m: Mask) -> None:
            addresses, chosen = where(s), active(s, m)
            threads = s.start + chosen
            for address in np.unique(addresses[chosen]):
                machine.cta.mbarriers.get(int(address))
            arrivals = Arrivals(machine, threads, together=True)
            if machine.watch is not None:
                machine.watch.copies_arrive(addresses[chosen], threads)
            cta, upto = machine.cta, machine.cta.copied

            def effect() -> None:
                _land(cta, threads, upto=upto)
                # Without .noinc the pending count goes up by one first, and the arrival takes it down again.
                if counted:
                    for i in chosen:
                        arrivals.arrive(int(addresses[i]), s.start + int(i))

            machine.cta.engines.later(effect, None, pc, int(threads[0]))

        return step

    return Decoded(bind)
