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
