"""The syntax tree of a `.tile` file: what was written, names unresolved. Every node carries its span."""

from __future__ import annotations

from typing import TypeAlias

from tilegen.records import dataclass
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class Ident:
    """A name where it is written, outside expressions."""

    name: str
    span: Span


# ---- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Num:
    value: int | float
    span: Span


@dataclass(frozen=True)
class Var:
    """A bare name: a parameter, size, scalar, axis or constant."""

    name: str
    span: Span


@dataclass(frozen=True)
class Unary:
    """op: - not."""

    op: str
    operand: Expr
    span: Span


@dataclass(frozen=True)
class Binary:
    """op: + - * / and or."""

    op: str
    left: Expr
    right: Expr
    span: Span


@dataclass(frozen=True)
class Compare:
    """`a < b <= c`: each neighbouring pair compared, all of it true. ops: < <= > >= == !=."""

    operands: tuple[Expr, ...]
    ops: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class Indexed:
    """`name[index, ...]`."""

    name: Ident
    index: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True)
class Call:
    """`name(args)`: a built-in or a cast."""

    name: Ident
    args: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True)
class FoldCall:
    """`name[axes](args; extra)`."""

    name: Ident
    axes: tuple[Expr, ...]
    args: tuple[Expr, ...]
    extra: tuple[Expr, ...]
    span: Span


Expr: TypeAlias = "Num | Var | Unary | Binary | Compare | Indexed | Call | FoldCall"


# ---- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """Values of a parameter: `first .. last by step`, both ends among them; a step of 1 need not be written."""

    first: Expr
    last: Expr
    step: int
    span: Span


@dataclass(frozen=True)
class Param:
    """`D: 64 | 128 = 128`. Each choice is a name (a type, `true`, `false`, or one of bool, int, float) or a number."""

    name: Ident
    choices: tuple[Expr | Range, ...]
    default: Expr | None
    span: Span


@dataclass(frozen=True)
class SizeDecl:
    name: Ident
    default: int | None
    span: Span


@dataclass(frozen=True)
class TensorDecl:
    """`input Q: T[dims]` or `output O: T[dims] else value`."""

    name: Ident
    dtype: Ident
    dims: tuple[Expr, ...]
    output: bool
    otherwise: Expr | None
    span: Span


@dataclass(frozen=True)
class ScalarDecl:
    """`scalar x: f32 op bound = default`; `op` and `bound` go together."""

    name: Ident
    dtype: Ident
    op: str | None
    bound: Expr | None
    default: Expr | None
    span: Span


@dataclass(frozen=True)
class AxisDecl:
    name: Ident
    extent: Expr
    span: Span


@dataclass(frozen=True)
class SplitDecl:
    """`split axis into outer, inner by extent` (the inner one's)."""

    axis: Ident
    outer: Ident
    inner: Ident
    extent: Expr
    span: Span


@dataclass(frozen=True)
class DomainDecl:
    axes: tuple[Ident, ...]
    condition: Expr
    guard: Expr | None
    span: Span


@dataclass(frozen=True)
class RaggedDecl:
    size: Ident
    over: Ident
    by: Ident
    span: Span


@dataclass(frozen=True)
class TileDecl:
    name: Ident
    index: tuple[Ident, ...]
    tensor: Ident
    at: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True)
class Equation:
    name: Ident
    index: tuple[Ident, ...]
    value: Expr
    span: Span


@dataclass(frozen=True)
class Directive:
    """One directive: its keyword, its words and numbers in the order written (lists with several items that
    each stand alone, such as `block i 192, j 80`, are split into one directive an item), and the directives
    in its braces, if it has any."""

    keyword: str
    args: tuple[Ident | Num, ...]
    body: tuple[Directive, ...]
    span: Span


@dataclass(frozen=True)
class ScheduleDecl:
    target: Ident
    condition: Expr | None
    directives: tuple[Directive, ...]
    span: Span


Statement: TypeAlias = (
    "SizeDecl | TensorDecl | ScalarDecl | AxisDecl | SplitDecl | DomainDecl | RaggedDecl | TileDecl | Equation"
    " | ScheduleDecl"
)


@dataclass(frozen=True)
class Kernel:
    name: Ident
    params: tuple[Param, ...]
    statements: tuple[Statement, ...]
    span: Span
