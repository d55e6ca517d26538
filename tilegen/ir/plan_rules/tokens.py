"""Products in flight: commits and waits name the right tokens, and nobody touches what a product still uses.

Registers and slots of a product are in flight from its issue until a wait retires it. The analysis follows every
path through a role; where paths meet with different products in flight, both cases are followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_text import Path
from tilegen.ir.plan_walk import UnsettledError, forward, fragments_read, fragments_written, operations, parts, storages


@dataclass(frozen=True)
class _Flying:
    """A product in flight. `slots`: (ring, part, position); positions count as in _State.cursors."""

    token: str
    accumulator: str  # storage
    operand: str | None  # storage of the A fragment
    buffer: str | None  # that holds A
    slots: tuple[tuple[str, int | None, int], ...]


@dataclass(frozen=True)
class _State:
    """`groups`: committed, oldest first. `cursors`: positions, counted from the hindmost cursor of the ring."""

    open: tuple[_Flying, ...]
    groups: tuple[tuple[_Flying, ...], ...]
    cursors: tuple[tuple[str, int], ...]

    @property
    def flying(self) -> tuple[_Flying, ...]:
        return (*(f for g in self.groups for f in g), *self.open)

    def position(self, cursor: str) -> int:
        return dict(self.cursors)[cursor]


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on products in flight."""
    for index, role in enumerate(plan.roles):
        if not any(isinstance(o, ir.Mma | ir.MmaCommit | ir.MmaWait) for _, o in operations(role, index)):
            continue
        analysis = _Analysis(role)
        start = _State((), (), tuple((c.name, 0) for c in role.cursors))
        try:
            end = forward(role.body, ("role", index), frozenset((start,)), analysis.step, frozenset.union)
        except UnsettledError as error:
            yield from analysis.violations()
            yield Violation(error.path, "every round of the loop leaves more in flight, or its cursors further apart")
            continue
        yield from analysis.violations()
        left = sorted({f.token for state in end for f in state.flying})
        if left:
            yield Violation(("role", index), f"the role ends with {', '.join(left)} in flight")


@dataclass
class _Analysis:
    role: ir.RolePlan
    found: dict[tuple[Path, str], None] = field(default_factory=dict)
    # what each wait retires, over all paths that lead to it, beside what it says
    retired: dict[Path, tuple[ir.MmaWait, set[str]]] = field(default_factory=dict)

    def violations(self) -> Iterator[Violation]:
        for path, (wait, tokens) in self.retired.items():
            if set(wait.retires) != tokens:
                self._report(path, f"retires {{{', '.join(sorted(tokens))}}} with {wait.pending} pending")
        yield from (Violation(path, message) for path, message in self.found)

    def step(self, operation: ir.Operation, path: Path, states: frozenset[_State]) -> frozenset[_State]:
        return frozenset(self._one(operation, path, state) for state in states)

    def _one(self, operation: ir.Operation, path: Path, state: _State) -> _State:
        match operation:
            case ir.Mma():
                return self._issue(operation, state)
            case ir.MmaCommit(tokens):
                issued = tuple(f.token for f in state.open)
                if issued != tokens:
                    self._report(path, f"issued since the last commit: {{{', '.join(issued)}}}")
                return replace(state, open=(), groups=(*state.groups, state.open) if state.open else state.groups)
            case ir.MmaWait(pending):
                if state.open:
                    self._report(path, f"{', '.join(f.token for f in state.open)} not committed")
                done = state.groups[: len(state.groups) - pending] if pending else state.groups
                self.retired.setdefault(path, (operation, set()))[1].update(f.token for g in done for f in g)
                return replace(state, groups=state.groups[len(done) :])
            case ir.Advance(cursor):
                return self._advance(state, cursor)
            case ir.ArriveEmpty(slot):
                here = (slot.ring, slot.part, state.position(slot.cursor))
                for f in state.flying:
                    if here in f.slots:
                        self._report(path, f"{f.token} is in flight and still reads the slot")
        self._touch(operation, path, state)
        return state

    def _issue(self, mma: ir.Mma, state: _State) -> _State:
        accumulator = self._storage(mma.accumulator)
        operand = self._storage(mma.a.fragment) if isinstance(mma.a, ir.FragmentOperand) else None
        # products may follow one another in one accumulator: the tensor core keeps their order
        slots = tuple(dict.fromkeys((s.ring, s.part, state.position(s.cursor)) for s in parts(mma, ir.Slot)))
        buffer = mma.a.buffer if isinstance(mma.a, ir.BufferOperand) else None
        return replace(state, open=(*state.open, _Flying(mma.token, accumulator, operand, buffer, slots)))

    def _touch(self, operation: ir.Operation, path: Path, state: _State) -> None:
        for f in state.flying:
            if isinstance(operation, ir.WriteShared) and operation.buffer == f.buffer:
                self._report(path, f"{f.token} is in flight and reads {f.buffer}")
            for name in dict.fromkeys((*fragments_read(operation), *fragments_written(operation))):
                storage = self._storage(name)
                if storage == f.accumulator:
                    self._report(path, f"{f.token} is in flight and accumulates in {name}")
                elif storage == f.operand and name in fragments_written(operation):
                    self._report(path, f"{f.token} is in flight and reads {name}")

    def _advance(self, state: _State, cursor: str) -> _State:
        ring = next(c.ring for c in self.role.cursors if c.name == cursor)
        mates = {c.name for c in self.role.cursors if c.ring == ring}
        moved = {name: at + (name == cursor) for name, at in state.cursors}
        base = min(moved[name] for name in mates)

        def shifted(f: _Flying) -> _Flying:
            return replace(f, slots=tuple((r, p, at - base if r == ring else at) for r, p, at in f.slots))

        return _State(
            tuple(shifted(f) for f in state.open),
            tuple(tuple(shifted(f) for f in g) for g in state.groups),
            tuple((name, at - base if name in mates else at) for name, at in moved.items()),
        )

    def _storage(self, fragment: str) -> str:
        return storages(self.role)[fragment]

    def _report(self, path: Path, message: str) -> None:
        self.found[(path, message)] = None
