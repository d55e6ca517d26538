"""Values of fragments: read only where they have been written, and per-thread row folds not taken for whole ones.

Fragments that share registers are names of the same values, so what counts is what the registers hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_text import Path
from tilegen.ir.plan_walk import forward, fragments_read, fragments_written, operations, storages
from tilegen.ir.uniform import Sym, Uniform, op, opposite, symbols

CONSTANT, WHOLE, PARTIAL = "constant", "whole", "partial"

# (storage, what it holds, the conditions of branches and loops under which it holds it)
_State = frozenset[tuple[str, str, frozenset[Uniform]]]


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on values."""
    for index, role in enumerate(plan.roles):
        analysis = _Analysis(role, dict(operations(role, index)))
        nothing: _State = frozenset()
        forward(role.body, ("role", index), nothing, analysis.step, _join)
        yield from (Violation(path, message) for path, message in analysis.found)


def _join(before: _State, after: _State) -> _State:
    """Where paths meet: what held before the branch or loop still holds something, and what was written inside it
    holds in later branches and loops of the same condition."""
    out = set()
    for storage, kind, conditions in before:
        for other, later, _ in after:
            if other == storage:
                kind = _either(kind, later)
        out.add((storage, kind, conditions))
    known = {(storage, conditions) for storage, _, conditions in out}
    return frozenset(out | {entry for entry in after if (entry[0], entry[2]) not in known})


def _held(state: _State, conditions: frozenset[Uniform]) -> dict[str, str]:
    """What registers hold where these conditions do; also what holds whether another one does or not."""
    held: dict[str, str] = {}
    halves: dict[Uniform, dict[str, str]] = {}
    for storage, kind, needs in state:
        missing = needs - conditions
        if not missing:
            held[storage] = _either(kind, held.get(storage, kind))
        elif len(missing) == 1:
            (condition,) = missing
            halves.setdefault(condition, {})[storage] = kind
    for condition, kinds in halves.items():
        others = halves.get(opposite(condition), {})
        for storage in kinds.keys() & others.keys():
            held[storage] = _either(kinds[storage], held.get(storage, others[storage]))
    return held


def _taken(operation: ir.Operation) -> tuple[str, ...]:
    """Fragments whose values must be there. A product that overwrites on a condition is taken at its word: the
    condition is checked where the plan is run."""
    names = fragments_read(operation)
    if isinstance(operation, ir.Mma) and not isinstance(operation.zero, bool):
        return tuple(n for n in names if n != operation.accumulator)
    return names


def _either(a: str, b: str) -> str:
    if PARTIAL in (a, b):
        return PARTIAL
    return WHOLE if WHOLE in (a, b) else CONSTANT


@dataclass
class _Analysis:
    role: ir.RolePlan
    at: dict[Path, ir.Operation]
    found: dict[tuple[Path, str], None] = field(default_factory=dict)
    _above: dict[Path, frozenset[Uniform]] = field(default_factory=dict)  # the conditions of bodies

    def __post_init__(self) -> None:
        self._storage = storages(self.role)
        self._layouts = {f.name: f.layout for f in self.role.fragments}

    def step(self, operation: ir.Operation, path: Path, state: _State) -> _State:
        if isinstance(operation, ir.Let):  # bound anew: conditions on its old value say nothing any more
            return frozenset(e for e in state if not any(operation.name in symbols(c) for c in e[2]))
        conditions = self._conditions(path[:-1])
        held = _held(state, conditions)
        for name in dict.fromkeys(_taken(operation)):
            if self._storage[name] not in held:
                self.found[(path, f"{name} has no value here on every path")] = None
        kind = self._kind(operation, path, held)
        for name in fragments_written(operation):
            storage = self._storage[name]
            state = frozenset({*(e for e in state if e[0] != storage), (storage, kind, conditions)})
        return state

    def _kind(self, operation: ir.Operation, path: Path, held: dict[str, str]) -> str:
        """What the written fragment holds. Reports row folds read before they are combined."""
        reads = fragments_read(operation)
        partial = [n for n in reads if held.get(self._storage[n]) == PARTIAL]
        match operation:
            case ir.Init():
                return CONSTANT
            case ir.RowFold(_, _, _, scope):
                return PARTIAL if scope == "thread" else WHOLE
            case ir.QuadReduce(fragment, "sum") if held.get(self._storage[fragment]) == WHOLE:
                self.found[(path, f"{fragment} is whole already: its sum would count four times")] = None
                return WHOLE
            case ir.QuadReduce():
                return WHOLE
            case ir.IfVote():
                return WHOLE
            case ir.Map(out) if partial and self._layouts[out] == "row":
                return PARTIAL
        if partial:
            self.found[(path, f"{', '.join(partial)} is not combined over the quad yet")] = None
        return WHOLE

    def _conditions(self, body: Path) -> frozenset[Uniform]:
        """The conditions under which a body is run."""
        if body not in self._above:
            self._above[body] = self._of_body(body)
        return self._above[body]

    def _of_body(self, body: Path) -> frozenset[Uniform]:
        above = [self.at[body[:n]] for n in range(3, len(body) + 1)]
        taken: list[Uniform] = [o.condition for o in above if isinstance(o, ir.If)]
        # what one vote lets happen says nothing about another
        taken += [Sym(f"vote {body[: n + 3]}") for n, o in enumerate(above) if isinstance(o, ir.IfVote | ir.IfSpoiled)]
        return frozenset((*taken, *(op("lt", o.start, o.stop) for o in above if isinstance(o, ir.For))))
