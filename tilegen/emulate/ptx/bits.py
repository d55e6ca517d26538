"""Logic, shifts, bit fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.decode import Decoded, Mask, Modifiers, Step, instruction, map1, put, simple, ufunc1, ufunc2
from tilegen.emulate.ptx.module import Immediate, Instruction, Not
from tilegen.emulate.ptx.types import TYPES, Array

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

_BITS = ("b16", "b32", "b64")
_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@instruction("and", "or", "xor")
def logic(ins: Instruction) -> Decoded:
    """Bitwise on integers, logical on predicates."""
    mods = Modifiers(ins)
    t = mods.type("pred", *_BITS)
    mods.done()
    _, left, right = mods.operands(3)
    f = _LOGIC[ins.opcode]
    if t.kind != "pred" or not (isinstance(left, Not) or isinstance(right, Not)):
        return simple(t, ins, lambda d, a, b: ufunc2(f, d, a, b))

    def bind(machine: Machine) -> Step:
        d = machine.dst(ins.operands[0], t)
        (a, not_a), (b, not_b) = machine.predicate(left), machine.predicate(right)
        return lambda s, m: put(d, s, m, f(a[s] ^ not_a, b[s] ^ not_b))

    return Decoded(bind)


@instruction("not")
def bitwise_not(ins: Instruction) -> Decoded:
    """Complement."""
    mods = Modifiers(ins)
    t = mods.type("pred", *_BITS)
    mods.done()
    mods.operands(2)
    return simple(t, ins, lambda d, a: ufunc1(np.invert, d, a))


@instruction("cnot")
def logical_not(ins: Instruction) -> Decoded:
    """1 for zero, else 0."""
    mods = Modifiers(ins)
    t = mods.type(*_BITS)
    mods.done()
    mods.operands(2)
    return simple(t, ins, lambda d, a: map1(lambda x: (x == 0).astype(t.dtype), d, a))


@instruction("shl", "shr")
def shift(ins: Instruction) -> Decoded:
    """Shifts; amounts past the width are the width."""
    mods = Modifiers(ins)
    t = mods.type(*_BITS) if ins.opcode == "shl" else mods.type(*_BITS, "s16", "s32", "s64", "u16", "u32", "u64")
    mods.done()
    _, value, amount = mods.operands(3)
    left, last = ins.opcode == "shl", t.bits - 1

    def bind(machine: Machine) -> Step:
        d, a = machine.dst(ins.operands[0], t), machine.src(value, t)
        n = machine.src(amount, TYPES["u32"])
        f = np.left_shift if left else np.right_shift
        if isinstance(amount, Immediate) and 0 <= int(amount.value) <= last:
            return ufunc2(f, d, a, n.astype(t.dtype))

        def step(s: slice, m: Mask) -> None:
            by = n[s]
            out = f(a[s], np.minimum(by, np.uint32(last)).astype(t.dtype))
            if not (t.kind == "s" and not left):
                out = np.where(by > last, t.dtype.type(0), out)
            put(d, s, m, out)

        return step

    return Decoded(bind)


@instruction("shf")
def funnel_shift(ins: Instruction) -> Decoded:
    """32 of the 64 bits of {b, a}, shifted."""
    mods = Modifiers(ins)
    direction, mode = mods.need("l", "r"), mods.need("clamp", "wrap")
    t = mods.type("b32")
    mods.done()
    mods.operands(4)

    def bind(machine: Machine) -> Step:
        d = machine.dst(ins.operands[0], t)
        a, b, c = (machine.src(o, t) for o in ins.operands[1:4])

        def step(s: slice, m: Mask) -> None:
            n = c[s] & np.uint32(31) if mode == "wrap" else np.minimum(c[s], np.uint32(32))
            both = b[s].astype(np.uint64) << np.uint64(32) | a[s]
            out = both << n >> np.uint64(32) if direction == "l" else both >> n
            put(d, s, m, out.astype(np.uint32))

        return step

    return Decoded(bind)


@instruction("lop3")
def lop3(ins: Instruction) -> Decoded:
    """Any logical function of three words, by its truth table."""
    mods = Modifiers(ins)
    t = mods.type("b32")
    mods.done()
    *_, table = mods.operands(5)
    if not isinstance(table, Immediate):
        mods.unknown("its truth table must be a constant")
    minterms = [i for i in range(8) if int(table.value) >> i & 1]

    def bind(machine: Machine) -> Step:
        d = machine.dst(ins.operands[0], t)
        a, b, c = (machine.src(o, t) for o in ins.operands[1:4])

        def step(s: slice, m: Mask) -> None:
            x, y, z = a[s], b[s], c[s]
            out = np.zeros(len(x), np.uint32)
            for i in minterms:
                out |= (x if i & 4 else ~x) & (y if i & 2 else ~y) & (z if i & 1 else ~z)
            put(d, s, m, out)

        return step

    return Decoded(bind)


@instruction("popc", "clz", "brev", "bfind")
def count_bits(ins: Instruction) -> Decoded:
    """Population count, leading zeros, reversal, highest bit that differs from the sign."""
    mods = Modifiers(ins)
    amount = mods.flag("shiftamt")
    t = mods.type("b32", "b64") if ins.opcode != "bfind" else mods.type("u32", "s32", "u64", "s64")
    mods.done()
    result, source = mods.operands(2)

    def bind(machine: Machine) -> Step:
        d = machine.dst(result, t if ins.opcode == "brev" else TYPES["u32"])
        a = machine.src(source, t)

        def step(s: slice, m: Mask) -> None:
            x = a[s]
            if ins.opcode == "popc":
                out = np.bitwise_count(x).astype(np.uint32)
            elif ins.opcode == "brev":
                out = reverse(x)
            elif ins.opcode == "clz":
                out = (t.bits - bit_length(x)).astype(np.uint32)
            else:
                if t.kind == "s":
                    x = np.where(x < 0, ~x, x)
                found = bit_length(x.astype(f"u{t.bytes}")) - 1
                out = np.where(found < 0, found, t.bits - 1 - found if amount else found).astype(np.uint32)
            put(d, s, m, out)

        return step

    return Decoded(bind)


def reverse(x: Array) -> Array:
    """Bits in the opposite order."""
    as_bytes = np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1)
    flipped = np.packbits(np.unpackbits(as_bytes, axis=1, bitorder="little"), axis=1)[:, ::-1]
    return np.ascontiguousarray(flipped).view(x.dtype).reshape(-1)


def bit_length(x: Array) -> Array:
    """Position after the highest set bit, int64; 0 for zero."""
    out = np.zeros(len(x), np.int64)
    left = x.copy()
    for step in (32, 16, 8, 4, 2, 1):
        if step < x.dtype.itemsize * 8:
            big = left >> x.dtype.type(step)
            move = big != 0
            out += np.where(move, step, 0)
            left = np.where(move, big, left)
    return np.asarray(out + (left != 0))


@instruction("bfe")
def bit_field_extract(ins: Instruction) -> Decoded:
    """A field of a word, sign-extended for signed types."""
    mods = Modifiers(ins)
    t = mods.type("u32", "s32", "u64", "s64")
    mods.done()
    mods.operands(4)

    def bind(machine: Machine) -> Step:
        d, a = machine.dst(ins.operands[0], t), machine.src(ins.operands[1], t)
        pos, width = (machine.src(o, TYPES["u32"]) for o in ins.operands[2:4])
        u, bits = np.dtype(f"u{t.bytes}"), t.bits

        def step(s: slice, m: Mask) -> None:
            at = (pos[s] & 0xFF).astype(np.int64)
            n = (width[s] & 0xFF).astype(np.int64)
            x = a[s]
            # The field's bits past the word, and sign bits, come from the word's sign (0 for unsigned).
            top = np.minimum(at + n - 1, bits - 1)
            value = x.astype(u)
            shifted = np.where(at < bits, value >> np.minimum(at, bits - 1).astype(u), u.type(0))
            mask = np.where(n >= bits, ~u.type(0), (u.type(1) << np.minimum(n, bits - 1).astype(u)) - u.type(1))
            out = shifted & mask
            if t.kind == "s":
                sign = np.where(n > 0, value >> np.maximum(top, 0).astype(u) & u.type(1), u.type(0)) != 0
                have = np.clip(np.minimum(n, bits - at), 0, bits)
                fill = np.where(have >= bits, u.type(0), ~u.type(0) << np.minimum(have, bits - 1).astype(u))
                out = np.where(sign, out | fill, out)
            put(d, s, m, out.view(t.dtype))

        return step

    return Decoded(bind)


@instruction("bfi")
def bit_field_insert(ins: Instruction) -> Decoded:
    """b with a field of it replaced by the low bits of a."""
    mods = Modifiers(ins)
    t = mods.type("b32", "b64")
    mods.done()
    mods.operands(5)

    def bind(machine: Machine) -> Step:
        d = machine.dst(ins.operands[0], t)
        a, b = (machine.src(o, t) for o in ins.operands[1:3])
        pos, width = (machine.src(o, TYPES["u32"]) for o in ins.operands[3:5])
        u, bits = t.dtype, t.bits

        def step(s: slice, m: Mask) -> None:
            at, n = (pos[s] & 0xFF).astype(np.int64), (width[s] & 0xFF).astype(np.int64)
            low = np.where(n >= bits, ~u.type(0), (u.type(1) << np.minimum(n, bits - 1).astype(u)) - u.type(1))
            by = np.minimum(at, bits - 1).astype(u)
            mask = np.where(at < bits, low << by, u.type(0))
            put(d, s, m, (b[s] & ~mask) | (a[s] << by & mask))

        return step

    return Decoded(bind)


@instruction("bmsk")
def bit_mask(ins: Instruction) -> Decoded:
    """A run of ones: from bit a, b bits long."""
    mods = Modifiers(ins)
    mode = mods.need("clamp", "wrap")
    t = mods.type("b32")
    mods.done()
    mods.operands(3)

    def bind(machine: Machine) -> Step:
        d = machine.dst(ins.operands[0], t)
        a, b = (machine.src(o, t) for o in ins.operands[1:3])

        def step(s: slice, m: Mask) -> None:
            at, n = a[s].astype(np.uint64), b[s].astype(np.uint64)
            limit = np.uint64(32)
            at, n = (at % limit, n % limit) if mode == "wrap" else (np.minimum(at, limit), np.minimum(n, limit))
            one = np.uint64(1)
            put(d, s, m, ((((one << n) - one) << at) & np.uint64(0xFFFFFFFF)).astype(np.uint32))

        return step

    return Decoded(bind)


@instruction("prmt")
def permute(ins: Instruction) -> Decoded:
    """Picks four of the eight bytes of {b, a}."""
    mods = Modifiers(ins)
    t = mods.type("b32")
    mode = mods.one("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    mods.done()
    mods.operands(4)

    def bind(machine: Machine) -> Step:
        d = machine.dst(ins.operands[0], t)
        a, b, c = (machine.src(o, t) for o in ins.operands[1:4])

        def step(s: slice, m: Mask) -> None:
            both = b[s].astype(np.uint64) << np.uint64(32) | a[s]
            source = both.view(np.uint8).reshape(-1, 8)
            selector = c[s].astype(np.int64)
            rows = np.arange(len(both))
            out = np.zeros(len(both), np.uint32)
            for i in range(4):
                pick = _mode_index(mode, selector & 3, i) if mode else selector >> 4 * i & 15
                byte = source[rows, pick & 7]
                if not mode:
                    # Bit 3 of a selector nibble replicates the byte's sign.
                    byte = np.where(pick & 8, np.where(byte & 0x80, 0xFF, 0), byte)
                out |= byte.astype(np.uint32) << np.uint32(8 * i)
            put(d, s, m, out)

        return step

    return Decoded(bind)


def _mode_index(mode: str, n: Array, i: int) -> Array:
    if mode == "f4e":
        return n + i
    if mode == "b4e":
        return n - i & 7
    if mode == "rc8":
        return n
    if mode == "ecl":
        return np.maximum(n, i)
    if mode == "ecr":
        return np.minimum(n, i)
    return (n & 1) * 2 + (i & 1)
