"""Clusters: who a thread is, shared memory of other CTAs, arrivals and boxes that go there, the cluster's barrier."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.device import DEVICE
from tests.emulate.support import run
from tilegen.diagnostics.core import TilegenError
from tilegen.emulate.memory import GlobalMemory
from tilegen.targets.hopper.tensor_map import TensorMap

CLUSTER = (
    DEVICE
    + """
DEV void meet() { asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory"); }
DEV u32 map(u32 a, u32 rank) { u32 r; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank)); return r; }
DEV u32 special_rank() { u32 r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
DEV void arrive_there(u32 b) { asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(b) : "memory"); }
"""
)


def test_each_thread_knows_its_place() -> None:
    out = np.zeros((4, 4, 8), np.uint32)  # by CTA (y, x)
    run(
        CLUSTER
        + """extern "C" __global__ void __cluster_dims__(2, 2, 1) k(u32* o) {
          u32 v[8];
          asm("mov.u32 %0, %%cluster_ctarank; mov.u32 %1, %%cluster_nctarank; mov.u32 %2, %%cluster_ctaid.x; mov.u32 %3, %%cluster_ctaid.y;" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]));
          asm("mov.u32 %0, %%clusterid.x; mov.u32 %1, %%clusterid.y; mov.u32 %2, %%nclusterid.x; mov.u32 %3, %%tid.x;" : "=r"(v[4]), "=r"(v[5]), "=r"(v[6]), "=r"(v[7]));
          if (threadIdx.x == 31) for (int i = 0; i < 8; ++i) o[8 * (blockIdx.y * gridDim.x + blockIdx.x) + i] = v[i];
        }""",
        out,
        grid=(4, 4, 1),
    )
    y, x = np.mgrid[:4, :4]
    wanted = [x % 2 + 2 * (y % 2), 4, x % 2, y % 2, x // 2, y // 2, 2, 31]
    assert np.array_equal(out, np.stack([np.broadcast_to(w, (4, 4)) for w in wanted], axis=2))


def test_shared_memory_of_other_ctas() -> None:
    out = np.zeros((6, 48), np.uint32)
    run(
        CLUSTER
        + """extern "C" __global__ void __cluster_dims__(3, 1, 1) k(u32* o) {
          __shared__ u32 s[48]; u32 t = threadIdx.x, rank = special_rank(), v, home;
          s[t] = 100 * blockIdx.x + t; meet();
          u32 there = map(shared(s + t), (rank + 1) % 3);
          asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(there) : "memory");
          asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(home) : "r"(there));
          o[48 * blockIdx.x + t] = v + 10000 * home; meet();
        }""",
        out,
        grid=6,
        block=48,
    )
    cta, t = np.mgrid[:6, :48]
    neighbour = cta // 3 * 3 + (cta + 1) % 3
    assert np.array_equal(out, 100 * neighbour + t + 10000 * (neighbour % 3))


def test_arrivals_from_other_ctas_and_warps_that_leave_early() -> None:
    out = np.zeros(2, np.uint32)
    run(
        CLUSTER
        + """extern "C" __global__ void __cluster_dims__(2, 1, 1) k(u32* o) {
          __shared__ u64 bar; u32 b = shared(&bar);
          if (threadIdx.x == 0) init(b, 2);
          meet();
          if (threadIdx.x == 32) { arrive_there(map(b, 0)); arrive_there(map(b, 1)); }
          if (threadIdx.x >= 64) return;
          wait(b, 0); meet();
          if (threadIdx.x == 0) o[blockIdx.x] = 1;
        }""",
        out,
        grid=2,
        block=96,
    )
    assert out.tolist() == [1, 1]


MULTICAST = (
    CLUSTER
    + """
extern __shared__ __align__(1024) u8 smem[];
extern "C" __global__ void __cluster_dims__(4, 1, 1) k(const __grid_constant__ TMap m, u32* o, u32 mask) {
  __shared__ __align__(8) u64 bar; u32 b = shared(&bar), rank = special_rank(), to = shared(smem);
  for (u32 i = threadIdx.x; i < 512; i += 32) ((u32*)smem)[i] = 7;
  if (threadIdx.x == 0) { init(b, 1); if (mask >> rank & 1) expect(b, 2048); else arrive(b); }
  meet();
  if (threadIdx.x == 0 && (rank == 0 || rank == 3))   // rows 0 to 7 and 8 to 15, to all of the mask
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
      :: "r"(to + 1024 * (rank / 3)), "l"(&m), "r"(b), "r"(0), "r"(8 * (rank / 3)), "h"((u16)mask) : "memory");
  wait(b, 0);
  for (u32 i = threadIdx.x; i < 512; i += 32) o[512 * blockIdx.x + i] = ((u32*)smem)[i];
  meet();
}
"""
)


@pytest.mark.parametrize("mask", [0b1111, 0b1010])
def test_boxes_for_several_ctas(mask: int) -> None:
    memory = GlobalMemory()
    tensor = np.arange(11 * 32, dtype=np.uint32).reshape(11, 32) + 1  # rows 11 to 15 are outside
    bits = TensorMap("u32", memory.alloc(tensor), (32, 11), (128,), (32, 8), swizzle=128).to_bits()
    out = np.zeros((8, 16, 8, 4), np.uint32)  # by CTA; chunks of 16 bytes
    run(MULTICAST, bits, out, mask, grid=8, shared=2048, memory=memory)
    tile = np.zeros((16, 8, 4), np.uint32)
    for row in range(11):
        for chunk in range(8):
            tile[row, chunk ^ row % 8] = tensor[row, 4 * chunk : 4 * chunk + 4]
    for cta in range(8):
        assert np.array_equal(out[cta], tile if mask >> cta % 4 & 1 else np.full_like(tile, 7)), cta


def failure(body: str, cluster: int = 2) -> str:
    source = CLUSTER + f'extern "C" __global__ void __cluster_dims__({cluster}, 1, 1) k(u32* o) {{ {body} }}'
    with pytest.raises(TilegenError) as caught:
        run(source, np.zeros(4, np.uint32), grid=cluster)
    return str(caught.value)


def test_a_cta_that_has_gone_is_not_reached() -> None:
    late = """__shared__ u64 bar; u32 b = shared(&bar); if (threadIdx.x == 0) init(b, 1); meet();
      if (special_rank() == 0) { for (int i = 0; i < 500; ++i) asm volatile("nanosleep.u32 1;"); %s }"""
    assert "CTA 1 of the cluster, which has ended" in failure(late % "if (threadIdx.x == 0) arrive_there(map(b, 1));")
    assert "CTA 1 of the cluster, which has ended" in failure(
        late
        % 'u32 v; asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(map(b, 1)) : "memory"); o[0] = v;'
    )
    assert "in CTA 2 of a cluster of 2" in failure(late % "if (threadIdx.x == 0) arrive_there(map(b, 2));")


def test_a_hang_tells_which_cta_waits() -> None:
    hanging = "__shared__ u64 bar; if (threadIdx.x == 0) init(shared(&bar), 1); meet(); if (special_rank()) wait(shared(&bar), 0); meet();"
    told = failure(hanging)
    assert "CTA (1, 0, 0), warp 0: waiting for parity 0" in told
    assert "CTA (0, 0, 0), warp 0: waiting at the cluster barrier" in told


@pytest.mark.parametrize("rank", [1, 4, 15])
@pytest.mark.parametrize("instruction", ["ldmatrix", "stmatrix"])
def test_matrices_lie_in_the_memory_of_their_own_cta(instruction: str, rank: int) -> None:
    """The rank of a CTA is in its addresses: others lead to another one's memory, or to none."""
    body = {
        "ldmatrix": 'asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(at));',
        "stmatrix": 'asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%1], {%0};" :: "r"(v), "r"(at) : "memory");',
    }[instruction]

    def launched(by: int) -> None:
        run(
            CLUSTER
            + f"""extern "C" __global__ void __cluster_dims__(2, 1, 1) k(u32 by) {{
              __shared__ __align__(128) u32 s[128]; u32 v = 0; u32 at = shared(s) + 16 * (threadIdx.x % 8) + by;
              if (special_rank() == 0) {{ {body} }} meet();
            }}""",
            by,
            grid=2,
        )

    launched(0)
    with pytest.raises(TilegenError, match="outside shared memory"):
        launched(rank << 18)
