"""Values of fragments: read only where they have been written, and per-thread row folds not taken for whole ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_text import Path
from tilegen.ir.plan_walk import forward, fragments_read, fragments_written, operations
from tilegen.ir.uniform import Uniform

CONSTANT, WHOLE, PARTIAL = "constant", "whole", "partial"

# fragment -> what it holds, and the branch conditions under which it holds it
_State = tuple[tuple[str, str, frozenset[Uniform]], ...]


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on values."""
    for index, role in enumerate(plan.roles):
        analysis = _Analysis(role, dict(operations(role, index)))
        forward(role.body, ("role", index), (), analysis.step, _join)
        yield from (Violation(path, message) for path, message in analysis.found)


def _join(before: _State, after: _State) -> _State:
    """Where paths meet: what held before the branch or loop, and still holds in some kind after it."""
    later = {name: (kind, conditions) for name, kind, conditions in after}
    out = []
    for name, kind, conditions in before:
        if name in later:
            out.append((name, _either(kind, later[name][0]), conditions))
    held = {name for name, _, _ in out}
    # written inside a branch: holds in later branches of the same condition
    out += [entry for entry in after if entry[0] not in held and entry[2]]
    return tuple(out)


def _either(a: str, b: str) -> str:
    if PARTIAL in (a, b):
        return PARTIAL
    return WHOLE if WHOLE in (a, b) else CONSTANT


@dataclass
class _Analysis:
    role: ir.RolePlan
    at: dict[Path, ir.Operation]
    found: dict[tuple[Path, str], None] = field(default_factory=dict)

    def step(self, operation: ir.Operation, path: Path, state: _State) -> _State:
        conditions = self._conditions(path)
        held = {name: kind for name, kind, needs in state if needs <= conditions}
        for name in dict.fromkeys(fragments_read(operation)):
            if name not in held:
                self.found[(path, f"{name} has no value here on every path")] = None
        kind = self._kind(operation, path, held)
        for name in fragments_written(operation):
            storage = self._storage(name)
            state = tuple(e for e in state if self._storage(e[0]) != storage)
            state = (*state, (name, kind, conditions))
        return tuple(sorted(state, key=lambda e: e[0]))

    def _kind(self, operation: ir.Operation, path: Path, held: dict[str, str]) -> str:
        """What the written fragment holds. Reports row folds read before they are combined."""
        reads = fragments_read(operation)
        partial = [n for n in reads if held.get(n) == PARTIAL]
        match operation:
            case ir.Init():
                return CONSTANT
            case ir.RowFold(_, _, _, scope):
                return PARTIAL if scope == "thread" else WHOLE
            case ir.QuadReduce(fragment, "sum") if held.get(fragment) == WHOLE:
                self.found[(path, f"{fragment} is whole already: its sum would count four times")] = None
                return WHOLE
            case ir.QuadReduce():
                return WHOLE
            case ir.Map(out) if partial and self._fragment(out).layout == "row":
                return PARTIAL
        if partial:
            self.found[(path, f"{', '.join(partial)} is not combined over the quad yet")] = None
        return WHOLE

    def _conditions(self, path: Path) -> frozenset[Uniform]:
        above = (self.at.get(path[:n]) for n in range(3, len(path)))
        return frozenset(o.condition for o in above if isinstance(o, ir.If))

    def _fragment(self, name: str) -> ir.Fragment:
        return next(f for f in self.role.fragments if f.name == name)

    def _storage(self, name: str) -> str:
        return self._fragment(name).storage
