"""Walking over expressions of a Tile program."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir.tile import Apply, Cast, Expr, Fold, Number, Position, Read, Symbol


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside `expr`."""
    match expr:
        case Number() | Symbol() | Position() | Read():
            return ()
        case Apply(_, args):
            return args
        case Cast(value):
            return (value,)
        case Fold(_, _, args, extra):
            return args + extra


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """`expr` and everything inside it, outermost first."""
    yield expr
    for part in parts(expr):
        yield from subexpressions(part)
