"""Expressions and operations of the Tile and folded programs as text, for printed stages and messages."""

from __future__ import annotations

from tilegen.ir.folded import (
    Elementwise,
    Exponent,
    FoldedOp,
    FoldedProgram,
    Guarded,
    Output,
    Product,
    Reduce,
    Rescale,
    Weight,
)
from tilegen.ir.tile import Affine, Cast, Expr, Fold, Index, Number, Position, Read, Symbol

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">"}
_INFIX |= {"ge": ">=", "and": "and", "or": "or"}


def affine_text(entry: Affine) -> str:
    parts: list[str] = []
    for axis, c in entry.terms:
        body = axis if abs(c) == 1 else f"{abs(c)} * {axis}"
        parts.append((f"- {body}" if c < 0 else f"+ {body}") if parts else (f"-{body}" if c < 0 else body))
    if entry.offset.terms or not parts:
        offset = str(entry.offset)
        parts.append((f"- {offset[1:]}" if offset.startswith("-") else f"+ {offset}") if parts else offset)
    return " ".join(parts)


def index_text(entry: Index) -> str:
    if isinstance(entry, Affine):
        return affine_text(entry)
    return f"{entry.table}[{', '.join(map(affine_text, entry.index))}]"


def expression_text(expr: Expr, top: bool = True) -> str:
    if isinstance(expr, Number):
        return f"{expr.value:.17g}"
    if isinstance(expr, Symbol):
        return expr.name
    if isinstance(expr, Position):
        return f"@{expr.axis}"
    if isinstance(expr, Read):
        return f"{expr.name}[{', '.join(map(index_text, expr.index))}]"
    if isinstance(expr, Cast):
        return f"{expr.dtype}({expression_text(expr.value)})"
    if isinstance(expr, Fold):
        extra = f"; {', '.join(map(expression_text, expr.extra))}" if expr.extra else ""
        return f"{expr.kind}[{', '.join(expr.axes)}]({', '.join(map(expression_text, expr.args))}{extra})"
    if expr.op in _INFIX:
        body = f" {_INFIX[expr.op]} ".join(expression_text(a, False) for a in expr.args)
        return body if top else f"({body})"
    return f"{expr.op}({', '.join(map(expression_text, expr.args))})"


def _axes(axes: tuple[str, ...]) -> str:
    return f"[{', '.join(axes)}]"


def operation_text(op: FoldedOp) -> str:
    """One line: what an operation computes."""
    left = f"{op.name}{_axes(op.axes)}"
    if isinstance(op, Product):
        relative = f" relative to {op.exponent}" if op.exponent else ""
        return f"{left} = product over {', '.join(op.over)} of {op.a} and {op.b} ({op.dtype}){relative}"
    if isinstance(op, Elementwise):
        return f"{left} = {expression_text(op.value)}"
    if isinstance(op, Weight):
        argument = op.source if op.factor is None else f"{op.source} * ({expression_text(op.factor)})"
        return f"{left} = exp2({argument} - {op.exponent})"
    if isinstance(op, Exponent):
        argument = op.source if op.factor is None else f"{op.source} * ({expression_text(op.factor)})"
        return f"{left} = exponent over {', '.join(op.over)} of {argument}"
    if isinstance(op, Reduce):
        relative = f" relative to {op.exponent}" if op.exponent else ""
        return f"{left} = {op.kind} over {', '.join(op.over)} of {op.source}{relative}"
    if isinstance(op, Guarded):
        return f"{left} = {op.source} in the domain of {', '.join(op.over)}, else {op.identity:g}"
    if isinstance(op, Rescale):
        return f"{left} = {op.source} brought to the new {op.exponent}"
    assert isinstance(op, Output)
    return f"{op.tensor}{_axes(op.axes)} := {op.source}"


def print_folded(program: FoldedProgram) -> str:
    """The folded program, an operation a line."""
    lines = [f"folded program {program.tile.name}"]
    lines += [f"  {operation_text(op)}" for op in program.ops]
    return "\n".join(lines) + "\n"
