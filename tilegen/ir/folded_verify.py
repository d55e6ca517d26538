"""What a folded program may be: checked before and after every pass over it."""

from __future__ import annotations

from typing import NoReturn

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
from tilegen.ir.folded_text import operation_text
from tilegen.ir.tile import Apply, Cast, Expr, Fold, Read
from tilegen.ir.walk import subexpressions


class InvalidFolded(AssertionError):  # noqa: N818
    """A pass broke the rules of the folded program: an internal fault, not the user's."""


def verify(program: FoldedProgram) -> None:
    """Raises InvalidFolded, with the operation at fault, unless every rule holds.

    Names are defined once and before they are read (a Rescale reads the state of a later fold); expressions hold
    no folds; a fold's axes are its source's without the folded ones; a fold relative to an exponent reads a
    weight of it, linearly; every output is stored once, over its dimensions.
    """
    known: dict[str, FoldedOp] = {}
    states = {op.name for op in program.ops if isinstance(op, Product | Reduce)}
    tiles = {m.name: m for m in program.tile.moves}
    tensors = {t.name: t for t in program.tile.tensors}
    stored: set[str] = set()
    for op in program.ops:
        if op.name in known:
            _fault(op, f"{op.name} is defined twice")
        for name in _sources(op):
            if (
                name not in known
                and name not in tiles
                and name not in tensors
                and not (isinstance(op, Rescale) and name in states)
            ):
                _fault(op, f"{name} is read before it is defined")
        if isinstance(op, Elementwise) and any(isinstance(e, Fold) for e in subexpressions(op.value)):
            _fault(op, "an element-wise value holds a fold")
        if isinstance(op, Product | Reduce | Exponent):
            _check_fold(op, known)
        if isinstance(op, Weight | Guarded) and set(op.axes) != set(known[op.source].axes):
            _fault(op, f"its axes are not those of {op.source}")
        if isinstance(op, Weight):
            exponent = known.get(op.exponent)
            if not isinstance(exponent, Exponent):
                _fault(op, f"{op.exponent} is no exponent")
            if exponent.tilts != op.tilts:
                _fault(op, f"its tilts are not those of {op.exponent}")
        if isinstance(op, Exponent):
            for tilt in op.tilts:
                along = [c for axis, c in tilt.position.terms if axis in op.over]
                if set(known[tilt.slope].axes) & set(op.over) or along != [1]:
                    _fault(op, f"{tilt.slope} is no slope along {', '.join(op.over)}")
        if isinstance(op, Output):
            tensor = tensors.get(op.tensor)
            if tensor is None or not tensor.output or len(op.at) != len(tensor.dims):
                _fault(op, f"{op.tensor} is no output with {len(op.at)} dimensions")
            if op.tensor in stored:
                _fault(op, f"{op.tensor} is stored twice")
            stored.add(op.tensor)
        known[op.name] = op
    missing = {t.name for t in program.tile.tensors if t.output} - stored
    if missing:
        raise InvalidFolded(f"never stored: {', '.join(sorted(missing))}")


def _check_fold(op: Product | Reduce | Exponent, known: dict[str, FoldedOp]) -> None:
    if set(op.over) & set(op.axes):
        _fault(op, "a folded axis is left over")
    if isinstance(op, Product):
        factors = [known[n] for n in (op.a, op.b) if n in known]
    else:
        factors = [known[op.source]]
        if not set(op.over) <= set(factors[0].axes):
            _fault(op, f"{op.source} does not vary along {', '.join(op.over)}")
        if op.start is not None and not set(known[op.start].axes) <= set(op.axes):
            _fault(op, f"{op.start} varies along axes that it does not have")
    if isinstance(op, Product | Reduce) and op.exponent is not None:
        weights = [w for f in factors if (w := _weight(f, known)) is not None]
        if [w.exponent for w in weights] != [op.exponent]:
            _fault(op, f"it is relative to {op.exponent}, and is not linear in one weight of it")


def _weight(op: FoldedOp, known: dict[str, FoldedOp]) -> Weight | None:
    """The weight that a value is linear in, None if there is no such one."""
    if isinstance(op, Weight):
        return op
    if isinstance(op, Guarded):
        return _weight(known[op.source], known)
    return _linear(op.value, known) if isinstance(op, Elementwise) else None


def _linear(expr: Expr, known: dict[str, FoldedOp]) -> Weight | None:
    if isinstance(expr, Cast):
        return _linear(expr.value, known)
    if isinstance(expr, Read):
        return _weight(known[expr.name], known) if expr.name in known else None
    if isinstance(expr, Apply) and expr.op == "mul":
        found = [w for a in expr.args if (w := _linear(a, known)) is not None]
        return found[0] if len(found) == 1 else None
    return None


def _sources(op: FoldedOp) -> tuple[str, ...]:
    if isinstance(op, Product):
        return (op.a, op.b)
    if isinstance(op, Elementwise):
        return tuple(e.name for e in subexpressions(op.value) if isinstance(e, Read))
    if isinstance(op, Weight | Rescale):
        return (op.source, op.exponent, *_slopes(op))
    if isinstance(op, Reduce | Exponent):
        return (op.source, *([op.start] if op.start is not None else []), *_slopes(op))
    return (op.source,)


def _slopes(op: FoldedOp) -> tuple[str, ...]:
    return tuple(t.slope for t in op.tilts) if isinstance(op, Weight | Exponent) else ()


def _fault(op: FoldedOp, what: str) -> NoReturn:
    raise InvalidFolded(f"{op.span}: {what}\n  {operation_text(op)}")
