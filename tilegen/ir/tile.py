"""The Tile program: which tiles move and what is computed, with no schedule in it.

`sema` makes it from the syntax tree, the oracle evaluates it as it stands, and the passes rewrite it.
Axis names stand for global logical positions. All names are resolved, parameters are bound to values,
and every expression carries its type.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

from tilegen.ir.dtypes import DType
from tilegen.ir.poly import Poly
from tilegen.ir.schedule import Directive, Schedule
from tilegen.ir.uniform import evaluate
from tilegen.records import dataclass
from tilegen.syntax.span import Source, Span

ParamValue = int | float | bool | DType
_T = TypeVar("_T", "Axis", "Tensor", "Move", "Definition")


# ---- indices -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Affine:
    """sum(coefficient * axis) + offset: one dimension of an index, or one side of a domain clause."""

    terms: tuple[tuple[str, int], ...]  # (axis, coefficient != 0), in order of appearance
    offset: Poly
    span: Span

    @property
    def axis(self) -> str | None:
        """The axis, if this is exactly one axis with coefficient 1 and no offset."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and not self.offset.terms:
            return self.terms[0][0]
        return None


@dataclass(frozen=True)
class Lookup:
    """`table[index, ...]`: a position read from an integer tensor."""

    table: str
    index: tuple[Affine, ...]
    span: Span


Index = Affine | Lookup


# ---- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    value: float
    dtype: DType
    span: Span


@dataclass(frozen=True)
class Symbol:
    """A run-time scalar or a size, by name: uniform over all axes."""

    name: str
    dtype: DType
    span: Span


@dataclass(frozen=True)
class Position:
    """The global logical position along an axis, as a number."""

    axis: str
    dtype: DType
    span: Span


@dataclass(frozen=True)
class Read:
    """The element of a tile, tensor or earlier definition at an index (one entry a bracket position)."""

    name: str
    index: tuple[Index, ...]
    dtype: DType
    span: Span


@dataclass(frozen=True)
class Apply:
    """A scalar operation on its arguments.

    op: add sub mul div (within 2 units) div_rn (a quotient rounded to nearest) neg (numbers) ·
    eq ne lt le gt ge (comparisons) · and or not (truth values) ·
    select(condition, then, else) · exp exp2 log log2 sqrt rsqrt tanh tanh_approx abs floor min max pow erf sigmoid
    """

    op: str
    args: tuple[Expr, ...]
    dtype: DType
    span: Span


@dataclass(frozen=True)
class Cast:
    """`T(x)`: rounded to `dtype`, to nearest, ties to even."""

    value: Expr
    dtype: DType
    span: Span


@dataclass(frozen=True)
class Fold:
    """A fold over the points of the domain along `axes`.

    kind: sum max min (args: the body) · expsum (args: exponent, factor) ·
    logsumexp (args: exponent; extra: further exponents added to the sum) ·
    softmax (as logsumexp, but keeps its axes: the weight of each point, e**x / sum).
    """

    kind: str
    axes: tuple[str, ...]
    args: tuple[Expr, ...]
    extra: tuple[Expr, ...]
    dtype: DType
    span: Span


Expr: TypeAlias = "Number | Symbol | Position | Read | Apply | Cast | Fold"


# ---- declarations --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """A run-time extent; `default` is what `tilegen run` uses when `--size` does not give it."""

    name: str
    default: int | None
    span: Span


@dataclass(frozen=True)
class Constraint:
    """A condition on a scalar, checked at launch: value `op` bound, op one of > >= < <= ==."""

    op: str
    bound: float
    span: Span

    def holds(self, value: float) -> bool:
        return _COMPARED[self.op](value, self.bound)


_COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq,
}  # fmt: skip


@dataclass(frozen=True)
class Scalar:
    """A run-time scalar argument; `default` is an expression over sizes, or None if it must be given."""

    name: str
    dtype: DType
    constraint: Constraint | None
    default: Expr | None
    span: Span


@dataclass(frozen=True)
class Tensor:
    """An input or output in device memory. `dims` are its extents, outermost first.

    `otherwise` is the constant written at output points outside the domain, None if there are none.
    """

    name: str
    dtype: DType
    dims: tuple[Poly, ...]
    output: bool
    otherwise: float | None
    span: Span


@dataclass(frozen=True)
class Split:
    """axis = inner_extent * outer + inner."""

    outer: str
    inner: str
    span: Span


@dataclass(frozen=True)
class Axis:
    """A named range of global positions [0, extent). `split` names the two axes it is made of, if any."""

    name: str
    extent: Poly
    split: Split | None
    span: Span


@dataclass(frozen=True)
class Ragged:
    """`ragged S over B by cu`: the size is a function of the batch position; cu holds B + 1 starts."""

    size: str
    over: str
    by: str
    span: Span


@dataclass(frozen=True)
class Guard:
    """A run-time condition on uniform values: `left op right`, op one of > >= < <= == !=."""

    left: Poly
    op: str
    right: Poly
    span: Span


@dataclass(frozen=True)
class Clause:
    """One clause of the domain: any of `alternatives` holds, each a conjunction.

    An Affine in a conjunction means value >= 0; any other expression is a truth value that only masks.
    `guard` switches the clause off where it is false.
    """

    axes: tuple[str, ...]
    alternatives: tuple[tuple[Affine | Expr, ...], ...]
    guard: Guard | None
    span: Span


@dataclass(frozen=True)
class Move:
    """`tile q[i, d] = Q[b, i, h, d]`: a tile of a tensor. `index` are the axes in its brackets."""

    name: str
    index: tuple[str, ...]
    tensor: str
    at: tuple[Index, ...]
    axes: tuple[str, ...]  # every axis that `at` reaches (split axes resolved to the axis written)
    dtype: DType
    span: Span


@dataclass(frozen=True)
class Definition:
    """An equation. For an output, `index` are the axes of the tensor's dimensions and the value is
    rounded to the tensor's type when stored. `axes` adds those carried along unwritten."""

    name: str
    index: tuple[str, ...]
    value: Expr
    axes: tuple[str, ...]
    output: bool
    dtype: DType
    span: Span


@dataclass(frozen=True)
class TileProgram:
    """A kernel with its parameters bound. Definitions stand in an order in which each reads earlier ones."""

    name: str
    params: tuple[tuple[str, ParamValue], ...]
    sizes: tuple[Size, ...]
    scalars: tuple[Scalar, ...]
    tensors: tuple[Tensor, ...]
    axes: tuple[Axis, ...]
    ragged: tuple[Ragged, ...]
    domain: tuple[Clause, ...]
    moves: tuple[Move, ...]
    definitions: tuple[Definition, ...]
    schedules: tuple[Schedule, ...]  # those that a launch may take, in file order, all targets
    source: Source
    span: Span

    @property
    def title(self) -> str:
        """The name and the parameters' values in one line: `fa3_fwd T=bf16 D=128 causal=false`."""
        return " ".join((self.name, *(f"{name}={str(value).lower()}" for name, value in self.params)))

    def axis(self, name: str) -> Axis:
        return _named(self.axes, name)

    def tensor(self, name: str) -> Tensor:
        return _named(self.tensors, name)

    def move(self, name: str) -> Move:
        return _named(self.moves, name)

    def definition(self, name: str) -> Definition:
        return _named(self.definitions, name)

    def schedule(self, target: str) -> Schedule | None:
        """The first schedule for `target`, or None."""
        return next((s for s in self.schedules if s.target == target), None)

    def directives(self, target: str) -> tuple[Directive, ...]:
        """What its schedule for `target` says: nothing, without one."""
        chosen = self.schedule(target)
        return chosen.directives if chosen else ()

    def variants(self, target: str) -> tuple[TileProgram, ...]:
        """The program once for each of its schedules for `target`, with that one alone: a launch takes the first whose
        guard holds. Without any schedule it is the program itself."""
        return tuple(replace(self, schedules=(s,)) for s in self.schedules if s.target == target) or (self,)

    def variant(self, target: str, values: Mapping[str, int]) -> TileProgram:
        """The one that a launch of these sizes and integer scalars takes; without schedules, if none is for it."""
        for program in self.variants(target):
            chosen = program.schedule(target)
            if chosen is None or chosen.guard is None or evaluate(chosen.guard, values):
                return program
        return replace(self, schedules=())


def _named(items: tuple[_T, ...], name: str) -> _T:
    for item in items:
        if item.name == name:
            return item
    raise KeyError(name)
