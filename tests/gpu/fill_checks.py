"""Kernels whose tiles hold NaN outside of their tensors, in the worker process."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.gpu.tensors import DEVICE, TYPES, generator, judge, kernel, place, run_twice, same_bits
from tilegen.bench.gpu_worker import finish
from tilegen.runtime.kernel import Kernel


def _type(k: Kernel) -> torch.dtype:
    return TYPES[str(k.variants[0].plan.tensor("X").dtype)]


def _random(k: Kernel, M: int, N: int, seed: int) -> Tensor:
    """Among NaN, so that what is read outside of it would be seen; such that f32 holds each difference exactly."""
    values = torch.randn((M, N), device=DEVICE, generator=generator(seed))
    return place((M, N), _type(k), "framed").fill((values * 256).round() / 256)


def _moved(x: Tensor, lag: int, dim: int) -> tuple[Tensor, Tensor]:
    """The entries that have one `lag` further on, and those."""
    n = max(x.shape[dim] - abs(lag), 0)
    return x.narrow(dim, max(-lag, 0) if n else 0, n), x.narrow(dim, max(lag, 0) if n else 0, n)


def differences(build: str, plain: str, *, M: int, N: int, lag: int, seed: int) -> None:
    """D, of X between NaN, bit by bit as it is in f32, rounded once: with the NaN of a fill, and without."""
    k = kernel(build)
    x = _random(k, M, N, seed)
    here, there = _moved(x.to(torch.float32), lag, 0)
    want = torch.nn.functional.pad(there - here, (0, 0, 0, M - len(here))).to(x.dtype)
    for which in (k, kernel(plain)):
        outputs = {"D": place((M, N), x.dtype, "framed")}
        faults = run_twice(which, outputs, X=x, lag=lag)
        judge(faults + ([] if torch.equal(outputs["D"].tensor, want) else ["D is not the rounded difference"]))


def variograms(build: str, plain: str, *, M: int, N: int, lag: int, seed: int) -> float:
    """V against float64 on differences rounded once, and the largest relative error; the same for both kernels. lag: in
    eights."""
    worst = 0.0
    for which in (kernel(build), kernel(plain)):
        x = _random(which, M, N, seed)
        here, there = _moved(x.to(torch.float32), 8 * lag, 1)
        d = (there - here).to(x.dtype).to(torch.float64)
        want = (d * d).sum(1)
        outputs = {"V": place((M,), torch.float32)}
        faults = run_twice(which, outputs, X=x, lag=lag)
        error = float(((outputs["V"].tensor - want).abs() / want.clamp(min=1e-30)).max()) if M else 0.0
        judge(faults + ([] if error <= 1e-6 else [f"V is off by {error:.1e} of itself"]))
        worst = max(worst, error)
    return worst


def taken_for_outside(build: str, *, seed: int) -> list[int]:
    """Which NaN patterns in X make a difference of 0 instead of NaN; every other must stay NaN. `seed` is ignored."""
    k = kernel(build)
    rows, columns = 512, 128
    x = torch.zeros((2 * rows, columns), dtype=torch.int16, device=DEVICE)
    x[rows:] = torch.arange(1 << 16, device=DEVICE).to(torch.int16).view(rows, columns)
    d = torch.full((2 * rows, columns), float("nan"), dtype=_type(k), device=DEVICE)
    k(X=x.view(_type(k)), lag=rows, D=d)
    finish("differences of every pattern")
    there, got = x.view(_type(k))[rows:], d[:rows]
    finite = ~there.isnan()
    judge([] if torch.equal(got[finite], there[finite]) else ["numbers change"])
    judge([] if not d[rows:].any() and same_bits(d[rows:], torch.zeros_like(d[rows:])) else ["outside is not 0"])
    return [int(p) & 0xFFFF for p in x[rows:][~finite & (got == 0)]]
