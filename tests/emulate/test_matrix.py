"""ldmatrix, stmatrix, movmatrix."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.support import run
from tilegen.diagnostics.core import TilegenError


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix(count: int, trans: bool) -> None:
    # Row r of matrix i lies at chunk (5 r + 3 i) of shared memory.
    data, out = np.arange(1024, dtype=np.uint16), np.zeros((64, count), np.uint32)
    regs = ", ".join(f"%{i}" for i in range(count))
    run(
        f"""extern "C" __global__ void k(const u32* p, u32* o) {{
          __shared__ __align__(128) u32 s[512]; u32 t = threadIdx.x, lane = t % 32, r[4];
          for (int i = t; i < 512; i += 64) s[i] = p[i]; __syncthreads();
          u32 a = shared(s) + 16 * (5 * (lane % 8) + 3 * (lane / 8) + 7 * (t / 32));
          asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}.shared.b16 {{{regs}}}, [%{count}];"
            : {", ".join(f'"=r"(r[{i}])' for i in range(count))} : "r"(a));
          for (int i = 0; i < {count}; ++i) o[{count} * t + i] = r[i];
        }}""",
        data.view(np.uint32),
        out,
        block=64,
    )
    chunks = data.reshape(-1, 8)
    for t in range(64):
        for i in range(count):
            matrix = np.stack([chunks[5 * r + 3 * i + 7 * (t // 32)] for r in range(8)])
            matrix = matrix.T if trans else matrix
            lane = t % 32
            pair = matrix[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
            assert out[t, i] == int(pair[0]) | int(pair[1]) << 16


@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix_undoes_ldmatrix(trans: bool) -> None:
    data, out = np.random.default_rng(1).integers(0, 1 << 32, 512, dtype=np.uint32), np.zeros(512, np.uint32)
    suffix = ".trans" if trans else ""
    run(
        f"""extern "C" __global__ void k(const u32* p, u32* o) {{
          __shared__ __align__(128) u32 s[512], d[512]; u32 t = threadIdx.x, r[4];
          for (int i = t; i < 512; i += 128) s[i] = p[i]; __syncthreads();
          u32 at = 16 * t;
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {{%0, %1, %2, %3}}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared(s) + at));
          asm volatile("stmatrix.sync.aligned.m8n8.x4{suffix}.shared::cta.b16 [%0], {{%1, %2, %3, %4}};" :: "r"(shared(d) + at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
          __syncthreads(); for (int i = t; i < 512; i += 128) o[i] = d[i];
        }}""",
        data,
        out,
        block=128,
    )
    matrices = data.view(np.uint16).reshape(-1, 8, 8)
    wanted = matrices.swapaxes(1, 2) if trans else matrices
    assert np.array_equal(out.view(np.uint16).reshape(-1, 8, 8), wanted)


def test_movmatrix_transposes() -> None:
    data, out = np.random.default_rng(2).integers(0, 1 << 32, 32, dtype=np.uint32), np.zeros(32, np.uint32)
    run(
        """extern "C" __global__ void k(const u32* p, u32* o) { u32 d;
          asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(p[threadIdx.x])); o[threadIdx.x] = d; }""",
        data,
        out,
    )
    assert np.array_equal(out.view(np.uint16).reshape(8, 8), data.view(np.uint16).reshape(8, 8).T)


@pytest.mark.parametrize(
    "text",
    [
        'asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(shared(s)));',
        'asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%1], {%0};" :: "r"(v), "r"(shared(s)) : "memory");',
        'asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(v) : "r"(v));',
    ],
    ids=["ldmatrix", "stmatrix", "movmatrix"],
)
def test_matrices_are_for_whole_warps(text: str) -> None:
    source = f"""extern "C" __global__ void k() {{
      __shared__ __align__(128) u32 s[128]; u32 v = 0; if (threadIdx.x == 7) return; {text}
    }}"""
    with pytest.raises(TilegenError, match="is for all 32 threads of a warp, and some have exited"):
        run(source)
