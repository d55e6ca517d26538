"""Checks of arrays that begin and step anywhere, in the worker process: what they give is what aligned ones give."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.gpu.tensors import DEVICE, TYPES, generator, judge, kernel, place, run_twice, same_bits
from tilegen.bench.exact import distance
from tilegen.runtime.kernel import Kernel


def skewed(values: Tensor, pitch: int, first: int) -> Tensor:
    """The same matrix with rows `pitch` elements apart, from element `first` on, in memory that is otherwise NaN."""
    memory = torch.full((values.shape[0] * pitch + first + 64,), float("nan"), dtype=values.dtype, device=DEVICE)
    return memory.as_strided(values.shape, (pitch, 1), first).copy_(values)


def _gemm(k: Kernel, M: int, N: int, K: int, seed: int) -> tuple[Tensor, Tensor]:
    g, dtype = generator(seed), TYPES[str(k.variants[0].plan.tensor("A").dtype)]
    return tuple(torch.randn(s, device=DEVICE, generator=g).to(dtype) for s in ((M, K), (K, N)))  # type: ignore[return-value]


def any_alignment(build: str, *, M: int, N: int, K: int, seed: int) -> float:
    """Every alignment of A's and B's starts and rows: the bits of the aligned product, which is right. Its error."""
    k = kernel(build)
    a, b = _gemm(k, M, N, K, seed)
    outputs = {"C": place((M, N), a.dtype)}
    faults = run_twice(k, outputs, A=skewed(a, -(-K // 8) * 8, 0), B=skewed(b, -(-N // 8) * 8, 0))
    wanted = outputs["C"].tensor.clone()
    for pitch, first in ((8, 0), (4, 0), (8, 4), (2, 0), (8, 6), (1, 0), (8, 1)):
        rows, other = -(-K // 8) * 8 + pitch, -(-N // 8) * 8 + 8
        for one, two in (((rows, first), (other, 0)), ((rows, 0), (other, first))):
            faults += run_twice(k, outputs, A=skewed(a, *one), B=skewed(b, *two))
            if not same_bits(outputs["C"].tensor, wanted):
                faults.append(f"A with rows {one}, B with rows {two}: other bits")
    found = distance("C", wanted, a.to(torch.float64) @ b.to(torch.float64))
    judge(found.faults + faults)
    return found.error
