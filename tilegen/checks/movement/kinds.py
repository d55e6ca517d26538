"""What an element holds, as far as it matters: the spec's value, a constant, or what must not be used.

LIVE: the spec's value, any number at all (NaN and infinities among them). FINITE_LIVE: the same, known to be finite.
FINITE: finite and meaningless. OWN: meaningless, but made of the work item's own data. ANY: anything, such as stale
bytes; NEIGHBOUR: another entry of a tensor, ANY to all but products with `isolate fast`. A float: exactly this constant
(0 of a fill, the identity of a fold). NAN: a constant too, no number whatever the data are (-inf less the -inf of a row
that has seen nothing). OUTSIDE: the NaN of a fill.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache

import numpy as np

from tilegen.ir.folded import FOLD_IDENTITY

Kind = str | float

LIVE, FINITE_LIVE, FINITE, OWN, ANY = "live", "finite live", "finite", "own", "any"
NEIGHBOUR = "neighbour"
OUTSIDE = "outside"  # the NaN that stands for what lies outside a tensor: ANY to all that do not know it by its bits
POSITIVE = "positive"  # a uniform number that is finite and > 0
NAN = "no number"

_ORDER = {POSITIVE: 0, FINITE_LIVE: 1, LIVE: 2, NAN: 3, FINITE: 4, OWN: 5, NEIGHBOUR: 6, ANY: 7, OUTSIDE: 8}
_PICKS = ("max", "min")
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
_FUNCTIONS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "div_rn": np.divide,
    "neg": np.negative, "abs": np.abs,
    "rcp": np.reciprocal, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "exp2": np.exp2, "log2": np.log2,
    "ex2": np.exp2, "lg2": np.log2, "max": np.maximum, "min": np.minimum, "round": np.positive, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip


def is_live(kind: Kind) -> bool:
    return kind in (LIVE, FINITE_LIVE, POSITIVE)


def is_any(kind: Kind) -> bool:
    """Whether it may spoil what it meets in a row that has nothing to do with it."""
    return kind in (NEIGHBOUR, ANY, OUTSIDE)


def is_finite(kind: Kind) -> bool:
    return math.isfinite(kind) if isinstance(kind, float) else kind in (POSITIVE, FINITE_LIVE, FINITE)


def is_constant(kind: Kind) -> bool:
    return isinstance(kind, float) or kind == NAN


def differ(a: Kind, b: Kind) -> bool:
    """Whether two are constants, and not the same one, beyond what rounding makes of it."""
    if isinstance(a, float) and isinstance(b, float):
        return not math.isclose(a, b, rel_tol=0.01)
    return is_constant(a) and is_constant(b) and a != b


def is_true(kind: Kind) -> bool:
    """Known to be so, as a condition."""
    return isinstance(kind, float) and kind != 0


def worst(kinds: Iterable[Kind]) -> Kind:
    """What arithmetic makes of operands of these kinds, none of which decides alone."""
    named = [k for k in kinds if isinstance(k, str)]
    found = max(named, key=_ORDER.__getitem__, default=POSITIVE)
    return LIVE if found in (POSITIVE, FINITE_LIVE) else OWN if found == FINITE else found


def join(a: Kind, b: Kind) -> Kind:
    """Either of two."""
    if a == b:
        return a
    if NAN in (a, b):
        return ANY if is_any(a) or is_any(b) else OWN
    if isinstance(a, float) or isinstance(b, float):
        other = b if isinstance(a, float) else a
        return LIVE if isinstance(other, float) or is_live(other) else other
    return max((a, b), key=_ORDER.__getitem__)


@cache
def apply(op: str, args: tuple[Kind, ...]) -> Kind:
    """The kind of an operation's result."""
    if op == "fma_oob":
        return 0.0 if OUTSIDE in args[:2] else apply("fma", args)
    if OUTSIDE in args or NEIGHBOUR in args:
        return apply(op, tuple(ANY if is_any(a) else a for a in args))
    if op == "fma":
        return apply("add", (apply("mul", args[:2]), args[2]))
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
    if NAN in args and op not in ("and", "or", "not"):  # decided alone, whatever the others are
        return float(op == "ne") if op in _COMPARE else NAN
    constants = [a for a in args if isinstance(a, float)]
    if len(constants) == len(args):
        return _constant(op, constants)
    if constants:
        constant = -constants[0] if op == "sub" and isinstance(args[1], float) else constants[0]
        if (found := _absorbed(op, constant, next(a for a in args if isinstance(a, str)))) is not None:
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


def _constant(op: str, args: Iterable[float]) -> Kind:
    if op not in _FUNCTIONS:
        return LIVE  # a number, whichever
    with np.errstate(all="ignore"):
        found = float(_FUNCTIONS[op](*args)) + 0.0  # of zeros one
    return NAN if math.isnan(found) else found
