"""Divergence, loops, calls, tables of targets, special registers."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.support import run


def test_diverged_lanes_meet_again() -> None:
    # Nested branches and a loop whose trip count differs from lane to lane; the shuffle at the end needs all lanes.
    out = np.zeros(256, np.uint32)
    report = run(
        """extern "C" __global__ void k(u32* o) {
          u32 t = threadIdx.x, x = 0;
          if (t & 1) { if (t & 2) x = 7 * t; else for (u32 i = 0; i < t; ++i) { x += i ^ t; if (x > 5000) break; } }
          else { for (u32 i = t; i; i >>= 1) x = x * 3 + (i & 1); }
          x += __shfl_xor_sync(~0u, x, 1);
          o[t] = x;
        }""",
        out,
        block=256,
    )

    def lane(t: int) -> int:
        x = 0
        if t & 1:
            if t & 2:
                return 7 * t
            for i in range(t):
                x += i ^ t
                if x > 5000:
                    break
        else:
            i = t
            while i:
                x = x * 3 + (i & 1)
                i >>= 1
        return x

    values = [lane(t) for t in range(256)]
    assert out.tolist() == [(values[t] + values[t ^ 1]) & 0xFFFFFFFF for t in range(256)]
    # Eight warps shuffle once each: they met before.
    assert report.count("shfl") == 8


def test_a_converged_warpgroup_runs_each_instruction_once() -> None:
    out = np.zeros(512, np.uint32)
    report = run('extern "C" __global__ void k(u32* o) { o[threadIdx.x] = threadIdx.x * 3; }', out, block=512)
    assert np.array_equal(out, np.arange(512) * 3)
    assert report.count("st.global") == 16
    assert report.steps < 4 * 30


def test_spinning_lane_lets_its_neighbour_write() -> None:
    # Lane 0 polls a flag in shared memory that lane 1 of the same warp sets: each needs a turn.
    out = np.zeros(32, np.uint32)
    run(
        """extern "C" __global__ void k(u32* o) {
          __shared__ volatile u32 flag; if (threadIdx.x == 0) flag = 0; __syncwarp();
          if (threadIdx.x == 0) { while (flag == 0) {} o[0] = 5; }
          else if (threadIdx.x == 1) { o[1] = 6; flag = 1; }
        }""",
        out,
    )
    assert out[:2].tolist() == [5, 6]


def test_device_functions_take_and_return_values() -> None:
    out = np.zeros(64, np.uint64)
    run(
        """struct P { u32 a; u64 b; };
        __device__ __noinline__ u32 inner(u32 x) { return x * x + 1; }
        __device__ __noinline__ P outer(u32 x, u64 y) { P p; p.a = inner(x) + inner(x + 1); p.b = y - x; return p; }
        extern "C" __global__ void k(u64* o) {
          u32 t = threadIdx.x; u64 r = 9;
          if (t % 3) { P p = outer(t, 1000); r = p.a + p.b; }
          o[t] = r;
        }""",
        out,
        block=64,
    )
    wanted = [9 if t % 3 == 0 else t * t + 1 + (t + 1) ** 2 + 1 + 1000 - t for t in range(64)]
    assert out.tolist() == wanted


def test_switch_and_local_arrays() -> None:
    out = np.zeros(128, np.uint32)
    run(
        """extern "C" __global__ void k(u32* o, u32 n) {
          u32 a[8]; u32 t = threadIdx.x;
          for (u32 i = 0; i < 8; ++i) a[i] = t + i * n;
          for (u32 i = 0; i < t % 5; ++i) { u32 x = a[(i + t) % 8]; a[(i + t) % 8] = a[(i * 3) % 8]; a[(i * 3) % 8] = x; }
          u32 x = a[t % 8];
          switch (t % 9) { case 0: x += 3; break; case 1: x *= 5; break; case 2: x ^= 17; break; case 3: x -= 1; break;
            case 4: x |= 64; break; case 5: x = ~x; break; case 6: x <<= 3; break; case 7: x >>= 1; break; default: x = 0; }
          o[t] = x;
        }""",
        out,
        11,
        block=128,
    )
    for t in range(128):
        a = [t + i * 11 for i in range(8)]
        for i in range(t % 5):
            p, q = (i + t) % 8, i * 3 % 8
            a[p], a[q] = a[q], a[p]
        x = a[t % 8]
        cases = [x + 3, x * 5, x ^ 17, x - 1, x | 64, ~x, x << 3, x >> 1, 0]
        assert out[t] == cases[t % 9] & 0xFFFFFFFF, t


def test_special_registers_and_grid_order() -> None:
    out = np.zeros((2, 3, 2, 32, 4), np.uint32)
    run(
        """extern "C" __global__ void k(uint4* o) {
          u32 t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
          u32 b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
          u32 lane, warp, lt; asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane)); asm("mov.u32 %0, %%warpid;" : "=r"(warp));
          asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
          o[b * 32 + t] = make_uint4(b, threadIdx.y * 10 + threadIdx.z, lane + 100 * warp, lt);
        }""",
        out,
        grid=(2, 3, 2),
        block=(4, 2, 4),
    )
    flat = out.reshape(12, 32, 4)
    t = np.arange(32)
    assert np.array_equal(flat[..., 0], np.repeat(np.arange(12), 32).reshape(12, 32))
    assert np.array_equal(flat[0, :, 1], t // 4 % 2 * 10 + t // 8)
    assert np.array_equal(flat[5, :, 2], t)
    assert np.array_equal(flat[5, :, 3], (1 << t) - 1)


@pytest.mark.parametrize("threads", [1, 31, 33, 127, 129, 200])
def test_ragged_blocks(threads: int) -> None:
    out = np.zeros(256, np.uint32)
    run(
        """extern "C" __global__ void k(u32* o) {
          __shared__ u32 s[256]; s[threadIdx.x] = threadIdx.x + 1; __syncthreads();
          u32 sum = 0; for (u32 i = 0; i < blockDim.x; ++i) sum += s[i]; o[threadIdx.x] = sum;
        }""",
        out,
        block=threads,
    )
    assert np.all(out[:threads] == threads * (threads + 1) // 2) and not out[threads:].any()


def test_early_exit_does_not_hold_up_a_barrier() -> None:
    out = np.zeros(128, np.uint32)
    run(
        """extern "C" __global__ void k(u32* o) {
          __shared__ u32 s; if (threadIdx.x >= 64) return; if (threadIdx.x == 5) s = 42; __syncthreads(); o[threadIdx.x] = s;
        }""",
        out,
        block=128,
    )
    assert np.all(out[:64] == 42) and not out[64:].any()


def test_clock_moves_forward() -> None:
    out = np.zeros(2, np.uint64)
    run(
        """extern "C" __global__ void k(u64* o) { u64 a, b; asm volatile("mov.u64 %0, %%clock64;" : "=l"(a));
        __syncthreads(); asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(b)); o[0] = a; o[1] = b; }""",
        out,
        block=1,
    )
    assert out[1] > out[0]


def _random_block(rng: np.random.Generator, depth: int, indent: str) -> tuple[str, str]:
    """The same random statements on x, as CUDA and as Python."""
    c, python = "", ""
    for _ in range(int(rng.integers(1, 4))):
        a, b, s = (int(v) for v in rng.integers(1, 29, 3))
        kind = int(rng.integers(0, 5)) if depth else 0
        if kind in (0, 4):
            c += f"x = (x * {a} + {b}) ^ (x >> {s});\n"
            python += f"{indent}x = ((x * {a} + {b}) ^ (x >> {s})) & M\n"
        elif kind == 1:
            (c1, p1), (c2, p2) = (_random_block(rng, depth - 1, indent + " ") for _ in range(2))
            c += f"if ((x >> {s}) & 1) {{\n{c1}}} else {{\n{c2}}}\n"
            python += f"{indent}if x >> {s} & 1:\n{p1}{indent}else:\n{p2}"
        elif kind == 2:
            c1, p1 = _random_block(rng, depth - 1, indent + " ")
            i = f"i{depth}"
            c += f"for (u32 {i} = 0; {i} < ((x >> {s}) & 3); ++{i}) {{\n{c1} if ((x & 15) == {a % 16}) break;\n}}\n"
            python += f"{indent}{i} = 0\n{indent}while {i} < (x >> {s} & 3):\n{p1}"
            python += f"{indent} if x & 15 == {a % 16}: break\n{indent} {i} += 1\n"
        else:
            c1, p1 = _random_block(rng, depth - 1, indent + " ")
            c += f"if (x % {a} == {b % a}) {{\n{c1} if (x & {s}) return finish(o, x);\n}}\n"
            python += f"{indent}if x % {a} == {b % a}:\n{p1}{indent} if x & {s}: return x\n"
    return c, python


@pytest.mark.parametrize("seed", range(6))
def test_random_control_flow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c, python = _random_block(rng, 4, " ")
    out = np.zeros(160, np.uint32)
    run(
        "__device__ __forceinline__ void finish(u32* o, u32 x) { o[threadIdx.x] = x; }\n"
        'extern "C" __global__ void k(u32* o) { u32 x = threadIdx.x * 2654435761u;\n' + c + "finish(o, x); }",
        out,
        block=160,
    )
    scope: dict[str, object] = {"M": 0xFFFFFFFF}
    exec(f"def model(x):\n{python} return x\n", scope)
    model = scope["model"]
    assert callable(model)
    assert out.tolist() == [model(t * 2654435761 & 0xFFFFFFFF) for t in range(160)]
