"""Copies that a role waits for itself: rings without barriers are its own, and what it waits for is in groups."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_text import Path
from tilegen.ir.plan_walk import forward, operations, parts


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on groups of copies."""
    for index, role in enumerate(plan.roles):
        yield from _rings(plan, role, index)
        found: dict[tuple[Path, str], None] = {}

        def step(operation: ir.Operation, path: Path, begun: bool, found: dict[tuple[Path, str], None] = found) -> bool:
            match operation:
                case ir.CopyTile(_, _, slot) if plan.ring(slot.ring).release == "none":
                    return True
                case ir.CopyCommit():
                    return False
                case ir.CopyWait() if begun:
                    found[(path, "copies have begun that are in no group yet")] = None
            return begun

        if forward(role.body, ("role", index), False, step, lambda one, other: one or other):
            yield Violation(("role", index), "the role ends with copies that are in no group")
        yield from (Violation(path, message) for path, message in found)


def _rings(plan: ir.Plan, role: ir.RolePlan, index: int) -> Iterator[Violation]:
    """A slot that nothing but a meeting of the whole CTA hands over is for workers, and they have no others."""
    own = role.kind == "worker"
    for path, operation in operations(role, index):
        for slot in parts(operation, ir.Slot):
            if (plan.ring(slot.ring).release == "none") is not own:
                what = "has barriers" if own else "has no barriers"
                yield Violation(path, f"{slot.ring} {what}, and {role.name} is a {role.kind}")
