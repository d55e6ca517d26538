"""Whole numbers of a program that kernels cannot hold: they compute positions and counts in 32 bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilegen.diagnostics.catalogue import Code
from tilegen.ir.dtypes import DType
from tilegen.ir.poly import Poly
from tilegen.ir.tile import Affine, Clause, Expr, Index, Lookup, Number, Read
from tilegen.ir.walk import parts, subexpressions
from tilegen.sema.scope import Scope
from tilegen.syntax.span import Span

LARGEST = 2**31 - 1


def check_integers(scope: Scope, clauses: Iterable[Clause]) -> None:
    """Notes the first number that is too large in each declaration, index and condition."""
    for span, numbers in _places(scope, clauses):
        value = next((n for n in numbers if abs(n) > LARGEST), None)
        if value is not None:
            scope.faults.add(Code.INTEGER_LITERAL, span, got=str(value), wanted=f"-{LARGEST} to {LARGEST}", value=value)


def _places(scope: Scope, clauses: Iterable[Clause]) -> Iterator[tuple[Span, Iterator[int]]]:
    for size in scope.sizes.values():
        yield size.span, iter(() if size.default is None else (size.default,))
    for scalar in scope.scalars.values():
        if isinstance(scalar.default, Number) and scalar.default.dtype is DType.I32:
            yield scalar.default.span, iter((int(scalar.default.value),))
        elif scalar.default is not None:
            yield from _inside(scalar.default)
    for tensor in scope.tensors.values():
        yield tensor.span, (n for dim in tensor.dims for n in _factors(dim))
    for axis in scope.axes.values():
        yield axis.span, _factors(axis.extent)
    for move in scope.moves.values():
        yield from map(_index, move.at)
    for clause in clauses:
        for conjunct in (c for group in clause.alternatives for c in group):
            if isinstance(conjunct, Affine):
                yield _index(conjunct)
            else:
                yield from _inside(conjunct)
        if clause.guard is not None:
            yield clause.guard.span, (n for side in (clause.guard.left, clause.guard.right) for n in _factors(side))
    for definition in scope.definitions.values():
        yield from _inside(definition.value)


def _inside(value: Expr) -> Iterator[tuple[Span, Iterator[int]]]:
    """The indices of reads, and the numbers that integers are computed from."""
    for expr in subexpressions(value):
        if isinstance(expr, Read):
            yield from map(_index, expr.index)
        inner = parts(expr)
        if inner and all(p.dtype is DType.I32 for p in inner):
            yield from ((p.span, iter((int(p.value),))) for p in inner if isinstance(p, Number))


def _index(at: Index) -> tuple[Span, Iterator[int]]:
    forms = at.index if isinstance(at, Lookup) else (at,)
    return at.span, (n for form in forms for n in (*(k for _, k in form.terms), *_factors(form.offset)))


def _factors(poly: Poly) -> Iterator[int]:
    return (factor for _, factor in poly.terms)
