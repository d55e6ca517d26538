"""cvt between all types."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.emulate.reference import round_fraction
from tests.emulate.support import Asm, elementwise
from tests.emulate.values import floats, halves, integers

# Signalling NaN among the operands make numpy speak up when the references convert them.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

N = 2048


def rounded(values: np.ndarray, kind: str, mode: str) -> np.ndarray:
    out = []
    for v in values.tolist():
        special = not math.isfinite(v)
        out.append(v if special else round_fraction(Fraction(v), kind, mode, int(math.copysign(1, v))))
    return np.array(out)


def bits16(values: np.ndarray, kind: str) -> np.ndarray:
    held = (
        values.astype(np.float16).view(np.uint16)
        if kind == "f16"
        else (values.astype(np.float32).view(np.uint32) >> 16)
    )
    return np.where(np.isnan(values), 0x7FFF, held).astype(np.uint16)


def test_every_f16_and_bf16_widens_exactly() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    half, brain = elementwise(
        [Asm("cvt.f32.f16 %0, %1;", "f", "h"), Asm("cvt.f32.bf16 %0, %1;", "f", "h")], [[every], [every]], block=1024
    )
    wanted = every.view(np.float16).astype(np.float32)
    assert np.array_equal(half, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(half), np.signbit(wanted) & ~np.isnan(wanted))
    wanted = (every.astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(brain, wanted, equal_nan=True)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_f32_narrows_in_every_mode(kind: str) -> None:
    x = floats(N, 21)
    # Exact ties between neighbours in the narrow format.
    ties = halves(N // 4, kind, 3)
    wide = (
        ties.view(np.float16).astype(np.float32) if kind == "f16" else (ties.astype(np.uint32) << 16).view(np.float32)
    )
    x[: N // 4] = np.where(np.isfinite(wide), wide * np.float32(1 + 2.0 ** -(11 if kind == "f16" else 8)), wide)
    modes = ["rn", "rz"] + (["rm", "rp"] if kind == "f16" else [])
    supported = [m for m in modes if m in ("rn", "rz")]
    lines = [Asm(f"cvt.{mode}.{kind}.f32 %0, %1;", "h", "f") for mode in supported]
    for mode, got in zip(supported, elementwise(lines, [[x]] * len(lines)), strict=True):
        assert np.array_equal(got, bits16(rounded(x, kind, mode), kind)), mode


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_packed_narrowing_puts_the_first_operand_on_top(kind: str) -> None:
    x, y = floats(N, 22), floats(N, 23)
    lines = [Asm(f"cvt.{m}.{kind}x2.f32 %0, %1, %2;", "r", "ff") for m in ("rn", "rz", "rn.relu", "rn.satfinite")]
    plain, cut, relu, finite = (out.view(np.uint16).reshape(-1, 2) for out in elementwise(lines, [[x, y]] * 4))
    for column, source in ((1, x), (0, y)):
        nearest = rounded(source, kind, "rn")
        assert np.array_equal(plain[:, column], bits16(nearest, kind))
        assert np.array_equal(cut[:, column], bits16(rounded(source, kind, "rz"), kind))
        assert np.array_equal(
            relu[:, column], bits16(np.where(nearest > 0, nearest, np.where(np.isnan(nearest), nearest, 0.0)), kind)
        )
        largest = 65504.0 if kind == "f16" else float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
        assert np.array_equal(finite[:, column], bits16(np.clip(nearest, -largest, largest), kind))


def test_float_to_integer_rounds_and_clamps() -> None:
    x = np.concatenate([floats(N - 128, 24), np.linspace(-4, 4, 128, dtype=np.float32) * np.float32(1.5)]).astype(
        np.float32
    )
    x[:12] = [2.5, 3.5, -2.5, -0.5, 0.5, 2147483648.0, -2147483904.0, 4294967296.0, 9.3e18, 1.9e19, -9.3e18, 0.49999997]
    targets = [(f"{s}{b}", b, s) for b in (16, 32, 64) for s in "su"]
    modes = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    letter = {16: "h", 32: "r", 64: "l"}
    lines = [Asm(f"cvt.{mode}.{name}.f32 %0, %1;", letter[bits], "f") for name, bits, _ in targets for mode in modes]
    results = iter(elementwise(lines, [[x]] * len(lines)))
    for _, bits, sign in targets:
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "s" else (0, (1 << bits) - 1)
        for f in modes.values():
            wanted = []
            for v in x.astype(np.float64).tolist():
                if math.isnan(v):
                    wanted.append(1 << 63 if bits == 64 else 0)
                    continue
                clamp = high if v == math.inf else low if v == -math.inf else int(f(v))
                wanted.append(min(max(clamp, low), high) & (1 << bits) - 1)
            assert np.array_equal(next(results), np.array(wanted, f"u{bits // 8}"))


@pytest.mark.parametrize(
    ("to", "source", "wanted"),
    [("s32.f32", "f", 0), ("u16.f16", "h", 0), ("s64.f32", "f", 1 << 63), ("u64.f16", "h", 1 << 63),
     ("s64.f64", "d", 1 << 63), ("u32.f64", "d", 1 << 31), ("s16.f64", "d", 1 << 15)],
)  # fmt: skip
def test_nan_as_an_integer_is_what_the_manual_says(to: str, source: str, wanted: int) -> None:
    """0; but the top bit alone from f64, and to 64 bits (there also as an H200 gives it, from f32)."""
    letter = {"16": "h", "32": "r", "64": "l"}[to[1:3]]
    nan = {"f": np.full(128, np.nan, np.float32), "h": np.full(128, 0x7E00, np.uint16), "d": np.full(128, np.nan)}
    (got,) = elementwise([Asm(f"cvt.rzi.{to} %0, %1;", letter, source)], [[nan[source]]])
    assert set(got.tolist()) == {wanted}


def test_nan_that_keeps_its_upper_bits() -> None:
    """0x7fc00000 of the first is what an H200 gives, in both; the rest follows from the machine code, or is a guess."""
    single = np.resize(np.array([0x7FC00000, 0xFFC12345, 0x7F800001, 0x7F802000], np.uint32), 128).view(np.float32)
    double = np.resize(np.array([0x7FF8 << 48, 0xFFF8 << 48 | 1 << 45, 0x7FF0 << 48 | 1], np.uint64), 128).view(float)
    tf32, cut, one = elementwise(
        [Asm("cvt.rna.tf32.f32 %0, %1;", "r", "f"), Asm("cvt.rn.f32.f64 %0, %1;", "f", "d"),
         Asm("cvt.rn.sat.f32.f64 %0, %1;", "f", "d")],
        [[single], [double], [double]],
    )  # fmt: skip
    assert tf32[:4].tolist() == [0x7FC00000, 0xFFC12000, 0x7F800000, 0x7F802000]
    assert cut.view(np.uint32)[:3].tolist() == [0x7FC00000, 0xFFC10000, 0x7FC00000]
    assert not one.any()


def test_integer_to_float_in_every_mode() -> None:
    wide, word = integers(N, 64, 25), integers(N, 32, 26)
    wide[: N // 2] = (wide[: N // 2] >> np.uint64(10)) | np.uint64(1) << np.uint64(54)  # 55 bits: ties and near-ties
    lines, operands, wanted = [], [], []
    for mode in ("rn", "rz", "rm", "rp"):
        for name, letter, source in (("u64", "l", wide), ("s64", "l", wide), ("u32", "r", word), ("s32", "r", word)):
            lines.append(Asm(f"cvt.{mode}.f32.{name} %0, %1;", "f", letter))
            operands.append([source])
            values = source.view(f"{'i' if name[0] == 's' else 'u'}{source.itemsize}").tolist()
            wanted.append(np.array([round_fraction(Fraction(v), "f32", mode) for v in values], np.float32))
    for line, got, exact in zip(lines, elementwise(lines, operands), wanted, strict=True):
        assert np.array_equal(got.view(np.uint32), exact.view(np.uint32)), line.text
    lines = [Asm(f"cvt.rn.{k}.{t} %0, %1;", "h", "r") for k in ("f16", "bf16") for t in ("s32", "u32")]
    for line, got in zip(lines, elementwise(lines, [[word]] * 4), strict=True):
        kind, name = line.text.split()[0].split(".")[2:]
        values = word.view(np.int32 if name == "s32" else np.uint32).tolist()
        exact = np.array([round_fraction(Fraction(v), kind, "rn") for v in values])
        with np.errstate(over="ignore"):
            assert np.array_equal(got, bits16(exact, kind)), line.text


def test_integer_to_integer_extends_truncates_and_saturates() -> None:
    x = integers(N, 32, 27)
    lines = [
        Asm("cvt.s64.s32 %0, %1;", "l", "r"),
        Asm("cvt.u64.u32 %0, %1;", "l", "r"),
        Asm("cvt.u32.u8 %0, %1;", "r", "r"),
        Asm("cvt.s32.s8 %0, %1;", "r", "r"),
        Asm("cvt.sat.s8.s32 %0, %1;", "r", "r"),
        Asm("cvt.sat.u8.s32 %0, %1;", "r", "r"),
        Asm("cvt.s16.s32 %0, %1;", "r", "r"),
    ]
    got = elementwise(lines, [[x]] * len(lines))
    signed = x.view(np.int32)
    assert np.array_equal(got[0].view(np.int64), signed)
    assert np.array_equal(got[1], x)
    assert np.array_equal(got[2], x & 0xFF)
    assert np.array_equal(got[3].view(np.int32), x.astype(np.uint8).view(np.int8))
    assert np.array_equal(got[4].view(np.int32), np.clip(signed, -128, 127))
    assert np.array_equal(got[5].view(np.int32), np.clip(signed, 0, 255))
    assert np.array_equal(got[6].view(np.int32), x.astype(np.uint16).view(np.int16))


def test_float_to_float() -> None:
    x = floats(N, 28)
    wide = x.astype(np.float64) * (1 + 2.0**-30)
    wide[:4] = [2.0**-149 * 1.5, 3.4028235677973366e38, 2.0**-150, np.nan]
    lines = [
        Asm("cvt.rni.f32.f32 %0, %1;", "f", "f"),
        Asm("cvt.rpi.f32.f32 %0, %1;", "f", "f"),
        Asm("cvt.sat.f32.f32 %0, %1;", "f", "f"),
        Asm("cvt.ftz.f32.f32 %0, %1;", "f", "f"),
        Asm("cvt.f64.f32 %0, %1;", "d", "f"),
        Asm("cvt.rn.f32.f64 %0, %1;", "f", "d"),
        Asm("cvt.rp.f32.f64 %0, %1;", "f", "d"),
        Asm("cvt.rn.f16.f64 %0, %1;", "h", "d"),
        Asm("cvt.rna.tf32.f32 %0, %1;", "r", "f"),
    ]
    got = elementwise(lines, [[x]] * 5 + [[wide]] * 3 + [[x]])
    with np.errstate(all="ignore"):
        assert np.array_equal(got[0], np.rint(x), equal_nan=True)
        assert np.array_equal(np.signbit(got[1][~np.isnan(x)]), np.signbit(x[~np.isnan(x)]))
        assert np.array_equal(got[1], np.ceil(x), equal_nan=True)
        assert np.array_equal(got[2], np.where(np.isnan(x), 0, np.clip(x, 0, 1)))
        assert np.array_equal(got[3], np.where(np.abs(x) < 2.0**-126, 0, x), equal_nan=True)
        assert np.array_equal(got[4], x.astype(np.float64), equal_nan=True)
        assert np.array_equal(got[5], rounded(wide, "f32", "rn").astype(np.float32), equal_nan=True)
        assert np.array_equal(got[6], rounded(wide, "f32", "rp").astype(np.float32), equal_nan=True)
        assert np.array_equal(got[7], bits16(rounded(wide, "f16", "rn"), "f16"))
        tf32 = rounded(x, "tf32", "rna").astype(np.float32).view(np.uint32)
        assert np.array_equal(got[8], np.where(np.isnan(x), x.view(np.uint32) & 0xFFFFE000, tf32))


def test_fp8_pairs() -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal(N).astype(np.float32) * np.float32(20) for _ in range(2))
    x[:6] = [np.nan, np.inf, -1e9, 464.0, 2.0**-10, -0.0]
    for kind, dtype, largest in (("e4m3", ml_dtypes.float8_e4m3fn, 448), ("e5m2", ml_dtypes.float8_e5m2, 57344)):
        (packed,) = elementwise([Asm(f"cvt.rn.satfinite.{kind}x2.f32 %0, %1, %2;", "h", "ff")], [[x, y]])
        high, low = packed.astype(np.uint16) >> 8, packed & 0xFF
        wanted = np.where(np.isnan(x), 0x7F, np.clip(x, -largest, largest).astype(dtype).view(np.uint8))
        assert np.array_equal(high, wanted)
        assert np.array_equal(low, np.clip(y, -largest, largest).astype(dtype).view(np.uint8))
        (back,) = elementwise([Asm(f"cvt.rn.f16x2.{kind}x2 %0, %1;", "r", "h")], [[packed]])
        exact = packed.view(dtype).astype(np.float32)
        assert np.array_equal(back.view(np.float16).astype(np.float32), exact, equal_nan=True)
