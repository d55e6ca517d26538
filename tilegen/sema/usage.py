"""Names that are declared and never used: a typo, or an argument that a caller would pass for nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.diagnostics.catalogue import Code
from tilegen.sema.affine import children
from tilegen.sema.scope import Scope
from tilegen.syntax import ast


def check_usage(kernel: ast.Kernel, scope: Scope) -> None:
    """Notes each parameter, size, scalar, input, axis, tile and equation that nothing uses.

    What counts is the text, not what the bound parameters leave of it.
    """
    used: set[str] = set()
    for param in kernel.params:
        used.update(name for choice in param.choices if not isinstance(choice, ast.Range) for name in _in(choice))
    for statement in kernel.statements:
        names = _used_by(statement)
        if isinstance(statement, ast.ScheduleDecl):  # naming a thing in a schedule gives it no use, except a number
            names = (n for n in names if n in scope.params or n in scope.scalars)
        used.update(names)
        if isinstance(statement, ast.SplitDecl):  # often only one of the two parts has a use
            used |= {statement.outer.name, statement.inner.name}
    defined = {s.name.name for s in kernel.statements if isinstance(s, ast.Equation)}
    if all(kind != "output" for kind, _ in scope.kinds.values()):
        scope.faults.add(Code.NO_OUTPUT, kernel.name.span, name=kernel.name.name)
    for name, (kind, span) in scope.kinds.items():
        if kind == "output":
            if name not in defined:
                scope.faults.add(Code.OUTPUT_UNDEFINED, span, name=name)
        elif name not in used | scope.meant | scope.tainted:
            scope.faults.add(Code.UNUSED, span, name=name, kind=kind)


def _used_by(statement: ast.Statement) -> Iterator[str]:
    match statement:
        case ast.TensorDecl(_, dtype, dims, _, otherwise):
            yield dtype.name
            yield from _in(*dims, *([otherwise] if otherwise else []))
        case ast.ScalarDecl(_, dtype, _, bound, default):
            yield dtype.name
            yield from _in(*(e for e in (bound, default) if e is not None))
        case ast.AxisDecl(_, extent):
            yield from _in(extent)
        case ast.SplitDecl(axis, _, _, extent):
            yield axis.name
            yield from _in(extent)
        case ast.DomainDecl(axes, condition, guard):
            yield from (a.name for a in axes)
            yield from _in(condition, *([guard] if guard else []))
        case ast.RaggedDecl(size, over, by):
            yield from (size.name, over.name, by.name)
        case ast.TileDecl(_, index, tensor, at):
            yield from (i.name for i in index)
            yield tensor.name
            yield from _in(*at)
        case ast.Equation(name, index, value):
            yield from (i.name for i in index)
            yield from (n for n in _in(value) if n != name.name)
        case ast.ScheduleDecl(_, condition, directives):
            yield from _in(*([condition] if condition else []))
            yield from _counts(directives)
        case ast.SizeDecl():
            return


def _counts(directives: tuple[ast.Directive, ...]) -> Iterator[str]:
    """Words of a schedule, where parameters may stand for numbers."""
    for directive in directives:
        yield from (a.name for a in directive.args[1:] if isinstance(a, ast.Ident))
        yield from _counts(directive.body)


def _in(*exprs: ast.Expr) -> Iterator[str]:
    for expr in exprs:
        match expr:
            case ast.Var(name):
                yield name
            case ast.Indexed(name) | ast.Call(name) | ast.FoldCall(name):
                yield name.name
            case _:
                pass
        yield from _in(*children(expr))
