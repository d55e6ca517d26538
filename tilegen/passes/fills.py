"""What a tile holds outside its tensor where that is the NaN which `fma.rn.oob` makes zeros of (`oob x nan`).

A written rounding `T(a * b + c)` of numbers of T is then one instruction: rounded once, and +0 where a or b is outside
the tensor (not c, which would make NaN). What is made of it may be 0 wherever the domain ends, without a select: a fold
or a store that wants 0 there needs none. Every read of such a tile must be one of these factors, since any other
arithmetic would meet a NaN.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import DType
from tilegen.ir.folded import Elementwise, Guarded, Output, Product
from tilegen.ir.poly import Poly
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.tile import Affine, Apply, Cast, Clause, Expr, Move, Number, Read, TileProgram
from tilegen.ir.walk import parts, subexpressions
from tilegen.passes.expressions import apply, number, reads
from tilegen.passes.guard import with_parts
from tilegen.passes.schedule import source_names

HALVES = (DType.F16, DType.BF16)  # the types that `fma.rn.oob` has


@dataclass(frozen=True)
class Fused:
    """A written rounding as one multiply-add: T(a * b + c), its sign changed behind that if `negated`."""

    a: Expr
    b: Expr
    c: Expr
    negated: bool


def filled(s: Scheduled) -> frozenset[str]:
    """Tiles that hold NaN outside their tensor."""
    return frozenset(t.tile for t in s.tiles if t.fill == "nan")


def fused(cast: Cast, tiles: frozenset[str]) -> Fused | None:
    """The multiply-add that a rounding is; None for one that has no factor read of the tiles, or is none."""

    def outside(e: Expr) -> bool:
        return isinstance(e, Read) and e.name in tiles

    terms = list(_terms(cast.value, 1))
    if len(terms) > 2:
        return None
    by_itself = next((n for n, (_, e) in enumerate(terms) if outside(e)), 0)
    sign, product = terms.pop(next((n for n, (_, e) in enumerate(terms) if _is_product(e)), by_itself))
    factors = (
        product.args if isinstance(product, Apply) and _is_product(product) else (product, number(1.0, product.span))
    )
    (one, a), (other, b) = map(_unsigned, factors)
    sign *= one * other
    # without an addend: a zero that changes no product, not even the sign of one
    beside, c = terms[0] if terms else (1, number(-0.0, cast.span))
    negated = sign < 0 and outside(a) and outside(b)
    if negated:
        sign, beside = -sign, -beside
    if sign < 0:
        a, b = (a, _negated(b)) if outside(a) or isinstance(b, Number) else (_negated(a), b)
    if beside < 0:
        c = _negated(c)
    fits = all(_is(e, cast.dtype) for e in (a, b, c)) and not outside(_unsigned(c)[1])
    return Fused(a, b, c, negated) if fits and (outside(a) or outside(b)) else None


def factors_of(e: Expr, tiles: frozenset[str]) -> frozenset[str]:
    """What the multiply-adds read that roundings in an expression become: the filled tiles among it, and others."""
    made = (fused(x, tiles) for x in subexpressions(e) if isinstance(x, Cast))
    return frozenset(r.name for f in made if f is not None for part in (f.a, f.b, f.c) for r in reads(part))


def _is_product(e: Expr) -> bool:
    return isinstance(e, Apply) and e.op == "mul"


def _terms(e: Expr, sign: int) -> Iterator[tuple[int, Expr]]:
    """What is added up, with the sign of each."""
    if isinstance(e, Apply) and e.op in ("add", "sub"):
        yield from _terms(e.args[0], sign)
        yield from _terms(e.args[1], sign if e.op == "add" else -sign)
    elif isinstance(e, Apply) and e.op == "neg":
        yield from _terms(e.args[0], -sign)
    else:
        yield sign, e


def _unsigned(e: Expr) -> tuple[int, Expr]:
    """A factor without its sign, and that."""
    if isinstance(e, Apply) and e.op == "neg":
        sign, inner = _unsigned(e.args[0])
        return -sign, inner
    return 1, e


def _negated(e: Expr) -> Expr:
    return number(-e.value, e.span) if isinstance(e, Number) else apply("neg", e)


def _is(e: Expr, dtype: DType) -> bool:
    """Whether an expression is a number of a 16-bit type, as it stands."""
    if isinstance(e, Number):
        return _representable(e.value, dtype)
    if isinstance(e, Apply) and e.op == "neg":
        return _is(e.args[0], dtype)
    return e.dtype is dtype and isinstance(e, Read | Cast)


def _representable(value: float, dtype: DType) -> bool:
    try:
        if dtype is DType.F16:
            return bool(struct.unpack("<e", struct.pack("<e", value))[0] == value)
        word = struct.pack("<f", value)
    except OverflowError:
        return False
    return bool(word[:2] == b"\0\0" and struct.unpack("<f", word)[0] == value)


# ---- where it is legal -------------------------------------------------------------------------------


def check_fills(s: Scheduled) -> None:
    """Raises TilegenError for a tile that is to be filled with NaN and is not for `fma.rn.oob` alone."""
    tiles = filled(s)
    for t in s.tiles:
        if t.fill != "nan":
            continue
        move = s.program.tile.move(t.tile)
        dtype = s.program.tile.tensor(move.tensor).dtype
        if dtype not in HALVES:
            fail(Code.OOB_TYPE, t.span, tile=t.tile, got=str(dtype), wanted="f16 or bf16")
        product = _product_of(t.tile, s)
        if product:
            fail(Code.OOB_PRODUCT, t.span, tile=t.tile, product=product)
        for o in s.program.ops:
            if t.tile not in source_names(o):
                continue
            assert isinstance(o, Elementwise), o
            bare = next((r for r in _bare(o.value, tiles) if r.name == t.tile), None)
            if bare is not None:
                fail(Code.OOB_READ, bare.span, tile=t.tile, type=str(dtype), directive=f"oob {t.tile} nan")


def _product_of(name: str, s: Scheduled) -> str:
    """The statement of a product that has a value, or what is made of it alone, for a factor; "" if there is none."""
    for o in s.program.ops:
        if isinstance(o, Product) and name in (o.a, o.b):
            return o.statement
        made = isinstance(o, Guarded) or (isinstance(o, Elementwise) and isinstance(o.value, Cast | Apply))
        if made and set(source_names(o)) == {name} and (found := _product_of(o.name, s)):
            return found
    return ""


def _bare(e: Expr, tiles: frozenset[str]) -> Iterator[Read]:
    """Reads of the tiles that are no factor of a multiply-add."""
    if isinstance(e, Read):
        if e.name in tiles:
            yield e
        return
    made = fused(e, tiles) if isinstance(e, Cast) else None
    for child in parts(e) if made is None else (made.a, made.b, made.c):
        if made is None or not isinstance(child, Read):
            yield from _bare(child, tiles)


# ---- what needs no select ----------------------------------------------------------------------------


def zero_outside(source: str, clauses: Iterable[Clause], bounded: Iterable[str], s: Scheduled) -> bool:
    """Whether a value is 0 by itself at each point that these clauses, or the extents of `bounded` axes, leave out."""
    vanishing = _vanishing(Read(source, (), DType.F32, s.span), s)
    if not vanishing:
        return False
    program = s.program.tile
    moves = [program.move(t) for t in sorted(vanishing)]
    conditions: list[Affine | Expr] = []
    for axis in map(program.axis, bounded):
        conditions.append(Affine(((axis.name, -1),), axis.extent - 1, axis.span))
    for clause in clauses:
        if len(clause.alternatives) != 1:
            return False
        conditions += clause.alternatives[0]
    return all(isinstance(c, Affine) and any(_follows(c, m, program) for m in moves) for c in conditions)


def selects(o: Guarded | Output, s: Scheduled) -> bool:
    """Whether points outside the domain have to be set to what a fold reads there, or to what an output is there."""
    if isinstance(o, Guarded):
        return o.identity != 0.0 or not zero_outside(o.source, o.clauses, o.over, s)
    clauses, otherwise = cutting(o, s.program.tile), s.program.tile.tensor(o.tensor).otherwise
    return bool(clauses and otherwise is not None) and bool(otherwise or not zero_outside(o.source, clauses, (), s))


def cutting(o: Output, program: TileProgram) -> tuple[Clause, ...]:
    """Clauses of the domain that leave out points of an output."""
    reach = with_parts(program, o.axes)
    return tuple(c for c in program.domain if set(c.axes) <= reach)


def fill_notes(s: Scheduled) -> tuple[str, ...]:
    """What tiles are filled with NaN for, in words."""
    out, useful = [], set[str]()
    for o in dict.fromkeys(s.op(x.op) for p in s.phases for x in p.steps):
        if isinstance(o, Guarded | Output) and not selects(o, s):
            tiles = _vanishing(Read(o.source, (), DType.F32, o.span), s)
            if tiles and (isinstance(o, Guarded) or cutting(o, s.program.tile)):
                useful |= tiles
                by = " and ".join(sorted(tiles))
                out.append(f"{o.statement}: 0 outside the domain by the NaN that fills {by}, without a select")
    return (*out, *(f"tile {t}: its NaN saves no select" for t in sorted(filled(s) - useful)))


def _follows(condition: Affine, move: Move, program: TileProgram) -> bool:
    """Whether a condition, at least 0, holds wherever a tile's entry lies inside its tensor."""
    for entry, dim in zip(move.at, program.tensor(move.tensor).dims, strict=True):
        if isinstance(entry, Affine):
            for sign, least in ((1, entry.offset), (-1, dim - 1 - entry.offset)):
                same = dict(condition.terms) == {axis: sign * c for axis, c in entry.terms}
                if same and _never_negative(condition.offset - least, program):
                    return True
    return False


def _never_negative(number: Poly, program: TileProgram) -> bool:
    """Whether a number is at least 0 whatever sizes are, and scalars within their constraints."""
    known = {x.name for x in program.sizes} | {
        x.name for x in program.scalars if x.constraint and x.constraint.op in (">", ">=") and x.constraint.bound >= 0
    }
    return all(factor >= 0 and known.issuperset(names) for names, factor in number.terms)


def _vanishing(e: Expr, s: Scheduled) -> frozenset[str]:
    """Tiles such that the value is 0 wherever one of them lies outside its tensor."""
    none: frozenset[str] = frozenset()
    if isinstance(e, Read):
        o = s.op(e.name) if s.program.has(e.name) else None
        if isinstance(o, Elementwise):
            return _vanishing(o.value, s)
        return _vanishing(Read(o.source, (), DType.F32, o.span), s) if isinstance(o, Guarded) else none
    if isinstance(e, Cast):
        tiles = filled(s)
        made = fused(e, tiles)
        if made is None:
            return _vanishing(e.value, s)
        return frozenset(x.name for x in (made.a, made.b) if isinstance(x, Read) and x.name in tiles)
    if not isinstance(e, Apply):
        return none
    if e.op in ("neg", "abs", "floor"):
        return _vanishing(e.args[0], s)
    if e.op == "mul" and any(isinstance(a, Number) and math.isfinite(a.value) for a in e.args):
        return frozenset().union(*(_vanishing(a, s) for a in e.args))
    values = e.args[1:] if e.op == "select" else e.args
    if e.op not in ("add", "sub", "mul", "min", "max", "select"):
        return none
    return frozenset.intersection(*(_vanishing(a, s) for a in values))
