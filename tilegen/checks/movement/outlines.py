"""What of an element expression's leaves its value takes over, worked out once for each expression of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.checks.movement.cuts import Cut
from tilegen.checks.movement.kinds import Kind
from tilegen.checks.movement.values import Regions
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


@dataclass(frozen=True)
class Sums:
    """What becomes of the unfinished sums that leaves hold. kept: the leaf whose sums are the value's; used: leaves
    whose sums are used as whole ones, and whether the value's own are made of them."""

    kept: str | None
    used: tuple[tuple[str, bool], ...]


@dataclass
class Outlines:
    """Expressions are known by identity: a plan keeps its own. regions: what one has made of leaves cut so; folds,
    products: what these have made of their operands."""

    regions: dict[tuple[object, ...], tuple[Cut, tuple[Kind, ...]]] = field(default_factory=dict)
    folds: dict[tuple[object, ...], Regions] = field(default_factory=dict)
    products: dict[tuple[object, ...], Regions] = field(default_factory=dict)
    _known: dict[int, Outline] = field(default_factory=dict)
    _sums: dict[tuple[int, tuple[str, ...]], Sums | None] = field(default_factory=dict)

    def of(self, e: ir.ElementExpr) -> Outline:
        if id(e) not in self._known:
            self._known[id(e)] = _outline(e)
        return self._known[id(e)]

    def sums(self, e: ir.ElementExpr, unfinished: tuple[str, ...]) -> Sums | None:
        """What becomes of the sums of these leaves; None where several of them meet."""
        key = (id(e), unfinished)
        if key not in self._sums:
            used: dict[tuple[str, bool], None] = {}
            try:
                self._sums[key] = Sums(_kept(e, frozenset(unfinished), True, used), tuple(used))
            except _SeveralError:
                self._sums[key] = None
        return self._sums[key]


class _SeveralError(Exception):
    """Sums meet: it takes their values to tell what becomes of them."""


def _kept(e: ir.ElementExpr, unfinished: frozenset[str], done: bool, used: dict[tuple[str, bool], None]) -> str | None:
    """The leaf whose unfinished sums an expression is; leaves whose sums are used as whole ones go to `used`."""
    if isinstance(e, _LEAVES):
        name = _name(e)
        return name if name in unfinished else None
    if not isinstance(e, ir.Compute):
        return None
    decides = e.op in DECISIONS
    args = [
        _kept(a, unfinished, done and not decides and not (e.op == "select" and n == 0), used)
        for n, a in enumerate(e.args)
    ]
    if decides:
        return None
    if e.op == "select":
        args = args[1:]
        if any(args) and not any(isinstance(a, ir.Literal) for a in e.args[1:]):
            raise _SeveralError
    held = [a for a in args if a is not None]
    if e.op in ("select", "add", "sub", "fma", "neg", "round", "mul"):
        if len(held) > 1:
            raise _SeveralError
        return held[0] if held else None
    used.update({(name, done): None for name in held})
    return None


def _name(leaf: ir.Element | ir.Value) -> str:
    return leaf.fragment if isinstance(leaf, ir.Element) else leaf.name


def _outline(expression: ir.ElementExpr) -> Outline:
    names: dict[str, None] = {}
    tops: dict[str, None] = {}
    done: dict[str, None] = {}

    def walk(e: ir.ElementExpr, top: bool, sums: bool) -> None:
        if isinstance(e, _LEAVES):
            name = _name(e)
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
