"""What TMA, the store engine and the tensor cores do in their own time, and when warps run.

Without a seed everything is complete when it is issued, and warps take turns. With one, each operation takes effect at
a time between its issue and the wait that needs it, some warps of a warpgroup fall behind the others, and how late
things are on the whole differs from seed to seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.emulate.memory import MemoryFaultError
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.unit import WARP, Group, Unit, Wait

if TYPE_CHECKING:
    from tilegen.emulate.ptx.cluster import Cluster

_WARP_BITS = (1 << WARP) - 1
_TURN = 64
#: How likely an engine moves after a turn, by seed: some runs have everything late, some nearly nothing.
_PACES = (0.05, 0.3, 0.8)
_FALL_BEHIND = 1 / 256
_CATCH_UP = 1 / 16

#: What keeps its order: ("cores", first thread of a warpgroup) or ("store", thread); None: loads, copies keep none.
Lane = tuple[str, int] | None


@dataclass(frozen=True)
class Event:
    """An effect to come. `number` counts those of its lane that are waited for together; pc, thread: of its issue."""

    effect: Callable[[], None]
    lane: Lane
    number: int
    pc: int
    thread: int


class Engines:
    """Those of the CTAs of a cluster."""

    def __init__(self, cluster: Cluster, rng: random.Random | None) -> None:
        self._cluster, self._rng = cluster, rng
        self._events: list[Event] = []
        self._committed: dict[tuple[Lane, int], int] = {}  # groups that a thread has in a lane
        self._behind: list[tuple[Unit, Group]] = []
        self._pace = 1.0 if rng is None else rng.choice(_PACES)

    @property
    def timed(self) -> bool:
        """Whether operations take effect later than they are issued."""
        return self._rng is not None

    def later(self, effect: Callable[[], None], lane: Lane, pc: int, thread: int) -> None:
        """Let an operation take effect: at once, or when its time has come. `thread` is the one whose commits count."""
        if self._rng is None:
            effect()
        else:
            self._events.append(Event(effect, lane, self._committed.get((lane, thread), 0) + 1, pc, thread))

    def commit(self, lane: Lane, thread: int) -> None:
        """The lane's operations since a thread's last commit are a group for it."""
        self._committed[lane, thread] = self._committed.get((lane, thread), 0) + 1

    def wait(self, lane: Lane, thread: int, left: int) -> None:
        """All but the last `left` groups of a thread in a lane take effect now, if they have not yet."""
        if self._events:
            last = self._committed.get((lane, thread), 0) - left
            for event in [e for e in self._events if e.lane == lane and e.number <= last]:
                self._run(event)

    def turn(self) -> int:
        """How many runs of instructions a warpgroup executes before it is another's turn."""
        return _TURN if self._rng is None else self._rng.randrange(1, _TURN)

    def order(self, units: list[Unit]) -> list[Unit]:
        """In which order warpgroups take turns this time."""
        return units if self._rng is None else self._rng.sample(units, len(units))

    def hold(self, unit: Unit, group: Group) -> bool:
        """Whether a group is not to run on now; or let some of its warps fall behind."""
        if self._rng is None or self._rng.random() > _FALL_BEHIND:
            return False
        warps = [w for w in range(0, unit.size, WARP) if group.bits >> w & _WARP_BITS]
        chosen = self._rng.sample(warps, self._rng.randrange(1, len(warps) + 1))
        bits = 0
        for w in chosen:
            bits |= group.bits & _WARP_BITS << w
        held = group
        if bits != group.bits:
            group.bits &= ~bits
            held = Group(bits, group.pc, group.stack, timed_out=group.timed_out)
            unit.groups.append(held)
        held.wait = Wait("held", object(), lambda: "held back")
        self._behind.append((unit, held))
        return held is group

    def tick(self) -> bool:
        """After a turn: engines move, warps catch up, or neither, which is the answer."""
        rng = self._rng
        if rng is None:
            return False
        moved = bool(self._events) and rng.random() < self._pace
        if moved:
            self._some(rng)
        if self._behind and rng.random() < _CATCH_UP:
            self._catch_up()
            moved = True
        return moved

    def stir(self) -> bool:
        """Nobody can run: something happens, if anything is still to happen."""
        if self._behind:
            self._catch_up()
            return True
        if self._events:
            assert self._rng is not None
            self._some(self._rng)
            return True
        return False

    def finish(self) -> None:
        """All threads are done: what is under way ends as well."""
        while self._events:
            self._run(self._events[0])

    def _some(self, rng: random.Random) -> None:
        chosen = rng.choice(self._events)
        if chosen.lane is not None:
            chosen = next(e for e in self._events if e.lane == chosen.lane)
        self._run(chosen)

    def _catch_up(self) -> None:
        for unit, group in self._behind:
            group.wait = None
            unit.moved(group)
        self._behind.clear()

    def _run(self, event: Event) -> None:
        self._events.remove(event)
        try:
            event.effect()
        except (FaultError, MemoryFaultError) as fault:
            fault.thread = event.thread
            self._cluster.machine.fault(event.pc, fault)
        self._cluster.events += 1
