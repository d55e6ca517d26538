"""What of an element expression's leaves its value takes over, worked out once for each expression of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.checks.movement.cuts import Cut
from tilegen.checks.movement.kinds import Kind
from tilegen.ir import plan as ir

DECISIONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"))
_LEAVES = (ir.Element, ir.Value)


@dataclass(frozen=True)
class Outline:
    """names: fragments and uniform numbers that the expression reads, in order; tops, done: those of them that hand on
    what a maximum has taken in, and which sums are complete: no decision does."""

    expression: ir.ElementExpr
    names: tuple[str, ...]
    tops: tuple[str, ...]
    done: tuple[str, ...]


@dataclass
class Outlines:
    """Expressions are known by identity: a plan keeps its own. regions: what one has made of leaves cut so."""

    regions: dict[tuple[object, ...], tuple[Cut, tuple[Kind, ...]]] = field(default_factory=dict)
    _known: dict[int, Outline] = field(default_factory=dict)

    def of(self, e: ir.ElementExpr) -> Outline:
        if id(e) not in self._known:
            self._known[id(e)] = _outline(e)
        return self._known[id(e)]


def _outline(expression: ir.ElementExpr) -> Outline:
    names: dict[str, None] = {}
    tops: dict[str, None] = {}
    done: dict[str, None] = {}

    def walk(e: ir.ElementExpr, top: bool, sums: bool) -> None:
        if isinstance(e, _LEAVES):
            name = e.fragment if isinstance(e, ir.Element) else e.name
            names[name] = None
            if top:
                tops[name] = None
            if sums:
                done[name] = None
        if isinstance(e, ir.Compute):
            value = e.op not in DECISIONS
            for n, arg in enumerate(e.args):
                walk(arg, top and value, sums and value and not (e.op == "select" and n == 0))

    walk(expression, True, True)
    return Outline(expression, tuple(names), tuple(tops), tuple(done))
