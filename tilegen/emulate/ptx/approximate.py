"""The .approx functions: computed in float64 and rounded once.

The hardware's results differ from that by a few units in the last place (the PTX manual gives bounds, and no bits), so
code must not depend on more; docs/emulator.md states the bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.emulate.ptx.decode import Decoded, Modifiers, instruction, map1, simple
from tilegen.emulate.ptx.half import as_float, half_bits, on_halves
from tilegen.emulate.ptx.module import Instruction
from tilegen.emulate.ptx.rounding import canonical32, flush32
from tilegen.emulate.ptx.types import Array, PtxType

_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}
_TINY = np.float64(2.0**-126)


def approximation(name: str, ftz: bool, t: PtxType) -> Callable[[Array], Array]:
    """The function on vectors of `t` (f32 or f64)."""
    f = _FUNCTIONS[name]
    if t.bits == 64:
        # rcp.approx.ftz.f64 and rsqrt.approx.f64 keep the upper word alone, some 20 bits.
        return lambda x: (f(x).view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    if name == "ex2":
        return _exp2_ftz if ftz else lambda x: canonical32(np.exp2(x.astype(np.float64)).astype(np.float32))
    if not ftz:
        return lambda x: canonical32(f(x.astype(np.float64)).astype(np.float32))
    return lambda x: canonical32(flush32(f(flush32(x).astype(np.float64)).astype(np.float32)))


def _exp2_ftz(x: Array) -> Array:
    y = np.exp2(x.astype(np.float64))
    # Results are positive, so a product with 0 or 1 flushes them, and keeps NaN.
    return canonical32((y * (y >= _TINY)).astype(np.float32))


@instruction("ex2", "lg2", "sin", "cos", "tanh", "rsqrt")
def approximate(ins: Instruction) -> Decoded:
    """ex2, lg2, sin, cos, tanh, rsqrt; ex2 and tanh also on 16-bit types."""
    mods = Modifiers(ins)
    mods.need("approx")
    ftz = mods.flag("ftz")
    halves = ("f16", "f16x2", "bf16", "bf16x2") if ins.opcode in ("ex2", "tanh") else ()
    t = mods.type("f32", *(("f64",) if ins.opcode == "rsqrt" else ()), *halves)
    mods.done()
    mods.operands(2)
    if t.name not in halves:
        return simple(t, ins, lambda d, a: map1(approximation(ins.opcode, ftz, t), d, a))
    kind = t.name.removesuffix("x2")
    f = _FUNCTIONS[ins.opcode]
    return simple(
        t, ins, lambda d, a: map1(on_halves(lambda x: half_bits(f(as_float(x, kind).astype(np.float64)), kind)), d, a)
    )
