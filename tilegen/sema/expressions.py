"""Typed expressions: names resolved, parameters replaced by their values, built-ins and casts checked.

Arithmetic is f32; a 16-bit or integer operand of it widens without loss of its own accord. Integers (sizes,
positions along axes, i32 tensors) stay integers under + - * min max abs. Nothing narrows unless a cast is written.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilegen.diagnostics.catalogue import Code
from tilegen.ir.dtypes import DType
from tilegen.ir.poly import Poly
from tilegen.ir.tile import Apply, Cast, Expr, Fold, Number, Position, Read, Symbol
from tilegen.ir.whole import is_whole, rounded
from tilegen.sema import affine
from tilegen.sema.axes import check_extents
from tilegen.sema.builtins import FOLDS, FUNCTIONS, Function
from tilegen.sema.constants import constant, spelling
from tilegen.sema.faults import suggestion
from tilegen.sema.scope import Scope
from tilegen.syntax import ast
from tilegen.syntax.span import Span

_BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_KEEP_INTEGERS = {"add", "sub", "mul", "neg", "abs", "min", "max"}


class Elaborator:
    """Makes typed expressions in one scope. Errors are noted there; a stand-in number takes a wrong part's place."""

    def __init__(self, scope: Scope, inputs_only: bool = False) -> None:
        """`inputs_only`: tiles and equations cannot be read, as in a domain."""
        self._scope = scope
        self._inputs_only = inputs_only

    def number(self, expr: ast.Expr) -> Expr:
        """`expr`, which must be a number."""
        value = self._any(expr)
        if value.dtype is DType.BOOL:
            self._scope.faults.add(Code.WRONG_TYPE, expr.span, got="a truth value", wanted="a number")
            return _stand_in(expr.span)
        return value

    def truth(self, expr: ast.Expr) -> Expr:
        """`expr`, which must be a truth value."""
        value = self._any(expr)
        if value.dtype is not DType.BOOL:
            self._scope.faults.add(Code.WRONG_TYPE, expr.span, got=f"a number ({value.dtype})", wanted="a truth value")
            return Number(1, DType.BOOL, expr.span)
        return value

    def _any(self, expr: ast.Expr) -> Expr:
        fixed = self._constant(expr)
        if fixed is not None:
            return fixed
        match expr:
            case ast.Num() | ast.Var():
                return self._variable(expr)
            case ast.Unary("not", operand):
                return Apply("not", (self.truth(operand),), DType.BOOL, expr.span)
            case ast.Unary(_, operand):
                return apply("neg", (self.number(operand),), expr.span)
            case ast.Binary("and" | "or" as op, left, right):
                return _connected(op, self.truth(left), self.truth(right), expr.span)
            case ast.Binary(op, left, right):
                return apply(_BINARY[op], (self.number(left), self.number(right)), expr.span)
            case ast.Compare(operands, ops):
                return self._compare(operands, ops, expr.span)
            case ast.Indexed():
                return self.read(expr)
            case ast.Call():
                return self._call(expr)
            case ast.FoldCall():
                return self._fold(expr)

    def _constant(self, expr: ast.Expr) -> Expr | None:
        value, before = None, self._scope.faults.count
        with self._scope.faults.collecting():
            value = constant(expr, self._scope.params)
        if self._scope.faults.count > before:
            return _stand_in(expr.span)
        if isinstance(value, bool):
            return Number(int(value), DType.BOOL, expr.span)
        if isinstance(value, DType):
            self._scope.faults.add(
                Code.WRONG_TYPE, expr.span, got=f"the type `{spelling(value)}`", wanted="a value; a cast is `T(x)`"
            )
            return _stand_in(expr.span)
        if value is None:
            return None
        return Number(value, DType.I32 if isinstance(value, int) else DType.F32, expr.span)

    def _variable(self, expr: ast.Expr) -> Expr:
        assert isinstance(expr, ast.Var)  # numbers are constants
        scope, name = self._scope, expr.name
        if name in scope.sizes:
            return Symbol(name, DType.I32, expr.span)
        if name in scope.scalars:
            return Symbol(name, scope.scalars[name].dtype, expr.span)
        if name in scope.axes:
            return Position(name, DType.I32, expr.span)
        kind = scope.kind(name)
        if kind in ("input", "output", "tile", "equation"):
            scope.faults.add(Code.NEEDS_INDEX, expr.span, notes=scope.declared(name), name=name, kind=kind)
        elif name not in scope.tainted and kind is None:
            scope.unknown(expr)
        return _stand_in(expr.span)

    def _compare(self, operands: tuple[ast.Expr, ...], ops: tuple[str, ...], span: Span) -> Expr:
        values = [self.number(o) for o in operands]
        pairs = [
            Apply(_COMPARE[op], (rounded(a), rounded(b)), DType.BOOL, a.span.until(b.span))
            for op, a, b in zip(ops, values[:-1], values[1:], strict=True)
        ]
        result = pairs[0]
        for pair in pairs[1:]:
            result = Apply("and", (result, pair), DType.BOOL, span)
        return result

    # ---- reads ----

    def read(self, expr: ast.Indexed) -> Expr:
        """An element of an input, a tile or an equation."""
        scope, name = self._scope, expr.name.name
        at = tuple(affine.index(e, scope) for e in expr.index)
        if self._inputs_only and scope.kind(name) != "input":
            if name not in scope.tainted:
                scope.unknown(expr.name, "input")
            return _stand_in(expr.span)
        if name in scope.moves:
            move = scope.moves[name]
            dtype, dims = move.dtype, self._extents(move.index)
        elif name in scope.definitions:
            definition = scope.definitions[name]
            dtype, dims = definition.dtype, self._extents(definition.index)
        elif name in scope.tensors and not scope.tensors[name].output:
            dtype, dims = scope.tensors[name].dtype, scope.tensors[name].dims
        else:
            if name not in scope.tainted:
                scope.unknown(expr.name, "tile", "equation", "input")
            return _stand_in(expr.span)
        check_rank(scope, expr.name, len(dims), len(at), expr.span)
        if len(at) == len(dims):
            check_extents(scope, name, dims, at)
        return Read(name, tuple(i for i in at if i is not None), dtype, expr.span)

    def _extents(self, axes: tuple[str, ...]) -> tuple[Poly, ...]:
        return tuple(self._scope.axes[a].extent if a in self._scope.axes else Poly() for a in axes)

    # ---- calls ----

    def _call(self, expr: ast.Call) -> Expr:
        scope, name = self._scope, expr.name.name
        if name in FUNCTIONS:
            return self._function(expr, FUNCTIONS[name])
        if name in FOLDS:
            scope.faults.add(Code.FOLD_NEEDS_AXES, expr.name.span, name=name)
            return _stand_in(expr.span)
        if name in scope.params or scope.dtype_named(name):
            dtype = scope.dtype(expr.name)
            if dtype is None:
                return _stand_in(expr.span)
            if len(expr.args) != 1 or dtype is DType.BOOL:
                scope.faults.add(Code.ARGUMENTS, expr.span, got=str(len(expr.args)), wanted="1, a number", name=name)
                return _stand_in(expr.span)
            value = self.number(expr.args[0])
            return value if value.dtype is dtype else Cast(value, dtype, expr.span)
        if scope.kind(name) in ("tile", "equation", "input", "output"):
            scope.faults.add(Code.NEEDS_INDEX, expr.span, notes=scope.declared(name), name=name, kind=scope.kind(name))
        else:
            scope.faults.add(
                Code.UNKNOWN_FUNCTION, expr.name.span, got=f"`{name}`", wanted=suggestion(name, FUNCTIONS), name=name,
                known=", ".join(FUNCTIONS),
            )  # fmt: skip
        return _stand_in(expr.span)

    def _function(self, expr: ast.Call, function: Function) -> Expr:
        given = len(expr.args)
        if given < function.least or (function.most is not None and given > function.most):
            wanted = str(function.least) if function.most else f"{function.least} or more"
            self._scope.faults.add(Code.ARGUMENTS, expr.span, got=str(given), wanted=wanted, name=expr.name.name)
            return _stand_in(expr.span)
        if function.op == "select":
            condition = self.truth(expr.args[0])
            then, otherwise = self.number(expr.args[1]), self.number(expr.args[2])
            if isinstance(condition, Number):
                return then if condition.value else otherwise
            return apply("select", (condition, then, otherwise), expr.span)
        args = [self.number(a) for a in expr.args]
        if len(args) == 1:
            return apply(function.op, tuple(args), expr.span)
        result = args[0]
        for arg in args[1:]:
            result = apply(function.op, (result, arg), expr.span)
        return result

    def _fold(self, expr: ast.FoldCall) -> Expr:
        scope, name = self._scope, expr.name.name
        if name not in FOLDS:
            scope.faults.add(
                Code.UNKNOWN_FUNCTION, expr.name.span, got=f"`{name}`", wanted=suggestion(name, FOLDS), name=name,
                known=", ".join(FOLDS),
            )  # fmt: skip
            return _stand_in(expr.span)
        wanted, takes_extra = FOLDS[name]
        if len(expr.args) != wanted or (expr.extra and not takes_extra):
            got = f"{len(expr.args)}" + (f" and {len(expr.extra)} behind a `;`" if expr.extra else "")
            scope.faults.add(Code.ARGUMENTS, expr.span, got=got, wanted=str(wanted), name=name)
        axes: list[str] = []
        for axis in expr.axes:
            if not isinstance(axis, ast.Var):
                scope.faults.add(Code.FOLD_AXES, axis.span, name=name)
            elif axis.name in axes:
                scope.faults.add(Code.AXIS_TWICE, axis.span, name=axis.name)
            elif axis.name in scope.axes:
                axes.append(axis.name)
            elif axis.name not in scope.tainted:
                scope.unknown(axis, "axis")
        args = tuple(self.number(a) for a in expr.args)
        extra = tuple(self.number(a) for a in expr.extra)
        whole = name in ("sum", "max", "min") and all(a.dtype is DType.I32 for a in args)
        return Fold(name, tuple(axes), args, extra, DType.I32 if whole else DType.F32, expr.span)


def _connected(op: str, a: Expr, b: Expr, span: Span) -> Expr:
    """Both or either of two truth values; the other one where one is a constant, which leaves it to decide."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Number) and bool(one.value) == (op == "and"):
            return other
    return Apply(op, (a, b), DType.BOOL, span)


def apply(op: str, args: tuple[Expr, ...], span: Span) -> Apply:
    """`op` on numbers, with the type that arithmetic gives it; whole literals beside f32 become f32. A division of
    whole numbers, or under a floor, is one that is rounded to nearest."""
    if op == "div" and all(map(is_whole, args)):
        op = "div_rn"
    if op == "floor":
        args = tuple(map(rounded, args))
    values = args[1:] if op == "select" else args
    dtypes = {a.dtype for a in values}
    if len(dtypes) > 1 or op not in _KEEP_INTEGERS | {"select"}:
        args = tuple(_as_f32(a) if a.dtype is not DType.BOOL else a for a in args)
        dtypes = {DType.F32}
    if op == "select":
        return Apply(op, args, dtypes.pop(), span)
    return Apply(op, args, DType.I32 if dtypes == {DType.I32} else DType.F32, span)


def _as_f32(expr: Expr) -> Expr:
    return replace(expr, value=float(expr.value), dtype=DType.F32) if isinstance(expr, Number) else expr


def check_rank(scope: Scope, name: ast.Ident, wanted: int, got: int, span: Span) -> bool:
    """Whether as many index entries stand there as the thing has dimensions; notes it if not."""
    if wanted == got:
        return True
    scope.faults.add(
        Code.WRONG_RANK, span, got=f"{got}", wanted=f"{wanted}", notes=scope.declared(name.name), name=name.name
    )
    return False


def _stand_in(span: Span) -> Number:
    return Number(math.nan, DType.F32, span)
