"""Domain clauses in normal form: alternatives, each a conjunction of `affine >= 0` and of predicates that mask."""

from __future__ import annotations

from typing import TypeAlias

from tilegen.diagnostics.catalogue import Code
from tilegen.ir.poly import Poly
from tilegen.ir.reach import AxisTree, free_axes
from tilegen.ir.tile import Affine, Clause, Expr, Guard, Number
from tilegen.sema import affine
from tilegen.sema.conditions import NEGATED
from tilegen.sema.constants import truth
from tilegen.sema.expressions import Elaborator
from tilegen.sema.scope import Scope
from tilegen.syntax import ast

Conjunct: TypeAlias = "Affine | Expr"
Alternatives: TypeAlias = "list[list[Conjunct]]"  # any of them, each all of its members; [[]] is true, [] false


def clause(statement: ast.DomainDecl, scope: Scope, tree: AxisTree) -> Clause | None:
    """The clause, or None if its guard is false at build time, if it always holds, or if it is wrong."""
    faults, before = scope.faults, scope.faults.count
    axes: list[str] = []
    for ident in statement.axes:
        if ident.name in axes:
            faults.add(Code.AXIS_TWICE, ident.span, name=ident.name)
        elif ident.name in scope.axes:
            axes.append(ident.name)
        elif ident.name not in scope.tainted:
            scope.unknown(ident, "axis")
    alternatives = _Normaliser(scope).alternatives(statement.condition, True)
    reached = [a for group in alternatives for c in group for a in _axes_of(c, tree)]
    written = {v.name for v in affine.variables(statement.condition)}
    for ident in statement.axes:
        if ident.name in axes and ident.name not in written:
            faults.add(Code.DOMAIN_AXIS_UNUSED, ident.span, name=ident.name)
    for axis in dict.fromkeys(reached):
        if axis not in scope.tainted and not tree.covers(axes, axis):
            faults.add(Code.DOMAIN_AXIS_MISSING, statement.condition.span, name=axis)
    live, guard = _guard(statement.guard, scope)
    if faults.count > before or not live or [] in alternatives:
        return None
    if not alternatives:
        faults.add(Code.DOMAIN_EMPTY, statement.condition.span)
        return None
    return Clause(tuple(axes), tuple(tuple(group) for group in alternatives), guard, statement.span)


def _axes_of(conjunct: Conjunct, tree: AxisTree) -> tuple[str, ...]:
    if isinstance(conjunct, Affine):
        return tuple(a for a, _ in conjunct.terms)
    return free_axes(conjunct, {}, tree)


class _Normaliser:
    """To disjunctive normal form, `not` pushed inwards."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._expressions = Elaborator(scope, inputs_only=True)

    def alternatives(self, expr: ast.Expr, wanted: bool) -> Alternatives:
        """What makes `expr` equal to `wanted`."""
        match expr:
            case ast.Unary("not", operand):
                return self.alternatives(operand, not wanted)
            case ast.Binary("and" | "or" as connective, left, right):
                a, b = self.alternatives(left, wanted), self.alternatives(right, wanted)
                return _all(a, b) if (connective == "and") == wanted else _any(a, b)
            case ast.Compare(operands, ops):
                result: Alternatives = [[]] if wanted else []
                for left, op, right in zip(operands[:-1], ops, operands[1:], strict=True):
                    pair = self._comparison(left, op if wanted else NEGATED[op], right)
                    result = _all(result, pair) if wanted else _any(result, pair)
                return result
            case _:
                return self._predicate(expr, wanted)

    def _comparison(self, left: ast.Expr, op: str, right: ast.Expr) -> Alternatives:
        span = left.span.until(right.span)
        a, b = affine.linear(left, self._scope), affine.linear(right, self._scope)
        if a is None or b is None:
            return self._predicate(ast.Compare((left, right), (op,), span), True)
        difference, strict = b.plus(a, -1), Poly.const(1)
        below = difference.affine(span)  # left <= right
        above = difference.times(Poly.const(-1)).affine(span)
        if below is None or above is None:  # a coefficient that is a size or a scalar: no block range can be made of it
            return self._predicate(ast.Compare((left, right), (op,), span), True)
        strictly_below = Affine(below.terms, below.offset - strict, span)
        strictly_above = Affine(above.terms, above.offset - strict, span)
        match op:
            case "<=":
                return _fixed([[below]])
            case "<":
                return _fixed([[strictly_below]])
            case ">=":
                return _fixed([[above]])
            case ">":
                return _fixed([[strictly_above]])
            case "==":
                return _fixed([[below, above]])
            case _:
                return _fixed([[strictly_below], [strictly_above]])

    def _predicate(self, expr: ast.Expr, wanted: bool) -> Alternatives:
        written = expr if wanted else ast.Unary("not", expr, expr.span)
        value = self._expressions.truth(written)
        if isinstance(value, Number):
            return [[]] if value.value else []
        return [[value]]


def _fixed(alternatives: Alternatives) -> Alternatives:
    """Members that hold, or fail, whatever the axes and sizes are taken out."""
    result: Alternatives = []
    for group in alternatives:
        open_ones = [c for c in group if not isinstance(c, Affine) or c.terms or c.offset.constant is None]
        settled = [c.offset.constant for c in group if isinstance(c, Affine) and c not in open_ones]
        if all(value is not None and value >= 0 for value in settled):
            result.append(open_ones)
    return result


def _all(a: Alternatives, b: Alternatives) -> Alternatives:
    return [x + y for x in a for y in b]


def _any(a: Alternatives, b: Alternatives) -> Alternatives:
    return a + b


def _guard(expr: ast.Expr | None, scope: Scope) -> tuple[bool, Guard | None]:
    """Whether the clause is there at all, and the run-time condition left of its guard."""
    if expr is None:
        return True, None
    before, value = scope.faults.count, None
    with scope.faults.collecting():
        value = truth(expr, scope.params)
    if scope.faults.count > before:
        return False, None
    if value is not None:
        return value, None
    if isinstance(expr, ast.Binary) and expr.op == "and":
        sides = [_guard(e, scope) for e in (expr.left, expr.right)]
        guards = [g for _, g in sides if g is not None]
        if not all(live for live, _ in sides):
            return False, None
        if len(guards) > 1:
            scope.faults.add(Code.GUARD, expr.span, got="two conditions known only at launch")
        return True, guards[0] if guards else None
    if isinstance(expr, ast.Compare) and len(expr.ops) == 1:
        wrong = False
        for var in affine.variables(expr):
            if var.name not in scope.params and var.name not in scope.sizes and var.name not in scope.scalars:
                scope.unknown(var, "scalar", "size", "parameter")
                wrong = True
        sides_of = [affine.linear(e, scope) for e in expr.operands]
        left, right = sides_of
        if left is not None and right is not None and not wrong:
            return True, Guard(left.offset, expr.ops[0], right.offset, expr.span)
        if wrong:
            return False, None
    elif isinstance(expr, ast.Var) and scope.kind(expr.name) is None:
        scope.unknown(expr)
        return False, None
    scope.faults.add(Code.GUARD, expr.span)
    return False, None
