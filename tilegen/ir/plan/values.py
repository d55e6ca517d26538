"""Fragments, and expressions and conditions on their elements."""

from __future__ import annotations

from typing import TypeAlias

from tilegen.ir.dtypes import DType
from tilegen.ir.uniform import Uniform
from tilegen.records import dataclass
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class Fragment:
    """Registers of a warpgroup. `storage` names the fragment whose registers hold it (its own name: its own; empty:
    none, it exists inside a Sweep only)."""

    name: str
    layout: str  # acc | a | pair | row | col
    rows: int
    cols: int
    dtype: DType
    storage: str
    span: Span

    @property
    def registers(self) -> int:
        """32-bit registers a thread of a fragment of this layout."""
        if self.layout == "row":
            return 2
        if self.layout == "col":
            return self.cols // 4
        return self.cols // (4 if self.layout in ("a", "pair") else 2)


@dataclass(frozen=True)
class Element:
    """The element of a fragment at this position; row and col fragments are broadcast."""

    fragment: str


@dataclass(frozen=True)
class Literal:
    """A number, as f32."""

    value: float


@dataclass(frozen=True)
class Value:
    """A uniform float: a scalar parameter, or a name bound by LetFloat."""

    name: str


@dataclass(frozen=True)
class IntValue:
    """A uniform integer, converted to f32."""

    value: Uniform


@dataclass(frozen=True)
class Digit:
    """Where a row is along one of several axes that share the rows: its number in the warpgroup's 64 div `divide`, mod
    `modulo` if that is not 0."""

    divide: int
    modulo: int

    @property
    def positions(self) -> int:
        """Positions that a warpgroup's rows reach."""
        return self.modulo or 64 // self.divide


@dataclass(frozen=True)
class Coordinate:
    """Global position of this element along the fragment's "row" or "col" direction, as f32: origin + local index, of
    which a row may count by a digit."""

    along: str
    origin: Uniform
    digit: Digit | None = None


@dataclass(frozen=True)
class Place:
    """row_factor * row + col_factor * column + offset at this element, as f32; row and column local to the fragment.

    In a row fragment the column is the first that the lane holds. digits: as in Bound.
    """

    row_factor: int
    col_factor: int
    offset: Uniform
    digits: tuple[tuple[int, Digit], ...] = ()


@dataclass(frozen=True)
class Past:
    """How many columns this element stands past the first that its lane holds, as f32."""


@dataclass(frozen=True)
class Compute:
    """op: add sub mul neg fma(a, b, c) · div (within 2 units) · div_rn (rounded to nearest) ·
    ex2 lg2 rcp sqrt rsqrt tanh tanh_approx erf abs floor min max pow ·
    eq ne lt le gt ge and or not · select(c, a, b) · round(x) to `dtype` and back ·
    ratio(a, b): a / b, 0 where b is 0"""

    op: str
    args: tuple[ElementExpr, ...]
    dtype: DType | None = None


ElementExpr: TypeAlias = Element | Literal | Value | IntValue | Coordinate | Place | Past | Compute


@dataclass(frozen=True)
class Chunks:
    """Counts a direction of a fragment in chunks: (origin + local index) div length, length > 0. Of a row the index may
    be a digit."""

    origin: Uniform
    length: Uniform
    digit: Digit | None = None


@dataclass(frozen=True)
class Bound:
    """A condition on an element: row_factor * row + col_factor * col + offset >= 0; row, col local to the fragment,
    or numbers of chunks.

    digits: (factor, digit of the row), added where several axes share the rows.
    """

    row_factor: int
    col_factor: int
    offset: Uniform
    row_chunks: Chunks | None = None
    col_chunks: Chunks | None = None
    digits: tuple[tuple[int, Digit], ...] = ()

    @property
    def uniform(self) -> bool:
        """Whether it is the same for all elements."""
        return not (self.row_factor or self.col_factor or self.digits)
