"""Every interleaving of a small plan, or of one ring of a plan, by brute force and with the hardware's own rules.

It tests the pipeline's one run and tells the shortest way to a fault that the run has found. It shares nothing with the
run but the plan: mbarriers know a parity and counts, a warpgroup is its first thread and the rest of it, TMA takes as
long as it likes. What it knows: rings, products, reads by threads, scans, turns and meetings; no stores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

from tilegen.checks.barriers import in_cluster
from tilegen.checks.compiled import Numbers
from tilegen.checks.items import cluster_of, items, names_of
from tilegen.checks.machine import part_of
from tilegen.ir import plan as ir
from tilegen.ir.plan_op_text import operation_text
from tilegen.ir.plan_walk import all_operations
from tilegen.syntax.span import Span

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
    arrivals missing, bytes missing). slots: what the place of each box holds, -1 while it is written. loads: in flight,
    (barrier, place, position, bytes). reads: places that a product reads, (warpgroup, number of its group, place).
    named: units arrived. Warpgroups and named barriers are numbered over all CTAs."""

    at: tuple[int, ...]
    bars: tuple[tuple[int, int, int], ...]
    slots: tuple[int | None, ...]
    loads: tuple[tuple[int, int, int, int], ...]
    reads: tuple[tuple[int, int, int], ...]
    named: tuple[tuple[int, int], ...]


class Bad(Exception):  # noqa: N818 - a verdict
    pass


class TooManyStates(Exception):  # noqa: N818 - a verdict
    """There are more states than were asked to be looked at."""


@dataclass(frozen=True)
class Agent:
    """What goes its own way: the first thread of a warpgroup, the rest of it, or a role of few warps."""

    name: str
    role: ir.RolePlan
    warpgroup: int
    first: bool
    steps: tuple[Step, ...]
    rank: int  # of its CTA

    @property
    def alone(self) -> bool:
        return self.role.elected or self.role.warps is not None


class Explorer:
    """Of a CTA and its cluster. `ring`: the only one that is looked at; turns are left out with the others."""

    def __init__(
        self, plan: ir.Plan, symbols: Mapping[str, int], ring: str | None = None, cta: int = 0, ctas: int = 1
    ) -> None:
        self.plan = plan
        self.rings = tuple(r for r in plan.rings if ring in (None, r.name))
        self.agents: list[Agent] = []
        for each, role in product(cluster_of(plan, cta), plan.roles):
            rank = each % plan.cluster
            for group in range(role.warpgroups):
                values = names_of(plan, symbols, each, group)
                steps = tuple(self._unrolled(role, values, symbols, each, ctas, ring is None))
                name = f"{role.name} {group}{in_cluster(rank if plan.cluster > 1 else None)}"
                self.agents.append(Agent(name, role, group, True, steps, rank))
                if not self.agents[-1].alone:
                    self.agents.append(Agent(f"{name}, rest", role, group, False, steps, rank))
        self.places: dict[tuple[int, str, int, int], dict[int, int]] = {}  # of a slot's boxes, by offset
        self.bar_of: dict[tuple[int, str, str, int, int], int] = {}
        self.counts: list[int] = []
        for rank, r in product(range(plan.cluster), self.rings):
            for stage, part in product(range(r.depth), range(r.parts)):
                first = sum(map(len, self.places.values()))
                offsets = sorted(self._offsets(r))
                self.places[rank, r.name, stage, part] = {offset: first + n for n, offset in enumerate(offsets)}
                for barriers in r.barriers:
                    self.bar_of[rank, r.name, barriers.kind, stage, part] = len(self.counts)
                    self.counts.append(barriers.arrivals)
        self.warpgroups = max(r.warpgroups for r in plan.roles)

    def _offsets(self, ring: ir.Ring) -> set[int]:
        """Where boxes begin in a slot; 0 of a ring that TMA does not fill."""
        loads = [o for _, _, o in all_operations(self.plan) if isinstance(o, ir.TmaLoad) and o.slot.ring == ring.name]
        return {o.offset + n * o.share for o in loads for n in range(ring.shares)} or {0}

    def shortest_fault(self, limit: int = 400_000) -> list[str] | None:
        """The steps to the nearest state in which something goes wrong, None if there is none. Raises TooManyStates."""
        way = self.shortest_way(limit)
        return None if way is None else [word for word, _ in way]

    def shortest_way(self, limit: int) -> list[tuple[str, Span | None]] | None:
        """The same, each step with the place of its statement."""
        start = State(
            tuple(0 for _ in self.agents),
            tuple((0, count, 0) for count in self.counts),
            tuple(None for places in self.places.values() for _ in places),
            (),
            (),
            (),
        )
        came: dict[State, tuple[State, tuple[str, Span | None]] | None] = {start: None}
        queue = deque([start])

        def way(state: State) -> list[tuple[str, Span | None]]:
            steps: list[tuple[str, Span | None]] = []
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
                return [*way(state), (str(bad), None)]
            if not moved and (not self._ended(state) or state.loads):
                return [*way(state), ("nobody can go on", None)]
            if len(came) >= limit:
                raise TooManyStates
        return None

    def _ended(self, state: State) -> bool:
        return all(at == 2 * len(a.steps) for at, a in zip(state.at, self.agents, strict=True))

    # ---- one step ----

    def _moves(self, state: State) -> Iterator[tuple[tuple[str, Span | None], State]]:
        if state.loads and self._ended(state):
            raise Bad("the CTA ends under a load")
        for n, (bar, slot, position, size) in enumerate(state.loads):
            slots = _put(state.slots, slot, position)
            loads = state.loads[:n] + state.loads[n + 1 :]
            rank, ring, stage, _ = next(k for k, v in self.places.items() if slot in v.values())
            whose = in_cluster(rank if self.plan.cluster > 1 else None)
            told = f"TMA has filled stage {stage} of {ring}{whose}"
            yield (told, None), self._bar(replace(state, slots=slots, loads=loads), bar, 0, -size)
        for n, agent in enumerate(self.agents):
            if state.at[n] >= 2 * len(agent.steps) or state.at[n] % 2:
                continue
            step = agent.steps[state.at[n] // 2]
            following = self._step(state, n, agent, step)
            if following is not None:
                yield (f"{agent.name}: {operation_text(step.operation)}", step.operation.span), following

    def _step(self, state: State, n: int, agent: Agent, step: Step) -> State | None:
        group, first = agent.warpgroup, agent.first
        after = replace(state, at=_put(state.at, n, state.at[n] + 2))
        match step.operation:
            case ir.WaitFull(slot):
                return after if self._passes(state, slot, "full", step, 0, agent) else None
            case ir.WaitClean(slot):
                return after if self._passes(state, slot, "clean", step, 0, agent) else None
            case ir.WaitEmpty(slot):
                return after if self._passes(state, slot, "empty", step, 1, agent) else None
            case ir.Expect(slot, size):
                return self._bar(after, self._bar_of(slot, "full", step, agent), 1, size)
            case ir.TmaLoad():
                return self._load(state, after, step.operation, agent, step)
            case ir.ArriveEmpty(slot):
                ring = self.plan.ring(slot.ring)
                count = agent.role.releases(ring)
                if not agent.alone:
                    count = (1 if first else 3) if agent.role.frees_by_warp(ring) else int(first)
                for rank in self._sharers(ring, agent):
                    after = self._bar(after, self._bar_of(slot, "empty", step, agent, rank), count, 0)
                return after
            case ir.ArriveClean(slot):
                count = agent.role.warps_of_group[1]
                return self._bar(after, self._bar_of(slot, "clean", step, agent), count, 0)
            case ir.Mma() | ir.GroupSync():
                return self._together(state, n, agent, step)
            case ir.MmaWait():
                over = self._commits(state, n) - step.operation.pending
                unit = self._unit(agent)
                return replace(after, reads=tuple(r for r in state.reads if r[0] != unit or r[1] > over))
            case ir.ReadShared(_, slot) | ir.ScanSlot(slot):
                if any(state.slots[at] != step.position(slot) for at in self._places_of(slot, step, agent)):
                    raise Bad("a thread reads a slot that does not hold its tile")
                return after
            case ir.OrderWait(first_id):
                return self._named(replace(state, at=_put(state.at, n, state.at[n] + 1)), first_id + group, agent)
            case ir.OrderPass(first_id):
                return self._named(after, first_id + (group + 1) % self.warpgroups, agent)
            case ir.OrderStart(first_id):
                return self._named(after, first_id, agent) if group == self.warpgroups - 1 else after
        return after

    def _load(self, state: State, after: State, load: ir.TmaLoad, agent: Agent, step: Step) -> State:
        ring = self.plan.ring(load.slot.ring)
        sharers = self._sharers(ring, agent)
        offset = load.offset + sharers.index(agent.rank) * load.share
        for rank in sharers:
            at = self._places_by_offset(load.slot, step, agent, rank)[offset]
            if any(at == read for _, _, read in state.reads):
                raise Bad("TMA writes what a product reads")
            if any(at == other[1] for other in after.loads):
                raise Bad("two loads in one slot")
            new = (self._bar_of(load.slot, "full", step, agent, rank), at, step.position(load.slot), load.bytes)
            after = replace(after, loads=(*after.loads, new), slots=_put(after.slots, at, -1))
        return after

    def _together(self, state: State, n: int, agent: Agent, step: Step) -> State | None:
        """The first thread and the rest go on once both are here."""
        mate = n + 1
        if not agent.first or state.at[mate] != state.at[n]:
            return None
        at = _put(_put(state.at, n, state.at[n] + 2), mate, state.at[mate] + 2)
        if not isinstance(step.operation, ir.Mma):
            return replace(state, at=at)
        issued = self._commits(state, n) + 1
        reads = list(state.reads)
        for operand in (step.operation.a, step.operation.b):
            if not isinstance(operand, ir.SlotOperand) or operand.slot.ring not in {r.name for r in self.rings}:
                continue
            for place in self._places_of(operand.slot, step, agent):
                if state.slots[place] != step.position(operand.slot):
                    raise Bad("a product reads a slot that does not hold its tile")
                reads.append((self._unit(agent), issued, place))
        return replace(state, at=at, reads=tuple(sorted(set(reads))))

    def _commits(self, state: State, n: int) -> int:
        """Groups of products that the agent has committed."""
        return sum(isinstance(s.operation, ir.MmaCommit) for s in self.agents[n].steps[: state.at[n] // 2])

    def _passes(self, state: State, slot: ir.Slot, kind: str, step: Step, opposite: int, agent: Agent) -> bool:
        ring = self.plan.ring(slot.ring)
        done = state.bars[self._bar_of(slot, kind, step, agent)][0]
        return (done - 1) % 2 == (step.position(slot) // ring.depth + opposite) % 2

    def _bar(self, state: State, bar: int, arrivals: int, size: int) -> State:
        done, missing, transfer = state.bars[bar]
        missing, transfer = missing - arrivals, transfer + size
        if missing < 0:
            raise Bad("an arrival too many")
        if missing == 0 and transfer == 0:
            done, missing = done + 1, self.counts[bar]
        return replace(state, bars=_put(state.bars, bar, (done, missing, transfer)))

    def _named(self, state: State, number: int, agent: Agent) -> State:
        """One unit of four arrives: two of the warpgroup that waits, two of the one that passes."""
        units = dict(state.named)
        barrier = 16 * agent.rank + number
        units[barrier] = units.get(barrier, 0) + 1
        at = state.at
        if units[barrier] == 4:
            units[barrier] = 0
            for n, other in enumerate(self.agents):
                operation = other.steps[at[n] // 2].operation if at[n] % 2 else None
                if not isinstance(operation, ir.OrderWait) or other.rank != agent.rank:
                    continue
                if operation.first_id + other.warpgroup == number:
                    at = _put(at, n, at[n] + 1)
        return replace(state, at=at, named=tuple(sorted(units.items())))

    def _unit(self, agent: Agent) -> int:
        return agent.rank * self.warpgroups + agent.warpgroup

    @staticmethod
    def _sharers(ring: ir.Ring, agent: Agent) -> tuple[int, ...]:
        return (agent.rank,) if ring.sharers is None else ring.sharers.ranks(agent.rank)

    def _places_by_offset(self, slot: ir.Slot, step: Step, agent: Agent, rank: int) -> dict[int, int]:
        ring = self.plan.ring(slot.ring)
        return self.places[rank, slot.ring, step.position(slot) % ring.depth, part_of(ring, slot, agent.warpgroup)]

    def _places_of(self, slot: ir.Slot, step: Step, agent: Agent) -> Iterable[int]:
        return self._places_by_offset(slot, step, agent, agent.rank).values()

    def _bar_of(self, slot: ir.Slot, kind: str, step: Step, agent: Agent, rank: int | None = None) -> int:
        """The barrier of a slot, in the agent's own CTA or another one."""
        ring = self.plan.ring(slot.ring)
        stage, part = step.position(slot) % ring.depth, part_of(ring, slot, agent.warpgroup)
        return self.bar_of[agent.rank if rank is None else rank, slot.ring, kind, stage, part]

    def _unrolled(
        self, role: ir.RolePlan, values: dict[str, int], symbols: Mapping[str, int], cta: int, ctas: int, turns: bool
    ) -> Iterator[Step]:
        """The operations that matter, in the order in which a warpgroup of a role does them."""
        cursors = {c.name: 0 for c in role.cursors}
        number, kept = Numbers(), {r.name for r in self.rings}

        def walk(body: tuple[ir.Operation, ...]) -> Iterator[Step]:
            for operation in body:
                match operation:
                    case ir.Let(name, value):
                        values[name] = number(value, values)
                    case ir.If(condition, inner):
                        if number(condition, values):
                            yield from walk(inner)
                    case ir.For(name, start, stop, inner):
                        for turn in range(number(start, values), number(stop, values)):
                            values[name] = turn
                            yield from walk(inner)
                    case ir.Work():
                        for bound in items(self.plan, operation, values, symbols, cta, ctas, number):
                            values.update(bound)
                            yield from walk(operation.body)
                    case ir.Sweep(inner) | ir.IfVote(_, inner):
                        yield from walk(inner)
                    case ir.Advance(cursor):
                        cursors[cursor] += 1
                    case ir.Mma(_, _, a, b):
                        slots = {o.slot.ring for o in (a, b) if isinstance(o, ir.SlotOperand)}
                        if slots & kept:
                            yield Step(operation, tuple(cursors.items()))
                    case ir.MmaCommit() | ir.MmaWait() | ir.GroupSync():
                        yield Step(operation, tuple(cursors.items()))
                    case ir.OrderWait() | ir.OrderPass() | ir.OrderStart():
                        if turns:
                            yield Step(operation, tuple(cursors.items()))
                    case _:
                        slot = getattr(operation, "slot", None)
                        if isinstance(slot, ir.Slot) and slot.ring in kept:
                            yield Step(operation, tuple(cursors.items()))

        yield from walk(role.body)


def _put(values: tuple[_T, ...], index: int, value: _T) -> tuple[_T, ...]:
    return (*values[:index], value, *values[index + 1 :])
