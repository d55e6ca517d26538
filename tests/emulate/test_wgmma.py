"""wgmma: operands in shared memory and registers, both majors, swizzles, types, sizes."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest

from tests.emulate.support import run
from tests.emulate.test_tma import swizzled

MODES = {0: 0, 128: 1, 64: 2, 32: 3}
BASE = 1024  # where the tests' descriptors suppose dynamic shared memory; kernels add what it is off


def kernel(n: int, types: str, *, a_registers: bool = False, trans: tuple[int, int] | None = (0, 0), signs: tuple[int, int] = (1, 1),
           depth: int = 16, registers: int = 0) -> str:  # fmt: skip
    """One wgmma for each 64-bit descriptor pair; accumulators start from `d` and go back to it, [128 threads, registers]."""
    count = registers or n // 2
    regs = ", ".join(f"%{i}" for i in range(count))
    a = ("{" + ", ".join(f"%{count + i}" for i in range(4)) + "}") if a_registers else f"%{count}"
    b = count + (4 if a_registers else 1)
    tail = ", 1, 1" if types.startswith("s32") else f", {signs[0]}, {signs[1]}"
    tail = "" if types.startswith("s32") else tail
    if trans is not None:
        tail += f", {trans[1]}" if a_registers else f", {trans[0]}, {trans[1]}"
    outputs = ", ".join(f'"+r"(r[{i}])' for i in range(count))
    inputs = ", ".join(f'"r"(f[4 * s + {i}])' for i in range(4)) if a_registers else '"l"(da[s] + move)'
    return f"""
    extern __shared__ __align__(1024) u8 smem[];
    extern "C" __global__ void k(const u32* image, int words, u32* d, const u32* fragments, const u64* da, const u64* db, int steps, int keep) {{
      u32 t = threadIdx.x, r[{count}]; const u64 move = (shared(smem) - {BASE}) >> 4;
      for (int i = t; i < words; i += 128) ((u32*)smem)[i] = image[i];
      for (int i = 0; i < {count}; ++i) r[i] = d[t * {count} + i];
      const u32* f = fragments + t * 4 * steps; (void)f; (void)da;
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); __syncthreads();
      for (int s = 0; s < steps; ++s) {{
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{b + 1}, 0;\\nwgmma.mma_async.sync.aligned.m64n{n}k{depth}.{types} {{{regs}}}, {a}, %{b}, p{tail}; }}"
          : {outputs} : {inputs}, "l"(db[s] + move), "r"(keep | s));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
      }}
      for (int i = 0; i < {count}; ++i) d[t * {count} + i] = r[i];
    }}"""


def fragment(matrix: np.ndarray) -> np.ndarray:
    """[64, N] accumulator to [128 threads, N/2], by the formula of the manual."""
    n = matrix.shape[1]
    out = np.zeros((128, n // 2), matrix.dtype)
    for t in range(128):
        for i in range(n // 2):
            out[t, i] = matrix[16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (t % 4) + i % 2]
    return out


def descriptor(start: int, leading: int, stride: int, span: int) -> int:
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | MODES[span] << 62


class Operand:
    """A matrix [rows (M or N), K] of 2-byte elements laid out in shared memory for wgmma; descriptors for each 16 of K."""

    def __init__(self, matrix: np.ndarray, mn_major: bool, span: int, start: int) -> None:
        raw = matrix.view(np.uint16)
        rows, depth = raw.shape
        self.descriptors = []
        if span and not mn_major:
            # Blocks of span bytes of K, each with all rows under each other.
            width = span // 2
            image = np.concatenate([raw[:, k : k + width].reshape(-1) for k in range(0, depth, width)])
            self.image = swizzled(image.tobytes(), span, start)
            for k in range(0, depth, 16):
                at = start + k // width * rows * span + k % width * 2
                self.descriptors.append(descriptor(at, 16, 8 * span, span))
        elif span:
            # Blocks of span bytes of M or N, each with all of K under each other.
            width = span // 2
            padded = np.concatenate([raw, np.zeros((-rows % width, depth), np.uint16)])
            image = np.concatenate([padded[m : m + width].T.reshape(-1) for m in range(0, len(padded), width)])
            self.image = swizzled(image.tobytes(), span, start)
            for k in range(0, depth, 16):
                self.descriptors.append(descriptor(start + k * span, depth * span, 8 * span, span))
        elif not mn_major:
            # Core matrices of 8 rows x 16 bytes, those along K next to each other.
            cores = raw.reshape(rows // 8, 8, depth // 8, 8).transpose(0, 2, 1, 3)
            self.image = np.frombuffer(np.ascontiguousarray(cores).tobytes(), np.uint8)
            for k in range(0, depth, 16):
                self.descriptors.append(descriptor(start + k // 8 * 128, 128, depth // 8 * 128, 0))
        else:
            # Core matrices of 8 of K x 16 bytes of M or N, those along M or N next to each other.
            cores = raw.reshape(rows // 8, 8, depth // 8, 8).transpose(2, 0, 3, 1)
            self.image = np.frombuffer(np.ascontiguousarray(cores).tobytes(), np.uint8)
            for k in range(0, depth, 16):
                self.descriptors.append(descriptor(start + k // 8 * rows * 16, rows * 16, 128, 0))


def multiply(
    source: str, image: np.ndarray, d: np.ndarray, fragments: np.ndarray, da: list[int], db: list[int], keep: int = 1
) -> None:
    words = np.concatenate([image, np.zeros(-len(image) % 4, np.uint8)]).view(np.uint32)
    run(source, words, len(words), d.view(np.uint32).reshape(-1), fragments, np.array(da or [0], np.uint64),
        np.array(db, np.uint64), len(db), keep, block=128, shared=len(words) * 4)  # fmt: skip


def operands(seed: int, n: int, depth: int, dtype: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((r, depth)).astype(np.float32).astype(dtype) for r in (64, n))
    return a, b, rng.standard_normal((64, n)).astype(np.float32)


def close(got: np.ndarray, wanted: np.ndarray, bound: float = 1e-5) -> None:
    assert np.max(np.abs(got - wanted)) <= bound * max(1.0, float(np.max(np.abs(wanted))))


@pytest.mark.parametrize("a_major", [0, 1])
@pytest.mark.parametrize("b_major", [0, 1])
@pytest.mark.parametrize("span", [128, 64, 32, 0])
def test_both_operands_in_shared_memory(a_major: int, b_major: int, span: int) -> None:
    n = 64
    a, b, c = operands(1, n, 64, ml_dtypes.bfloat16)
    left = Operand(a, bool(a_major), span, BASE)
    second = BASE + -(-len(left.image) // 1024) * 1024
    right = Operand(b, bool(b_major), span, second)
    image = np.concatenate([left.image, np.zeros(second - BASE - len(left.image), np.uint8), right.image])
    d = fragment(c)
    source = kernel(n, "f32.bf16.bf16", trans=(a_major, b_major))
    multiply(source, image, d, np.zeros(1, np.uint32), left.descriptors, right.descriptors)
    close(d, fragment((c + a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)))


@pytest.mark.parametrize("n", [8, 24, 80, 128, 256])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_left_operand_in_registers(n: int, dtype: str) -> None:
    kind = np.float16 if dtype == "f16" else ml_dtypes.bfloat16
    a, b, c = operands(n, n, 32, kind)
    right = Operand(b, True, 128, BASE)
    # The A fragment is the accumulator's map with N = 16, two neighbouring columns in a register.
    parts = [fragment(a[:, k : k + 16].view(np.uint16)).view(np.uint32) for k in (0, 16)]
    fragments = np.concatenate(parts, axis=1).reshape(-1)
    d = fragment(c)
    source = kernel(n, f"f32.{dtype}.{dtype}", a_registers=True, trans=(0, 1))
    multiply(source, right.image, d, fragments, [], right.descriptors)
    close(d, fragment((c + a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)))


def test_scale_d_zero_ignores_the_accumulator_and_signs_negate() -> None:
    n = 16
    a, b, _ = operands(3, n, 16, np.float16)
    left, right = Operand(a, False, 32, BASE), Operand(b, False, 32, BASE + 2048)
    image = np.concatenate([left.image, right.image])
    d = np.full((128, n // 2), np.nan, np.float32)
    source = kernel(n, "f32.f16.f16", signs=(-1, 1))
    multiply(source, image, d, np.zeros(1, np.uint32), left.descriptors, right.descriptors, keep=0)
    close(d, -fragment((a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)))


def test_half_accumulators() -> None:
    n = 32
    a, b, c = operands(4, n, 16, np.float16)
    left, right = Operand(a, False, 32, BASE), Operand(b, False, 32, BASE + 2048)
    d = fragment(c.astype(np.float16)).view(np.uint32)
    source = kernel(n, "f16.f16.f16", registers=n // 4)
    multiply(
        source,
        np.concatenate([left.image, right.image]),
        d,
        np.zeros(1, np.uint32),
        left.descriptors,
        right.descriptors,
    )
    wanted = fragment(
        (c.astype(np.float16).astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)
    )
    close(d.view(np.float16).astype(np.float32), wanted, 2e-3)


@pytest.mark.parametrize("kind", ["tf32", "e4m3", "e5m2", "s8"])
def test_other_types(kind: str) -> None:
    n = 16
    rng = np.random.default_rng(5)
    size = 4 if kind == "tf32" else 1
    depth = 32 // size
    a, b = (rng.standard_normal((r, depth)).astype(np.float32) * 4 for r in (64, n))
    if kind == "tf32":
        raw = [x.view(np.uint32) for x in (a, b)]
        values = [(x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b)]
    else:
        dtype = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8}[kind]
        raw = [(x * (9 if kind == "s8" else 1)).astype(dtype).view(np.uint8) for x in (a, b)]
        values = [x.view(dtype).astype(np.float64) for x in raw]
    images = [swizzled(x.tobytes(), 32, BASE) for x in raw]
    das, dbs = ([descriptor(at, 16, 256, 32)] for at in (BASE, BASE + 2048))
    c = rng.integers(-1000, 1000, (64, n)).astype(np.int32 if kind == "s8" else np.float32)
    d = fragment(c)
    types = "s32.s8.s8" if kind == "s8" else f"f32.{kind}.{kind}"
    source = kernel(n, types, trans=None, depth=depth)
    multiply(source, np.concatenate(images), d, np.zeros(1, np.uint32), das, dbs)
    wanted = fragment(c + values[0].astype(np.float64) @ values[1].astype(np.float64).T)
    if kind == "s8":
        assert np.array_equal(d, wanted.astype(np.int32))
    else:
        close(d, wanted.astype(np.float32))


def test_the_base_offset_moves_the_swizzle_pattern() -> None:
    # Rows 4 to 11 of a 128-byte swizzled tile: the start is 512 bytes into the pattern, base offset 4 says so.
    n = 8
    a, b, c = operands(6, 16, 64, ml_dtypes.bfloat16)
    left, right = Operand(a, False, 128, BASE), Operand(b, False, 128, BASE + 8192)
    start = BASE + 8192 + 512
    db = descriptor(start, 16, 1024, 128) | 4 << 49
    d = fragment(c[:, :8].copy())
    image = np.concatenate([left.image, right.image])
    multiply(kernel(n, "f32.bf16.bf16"), image, d, np.zeros(1, np.uint32), left.descriptors[:1], [db])
    wanted = c[:, :8] + a[:, :16].astype(np.float64) @ b[4:12, :16].astype(np.float64).T
    close(d, fragment(wanted.astype(np.float32)))


def test_not_a_number_spreads_along_its_row_only() -> None:
    n = 8
    a, b, c = operands(7, n, 16, np.float16)
    a[5, 3], b[:, 3] = np.nan, 0
    left, right = Operand(a, False, 32, BASE), Operand(b, False, 32, BASE + 2048)
    d = fragment(c)
    multiply(
        kernel(n, "f32.f16.f16"),
        np.concatenate([left.image, right.image]),
        d,
        np.zeros(1, np.uint32),
        left.descriptors,
        right.descriptors,
    )
    rows = fragment(np.repeat(np.arange(64), n).reshape(64, n))
    assert np.array_equal(np.isnan(d), rows == 5)


def test_descriptor_fields_are_where_the_manual_puts_them() -> None:
    from tilegen.emulate.ptx.wgmma_layout import MatrixDescriptor

    bits = struct.unpack("<Q", struct.pack("<Q", 0x3ABC | 0x2DEF << 16 | 0x1234 << 32 | 5 << 49 | 2 << 62))[0]
    assert MatrixDescriptor.from_bits(bits) == MatrixDescriptor(0x3ABC0, 0x2DEF0, 0x12340, 5, 64)


def test_a_wait_for_products_is_one_of_whole_warps() -> None:
    """Lanes that come later hold up the others of their warp: none of them may read the accumulator before."""
    matrix = np.ones((64, 16), ml_dtypes.bfloat16)
    a = Operand(matrix, False, 32, BASE)
    late = '_Pragma("unroll 1") for (u32 i = 0; i < (t % 32 < 2) * 300; ++i) asm volatile("nanosleep.u32 1;");'
    source = kernel(64, "f32.bf16.bf16").replace(
        'wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");',
        f'wgmma.commit_group.sync.aligned;" ::: "memory"); {late}'
        ' asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");',
    )
    assert late in source
    image = np.frombuffer(a.image.tobytes(), np.uint32)
    for seed in range(12):
        d = np.zeros((128, 32), np.float32)
        pair = np.array(a.descriptors, np.uint64)
        run(source, image.copy(), len(image), d.view(np.uint32), np.zeros(4, np.uint32), pair, pair, 1, 0,
            block=128, shared=4096, seed=seed)  # fmt: skip
        assert (d == 16).all()
