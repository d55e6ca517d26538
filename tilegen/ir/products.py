"""Which folds are products that a tensor core can do."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.ir.reach import AxisTree, Named, free_axes
from tilegen.ir.tile import Apply, Expr, Fold


def product_factors(fold: Fold, names: Mapping[str, Named], tree: AxisTree) -> tuple[Expr, Expr] | None:
    """The two factors of Σ over R of a·b, or None if the fold is no product.

    Exactly two factors depend on R, each on all of it, and each has an axis that the other lacks (so that x·x, or a
    matrix with a vector of weights, is no product). Further factors may be free of R.
    """
    if fold.kind != "sum":
        return None
    bound = {atom for a in fold.axes for atom in tree.atoms(a)}
    held: list[tuple[Expr, set[str]]] = []
    for factor, divides in _factors(fold.args[0]):
        atoms = {atom for a in free_axes(factor, names, tree) for atom in tree.atoms(a)}
        if atoms & bound:
            if divides:
                return None
            held.append((factor, atoms))
    if len(held) != 2:
        return None
    (left, left_axes), (right, right_axes) = held
    if not (bound <= left_axes and bound <= right_axes):
        return None
    return (left, right) if left_axes - right_axes and right_axes - left_axes else None


def _factors(expr: Expr, divides: bool = False) -> list[tuple[Expr, bool]]:
    """What is multiplied together, signs left out, and whether it divides instead."""
    match expr:
        case Apply("mul" | "div" as op, (left, right)):
            return _factors(left, divides) + _factors(right, divides ^ (op == "div"))
        case Apply("neg", (inner,)):
            return _factors(inner, divides)
        case _:
            return [(expr, divides)]
