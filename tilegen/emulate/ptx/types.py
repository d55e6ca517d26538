"""PTX fundamental types, and how numpy holds them in registers and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class PtxType:
    """One PTX type. `dtype` is what numpy computes with; bf16 and packed types are held as raw unsigned integers."""

    name: str
    bits: int
    kind: str  # "u", "s", "f" (also bf16), "b", "pred", "x2" (packed pair)
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """Size in bytes; a predicate has none."""
        return self.bits // 8

    @property
    def integer(self) -> bool:
        """Whether integer instructions take it (bit types included)."""
        return self.kind in "usb"


def _types() -> dict[str, PtxType]:
    table: dict[str, PtxType] = {"pred": PtxType("pred", 1, "pred", np.dtype(np.bool_))}
    for bits in (8, 16, 32, 64):
        for kind, base in (("u", "u"), ("s", "i"), ("b", "u")):
            table[f"{kind}{bits}"] = PtxType(f"{kind}{bits}", bits, kind, np.dtype(f"{base}{bits // 8}"))
    for bits in (16, 32, 64):
        table[f"f{bits}"] = PtxType(f"f{bits}", bits, "f", np.dtype(f"f{bits // 8}"))
    table["bf16"] = PtxType("bf16", 16, "f", np.dtype(np.uint16))
    table["tf32"] = PtxType("tf32", 32, "f", np.dtype(np.uint32))
    for packed in ("f16x2", "bf16x2", "u16x2", "s16x2"):
        table[packed] = PtxType(packed, 32, "x2", np.dtype(np.uint32))
    for packed in ("e4m3x2", "e5m2x2"):
        table[packed] = PtxType(packed, 16, "x2", np.dtype(np.uint16))
    return table


TYPES = _types()
UNSIGNED: dict[int, np.dtype[Any]] = {8: np.dtype("u1"), 16: np.dtype("u2"), 32: np.dtype("u4"), 64: np.dtype("u8")}
