"""Tiles and equations: typed, put in order, and given the axes that they reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import Note
from tilegen.ir.dtypes import DType
from tilegen.ir.reach import AxisTree, Named, body_axes, free_axes, index_axes
from tilegen.ir.tile import Affine, Definition, Expr, Fold, Move, Position, Read
from tilegen.ir.walk import subexpressions
from tilegen.sema import affine
from tilegen.sema.axes import check_extents
from tilegen.sema.expressions import Elaborator, check_rank
from tilegen.sema.products import check_products
from tilegen.sema.scope import Scope
from tilegen.syntax import ast


def add_moves(tiles: Iterable[ast.TileDecl], scope: Scope, tree: AxisTree) -> None:
    """Fills `scope.moves`."""
    for tile in tiles:
        before, name = scope.faults.count, tile.name.name
        index = _bracket_axes(tile.index, scope)
        tensor = scope.tensors.get(tile.tensor.name)
        at = tuple(affine.index(e, scope) for e in tile.at)
        if tensor is None or tensor.output:
            if tile.tensor.name not in scope.tainted:
                scope.unknown(tile.tensor, "input")
        elif check_rank(scope, tile.tensor, len(tensor.dims), len(at), tile.tensor.span.until(tile.span)):
            check_extents(scope, tensor.name, tensor.dims, at)
        if scope.faults.count > before or tensor is None or None in at:
            scope.tainted.add(name)
            continue
        known = tuple(part for part in at if part is not None)
        axes = tree.normal(a for part in known for a in index_axes(part))
        for ident in tile.index:
            if not tree.covers(axes, ident.name):
                scope.faults.add(Code.AXIS_NOT_REACHED, ident.span, name=ident.name, tile=name, tensor=tensor.name)
                scope.tainted.add(name)
        if name not in scope.tainted and scope.kind(name) == "tile":  # else the name was taken before
            scope.moves[name] = Move(name, index, tensor.name, known, axes, tensor.dtype, tile.span)


def add_definitions(equations: Iterable[ast.Equation], scope: Scope, tree: AxisTree) -> None:
    """Fills `scope.definitions`, in an order in which each reads earlier ones."""
    by_name: dict[str, ast.Equation] = {}
    for equation in equations:
        by_name.setdefault(equation.name.name, equation)
    expressions = Elaborator(scope)
    for equation in _ordered(by_name, scope):
        before, name = scope.faults.count, equation.name.name
        index = _bracket_axes(equation.index, scope)
        value = expressions.number(equation.value)
        output = scope.kind(name) == "output"
        reads_tainted = any(v in scope.tainted for v in _mentions(equation.value))
        if scope.faults.count == before and not reads_tainted and len(index) == len(equation.index):
            names = readable(scope, tree)
            _check_folds(value, scope, names, tree)
            check_products(value, scope, names, tree)
            reached = free_axes(value, names, tree)
            carried = tree.minus(reached, index)
            definition = Definition(name, index, value, index + carried, output, value.dtype, equation.span)
            if output:
                _check_output(definition, equation, carried, scope, tree)
            if output or scope.kind(name) == "equation":  # else the name was taken before
                scope.definitions[name] = definition
        if scope.faults.count > before or reads_tainted:
            scope.tainted.add(name)


def readable(scope: Scope, tree: AxisTree) -> dict[str, Named]:
    """What can be read besides tensors."""
    moves = {n: Named.of(move, tree) for n, move in scope.moves.items()}
    return moves | {n: Named.of(definition, tree) for n, definition in scope.definitions.items()}


def _bracket_axes(idents: tuple[ast.Ident, ...], scope: Scope) -> tuple[str, ...]:
    axes: list[str] = []
    for ident in idents:
        if ident.name in axes:
            scope.faults.add(Code.AXIS_TWICE, ident.span, name=ident.name)
        elif ident.name in scope.axes:
            axes.append(ident.name)
        elif ident.name not in scope.tainted:
            scope.unknown(ident, "axis")
    return tuple(axes)


# ---- order ---------------------------------------------------------------------------------------


def _mentions(expr: ast.Expr) -> Iterator[str]:
    """The names that an expression reads with brackets, and its bare names."""
    match expr:
        case ast.Indexed(name):
            yield name.name
        case ast.Var(name):
            yield name
        case _:
            pass
    for child in affine.children(expr):
        yield from _mentions(child)


def _ordered(equations: dict[str, ast.Equation], scope: Scope) -> list[ast.Equation]:
    """Each after those it reads, else in file order; cycles are noted and left out."""
    done: list[ast.Equation] = []
    state: dict[str, str] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if state.get(name) == "done":
            return
        if state.get(name) == "open":
            cycle = path[path.index(name) :]
            notes = tuple(Note(equations[n].name.span, f"`{n}` is defined here") for n in cycle[1:])
            scope.faults.add(
                Code.CYCLE, equations[name].name.span, got=" → ".join(f"`{n}`" for n in (*cycle, name)), notes=notes,
                name=name,
            )  # fmt: skip
            scope.tainted.update(cycle)
            return
        state[name] = "open"
        for other in dict.fromkeys(_mentions(equations[name].value)):
            if other in equations:
                visit(other, (*path, name))
        state[name] = "done"
        if name not in scope.tainted:
            done.append(equations[name])

    for name in equations:
        visit(name, ())
    return done


# ---- what an equation must satisfy ---------------------------------------------------------------


def _check_folds(value: Expr, scope: Scope, names: dict[str, Named], tree: AxisTree) -> None:
    for node in subexpressions(value):
        if not isinstance(node, Fold):
            continue
        body = body_axes(node, names, tree)
        for axis in node.axes:
            if not tree.covers(body, axis):
                reached = ", ".join(f"`{a}`" for a in body) or "none"
                scope.faults.add(
                    Code.FOLD_AXIS_MISSING, node.span, got=f"an expression over {reached}", name=axis, fold=node.kind
                )
        for term in node.extra:
            reached_by = free_axes(term, names, tree)
            for axis in node.axes:
                if set(tree.atoms(axis)) & {atom for a in reached_by for atom in tree.atoms(a)}:
                    scope.faults.add(Code.EXTRA_TERM_AXIS, term.span, name=axis, fold=node.kind)


def _check_output(
    definition: Definition, equation: ast.Equation, carried: tuple[str, ...], scope: Scope, tree: AxisTree
) -> None:
    tensor = scope.tensors[definition.name]
    if check_rank(scope, equation.name, len(tensor.dims), len(equation.index), equation.name.span):
        at = tuple(affine.index(ast.Var(i.name, i.span), scope) for i in equation.index)
        check_extents(scope, tensor.name, tensor.dims, at)
    for axis in carried:
        scope.faults.add(
            Code.AXIS_LEFT_OVER, equation.value.span, wanted=f"`{axis}` in the brackets of `{tensor.name}`, or a fold",
            notes=(*_entry(definition.value, axis, scope, tree), *scope.declared(tensor.name)), name=axis,
            output=tensor.name,
        )  # fmt: skip
    if tensor.dtype is DType.I32 and definition.dtype is not DType.I32:
        scope.faults.add(
            Code.OUTPUT_TYPE, equation.value.span, got=str(definition.dtype), wanted="i32",
            notes=scope.declared(tensor.name), name=tensor.name,
        )  # fmt: skip


def _entry(value: Expr, axis: str, scope: Scope, tree: AxisTree) -> tuple[Note, ...]:
    """Where an axis comes into a value: what first mentions it, also in equations that are read."""
    names = readable(scope, tree)
    for node in subexpressions(value):
        if isinstance(node, Read | Position) and not tree.minus((axis,), free_axes(node, names, tree)):
            inner = scope.definitions.get(node.name) if isinstance(node, Read) else None
            if inner is not None and not tree.minus((axis,), names[inner.name].carried):
                return _entry(inner.value, axis, scope, tree)
            return (Note(node.span, f"`{axis}` comes in here"),)
    return ()


def renamed_reads(definition: Definition, scope: Scope) -> Iterator[tuple[Read, str]]:
    """Reads of equations at other positions than their own axes, with the bracket axis that is replaced."""
    for node in subexpressions(definition.value):
        if isinstance(node, Read) and node.name in scope.definitions:
            for part, axis in zip(node.index, scope.definitions[node.name].index, strict=True):
                if not isinstance(part, Affine) or part.axis != axis:
                    yield node, axis
