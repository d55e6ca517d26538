"""mbarrier objects: phase, pending arrivals, expected bytes; and the mbarrier instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilegen.diagnostics.catalogue import Code
from tilegen.emulate.ptx.addressing import shared_address
from tilegen.emulate.ptx.decode import Control, Decoded, Mask, Modifiers, Step, active, instruction, put
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.module import Address, Immediate, Instruction, Sink
from tilegen.emulate.ptx.types import TYPES, Array
from tilegen.emulate.ptx.unit import WARP, Group, Unit, Wait

if TYPE_CHECKING:
    from tilegen.emulate.ptx.cluster import Cluster
    from tilegen.emulate.ptx.machine import Machine

_LIMIT = (1 << 20) - 1


@dataclass
class Mbarrier:
    """One object. `phase` counts completed phases; `tx` may be negative while an arrival is pending."""

    expected: int
    pending: int
    tx: int = 0
    phase: int = 0

    def __str__(self) -> str:
        return (
            f"phase {self.phase} (parity {self.phase & 1}) is running with {self.pending} of {self.expected} arrivals "
            f"and {self.tx} bytes outstanding"
        )


class Mbarriers:
    """The mbarrier objects of a cluster by shared address."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._objects: dict[int, Mbarrier] = {}

    def get(self, address: int) -> Mbarrier:
        """The object at a shared address. Raises FaultError where none was initialised, or its CTA has ended."""
        self._cluster.reach(address)
        found = self._objects.get(address)
        if found is None:
            raise FaultError(f"no mbarrier has been initialised at shared address {address:#x}")
        return found

    def phases(self, address: int) -> int:
        """How many phases of an object are over, also of one whose CTA has ended."""
        return self._objects[address].phase

    def init(self, address: int, count: int) -> None:
        """Make an object that expects `count` arrivals a phase."""
        if not 1 <= count <= _LIMIT:
            raise FaultError(f"an mbarrier's arrival count must be 1 to {_LIMIT}, not {count}")
        if address % 8:
            raise FaultError(f"an mbarrier must be 8-byte aligned, not at shared address {address:#x}")
        self._objects[address] = Mbarrier(count, count)
        self._cluster.events += 1

    def invalidate(self, address: int) -> None:
        """Drop the object."""
        self.get(address)
        del self._objects[address]

    def expect(self, address: int, nbytes: int) -> None:
        """The running phase needs `nbytes` more."""
        barrier = self.get(address)
        barrier.tx += nbytes
        if abs(barrier.tx) > _LIMIT:
            raise FaultError(
                f"the byte count of mbarrier {address:#x} reaches {barrier.tx}, over its limit of {_LIMIT}"
            )
        self._cluster.events += 1

    def arrive(self, address: int, count: int = 1, drop: bool = False) -> None:
        """`count` arrivals on the running phase (with `drop`, later phases expect as many fewer)."""
        barrier = self.get(address)
        if count < 1 or count > barrier.pending:
            raise FaultError(f"{count} arrivals on mbarrier {address:#x}: {barrier}")
        barrier.pending -= count
        if drop:
            barrier.expected -= count
        self._complete(address, barrier)

    def complete(self, address: int, nbytes: int) -> None:
        """An engine has moved `nbytes`."""
        barrier = self.get(address)
        barrier.tx -= nbytes
        if abs(barrier.tx) > _LIMIT:
            raise FaultError(
                f"the byte count of mbarrier {address:#x} reaches {barrier.tx}, under its limit of -{_LIMIT}"
            )
        self._complete(address, barrier)

    def _complete(self, address: int, barrier: Mbarrier) -> None:
        self._cluster.events += 1
        if barrier.pending == 0 and barrier.tx == 0:
            barrier.phase += 1
            barrier.pending = barrier.expected
            if self._cluster.machine.watch is not None:
                self._cluster.machine.watch.phase(address, barrier.phase)
            self._cluster.wake("mbarrier", address)

    def describe(self, address: int) -> str:
        """State in words."""
        return str(self._objects.get(address, "not initialised"))


class Arrivals:
    """Those of the threads of one instruction. None may come in a phase that its thread cannot know to have begun: it
    would be counted by that phase or by the one before, as it happens.

    together: lanes of a warp arrive at once, so that a phase that ends among them is a fault in any launch; else in one
    that is watched."""

    def __init__(self, machine: Machine, threads: Array, *, together: bool) -> None:
        self._mbarriers, self._watch = machine.cta.mbarriers, machine.watch
        self._strict = together or self._watch is not None
        self._before = self._watch.before(threads) if self._watch is not None else {}
        self._phases: dict[tuple[int, int], int] = {}  # at the first arrival, by address and warp

    def arrive(self, address: int, thread: int, count: int = 1, drop: bool = False) -> None:
        """Of one thread. Raises FaultError."""
        if self._strict:
            warp, phase = thread // WARP, self._mbarriers.get(address).phase
            first = self._phases.get((address, warp))
            if first is None:
                self._phases[address, warp] = phase
                if self._watch is not None:
                    self._watch.arrives(address, warp, self._before[warp])
            elif first != phase:
                what = f"lanes of a warp arrive on mbarrier {address:#x} past the end of its phase {first}"
                raise FaultError(what, code=Code.EMULATED_ARRIVAL)
        self._mbarriers.arrive(address, count, drop)


def _parity_done(barrier: Mbarrier, parity: int) -> bool:
    # Parity P asks for the phase of that parity that came last: done iff the running phase has the other parity.
    return barrier.phase & 1 != parity & 1


@instruction("mbarrier")
def mbarrier(ins: Instruction) -> Decoded:
    """All mbarrier instructions on shared memory."""
    mods = Modifiers(ins)
    action = mods.need(
        "init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "pending_count"
    )
    expect = mods.flag("expect_tx") if action in ("arrive", "arrive_drop") else False
    parity = mods.flag("parity")
    no_complete = mods.flag("noComplete")
    for group in (("release", "acquire", "relaxed"), ("cta", "cluster"), ("shared::cta", "shared::cluster", "shared")):
        mods.one(*group)
    mods.need("b64")
    mods.done()
    if action == "init":
        return _on_address(ins, 0, 1, lambda b, a, n: b.init(a, n), made=True)
    if action == "inval":
        return _on_address(ins, 0, None, lambda b, a, n: b.invalidate(a))
    if action == "expect_tx":
        return _on_address(ins, 0, 1, lambda b, a, n: b.expect(a, n))
    if action == "complete_tx":
        return _on_address(ins, 0, 1, lambda b, a, n: b.complete(a, n))
    if action in ("arrive", "arrive_drop"):
        return _arrive(ins, action == "arrive_drop", expect, no_complete)
    if action == "pending_count":
        mods.unknown("pending_count is not supported")
    return _wait(ins, parity, blocking=action == "try_wait")


def _on_address(
    ins: Instruction, address: int, value: int | None, act: Callable[[Mbarriers, int, int], None], made: bool = False
) -> Decoded:
    def bind(machine: Machine) -> Step:
        where = shared_address(machine, ins.operands[address])
        n = machine.src(ins.operands[value] if value is not None else Immediate(0), TYPES["s32"])

        def step(s: slice, m: Mask) -> None:
            addresses, counts = where(s), n[s]
            for i in range(len(addresses)) if m is None else np.nonzero(m)[0]:
                act(machine.cta.mbarriers, int(addresses[i]), int(counts[i]))
                if made and machine.watch is not None:
                    machine.watch.made(int(addresses[i]), s.start + int(i))

        return step

    return Decoded(bind)


def _arrive(ins: Instruction, drop: bool, expect: bool, no_complete: bool) -> Decoded:
    # Forms: [addr] | state, [addr] | …, count — the result may be left out for remote barriers.
    operands = list(ins.operands)
    result = operands.pop(0) if not isinstance(operands[0], Address) else Sink()
    extra = operands[1] if len(operands) > 1 else Immediate(0 if expect else 1)

    def bind(machine: Machine) -> Step:
        where = shared_address(machine, operands[0])
        n = machine.src(extra, TYPES["s32"])
        d = None if isinstance(result, Sink) else machine.dst(result, TYPES["b64"])

        def step(s: slice, m: Mask) -> None:
            addresses, counts = where(s), n[s]
            states = np.zeros(len(addresses), np.uint64)
            barriers, chosen = machine.cta.mbarriers, active(s, m)
            arrivals = Arrivals(machine, s.start + chosen, together=False)
            if machine.watch is not None:
                machine.watch.arrive(addresses[chosen], s.start + chosen)
            for i in chosen:
                address, count = int(addresses[i]), int(counts[i])
                states[i] = barriers.get(address).phase
                if expect:
                    barriers.expect(address, count)
                arrivals.arrive(address, s.start + int(i), 1 if expect else count, drop)
            if d is not None:
                put(d, s, m, states)

        return step

    return Decoded(bind)


def _wait(ins: Instruction, parity: bool, blocking: bool) -> Decoded:
    result, place, state = ins.operands[:3]

    def bind(machine: Machine) -> Control:
        p: Array | None = None if isinstance(result, Sink) else machine.dst(result, TYPES["pred"])
        where = shared_address(machine, place)
        phases = machine.src(state, TYPES["u32"] if parity else TYPES["b64"])

        def finished(address: int, phase: int) -> bool:
            barrier = machine.cta.mbarriers.get(address)
            return _parity_done(barrier, phase) if parity else barrier.phase > phase

        def control(unit: Unit, group: Group) -> bool:
            lanes = unit.lanes(group.bits)
            addresses, wanted = where(lanes.s), phases[lanes.s]
            active = np.arange(len(addresses)) if lanes.m is None else np.nonzero(lanes.m)[0]
            asked = {(int(addresses[i]), int(wanted[i])) for i in active}
            answers = {q: finished(*q) for q in asked}
            if len(answers) == 1:
                (((address, phase), done),) = answers.items()
                if done or group.timed_out or not blocking:
                    if done and machine.watch is not None:
                        machine.watch.waited(address, unit, group.bits)
                    if p is not None:
                        put(p, lanes.s, lanes.m, done)
                    return unit.advance(group)
                return unit.block(group, _wait_for(unit, address, phase, parity))
            for (address, phase), _ in answers.items():
                same = (addresses == address) & (wanted == phase)
                row = np.zeros(machine.threads, np.bool_)
                row[lanes.s] = same
                bits = unit.bits_where(group, row)
                if bits != group.bits:
                    # Lanes that ask for different phases part; each part comes back here by itself.
                    unit.groups.append(Group(bits, group.pc, group.stack, timed_out=group.timed_out))
                    group.bits &= ~bits
            return False

        return control

    return Decoded(bind, control=True)


def _wait_for(unit: Unit, address: int, phase: int, parity: bool) -> Wait:
    barriers = unit.cta.mbarriers
    asked = f"parity {phase & 1}" if parity else f"the phase after {phase}"
    return Wait(
        "mbarrier",
        address,
        lambda: f"waiting for {asked} of the mbarrier at shared address {address:#x}: {barriers.describe(address)}",
    )
