"""A warpgroup: its threads in groups that stand at the same instruction, and how groups part and meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.types import Array

if TYPE_CHECKING:
    from tilegen.emulate.ptx.cta import Cta

WARP = 32
WARPGROUP = 128
_WARP_BITS = (1 << WARP) - 1


@dataclass(frozen=True)
class Lanes:
    """A set of threads: `s` the tightest slice of thread indices, `m` the mask inside it (None = all), `warps` how many
    warps have a thread in it."""

    bits: int
    s: slice
    m: Array | None
    warps: int
    threads: Array


@dataclass
class Wait:
    """Why a group does not run: `kind` "mbarrier", "barrier", "lanes", "registers" or "cluster"; `key` what it waits
    for; `say` tells it in words (called only for the report of a hang)."""

    kind: str
    key: object
    say: Callable[[], str]


@dataclass(eq=False)
class Group:
    """Threads of one warpgroup at the same instruction with the same call stack. `bits` has one bit a thread."""

    bits: int
    pc: int
    stack: tuple[int, ...] = ()
    wait: Wait | None = None
    timed_out: bool = False
    passed: int = 0
    last_run: int = field(default=0)


class Unit:
    """Up to 128 consecutive threads of a CTA, four warps, run together where they can."""

    def __init__(self, cta: Cta, base: int, size: int, start: int, registers: int) -> None:
        self.cta = cta
        self.base = base
        self.size = size
        self.alive = (1 << size) - 1
        self.groups = [Group(self.alive, start)]
        self.registers = registers
        self._lanes: dict[int, Lanes] = {}

    def lanes(self, bits: int) -> Lanes:
        """The thread set `bits`, cached."""
        found = self._lanes.get(bits)
        if found is None:
            lo = (bits & -bits).bit_length() - 1
            hi = bits.bit_length()
            mask = np.unpackbits(
                np.frombuffer((bits >> lo).to_bytes((hi - lo + 7) // 8, "little"), np.uint8), bitorder="little"
            )[: hi - lo].astype(np.bool_)
            full = bool(mask.all())
            threads = np.nonzero(mask)[0] + (self.base + lo)
            warps = sum(1 for w in range(0, self.size, WARP) if bits >> w & _WARP_BITS)
            s = slice(self.base + lo, self.base + hi)
            found = self._lanes[bits] = Lanes(bits, s, None if full else mask, warps, threads)
        return found

    def bits_where(self, group: Group, condition: Array) -> int:
        """The threads of `group` for which the row `condition` (all threads of the CTA) is true."""
        window = condition[self.base : self.base + self.size]
        return int.from_bytes(np.packbits(window, bitorder="little").tobytes(), "little") & group.bits

    def split(self, group: Group, bits: int, pc: int) -> Group:
        """Take `bits` out of `group` and put them at `pc`, ready to run."""
        group.bits &= ~bits
        other = Group(bits, pc, group.stack)
        self.groups.append(other)
        self.moved(other)
        return other

    def advance(self, group: Group) -> bool:
        """The group goes on to the next instruction."""
        group.pc += 1
        group.timed_out = False
        if len(self.groups) > 1:
            self.moved(group)
        return True

    def moved(self, group: Group) -> None:
        """`group` has come to a new place: join a group that stands there and may run (or waits only for lanes)."""
        for other in self.groups:
            if (
                other is not group
                and other.pc == group.pc
                and other.stack == group.stack
                and (other.wait is None or other.wait.kind == "lanes")
            ):
                other.bits |= group.bits
                other.wait = None
                other.timed_out = False
                self.groups.remove(group)
                return

    def block(self, group: Group, wait: Wait) -> bool:
        """`group` waits; one that already waits there for the same thing takes it in."""
        group.wait = wait
        for other in self.groups:
            if (
                other is not group
                and other.wait is not None
                and other.wait.key == wait.key
                and other.pc == group.pc
                and other.stack == group.stack
            ):
                other.bits |= group.bits
                self.groups.remove(group)
                break
        return False

    def warp_bits(self, bits: int) -> int:
        """All living threads of the warps that have a thread in `bits`."""
        out = 0
        for w in range(0, self.size, WARP):
            if bits >> w & _WARP_BITS:
                out |= _WARP_BITS << w
        return out & self.alive

    def gather(self, group: Group, need: int, what: str) -> bool:
        """Whether all threads of `need` are in `group`. If not, warps that are complete go on as `group`, the others
        wait for their missing lanes; with no complete warp the whole group waits and the answer is False."""
        if need & ~group.bits:
            self._meet(group, need)
        missing = need & ~group.bits
        if missing == 0:
            return True
        late = 0
        for w in range(0, self.size, WARP):
            if missing >> w & _WARP_BITS:
                late |= _WARP_BITS << w
        rest = group.bits & late
        wait = self._lane_wait(rest, missing, what)
        if rest == group.bits:
            group.wait = wait
            return False
        group.bits &= ~late
        other = Group(rest, group.pc, group.stack)
        other.wait = wait
        self.groups.append(other)
        return True

    def gather_all(self, group: Group, need: int, what: str) -> bool:
        """Like `gather`, but all or nothing: for instructions of a whole warpgroup."""
        if need & ~group.bits:
            self._meet(group, need)
        missing = need & ~group.bits
        if missing:
            group.wait = self._lane_wait(group.bits, missing, what)
        return not missing

    def _meet(self, group: Group, need: int) -> None:
        """Take in those of `need` that wait for lanes at this very instruction, whichever way `group` came to it."""
        for other in [g for g in self.groups if g is not group and g.wait is not None and g.wait.kind == "lanes"]:
            if other.pc == group.pc and other.stack == group.stack:
                group.bits |= other.bits & need
                other.bits &= ~need
                if not other.bits:
                    self.groups.remove(other)

    def _lane_wait(self, bits: int, missing: int, what: str) -> Wait:
        return Wait(
            "lanes",
            None,
            lambda: f"waiting for {self.describe(missing & self.alive)} to reach {what}",
        )

    def describe(self, bits: int) -> str:
        """Thread set in words: warps of the CTA, with lanes where a warp is not whole."""
        whole, parts = [], []
        for w in range(0, self.size, WARP):
            lanes = bits >> w & _WARP_BITS
            warp = (self.base - self.cta.first + w) // WARP
            if lanes == (1 << min(WARP, self.size - w)) - 1:
                whole.append(str(warp))
            elif lanes:
                numbers = [str(i) for i in range(WARP) if lanes >> i & 1]
                text = ", ".join(numbers[:6]) + (", …" if len(numbers) > 6 else "")
                parts.append(f"warp {warp} lane{'s' if len(numbers) > 1 else ''} {text}")
        if whole:
            parts.insert(0, f"warp{'s' if len(whole) > 1 else ''} {', '.join(whole)}")
        return "; ".join(parts) or "threads that have exited"

    def exit(self, group: Group) -> None:
        """The group's threads are done."""
        self.alive &= ~group.bits
        self.groups.remove(group)
        for other in self.groups:
            if other.wait is not None and other.wait.kind == "lanes":
                other.wait = None
        self.cta.exited()

    def pick(self) -> Group | None:
        """The group to run next: deepest call first, then lowest rank; after a long turn another one gets a go."""
        ready = [g for g in self.groups if g.wait is None]
        if len(ready) <= 1:
            return ready[0] if ready else None
        order = self.cta.machine.program.order
        best = min(ready, key=lambda g: (-len(g.stack), order[g.pc]))
        best.passed += 1
        if best.passed > 256:
            # A thread that polls memory for what another thread of this warpgroup writes must not keep that one out.
            other = min((g for g in ready if g is not best), key=lambda g: g.last_run)
            if best.passed > 512:
                best.passed = 0
            best = other
        self.cta.turns += 1
        best.last_run = self.cta.turns
        return best
