"""Compares the GPU with the emulator, in the worker process: functions, products, whole kernels, tensor maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import torch
from torch import Tensor

from tests.gpu.tensors import DEVICE, TYPES, generator, kernel
from tests.runtime.kernels import kernel as small_kernel
from tilegen.bench.gpu_worker import finish
from tilegen.ir.plan import PointerParam, SizeParam
from tilegen.ir.uniform import evaluate, op
from tilegen.runtime import driver
from tilegen.runtime.kernel import Kernel
from tilegen.targets.hopper.tensor_map import TensorMap

TINY = 2.0**-126
_CHUNK = 1 << 27

# ---- approximate functions -----------------------------------------------------------------------


@cache
def _function(instruction: str) -> Kernel:
    """Y[N] = instruction(X[N]), element by element."""
    name = instruction.replace(".", "_")
    cuda = f"""
extern "C" __global__ void __launch_bounds__(128, 1) {name}(const float* x, float* y, int n) {{
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) {{
    float r;
    asm volatile("{instruction} %0, %1;" : "=f"(r) : "f"(x[i]));
    y[i] = r;
  }}
}}
"""
    tensors: dict[str, tuple[tuple[str, ...], bool]] = {"X": (("N",), False), "Y": (("N",), True)}
    params = (PointerParam("X"), PointerParam("Y"), SizeParam("N"))
    return small_kernel(name, cuda, tensors, params, op("ceildiv", "N", 128))


_EXACT: dict[str, Callable[[Tensor], Tensor]] = {
    "ex2": torch.exp2,
    "lg2": torch.log2,
    "rcp": torch.reciprocal,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "tanh": torch.tanh,
    "sin": torch.sin,
    "cos": torch.cos,
}


def function_error(instruction: str, *, absolute: tuple[float, float] | None, up_to: float | None, seed: int) -> float:
    """The largest error over all finite float32 inputs of magnitude up to `up_to`: relative, but absolute for inputs in
    the open interval `absolute`. Raises where NaN, infinities, zeros or flushed results are not what they should be."""
    name, ftz = instruction.split(".")[0], ".ftz" in instruction
    worst = 0.0
    for x in _inputs(seed):
        y = _function(instruction)(X=x)
        finish(instruction)
        flushed = torch.where(x.abs() < TINY, torch.copysign(torch.zeros_like(x), x), x) if ftz else x
        want = _EXACT[name](flushed.to(torch.float64))
        got = y.to(torch.float64)
        within = torch.ones_like(x, dtype=torch.bool) if up_to is None else x.abs() <= up_to
        _alike(instruction, x, got, want, within)
        normal = within & want.isfinite() & (want.abs() >= TINY) & got.isfinite()
        error = (got - want).abs()
        measured = error / want.abs()
        if absolute is not None:
            measured = torch.where((x > absolute[0]) & (x < absolute[1]), error, measured)
        worst = max(worst, float(torch.where(normal, measured, 0.0).max()))
    return worst


def _inputs(seed: int) -> Iterator[Tensor]:
    """Every float32 there is; in the emulator some of them."""
    if DEVICE == "cpu":
        yield torch.randint(-(2**31), 2**31, (4096,), generator=generator(seed)).to(torch.int32).view(torch.float32)
        return
    for start in range(-(2**31), 2**31, _CHUNK):
        yield torch.arange(start, start + _CHUNK, device=DEVICE).to(torch.int32).view(torch.float32)


def _alike(what: str, x: Tensor, got: Tensor, want: Tensor, within: Tensor) -> None:
    """NaN, infinities and what is too small for a normal number."""
    bad = {
        "NaN": want.isnan() & ~got.isnan(),
        "infinite": want.isinf() & (got != want),
        "finite": want.isfinite() & (want.abs() < 2.0**127) & ~got.isfinite(),
        "as small as the exact value": (want.abs() < TINY) & ((got - want).abs() > TINY),
    }
    for should, places in bad.items():
        places &= within
        assert not places.any(), (
            f"{what}({x[places][0].item()!r}) is {got[places][0].item()!r}, exactly {want[places][0].item()!r}: "
            f"{int(places.sum())} results that should be {should} are not"
        )


# ---- kernels -------------------------------------------------------------------------------------


def kernels_agree(build: str, *, sizes: dict[str, int], seed: int) -> dict[str, tuple[float, float]]:
    """One cubin and its PTX on the same inputs. For each output: the largest absolute difference, and the share of
    elements that differ at all. Infinities must agree."""
    k = kernel(build)
    plan = k.variant(**sizes).plan
    g = generator(seed)
    inputs = {
        t.name: torch.randn(tuple(evaluate(d, sizes) for d in t.dims), device=DEVICE, generator=g).to(
            TYPES[str(t.dtype)]
        )
        for t in plan.tensors
        if not t.output
    }
    on_gpu = k(**inputs)
    finish(f"a launch of {k.name}")
    emulated = k(**{name: t.cpu() for name, t in inputs.items()})
    names = [t.name for t in plan.tensors if t.output]
    pairs = [(on_gpu, emulated)] if len(names) == 1 else list(zip(on_gpu, emulated, strict=True))
    found = {}
    for name, (a, b) in zip(names, pairs, strict=True):
        a, b = a.cpu().to(torch.float64), b.to(torch.float64)
        assert torch.equal(a.isfinite(), b.isfinite()), f"{name} is finite in other places on the GPU"
        assert torch.equal(a[~a.isfinite()], b[~b.isfinite()]), f"{name} has other infinities on the GPU"
        away = torch.where(a.isfinite(), (a - b).abs(), 0.0)
        found[name] = (float(away.max()), float((away > 0).to(torch.float64).mean()))
    return found


def product_error(build: str, *, M: int, N: int, K: int, spread: int, seed: int) -> dict[str, float]:
    """Of a product into float32: the largest distance from the exact sum of the GPU and of the emulator, and between
    them, in units of 2^-24 times the sum of magnitudes. `spread`: binary orders of magnitude of the factors."""
    k = kernel(build)
    g = generator(seed)
    dtype = TYPES[str(k.variants[0].plan.tensor("A").dtype)]

    def factor(*shape: int) -> Tensor:
        scale = torch.rand(shape, device=DEVICE, generator=g).mul(spread).floor().exp2()
        return (torch.randn(shape, device=DEVICE, generator=g) * scale).to(dtype)

    a, b = factor(M, K), factor(K, N)
    on_gpu = k(A=a, B=b)
    finish(f"a launch of {k.name}")
    emulated = k(A=a.cpu(), B=b.cpu()).to(torch.float64)
    a, b = a.cpu().to(torch.float64), b.cpu().to(torch.float64)
    exact, unit = a @ b, (a.abs() @ b.abs()).clamp_min(1e-30) * 2.0**-24
    gpu = on_gpu.cpu().to(torch.float64)
    pairs = {"GPU": gpu - exact, "emulator": emulated - exact, "between": gpu - emulated}
    return {name: float((away.abs() / unit).max()) for name, away in pairs.items()}


# ---- tensor maps ---------------------------------------------------------------------------------


def tensor_map_differences(*, seed: int) -> list[str]:
    """Which 32-bit words of the upper half of the driver's maps are not those of TensorMap.to_bits; raises where one of
    the lower half is not. No random data: `seed` is ignored."""
    address = torch.empty(1 << 20, device=DEVICE).data_ptr()
    maps = [
        TensorMap("bf16", address, (128, 1000, 8, 3), (256, 256000, 2048000), (64, 80, 2, 1), swizzle=128),
        TensorMap("bf16", address, (64, 1, 1, 1), (16, 16, 16), (64, 192, 1, 1), swizzle=128, promotion=256),
        TensorMap("f16", address + 16, (128, 1000), (256,), (32, 80), swizzle=64, promotion=256),
        TensorMap("f16", address, (128, 4, 7, 2), (0, 256, 2**32), (64, 4, 1, 1), swizzle=128, promotion=128),
        TensorMap("f32", address, (40, 1000, 2), (176, 2**37), (8, 80, 1), (1, 3, 1), swizzle=32, fill="nan"),
        TensorMap("u8", address, (4096,), (), (256,), promotion=128),
        TensorMap("i32", address, (4, 5, 6, 7, 8), (16, 80, 480, 3360), (4, 5, 6, 7, 8), promotion=64),
    ]
    found = []
    for m in maps:
        theirs, ours = (np.frombuffer(bits, np.uint32) for bits in (driver.encode(m), m.to_bits()))
        assert theirs[:16].tolist() == ours[:16].tolist(), (
            f"{m}: the driver makes {theirs.tobytes().hex()}, not {ours.tobytes().hex()}"
        )
        assert TensorMap.from_bits(theirs.tobytes()) == m
        found += [
            f"{m.dtype} rank {m.rank}: word 0x{4 * n:02x} is {theirs[n]:08x} by the driver, {ours[n]:08x} here"
            for n in np.flatnonzero(theirs != ours)
        ]
    return found
