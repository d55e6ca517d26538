"""Loads and stores in every space, vectors, atomics, asynchronous copies."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.support import module_of, run
from tilegen.diagnostics.core import TilegenError
from tilegen.emulate.memory import GlobalMemory


def test_alloc_aligns_reads_and_finds() -> None:
    memory = GlobalMemory()
    a, b = np.arange(5, dtype=np.int16), np.arange(6.0)
    first, second = memory.alloc(a), memory.alloc(b)
    assert first % 256 == second % 256 == 0 and second > first + a.nbytes
    assert memory.read(first + 2, 4) == a[1:3].tobytes()
    assert memory.array(second) is b
    a[1] = 99
    assert memory.read(first + 2, 2) == b"\x63\x00"


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (10, 1), (8, 4), (0, 11)])
def test_reading_outside_an_allocation_is_an_error(offset: int, size: int) -> None:
    memory = GlobalMemory()
    base = memory.alloc(np.zeros(5, np.int16))
    with pytest.raises(TilegenError, match="lie in no allocation") as caught:
        memory.read(base + offset, size)
    assert caught.value.diagnostics[0].code == "EMULATED_ADDRESS"
    assert f"{base + offset:#x}" in str(caught.value)


def test_no_array_starts_inside_another() -> None:
    memory = GlobalMemory()
    base = memory.alloc(np.zeros(5, np.int16))
    with pytest.raises(TilegenError, match="no allocation starts at"):
        memory.array(base + 2)


def test_alloc_refuses_strided_arrays() -> None:
    with pytest.raises(ValueError, match="C-contiguous"):
        GlobalMemory().alloc(np.zeros((4, 4))[:, ::2])


def test_widths_and_vectors() -> None:
    source = np.random.default_rng(1).integers(0, 256, 32 * 16, dtype=np.uint8)
    out = np.zeros((32, 8), np.int64)
    run(
        """extern "C" __global__ void k(const u8* p, s64* o) {
          u32 t = threadIdx.x; const u8* q = p + 16 * t; o += 8 * t;
          o[0] = *(const signed char*)q; o[1] = q[1]; o[2] = *(const s16*)(q + 2); o[3] = *(const u16*)(q + 4);
          uint4 v = *(const uint4*)q; o[4] = v.x ^ v.w; ushort4 h = *(const ushort4*)(q + 8); o[5] = h.x + h.w;
          o[6] = __ldg((const s64*)q); uint2 w = __ldg((const uint2*)(q + 8)); o[7] = w.y;
        }""",
        source,
        out,
    )
    rows = source.reshape(32, 16)
    words = rows.view(np.uint32)
    halves = rows.view(np.uint16)
    wanted = [
        rows[:, 0].view(np.int8), rows[:, 1], halves[:, 1].view(np.int16), halves[:, 2],
        (words[:, 0] ^ words[:, 3]).astype(np.int64), halves[:, 4].astype(np.int64) + halves[:, 7],
        rows.view(np.int64)[:, 0], words[:, 3],
    ]  # fmt: skip
    for i, column in enumerate(wanted):
        assert np.array_equal(out[:, i], column), i


def test_generic_addresses_reach_every_space() -> None:
    out = np.zeros(64, np.uint32)
    run(
        """__device__ u32 table[4] = {10, 20, 30, 40}; __constant__ u32 fixed[2] = {7, 8};
        __device__ __noinline__ u32 get(const u32* p) { return *p; }
        extern "C" __global__ void k(u32* o, const __grid_constant__ u32 n) {
          __shared__ u32 s[64]; u32 local[2]; u32 t = threadIdx.x; s[t] = 100 + t; local[t & 1] = 200 + t; local[1 - (t & 1)] = 0;
          const u32* p = t % 5 == 0 ? &table[t % 4] : t % 5 == 1 ? &fixed[t & 1] : t % 5 == 2 ? &s[t] : t % 5 == 3 ? &local[t & 1] : &n;
          o[t] = get(p);
        }""",
        out,
        555,
        block=64,
    )
    for t in range(64):
        assert out[t] == [[10, 20, 30, 40][t % 4], [7, 8][t & 1], 100 + t, 200 + t, 555][t % 5]


def test_static_and_dynamic_shared_memory_do_not_overlap() -> None:
    out = np.zeros(4, np.uint32)
    run(
        """extern __shared__ __align__(1024) u8 dynamic[];
        extern "C" __global__ void k(u32* o) {
          __shared__ u32 fixed[3]; fixed[threadIdx.x % 3] = 1; dynamic[threadIdx.x] = 2; __syncthreads();
          u32 size; asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
          o[0] = shared(dynamic) % 1024; o[1] = size; o[2] = fixed[0] + fixed[1] + fixed[2]; o[3] = shared(dynamic) - shared(fixed) >= 12;
        }""",
        out,
        shared=2048,
    )
    assert out.tolist() == [0, 2048, 3, 1]


def test_unwritten_shared_memory_is_poison() -> None:
    out = np.zeros(32, np.float32)
    run(
        """extern "C" __global__ void k(float* o) { __shared__ float s[64]; s[threadIdx.x] = 1; __syncthreads();
        o[threadIdx.x] = s[threadIdx.x * 2 % 64] + s[threadIdx.x]; }""",
        out,
    )
    assert np.array_equal(out[:16], np.full(16, 2)) and np.isnan(out[16:]).all()


def test_atomics_return_old_values_in_thread_order() -> None:
    counter, floats, old = np.zeros(4, np.uint32), np.zeros(1, np.float32), np.zeros(64, np.uint32)
    run(
        """extern "C" __global__ void k(u32* c, float* f, u32* o) {
          u32 t = threadIdx.x; o[t] = atomicAdd(c, t); atomicMax((int*)c + 1, (int)t - 5); atomicAdd(f, 0.5f);
          atomicCAS(c + 2, t, t + 1); atomicInc(c + 3, 9);
        }""",
        counter,
        floats,
        old,
        block=64,
    )
    assert old.tolist() == [t * (t - 1) // 2 for t in range(64)]
    assert counter.tolist() == [64 * 63 // 2, 58, 64, 64 % 10]
    assert floats[0] == 32


def test_async_copies_fill_with_zero() -> None:
    source, out = np.arange(1, 129, dtype=np.uint32), np.zeros(128, np.uint32)
    run(
        """extern "C" __global__ void k(const u32* p, u32* o) {
          __shared__ __align__(16) u32 s[128]; u32 t = threadIdx.x;
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(shared(s + 4 * t)), "l"(p + 4 * t), "r"(t % 5 * 4));
          asm volatile("cp.async.commit_group; cp.async.wait_group 0;"); __syncthreads();
          for (int i = 0; i < 4; ++i) o[4 * t + i] = s[4 * t + i];
        }""",
        source,
        out,
    )
    wanted = source.reshape(32, 4).copy()
    for t in range(32):
        wanted[t, t % 5 :] = 0
    assert np.array_equal(out.reshape(32, 4), wanted)


def test_async_copies_land_when_they_are_signalled_or_waited_for() -> None:
    """Of two warps only one signals: until then, and in the other, the bytes are poison."""
    source, out = np.arange(1, 65, dtype=np.uint32), np.zeros((4, 64), np.uint32)
    run(
        """extern "C" __global__ void k(const u32* p, u32* o) {
          __shared__ __align__(16) u32 s[64]; __shared__ __align__(8) u64 bar; u32 t = threadIdx.x;
          if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" :: "r"(shared(&bar)));
          s[t] = 7; __syncthreads();
          asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared(s + t)), "l"(p + t) : "memory");
          o[t] = s[t];
          if (t < 32) asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(shared(&bar)) : "memory");
          asm volatile("{ .reg .pred q; w: mbarrier.try_wait.parity.shared::cta.b64 q, [%0], 0; @!q bra w; }" :: "r"(shared(&bar)) : "memory");
          o[64 + t] = s[t ^ 32];
          __syncthreads();
          asm volatile("cp.async.wait_all;" ::: "memory");
          o[128 + t] = s[t]; __syncthreads();
          o[192 + t] = s[t ^ 32];
        }""",
        source,
        out,
        block=64,
    )
    poison = np.full(32, 0xFFFFFFFF)
    assert np.array_equal(out[0], np.concatenate([poison, poison]))
    assert np.array_equal(out[1], np.concatenate([poison, source[:32]]))
    assert np.array_equal(out[2], source)
    assert np.array_equal(out[3], np.roll(source, 32))


def test_bulk_copies_signal_their_bytes() -> None:
    source, out = np.random.default_rng(2).integers(0, 1 << 32, 64, dtype=np.uint32), np.zeros(64, np.uint32)
    run(
        """extern "C" __global__ void k(const u32* p, u32* o) {
          __shared__ __align__(128) u32 s[64]; __shared__ __align__(8) u64 bar;
          if (threadIdx.x == 0) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared(&bar)));
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(shared(&bar)));
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
              :: "r"(shared(s)), "l"(p), "r"(shared(&bar)));
          }
          __syncthreads();
          asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W; }" :: "r"(shared(&bar)));
          s[threadIdx.x] ^= 1; s[threadIdx.x + 32] ^= 2; __syncthreads();
          if (threadIdx.x == 0) asm volatile("fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" :: "l"(o), "r"(shared(s)));
        }""",
        source,
        out,
    )
    assert np.array_equal(out, source ^ np.repeat([1, 2], 32).astype(np.uint32))


def test_module_variables_hold_their_initial_values() -> None:
    variables = module_of(
        "__device__ u16 a[3] = {1, 2, 65535}; __device__ float f = 1.5f; __device__ void* p = &a;"
    ).variables
    assert variables["a"].init == b"\x01\x00\x02\x00\xff\xff" and variables["f"].init == b"\x00\x00\xc0\x3f"
    out = np.zeros(1, np.uint16)
    run(
        '__device__ u16 a[3] = {1, 2, 65535}; __device__ u16* p = a + 1; extern "C" __global__ void k(u16* o) { *o = p[1] + p[0]; }',
        out,
        block=1,
    )
    assert out[0] == 1


def test_the_shared_memory_of_another_kernel_takes_no_room() -> None:
    """Each may fill most of what a CTA has, and starts where it would alone."""
    source = """extern "C" __global__ void k(u32* o) {
      extern __shared__ u32 more[]; __shared__ u32 own; own = 7; more[57000] = 5; o[0] = shared(&own); o[1] = own + more[57000]; }
    extern "C" __global__ void other(u32* o) { __shared__ u32 s[12000]; s[o[0]] = 1; __syncthreads(); o[1] = s[o[2]]; }
    """
    out = np.zeros(2, np.uint32)
    run(source, out, block=1, shared=230000)
    assert out.tolist() == [1024, 12]
    given = np.array([11999, 0, 11999], np.uint32)
    run(source, given, block=1, entry="other")
    assert given[1] == 1
