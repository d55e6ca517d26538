"""Element types: width, numpy type and the spelling each side uses."""

from __future__ import annotations

import enum
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


class DType(enum.Enum):
    """An element type. The value is the name that `.tile` files use."""

    BF16 = "bf16"
    F16 = "f16"
    F32 = "f32"
    I32 = "i32"
    BOOL = "bool"

    @property
    def bits(self) -> int:
        return {"bf16": 16, "f16": 16, "f32": 32, "i32": 32, "bool": 8}[self.value]

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self in (DType.BF16, DType.F16, DType.F32)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type that stores it (bf16 through ml_dtypes)."""
        return _numpy()[self.value]

    @property
    def precision(self) -> int:
        """Significand bits, the hidden one counted. Raises KeyError for non-float types."""
        return {"bf16": 8, "f16": 11, "f32": 24}[self.value]

    @property
    def smallest_normal_exponent(self) -> int:
        """Exponent of the smallest normal number (2**this)."""
        return {"bf16": -126, "f16": -14, "f32": -126}[self.value]

    def __str__(self) -> str:
        return self.value


# as Python's array libraries call them
BY_WORD = {
    "bfloat16": DType.BF16,
    "float16": DType.F16,
    "float32": DType.F32,
    "int32": DType.I32,
    "bool": DType.BOOL,
}


@cache
def _numpy() -> dict[str, np.dtype[Any]]:
    # not at the top: a kernel that comes from the cache is often only written to a file
    import ml_dtypes
    import numpy as np

    return {
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "f16": np.dtype(np.float16),
        "f32": np.dtype(np.float32),
        "i32": np.dtype(np.int32),
        "bool": np.dtype(np.bool_),
    }
