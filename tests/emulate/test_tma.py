"""Tensor maps, boxes partly outside on every side, swizzles, stores."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.emulate.device import DEVICE
from tests.emulate.support import run
from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import TilegenError
from tilegen.emulate.memory import GlobalMemory
from tilegen.targets.hopper.tensor_map import TensorMap

LOAD = (
    DEVICE
    + """
extern __shared__ __align__(1024) u8 smem[];
template <int R> DEV void load(u32 to, const TMap* m, u32 b, const int* c) {
  if (R == 1) asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];" :: "r"(to), "l"(m), "r"(b), "r"(c[0]) : "memory");
  if (R == 2) asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" :: "r"(to), "l"(m), "r"(b), "r"(c[0]), "r"(c[1]) : "memory");
  if (R == 3) asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" :: "r"(to), "l"(m), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]) : "memory");
  if (R == 5) asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" :: "r"(to), "l"(m), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]) : "memory");
}
template <int R> DEV void body(const TMap* m, u32* o, const int* c, u32 bytes, u32 offset) {
  __shared__ __align__(8) u64 bar; u32 t = threadIdx.x, b = shared(&bar);
  for (u32 i = t; i < bytes / 4; i += 128) ((u32*)(smem + offset))[i] = 0xDEADBEEF;
  if (t == 0) init(b, 1);
  __syncthreads();
  if (t == 0) { expect(b, bytes); load<R>(shared(smem) + offset, m, b, c); }
  wait(b, 0);
  for (u32 i = t; i < bytes / 4; i += 128) o[i] = ((u32*)(smem + offset))[i];
}
extern "C" __global__ void k1(const __grid_constant__ TMap m, u32* o, const int* c, u32 n, u32 a) { body<1>(&m, o, c, n, a); }
extern "C" __global__ void k2(const __grid_constant__ TMap m, u32* o, const int* c, u32 n, u32 a) { body<2>(&m, o, c, n, a); }
extern "C" __global__ void k3(const __grid_constant__ TMap m, u32* o, const int* c, u32 n, u32 a) { body<3>(&m, o, c, n, a); }
extern "C" __global__ void k5(const __grid_constant__ TMap m, u32* o, const int* c, u32 n, u32 a) { body<5>(&m, o, c, n, a); }
"""
)

STORE = (
    DEVICE
    + """
extern __shared__ __align__(1024) u8 smem[];
extern "C" __global__ void k(const __grid_constant__ TMap m, const u32* p, int x, int y, u32 bytes) {
  for (u32 i = threadIdx.x; i < bytes / 4; i += 128) ((u32*)smem)[i] = p[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" :: "l"(&m), "r"(shared(smem)), "r"(x), "r"(y) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
extern "C" __global__ void add(const __grid_constant__ TMap m, const u32* p, int x, int y, u32 bytes) {
  for (u32 i = threadIdx.x; i < bytes / 4; i += 128) ((u32*)smem)[i] = p[i];
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" :: "l"(&m), "r"(shared(smem)), "r"(x), "r"(y) : "memory");
}
"""
)


def load(tensor: np.ndarray, box: tuple[int, ...], at: tuple[int, ...], *, swizzle: int = 0, offset: int = 0,
         fill: str = "zero", dtype: str = "u16", steps: tuple[int, ...] = ()) -> np.ndarray:  # fmt: skip
    """What a TMA load of `box` at coordinates `at` (innermost first) leaves in shared memory, as bytes."""
    memory = GlobalMemory()
    base = memory.alloc(tensor)
    dims = tuple(reversed(tensor.shape))
    tm = TensorMap(dtype, base, dims, tuple(reversed(tensor.strides[:-1])), box, steps, swizzle, fill)
    out = np.zeros(tm.box_bytes // 4, np.uint32)
    report = run(
        LOAD, tm.to_bits(), out, np.array(at, np.int32), tm.box_bytes, offset,
        block=128, shared=tm.box_bytes + offset, entry=f"k{len(box)}", memory=memory,
    )  # fmt: skip
    assert list(report.tma_loads.values()) == [1] and next(iter(report.tma_loads)).endswith("_param_0")
    return out.view(np.uint8)


def expected(
    tensor: np.ndarray, box: tuple[int, ...], at: tuple[int, ...], fill: int = 0, steps: tuple[int, ...] = ()
) -> np.ndarray:
    """The box, element by element."""
    steps = steps or (1,) * len(box)
    shape = [-(-b // s) for b, s in zip(box, steps, strict=True)]
    out = np.full(tuple(reversed(shape)), fill, tensor.dtype)
    for index in itertools.product(*(range(n) for n in reversed(shape))):
        place = tuple(c + i * s for c, i, s in zip(reversed(at), index, reversed(steps), strict=True))
        if all(0 <= p < n for p, n in zip(place, tensor.shape, strict=True)):
            out[index] = tensor[place]
    return out


def swizzled(data: bytes, span: int, start: int) -> np.ndarray:
    """Bytes of a dense box as they lie in shared memory from address `start` (a multiple of 1024) on."""
    out = np.zeros(len(data), np.uint8)
    raw = np.frombuffer(data, np.uint8)
    for i in range(0, len(raw), 16):
        a = start + i
        chunk = a >> 4 & 7
        if span == 128:
            chunk ^= a >> 7 & 7
        elif span == 64:
            chunk ^= a >> 7 & 3
        elif span == 32:
            chunk ^= a >> 7 & 1
        to = (a & ~0x7F) + chunk * 16 - start
        out[to : to + 16] = raw[i : i + 16]
    return out


@pytest.mark.parametrize("at", [(0, 0), (-8, 0), (8, -2), (32, 0), (0, 17), (-40, 3), (104, 100), (-64, -8), (40, 19)])
@pytest.mark.parametrize("swizzle", [0, 128])
def test_boxes_outside_on_each_side(at: tuple[int, int], swizzle: int) -> None:
    tensor = np.random.default_rng(1).integers(1, 1 << 16, (20, 40), dtype=np.uint16)
    got = load(tensor, (64, 8), at, swizzle=swizzle)
    assert np.array_equal(got, swizzled(expected(tensor, (64, 8), at).tobytes(), swizzle, 0))


@pytest.mark.parametrize("at", [(-3, 0), (4, 0), (41, 0)])
def test_boxes_that_begin_inside_16_bytes_of_a_row_are_no_instruction(at: tuple[int, int]) -> None:
    with pytest.raises(TilegenError, match="no multiple of 16 bytes") as error:
        load(np.ones((20, 40), np.uint16), (16, 8), at)
    assert error.value.diagnostics[0].code == Code.EMULATED_FAULT.name


@pytest.mark.parametrize(("swizzle", "inner"), [(128, 64), (64, 32), (32, 16), (0, 24)])
def test_swizzles_follow_address_bits(swizzle: int, inner: int) -> None:
    tensor = np.random.default_rng(2).integers(1, 1 << 16, (33, 80), dtype=np.uint16)
    got = load(tensor, (inner, 24), (8, 3), swizzle=swizzle)
    assert np.array_equal(got, swizzled(expected(tensor, (inner, 24), (8, 3)).tobytes(), swizzle, 0))


def test_swizzle_of_an_unaligned_destination_depends_on_its_address() -> None:
    tensor = np.random.default_rng(3).integers(1, 1 << 16, (16, 64), dtype=np.uint16)
    aligned, moved = load(tensor, (64, 8), (0, 0), swizzle=128), load(tensor, (64, 8), (0, 0), swizzle=128, offset=256)
    assert not np.array_equal(aligned, moved)
    plain = expected(tensor, (64, 8), (0, 0)).tobytes()
    assert np.array_equal(moved, swizzled(bytes(256) + plain, 128, 0)[256:])


def test_ranks_one_three_and_five() -> None:
    rng = np.random.default_rng(4)
    line = rng.integers(1, 1 << 16, 104, dtype=np.uint16)
    assert np.array_equal(load(line, (64,), (56,)), expected(line, (64,), (56,)).view(np.uint8))
    cube = rng.integers(1, 1 << 16, (3, 5, 16), dtype=np.uint16)
    assert np.array_equal(
        load(cube, (16, 4, 2), (8, -1, 2)), expected(cube, (16, 4, 2), (8, -1, 2)).reshape(-1).view(np.uint8)
    )
    five = rng.integers(1, 1 << 16, (2, 3, 2, 7, 64), dtype=np.uint16)
    box, at = (64, 4, 2, 1, 1), (0, 5, 0, 2, 1)
    assert np.array_equal(load(five, box, at, swizzle=128), swizzled(expected(five, box, at).tobytes(), 128, 0))


def test_element_strides_skip() -> None:
    tensor = np.random.default_rng(5).integers(1, 1 << 16, (21, 32), dtype=np.uint16)
    got = load(tensor, (32, 10), (0, 15), steps=(1, 3))
    assert np.array_equal(got, expected(tensor, (32, 10), (0, 15), steps=(1, 3)).reshape(-1).view(np.uint8))


def test_nan_fill() -> None:
    tensor = np.ones((4, 16), np.uint16)
    got = load(tensor, (16, 8), (0, -2), fill="nan", dtype="bf16").view(np.uint16).reshape(8, 16)
    as_float = (got.astype(np.uint32) << 16).view(np.float32)
    assert np.isnan(as_float[[0, 1, 6, 7]]).all() and (got[2:6] == 1).all()


@pytest.mark.parametrize("at", [(0, 0), (-8, -2), (32, 15), (-32, 0), (8, 19)])
@pytest.mark.parametrize("swizzle", [0, 64])
def test_stores_drop_what_is_outside(at: tuple[int, int], swizzle: int) -> None:
    rng = np.random.default_rng(6)
    tensor = rng.integers(1, 1 << 16, (20, 40), dtype=np.uint16)
    before = tensor.copy()
    box = rng.integers(1, 1 << 16, (8, 32), dtype=np.uint16)
    memory = GlobalMemory()
    tm = TensorMap("u16", memory.alloc(tensor), (40, 20), (80,), (32, 8), swizzle=swizzle)
    laid = swizzled(box.tobytes(), swizzle, 0).view(np.uint32)
    report = run(STORE, tm.to_bits(), laid, *at, 512, block=128, shared=512, memory=memory)
    for y, x in itertools.product(range(8), range(32)):
        if 0 <= at[1] + y < 20 and 0 <= at[0] + x < 40:
            before[at[1] + y, at[0] + x] = box[y, x]
    assert np.array_equal(tensor, before)
    assert sum(report.tma_stores.values()) == 1


@pytest.mark.parametrize("extent", [33, 36, 39, 40])
def test_stores_write_whole_16_bytes_at_the_end_of_rows(extent: int) -> None:
    tensor, box = np.zeros((4, 48), np.uint16), np.ones((4, 32), np.uint16)
    memory = GlobalMemory()
    tm = TensorMap("u16", memory.alloc(tensor), (extent, 4), (96,), (32, 4))
    run(STORE, tm.to_bits(), box.view(np.uint32).reshape(-1), 16, 0, 256, block=128, shared=256, memory=memory)
    assert (tensor[:, 16:40] == 1).all() and tensor.sum() == 4 * 24


def test_reductions_add_to_the_tensor() -> None:
    tensor, memory = np.arange(160, dtype=np.float32).reshape(10, 16), GlobalMemory()
    before, box = tensor.copy(), np.linspace(1, 2, 64, dtype=np.float32).reshape(8, 8)
    tm = TensorMap("f32", memory.alloc(tensor), (16, 10), (64,), (8, 8))
    run(
        STORE,
        tm.to_bits(),
        box.view(np.uint32).reshape(-1),
        12,
        5,
        256,
        block=128,
        shared=256,
        memory=memory,
        entry="add",
    )
    before[5:10, 12:16] += box[:5, :4]
    assert np.array_equal(tensor, before)


def test_random_boxes_of_rank_three() -> None:
    rng = np.random.default_rng(7)
    tensor = rng.integers(1, 1 << 16, (5, 9, 24), dtype=np.uint16)
    for _ in range(25):
        # Rows as wide as the swizzle: narrower ones do not lie next to each other (tests/hopper/test_box.py). Eight of
        # them fill whole lines of 128 bytes, so that a swizzle stays inside the box.
        box = (int(rng.choice([8, 16, 32])), 8, int(rng.integers(1, 6)))
        column = 8 * int(rng.integers(-box[0] // 8, tensor.shape[2] // 8 + 1))
        rows = zip(box[1:], (9, 5), strict=True)
        at = (column, *(int(rng.integers(-b - 1, n + 2)) for b, n in rows))
        swizzle = int(rng.choice([0] + [box[0] * 2] * (box[0] > 8)))
        got = load(tensor, box, at, swizzle=swizzle)
        assert np.array_equal(got, swizzled(expected(tensor, box, at).tobytes(), swizzle, 0)), (box, at, swizzle)
