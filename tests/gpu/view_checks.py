"""Checks of fa3_fwd and copy on views and on tensors of many gigabytes, in the worker process.

Of what is too large to be held against an exact result in whole, some batches and heads are; the rest must be finite.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import product

import torch
from torch import Tensor

from tests.gpu.tensors import DEVICE, TYPES, generator, judge, kernel
from tilegen.bench.exact import attention, attention_distance
from tilegen.bench.gpu_worker import finish
from tilegen.runtime.kernel import Kernel

FAR = 2**31 + 64  # elements: more than 32 bits hold, and a multiple of 16 bytes
NAN = float("nan")


def _kind(k: Kernel) -> tuple[torch.dtype, int, bool]:
    """Type, head size, causal."""
    params = dict(k.program.params)
    return TYPES[str(k.program.tensor("Q").dtype)], int(str(params["D"])), bool(params["causal"])


def _normal(shape: tuple[int, ...], dtype: torch.dtype, g: torch.Generator) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=DEVICE).normal_(generator=g)


def _nan(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.full(shape, NAN, dtype=dtype, device=DEVICE)


def _far(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> Tensor:
    """NaN, its positions along one dimension FAR apart, the others contiguous in between."""
    strides, step = [0] * len(shape), 1
    for n in reversed([n for n in range(len(shape)) if n != dim]):
        strides[n], step = step, step * shape[n]
    strides[dim] = FAR
    assert step <= FAR
    return _nan(((shape[dim] - 1) * FAR + step,), dtype).as_strided(shape, strides)


def _run(k: Kernel, q: Tensor, keys: Tensor, v: Tensor, o: Tensor, lse: Tensor, batches: Iterable[int]) -> list[float]:
    """A launch, judged on these batches; G = 1. Seconds of host time that the first call and the next took."""
    host = []
    for _ in range(2):
        finish("what comes before a launch")
        start = time.perf_counter()
        k(Q=q, K=keys, V=v, O=o, LSE=lse)
        host.append(time.perf_counter() - start)
        finish(f"a launch of {k.name}", 30)
    faults, H = [], q.shape[2]
    heads = [slice(0, H)] if H <= 16 else [slice(0, 3), slice(H - 3, H)]
    for b, some in product(sorted({n % q.shape[0] for n in batches}), heads):
        given = [x[b : b + 1, :, some] for x in (q, keys, v)]
        away = attention_distance(o[b : b + 1, :, some], lse[b : b + 1, some], *attention(*given, _kind(k)[2]))
        faults += [f"batch {b}, heads from {some.start}: {fault}" for fault in away.faults]
    for name, t in (("O", o), ("LSE", lse)):
        if not all(bool(part.isfinite().all()) for part in t.split(256)):
            faults.append(f"{name} is not finite somewhere")
    judge(faults)
    return host


LAYOUTS: dict[str, Callable[[int, int, int, int, torch.dtype, torch.Generator], tuple[Tensor, ...]]] = {
    "fused": lambda B, S, H, D, t, g: _normal((B, S, 3, H, D), t, g).unbind(2),
    "fused in each head": lambda B, S, H, D, t, g: _normal((B, S, H, 3 * D), t, g).split(D, 3),
    "batch and sequence swapped": lambda B, S, H, D, t, g: _normal((3, S, B, H, D), t, g).transpose(1, 2).unbind(0),
    "heads before the sequence": lambda B, S, H, D, t, g: _normal((3, B, H, S, D), t, g).transpose(2, 3).unbind(0),
    "every second token, some heads": lambda B, S, H, D, t, g: _normal((3, B + 2, 2 * S, 4 * H, D), t, g)[
        :, 1:-1, ::2, 1 : 1 + H
    ].unbind(0),
    "one head for all": lambda B, S, H, D, t, g: _normal((3, B, S, 1, D), t, g).expand(-1, -1, -1, H, -1).unbind(0),
    "one batch for all": lambda B, S, H, D, t, g: _normal((3, 1, S, H, D), t, g).expand(-1, B, -1, -1, -1).unbind(0),
}


def layout(build: str, *, name: str, seed: int) -> None:
    """Inputs as views, outputs into views of which both have margins of NaN that stay."""
    k = kernel(build)
    dtype, D, _ = _kind(k)
    B, S, H = 3, 1000, 4
    q, keys, v = LAYOUTS[name](B, S, H, D, dtype, generator(seed))
    around, lse_around = _nan((S + 2, B + 2, H + 2, D + 8), dtype), _nan((B, S + 2, H), torch.float32)
    o, lse = around[1:-1, 1:-1, 1:-1, :D].transpose(0, 1), lse_around[:, 1:-1].transpose(1, 2)
    _run(k, q, keys, v, o, lse, range(B))
    o.fill_(NAN)
    lse.fill_(NAN)
    judge([] if bool(around.isnan().all() and lse_around.isnan().all()) else ["written outside the outputs"])


def over_4_gib(build: str, *, seed: int) -> float:
    """Cases 25: dense tensors of 2**31 elements and more. GiB of each."""
    k = kernel(build)
    dtype, D, _ = _kind(k)
    S, H = 128, 16
    B = 2**31 // (S * H * D) + 3
    g = generator(seed)
    q, keys, v = (_normal((B, S, H, D), dtype, g) for _ in range(3))
    assert q.numel() > 2**31
    _run(k, q, keys, v, _nan((B, S, H, D), dtype), _nan((B, H, S), torch.float32), (0, B // 2, B - 3, B - 2, B - 1))
    torch.cuda.empty_cache()
    return q.numel() * q.element_size() / 2**30


def far_apart(build: str, *, dim: int, seed: int) -> None:
    """Case 25: two positions of one dimension lie 2**31 elements and more apart, in inputs, O and LSE."""
    k = kernel(build)
    dtype, D, _ = _kind(k)
    shape = [2, 500, 2, D]
    shape[dim] = 2
    B, S, H = shape[:3]
    g = generator(seed)
    q, keys, v = (_far((B, S, H, D), dim, dtype) for _ in range(3))
    for t in (q, keys, v):
        t.copy_(_normal((B, S, H, D), dtype, g))
    lse = _far((B, H, S), (0, 2, 1)[dim], torch.float32)
    _run(k, q, keys, v, _far((B, S, H, D), dim, dtype), lse, range(B))
    torch.cuda.empty_cache()


def stored_by_token(build: str, *, seed: int) -> None:
    """Case 26: K and V stored [S, B, D], viewed as [B, S, 1, D], with S * stride > 2**31."""
    k = kernel(build)
    dtype, D, _ = _kind(k)
    S = 4096
    B = 2**31 // (S * D) + 8
    g = generator(seed)
    keys, v = (_normal((S, B, D), dtype, g).transpose(0, 1).unsqueeze(2)[B - 3 :] for _ in range(2))
    assert keys.stride(1) * S > 2**31
    q = _normal((3, 300, 1, D), dtype, g)
    _run(k, q, keys, v, _nan((3, 300, 1, D), dtype), _nan((3, 1, 300), torch.float32), range(3))
    torch.cuda.empty_cache()


def many(build: str, *, B: int, S: int, H: int, seed: int) -> list[float]:
    """More batches or heads than 16 bits count. Seconds of host time of the first call and of the next."""
    k = kernel(build)
    dtype, D, _ = _kind(k)
    g = generator(seed)
    q, keys, v = (_normal((B, S, H, D), dtype, g) for _ in range(3))
    batches = (0, B - 1) if B > 2 else range(B)
    host = _run(k, q, keys, v, _nan((B, S, H, D), dtype), _nan((B, H, S), torch.float32), batches)
    torch.cuda.empty_cache()
    return host


def many_rows(build: str, *, M: int, N: int, seed: int) -> None:
    """A grid of more than 65535 CTAs that is dealt by nobody."""
    k = kernel(build)
    x = _normal((M, N), TYPES[str(k.program.tensor("X").dtype)], generator(seed))
    y = torch.full_like(x, NAN)
    k(X=x, Y=y)
    finish(f"a launch of {k.name}", 30)
    judge([] if torch.equal(x, y) else [f"wrong in {int((x != y).sum())} places"])
    torch.cuda.empty_cache()
