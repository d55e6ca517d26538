"""Tensor maps at random, each within every rule and on its limits more often than chance has it, and maps just
outside of each rule."""

from __future__ import annotations

from random import Random
from typing import Any

from tilegen.targets.hopper.tensor_map import ELEMENT_TYPES, MAX_BOX_BYTES, MAX_EXTENT, MAX_STRIDE, TensorMap

GOOD = TensorMap("bf16", 0x7F00_1234_5670, (128, 1000, 8), (2048, 2048 * 1000), (64, 192, 1), swizzle=128)
INTERLEAVED: dict[str, Any] = {"interleave": 32, "swizzle": 32, "address": 0x7F0012345680}
# rule, fields just outside of it, fields just inside
BROKEN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("TMA_ADDRESS", {"address": 0x7F0012345674}, {"address": 0x7F0012345680}),
    ("TMA_ADDRESS", {"address": 0}, {"address": 16}),
    ("TMA_EXTENT", {"dims": (128, 0, 8)}, {"dims": (128, 1, 8)}),
    ("TMA_EXTENT", {"dims": (128, 2**31 + 1, 8)}, {"dims": (128, 2**31, 8)}),
    ("TMA_STRIDE_ALIGNMENT", {"strides": (1000, 16000)}, {"strides": (1008, 16000)}),
    ("TMA_STRIDE_RANGE", {"strides": (256, 2**40)}, {"strides": (256, 2**40 - 16)}),
    ("TMA_STRIDE_RANGE", {"strides": (-256, 2560)}, {"strides": (0, 2560)}),
    ("TMA_BOX", {"box": (64, 257, 1)}, {"box": (64, 256, 1)}),
    ("TMA_BOX", {"box": (64, 0, 1)}, {"box": (64, 1, 1)}),
    ("TMA_BOX_ROOM", {"box": (64, 227, 9)}, {"box": (64, 227, 8)}),
    ("TMA_INTERLEAVE", INTERLEAVED | {"swizzle": 64}, INTERLEAVED),
    ("TMA_ADDRESS", INTERLEAVED | {"address": 0x7F0012345670}, INTERLEAVED),
    ("TMA_STRIDE_ALIGNMENT", INTERLEAVED | {"strides": (2064, 2048000)}, INTERLEAVED),
    ("TMA_BOX_BYTES", {"box": (60, 192, 1)}, {"box": (56, 192, 1)}),
    ("TMA_ELEMENT_STRIDE", {"element_strides": (1, 9, 1)}, {"element_strides": (1, 8, 1)}),
    ("TMA_SWIZZLE", {"box": (72, 192, 1)}, {"box": (64, 192, 1)}),
    ("TMA_SWIZZLE", {"swizzle": 64}, {"swizzle": 64, "box": (32, 192, 1)}),
    ("TMA_FILL", {"dtype": "u16", "fill": "nan"}, {"fill": "nan"}),
]

_FLOATS = ("f16", "bf16", "f32", "f64", "f32ftz", "tf32", "tf32ftz")


def random_map(rng: Random, address: int | None = None) -> TensorMap:
    """A map that passes `check`, at `address`, a multiple of 32, or anywhere."""
    while True:
        m = _map(rng, address)
        if m.room <= MAX_BOX_BYTES:
            return m


def _map(rng: Random, address: int | None) -> TensorMap:
    dtype = rng.choice(sorted(ELEMENT_TYPES))
    rank = rng.randint(1, 5)
    size = ELEMENT_TYPES[dtype][1]
    interleave = rng.choice((0, 0, 16, 32)) if rank >= 3 else 0
    swizzle = 32 if interleave == 32 else rng.choice((0, 32, 64, 128))
    unit = 32 if interleave == 32 else 16
    widest = min(256 * size, 256 if interleave or not swizzle else swizzle)
    inner = rng.randint(1, 256) if interleave else 16 // size * _either(rng, 1, widest // 16)
    sides = [_either(rng, 1, 256) if rng.random() < 0.3 else rng.randint(1, 9) for _ in range(rank - 1)]
    return TensorMap(
        dtype,
        unit * rng.randint(1, 2**59 - 1) if address is None else address,
        tuple(_either(rng, 1, MAX_EXTENT) for _ in range(rank)),
        tuple(unit * _either(rng, 0, MAX_STRIDE // unit - 1) for _ in range(rank - 1)),
        (inner, *sides),
        tuple(rng.randint(1, 8) if rng.random() < 0.5 else 1 for _ in range(rank)),
        swizzle,
        rng.choice(("zero", "nan")) if dtype in _FLOATS else "zero",
        rng.choice((0, 64, 128, 256)),
        interleave,
    )


def _either(rng: Random, least: int, most: int) -> int:
    """A number between the two, often one of them."""
    return rng.choice((least, most, rng.randint(least, most)))
