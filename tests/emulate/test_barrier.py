"""Named barriers, mbarriers, register reallocation."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import numpy as np

from tests.emulate.device import DEVICE
from tests.emulate.support import run


def test_arrivals_and_bytes_complete_a_phase() -> None:
    out = np.zeros(16, np.uint32)
    run(
        DEVICE
        + """extern "C" __global__ void k(u32* o) {
          __shared__ __align__(8) u64 b; u32 a = shared(&b); int n = 0;
          init(a, 2);
          o[n++] = test(a, 1); o[n++] = test(a, 0);                // a fresh barrier: the phase before counts as done
          arrive(a); o[n++] = test(a, 0);                          // one of two
          asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 32;" :: "r"(a));   // bytes may come first
          expect(a, 48); o[n++] = test(a, 0);                      // all arrivals, 16 bytes missing
          asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 16;" :: "r"(a));
          o[n++] = test(a, 0); o[n++] = test(a, 1);                // phase 0 done, phase 1 running
          asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 8;" :: "r"(a));
          asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 2;" :: "r"(a)); o[n++] = test(a, 1);
          asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 8;" :: "r"(a)); o[n++] = test(a, 1);
          u64 state, later; u32 r;
          asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(a));
          asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "r"(a), "l"(state)); o[n++] = r;
          asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1];" : "=l"(later) : "r"(a));
          asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "r"(a), "l"(state)); o[n++] = r;
          arrive(a); o[n++] = test(a, 1);                          // after the drop one arrival is enough
          asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(a));
          init(a, 1); o[n++] = test(a, 0);
        }""",
        out,
        block=1,
    )
    assert out[:12].tolist() == [1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0]


def test_a_ring_of_two_stages_carries_values_in_order() -> None:
    out = np.zeros(20, np.uint32)
    run(
        DEVICE
        + """extern "C" __global__ void k(u32* o) {
          __shared__ __align__(8) u64 full[2], empty[2]; __shared__ u32 slot[2]; u32 t = threadIdx.x;
          if (t == 0) for (int i = 0; i < 2; ++i) { init(shared(full + i), 1); init(shared(empty + i), 32); }
          __syncthreads();
          if (t >= 128) {
            if (t == 128) for (int i = 0; i < 20; ++i) {
              wait(shared(empty + i % 2), (i / 2 & 1) ^ 1); slot[i % 2] = i * i; arrive(shared(full + i % 2)); }
          } else if (t < 32) for (int i = 0; i < 20; ++i) {
            wait(shared(full + i % 2), i / 2 & 1); u32 x = slot[i % 2]; arrive(shared(empty + i % 2)); if (t == 7) o[i] = x; }
        }""",
        out,
        block=160,
    )
    assert out.tolist() == [i * i for i in range(20)]


def test_lanes_that_wait_for_different_barriers_part_and_meet() -> None:
    out = np.zeros(64, np.uint32)
    run(
        DEVICE
        + """extern "C" __global__ void k(u32* o) {
          __shared__ __align__(8) u64 b[2]; u32 t = threadIdx.x;
          if (t == 0) { init(shared(b), 1); init(shared(b + 1), 1); } __syncthreads();
          if (t < 32) { wait(shared(b + (t & 1)), 0); o[t] = 1 + __shfl_xor_sync(~0u, t, 1); }
          else if (t == 40) { arrive(shared(b + 1)); arrive(shared(b)); }
        }""",
        out,
        block=64,
    )
    assert out[:32].tolist() == [1 + (t ^ 1) for t in range(32)]


def test_try_wait_gives_up_where_nothing_else_can_run() -> None:
    # A peek without a loop must come back with false, as it does on the hardware after its time limit.
    out = np.full(1, 9, np.uint32)
    run(
        DEVICE
        + """extern "C" __global__ void k(u32* o) { __shared__ __align__(8) u64 b; init(shared(&b), 1); u32 r;
          asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "r"(shared(&b)));
          o[0] = r; }""",
        out,
        block=1,
    )
    assert out[0] == 0


def test_named_barriers_take_turns() -> None:
    # Ping-pong of two warpgroups: each appends in its own turn.
    out = np.zeros(16, np.uint32)
    run(
        DEVICE
        + """extern "C" __global__ void k(u32* o) {
          __shared__ u32 n; u32 wg = threadIdx.x / 128; if (threadIdx.x == 0) n = 0; __syncthreads();
          if (wg == 1) bar_arrive(1, 256);
          for (int i = 0; i < 8; ++i) {
            bar_sync(1 + wg, 256);
            if (threadIdx.x % 128 == 0) { o[n] = wg * 100 + i; n = n + 1; } bar_sync(3 + wg, 128);
            bar_arrive(1 + (wg ^ 1), 256);
          }
          if (wg == 0) bar_sync(1, 256);
        }""",
        out,
        block=256,
    )
    assert out.tolist() == [wg * 100 + i for i in range(8) for wg in range(2)]


def test_barrier_reductions() -> None:
    out = np.zeros((96, 3), np.uint32)
    run(
        """extern "C" __global__ void k(u32* o) {
          u32 t = threadIdx.x; o += 3 * t; o[0] = __syncthreads_count(t % 3 == 0); o[1] = __syncthreads_and(t < 95); o[2] = __syncthreads_or(t == 77);
        }""",
        out,
        block=96,
    )
    assert np.array_equal(out[:, 0], np.full(96, 32)) and not out[:, 1].any() and (out[:, 2] != 0).all()


def test_cluster_barrier_of_one() -> None:
    out = np.zeros(64, np.uint32)
    run(
        """extern "C" __global__ void k(u32* o) {
          __shared__ u32 s[64]; s[threadIdx.x] = threadIdx.x; asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
          asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); o[threadIdx.x] = s[63 - threadIdx.x];
          u32 r, a; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(a) : "r"(shared(s)));
          o[threadIdx.x] += r + (a != shared(s));
        }""",
        out,
        block=64,
    )
    assert out.tolist() == list(range(63, -1, -1))


def test_registers_move_from_the_producer_to_the_consumers() -> None:
    out = np.zeros(3, np.uint32)
    run(
        """extern "C" __global__ void __launch_bounds__(384, 1) k(u32* o) {
          u32 wg = threadIdx.x / 128;
          if (wg == 2) { for (int i = 0; i < 50; ++i) asm volatile("nanosleep.u32 1;"); asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }
          else asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
          if (threadIdx.x % 128 == 0) o[wg] = 1;
        }""",
        out,
        block=384,
    )
    assert out.tolist() == [1, 1, 1]
