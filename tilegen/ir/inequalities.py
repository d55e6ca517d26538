"""Whether affine inequalities over positions can hold together, where sizes and scalars are known and where not.

Fourier and Motzkin: a position is eliminated between each of its lower and upper bounds. What is left are conditions on
sizes and scalars alone: never fulfilled, or fulfilled whenever sizes are large enough, or that depends on the launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

from tilegen.ir.poly import Monomial, Poly

MOST = 600  # inequalities of a system; what makes more is not decided
TRIES = 2000  # numbers that are tried for positions with factors


@dataclass(frozen=True)
class Linear:
    """sum(factor * variable) + offset."""

    terms: tuple[tuple[str, int], ...]  # sorted by name, no factor is 0
    offset: Poly

    @staticmethod
    def of(terms: Mapping[str, int], offset: Poly) -> Linear:
        return Linear(tuple(sorted((v, f) for v, f in terms.items() if f)), offset)

    @staticmethod
    def variable(name: str) -> Linear:
        return Linear(((name, 1),), Poly())

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        total = dict(self.terms)
        for name, f in other.terms:
            total[name] = total.get(name, 0) + factor * f
        return Linear.of(total, self.offset + other.offset * factor)

    def moved(self, by: Poly | int) -> Linear:
        return Linear(self.terms, self.offset + by)

    def at(self, values: Mapping[str, int]) -> Linear:
        """With these sizes and scalars in it, others left as they are."""
        return Linear(self.terms, self.offset.substituted({n: Poly.const(v) for n, v in values.items()}))

    def factor(self, name: str) -> int:
        return next((f for v, f in self.terms if v == name), 0)

    def __str__(self) -> str:
        total = self.offset
        for name, factor in self.terms:
            total = total + Poly.symbol(name.rstrip("'")) * factor
        return str(total)


Alternatives = tuple[tuple[Linear, ...], ...]  # any of them, each all of its members, which are >= 0


def both(a: Alternatives, b: Alternatives) -> Alternatives:
    return tuple(x + y for x in a for y in b)


def compared(difference: Linear, op: str) -> Alternatives:
    """What makes `difference op 0` true."""
    below, above = Linear((), Poly()).plus(difference, -1), difference
    match op:
        case "<=":
            return ((below,),)
        case "<":
            return ((below.moved(-1),),)
        case ">=":
            return ((above,),)
        case ">":
            return ((above.moved(-1),),)
        case "==":
            return ((below, above),)
    return (below.moved(-1),), (above.moved(-1),)


def opposite(alternatives: Alternatives) -> Alternatives:
    """What makes none of them true."""
    every: Alternatives = ((),)
    for alternative in alternatives:
        every = both(every, tuple((Linear((), Poly()).plus(member, -1).moved(-1),) for member in alternative))
    return every


@dataclass(frozen=True)
class Symbols:
    """What is known of sizes and integer scalars: the least and the greatest value of each scalar, None: no limit.
    Every other symbol is a size."""

    scalars: Mapping[str, tuple[int | None, int | None]]

    def never(self, conditions: Sequence[Poly]) -> bool:
        """Whether conditions, each to be >= 0, fail together whatever the sizes and scalars are."""
        system = [Linear.of({_name(m): c for m, c in p.terms if m}, Poly.const(_constant(p))) for p in conditions]
        monomials = {m for p in conditions for m, _ in p.terms if m}
        for m in monomials:
            least, greatest = self._limits(m[0]) if len(m) == 1 else (0, None)
            if len(m) > 1 and not all(map(self._counts, m)):
                least = None
            if least is not None:
                system.append(Linear(((_name(m), 1),), Poly.const(-least)))
            if greatest is not None:
                system.append(Linear(((_name(m), -1),), Poly.const(greatest)))
        left = eliminated(system, sorted(map(_name, monomials)), dark=False)
        return left is not None and any(_constant(p.offset) < 0 for p in left[-1])

    def _limits(self, name: str) -> tuple[int | None, int | None]:
        return self.scalars.get(name, (0, None))

    def _counts(self, name: str) -> bool:
        """Whether it is known to be 0 or more."""
        least, _ = self._limits(name)
        return least is not None and least >= 0

    def sure(self, condition: Poly) -> bool:
        """Whether it is >= 0 for all scalars there may be, sizes being large enough."""
        shifts = {s: Poly.symbol(s) + LARGE for s in condition.symbols if s not in self.scalars}
        for name in condition.symbols & self.scalars.keys():
            least, greatest = self.scalars[name]
            if least is not None and least == greatest:
                shifts[name] = Poly.const(least)
            elif least is not None:
                shifts[name] = Poly.symbol(name) + least
            elif greatest is not None:
                shifts[name] = Poly.const(greatest) - Poly.symbol(name)
        free = {s for s in condition.symbols & self.scalars.keys() if s not in shifts}
        grows = any(c > 0 and m and not self.scalars.keys() & set(m) for m, c in condition.terms)
        for m, c in condition.substituted(shifts).terms:
            counts = not grows or not self.scalars.keys() >= set(m)  # what grows outweighs scalars alone
            if counts and (c < 0 or free & set(m)):
                return False
        return True


LARGE = 1 << 20


def _name(m: Monomial) -> str:
    return " ".join(m)


def _constant(p: Poly) -> int:
    return next((c for m, c in p.terms if not m), 0)


# ---- elimination -----------------------------------------------------------------------------------


def eliminated(system: Iterable[Linear], order: Sequence[str], dark: bool) -> list[list[Linear]] | None:
    """The system before each of these variables is eliminated, and without any; None if it grows too large.

    dark: bounds must leave a whole number between them (the dark shadow): what then can hold does. Otherwise what can
    not hold then does not.
    """
    stages = [_tidy(system)]
    for name in order:
        before = stages[-1]
        lower = [(x, x.factor(name)) for x in before if x.factor(name) > 0]
        upper = [(x, -x.factor(name)) for x in before if x.factor(name) < 0]
        made = [x for x in before if not x.factor(name)]
        if len(lower) * len(upper) > MOST:
            return None
        for a, p in lower:
            for b, q in upper:
                gap = (p - 1) * (q - 1) if dark else 0
                made.append(Linear((), Poly.const(-gap)).plus(a, q).plus(b, p))
        stages.append(_tidy(made))
        if len(stages[-1]) > MOST:
            return None
    return stages


def _tidy(system: Iterable[Linear]) -> list[Linear]:
    """Each once, those that always hold left out, and divided by what divides its factors."""
    found: dict[Linear, None] = {}
    for x in system:
        divisor = reduce(gcd, (f for _, f in x.terms), 0)
        if divisor > 1 and all(c % divisor == 0 for m, c in x.offset.terms if m):
            offset = Poly(tuple((m, c // divisor) for m, c in x.offset.terms if c // divisor))
            x = Linear(tuple((v, f // divisor) for v, f in x.terms), offset)
        if x.terms or x.offset.constant is None or x.offset.constant < 0:
            found[x] = None
    return list(found)


def position(
    stages: Sequence[Sequence[Linear]], order: Sequence[str], high: frozenset[str], symbols: Symbols
) -> dict[str, Poly] | None:
    """Values of all variables at which the system holds: the least there are, of those in `high` the greatest; None
    where that is not found. Without symbols in it, it is searched for."""
    tries = iter(range(TRIES))

    def place(left: int, at: dict[str, Poly]) -> dict[str, Poly] | None:
        if left < 0:
            return at
        name = order[left]
        bounds = [(x.factor(name), _rest(x, name, at)) for x in stages[left] if x.factor(name)]
        lower = [(rest, f) for f, rest in bounds if f > 0]
        upper = [(rest, -f) for f, rest in bounds if f < 0]
        for value in _choices(lower, upper, name in high, symbols):
            if next(tries, None) is None:
                return None
            if (found := place(left - 1, {**at, name: value})) is not None:
                return found
        return None

    return place(len(order) - 1, {})


def _rest(x: Linear, name: str, at: Mapping[str, Poly]) -> Poly:
    total = x.offset
    for other, factor in x.terms:
        if other != name:
            total = total + at[other] * factor
    return total


def _choices(
    lower: list[tuple[Poly, int]], upper: list[tuple[Poly, int]], high: bool, symbols: Symbols
) -> Iterator[Poly]:
    """Values between bounds: factor * value + rest >= 0, and rest - factor * value >= 0."""
    numbers = [rest.constant for rest, _ in (*lower, *upper)]
    if all(n is not None for n in numbers):
        least = max((-(_constant(rest) // f) for rest, f in lower), default=0)
        greatest = min((_constant(rest) // f for rest, f in upper), default=least)
        every = range(least, greatest + 1)
        yield from map(Poly.const, reversed(every) if high else every)
        return
    ends = [_end(rest, f, high) for rest, f in (upper if high else lower)]
    for end in ends:
        if end is not None and all(e is not None and symbols.sure(e - end if high else end - e) for e in ends):
            yield end
            return


def _end(rest: Poly, factor: int, high: bool) -> Poly | None:
    """The whole number that a bound stops at."""
    if factor == 1:
        return rest if high else -rest
    if rest.constant is None:
        return None
    return Poly.const(rest.constant // factor if high else -(rest.constant // factor))
