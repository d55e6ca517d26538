"""Integer and bit instructions against Python integers."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.support import Asm, elementwise
from tests.emulate.values import integers

N = 1024
LETTER = {16: "h", 32: "r", 64: "l"}


def signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


def check(lines: list[tuple[str, int, list[int], object]], seed: int = 1) -> None:
    """Each line: text, result bits, operand bits, function of Python unsigned integers."""
    asm, inputs = [], []
    for n, (text, result, operands, _) in enumerate(lines):
        asm.append(Asm(text, LETTER[result], "".join(LETTER[b] for b in operands)))
        inputs.append([integers(N, b, seed + 7 * n + i) for i, b in enumerate(operands)])
    for (text, result, _, f), got, x in zip(lines, elementwise(asm, inputs), inputs, strict=True):
        wanted = np.array(
            [int(f(*row)) & (1 << result) - 1 for row in zip(*(v.tolist() for v in x), strict=True)], got.dtype
        )
        bad = np.nonzero(got != wanted)[0]
        assert not len(bad), (text, [([hex(v[i]) for v in x], hex(got[i]), hex(wanted[i])) for i in bad[:4]])


def quotient(a: int, b: int) -> int:
    return -1 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_arithmetic(bits: int) -> None:
    def s(x: int) -> int:
        return signed(x, bits)

    check([
        (f"add.s{bits} %0, %1, %2;", bits, [bits] * 2, lambda a, b: a + b),
        (f"sub.u{bits} %0, %1, %2;", bits, [bits] * 2, lambda a, b: a - b),
        (f"mul.lo.s{bits} %0, %1, %2;", bits, [bits] * 2, lambda a, b: a * b),
        (f"mul.hi.s{bits} %0, %1, %2;", bits, [bits] * 2, lambda a, b: s(a) * s(b) >> bits),
        (f"mul.hi.u{bits} %0, %1, %2;", bits, [bits] * 2, lambda a, b: a * b >> bits),
        (f"mad.lo.u{bits} %0, %1, %2, %3;", bits, [bits] * 3, lambda a, b, c: a * b + c),
        (f"div.s{bits} %0, %1, %2;", bits, [bits] * 2, lambda a, b: quotient(s(a), s(b))),
        (f"div.u{bits} %0, %1, %2;", bits, [bits] * 2, lambda a, b: a // b if b else -1),
        (f"rem.s{bits} %0, %1, %2;", bits, [bits] * 2, lambda a, b: s(a) - quotient(s(a), s(b)) * s(b) if b else a),
        (f"rem.u{bits} %0, %1, %2;", bits, [bits] * 2, lambda a, b: a % b if b else a),
        (f"min.s{bits} %0, %1, %2;", bits, [bits] * 2, lambda a, b: min(s(a), s(b))),
        (f"max.u{bits} %0, %1, %2;", bits, [bits] * 2, max),
        (f"abs.s{bits} %0, %1;", bits, [bits], lambda a: abs(s(a))),
        (f"neg.s{bits} %0, %1;", bits, [bits], lambda a: -a),
        (f"sad.s{bits} %0, %1, %2, %3;", bits, [bits] * 3, lambda a, b, c: abs(s(a) - s(b)) + c),
    ])  # fmt: skip


def test_wide_and_saturating() -> None:
    low, high = -(1 << 31), (1 << 31) - 1
    check([
        ("mul.wide.s32 %0, %1, %2;", 64, [32, 32], lambda a, b: signed(a, 32) * signed(b, 32)),
        ("mul.wide.u16 %0, %1, %2;", 32, [16, 16], lambda a, b: a * b),
        ("mad.wide.u32 %0, %1, %2, %3;", 64, [32, 32, 64], lambda a, b, c: a * b + c),
        ("add.sat.s32 %0, %1, %2;", 32, [32, 32], lambda a, b: min(max(signed(a, 32) + signed(b, 32), low), high)),
        ("sub.sat.s32 %0, %1, %2;", 32, [32, 32], lambda a, b: min(max(signed(a, 32) - signed(b, 32), low), high)),
        ("mul24.lo.s32 %0, %1, %2;", 32, [32, 32], lambda a, b: signed(a, 24) * signed(b, 24)),
        ("mad24.hi.u32 %0, %1, %2, %3;", 32, [32] * 3, lambda a, b, c: ((a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16) + c),
    ])  # fmt: skip


def test_carries_join_words() -> None:
    pair = "{{ .reg .b32 a, b, c, e, x, y; mov.b64 {{a, b}}, %1; mov.b64 {{c, e}}, %2; {0} mov.b64 %0, {{x, y}}; }}"
    wide = "{ .reg .b32 x, y; mul.lo.u32 x, %1, %2; mad.lo.cc.u32 x, %1, %3, x; madc.hi.u32 y, %1, %3, 0; mov.b64 %0, {x, y}; }"
    check([
        (pair.format("add.cc.u32 x, a, c; addc.u32 y, b, e;"), 64, [64, 64], lambda a, b: a + b),
        (pair.format("sub.cc.u32 x, a, c; subc.u32 y, b, e;"), 64, [64, 64], lambda a, b: a - b),
        (wide, 64, [32] * 3, lambda a, b, c: (a * b & 0xFFFFFFFF) + a * c),
    ])  # fmt: skip


def test_shifts_logic_and_fields() -> None:
    def prmt(a: int, b: int, c: int) -> int:
        both, out = b << 32 | a, 0
        for i in range(4):
            pick = c >> 4 * i & 15
            byte = both >> 8 * (pick & 7) & 255
            out |= ((255 if byte & 128 else 0) if pick & 8 else byte) << 8 * i
        return out

    def bfe(a: int, pos: int, length: int, sign: bool) -> int:
        pos, length = pos & 255, length & 255
        top = a >> min(pos + length - 1, 31) & 1 if sign and length else 0
        return sum(((a >> pos + i & 1) if i < length and pos + i < 32 else top) << i for i in range(32))

    def bfi(a: int, b: int, pos: int, length: int) -> int:
        pos, length = pos & 255, length & 255
        for i in range(length):
            if pos + i < 32:
                b = b & ~(1 << pos + i) | (a >> i & 1) << pos + i
        return b

    def lop3(a: int, b: int, c: int) -> int:
        return sum((0xE8 >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32))

    check([
        ("shl.b32 %0, %1, %2;", 32, [32, 32], lambda a, n: a << n if n < 32 else 0),
        ("shr.u32 %0, %1, %2;", 32, [32, 32], lambda a, n: a >> n if n < 32 else 0),
        ("shr.s32 %0, %1, %2;", 32, [32, 32], lambda a, n: signed(a, 32) >> min(n, 31)),
        ("shr.s64 %0, %1, 7;", 64, [64], lambda a: signed(a, 64) >> 7),
        ("shl.b64 %0, %1, %2;", 64, [64, 32], lambda a, n: a << n if n < 64 else 0),
        ("shl.b16 %0, %1, %2;", 16, [16, 32], lambda a, n: a << n if n < 16 else 0),
        ("shf.l.wrap.b32 %0, %1, %2, %3;", 32, [32] * 3, lambda a, b, n: (b << 32 | a) << (n & 31) >> 32),
        ("shf.r.clamp.b32 %0, %1, %2, %3;", 32, [32] * 3, lambda a, b, n: (b << 32 | a) >> min(n, 32)),
        ("lop3.b32 %0, %1, %2, %3, 0xE8;", 32, [32] * 3, lop3),
        ("prmt.b32 %0, %1, %2, %3;", 32, [32] * 3, prmt),
        ("bfe.u32 %0, %1, %2, %3;", 32, [32] * 3, lambda a, p, n: bfe(a, p, n, False)),
        ("bfe.s32 %0, %1, %2, %3;", 32, [32] * 3, lambda a, p, n: bfe(a, p, n, True)),
        ("bfi.b32 %0, %1, %2, %3, %4;", 32, [32] * 4, bfi),
        ("bfi.b32 %0, %1, %2, 8, 4;", 32, [32] * 2, lambda a, b: bfi(a, b, 8, 4)),
        ("popc.b64 %0, %1;", 32, [64], lambda a: bin(a).count("1")),
        ("clz.b32 %0, %1;", 32, [32], lambda a: 32 - a.bit_length()),
        ("clz.b64 %0, %1;", 32, [64], lambda a: 64 - a.bit_length()),
        ("brev.b32 %0, %1;", 32, [32], lambda a: int(f"{a:032b}"[::-1], 2)),
        ("bfind.u32 %0, %1;", 32, [32], lambda a: a.bit_length() - 1),
        ("bfind.s32 %0, %1;", 32, [32], lambda a: (~a & 0xFFFFFFFF if a >> 31 else a).bit_length() - 1),
        ("not.b64 %0, %1;", 64, [64], lambda a: ~a),
        ("cnot.b32 %0, %1;", 32, [32], lambda a: a == 0),
        ("xor.b16 %0, %1, %2;", 16, [16, 16], lambda a, b: a ^ b),
        ("bmsk.clamp.b32 %0, %1, %2;", 32, [32, 32], lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32)),
    ])  # fmt: skip


def test_packed_and_dot() -> None:
    def halves(f: object, sign: bool) -> object:
        def apply(a: int, b: int) -> int:
            parts = [((a >> s & 0xFFFF), (b >> s & 0xFFFF)) for s in (0, 16)]
            if sign:
                parts = [(signed(x, 16), signed(y, 16)) for x, y in parts]
            low, high = (f(x, y) & 0xFFFF for x, y in parts)
            return high << 16 | low

        return apply

    def bytes_of(a: int, sign: bool) -> list[int]:
        return [signed(a >> 8 * i, 8) if sign else a >> 8 * i & 255 for i in range(4)]

    check([
        ("max.u16x2 %0, %1, %2;", 32, [32, 32], halves(max, False)),
        ("min.s16x2 %0, %1, %2;", 32, [32, 32], halves(min, True)),
        ("add.u16x2 %0, %1, %2;", 32, [32, 32], halves(lambda a, b: a + b, False)),
        ("max.relu.s32 %0, %1, %2;", 32, [32, 32], lambda a, b: max(signed(a, 32), signed(b, 32), 0)),
        ("dp4a.s32.u32 %0, %1, %2, %3;", 32, [32] * 3,
         lambda a, b, c: sum(x * y for x, y in zip(bytes_of(a, True), bytes_of(b, False), strict=True)) + c),
        ("dp2a.hi.u32.s32 %0, %1, %2, %3;", 32, [32] * 3,
         lambda a, b, c: (a & 0xFFFF) * bytes_of(b, True)[2] + (a >> 16) * bytes_of(b, True)[3] + c),
    ])  # fmt: skip


def test_comparisons_and_selection() -> None:
    predicate = "{{ .reg .pred p, q; setp.{0} p, %1, %2; selp.b32 %0, 1, 0, p; }}"
    both = (
        "{ .reg .pred p, q, c; .reg .b32 x, y; setp.ne.u32 c, %3, 0; setp.lt.and.s32 p|q, %1, %2, !c; "
        "selp.b32 x, 1, 0, p; selp.b32 y, 2, 0, q; or.b32 %0, x, y; }"
    )

    def both_wanted(a: int, b: int, c: int) -> int:
        less = signed(a, 32) < signed(b, 32)
        return 0 if c else 1 if less else 2

    check([
        (predicate.format("lt.s32"), 32, [32, 32], lambda a, b: signed(a, 32) < signed(b, 32)),
        (predicate.format("hi.u32"), 32, [32, 32], lambda a, b: a > b),
        (predicate.format("ge.u64"), 32, [64, 64], lambda a, b: a >= b),
        (both, 32, [32] * 3, both_wanted),
        ("set.eq.u32.u32 %0, %1, %2;", 32, [32, 32], lambda a, b: -(a == b)),
        ("slct.b32.s32 %0, %1, %2, %3;", 32, [32] * 3, lambda a, b, c: a if signed(c, 32) >= 0 else b),
        ("{ .reg .pred p; setp.ne.u64 p, %1, 0; selp.b64 %0, %1, %2, p; }", 64, [64, 64], lambda a, b: a if a else b),
    ])  # fmt: skip
