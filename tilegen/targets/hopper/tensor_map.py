"""A TMA tensor map (tile mode): its fields, the 128 bytes they make, and every rule the driver would check.

On the GPU the driver encodes the map; these bytes feed the PTX emulator and the geometry tool. Dimension 0
is the innermost, as in the hardware; its stride is the element size and is not stored.

The first 64 bytes are those of an H200's driver (tests/gpu/test_emulator_agrees.py). Of the others the driver
sets two words that are 0 here and hold nothing new: at 0x40 the box in bytes (80 elements by 3 counted as 26, where a
load signals 27), at 0x48 the bytes after which a swizzle's pattern repeats, 8 times its span, or 16 without one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic
from tilegen.syntax.span import Span

_TF32 = 1 << 9  # bit 16 of the control word, seen from the type's bits
# name -> (code in the map, bytes an element); the packed types are sm_100's
ELEMENT_TYPES: dict[str, tuple[int, int]] = {
    "u8": (0, 1),
    "u16": (1, 2),
    "u32": (2, 4),
    "i32": (3, 4),
    "u64": (4, 8),
    "i64": (5, 8),
    "f16": (6, 2),
    "f32": (7, 4),
    "f64": (9, 8),
    "bf16": (10, 2),
    "f32ftz": (8, 4),
    "tf32": (7 | _TF32, 4),
    "tf32ftz": (8 | _TF32, 4),
}
_NAMES = {code: name for name, (code, _) in ELEMENT_TYPES.items()}
_SWIZZLES = (0, 32, 64, 128)  # bytes spanned; the position is the code in the map
_PROMOTIONS = (0, 64, 128, 256)  # bytes; likewise
_INTERLEAVES = (0, 16, 32)  # bytes; likewise
_FLOATS = frozenset({"f16", "f32", "f64", "bf16", "f32ftz", "tf32", "tf32ftz"})

MAX_RANK = 5
MAX_BOX = 256
MAX_EXTENT = 2**31  # the header of CUDA 13.5; that of 13.0 allows 2**32
MAX_STRIDE = 2**40
MAX_BOX_BYTES = 232448  # shared memory of a CTA on sm_90
SIZE = 128  # bytes of an encoded map


@dataclass(frozen=True)
class TensorMap:
    """dims and box in elements, strides in bytes for dims 1 and up, all innermost first.

    swizzle, promotion and interleave are spans in bytes (0 is none); fill is what elements outside `dims` read as.
    Raises ValueError where a field is none of the values the hardware knows (never caused by a user's array).
    """

    dtype: str
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: int = 0
    fill: str = "zero"
    promotion: int = 0
    interleave: int = 0

    def __post_init__(self) -> None:
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * len(self.box))
        if self.dtype not in ELEMENT_TYPES or self.swizzle not in _SWIZZLES or self.promotion not in _PROMOTIONS:
            raise ValueError(f"no such element type, swizzle or promotion: {self}")
        if self.interleave not in _INTERLEAVES:
            raise ValueError(f"no such interleave: {self}")
        if self.fill not in ("zero", "nan"):
            raise ValueError(f"fill is zero or nan, not {self.fill}")
        rank = len(self.dims)
        if (len(self.strides), len(self.box), len(self.element_strides)) != (max(rank - 1, 0), rank, rank):
            raise ValueError(f"fields of different ranks: {self}")

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def element_bytes(self) -> int:
        return ELEMENT_TYPES[self.dtype][1]

    @property
    def steps(self) -> tuple[int, ...]:
        """Elements from one that a load takes to the next; along the innermost dimension only interleaving steps."""
        return self.element_strides if self.interleave else (1, *self.element_strides[1:])

    @property
    def box_shape(self) -> tuple[int, ...]:
        """Elements written to shared memory along each dimension: every one that a step leads to."""
        return tuple(-(-b // s) for b, s in zip(self.box, self.steps, strict=True))

    @property
    def box_bytes(self) -> int:
        """Bytes that one load writes and signals, whatever part of the box lies outside."""
        return prod(self.box_shape) * self.element_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of shared memory from a row of the box to the next: a whole swizzle, also where the box is narrower
        (found on an H200; no manual says so)."""
        narrow = self.box_shape[0] * self.element_bytes
        return max(narrow, self.swizzle) if not self.interleave else narrow

    @property
    def room(self) -> int:
        """Bytes of shared memory from a box's start to the end of its last row's."""
        return prod(self.box_shape[1:]) * self.row_bytes

    def to_bits(self) -> bytes:
        """The 128 bytes of the map, the upper 64 all 0. The fields must pass `check`, else ValueError."""
        faults = self.check("tensor")
        if faults:
            raise ValueError("; ".join(f.message for f in faults))
        control = (
            (self.rank - 1) << 4
            | ELEMENT_TYPES[self.dtype][0] << 7
            | _INTERLEAVES.index(self.interleave) << 11
            | _SWIZZLES.index(self.swizzle) << 13
            | (self.fill == "nan") << 15
            | _PROMOTIONS.index(self.promotion) << 17
        )
        units = [s >> 4 for s in self.strides] + [0] * (4 - len(self.strides))
        high = sum((u >> 32) << 4 * i for i, u in enumerate(units))
        extents = [d - 1 for d in self.dims] + [0] * (MAX_RANK - self.rank)
        steps = sum((s - 1) << 3 * i for i, s in enumerate(self.element_strides)) | (self.box[0] - 1) << 24
        boxes = sum((b - 1) << 8 * i for i, b in enumerate(self.box[1:]))
        low = [u & 0xFFFFFFFF for u in units]
        return struct.pack("<QI4I I5I II", self.address, control, *low, high, *extents, steps, boxes).ljust(SIZE, b"\0")

    @staticmethod
    def from_bits(bits: bytes) -> TensorMap:
        """The fields that the first 60 bytes hold. Raises ValueError for what tile mode on sm_90 has not."""
        if len(bits) < SIZE:
            raise ValueError(f"a tensor map has {SIZE} bytes, not {len(bits)}")
        address, control, *rest = struct.unpack_from("<QI4I I5I II", bits)
        low, high, extents, steps, boxes = rest[:4], rest[4], rest[5:10], rest[10], rest[11]
        rank, code, interleave = (control >> 4 & 7) + 1, control >> 7 & (15 | _TF32), control >> 11 & 3
        if rank > MAX_RANK or code not in _NAMES or interleave >= len(_INTERLEAVES):
            raise ValueError(f"not a tile-mode tensor map: rank {rank}, type {code}, interleave {interleave}")
        return TensorMap(
            dtype=_NAMES[code],
            address=address,
            dims=tuple(e + 1 for e in extents[:rank]),
            strides=tuple((low[i] | (high >> 4 * i & 15) << 32) << 4 for i in range(rank - 1)),
            box=((steps >> 24) + 1, *((boxes >> 8 * i & 255) + 1 for i in range(rank - 1))),
            element_strides=tuple((steps >> 3 * i & 7) + 1 for i in range(rank)),
            swizzle=_SWIZZLES[control >> 13 & 3],
            fill="nan" if control >> 15 & 1 else "zero",
            promotion=_PROMOTIONS[control >> 17 & 3],
            interleave=_INTERLEAVES[interleave],
        )

    def check(self, tensor: str, axes: tuple[str, ...] = (), span: Span | None = None) -> list[Diagnostic]:
        """Every rule of cuTensorMapEncodeTiled that these fields break, named after `tensor` and its `axes`.

        `axes` names the dimensions, innermost first; "dimension 0" and so on where it is empty.
        """
        return list(self._faults(tensor, axes or tuple(f"dimension {i}" for i in range(self.rank)), span))

    def _faults(self, tensor: str, axes: tuple[str, ...], span: Span | None) -> Iterator[Diagnostic]:
        if not 1 <= self.rank <= MAX_RANK:
            yield fault(Code.TMA_RANK, span, got=str(self.rank), wanted=f"1 to {MAX_RANK}", tensor=tensor)
            return
        unit = 32 if self.interleave == 32 else 16  # bytes
        if self.address % unit or not 0 < self.address < 2**64:
            got, wanted, past = f"0x{self.address:x}", f"a multiple of {unit}, not null", self.address % unit
            yield fault(Code.TMA_ADDRESS, span, got=got, wanted=wanted, tensor=tensor, past=past, unit=unit)
        for axis, extent in zip(axes, self.dims, strict=True):
            if not 1 <= extent <= MAX_EXTENT:
                wanted = f"1 to {MAX_EXTENT}"
                yield fault(Code.TMA_EXTENT, span, got=str(extent), wanted=wanted, tensor=tensor, axis=axis)
        for axis, stride in zip(axes[1:], self.strides, strict=True):
            if stride % unit:
                got, wanted = f"{stride} bytes", f"a multiple of {unit} bytes"
                yield fault(
                    Code.TMA_STRIDE_ALIGNMENT, span, got=got, wanted=wanted, tensor=tensor, axis=axis, unit=unit
                )
            if not 0 <= stride < MAX_STRIDE:
                got, wanted = f"{stride} bytes", f"0 to {MAX_STRIDE - 1} bytes"
                yield fault(Code.TMA_STRIDE_RANGE, span, got=got, wanted=wanted, tensor=tensor, axis=axis)
        for axis, side, step in zip(axes, self.box, self.element_strides, strict=True):
            if not 1 <= side <= MAX_BOX:
                yield fault(Code.TMA_BOX, span, got=str(side), wanted=f"1 to {MAX_BOX}", tensor=tensor, axis=axis)
            if not 1 <= step <= 8:
                yield fault(Code.TMA_ELEMENT_STRIDE, span, got=str(step), wanted="1 to 8", tensor=tensor, axis=axis)
        if self.room > MAX_BOX_BYTES:
            got, wanted = f"{self.room} bytes", f"at most {MAX_BOX_BYTES} bytes"
            yield fault(Code.TMA_BOX_ROOM, span, got=got, wanted=wanted, tensor=tensor)
        yield from self._inner_faults(tensor, axes, span)

    def _inner_faults(self, tensor: str, axes: tuple[str, ...], span: Span | None) -> Iterator[Diagnostic]:
        """Of the innermost dimension of a box, and of what it is filled with."""
        inner = self.box[0] * self.element_bytes
        if self.interleave and self.rank < 3:
            got, wanted = f"{self.rank} dimensions", "3 to 5"
            yield fault(Code.TMA_INTERLEAVE, span, got=got, wanted=wanted, tensor=tensor, bytes=self.interleave)
        if self.interleave == 32 and self.swizzle != 32:
            got, wanted = f"a swizzle of {self.swizzle} bytes", "32 bytes"
            yield fault(Code.TMA_INTERLEAVE, span, got=got, wanted=wanted, tensor=tensor, bytes=self.interleave)
        if inner % 16 and not self.interleave:
            got, wanted = f"{inner} bytes", "a multiple of 16 bytes"
            yield fault(Code.TMA_BOX_BYTES, span, got=got, wanted=wanted, tensor=tensor, axis=axes[0])
        if self.swizzle and inner > self.swizzle and not self.interleave:
            got, wanted = f"{inner} bytes", f"at most {self.swizzle} bytes"
            yield fault(Code.TMA_SWIZZLE, span, got=got, wanted=wanted, tensor=tensor, axis=axes[0])
        if self.fill == "nan" and self.dtype not in _FLOATS:
            yield fault(Code.TMA_FILL, span, got=self.dtype, wanted="a floating type", tensor=tensor)
