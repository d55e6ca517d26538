"""Operands that find faults: every special number, ties, neighbours, and random bit patterns."""

from __future__ import annotations

import numpy as np

_SPECIAL32 = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x3F800000, 0xBF800000,
    0x3F800001, 0x3F7FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001,
    0x4B000000, 0x4B000001, 0x4EFFFFFF, 0x4F000000, 0xCF000000, 0x4F800000, 0x5F000000, 0x477FE000, 0x477FF000,
    0x33000000, 0x33000001, 0x38800000, 0x387FC000, 0x3F000000, 0x3FC00000, 0x40200000, 0xC0200000, 0x0D800000,
]  # fmt: skip
_SPECIAL16 = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01]
_SPECIAL_BF16 = [0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x3F80, 0xBF80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0]


def floats(n: int, seed: int) -> np.ndarray:
    """n float32: special ones, random patterns, and numbers close enough in size to cancel or to tie."""
    rng = np.random.default_rng(seed)
    special = np.array(_SPECIAL32, np.uint32)
    kinds = rng.integers(0, 4, n)
    random = rng.integers(0, 1 << 32, n, dtype=np.uint32)
    # Few significand bits, exponents near 1: products and sums tie often.
    short = (rng.integers(0, 1 << 6, n, dtype=np.uint32) << 17) | (rng.integers(115, 140, n, dtype=np.uint32) << 23)
    small = (random & 0x81FFFFFF) % np.uint32(0x8A000000)
    out = np.select(
        [kinds == 0, kinds == 1, kinds == 2], [random, short, small], special[rng.integers(0, len(special), n)]
    )
    return out.astype(np.uint32).view(np.float32)


def pairs(count: int, arity: int, seed: int) -> list[np.ndarray]:
    """`arity` vectors of float32; the special numbers meet each other in all combinations of the first two."""
    special = np.array(_SPECIAL32, np.uint32).view(np.float32)
    out = [floats(count, seed + i) for i in range(arity)]
    if arity >= 2:
        a, b = (x.ravel() for x in np.meshgrid(special, special))
        m = min(len(a), count)
        out[0][:m], out[1][:m] = a[:m], b[:m]
    else:
        out[0][: len(special)] = special
    return out


def halves(n: int, kind: str, seed: int) -> np.ndarray:
    """n patterns of f16 or bf16."""
    rng = np.random.default_rng(seed)
    special = np.array(_SPECIAL16 if kind == "f16" else _SPECIAL_BF16, np.uint16)
    random = rng.integers(0, 1 << 16, n, dtype=np.uint16)
    close = rng.integers(0x3800, 0x4400, n, dtype=np.uint16) ^ (rng.integers(0, 2, n, dtype=np.uint16) << 15)
    kinds = rng.integers(0, 3, n)
    return np.select([kinds == 0, kinds == 1], [random, close], special[rng.integers(0, len(special), n)]).astype(
        np.uint16
    )


def integers(n: int, bits: int, seed: int) -> np.ndarray:
    """n unsigned integers: extremes, small ones, random ones."""
    rng = np.random.default_rng(seed)
    top = 1 << bits
    special = np.array(
        [0, 1, 2, 31, 32, 33, 63, 64, top // 2 - 1, top // 2, top // 2 + 1, top - 1, top - 2, 255, 0x5555]
    )
    special = np.array([int(x) % top for x in special.tolist()], f"u{bits // 8}")
    random = rng.integers(0, top, n, dtype=f"u{bits // 8}")
    out = np.where(rng.integers(0, 2, n) == 0, random, special[rng.integers(0, len(special), n)])
    return out.astype(f"u{bits // 8}")
