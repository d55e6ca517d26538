"""How far an index reaches over its axes, and what polynomials in sizes can be."""

from __future__ import annotations

from collections.abc import Callable, Container

from tilegen.ir.poly import Poly
from tilegen.ir.tile import Affine, Axis


def bounds(index: Affine, axis: Callable[[str], Axis]) -> tuple[Poly, Poly]:
    """The lowest and the highest position, over axes that are not empty."""
    lowest = highest = index.offset
    for name, factor in index.terms:
        reach = (axis(name).extent - 1) * factor
        lowest, highest = (lowest, highest + reach) if factor > 0 else (lowest + reach, highest)
    return lowest, highest


def never_negative(value: Poly, signed: Container[str]) -> bool:
    """Whether it is sure not to be below 0, all symbols but those in `signed` being sizes."""
    return all(c >= 0 and not any(s in signed for s in monomial) for monomial, c in value.terms)
