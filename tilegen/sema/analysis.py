"""From a syntax tree and parameter values to a Tile program. All errors of the file are reported together."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import Note
from tilegen.ir.dtypes import DType
from tilegen.ir.poly import Poly
from tilegen.ir.reach import AxisTree
from tilegen.ir.tile import (
    Clause,
    Constraint,
    Definition,
    Expr,
    Number,
    Ragged,
    Scalar,
    Size,
    Tensor,
    TileProgram,
)
from tilegen.sema import affine
from tilegen.sema.axes import resolve_axes
from tilegen.sema.constants import constant
from tilegen.sema.definitions import add_definitions, add_moves, renamed_reads
from tilegen.sema.domain import clause
from tilegen.sema.expressions import Elaborator
from tilegen.sema.faults import Faults
from tilegen.sema.integers import check_integers
from tilegen.sema.params import bind_params
from tilegen.sema.ranges import check_ranges
from tilegen.sema.schedules import schedules
from tilegen.sema.scope import Scope, declare
from tilegen.sema.usage import check_usage
from tilegen.syntax import ast
from tilegen.syntax.span import Source


def analyse(kernel: ast.Kernel, source: Source, params: Mapping[str, str | int | float | bool | DType]) -> TileProgram:
    """The Tile program of `kernel` with `params` bound. Raises TilegenError with every error found."""
    faults = Faults()
    bound = bind_params(kernel, params, faults)
    scope = Scope(bound, faults)
    declare(kernel, scope)
    _sizes_and_tensors(kernel, scope)
    resolve_axes(kernel, scope)
    tree = AxisTree(scope.axes.values())
    _scalar_defaults(kernel, scope)
    add_moves([s for s in kernel.statements if isinstance(s, ast.TileDecl)], scope, tree)
    clauses: list[Clause] = []
    for statement in kernel.statements:
        if isinstance(statement, ast.DomainDecl):
            found = clause(statement, scope, tree)
            clauses += [found] if found else []
    ragged = _ragged(kernel, scope)
    add_definitions([s for s in kernel.statements if isinstance(s, ast.Equation)], scope, tree)
    tensors = tuple(_with_otherwise(t, clauses, scope, tree) for t in scope.tensors.values())
    check_ranges(scope, clauses, ragged)
    check_integers(scope, clauses)
    for definition in scope.definitions.values():
        _check_renamed_reads(definition, clauses, scope, tree)
    chosen = schedules([s for s in kernel.statements if isinstance(s, ast.ScheduleDecl)], scope, ragged)
    check_usage(kernel, scope)
    faults.raise_any()
    assert not scope.tainted, f"wrong, and nothing said why: {sorted(scope.tainted)}"
    return TileProgram(
        name=kernel.name.name,
        params=tuple(bound.items()),
        sizes=tuple(scope.sizes.values()),
        scalars=tuple(scope.scalars.values()),
        tensors=tensors,
        axes=tuple(scope.axes.values()),
        ragged=ragged,
        domain=tuple(clauses),
        moves=tuple(scope.moves.values()),
        definitions=tuple(scope.definitions.values()),
        schedules=chosen,
        source=source,
        span=kernel.span,
    )


# ---- declarations --------------------------------------------------------------------------------


def _sizes_and_tensors(kernel: ast.Kernel, scope: Scope) -> None:
    for statement in kernel.statements:
        match statement:
            case ast.SizeDecl(name, default, span):
                scope.sizes.setdefault(name.name, Size(name.name, default, span))
            case ast.ScalarDecl():
                _scalar(statement, scope)
            case _:
                continue
    for statement in kernel.statements:
        if not isinstance(statement, ast.TensorDecl):
            continue
        tensor = statement.name.name
        dtype = scope.dtype(statement.dtype)
        dims = [affine.extent(d, scope) for d in statement.dims]
        known = tuple(d for d in dims if d is not None)
        otherwise = _constant_number(statement.otherwise, scope)
        if dtype is None or len(known) < len(dims):
            scope.tainted.add(tensor)
        elif tensor not in scope.tensors:
            scope.tensors[tensor] = Tensor(tensor, dtype, known, statement.output, otherwise, statement.span)


def _scalar(statement: ast.ScalarDecl, scope: Scope) -> None:
    name = statement.name.name
    dtype = scope.dtype(statement.dtype)
    if dtype not in (None, DType.F32, DType.I32):
        scope.faults.add(Code.SCALAR_TYPE, statement.dtype.span, got=str(dtype), wanted="f32 or i32", name=name)
        dtype = None
    constraint = None
    if statement.op is not None and statement.bound is not None:
        bound = _constant_number(statement.bound, scope)
        if statement.op == "!=":
            scope.faults.add(Code.CONSTRAINT, statement.bound.span, got="!=", wanted="one of > >= < <= ==")
        elif bound is not None:
            constraint = Constraint(statement.op, bound, statement.name.span.until(statement.bound.span))
    if dtype is None:
        scope.tainted.add(name)
    else:
        scope.scalars.setdefault(name, Scalar(name, dtype, constraint, None, statement.span))


def _scalar_defaults(kernel: ast.Kernel, scope: Scope) -> None:
    """Defaults, once the names that they use are known."""
    for statement in kernel.statements:
        if not isinstance(statement, ast.ScalarDecl) or statement.default is None:
            continue
        name = statement.name.name
        scalar = scope.scalars.get(name)
        wrong = False
        for var in affine.variables(statement.default):
            if scope.kind(var.name) not in ("parameter", "size") and constant(var, {}) is None:
                scope.unknown(var, "parameter", "size")
                wrong = True
        if wrong or scalar is None:
            continue
        default = Elaborator(scope).number(statement.default)
        default = _typed_default(default, scalar, statement.default, scope)
        scope.scalars[name] = Scalar(name, scalar.dtype, scalar.constraint, default, scalar.span)


def _typed_default(default: Expr, scalar: Scalar, written: ast.Expr, scope: Scope) -> Expr:
    if scalar.dtype is DType.I32 and default.dtype is not DType.I32:
        scope.faults.add(Code.WRONG_TYPE, written.span, got=str(default.dtype), wanted="an integer")
    if not isinstance(default, Number):
        return default
    constraint = scalar.constraint
    if constraint is not None and not math.isnan(default.value) and not constraint.holds(default.value):
        scope.faults.add(
            Code.DEFAULT_CONSTRAINT, written.span, got=f"{default.value:g}",
            wanted=f"{constraint.op} {constraint.bound:g}", name=scalar.name,
        )  # fmt: skip
    return Number(float(default.value), DType.F32, default.span) if scalar.dtype is DType.F32 else default


def _constant_number(expr: ast.Expr | None, scope: Scope) -> float | None:
    """A number known at build time; notes anything else."""
    if expr is None:
        return None
    before, value = scope.faults.count, None
    with scope.faults.collecting():
        value = constant(expr, scope.params)
    if isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value):
        return float(value)
    if scope.faults.count == before:
        scope.faults.add(Code.NOT_CONSTANT, expr.span)
    return None


def _ragged(kernel: ast.Kernel, scope: Scope) -> tuple[Ragged, ...]:
    found: list[Ragged] = []
    for statement in kernel.statements:
        if not isinstance(statement, ast.RaggedDecl):
            continue
        before = scope.faults.count
        for ident in (statement.size, statement.over):
            if ident.name not in scope.sizes:
                scope.unknown(ident, "size")
        if scope.faults.count > before:
            continue
        table = scope.tensors.get(statement.by.name)
        if table is None or table.output:
            if statement.by.name not in scope.tainted:
                scope.unknown(statement.by, "input")
        else:
            wanted = (Poly.symbol(statement.over.name) + 1,)
            if table.dtype is not DType.I32 or table.dims != wanted:
                dims = ", ".join(str(d) for d in table.dims)
                scope.faults.add(
                    Code.RAGGED_TABLE, statement.by.span, got=f"{table.dtype}[{dims}]", wanted=f"i32[{wanted[0]}]",
                    notes=scope.declared(table.name), name=table.name, size=statement.size.name,
                    over=statement.over.name,
                )  # fmt: skip
        if any(r.size == statement.size.name for r in found):
            scope.faults.add(Code.REDEFINED, statement.size.span, name=statement.size.name, kind="ragged size")
        for tensor in scope.tensors.values():
            uses_size = any(statement.size.name in d.symbols for d in tensor.dims)
            if uses_size and Poly.symbol(statement.over.name) not in tensor.dims:
                scope.faults.add(
                    Code.RAGGED_DIMENSION, tensor.span, wanted=f"a dimension {statement.over.name}",
                    notes=(Note(statement.span, "ragged here"),), name=tensor.name, size=statement.size.name,
                    over=statement.over.name,
                )  # fmt: skip
        if scope.faults.count == before:
            found.append(Ragged(statement.size.name, statement.over.name, statement.by.name, statement.span))
    return tuple(found)


# ---- checks over the whole -----------------------------------------------------------------------


def _with_otherwise(tensor: Tensor, clauses: list[Clause], scope: Scope, tree: AxisTree) -> Tensor:
    """Demands `else` of an output with points outside its domain, and drops it where there are none."""
    definition = scope.definitions.get(tensor.name)
    if not tensor.output or definition is None:
        return tensor
    limiting = [c for c in clauses if all(tree.covers(definition.index, a) for a in c.axes)]
    if limiting and tensor.otherwise is None:
        notes = tuple(Note(c.span, "outside this, nothing is defined") for c in limiting)
        scope.faults.add(Code.ELSE_MISSING, tensor.span, notes=notes, name=tensor.name)
    if limiting:
        return tensor
    return Tensor(tensor.name, tensor.dtype, tensor.dims, True, None, tensor.span)


def _check_renamed_reads(definition: Definition, clauses: list[Clause], scope: Scope, tree: AxisTree) -> None:
    """A domain speaks of axes by name: read at other axes, an equation may be undefined."""
    for read, axis in renamed_reads(definition, scope):
        source = scope.definitions[read.name]
        for c in clauses:
            limits = all(tree.covers(source.axes, a) for a in c.axes)
            if limits and any(set(tree.atoms(axis)) & set(tree.atoms(a)) for a in c.axes):
                note = Note(c.span, f"this limits where `{read.name}` is defined")
                scope.faults.add(Code.READ_OUTSIDE_DOMAIN, read.span, notes=(note,), name=read.name, axis=axis)
