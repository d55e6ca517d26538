"""Uniform expressions as Python functions: the checks evaluate the same few hundred of them thousands of times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import cast

from tilegen.ir.uniform import Int, Sym, Uniform

_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class Numbers:
    """Evaluates expressions, each compiled when it is first met. They are known by identity: a plan keeps its own."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Uniform, Callable[[Mapping[str, int]], int]]] = {}

    def __call__(self, e: Uniform, values: Mapping[str, int]) -> int:
        """As `evaluate` of tilegen.ir.uniform."""
        found = self._known.get(id(e))
        if found is None:
            found = self._known[id(e)] = (e, _function(e))
        return found[1](values)


def _function(e: Uniform) -> Callable[[Mapping[str, int]], int]:
    if isinstance(e, Sym):
        return itemgetter(e.name)
    return _compiled(_text(e))


@lru_cache(maxsize=4096)  # roles, plans and checks have most of them in common
def _compiled(text: str) -> Callable[[Mapping[str, int]], int]:
    return cast("Callable[[Mapping[str, int]], int]", eval(f"lambda v: {text}"))


def _text(e: Uniform) -> str:
    if isinstance(e, Int):
        return f"({e.value})"
    if isinstance(e, Sym):
        return f"v[{e.name!r}]"
    args = [_text(a) for a in e.args]
    if e.op in _INFIX:
        return f"({args[0]} {_INFIX[e.op]} {args[1]})"
    if e.op in _COMPARE:
        return f"int({args[0]} {_COMPARE[e.op]} {args[1]})"
    if e.op == "ceildiv":
        return f"(-(-{args[0]} // {args[1]}))"
    if e.op in ("min", "max"):
        return f"{e.op}({args[0]}, {args[1]})"
    if e.op in ("and", "or"):
        return f"int(bool({args[0]}) {e.op} bool({args[1]}))"
    assert e.op == "select", e.op
    return f"({args[1]} if {args[0]} else {args[2]})"
