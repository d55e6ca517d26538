"""f16 and bf16 arithmetic, single and packed, against exact fractions."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.reference import operate
from tests.emulate.support import Asm, elementwise
from tests.emulate.values import halves
from tilegen.emulate.ptx.half import OOB_NAN

# Signalling NaN among the operands make numpy speak up when the references convert them.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

N = 2048


def numbers(patterns: np.ndarray, kind: str) -> np.ndarray:
    if kind == "f16":
        return patterns.view(np.float16).astype(np.float64)
    return (patterns.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def patterns_of(values: list[float], kind: str) -> np.ndarray:
    x = np.array(values)
    bits = x.astype(np.float16).view(np.uint16) if kind == "f16" else x.astype(np.float32).view(np.uint32) >> 16
    return np.where(np.isnan(x), 0x7FFF, bits).astype(np.uint16)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_arithmetic_is_exactly_rounded(kind: str) -> None:
    x = [halves(N, kind, seed) for seed in (1, 2, 3)]
    names = ["add", "sub", "mul", "fma"]
    lines = [
        Asm(f"{n}.rn.{kind} %0, %1, %2{', %3' if n == 'fma' else ''};", "h", "hhh"[: 3 if n == "fma" else 2])
        for n in names
    ]
    values = [numbers(v, kind) for v in x]
    got = elementwise(lines, [x[: len(line.operands)] for line in lines])
    for name, out, line in zip(names, got, lines, strict=True):
        rows = zip(*(v.tolist() for v in values[: len(line.operands)]), strict=True)
        wanted = patterns_of([operate(name, "rn", kind, *row) for row in rows], kind)
        bad = np.nonzero(out != wanted)[0]
        assert not len(bad), (name, [([hex(v[i]) for v in x], hex(out[i]), hex(wanted[i])) for i in bad[:4]])


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_packed_forms_do_the_same_to_each_half(kind: str) -> None:
    x = [halves(2 * N, kind, seed) for seed in (4, 5, 6)]
    packed = [v.view(np.uint32) for v in x]
    forms = ["add.rn", "mul.rn", "min", "max.NaN", "max.xorsign.abs"]
    single = elementwise([Asm(f"{f}.{kind} %0, %1, %2;", "h", "hh") for f in forms], [x[:2]] * len(forms))
    double = elementwise([Asm(f"{f}.{kind}x2 %0, %1, %2;", "r", "rr") for f in forms], [packed[:2]] * len(forms))
    for one, two in zip(single, double, strict=True):
        assert np.array_equal(one, two.view(np.uint16))
    (one,) = elementwise([Asm(f"fma.rn.relu.{kind} %0, %1, %2, %3;", "h", "hhh")], [x])
    (two,) = elementwise([Asm(f"fma.rn.relu.{kind}x2 %0, %1, %2, %3;", "r", "rrr")], [packed])
    assert np.array_equal(one, two.view(np.uint16))
    assert not np.any((numbers(one, kind) < 0) | np.signbit(numbers(one, kind)))


def test_f16_flushes_saturates_and_changes_signs() -> None:
    x, y = halves(N, "f16", 7), halves(N, "f16", 8)
    lines = [Asm("add.ftz.f16 %0, %1, %2;", "h", "hh"), Asm("mul.sat.f16 %0, %1, %2;", "h", "hh"),
             Asm("neg.f16 %0, %1;", "h", "h"), Asm("abs.bf16 %0, %1;", "h", "h")]  # fmt: skip
    added, multiplied, negated, absolute = elementwise(lines, [[x, y], [x, y], [x], [x]])
    a, b = numbers(x, "f16"), numbers(y, "f16")

    def flush(v: np.ndarray) -> np.ndarray:
        return np.where(np.abs(v) < 2.0**-14, np.copysign(0.0, v), v)

    total = np.array(
        [operate("add", "rn", "f16", *row) for row in zip(flush(a).tolist(), flush(b).tolist(), strict=True)]
    )
    assert np.array_equal(added, patterns_of(flush(total).tolist(), "f16"))
    product = np.array([operate("mul", "rn", "f16", *row) for row in zip(a.tolist(), b.tolist(), strict=True)])
    clamped = np.where(np.isnan(product), 0.0, np.clip(product, 0, 1) + 0.0)
    assert np.array_equal(multiplied, patterns_of(clamped.tolist(), "f16"))
    assert np.array_equal(negated, x ^ 0x8000)
    assert np.array_equal(absolute, x & 0x7FFF)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_halves_compare(kind: str) -> None:
    x, y = halves(N, kind, 9), halves(N, kind, 10)
    a, b = numbers(x, kind), numbers(y, kind)
    text = "{{ .reg .pred p; setp.{0}.{1} p, %1, %2; selp.b32 %0, 1, 0, p; }}"
    lt, neu = elementwise([Asm(text.format(op, kind), "r", "hh") for op in ("lt", "neu")], [[x, y]] * 2)
    assert np.array_equal(lt, a < b)
    assert np.array_equal(neu, a != b)
    packed = "{{ .reg .pred p, q; .reg .b32 u, v; setp.gt.{0}x2 p|q, %1, %2; selp.b32 u, 1, 0, p; selp.b32 v, 2, 0, q; or.b32 %0, u, v; }}"
    (gt,) = elementwise([Asm(packed.format(kind), "r", "rr")], [[x.view(np.uint32), y.view(np.uint32)]])
    assert np.array_equal(gt, (a > b)[::2] + 2 * (a > b)[1::2])


def test_half_functions() -> None:
    x = halves(N, "f16", 11)
    lines = [Asm("ex2.approx.f16 %0, %1;", "h", "h"), Asm("tanh.approx.f16 %0, %1;", "h", "h")]
    ex2, tanh = elementwise(lines, [[x], [x]])
    a = numbers(x, "f16")
    with np.errstate(all="ignore"):
        assert np.array_equal(ex2, patterns_of(np.exp2(a).tolist(), "f16"))
        assert np.array_equal(tanh, patterns_of(np.tanh(a).tolist(), "f16"))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_what_lies_outside_a_tensor_makes_zeros(kind: str) -> None:
    """A factor that holds the bits of TMA's NaN fill, with either sign, makes +0, in its own half alone; an addend, and
    any other NaN, makes NaN. So did an H200 for every pattern."""
    x = [halves(2 * N, kind, seed) for seed in (7, 8, 9)]
    for n, row in enumerate(x):
        row[n * 100 : n * 100 + 90 : 3] = OOB_NAN
    x[1][400:410], x[2][405:410], x[0][500:505] = 0x7FFF, OOB_NAN, OOB_NAN | 0x8000
    asm = [Asm(f"fma.rn{form}.{kind}x2 %0, %1, %2, %3;", "r", "rrr") for form in ("", ".oob", ".oob.relu")]
    plain, oob, relu = (v.view(np.uint16) for v in elementwise(asm, [[v.view(np.uint32) for v in x]] * 3))
    outside = np.logical_or.reduce([v & 0x7FFF == OOB_NAN for v in x[:2]])
    assert 60 < outside.sum() < N
    assert np.array_equal(oob, np.where(outside, np.uint16(0), plain))
    assert np.isnan(numbers(oob[400:410], kind)).all() and not oob[500:505].any()
    assert np.array_equal(relu, np.where((oob >> 15 == 1) & ~np.isnan(numbers(oob, kind)), np.uint16(0), oob))


@pytest.mark.parametrize("line", ["mul.rn.oob.f16 %0, %1, %1;", "fma.rn.ftz.oob.f16 %0, %1, %1, %1;"])
def test_oob_stands_where_it_may(line: str) -> None:
    with pytest.raises(Exception, match="oob"):
        elementwise([Asm(line, "h", "h")], [[halves(N, "f16", 1)]])
