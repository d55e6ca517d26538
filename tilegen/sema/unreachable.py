"""Schedules that no launch takes, whatever the parameters, since those before them are for all that they are for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import Note
from tilegen.ir.poly import Poly
from tilegen.ir.tile import Size
from tilegen.sema import affine
from tilegen.sema.conditions import NEGATED
from tilegen.sema.scope import Scope
from tilegen.syntax import ast

# `poly >= 0`, with int parameters among its symbols; anything else as (what is compared, whether it is so)
_Atom = Poly | tuple[object, bool]
_Alternatives = list[frozenset[_Atom]]  # any of them, each all of its members


def check_unreachable(statements: Iterable[ast.ScheduleDecl], scope: Scope) -> None:
    """Notes each schedule of whose condition every alternative implies one of an earlier schedule's. What takes more to
    see, such as that one behind `if causal` and `if not causal` is for nothing, is not looked for."""
    numbers = [name for name, value in scope.params.items() if type(value) is int]
    # a parameter named as something built in is declared nowhere
    whole = {name: Size(name, None, scope.kinds[name][1]) for name in numbers if name in scope.kinds}
    params = {name: v for name, v in scope.params.items() if name not in whole}
    symbolic = replace(scope, params=params, sizes={**scope.sizes, **whole})
    before: dict[str, list[tuple[ast.ScheduleDecl, frozenset[_Atom]]]] = {}
    for statement in statements:
        earlier = before.setdefault(statement.target.name, [])
        alternatives = _alternatives(statement.condition, True, symbolic) if statement.condition else [frozenset()]
        found = [next((s for s, taken in earlier if _implies(a, taken)), None) for a in alternatives]
        if found and None not in found:
            taken = dict.fromkeys(s for s in found if s is not None)
            notes = tuple(Note(s.target.span, "taken before it") for s in taken)
            scope.faults.add(Code.SCHEDULE_UNREACHABLE, statement.target.span, notes=notes)
        earlier += [(statement, a) for a in alternatives]


def _implies(these: frozenset[_Atom], those: frozenset[_Atom]) -> bool:
    return all(any(_atom_implies(a, b) for a in these) for b in those)


def _atom_implies(a: _Atom, b: _Atom) -> bool:
    if isinstance(a, Poly) and isinstance(b, Poly):
        room = (b - a).constant
        return room is not None and room >= 0
    return a == b


def _alternatives(expr: ast.Expr, wanted: bool, scope: Scope) -> _Alternatives:
    """What makes `expr` equal to `wanted`."""
    match expr:
        case ast.Unary("not", operand):
            return _alternatives(operand, not wanted, scope)
        case ast.Binary("and" | "or" as connective, left, right):
            a, b = _alternatives(left, wanted, scope), _alternatives(right, wanted, scope)
            return _all(a, b) if (connective == "and") == wanted else a + b
        case ast.Compare(operands, ops):
            result: _Alternatives = [frozenset()] if wanted else []
            for left, written, right in zip(operands[:-1], ops, operands[1:], strict=True):
                pair = _comparison(left, written if wanted else NEGATED[written], right, scope)
                result = _all(result, pair) if wanted else result + pair
            return result
        case _:
            return [frozenset({(_form(expr), wanted)})]


def _comparison(left: ast.Expr, written: str, right: ast.Expr, scope: Scope) -> _Alternatives:
    a, b = affine.linear(left, scope), affine.linear(right, scope)
    if a is None or b is None or a.terms or b.terms:
        sides, equal = (_form(left), _form(right)), written in ("==", "!=")
        return [frozenset({((sides, "==" if equal else written), written != "!=")})]
    below, above = b.offset - a.offset, a.offset - b.offset
    match written:
        case "<=":
            return [frozenset({below})]
        case "<":
            return [frozenset({below - 1})]
        case ">=":
            return [frozenset({above})]
        case ">":
            return [frozenset({above - 1})]
        case "==":
            return [frozenset({below, above})]
        case _:
            return [frozenset({below - 1}), frozenset({above - 1})]


def _all(a: _Alternatives, b: _Alternatives) -> _Alternatives:
    return [x | y for x in a for y in b]


def _form(expr: ast.Expr) -> object:
    """What is written, wherever it stands."""
    said = [v for name, v in vars(expr).items() if name in ("value", "name", "op", "ops")]
    words = [v.name if isinstance(v, ast.Ident) else v for v in said]
    return (type(expr).__name__, *words, *map(_form, affine.children(expr)))
