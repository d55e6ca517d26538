"""Named barriers (bar, barrier), the cluster barrier, and bar.warp.sync."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.decode import Control, Decoded, Modifiers, instruction, put
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.module import Immediate, Instruction, Operand
from tilegen.emulate.ptx.types import TYPES, Array
from tilegen.emulate.ptx.unit import WARP, Group, Unit, Wait

if TYPE_CHECKING:
    from tilegen.emulate.ptx.cta import Cta
    from tilegen.emulate.ptx.machine import Machine


@dataclass
class Named:
    """A barrier in use: threads it waits for (0 = all warps that live), threads that came, reductions of `bar.red`."""

    wanted: int
    arrived: int = 0
    population: int = 0
    all_true: bool = True


#: What a thread adds when it comes, and what it gets when the barrier completes.
Reduction = tuple[Callable[[Unit, Group, Named], None], Callable[[Unit, int, Named], None]]


class NamedBarriers:
    """The sixteen barriers of a CTA."""

    def __init__(self, cta: Cta) -> None:
        self._cta = cta
        self._in_use: dict[int, Named] = {}
        self._deliver: dict[int, list[tuple[Unit, int, Callable[[Unit, int, Named], None]]]] = {}

    def _living(self) -> int:
        return (
            sum(bin(u.alive >> w & 0xFFFFFFFF).count("1") > 0 for u in self._cta.units for w in range(0, 128, 32)) * 32
        )

    def arrive(self, number: int, wanted: int, warps: int) -> Named:
        """`warps` whole warps come to barrier `number` for `wanted` threads (0: all). Raises FaultError."""
        if not 0 <= number < 16:
            raise FaultError(f"barrier {number}: there are barriers 0 to 15")
        if wanted % WARP:
            raise FaultError(f"barrier {number}: a thread count of {wanted} is no multiple of {WARP}")
        barrier = self._in_use.setdefault(number, Named(wanted))
        if barrier.wanted != wanted:
            raise FaultError(
                f"barrier {number} is asked for {wanted or 'all'} threads while it collects {barrier.wanted or 'all'}"
            )
        barrier.arrived += WARP * warps
        self._cta.events += 1
        if wanted and barrier.arrived > wanted:
            raise FaultError(f"barrier {number}: {barrier.arrived} threads came, {wanted} were wanted")
        return barrier

    def check(self, number: int) -> None:
        """Let the waiting groups go if barrier `number` is complete."""
        barrier = self._in_use.get(number)
        if barrier is None or barrier.arrived < (barrier.wanted or self._living()) or not barrier.arrived:
            return
        del self._in_use[number]
        watch = self._cta.machine.watch
        for unit, bits, deliver in self._deliver.pop(number, []):
            deliver(unit, bits, barrier)
        for unit in self._cta.units:
            for group in list(unit.groups):
                if group.wait is not None and group.wait.kind == "barrier" and group.wait.key == number:
                    if watch is not None:
                        watch.go(number, unit, group.bits)
                    group.wait = None
                    unit.advance(group)
        if watch is not None:
            watch.over(number, self._cta.rank)

    def on_release(self, number: int, unit: Unit, bits: int, deliver: Callable[[Unit, int, Named], None]) -> None:
        """Call `deliver` for these threads when the barrier completes."""
        self._deliver.setdefault(number, []).append((unit, bits, deliver))

    def recheck(self) -> None:
        """Threads have exited."""
        for number in list(self._in_use):
            self.check(number)
        self._cta.cluster.cluster_check()

    def describe(self, number: int) -> str:
        """State in words."""
        barrier = self._in_use.get(number)
        if barrier is None:
            return "nobody has come"
        return f"{barrier.arrived} of {barrier.wanted or self._living()} threads have come"


@instruction("bar", "barrier")
def bar(ins: Instruction) -> Decoded:
    """bar.sync/arrive/red, barrier{.cta}…, bar.warp.sync, barrier.cluster.arrive/wait."""
    mods = Modifiers(ins)
    if mods.flag("warp"):
        mods.need("sync")
        mods.done()
        return _warp_sync(ins)
    if mods.flag("cluster"):
        action = mods.need("arrive", "wait")
        mods.one("release", "acquire", "relaxed")
        mods.flag("aligned")
        mods.done()
        return _cluster(action)
    mods.flag("cta")
    action = mods.need("sync", "arrive", "red")
    mods.flag("aligned")
    if action == "red":
        operation = mods.need("popc", "and", "or")
        mods.need("u32", "pred")
        mods.done()
        return _reduce(ins, operation)
    mods.done()
    operands = mods.operands(1, 2)
    return _barrier(ins, operands[0], operands[1] if len(operands) > 1 else Immediate(0), action == "sync", None)


def _uniform(row: Array, unit: Unit, group: Group, what: str) -> int:
    lanes = unit.lanes(group.bits)
    values = row[lanes.s] if lanes.m is None else row[lanes.s][lanes.m]
    if int(values.min()) != int(values.max()):
        raise FaultError(
            f"{what} differs between threads that run together: {int(values.min())} and {int(values.max())}"
        )
    return int(values[0])


def _barrier(
    ins: Instruction, number: Operand, count: Operand, wait: bool, reduce: Callable[[Machine], Reduction] | None
) -> Decoded:
    def bind(machine: Machine) -> Control:
        numbers, counts = machine.src(number, TYPES["u32"]), machine.src(count, TYPES["u32"])
        deliver = reduce(machine) if reduce is not None else None

        def control(unit: Unit, group: Group) -> bool:
            if not unit.gather(group, unit.warp_bits(group.bits), ins.name):
                return False
            barriers = unit.cta.barriers
            # Warps of the group may come to different barriers (ping-pong inside a warpgroup): one barrier at a time.
            lanes = unit.lanes(group.bits)
            values = numbers[lanes.s]
            if int(values.min()) != int(values.max()):
                same = unit.bits_where(group, numbers == values[0])
                rest = group.bits & ~same
                if rest:
                    group.bits = same
                    unit.groups.append(Group(rest, group.pc, group.stack))
            at = _uniform(numbers, unit, group, "the barrier number")
            wanted = _uniform(counts, unit, group, "the thread count of a barrier")
            barrier = barriers.arrive(at, wanted, unit.lanes(group.bits).warps)
            if machine.watch is not None:
                machine.watch.come(at, unit, group.bits)
            if deliver is not None:
                deliver[0](unit, group, barrier)
                barriers.on_release(at, unit, group.bits, deliver[1])
            if not wait:
                unit.advance(group)
                barriers.check(at)
                return True
            unit.block(group, Wait("barrier", at, lambda: f"waiting at barrier {at}: {barriers.describe(at)}"))
            barriers.check(at)
            return True

        return control

    return Decoded(bind, control=True)


def _reduce(ins: Instruction, operation: str) -> Decoded:
    result, number, *rest = ins.operands
    count = rest[0] if len(rest) == 2 else Immediate(0)
    predicate = rest[-1]

    def reduce(machine: Machine) -> Reduction:
        p, negated = machine.predicate(predicate)
        d = machine.dst(result, TYPES["u32"] if operation == "popc" else TYPES["pred"])

        def collect(unit: Unit, group: Group, barrier: Named) -> None:
            on = unit.bits_where(group, ~p if negated else p)
            barrier.population += bin(on).count("1")
            barrier.all_true &= on == group.bits

        def deliver(unit: Unit, bits: int, barrier: Named) -> None:
            lanes = unit.lanes(bits)
            value = {"popc": barrier.population, "and": barrier.all_true, "or": barrier.population > 0}[operation]
            put(d, lanes.s, lanes.m, value)

        return collect, deliver

    return _barrier(ins, number, count, True, reduce)


def _warp_sync(ins: Instruction) -> Decoded:
    def bind(machine: Machine) -> Control:
        masks = machine.src(ins.operands[0], TYPES["u32"])
        constant = isinstance(ins.operands[0], Immediate)

        def control(unit: Unit, group: Group) -> bool:
            need = unit.warp_bits(group.bits) if constant and masks[0] == 0xFFFFFFFF else members(unit, group, masks)
            if not unit.gather(group, need, ins.name):
                return False
            if machine.watch is not None:
                machine.watch.meet(unit, group.bits)
            return unit.advance(group)

        return control

    return Decoded(bind, control=True)


def members(unit: Unit, group: Group, masks: Array) -> int:
    """Living threads named by the member masks that the group's lanes hold."""
    lanes = unit.lanes(group.bits)
    need = 0
    for w in range(0, unit.size, WARP):
        chosen = lanes.threads[(lanes.threads >= unit.base + w) & (lanes.threads < unit.base + w + WARP)]
        if len(chosen):
            need |= int(np.bitwise_or.reduce(masks[chosen])) << w
    if group.bits & ~need:
        raise FaultError("a thread executes a warp instruction whose member mask does not name it")
    return need & unit.alive


def _cluster(action: str) -> Decoded:
    def bind(machine: Machine) -> Control:
        def control(unit: Unit, group: Group) -> bool:
            barriers = unit.cta.cluster
            watch = machine.watch
            if action == "arrive":
                if watch is not None:
                    watch.come(None, unit, group.bits)
                barriers.cluster_arrive(unit, group.bits)
                return unit.advance(group)
            phases = barriers.cluster_thread_phase[unit.lanes(group.bits).threads]
            if (phases < barriers.cluster_phase).all():
                if watch is not None:
                    watch.go(None, unit, group.bits)
                return unit.advance(group)
            return unit.block(group, Wait("cluster", None, lambda: "waiting at the cluster barrier"))

        return control

    return Decoded(bind, control=True)
