"""The emulator against the hardware: equal bits where it claims exactness, bounded differences where it does not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.emulate.support import DTYPES, Asm, elementwise_source, run
from tests.emulate.test_wgmma import BASE, Operand, fragment, kernel
from tests.emulate.values import halves, integers, pairs

N = 4096
MODES = ("rn", "rz", "rm", "rp")

F32 = [
    *(Asm(f"{op}.{m}.f32 %0, %1, %2;", "f", "ff") for op in ("add", "mul", "div") for m in MODES),
    *(Asm(f"fma.{m}{x}.f32 %0, %1, %2, %3;", "f", "fff") for m in MODES for x in ("", ".ftz", ".sat")),
    *(Asm(f"{op}.{m}.f32 %0, %1;", "f", "f") for op in ("sqrt", "rcp") for m in MODES),
    *(Asm(f"{op}{x}.f32 %0, %1, %2;", "f", "ff") for op in ("min", "max") for x in ("", ".ftz", ".NaN")),
    *(Asm(f"{op}.{m}.ftz.f32 %0, %1, %2;", "f", "ff") for op in ("add", "mul") for m in MODES),
    Asm("div.rn.ftz.f32 %0, %1, %2;", "f", "ff"),
]
CONVERSIONS = [
    *(Asm(f"cvt.{m}.{t}.f32 %0, %1;", c, "f") for m in ("rni", "rzi", "rmi", "rpi")
      for t, c in (("s32", "r"), ("u32", "r"), ("s64", "l"), ("u64", "l"), ("s16", "h"), ("u16", "h"))),
    *(Asm(f"cvt.{m}.f32.{t} %0, %1;", "f", c) for m in MODES for t, c in (("s32", "r"), ("u64", "l"), ("s64", "l"))),
    *(Asm(f"cvt.{m}.{t}.f32 %0, %1;", "h", "f") for m in ("rn", "rz") for t in ("f16", "bf16")),
    *(Asm(f"cvt.{m}.{t}.f32 %0, %1, %2;", "r", "ff") for m in ("rn", "rz", "rn.relu") for t in ("f16x2", "bf16x2")),
    Asm("cvt.rna.tf32.f32 %0, %1;", "r", "f"),
    Asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;", "h", "ff"),
    Asm("cvt.f32.f16 %0, %1;", "f", "h"),
    Asm("cvt.rn.f32.f64 %0, %1;", "f", "d"),
]  # fmt: skip
HALVES = [
    *(Asm(f"{op}.rn.{t} %0, %1, %2;", "h", "hh") for op in ("add", "sub", "mul") for t in ("f16", "bf16")),
    *(Asm(f"fma.rn{x}.{t} %0, %1, %2, %3;", "h", "hhh") for x in ("", ".relu") for t in ("f16", "bf16")),
    *(
        Asm(f"{op}{x}.{t}x2 %0, %1, %2;", "r", "rr")
        for op in ("min", "max")
        for x in ("", ".NaN")
        for t in ("f16", "bf16")
    ),
]
INTEGERS = [
    *(Asm(f"{op} %0, %1, %2;", "r", "rr") for op in (
        "mul.hi.s32", "mul.hi.u32", "min.s32", "max.u16x2", "shl.b32", "shr.s32", "add.sat.s32", "sub.s32")),
    *(Asm(f"{op} %0, %1, %2, %3;", "r", "rrr") for op in (
        "prmt.b32", "bfe.s32", "bfe.u32", "shf.l.wrap.b32", "shf.r.clamp.b32", "dp4a.s32.u32", "sad.s32")),
    Asm("bfi.b32 %0, %1, %2, %3, %4;", "r", "rrrr"),
    Asm("mul.hi.s64 %0, %1, %2;", "l", "ll"),
    Asm("div.s32 %0, %1, %2;", "r", "rr"),
    Asm("rem.s64 %0, %1, %2;", "l", "ll"),
]  # fmt: skip


def inputs(lines: list[Asm], seed: int) -> list[list[np.ndarray]]:
    out = []
    for n, line in enumerate(lines):
        row = pairs(N, len(line.operands), seed + 11 * n)
        for p, letter in enumerate(line.operands):
            if letter == "h":
                row[p] = halves(N, "bf16" if "bf16" in line.text else "f16", seed + 13 * n + p)
            elif letter == "r" and "x2" in line.text:
                row[p] = halves(2 * N, "bf16" if "bf16" in line.text else "f16", seed + 13 * n + p).view(np.uint32)
            elif letter in "rl":
                row[p] = integers(N, 32 if letter == "r" else 64, seed + 13 * n + p)
                if line.text.startswith(("div", "rem")) and p == 1:
                    row[p][row[p] == 0] = 3  # a zero divisor gives no specified value
            elif letter == "d":  # what becomes of other payloads of NaN is a guess
                row[p] = np.where(np.isnan(row[p]), np.float32(np.nan), row[p]).astype(np.float64)
        out.append(row)
    return out


def both(lines: list[Asm], seed: int) -> list[tuple[Asm, list[np.ndarray], np.ndarray, np.ndarray]]:
    """Each line with its operands, the emulator's and the GPU's result."""
    from tests.emulate.device_run import run_on_gpu

    groups = inputs(lines, seed)
    results = []
    for runner in (run, run_on_gpu):
        arrays = [np.ascontiguousarray(a).view(DTYPES[c]) for g, line in zip(groups, lines, strict=True)
                  for c, a in zip(line.operands, g, strict=True)]  # fmt: skip
        outputs = [np.zeros(N, DTYPES[line.result]) for line in lines]
        runner(elementwise_source(lines), *arrays, *outputs, grid=N // 128, block=128)
        results.append(outputs)
    return list(zip(lines, groups, *results, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["F32", "CONVERSIONS", "HALVES", "INTEGERS"])
def test_bits_are_equal(family: str) -> None:
    wrong = []
    for line, operands, emulated, real in both(globals()[family], seed=3):
        raw = f"u{emulated.itemsize}"
        bad = np.nonzero(emulated.view(raw) != real.view(raw))[0]
        if len(bad):
            i = bad[0]
            seen = [hex(int(np.ascontiguousarray(o).view(f"u{o.itemsize}")[i])) for o in operands]
            wrong.append(
                f"{line.text} {len(bad)} of {N}: {seen} emulated {emulated.view(raw)[i]:#x}, GPU {real.view(raw)[i]:#x}"
            )
    assert not wrong, "\n".join(wrong)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "units"),
    [("ex2", 2), ("lg2", 4), ("rcp", 1), ("rsqrt", 2), ("sqrt", 1), ("tanh", 1 << 13), ("sin", 0), ("cos", 0)],
)
def test_approximate_functions_differ_by_a_few_units(name: str, units: int) -> None:
    ftz = "" if name == "tanh" else ".ftz"
    ((_, (x, *_), emulated, real),) = both([Asm(f"{name}.approx{ftz}.f32 %0, %1;", "f", "f")], seed=5)
    assert np.array_equal(np.isnan(emulated), np.isnan(real))
    assert np.array_equal(np.isinf(emulated), np.isinf(real))
    fine = np.isfinite(real) & (np.abs(x) < 3 if name in ("sin", "cos") else True)
    a, b = emulated[fine].astype(np.float64), real[fine].astype(np.float64)
    gap = np.abs(a - b)
    # lg2 near 1 has an absolute bound, sin and cos have one everywhere.
    absolute = 2.0**-20.5 if name in ("lg2", "sin", "cos") else 0.0
    allowed = units * np.spacing(np.abs(real[fine])).astype(np.float64) + absolute
    assert np.all(gap <= allowed), (x[fine][gap > allowed][:5], a[gap > allowed][:5], b[gap > allowed][:5])


@pytest.mark.gpu
@pytest.mark.parametrize("n", [64, 128])
def test_matrix_products_agree_to_rounding(n: int) -> None:
    from tests.emulate.device_run import run_on_gpu

    rng = np.random.default_rng(8)
    a, b = (rng.standard_normal((r, 64)).astype(np.float32).astype(ml_dtypes.bfloat16) for r in (64, n))
    results = []
    for runner in (run, run_on_gpu):
        left = Operand(a, False, 128, BASE)
        right = Operand(b, True, 128, BASE + len(left.image))
        words = np.concatenate([left.image, right.image]).view(np.uint32)
        d = fragment(np.zeros((64, n), np.float32))
        runner(
            kernel(n, "f32.bf16.bf16", trans=(0, 1)),
            words, len(words), d.view(np.uint32).reshape(-1), np.zeros(1, np.uint32),
            np.array(left.descriptors, np.uint64), np.array(right.descriptors, np.uint64), 4, 1,
            grid=1, block=128, shared=len(words) * 4,
        )  # fmt: skip
        results.append(d)
    emulated, real = results
    assert np.max(np.abs(emulated - real)) <= 2.0**-20 * np.max(np.abs(real))
