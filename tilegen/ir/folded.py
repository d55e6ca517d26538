"""The Tile program after its passes: a list of folds, products and element-wise operations, the sugar gone.

Every value is named once. An expression here contains no `Fold`; it reads tiles, tensors and earlier values
by their own axes. Scaled sums are explicit: an `Exponent` is the running maximum of its source (in powers of
two), a `Weight` is 2**(argument - exponent), and a fold with an `exponent` is held relative to it, so
that its state is rescaled whenever the exponent moves. Fold states combine by the scaled-number rule of the
design: (m1, a1) + (m2, a2) = (M, a1 * 2**(m1 - M) + a2 * 2**(m2 - M)).
"""

from __future__ import annotations

from typing import TypeAlias

from tilegen.ir.dtypes import DType
from tilegen.ir.tile import Affine, Clause, Expr, TileProgram
from tilegen.records import dataclass
from tilegen.syntax.span import Span

FOLD_IDENTITY = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}  # by a fold's kind: of no points


@dataclass(frozen=True)
class Product:
    """name[axes] = sum over `over` of a * b on the tensor core, f32 accumulation. a and b name tiles or values."""

    name: str
    a: str
    b: str
    over: tuple[str, ...]
    axes: tuple[str, ...]
    dtype: DType  # of the factors
    exponent: str | None
    span: Span
    statement: str


@dataclass(frozen=True)
class Elementwise:
    """name[axes] = value, f32 unless the value is a cast."""

    name: str
    value: Expr
    axes: tuple[str, ...]
    dtype: DType
    span: Span
    statement: str


@dataclass(frozen=True)
class Tilt:
    """slope * position: what an exponent's argument has beside its source. `slope` names a value that does not vary
    along the folded axes; the position does, by one of them with a coefficient of 1."""

    slope: str
    position: Affine


@dataclass(frozen=True)
class Weight:
    """name[axes] = 2**(factor * source + tilts - exponent), 0 where the source is -inf."""

    name: str
    source: str
    factor: Expr | None
    exponent: str
    axes: tuple[str, ...]
    span: Span
    statement: str
    tilts: tuple[Tilt, ...] = ()


@dataclass(frozen=True)
class Reduce:
    """name[axes] = fold of a value along `over`; kind sum, max or min. `start`: a value that the fold begins with
    instead of its identity; with an `exponent`, relative to the one that begins too."""

    name: str
    source: str
    kind: str
    over: tuple[str, ...]
    axes: tuple[str, ...]
    exponent: str | None
    span: Span
    statement: str
    start: str | None = None


@dataclass(frozen=True)
class Exponent:
    """name[axes] = maximum of factor * source + tilts along `over` (factor > 0, or None for 1): the common exponent of
    a scaled sum. `start`: a value that counts as one more point of the fold, None for none."""

    name: str
    source: str
    factor: Expr | None
    over: tuple[str, ...]
    axes: tuple[str, ...]
    span: Span
    statement: str
    start: str | None = None
    tilts: tuple[Tilt, ...] = ()


@dataclass(frozen=True)
class Guarded:
    """Points of `source` outside the domain become `identity`, in place: what a fold reads there."""

    name: str
    source: str
    identity: float
    over: tuple[str, ...]  # the axes that are folded: their extents and the clauses that mention them count
    axes: tuple[str, ...]
    clauses: tuple[Clause, ...]
    span: Span
    statement: str


@dataclass(frozen=True)
class Rescale:
    """The state of a fold held relative to an exponent follows it: state *= 2**(old exponent - new)."""

    name: str
    source: str
    exponent: str
    axes: tuple[str, ...]
    span: Span
    statement: str


@dataclass(frozen=True)
class Output:
    """tensor[at] := source at every point of `axes` (one outside the domain gets the tensor's `otherwise`)."""

    name: str
    tensor: str
    source: str
    axes: tuple[str, ...]
    at: tuple[Affine, ...]  # one a dimension of the tensor; each axis with a factor of 1
    span: Span
    statement: str


FoldedOp: TypeAlias = "Product | Elementwise | Weight | Reduce | Exponent | Guarded | Rescale | Output"


@dataclass(frozen=True)
class FoldedProgram:
    """Operations in an order in which each reads earlier ones, over the declarations of `tile`."""

    tile: TileProgram
    ops: tuple[FoldedOp, ...]

    def op(self, name: str) -> FoldedOp:
        for item in self.ops:
            if item.name == name:
                return item
        raise KeyError(name)

    def has(self, name: str) -> bool:
        return any(item.name == name for item in self.ops)
