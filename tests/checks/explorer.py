"""Every interleaving of a small plan, by brute force and with the hardware's own rules.

It shares nothing with the checker but the plan: mbarriers know a parity and counts, a warpgroup is its first
thread and the rest of it, TMA takes as long as it likes. What it knows: rings, products, reads by threads, turns
and meetings; no stores, one ring part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tilegen.ir import plan as ir
from tilegen.ir.plan_op_text import operation_text
from tilegen.ir.uniform import evaluate

_T = TypeVar("_T")


@dataclass(frozen=True)
class Step:
    """An operation that one agent runs, with the positions of the slots that it names."""

    operation: ir.Operation
    positions: tuple[tuple[str, int], ...]  # (cursor, position)

    def position(self, slot: ir.Slot) -> int:
        return dict(self.positions)[slot.cursor]


@dataclass(frozen=True)
class State:
    """at: each agent's next step, twice, plus 1 where it stands inside a named barrier. bars: (phases over,
    arrivals missing, bytes missing). slots: what each holds, -1 while it is written. loads: in flight, (barrier,
    slot, position, bytes). reads: slots that a product reads, (warpgroup, number of its group, slot). named: units
    arrived."""

    at: tuple[int, ...]
    bars: tuple[tuple[int, int, int], ...]
    slots: tuple[int | None, ...]
    loads: tuple[tuple[int, int, int, int], ...]
    reads: tuple[tuple[int, int, int], ...]
    named: tuple[tuple[int, int], ...]


class Bad(Exception):  # noqa: N818 - a verdict
    pass


class Explorer:
    def __init__(self, plan: ir.Plan, symbols: Mapping[str, int]) -> None:
        self.plan = plan
        self.agents: list[tuple[str, int, bool, tuple[Step, ...]]] = []  # (name, warpgroup, first thread, steps)
        for role in plan.roles:
            for group in range(role.warpgroups):
                steps = tuple(_unrolled(role, {**symbols, "warpgroup": group}))
                self.agents.append((f"{role.name} {group}", group, True, steps))
                if not role.elected:
                    self.agents.append((f"{role.name} {group}, rest", group, False, steps))
        self.slot_of: dict[tuple[str, int], int] = {}
        self.bar_of: dict[tuple[str, str, int], int] = {}
        self.counts: list[int] = []
        for ring in plan.rings:
            for stage in range(ring.depth):
                self.slot_of[ring.name, stage] = len(self.slot_of)
                for kind, count in (("full", ring.full_arrivals), ("empty", ring.empty_arrivals)):
                    self.bar_of[ring.name, kind, stage] = len(self.counts)
                    self.counts.append(count)
        self.warpgroups = max(r.warpgroups for r in plan.roles)

    def shortest_fault(self, limit: int = 400_000) -> list[str] | None:
        """The steps to the nearest state in which something goes wrong, None if there is none."""
        start = State(
            tuple(0 for _ in self.agents),
            tuple((0, count, 0) for count in self.counts),
            tuple(None for _ in self.slot_of),
            (),
            (),
            (),
        )
        came: dict[State, tuple[State, str] | None] = {start: None}
        queue = deque([start])

        def way(state: State) -> list[str]:
            steps = []
            while (before := came[state]) is not None:
                state, word = before
                steps.append(word)
            return steps[::-1]

        while queue:
            state = queue.popleft()
            moved = False
            try:
                for word, following in self._moves(state):
                    moved = True
                    if following not in came:
                        came[following] = (state, word)
                        queue.append(following)
            except Bad as bad:
                return [*way(state), str(bad)]
            if not moved:
                done = all(at == 2 * len(steps) for at, (*_, steps) in zip(state.at, self.agents, strict=True))
                if not done or state.loads:
                    return [*way(state), "nobody can go on"]
            assert len(came) < limit, "too many states to explore"
        return None

    # ---- one step ----

    def _moves(self, state: State) -> Iterator[tuple[str, State]]:
        running = all(at < 2 * len(steps) for at, (*_, steps) in zip(state.at, self.agents, strict=True))
        if (
            state.loads
            and not running
            and all(at == 2 * len(steps) for at, (*_, steps) in zip(state.at, self.agents, strict=True))
        ):
            raise Bad("the CTA ends under a load")
        for n, (bar, slot, position, size) in enumerate(state.loads):
            slots = _put(state.slots, slot, position)
            loads = state.loads[:n] + state.loads[n + 1 :]
            yield f"TMA completes slot {slot}", self._bar(replace(state, slots=slots, loads=loads), bar, 0, -size)
        for n, (name, group, first, steps) in enumerate(self.agents):
            if state.at[n] >= 2 * len(steps) or state.at[n] % 2:
                continue
            step = steps[state.at[n] // 2]
            following = self._step(state, n, group, first, step)
            if following is not None:
                yield f"{name}: {operation_text(step.operation)}", following

    def _step(self, state: State, n: int, group: int, first: bool, step: Step) -> State | None:
        after = replace(state, at=_put(state.at, n, state.at[n] + 2))
        match step.operation:
            case ir.WaitFull(slot):
                return after if self._passes(state, slot, "full", step, 0) else None
            case ir.WaitEmpty(slot):
                return after if self._passes(state, slot, "empty", step, 1) else None
            case ir.Expect(slot, size):
                return self._bar(after, self._bar_of(slot, "full", step), 1, size)
            case ir.TmaLoad(_, _, slot, _, size):
                at = self._slot_of(slot, step)
                if any(at == read for _, _, read in state.reads):
                    raise Bad("TMA writes what a product reads")
                if any(at == load[1] for load in state.loads):
                    raise Bad("two loads in one slot")
                load = (self._bar_of(slot, "full", step), at, step.position(slot), size)
                return replace(after, loads=(*state.loads, load), slots=_put(state.slots, at, -1))
            case ir.ArriveEmpty(slot):
                whole = self.plan.ring(slot.ring).release == "warp"
                count = (1 if first else 3) if whole else int(first)
                return self._bar(after, self._bar_of(slot, "empty", step), count, 0)
            case ir.Mma() | ir.GroupSync():
                return self._together(state, n, group, first, step)
            case ir.MmaWait():
                over = self._commits(state, n) - step.operation.pending
                return replace(after, reads=tuple(r for r in state.reads if r[0] != group or r[1] > over))
            case ir.ReadShared(_, slot):
                if state.slots[self._slot_of(slot, step)] != step.position(slot):
                    raise Bad("a thread reads a slot that does not hold its tile")
                return after
            case ir.OrderWait(first_id):
                return self._named(replace(state, at=_put(state.at, n, state.at[n] + 1)), first_id + group)
            case ir.OrderPass(first_id):
                return self._named(after, first_id + (group + 1) % self.warpgroups)
            case ir.OrderStart(first_id):
                return self._named(after, first_id) if group == self.warpgroups - 1 else after
        return after

    def _together(self, state: State, n: int, group: int, first: bool, step: Step) -> State | None:
        """The first thread and the rest go on once both are here."""
        mate = n + 1 if first else n - 1
        if not first or state.at[mate] != state.at[n]:
            return None
        at = _put(_put(state.at, n, state.at[n] + 2), mate, state.at[mate] + 2)
        if not isinstance(step.operation, ir.Mma):
            return replace(state, at=at)
        issued = self._commits(state, n) + 1
        reads = list(state.reads)
        for operand in (step.operation.a, step.operation.b):
            assert isinstance(operand, ir.SlotOperand)
            slot = self._slot_of(operand.slot, step)
            if state.slots[slot] != step.position(operand.slot):
                raise Bad("a product reads a slot that does not hold its tile")
            reads.append((group, issued, slot))
        return replace(state, at=at, reads=tuple(sorted(set(reads))))

    def _commits(self, state: State, n: int) -> int:
        """Groups of products that the agent has committed."""
        return sum(isinstance(s.operation, ir.MmaCommit) for s in self.agents[n][3][: state.at[n] // 2])

    def _passes(self, state: State, slot: ir.Slot, kind: str, step: Step, opposite: int) -> bool:
        ring = self.plan.ring(slot.ring)
        done = state.bars[self._bar_of(slot, kind, step)][0]
        return (done - 1) % 2 == (step.position(slot) // ring.depth + opposite) % 2

    def _bar(self, state: State, bar: int, arrivals: int, size: int) -> State:
        done, missing, transfer = state.bars[bar]
        missing, transfer = missing - arrivals, transfer + size
        if missing < 0:
            raise Bad("an arrival too many")
        if missing == 0 and transfer == 0:
            done, missing = done + 1, self.counts[bar]
        return replace(state, bars=_put(state.bars, bar, (done, missing, transfer)))

    def _named(self, state: State, barrier: int) -> State:
        """One unit of four arrives: two of the warpgroup that waits, two of the one that passes."""
        units = dict(state.named)
        units[barrier] = units.get(barrier, 0) + 1
        at = state.at
        if units[barrier] == 4:
            units[barrier] = 0
            for n, (_, group, _, steps) in enumerate(self.agents):
                operation = steps[at[n] // 2].operation if at[n] % 2 else None
                if isinstance(operation, ir.OrderWait) and operation.first_id + group == barrier:
                    at = _put(at, n, at[n] + 1)
        return replace(state, at=at, named=tuple(sorted(units.items())))

    def _slot_of(self, slot: ir.Slot, step: Step) -> int:
        return self.slot_of[slot.ring, step.position(slot) % self.plan.ring(slot.ring).depth]

    def _bar_of(self, slot: ir.Slot, kind: str, step: Step) -> int:
        return self.bar_of[slot.ring, kind, step.position(slot) % self.plan.ring(slot.ring).depth]


def _put(values: tuple[_T, ...], index: int, value: _T) -> tuple[_T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _unrolled(role: ir.RolePlan, values: dict[str, int]) -> Iterator[Step]:
    cursors = {c.name: 0 for c in role.cursors}
    known = (
        ir.WaitFull,
        ir.WaitEmpty,
        ir.Expect,
        ir.TmaLoad,
        ir.ArriveEmpty,
        ir.Mma,
        ir.MmaCommit,
        ir.MmaWait,
        ir.GroupSync,
        ir.ReadShared,
        ir.OrderWait,
        ir.OrderPass,
        ir.OrderStart,
    )

    def walk(body: tuple[ir.Operation, ...]) -> Iterator[Step]:
        for operation in body:
            match operation:
                case ir.If(condition, inner):
                    if evaluate(condition, values):
                        yield from walk(inner)
                case ir.For(name, start, stop, inner):
                    for value in range(evaluate(start, values), evaluate(stop, values)):
                        values[name] = value
                        yield from walk(inner)
                case ir.Work(name, total, _, inner):  # the only CTA
                    for value in range(evaluate(total, values)):
                        values[name] = value
                        yield from walk(inner)
                case ir.Advance(cursor):
                    cursors[cursor] += 1
                case _ if isinstance(operation, known):
                    yield Step(operation, tuple(cursors.items()))

    yield from walk(role.body)
