"""Conditions of schedules: what parameters decide at build time, and the guard that is left for the launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import Note
from tilegen.ir.dtypes import DType
from tilegen.ir.tile import Ragged, Symbol
from tilegen.ir.uniform import Int, Uniform, from_poly, op
from tilegen.ir.walk import subexpressions
from tilegen.sema import affine
from tilegen.sema.constants import truth
from tilegen.sema.scope import Scope
from tilegen.syntax import ast

_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def condition(expr: ast.Expr, scope: Scope, ragged: Iterable[Ragged]) -> Uniform | None:
    """The condition over sizes and integer scalars, `Int(1)` or `Int(0)` where parameters decide it. Notes what is
    wrong, also in parts that do not count for these parameters, and returns None."""
    before = scope.faults.count
    value = _Conditions(scope, tuple(ragged)).of(expr, True)
    return value if scope.faults.count == before else None


class _Conditions:
    def __init__(self, scope: Scope, ragged: tuple[Ragged, ...]) -> None:
        self._scope = scope
        self._ragged = ragged

    def of(self, expr: ast.Expr, wanted: bool) -> Uniform:
        """Whether `expr` is `wanted`, `not` pushed inwards."""
        match expr:
            case ast.Unary("not", operand):
                return self.of(operand, not wanted)
            case ast.Binary("and" | "or" as connective, left, right):
                return _joined((connective == "and") == wanted, self.of(left, wanted), self.of(right, wanted))
            case ast.Compare(operands, ops):
                result: Uniform = Int(int(wanted))
                for left, written, right in zip(operands[:-1], ops, operands[1:], strict=True):
                    pair = self._comparison(left, written if wanted else NEGATED[written], right)
                    result = _joined(wanted, result, pair)
                return result
            case _:
                return self._decided(expr, wanted)

    def _decided(self, expr: ast.Expr, wanted: bool) -> Uniform:
        """A truth value that parameters alone decide."""
        before, value = self._scope.faults.count, None
        with self._scope.faults.collecting():
            value = truth(expr, self._scope.params)
        if value is None and self._scope.faults.count == before and self._names(expr):
            self._scope.faults.add(Code.SCHEDULE_CONDITION, expr.span)
        return Int(int(value is wanted))

    def _comparison(self, left: ast.Expr, written: str, right: ast.Expr) -> Uniform:
        scope, span = self._scope, left.span.until(right.span)
        pair = ast.Compare((left, right), (written,), span)
        before, value = scope.faults.count, None
        with scope.faults.collecting():
            value = truth(pair, scope.params)
        if value is not None or scope.faults.count > before or not self._names(pair):
            return Int(int(value is True))
        a, b = affine.linear(left, scope), affine.linear(right, scope)
        if a is None or b is None or a.terms or b.terms:
            scope.faults.add(Code.SCHEDULE_CONDITION, span)
            return Int(0)
        sides = from_poly(a.offset), from_poly(b.offset)
        apart = (b.offset - a.offset).constant
        return op(_COMPARISONS[written], *(sides if apart is None else (0, apart)))

    def _names(self, expr: ast.Expr) -> bool:
        """Whether all names may stand in a condition; notes those that may not."""
        scope, before = self._scope, self._scope.faults.count
        for var in affine.variables(expr):
            scalar = scope.scalars.get(var.name)
            if scalar is not None and scalar.dtype is not DType.I32:
                scope.faults.add(
                    Code.SCHEDULE_CONDITION, var.span, got=f"the {scalar.dtype} scalar `{var.name}`",
                    wanted="an i32 one", notes=scope.declared(var.name),
                )  # fmt: skip
            elif var.name in scope.sizes or scalar is not None:
                self._dense(var)
            elif var.name not in scope.params and var.name not in scope.tainted and not scope.dtype_named(var.name):
                scope.unknown(var, "size", "scalar", "parameter")
        return scope.faults.count == before

    def _dense(self, var: ast.Var) -> None:
        """Notes a size that tells of the sequences of a launch, or a scalar that has its default from one."""
        read = set(_read_by(var.name, self._scope))
        for ragged in self._ragged:
            for size, what in ((ragged.size, "the lengths"), (ragged.over, "the number")):
                if size in read:
                    through = "" if size == var.name else f", by default made of {size}"
                    note = Note(ragged.span, f"{ragged.by} says where each sequence begins")
                    self._scope.faults.add(
                        Code.SCHEDULE_RAGGED, var.span, got=f"`{var.name}`{through}", notes=(note,), what=what
                    )
                    return


def _read_by(name: str, scope: Scope) -> Iterator[str]:
    """The name, and the sizes that the default of a scalar of that name is made of."""
    yield name
    default = scope.scalars[name].default if name in scope.scalars else None
    if default is not None:
        yield from (e.name for e in subexpressions(default) if isinstance(e, Symbol))


def _joined(both: bool, a: Uniform, b: Uniform) -> Uniform:
    """`a and b`, or `a or b`; one that is decided takes no part."""
    deciding = Int(0) if both else Int(1)
    if deciding in (a, b):
        return deciding
    return op("and" if both else "or", a, b)
