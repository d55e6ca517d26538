"""atom and red, thread by thread in order of thread index."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.addressing import address_reader
from tilegen.emulate.ptx.decode import Decoded, Mask, Modifiers, Step, instruction
from tilegen.emulate.ptx.half import arithmetic_bits, extremum_bits, on_halves
from tilegen.emulate.ptx.loadstore import access_modifiers, active_addresses, space_of
from tilegen.emulate.ptx.module import Instruction, Operand, Sink, Vector
from tilegen.emulate.ptx.types import TYPES, Array, PtxType

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

Combine = Callable[[Array, Array], Array]
_BITWISE: dict[str, Combine] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def combine_function(name: str, t: PtxType) -> Combine | None:
    """new = f(old, operand) on one-element vectors of t's dtype; None for an unknown pair."""
    kind = t.name.removesuffix("x2")
    if kind in ("f16", "bf16"):
        if name == "add":
            return on_halves(arithmetic_bits("add", kind, False, False, False))
        if name in ("min", "max"):
            return on_halves(extremum_bits(name == "max", False, False, False, kind))
        return None
    if name in _BITWISE:
        return _BITWISE[name]
    if name == "add":
        return np.add
    if name in ("min", "max") and t.integer:
        return np.minimum if name == "min" else np.maximum
    if name == "exch":
        return lambda old, new: new
    if name == "inc":
        return lambda old, top: np.where(old >= top, t.dtype.type(0), old + t.dtype.type(1))
    if name == "dec":
        return lambda old, top: np.where((old == 0) | (old > top), top, old - t.dtype.type(1))
    return None


@instruction("atom", "red")
def atomic(ins: Instruction) -> Decoded:
    """atom (gives the old value) and red (does not)."""
    mods = Modifiers(ins)
    if mods.flag("async"):
        mods.unknown("asynchronous reductions are not supported")
    name = mods.need("and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max")
    access_modifiers(mods)
    space = space_of(mods)
    mods.flag("noftz")
    count = int(mods.one("v2", "v4", "v8", default="v1")[1:])
    t = mods.type()
    mods.done()
    operands = list(ins.operands)
    result: Operand = operands.pop(0) if ins.opcode == "atom" else Sink()
    place, *values = operands
    combine = combine_function(name, t) if name != "cas" else None
    if combine is None and name != "cas":
        mods.unknown(f".{name} has no .{t.name}")
    results = result.items if isinstance(result, Vector) else (result,) * count
    vectors = [v.items if isinstance(v, Vector) else (v,) for v in values[: 2 if name == "cas" else 1]]

    def bind(machine: Machine) -> Step:
        reader = address_reader(machine, place)
        rows = [[machine.src(item, t) for item in vector] for vector in vectors]
        ds = [None if isinstance(r, Sink) else machine.dst(r, t) for r in results]
        all_threads = np.arange(machine.threads)
        dtype = TYPES[f"b{t.bits}"].dtype
        watch, pc = machine.watch if space in ("shared", "generic") else None, machine.program.binding_at

        def step(s: slice, m: Mask) -> None:
            address, threads = active_addresses(reader, s, m, all_threads)
            machine.cta.events += 1
            if watch is not None:
                watch.atomic(threads, address, pc)
            for chosen, view, index in machine.spaces.pieces(space, address, t.bytes, count, threads):
                machine.spaces.writable(view, int(address[0]), int(threads[0]))
                for at, thread in zip(index, threads[chosen], strict=True):
                    for k in range(count):
                        cell = view[at + k : at + k + 1].view(t.dtype)
                        old = cell.copy()
                        operand = rows[0][k][thread : thread + 1]
                        if combine is not None:
                            cell[:] = combine(old, operand)
                        elif old.view(dtype)[0] == operand.view(dtype)[0]:
                            cell[:] = rows[1][k][thread : thread + 1]
                        d = ds[k]
                        if d is not None:
                            d[thread : thread + 1] = old

        return step

    return Decoded(bind)
