"""Axes: the declared ones, those named only in brackets, and what `split` makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import Note
from tilegen.ir.poly import Poly
from tilegen.ir.tile import Affine, Axis, Index, Split
from tilegen.sema.affine import children, extent, variables
from tilegen.sema.faults import suggestion
from tilegen.sema.scope import Scope
from tilegen.syntax import ast
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class _Use:
    """An axis alone in the dimension `position` of `target`: its extent is that dimension's."""

    target: str
    position: int


def resolve_axes(kernel: ast.Kernel, scope: Scope) -> None:
    """Fills `scope.axes`. An undeclared axis takes its extent from the dimensions that it stands alone in."""
    for statement in kernel.statements:
        if isinstance(statement, ast.AxisDecl):
            size = extent(statement.extent, scope)
            name = statement.name.name
            if size is None:
                scope.tainted.add(name)
            elif scope.kind(name) == "axis":
                scope.axes.setdefault(name, Axis(name, size, None, statement.name.span))
    undeclared = _undeclared(kernel, scope)
    scope.inferred.update(undeclared)
    for name, span in undeclared.items():
        scope.kinds[name] = ("axis", span)
    _infer(kernel, scope, undeclared)
    _split(kernel, scope)
    _infer(kernel, scope, undeclared)  # those that index a tile by a part of a split axis
    for name, span in undeclared.items():
        if name not in scope.axes and name not in scope.tainted:
            scope.faults.add(Code.AXIS_EXTENT_UNKNOWN, span, name=name)
            scope.tainted.add(name)


def _undeclared(kernel: ast.Kernel, scope: Scope) -> dict[str, Span]:
    """Names that stand where only an axis can and are declared nowhere. One that occurs once is an error."""
    candidates: dict[str, Span] = {}
    occurrences: Counter[str] = Counter()
    for statement in kernel.statements:
        for ident in _axis_places(statement):
            if ident.name not in scope.kinds:
                candidates.setdefault(ident.name, ident.span)
        occurrences.update(_names(statement))
    for name in list(candidates):
        if occurrences[name] == 1:
            known = [n for n, (kind, _) in scope.kinds.items() if kind in ("axis", "size")]
            known += [n for n in candidates if n != name]
            scope.faults.add(Code.AXIS_USED_ONCE, candidates[name], wanted=suggestion(name, known), name=name)
            scope.tainted.add(name)
    return candidates


def _axis_places(statement: ast.Statement) -> Iterator[ast.Ident | ast.Var]:
    match statement:
        case ast.TileDecl(_, index, _, at):
            yield from index
            for expr in at:
                yield from variables(expr)
        case ast.Equation(_, index, value):
            yield from index
            yield from _bracketed(value)
        case ast.DomainDecl(_, condition):
            yield from _bracketed(condition)
        case ast.SplitDecl(axis):
            yield axis
        case _:
            return


def _bracketed(expr: ast.Expr) -> Iterator[ast.Var]:
    """Names in the brackets of reads and folds."""
    match expr:
        case ast.Indexed(_, index):
            for part in index:
                yield from variables(part)
        case ast.FoldCall(_, axes, args, extra):
            for part in axes:
                yield from variables(part)
            for part in args + extra:
                yield from _bracketed(part)
        case _:
            for child in children(expr):
                yield from _bracketed(child)


def _names(statement: ast.Statement) -> Iterator[str]:
    """Every occurrence of a bare name in tiles, equations, domains and splits."""
    match statement:
        case ast.TileDecl(_, index, _, at):
            yield from (i.name for i in index)
            yield from (v.name for e in at for v in variables(e))
        case ast.Equation(_, index, value):
            yield from (i.name for i in index)
            yield from (v.name for v in variables(value))
        case ast.DomainDecl(axes, condition):
            yield from (a.name for a in axes)
            yield from (v.name for v in variables(condition))
        case ast.SplitDecl(axis):
            yield axis.name
        case _:
            return


def _uses(kernel: ast.Kernel, wanted: frozenset[str], inputs: Container[str]) -> Iterator[tuple[str, Span, _Use]]:
    """Where an axis of `wanted` stands alone in a dimension of a tensor, tile or equation."""

    def reads(expr: ast.Expr) -> Iterator[tuple[str, Span, _Use]]:
        if isinstance(expr, ast.Indexed):
            for position, part in enumerate(expr.index):
                if isinstance(part, ast.Var) and part.name in wanted:
                    yield part.name, part.span, _Use(expr.name.name, position)
        for child in children(expr):
            yield from reads(child)

    for statement in kernel.statements:
        match statement:
            case ast.TileDecl(_, _, tensor, at):
                for position, part in enumerate(at):
                    if isinstance(part, ast.Var) and part.name in wanted and tensor.name in inputs:
                        yield part.name, part.span, _Use(tensor.name, position)
                    yield from reads(part)
            case ast.Equation(name, index, value):
                for position, ident in enumerate(index):
                    if ident.name in wanted:
                        yield ident.name, ident.span, _Use(name.name, position)
                yield from reads(value)
            case ast.DomainDecl(_, condition):
                yield from reads(condition)
            case _:
                continue


def _infer(kernel: ast.Kernel, scope: Scope, undeclared: dict[str, Span]) -> None:
    """Extents from tensors' dimensions, then from the brackets of tiles and equations, until nothing changes."""
    brackets = {
        s.name.name: tuple(i.name for i in s.index)
        for s in kernel.statements
        if isinstance(s, ast.TileDecl | ast.Equation) and s.name.name not in scope.tensors
    }
    uses = list(_uses(kernel, frozenset(undeclared), scope.tensors))
    changed = True
    while changed:
        changed = False
        for name, span, use in uses:
            if name in scope.axes:
                continue
            size = _dimension(scope, brackets, use)
            if size is not None:
                scope.axes[name] = Axis(name, size, None, span)
                changed = True


def _dimension(scope: Scope, brackets: dict[str, tuple[str, ...]], use: _Use) -> Poly | None:
    if use.target in scope.tensors:
        dims = scope.tensors[use.target].dims
        return dims[use.position] if use.position < len(dims) else None
    index = brackets.get(use.target, ())
    axis = scope.axes.get(index[use.position]) if use.position < len(index) else None
    return axis.extent if axis else None


def _split(kernel: ast.Kernel, scope: Scope) -> None:
    """Carries out the splits, each after the one that makes its axis."""
    waiting = [s for s in kernel.statements if isinstance(s, ast.SplitDecl)]
    while ready := [s for s in waiting if s.axis.name in scope.axes]:
        waiting = [s for s in waiting if s not in ready]
        for statement in ready:
            _split_one(statement, scope)
    for statement in waiting:
        if scope.kind(statement.axis.name) != "axis":
            scope.unknown(statement.axis, "axis")
            _taint_parts(statement, scope)
    while failed := [s for s in waiting if s.axis.name in scope.tainted | scope.inferred]:
        waiting = [s for s in waiting if s not in failed]
        for statement in failed:
            _taint_parts(statement, scope)
    for statement in waiting:
        scope.faults.add(Code.SPLIT_CYCLE, statement.axis.span, name=statement.axis.name)
        _taint_parts(statement, scope)


def _split_one(statement: ast.SplitDecl, scope: Scope) -> None:
    name, outer, inner = statement.axis, statement.outer, statement.inner
    axis, inner_extent = scope.axes[name.name], extent(statement.extent, scope)
    owned = [scope.kinds[p.name][1] == p.span for p in (outer, inner) if p.name in scope.kinds]
    if inner_extent is None or owned != [True, True]:  # a name that was taken before has been noted
        _taint_parts(statement, scope)
    elif axis.split is not None:
        note = Note(axis.split.span, "split here already")
        scope.faults.add(Code.SPLIT_TWICE, name.span, notes=(note,), name=name.name)
        _taint_parts(statement, scope)
    elif (outer_extent := axis.extent.divided_by(inner_extent)) is None:
        scope.faults.add(
            Code.SPLIT_UNEVEN, statement.extent.span, got=f"{axis.extent} by {inner_extent}",
            notes=scope.declared(name.name), name=name.name,
        )  # fmt: skip
        _taint_parts(statement, scope)
    else:
        scope.axes[name.name] = replace(axis, split=Split(outer.name, inner.name, statement.span))
        scope.axes[outer.name] = Axis(outer.name, outer_extent, None, outer.span)
        scope.axes[inner.name] = Axis(inner.name, inner_extent, None, inner.span)


def _taint_parts(statement: ast.SplitDecl, scope: Scope) -> None:
    scope.tainted |= {p.name for p in (statement.outer, statement.inner) if p.name not in scope.axes}


def check_extents(scope: Scope, target: str, dims: tuple[Poly, ...], at: tuple[Index | None, ...]) -> None:
    """Notes each axis that stands alone in a dimension of another extent than its own.

    A declared axis may run over the beginning of an input's longer dimension.
    """
    is_input = target in scope.tensors and not scope.tensors[target].output
    for position, (dim, part) in enumerate(zip(dims, at, strict=True)):
        name = part.axis if isinstance(part, Affine) else None
        axis = scope.axes.get(name) if name else None
        if part is None or axis is None or axis.extent == dim or axis.name in scope.tainted:
            continue
        longer = all(coefficient > 0 for _, coefficient in (dim - axis.extent).terms)
        if longer and is_input and axis.name not in scope.inferred:
            continue
        note = Note(axis.span, f"`{axis.name}` has the extent {axis.extent} from here")
        named = scope.moves.get(target) or scope.definitions.get(target)
        as_declared = (Note(named.span, f"declared as `{target}[{', '.join(named.index)}]`"),) if named else ()
        scope.faults.add(
            Code.AXIS_EXTENT, part.span, got=f"`{axis.name}`, of extent {axis.extent}",
            wanted=f"an axis of extent {dim}, which dimension {position} of `{target}` has",
            notes=(*as_declared, note),
            name=axis.name,
        )  # fmt: skip
