"""Tensor maps at random, each within every rule, and on its limits more often than chance has it."""

from __future__ import annotations

from random import Random

from tilegen.targets.hopper.tensor_map import ELEMENT_TYPES, MAX_BOX_BYTES, MAX_EXTENT, MAX_STRIDE, TensorMap

_FLOATS = ("f16", "bf16", "f32", "f64", "f32ftz", "tf32", "tf32ftz")


def random_map(rng: Random, address: int | None = None) -> TensorMap:
    """A map that passes `check`, at `address`, a multiple of 32, or anywhere."""
    while True:
        m = _map(rng, address)
        if m.box_bytes <= MAX_BOX_BYTES:
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
