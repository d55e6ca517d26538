"""Small kernels with hand-written programs, plans and CUDA, for tests of everything between a call and a launch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilegen.ir.dtypes import DType
from tilegen.ir.plan import (
    Descriptor,
    MapDim,
    MapParam,
    Param,
    Plan,
    PointerParam,
    ScalarParam,
    SizeParam,
    StrideParam,
    TensorShape,
)
from tilegen.ir.poly import Poly
from tilegen.ir.tile import Apply, Constraint, Number, Scalar, Size, Symbol, Tensor, TileProgram
from tilegen.ir.uniform import Uniform, from_poly, op
from tilegen.runtime.kernel import Kernel
from tilegen.runtime.variants import Variant
from tilegen.syntax.span import Source, Span
from tilegen.targets.hopper.nvrtc import compile_cuda

SAMPLES = Path(__file__).parents[2] / "samples"
F32 = DType.F32


def at(line: int) -> Span:
    return Span("small.tile", line, 3, line, 20)


@dataclass(frozen=True)
class Built:
    plan: Plan
    cuda: str
    ptx: str
    cubin: bytes
    sass: str


def kernel(
    name: str,
    cuda: str,
    tensors: dict[str, tuple[tuple[str, ...], bool]],
    params: tuple[Param, ...],
    grid: Uniform,
    descriptors: tuple[Descriptor, ...] = (),
    scalars: tuple[Scalar, ...] = (),
    shared_bytes: int = 0,
) -> Kernel:
    """tensors: name → (sizes of its dimensions, whether it is an output); all f32."""
    declared = tuple(
        Tensor(n, F32, tuple(Poly.symbol(d) for d in dims), output, None, at(5 + k))
        for k, (n, (dims, output)) in enumerate(tensors.items())
    )
    sizes = tuple(Size(s, None, at(2)) for s in dict.fromkeys(d for dims, _ in tensors.values() for d in dims))
    program = TileProgram(
        name, (), sizes, scalars, declared, (), (), (), (), (), (), Source("small.tile", "kernel"), at(1)
    )  # fmt: skip
    plan = Plan(
        name=name,
        target="hopper",
        source_name="small.tile",
        params=params,
        tensors=tuple(TensorShape(t.name, F32, tuple(map(from_poly, t.dims)), t.output) for t in declared),
        descriptors=descriptors,
        buffers=(),
        rings=(),
        roles=(),
        threads=128,
        shared_bytes=shared_bytes,
        registers_at_entry=255,
        grid=grid,
    )
    compiled = compile_cuda(cuda, name)
    return Kernel(program, [Variant.of(Built(plan, cuda, compiled.ptx, compiled.cubin, ""))])


def scale() -> Kernel:
    """Y[M, N] = a * X[M, N] and R[M] = a, by plain loads and stores; a > 0, by default 1 / N."""
    cuda = """
extern "C" __global__ void __launch_bounds__(128, 1) scale(
    const float* x, long long x0, long long x1, float* y, long long y0, float* r, int m, int n, float a) {
  long long i = (long long)blockIdx.x * 128 + threadIdx.x;
  if (i < (long long)m * n) y[i / n * y0 + i % n] = a * x[i / n * x0 + i % n * x1];
  if (i < m) r[i] = a;
}
"""
    one_over_n = Apply("div", (Number(1.0, F32, at(3)), Symbol("N", F32, at(3))), F32, at(3))
    scalar = Scalar("a", F32, Constraint(">", 0.0, at(3)), one_over_n, at(3))
    params = (
        PointerParam("X"), StrideParam("X", 0), StrideParam("X", 1), PointerParam("Y"), StrideParam("Y", 0),
        PointerParam("R"), SizeParam("M"), SizeParam("N"), ScalarParam("a"),
    )  # fmt: skip
    tensors = {"X": (("M", "N"), False), "Y": (("M", "N"), True), "R": (("M",), True)}
    return kernel("scale", cuda, tensors, params, op("ceildiv", op("mul", "M", "N"), 128), scalars=(scalar,))


def padded_sum() -> Kernel:
    """Y[M] = the sum of the 64 x 32 boxes of X[M, N] along N, brought by TMA: what lies outside adds 0."""
    cuda = """
typedef unsigned u32;
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
extern __shared__ __align__(128) float tile[];
extern "C" __global__ void __launch_bounds__(128, 1) padded_sum(const __grid_constant__ TensorMap x, float* y, int m, int n) {
  __shared__ unsigned long long full;
  u32 bar = (u32)__cvta_generic_to_shared(&full), to = (u32)__cvta_generic_to_shared(tile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  float sum = 0;
  int parity = 0;
  for (int j = 0; j < n; j += 32, parity ^= 1) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 8192;" :: "r"(bar) : "memory");
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                   "[%0], [%1, {%2, %3}], [%4];"
                   :: "r"(to), "l"(&x), "r"(j), "r"((int)blockIdx.x * 64), "r"(bar) : "memory");
    }
    asm volatile("{ .reg .pred q; TRY: mbarrier.try_wait.parity.shared::cta.b64 q, [%0], %1; @!q bra TRY; }"
                 :: "r"(bar), "r"(parity) : "memory");
    if (threadIdx.x < 64) for (int k = 0; k < 32; ++k) sum += tile[threadIdx.x * 32 + k];
    __syncthreads();
  }
  int row = blockIdx.x * 64 + threadIdx.x;
  if (threadIdx.x < 64 && row < m) y[row] = sum;
}
"""  # noqa: E501
    descriptor = Descriptor("X", "X", (MapDim(1, 32), MapDim(0, 64)), 0, "zero", False, at(5))
    params = (MapParam("X"), PointerParam("Y"), SizeParam("M"), SizeParam("N"))
    tensors = {"X": (("M", "N"), False), "Y": (("M",), True)}
    return kernel(
        "padded_sum", cuda, tensors, params, op("ceildiv", "M", 64), (descriptor,), shared_bytes=8192
    )  # fmt: skip


def count() -> Kernel:
    """Y[M]: Y[i] = i, from nothing."""
    cuda = """
extern "C" __global__ void __launch_bounds__(128, 1) count(float* y, int m) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < m) y[i] = i;
}
"""
    params = (PointerParam("Y"), SizeParam("M"))
    return kernel("count", cuda, {"Y": (("M",), True)}, params, op("ceildiv", "M", 128))
