"""wgmma: warpgroup matrix products."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from tilegen.emulate.memory import MemoryFaultError
from tilegen.emulate.ptx.decode import Control, Decoded, Modifiers, instruction
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.half import as_float
from tilegen.emulate.ptx.module import Immediate, Instruction, Operand, Register, Vector
from tilegen.emulate.ptx.types import TYPES, Array
from tilegen.emulate.ptx.unit import WARP, WARPGROUP, Group, Unit
from tilegen.emulate.ptx.wgmma_layout import (
    accumulator_to_matrix,
    chunk_indices,
    element_indices,
    matrix_to_accumulator,
    operand_to_matrix,
)

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine


@dataclass(frozen=True)
class Element:
    """An operand element type: bytes, products' depth K of one instruction, raw unsigned integers to float32."""

    size: int
    decode: Callable[[Array], Array]

    @property
    def depth(self) -> int:
        """K: 32 bytes of it."""
        return 32 // self.size


@dataclass
class Flying:
    """An accumulator whose registers are poison: what it will hold, and products that are still to be added."""

    words: Array
    products: int = 0


_POISON = np.uint32(0xFFFFFFFF)
_ELEMENTS = {
    "f16": Element(2, lambda x: as_float(x, "f16")),
    "bf16": Element(2, lambda x: as_float(x, "bf16")),
    "tf32": Element(4, lambda x: (x & np.uint32(0xFFFFE000)).view(np.float32)),
    "e4m3": Element(1, lambda x: x.view(ml_dtypes.float8_e4m3fn).astype(np.float32)),
    "e5m2": Element(1, lambda x: x.view(ml_dtypes.float8_e5m2).astype(np.float32)),
    "s8": Element(1, lambda x: x.view(np.int8).astype(np.float64)),
    "u8": Element(1, lambda x: x.astype(np.float64)),
}
_RAW: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32)}
_SHAPE = re.compile(r"m64n(\d+)k(\d+)$")


@instruction("wgmma")
def wgmma(ins: Instruction) -> Decoded:
    """wgmma.fence, commit_group, wait_group, mma_async."""
    mods = Modifiers(ins)
    action = mods.need("fence", "commit_group", "wait_group", "mma_async")
    mods.need("sync")
    mods.need("aligned")
    if action == "wait_group":
        mods.done()
        return _ordering(ins, action, _constant(mods.operands(1)[0], mods))
    if action != "mma_async":
        mods.done()
        return _ordering(ins, action, 0)
    shape = _SHAPE.match(mods.left[0]) if mods.left else None
    if shape is None:
        mods.unknown("it has no shape")
    mods.left.pop(0)
    mods.flag("satfinite")
    if len(mods.left) != 3 or any(name not in _ELEMENTS for name in mods.left[1:]):
        mods.unknown("its types are not supported")
    result, left, right = mods.left
    n, k = int(shape.group(1)), int(shape.group(2))
    a_type, b_type = _ELEMENTS[left], _ELEMENTS[right]
    if result not in ("f32", "f16", "s32") or n % 8 or not 8 <= n <= 256 or k != a_type.depth or k != b_type.depth:
        mods.unknown("its shape and types do not go together")
    return _multiply(ins, mods, result, n, a_type, b_type)


def _ordering(ins: Instruction, action: str, left: int) -> Decoded:
    """fence, commit_group, wait_group: of whole warps."""

    def bind(machine: Machine) -> Control:
        def control(unit: Unit, group: Group) -> bool:
            if not unit.gather(group, unit.warp_bits(group.bits), ins.name):
                return False
            watch, engines = machine.watch, unit.cta.engines
            for thread in unit.lanes(group.bits).threads[::WARP].tolist():
                if action == "commit_group":
                    engines.commit(("cores", unit.base), thread)
                elif action == "wait_group":
                    engines.wait(("cores", unit.base), thread, left)
            if watch is not None:
                if action == "fence":
                    watch.registers_fenced(unit)
                elif action == "commit_group":
                    watch.commit_products(unit, group.bits)
                else:
                    watch.wait_products(unit, group.bits, left)
            return unit.advance(group)

        return control

    return Decoded(bind, control=True)


def _multiply(ins: Instruction, mods: Modifiers, result: str, n: int, a_type: Element, b_type: Element) -> Decoded:
    accumulator, a, b, *flags = ins.operands
    integers = result == "s32"
    halves = a_type.size == 2
    scale_d: Operand = flags.pop(0) if flags else Immediate(1)
    signs = [1, 1]
    if not integers:
        signs = [_constant(flags.pop(0), mods), _constant(flags.pop(0), mods)]
    fragment = a if isinstance(a, Vector) else None
    a_mn = bool(_constant(flags.pop(0), mods)) if halves and fragment is None else False
    b_mn = bool(_constant(flags.pop(0), mods)) if halves else False
    registers = n // 2 if result != "f16" else n // 4
    if flags or not isinstance(accumulator, Vector) or len(accumulator.items) != registers:
        mods.unknown(f"it needs {registers} accumulator registers and its constant operands")

    def bind(machine: Machine) -> Control:
        words = machine.registers[32]
        d_index = _indices(accumulator)
        a_index = _indices(fragment) if fragment is not None else None
        a_row = machine.src(a, TYPES["b64"]) if fragment is None else None
        b_row = machine.src(b, TYPES["b64"])
        keep, negated = machine.predicate(scale_d)

        watch, pc = machine.watch, machine.program.binding_at

        def check(descriptor: int, extent: int, kind: Element, mn_major: bool, base: int) -> None:
            pieces = chunk_indices(descriptor, extent, kind.depth, kind.size, mn_major)
            low, high = int(pieces[0]) * 16, int(pieces[-1]) * 16 + 16
            if low < machine.shared_base or high > machine.shared_end:
                at = low if low < machine.shared_base else high
                raise MemoryFaultError(
                    at, f"matrix descriptor {descriptor:#x} reaches {at:#x}, outside shared memory", base
                )

        def from_shared(descriptor: int, extent: int, kind: Element, mn_major: bool, base: int) -> Array:
            index = element_indices(descriptor, extent, kind.depth, kind.size, mn_major)
            own = int(machine.rank_bits[base]) // kind.size
            return kind.decode(machine.spaces.view("shared", kind.size)[index + own])

        def multiply(a_bits: int | None, b_bits: int, before: Array | None, s: slice) -> Array:
            """The accumulator's registers after the product; `before` it, where they are added to."""
            if a_bits is not None:
                left = from_shared(a_bits, 64, a_type, a_mn, s.start)
            else:
                raw = np.ascontiguousarray(words[a_index, s]).view(_RAW[a_type.size])
                left = a_type.decode(operand_to_matrix(raw, 4 // a_type.size))
            right = from_shared(b_bits, n, b_type, b_mn, s.start)
            if signs[0] != 1:
                left = -left
            if signs[1] != 1:
                right = -right
            product = left @ right.T
            if result == "f32":
                if before is not None:
                    product += accumulator_to_matrix(before.view(np.float32))
                return matrix_to_accumulator(product).view(np.uint32)
            if result == "s32":
                # Sums of 32 products of bytes are exact in float64; the accumulator wraps.
                total = product.astype(np.int64)
                if before is not None:
                    total += accumulator_to_matrix(before.view(np.int32))
                return matrix_to_accumulator(total.astype(np.int32)).view(np.uint32)
            if before is not None:
                pairs = before.view(np.float16).reshape(registers, WARPGROUP, 2)
                product += accumulator_to_matrix(pairs.transpose(0, 2, 1).reshape(2 * registers, WARPGROUP))
            out = matrix_to_accumulator(product.astype(np.float16)).reshape(registers, 2, WARPGROUP)
            packed: Array = np.ascontiguousarray(out.transpose(0, 2, 1)).view(np.uint32)[..., 0]
            return packed

        def control(unit: Unit, group: Group) -> bool:
            if unit.size != WARPGROUP:
                raise FaultError(f"wgmma needs a warpgroup of {WARPGROUP} threads, this one has {unit.size}")
            if not unit.gather_all(group, (1 << WARPGROUP) - 1, ins.name):
                return False
            base = unit.base
            s = slice(base, base + WARPGROUP)
            a_bits = None if a_row is None else int(a_row[base])
            b_bits = int(b_row[base])
            accumulate = bool(keep[base]) ^ negated
            if a_bits is not None:
                check(a_bits, 64, a_type, a_mn, base)
            check(b_bits, n, b_type, b_mn, base)
            if watch is not None:
                right = b_bits, n, b_type.depth, b_type.size, b_mn
                left = None if a_bits is None else (a_bits, 64, a_type.depth, a_type.size, a_mn)
                watch.product(unit, pc, right, left, a_index, d_index, accumulate)
            engines = unit.cta.engines
            if not engines.timed:
                words[d_index, s] = multiply(a_bits, b_bits, words[d_index, s] if accumulate else None, s)
                return unit.advance(group)
            key = base, d_index.tobytes()
            flying = unit.cta.flying.get(key)
            if flying is None:
                flying = unit.cta.flying[key] = Flying(words[d_index, s].copy())
                words[d_index, s] = _POISON
            flying.products += 1

            def effect() -> None:
                flying.words = multiply(a_bits, b_bits, flying.words if accumulate else None, s)
                flying.products -= 1
                if not flying.products:
                    words[d_index, s] = unit.cta.flying.pop(key).words

            engines.later(effect, ("cores", base), pc, base)
            return unit.advance(group)

        return control

    return Decoded(bind, control=True)


def _constant(operand: Operand, mods: Modifiers) -> int:
    if not isinstance(operand, Immediate):
        mods.unknown("its scale and transpose operands must be constants")
    return int(operand.value)


def _indices(operand: Vector) -> Array:
    out = []
    for item in operand.items:
        if not isinstance(item, Register) or item.width != 32:
            raise FaultError("a fragment must be made of 32-bit registers")
        out.append(item.index)
    return np.array(out)
