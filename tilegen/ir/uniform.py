"""Uniform integer expressions: values that every thread of a CTA (or of a warpgroup) agrees on.

Coordinates, trip counts, block ranges and work decoding are written in them. One tree serves the emitter
(printed as CUDA), the checks and the tests (evaluated in Python), so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from tilegen.ir.poly import Poly
from tilegen.records import dataclass

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class Int:
    value: int


@dataclass(frozen=True)
class Sym:
    """A size, an integer scalar, a launch constant (`sm_count`), or a name bound by the plan's `Let`/`For`."""

    name: str


@dataclass(frozen=True)
class Op:
    """op: add sub mul · floordiv ceildiv mod (divisor > 0, rounding to -inf / +inf) · min max ·
    lt le gt ge eq ne and or (0 or 1) · select(c, a, b)"""

    op: str
    args: tuple[Uniform, ...]


Uniform: TypeAlias = "Int | Sym | Op"

_FOLD: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "ceildiv": lambda a, b: -(-a // b),
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "and": lambda a, b: int(bool(a) and bool(b)),
    "or": lambda a, b: int(bool(a) or bool(b)),
    "select": lambda c, a, b: a if c else b,
}
OPS = frozenset(_FOLD)


def as_uniform(value: Uniform | int | str) -> Uniform:
    if isinstance(value, int):
        return Int(value)
    return Sym(value) if isinstance(value, str) else value


def op(name: str, *args: Uniform | int | str) -> Uniform:
    """The expression, with constants folded and neutral elements dropped."""
    xs = tuple(as_uniform(a) for a in args)
    if all(isinstance(x, Int) for x in xs):
        return Int(int(_FOLD[name](*(x.value for x in xs if isinstance(x, Int)))))
    if name == "select" and isinstance(xs[0], Int):
        return xs[1] if xs[0].value else xs[2]
    if len(xs) == 2:
        a, b = xs
        if name == "add" and a == Int(0):
            return b
        if name in ("add", "sub") and b == Int(0):
            return a
        if name == "mul" and Int(0) in xs:
            return Int(0)
        if name == "mul" and a == Int(1):
            return b
        if name in ("mul", "floordiv", "ceildiv") and b == Int(1):
            return a
        if name == "mod" and b == Int(1):
            return Int(0)
        if name in ("min", "max") and a == b:
            return a
        if name == "and" and Int(1) in xs:
            return b if a == Int(1) else a
        if name == "or" and Int(0) in xs:
            return b if a == Int(0) else a
        if name == "or" and Int(1) in xs:
            return Int(1)
        # (x + 1) + 2 and (x + 1) - 2: keep one constant, last
        if name in ("add", "sub") and isinstance(b, Int) and isinstance(a, Op) and a.op in ("add", "sub"):
            inner = a.args[1]
            if isinstance(inner, Int):
                c = (inner.value if a.op == "add" else -inner.value) + (b.value if name == "add" else -b.value)
                return op("add", a.args[0], c) if c >= 0 else op("sub", a.args[0], -c)
    return Op(name, xs)


_OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


def opposite(condition: Uniform) -> Uniform:
    """What holds where a condition does not."""
    if isinstance(condition, Op) and condition.op in _OPPOSITE:
        return op(_OPPOSITE[condition.op], *condition.args)
    return op("eq", condition, 0)


def from_poly(poly: Poly) -> Uniform:
    """A polynomial as a uniform expression."""
    total: Uniform = Int(0)
    for monomial, c in sorted(poly.terms, key=lambda t: (t[0] == (), t[1] < 0, t[0])):
        term: Uniform = Int(abs(c)) if not monomial else Sym(monomial[0])
        for name in monomial[1:]:
            term = op("mul", term, name)
        if monomial and abs(c) != 1:
            term = op("mul", term, abs(c))
        total = op("sub" if c < 0 else "add", total, term)
    return total


def evaluate(expr: Uniform, values: Mapping[str, int]) -> int:
    """Its value. Raises KeyError for a symbol that `values` lacks, ZeroDivisionError for a zero divisor."""
    if isinstance(expr, Int):
        return expr.value
    if isinstance(expr, Sym):
        return values[expr.name]
    return int(_FOLD[expr.op](*(evaluate(a, values) for a in expr.args)))


@cache
def _fold_all() -> dict[str, Callable[..., Any]]:
    import numpy as np  # not at the top: what only reads a plan does not need it

    return {
        **_FOLD,
        "ceildiv": lambda a, b: -(-a // b),
        "min": np.minimum,
        "max": np.maximum,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
        "and": lambda a, b: (a != 0) & (b != 0),
        "or": lambda a, b: (a != 0) | (b != 0),
        "select": lambda c, a, b: np.where(c != 0, a, b),
    }


def evaluate_all(expr: Uniform, values: Mapping[str, npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Its value for many values of its symbols at once: arrays that broadcast. Divisors must not be 0."""
    import numpy as np

    if isinstance(expr, Int):
        return np.asarray(expr.value, np.int64)
    if isinstance(expr, Sym):
        return values[expr.name]
    return np.asarray(_fold_all()[expr.op](*(evaluate_all(a, values) for a in expr.args)), np.int64)


def symbols(expr: Uniform) -> frozenset[str]:
    if isinstance(expr, Sym):
        return frozenset((expr.name,))
    if isinstance(expr, Op):
        return frozenset().union(*(symbols(a) for a in expr.args))
    return frozenset()


_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "div", "mod": "mod", "ceildiv": "cdiv"}
_INFIX |= {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "and", "or": "or"}


def text(expr: Uniform, top: bool = True) -> str:
    """The text form used in printed plans."""
    if isinstance(expr, Int):
        return str(expr.value)
    if isinstance(expr, Sym):
        return expr.name
    if expr.op in _INFIX:
        body = f" {_INFIX[expr.op]} ".join(text(a, False) for a in expr.args)
        return body if top else f"({body})"
    return f"{expr.op}({', '.join(text(a) for a in expr.args)})"


def condition_text(expr: Uniform) -> str:
    """A condition as a `.tile` file writes it: comparisons joined by `and` and `or`."""
    if not isinstance(expr, Op) or expr.op not in _INFIX:
        return text(expr)
    if expr.op not in ("and", "or"):
        return f" {_INFIX[expr.op]} ".join(map(text, expr.args))
    sides = map(condition_text, expr.args)
    looser = [expr.op == "and" and isinstance(a, Op) and a.op == "or" for a in expr.args]
    return f" {expr.op} ".join(f"({side})" if loose else side for side, loose in zip(sides, looser, strict=True))
