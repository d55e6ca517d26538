"""Operations on the elements of fragments, and folds of them."""

from __future__ import annotations

from tilegen.ir.dtypes import DType
from tilegen.ir.plan.values import Bound, ElementExpr
from tilegen.records import dataclass
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class Init:
    """Every element of a fragment := value."""

    fragment: str
    value: float
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Map:
    """out := expression, element by element, over out's layout."""

    out: str
    value: ElementExpr
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class FmaOob:
    """out (acc) := a * b + c in a 16-bit type, rounded once, and +0 where a or b is the NaN that TMA fills with.

    Numbers that are no fragment of layout pair are the type's own already. At least one factor is such a fragment, and
    the addend is none: there the NaN counts as any other.
    """

    out: str
    a: ElementExpr
    b: ElementExpr
    c: ElementExpr
    dtype: DType
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Mask:
    """Elements for which some conjunction of `alternatives` holds keep their value; the others become `identity`.

    A condition is a bound, or an expression over the fragment's layout that is no number but true or false.
    """

    fragment: str
    alternatives: tuple[tuple[Bound | ElementExpr, ...], ...]
    identity: float
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class RowFold:
    """out (row) := fold of an acc fragment along its columns. kind: sum max min.

    scope "quad": over the whole row, in all four lanes; "thread": this thread's elements only (out is partial).
    """

    out: str
    source: str
    kind: str
    scope: str
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class QuadReduce:
    """Combine a partial row fragment over the four lanes of each row."""

    fragment: str
    kind: str
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class Relayout:
    """out (a, 16-bit) := source (acc, f32) rounded to out's type and packed: an accumulator becomes an A operand.

    A last half k step is filled up with zeros.
    """

    out: str
    source: str
    span: Span
    statement: str = ""


@dataclass(frozen=True)
class CopyOperand:
    """out (a) := source (a): what was packed while a product that reads `out` was in flight is its next operand."""

    out: str
    source: str
    span: Span
    statement: str = ""
