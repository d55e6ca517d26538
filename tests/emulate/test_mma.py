"""mma.sync, and copies in groups."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.emulate.support import run
from tilegen.diagnostics.core import TilegenError

TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


@pytest.mark.parametrize("kind", TYPES)
def test_mma(kind: str) -> None:
    """Two warps, by the manual's formulas of what each lane holds."""
    g, dtype = np.random.default_rng(1), TYPES[kind]
    a, b = (g.standard_normal(s).astype(dtype) for s in ((2, 16, 16), (2, 16, 8)))
    c = g.standard_normal((2, 16, 8)).astype(np.float32)
    fa, fb = np.zeros((64, 4, 2), dtype), np.zeros((64, 2, 2), dtype)
    fc, out = np.zeros((64, 4), np.float32), np.zeros((64, 4), np.float32)
    for t in range(64):
        w, group, q = t // 32, t % 32 // 4, t % 4
        for r in range(4):
            for h in range(2):
                fa[t, r, h] = a[w, group + 8 * (r % 2), 2 * q + h + 8 * (r // 2)]
            fc[t, r] = c[w, group + 8 * (r // 2), 2 * q + r % 2]
        for r in range(2):
            for h in range(2):
                fb[t, r, h] = b[w, 2 * q + h + 8 * r, group]
    run(
        f"""extern "C" __global__ void k(const u32* a, const u32* b, const float* c, float* d) {{
          u32 t = threadIdx.x; float r[4];
          for (int i = 0; i < 4; ++i) r[i] = c[4 * t + i];
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
            : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3])
            : "r"(a[4 * t]), "r"(a[4 * t + 1]), "r"(a[4 * t + 2]), "r"(a[4 * t + 3]), "r"(b[2 * t]), "r"(b[2 * t + 1]));
          for (int i = 0; i < 4; ++i) d[4 * t + i] = r[i];
        }}""",
        fa.view(np.uint32), fb.view(np.uint32), fc, out, block=64,
    )  # fmt: skip
    wanted = c + a.astype(np.float64) @ b.astype(np.float64)
    for t in range(64):
        for r in range(4):
            assert out[t, r] == pytest.approx(
                wanted[t // 32, t % 32 // 4 + 8 * (r // 2), 2 * (t % 4) + r % 2], abs=1e-5
            )


@pytest.mark.parametrize("form", ["m16n8k8.row.col.f32.bf16.bf16.f32", "m16n8k16.row.col.f16.f16.f16.f16"])
def test_other_forms_of_mma_are_refused(form: str) -> None:
    wide = form.startswith("m16n8k8")
    a = "{%1, %1}" if wide else "{%1, %1, %1, %1}"
    b = "{%1}" if wide else "{%1, %1}"
    d = "{%0, %0, %0, %0}" if wide else "{%0, %0}"
    kind = "f" if wide else "r"
    with pytest.raises(TilegenError, match="mma"):
        run(
            f"""extern "C" __global__ void k(u32* o) {{ {"float" if wide else "u32"} x = 0; u32 y = o[0];
            asm volatile("mma.sync.aligned.{form} {d}, {a}, {b}, {d};" : "+{kind}"(x) : "r"(y)); o[0] = x; }}""",
            np.zeros(4, np.uint32),
        )


@pytest.mark.parametrize(("pending", "there"), [(0, 3), (1, 2), (2, 1), (3, 0)])
def test_a_wait_lets_the_oldest_groups_land(pending: int, there: int) -> None:
    """Three groups, an empty one before the last, and a copy in no group: what is not awaited is poison."""
    data, out = np.arange(1, 5, dtype=np.uint32), np.zeros(4, np.uint32)
    empty = 'asm volatile("cp.async.commit_group;");'
    copy = 'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared(s + {n})), "l"(p + {n}) : "memory");'
    groups = "".join(copy.replace("{n}", str(n)) + empty for n in range(3)) + copy.replace("{n}", "3")
    run(
        f"""extern "C" __global__ void k(const u32* p, u32* o) {{
          __shared__ u32 s[4];
          {groups}
          asm volatile("cp.async.wait_group {pending};" ::: "memory");
          for (int n = 0; n < 4; ++n) o[n] = s[n];
          asm volatile("cp.async.wait_all;" ::: "memory");
        }}""",
        data, out, block=1,
    )  # fmt: skip
    assert out.tolist() == [*data[:there].tolist(), *[0xFFFFFFFF] * (4 - there)]
