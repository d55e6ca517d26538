"""What instructions say of the elements that they move (`program.Access`): coordinates out of registers and numbers."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.ir.uniform import Int as UInt
from tilegen.ir.uniform import Sym, Uniform
from tilegen.targets.mls.program import SGPR, VGPR, Coordinate, Int, Operand, Part


def summed(e: Uniform, names: Mapping[str, Operand]) -> tuple[tuple[Operand, ...], int] | None:
    """The registers and the constant whose sum an expression is, if it is one of names and numbers."""
    if isinstance(e, UInt):
        return (), e.value
    if isinstance(e, Sym):
        found = names[e.name]
        return ((), found.value) if isinstance(found, Int) else ((found,), 0)
    if e.op not in ("add", "sub"):
        return None
    a, b = (summed(x, names) for x in e.args)
    if a is None or b is None or (e.op == "sub" and b[0]):
        return None
    return (*a[0], *b[0]), a[1] + b[1] if e.op == "add" else a[1] - b[1]


def coordinate(at: Operand, limit: Operand | None = None, *more: Operand | str) -> Coordinate:
    """A sum of registers and literals."""
    parts: list[Part] = []
    constant = 0
    for x in (at, *more):
        if isinstance(x, Int):
            constant += x.value
        else:
            assert isinstance(x, SGPR | VGPR | str), x
            parts.append(Part(x))
    bound = limit.value if isinstance(limit, Int) else limit
    assert isinstance(bound, SGPR | int | None), bound
    return Coordinate(tuple(parts), constant, bound)
