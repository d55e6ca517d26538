"""Folded programs as text: one operation a line."""

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
from tilegen.ir.tile_text import affine_text, expr_text


def _axes(axes: tuple[str, ...]) -> str:
    return f"[{', '.join(axes)}]"


def _argument(op: Weight | Exponent) -> str:
    scaled = op.source if op.factor is None else f"{op.source} * ({expr_text(op.factor)})"
    return " + ".join([scaled, *(f"{t.slope} * ({affine_text(t.position)})" for t in op.tilts)])


def _start(op: Reduce | Exponent) -> str:
    return f" and {op.start}" if op.start else ""


def operation_text(op: FoldedOp) -> str:
    """One line: what an operation computes."""
    left = f"{op.name}{_axes(op.axes)}"
    if isinstance(op, Product):
        relative = f" relative to {op.exponent}" if op.exponent else ""
        return f"{left} = product over {', '.join(op.over)} of {op.a} and {op.b} ({op.dtype}){relative}"
    if isinstance(op, Elementwise):
        return f"{left} = {expr_text(op.value)}"
    if isinstance(op, Weight):
        return f"{left} = exp2({_argument(op)} - {op.exponent})"
    if isinstance(op, Exponent):
        return f"{left} = exponent over {', '.join(op.over)} of {_argument(op)}{_start(op)}"
    if isinstance(op, Reduce):
        relative = f" relative to {op.exponent}" if op.exponent else ""
        return f"{left} = {op.kind} over {', '.join(op.over)} of {op.source}{relative}{_start(op)}"
    if isinstance(op, Guarded):
        return f"{left} = {op.source} in the domain of {', '.join(op.over)}, else {op.identity:g}"
    if isinstance(op, Rescale):
        return f"{left} = {op.source} brought to the new {op.exponent}"
    assert isinstance(op, Output)
    return f"{op.tensor}[{', '.join(affine_text(e) for e in op.at)}] := {op.source}"


def print_folded(program: FoldedProgram) -> str:
    """The folded program, an operation a line."""
    lines = [f"folded program {program.tile.name}"]
    lines += [f"  {operation_text(op)}" for op in program.ops]
    return "\n".join(lines) + "\n"
