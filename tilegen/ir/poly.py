"""Integer polynomials in sizes and integer scalars: extents, offsets, strides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Monomial = tuple[str, ...]  # sorted symbol names, repeated for powers; () is the constant term


@dataclass(frozen=True)
class Poly:
    """A polynomial in canonical form: sorted monomials, no zero coefficient. 0 is the empty sum."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def const(value: int) -> Poly:
        return Poly((((), value),)) if value else Poly()

    @staticmethod
    def symbol(name: str) -> Poly:
        return Poly((((name,), 1),))

    @staticmethod
    def _of(terms: Mapping[Monomial, int]) -> Poly:
        return Poly(tuple(sorted((m, c) for m, c in terms.items() if c)))

    def __add__(self, other: Poly | int) -> Poly:
        total = dict(self.terms)
        for monomial, c in _poly(other).terms:
            total[monomial] = total.get(monomial, 0) + c
        return Poly._of(total)

    def __neg__(self) -> Poly:
        return Poly(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Poly | int) -> Poly:
        return self + -_poly(other)

    def __mul__(self, other: Poly | int) -> Poly:
        total: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in _poly(other).terms:
                key = tuple(sorted(m1 + m2))
                total[key] = total.get(key, 0) + c1 * c2
        return Poly._of(total)

    def divided_by(self, divisor: Poly) -> Poly | None:
        """The exact quotient by a single-term divisor, or None."""
        if len(divisor.terms) != 1:
            return None
        monomial, c = divisor.terms[0]
        out: dict[Monomial, int] = {}
        for m, k in self.terms:
            rest = list(m)
            for name in monomial:
                if name not in rest:
                    return None
                rest.remove(name)
            if k % c:
                return None
            out[tuple(rest)] = k // c
        return Poly._of(out)

    @property
    def constant(self) -> int | None:
        """Its value if no symbol occurs in it, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Its value; `values` gives every symbol. Raises KeyError for a missing one."""
        total = 0
        for monomial, c in self.terms:
            for name in monomial:
                c *= values[name]
            total += c
        return total

    def substituted(self, values: Mapping[str, Poly]) -> Poly:
        """With these polynomials instead of symbols."""
        total = Poly()
        for monomial, c in self.terms:
            product = Poly.const(c)
            for name in monomial:
                product = product * values.get(name, Poly.symbol(name))
            total = total + product
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts: list[str] = []
        # symbols before the constant, as people write them
        for monomial, c in sorted(self.terms, key=lambda t: (t[0] == (), t[0])):
            body = " * ".join(([str(abs(c))] if abs(c) != 1 or not monomial else []) + list(monomial))
            sign = "-" if c < 0 else "+"
            parts.append(f"{sign} {body}" if parts else (f"-{body}" if c < 0 else body))
        return " ".join(parts)


def _poly(value: Poly | int) -> Poly:
    return value if isinstance(value, Poly) else Poly.const(value)
