"""Instructions of a warp's lanes together."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.support import run


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(mode: str, width: int) -> None:
    out = np.zeros((128, 2), np.uint32)
    clamp = ((32 - width) << 8) | (0 if mode == "up" else 31)
    run(
        f"""extern "C" __global__ void k(uint2* o) {{
          u32 t = threadIdx.x, by = (t * 5 + 1) % 11, d, p;
          asm volatile("{{ .reg .pred p; shfl.sync.{mode}.b32 %0|p, %2, %3, %4, -1; selp.b32 %1, 1, 0, p; }}"
            : "=r"(d), "=r"(p) : "r"(t * 3), "r"(by), "r"({clamp}));
          o[t] = make_uint2(d, p);
        }}""",
        out,
        block=128,
    )
    for t in range(128):
        lane, by = t % 32, (t * 5 + 1) % 11
        first = lane // width * width
        source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": first + by % width}[mode]
        # bfly may read a lower segment: only the upper end is checked by the hardware.
        inside = source >= first if mode == "up" else source <= first + width - 1
        assert out[t].tolist() == [3 * (t - lane + (source if inside else lane)), int(inside)], (t, mode)


def test_votes_and_ballots_with_member_masks() -> None:
    out = np.zeros((64, 4), np.uint32)
    run(
        """extern "C" __global__ void k(uint4* o) {
          u32 t = threadIdx.x; bool q = (t % 5) == 2;
          u32 ballot = __ballot_sync(~0u, q); u32 any = __any_sync(~0u, t == 40); u32 all = __all_sync(~0u, t < 32);
          u32 half = 0;
          if (t & 1) half = __ballot_sync(0xAAAAAAAAu, q); else half = __ballot_sync(0x55555555u, !q);
          o[t] = make_uint4(ballot, any * 2 + all, half, __activemask());
        }""",
        out,
        block=64,
    )
    for t in range(64):
        warp = range(t // 32 * 32, t // 32 * 32 + 32)
        ballot = sum((w % 5 == 2) << w % 32 for w in warp)
        half = sum(((w % 5 == 2) == bool(t & 1)) << w % 32 for w in warp if (w ^ t) & 1 == 0)
        assert out[t].tolist() == [ballot, 2 * (t >= 32) + (t < 32), half, 0xFFFFFFFF]


def test_reductions_matches_and_election() -> None:
    out = np.zeros((64, 4), np.uint32)
    run(
        """extern "C" __global__ void k(uint4* o) {
          u32 t = threadIdx.x, m; int mn;
          asm volatile("redux.sync.min.s32 %0, %1, -1;" : "=r"(mn) : "r"((int)(t * 7 % 31) - 15));
          u32 r = __reduce_add_sync(~0u, t) ^ __reduce_or_sync(~0u, t << 4);
          asm volatile("match.any.sync.b32 %0, %1, -1;" : "=r"(m) : "r"(t % 6));
          u32 d, p; asm volatile("{ .reg .pred p; elect.sync %0|p, -1; selp.b32 %1, 1, 0, p; }" : "=r"(d), "=r"(p));
          o[t] = make_uint4((u32)mn, r, m, d * 2 + p);
        }""",
        out,
        block=64,
    )
    for t in range(64):
        warp = range(t // 32 * 32, t // 32 * 32 + 32)
        total, bits = sum(warp), 0
        for w in warp:
            bits |= w << 4
        same = sum(1 << w % 32 for w in warp if w % 6 == t % 6)
        least = min(w * 7 % 31 - 15 for w in warp)
        assert out[t].tolist() == [least & 0xFFFFFFFF, total ^ bits, same, int(t % 32 == 0)]


def test_match_all() -> None:
    out = np.zeros((64, 2), np.uint32)
    run(
        """extern "C" __global__ void k(uint2* o) {
          u32 t = threadIdx.x, m, p; u64 v = t < 32 ? 77 : t / 48;
          asm volatile("{ .reg .pred p; match.all.sync.b64 %0|p, %2, -1; selp.b32 %1, 1, 0, p; }" : "=r"(m), "=r"(p) : "l"(v));
          o[t] = make_uint2(m, p);
        }""",
        out,
        block=64,
    )
    assert np.all(out[:32] == [0xFFFFFFFF, 1]) and not out[32:].any()


def test_half_a_warp_shuffles_while_the_other_half_is_elsewhere() -> None:
    out = np.zeros(32, np.uint32)
    run(
        """extern "C" __global__ void k(u32* o) {
          u32 t = threadIdx.x, x = t;
          if (t < 16) { for (int i = 8; i; i >>= 1) x += __shfl_xor_sync(0xFFFF, x, i); }
          else x = 1000 + t;
          o[t] = x;
        }""",
        out,
    )
    assert out.tolist() == [120] * 16 + [1000 + t for t in range(16, 32)]
