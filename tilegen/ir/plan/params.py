"""What a kernel is given: its parameters, and the tensor maps among them."""

from __future__ import annotations

from typing import TypeAlias

from tilegen.ir.uniform import Int, Op, Sym
from tilegen.records import dataclass
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class MapParam:
    """A tensor map by value (128 bytes)."""

    descriptor: str


@dataclass(frozen=True)
class SizeParam:
    """A size or an integer scalar, int32."""

    name: str


@dataclass(frozen=True)
class ScalarParam:
    """A float scalar, f32."""

    name: str


@dataclass(frozen=True)
class PointerParam:
    """Base address of a tensor."""

    tensor: str


@dataclass(frozen=True)
class StrideParam:
    """Stride of a tensor's dimension (0 is the outermost) in elements, int64."""

    tensor: str
    dim: int


@dataclass(frozen=True)
class TableParam:
    """Pointer to the table that deals out the work items (see ItemTable), int32."""


@dataclass(frozen=True)
class ScratchParam:
    """Pointer to the int32 words that dealing items out on the device takes (see Sequences)."""


@dataclass(frozen=True)
class FaultParam:
    """Pointer to the int32 words that say what is wrong with the starts of sequences (see Sequences)."""


@dataclass(frozen=True)
class CtasParam:
    """CTAs that items are dealt out to, int32."""


Param: TypeAlias = (
    "MapParam | SizeParam | ScalarParam | PointerParam | StrideParam"
    " | TableParam | ScratchParam | FaultParam | CtasParam"
)


@dataclass(frozen=True)
class MapDim:
    """One dimension of a tensor map, innermost first.

    Plain: the whole tensor dimension `dim`. `chunk` > 0: the inner dimension cut into chunks: `part` "inner" is
    the position inside a chunk (extent `chunk`), "outer" the chunk number (extent dims[dim] / chunk, stride
    chunk elements). `by`: the dimension of a split axis cut likewise at each multiple of a size known at launch, and
    `part` "inner" is clipped there.
    """

    dim: int
    box: int
    chunk: int = 0
    part: str = ""
    by: Int | Sym | Op | None = None


@dataclass(frozen=True)
class Descriptor:
    """A tensor map, built at launch from the real shape and strides."""

    name: str
    tensor: str
    dims: tuple[MapDim, ...]
    swizzle: int  # bytes: 0, 32, 64, 128
    fill: str  # "zero" | "nan"
    store: bool
    span: Span
