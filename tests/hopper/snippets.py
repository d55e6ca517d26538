"""Small CUDA texts that the tests of the Hopper target compile."""

from __future__ import annotations

SAXPY = """extern "C" __global__ void saxpy(float* y, const float* x, float a, int n) {
#line 5 "axpy.tile"
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#line 6 "axpy.tile"
  if (i < n) y[i] = a * x[i] + y[i];
#line 5 "saxpy.cu"
}
"""

MMA = """typedef unsigned long long u64;
typedef unsigned u32;
#define MMA8(d, a, b) asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 " \\
  "{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b))
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")
"""

# A streamed loop with two products a step; the second runs while the exponentials of the first are computed,
# kept there by the basic-block edge of a barrier wait.
STREAM = (
    MMA
    + """
#define MMA8_ZERO(d, a, b) asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 " \\
  "{%0, %1, %2, %3}, %4, %5, 0, 1, 1, 0, 0;" : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]) : "l"(a), "l"(b))
extern "C" __global__ void __launch_bounds__(128, 1) stream(float* p, u64 a, u64 b, int n) {
  float s[4], o[4] = {0, 0, 0, 0}, e[4] = {p[0], p[1], p[2], p[3]};
  #pragma unroll 1
  for (int i = 0; i < n; ++i) {
    FENCE();
    MMA8_ZERO(s, a + i, b);
    COMMIT();
    FENCE();
    MMA8(o, a + 64, b + i);
    COMMIT();
    asm volatile("wgmma.wait_group.sync.aligned 1;" : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) :: "memory");
#line 30 "stream.tile"
    for (int j = 0; j < 4; ++j) asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(e[j]) : "f"(s[j] + e[j]));
#line 31 "stream.tile"
    asm volatile("{ .reg .pred q; TRY: mbarrier.try_wait.parity.shared::cta.b64 q, [%0], %1; @!q bra TRY; }"
                 :: "r"(64), "r"(i & 1) : "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(o[0]), "+f"(o[1]), "+f"(o[2]), "+f"(o[3]) :: "memory");
  }
  for (int j = 0; j < 4; ++j) p[threadIdx.x * 8 + j] = o[j] + e[j];
}
"""
)
