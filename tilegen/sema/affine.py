"""Extents, indices and the sides of domain clauses: expressions that are linear in axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilegen.diagnostics.catalogue import Code
from tilegen.ir.dtypes import DType
from tilegen.ir.poly import Poly
from tilegen.ir.tile import Affine, Index, Lookup
from tilegen.sema.constants import constant
from tilegen.sema.scope import Scope
from tilegen.syntax import ast
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class Linear:
    """Σ coefficient · axis + offset, the coefficients not yet known to be numbers."""

    terms: Mapping[str, Poly]
    offset: Poly

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        total = dict(self.terms)
        for axis, coefficient in other.terms.items():
            total[axis] = total.get(axis, Poly()) + coefficient * sign
        return Linear({a: c for a, c in total.items() if c.terms}, self.offset + other.offset * sign)

    def times(self, factor: Poly) -> Linear:
        scaled = {a: c * factor for a, c in self.terms.items()}
        return Linear({a: c for a, c in scaled.items() if c.terms}, self.offset * factor)

    def affine(self, span: Span) -> Affine | None:
        """With compile-time coefficients, or None if one is not."""
        terms: list[tuple[str, int]] = []
        for axis, coefficient in self.terms.items():
            number = coefficient.constant
            if number is None:
                return None
            terms.append((axis, number))
        return Affine(tuple(terms), self.offset, span)


def linear(expr: ast.Expr, scope: Scope) -> Linear | None:
    """`expr` as a linear form over axes, sizes and integer scalars, or None if it is none. Notes no errors."""
    match expr:
        case ast.Num(number):
            return Linear({}, Poly.const(number)) if isinstance(number, int) else None
        case ast.Var(name):
            return _name(name, scope)
        case ast.Unary("-", operand):
            inner = linear(operand, scope)
            return inner.times(Poly.const(-1)) if inner else None
        case ast.Binary("+" | "-" as op, left, right):
            a, b = linear(left, scope), linear(right, scope)
            return a.plus(b, 1 if op == "+" else -1) if a and b else None
        case ast.Binary("*", left, right):
            a, b = linear(left, scope), linear(right, scope)
            if a is None or b is None or (a.terms and b.terms):
                return None
            return a.times(b.offset) if a.terms else b.times(a.offset)
        case ast.Binary("/", left, right):
            a, b = linear(left, scope), linear(right, scope)
            quotient = a.offset.divided_by(b.offset) if a and b and not a.terms and not b.terms else None
            return Linear({}, quotient) if quotient is not None else None
        case ast.Call():
            value = constant(expr, scope.params)
            return Linear({}, Poly.const(value)) if type(value) is int else None
        case _:
            return None


def _name(name: str, scope: Scope) -> Linear | None:
    if name in scope.params:
        value = scope.params[name]
        return Linear({}, Poly.const(value)) if type(value) is int else None
    if scope.kind(name) == "axis":
        return Linear({name: Poly.const(1)}, Poly())
    if name in scope.sizes or (name in scope.scalars and scope.scalars[name].dtype is DType.I32):
        return Linear({}, Poly.symbol(name))
    return None


def variables(expr: ast.Expr) -> Iterator[ast.Var]:
    """Every bare name in an expression."""
    match expr:
        case ast.Var():
            yield expr
        case _:
            for child in children(expr):
                yield from variables(child)


def children(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """The expressions directly inside `expr`."""
    match expr:
        case ast.Num() | ast.Var():
            return ()
        case ast.Unary(_, operand):
            return (operand,)
        case ast.Binary(_, left, right):
            return (left, right)
        case ast.Compare(operands):
            return operands
        case ast.Indexed(_, index):
            return index
        case ast.Call(_, args):
            return args
        case ast.FoldCall(_, axes, args, extra):
            return axes + args + extra


def extent(expr: ast.Expr, scope: Scope) -> Poly | None:
    """A tensor's dimension or an axis's extent, over sizes and numbers. Notes what is wrong and returns None."""
    wrong = False
    for var in variables(expr):
        if var.name not in scope.params and scope.kind(var.name) != "size":
            scope.unknown(var, "size", "parameter")
            wrong = True
    form = None if wrong else linear(expr, scope)
    if form is not None and not form.terms:
        number = form.offset.constant
        if number is None or number > 0:
            return form.offset
        scope.faults.add(Code.BAD_EXTENT, expr.span, got=str(number))
    elif not wrong:
        scope.faults.add(Code.BAD_EXTENT, expr.span)
    return None


def index(expr: ast.Expr, scope: Scope) -> Index | None:
    """One dimension of an index. Notes what is wrong and returns None."""
    if isinstance(expr, ast.Indexed):
        return _lookup(expr, scope)
    before = scope.faults.count
    for var in variables(expr):
        kind = scope.kind(var.name)
        if kind is None or kind in ("tile", "equation", "input", "output"):
            scope.unknown(var, "axis", "size", "parameter", "scalar")
    form = linear(expr, scope)
    affine = form.affine(expr.span) if form else None
    if affine is None and scope.faults.count == before:
        scope.faults.add(Code.BAD_INDEX, expr.span)
    if affine is not None and any(a in scope.tainted for a, _ in affine.terms):
        return None
    return affine


def _lookup(expr: ast.Indexed, scope: Scope) -> Lookup | None:
    tensor = scope.tensors.get(expr.name.name)
    if tensor is None or tensor.output:
        if expr.name.name not in scope.tainted:
            scope.unknown(expr.name, "input")
        return None
    if tensor.dtype is not DType.I32:
        scope.faults.add(
            Code.LOOKUP_TYPE, expr.span, got=f"{tensor.dtype}", wanted="i32", notes=scope.declared(tensor.name),
            name=tensor.name,
        )  # fmt: skip
        return None
    parts = [index(e, scope) for e in expr.index]
    inner = tuple(p for p in parts if isinstance(p, Affine))
    if any(isinstance(p, Lookup) for p in parts):
        scope.faults.add(Code.BAD_INDEX, expr.span)
        return None
    return Lookup(tensor.name, inner, expr.span) if len(inner) == len(parts) else None
