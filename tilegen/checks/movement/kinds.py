"""What an element holds, as far as it matters: the spec's value, a constant, or what must not be used.

LIVE: the spec's value, any number at all (NaN and infinities among them). FINITE_LIVE: the same, known to be finite.
FINITE: finite and meaningless. OWN: meaningless, but made of the work item's own data. ANY: anything, a neighbour's
entries, stale bytes, a NaN fill. A float: exactly this constant (0 of a fill, the identity of a fold).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilegen.ir.folded import FOLD_IDENTITY

Kind = str | float

LIVE, FINITE_LIVE, FINITE, OWN, ANY = "live", "finite live", "finite", "own", "any"
POSITIVE = "positive"  # a uniform number that is finite and > 0

_ORDER = {POSITIVE: 0, FINITE_LIVE: 1, LIVE: 2, FINITE: 3, OWN: 4, ANY: 5}
_PICKS: dict[str, Callable[[float, float], float]] = {"max": max, "min": min}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def is_live(kind: Kind) -> bool:
    return kind in (LIVE, FINITE_LIVE, POSITIVE)


def is_finite(kind: Kind) -> bool:
    return math.isfinite(kind) if isinstance(kind, float) else kind in (POSITIVE, FINITE_LIVE, FINITE)


def worst(kinds: list[Kind]) -> Kind:
    """What arithmetic makes of operands of these kinds, none of which decides alone."""
    named = [k for k in kinds if isinstance(k, str)]
    found = max(named, key=_ORDER.__getitem__, default=POSITIVE)
    return LIVE if found in (POSITIVE, FINITE_LIVE) else OWN if found == FINITE else found


def join(a: Kind, b: Kind) -> Kind:
    """Either of two."""
    if a == b:
        return a
    if isinstance(a, float) or isinstance(b, float):
        other = b if isinstance(a, float) else a
        return LIVE if isinstance(other, float) or is_live(other) else other
    return max((a, b), key=_ORDER.__getitem__)


def apply(op: str, args: list[Kind]) -> Kind:
    """The kind of an operation's result."""
    if op == "fma":
        return apply("add", [apply("mul", args[:2]), args[2]])
    if op == "select":
        condition, then, other = args
        if isinstance(condition, float):
            return then if condition else other
        if condition == ANY and then != other:
            return ANY
        return join(then, other)
    if op in ("and", "or") and (op == "or") in [bool(a) for a in args if isinstance(a, float)]:
        return float(op == "or")
    if op == "ratio":
        return 0.0 if args[1] == 0.0 else apply("div", args)
    constants = [a for a in args if isinstance(a, float)]
    if len(constants) == len(args):
        return _constant(op, constants)
    if constants and (found := _absorbed(op, constants[0], next(a for a in args if isinstance(a, str)))) is not None:
        return found
    return worst(args)


def _absorbed(op: str, constant: float, other: str) -> Kind | None:
    """Where one constant operand decides, or nearly: what is not a number in `other` spoils its own row alone, and that
    row is not a number already."""
    if other == ANY:
        return None
    if op in ("add", "sub") and math.isinf(constant):
        return constant
    if op == "add" and constant == 0:
        return other
    if op in _PICKS and constant == FOLD_IDENTITY[op]:
        return other
    if op == "mul":
        if constant == 0 and is_finite(other):
            return 0.0
        if math.isinf(constant) and other == POSITIVE:
            return constant
        if constant > 0 and other == POSITIVE:
            return POSITIVE
        return OWN if constant == 0 or math.isinf(constant) else None
    return None


def _constant(op: str, args: list[float]) -> Kind:
    found = _number(op, args)
    return ANY if isinstance(found, float) and math.isnan(found) else found


def _number(op: str, args: list[float]) -> Kind:
    a, *rest = args
    b = rest[0] if rest else 0.0
    try:
        match op:
            case "add" | "sub":
                return a + b if op == "add" else a - b
            case "mul":
                return a * b
            case "div":
                return a / b
            case "neg":
                return -a
            case "ex2":
                return math.pow(2.0, a)
            case "lg2":
                return -math.inf if a == 0 else math.log2(a)
            case "rcp":
                return math.inf if a == 0 else 1 / a
            case "abs":
                return abs(a)
            case "round":
                return a
            case "not":
                return float(not a)
            case "and" | "or":
                return float(bool(a) and bool(b) if op == "and" else bool(a) or bool(b))
        if op in _PICKS:
            return _PICKS[op](a, b)
        if op in _COMPARE:
            return float(_COMPARE[op](a, b))
    except (ArithmeticError, ValueError):
        return OWN
    return LIVE  # a number, whichever
