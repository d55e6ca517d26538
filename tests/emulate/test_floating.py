"""f32 and f64 arithmetic against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.emulate.reference import operate
from tests.emulate.support import Asm, elementwise
from tests.emulate.values import floats, pairs

N = 2048
TINY = 2.0**-126


def same_bits(got: np.ndarray, wanted: list[float] | np.ndarray, *operands: np.ndarray) -> None:
    """Equal to the bit; every NaN of `got` must be the canonical one."""
    expected = np.asarray(wanted, np.float32).view(np.uint32).copy()
    expected[np.isnan(np.asarray(wanted, np.float32))] = 0x7FFFFFFF
    bad = np.nonzero(got.view(np.uint32) != expected)[0]
    assert not len(bad), [
        (*(hex(o.view(np.uint32)[i]) for o in operands), hex(got.view(np.uint32)[i]), hex(expected[i])) for i in bad[:5]
    ]


def flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < TINY, np.copysign(np.float32(0), x), x)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "fma", "sqrt", "rcp"])
def test_f32_is_exactly_rounded_in_every_mode(name: str) -> None:
    arity = {"fma": 3, "sqrt": 1, "rcp": 1}.get(name, 2)
    x = pairs(N, arity, seed=1)
    modes = ["rn", "rz", "rm", "rp"]
    places = ", ".join(f"%{i + 1}" for i in range(arity))
    lines = [Asm(f"{name}.{mode}.f32 %0, {places};", "f", "f" * arity) for mode in modes]
    rows = [[float(v) for v in row] for row in zip(*x, strict=True)]
    for mode, got in zip(modes, elementwise(lines, [x] * len(modes)), strict=True):
        same_bits(got, [operate(name, mode, "f32", *row) for row in rows], *x)


def test_fma_is_not_rounded_twice() -> None:
    # a * b + c lies a hair above half way between two float32, and rounds to the half way point in float64.
    a, b, c = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2**-80)
    wanted = operate("fma", "rn", "f32", float(a), float(b), float(c))
    assert np.float32(np.float64(a) * np.float64(b) + np.float64(c)) != np.float32(wanted)
    x = [np.full(128, v, np.float32) for v in (a, b, c)]
    (got,) = elementwise([Asm("fma.rn.f32 %0, %1, %2, %3;", "f", "fff")], [x])
    same_bits(got, np.full(128, wanted))


def test_ftz_and_sat() -> None:
    x = pairs(N, 3, seed=5)
    lines = [
        Asm("add.ftz.f32 %0, %1, %2;", "f", "ff"),
        Asm("mul.rn.ftz.f32 %0, %1, %2;", "f", "ff"),
        Asm("fma.rn.ftz.f32 %0, %1, %2, %3;", "f", "fff"),
        Asm("add.sat.f32 %0, %1, %2;", "f", "ff"),
        Asm("fma.rn.ftz.sat.f32 %0, %1, %2, %3;", "f", "fff"),
    ]
    got = elementwise(lines, [x[:2], x[:2], x, x[:2], x])
    y = [flushed(v) for v in x]

    def exact(name: str, operands: list[np.ndarray], kind: str = "f32-unbounded") -> np.ndarray:
        return np.array([operate(name, "rn", kind, *map(float, row)) for row in zip(*operands, strict=True)])

    def saturated(v: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(v), np.float32(0), np.clip(v, 0, 1) + np.float32(0)).astype(np.float32)

    same_bits(got[0], flushed(exact("add", y[:2])), *x)
    same_bits(got[1], flushed(exact("mul", y[:2])), *x)
    same_bits(got[2], flushed(exact("fma", y)), *x)
    same_bits(got[3], saturated(exact("add", x[:2], "f32")), *x)
    same_bits(got[4], saturated(flushed(exact("fma", y))), *x)


NEAREST_OF_A_FORMAT_WITHOUT_SUBNORMALS = [
    # (a, b, c, a * b + c as an H200 gives it): tiny after rounding to 24 bits, and three that are tiny only before it
    (0x3F7FFFFF, 0x00800000, 0x8035B816, 0x00000000),
    (0x010EC2BE, 0x01AF2FDA, 0x80800000, 0x80800000),
    (0x00800000, 0x8F288DD7, 0x00800000, 0x00800000),
    (0x25AE00A6, 0x8121020E, 0x00800000, 0x00800000),
]


def test_ftz_flushes_what_is_tiny_after_rounding() -> None:
    table = np.array(NEAREST_OF_A_FORMAT_WITHOUT_SUBNORMALS, np.uint32)
    a, b, c, wanted = (np.resize(column, 128) for column in table.T)
    x, y, z = (np.ascontiguousarray(v).view(np.float32) for v in (a, b, c))
    (got,) = elementwise([Asm("fma.rn.ftz.f32 %0, %1, %2, %3;", "f", "fff")], [[x, y, z]])
    assert np.array_equal(got.view(np.uint32), wanted)


@pytest.mark.parametrize("name", ["add", "mul", "fma", "div"])
def test_ftz_flushes_so_in_every_mode(name: str) -> None:
    """Around the smallest normal number."""
    rng = np.random.default_rng(12)
    near, other = (np.float32(1) + rng.integers(-3, 4, N).astype(np.float32) * np.float32(2**-24) for _ in range(2))
    tiny = np.float32(TINY)
    signs = np.where(rng.integers(0, 2, N), np.float32(1), np.float32(-1))
    small = (rng.integers(-3, 4, N) * 2.0 ** rng.integers(-126, -123, N)).astype(np.float32)
    x = {
        "add": [near * tiny, small],
        "mul": [near * np.float32(2.0**-60), other * np.float32(2.0**-66)],
        "fma": [signs * near * np.float32(2.0**-90), other * np.float32(2.0**-70), np.where(small < 0, -tiny, tiny)],
        "div": [near * np.float32(2.0**-60), other * np.float32(2.0**66)],
    }[name]
    modes = ["rn", "rz", "rm", "rp"]
    places = ", ".join(f"%{i + 1}" for i in range(len(x)))
    lines = [Asm(f"{name}.{mode}.ftz.f32 %0, {places};", "f", "f" * len(x)) for mode in modes]
    rows = [[float(flushed(v)) for v in row] for row in zip(*x, strict=True)]
    for mode, got in zip(modes, elementwise(lines, [x] * len(modes)), strict=True):
        same_bits(got, flushed(np.array([operate(name, mode, "f32-unbounded", *row) for row in rows])), *x)
        assert (np.abs(got) == tiny).any()


def test_min_max_treat_nan_and_zero_as_the_manual_says() -> None:
    x, y = pairs(N, 2, seed=9)
    lines = [Asm(f"{op}{mod}.f32 %0, %1, %2;", "f", "ff") for op in ("min", "max") for mod in ("", ".NaN", ".ftz")]
    lines.append(Asm("max.xorsign.abs.f32 %0, %1, %2;", "f", "ff"))

    def extremum(a: float, b: float, largest: bool, nan: bool) -> float:
        if math.isnan(a) or math.isnan(b):
            return math.nan if nan or (math.isnan(a) and math.isnan(b)) else (b if math.isnan(a) else a)
        key = (a, math.copysign(1, a)), (b, math.copysign(1, b))
        return (
            (max if largest else min)(key)[0] * 1.0
            if a != b
            else math.copysign(a, (max if largest else min)(k[1] for k in key))
        )

    got = elementwise(lines, [[x, y]] * len(lines))
    for i, (largest, nan, ftz) in enumerate(
        [(o, n, f) for o in (False, True) for n, f in ((False, False), (True, False), (False, True))]
    ):
        a, b = (flushed(x), flushed(y)) if ftz else (x, y)
        same_bits(got[i], [extremum(float(p), float(q), largest, nan) for p, q in zip(a, b, strict=True)], x, y)
    magnitude = [extremum(abs(float(p)), abs(float(q)), True, False) for p, q in zip(x, y, strict=True)]
    signs = np.where(np.signbit(x) ^ np.signbit(y), -1.0, 1.0)
    same_bits(got[6], np.copysign(np.array(magnitude, np.float32), signs.astype(np.float32)), x, y)


def test_sign_operations_touch_only_the_sign() -> None:
    x, y = pairs(N, 2, seed=11)
    lines = [
        Asm("abs.f32 %0, %1;", "f", "f"),
        Asm("neg.f32 %0, %1;", "f", "f"),
        Asm("copysign.f32 %0, %1, %2;", "f", "ff"),
        Asm("abs.ftz.f32 %0, %1;", "f", "f"),
    ]
    absolute, negated, copied, flush = elementwise(lines, [[x], [x], [x, y], [x]])
    bits, sign = x.view(np.uint32), np.uint32(1 << 31)
    assert np.array_equal(absolute.view(np.uint32), bits & ~sign)
    assert np.array_equal(negated.view(np.uint32), bits ^ sign)
    assert np.array_equal(copied.view(np.uint32), (bits & sign) | (y.view(np.uint32) & ~sign))
    assert np.array_equal(flush.view(np.uint32), np.abs(flushed(x)).view(np.uint32))


def test_f64_modes_and_fma() -> None:
    rng = np.random.default_rng(3)
    n = 256
    x = [rng.standard_normal(n) * 2.0 ** rng.integers(-60, 60, n) for _ in range(3)]
    x[2][: n // 2] = -(x[0] * x[1])[: n // 2]  # cancels down to the product's rounding error
    x[0][:4], x[1][:4], x[2][:4] = [0.0, np.inf, 1.0, -0.0], [1.0, 0.0, np.nan, 1.0], [-0.0, 1.0, 1.0, -0.0]
    lines = [Asm("fma.rn.f64 %0, %1, %2, %3;", "d", "ddd"), Asm("add.rp.f64 %0, %1, %2;", "d", "dd"),
             Asm("div.rz.f64 %0, %1, %2;", "d", "dd"), Asm("sqrt.rm.f64 %0, %1;", "d", "d")]  # fmt: skip
    fma, add, div, root = elementwise(lines, [x, x[:2], x[:2], [np.abs(x[0])]])
    for i in range(4, n):
        a, b, c = (Fraction(float(v[i])) for v in x)
        assert fma[i] == float(a * b + c)
        assert Fraction(float(add[i])) >= a + b > Fraction(float(np.nextafter(add[i], -np.inf)))
        assert (
            abs(Fraction(float(div[i])))
            <= abs(a / b)
            < abs(Fraction(float(np.nextafter(div[i], np.copysign(np.inf, div[i])))))
        )
        assert Fraction(float(root[i])) ** 2 <= abs(a) < Fraction(float(np.nextafter(root[i], np.inf))) ** 2
    assert fma[0] == 0 and np.isnan(fma[1]) and np.isnan(fma[2]) and np.signbit(fma[3])


@pytest.mark.parametrize(
    ("name", "bound"),
    [("ex2", 2.0**-22), ("rcp", 2.0**-23), ("rsqrt", 2.0**-22), ("sqrt", 2.0**-23), ("tanh", 2.0**-10)],
)
def test_approximate_functions_are_within_their_bound(name: str, bound: float) -> None:
    x = np.random.default_rng(4).uniform(0.01, 30, N).astype(np.float32)
    ftz = ".ftz" if name != "tanh" else ""
    (got,) = elementwise([Asm(f"{name}.approx{ftz}.f32 %0, %1;", "f", "f")], [[x]])
    exact = {"ex2": np.exp2, "rcp": np.reciprocal, "rsqrt": lambda v: 1 / np.sqrt(v), "sqrt": np.sqrt, "tanh": np.tanh}
    wanted = exact[name](x.astype(np.float64))
    assert np.max(np.abs(got - wanted) / np.abs(wanted)) <= bound


def test_approximate_functions_at_the_edges() -> None:
    x = np.resize(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -127.0, -150.0, 128.0, 1e-39, -1.0], np.float32), 128)
    lines = [Asm(f"{name} %0, %1;", "f", "f") for name in (
        "ex2.approx.ftz.f32", "ex2.approx.f32", "lg2.approx.ftz.f32", "lg2.approx.f32", "rcp.approx.ftz.f32",
        "rsqrt.approx.ftz.f32", "sin.approx.f32", "tanh.approx.f32")]  # fmt: skip
    got = [row[:10] for row in elementwise(lines, [[x]] * len(lines))]
    inf, nan = np.inf, np.nan
    same_bits(got[0], [1, 1, inf, 0, nan, 0, 0, inf, 1, 0.5])
    same_bits(got[1], [1, 1, inf, 0, nan, 2.0**-127, 2.0**-150, inf, 1, 0.5])
    same_bits(got[2], [-inf, -inf, inf, nan, nan, nan, nan, 7, -inf, nan])
    assert got[3][8] == pytest.approx(math.log2(1e-39), rel=1e-6)
    same_bits(got[4][:5], [inf, -inf, 0, -0.0, nan])
    same_bits(got[4][8:9], [inf])
    same_bits(got[5][:5], [inf, -inf, 0, nan, nan])
    same_bits(got[6][2:5], [nan, nan, nan])
    same_bits(got[7][2:4], [1, -1])


def test_floats_cover_the_hard_cases() -> None:
    x = floats(4096, seed=1)
    assert np.isnan(x).any() and np.isinf(x).any() and ((np.abs(x) < TINY) & (x != 0)).any()
