"""The verifier of plans: what `synchronise` must uphold and every reader may rely on."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan import Plan
from tilegen.ir.plan_rules import (
    clusters,
    fences,
    groups,
    memory,
    names,
    roles,
    sequences,
    shapes,
    slots,
    tokens,
    uniforms,
    values,
)
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_text import Line, Path, margin_width, plan_lines, with_margin
from tilegen.syntax.span import Span

CONTEXT = 2  # lines shown before and after the one at fault


class InvalidPlan(TilegenError):  # noqa: N818 - the name that its readers know
    """A plan that breaks its own rules, with every breach. As text: each shown inside the printed plan."""

    def __init__(self, plan: Plan, violations: tuple[Violation, ...]) -> None:
        lines = list(plan_lines(plan))
        places = {line.path: line for line in lines if line.path}
        super().__init__(
            tuple(
                fault(
                    Code.INVALID_PLAN,
                    _span(plan, places, v.path),
                    reason=v.message,
                    line=places[v.path].text.strip() if v.path in places else plan.name,
                )
                for v in violations
            )
        )
        self.violations = violations
        self._text = "\n\n".join(_shown(lines, v) for v in violations)

    def __str__(self) -> str:
        return f"{len(self.violations)} breaches of the plan's rules\n\n{self._text}"


def verify(plan: Plan) -> None:
    """Raise InvalidPlan, listing every breach, unless the plan is well formed.

    Expressions, names and the structure of the roles come first; the other rules are checked where those hold.
    """
    _raise(plan, uniforms.check(plan), names.check(plan), sequences.check(plan))
    _raise(plan, roles.check(plan), clusters.check(plan), memory.check(plan), shapes.check_fragments(plan))
    _raise(plan, *(rule.check(plan) for rule in (shapes, slots, groups, tokens, fences, values)))


def _span(plan: Plan, places: dict[Path, Line], path: Path) -> Span | None:
    """The place in the spec of what a breach is about; of a role as a whole, of its first operation."""
    found = places[path].span if path in places else None
    if found is None and path[:1] == ("role",) and len(path) == 2:
        body = plan.roles[int(path[1])].body
        return body[0].span if body else None
    return found


def _raise(plan: Plan, *checks: Iterator[Violation]) -> None:
    found = tuple(v for check in checks for v in check)
    if found:
        raise InvalidPlan(plan, found)


def _shown(lines: list[Line], violation: Violation) -> str:
    at = next((n for n, line in enumerate(lines) if line.path == violation.path), 0)
    first, last = max(at - CONTEXT, 0), min(at + CONTEXT + 1, len(lines))
    shown = with_margin(lines[first:last], margin_width(lines))
    out = []
    for n, text in enumerate(shown, first):
        out.append(f"{'->' if n == at else '  '} {text}".rstrip())
        if n == at:
            indent = len(shown[n - first]) - len(lines[at].text.strip())
            out.append(f"   {' ' * indent}^ {violation.message}")
    return "\n".join(out)
