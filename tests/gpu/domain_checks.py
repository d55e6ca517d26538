"""Checks of the samples' domains that run in the worker process: each raises AssertionError with all that is wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tests.gpu.tensors import DEVICE, TYPES, generator, judge, kernel, place, run_twice
from tilegen.bench.exact import attention, attention_distance

Seen = Callable[[int, Tensor, Tensor], Tensor]  # batch, positions of queries [rows, 1], of keys [Sk]


def _window(left: int, right: int) -> Seen:
    def seen(_: int, i: Tensor, j: Tensor) -> Tensor:
        inside = torch.ones_like(i + j, dtype=torch.bool)
        if left >= 0:
            inside &= j >= i - left
        if right >= 0:
            inside &= j <= i + right
        return inside

    return seen


def _prefix_lm(prefix: int) -> Seen:
    return lambda _, i, j: (j < prefix) | (j <= i)


def _global_tokens(globals: int, window: int) -> Seen:
    return lambda _, i, j: (j < globals) | (i < globals) | ((i - j).abs() <= window)


def _chunks(C: int) -> Seen:
    return lambda _, i, j: i // C == j // C


SEEN: dict[str, Callable[..., Seen]] = {
    "attention_chunks": _chunks,
    "attention_window": _window,
    "attention_prefix_lm": _prefix_lm,
    "attention_global_tokens": _global_tokens,
}


def matches(build: str, *, B: int, Hk: int, G: int, Sq: int, Sk: int, seed: int, **scalars: int) -> tuple[float, float]:
    """Right by the exact result, the same bits twice, nothing written elsewhere. The errors of O and LSE."""
    k = kernel(build)
    params = dict(k.program.params)
    dtype, D, g = TYPES[str(k.program.tensor("Q").dtype)], int(params["D"]), generator(seed)  # type: ignore[arg-type]
    shapes = {"Q": (B, Sq, Hk * G, D), "K": (B, Sk, Hk, D), "V": (B, Sk, Hk, D)}
    inputs = {
        name: place(shape, dtype).fill(torch.randn(shape, device=DEVICE, generator=g)) for name, shape in shapes.items()
    }
    outputs = {"O": place((B, Sq, Hk * G, D), dtype), "LSE": place((B, Hk * G, Sq), torch.float32)}
    given: dict[str, Tensor | int] = dict(scalars)
    if k.program.name == "attention_documents":
        # numbers that f32 cannot tell apart, in runs of some 100 tokens
        doc_q, doc_k = (
            (2**30 + torch.randint(0, max(n // 100, 1), (B, n), device=DEVICE, generator=g)).sort().values.int()
            for n in (Sq, Sk)
        )
        given = {"doc_q": doc_q, "doc_k": doc_k}

        def seen(b: int, i: Tensor, j: Tensor) -> Tensor:
            return doc_q[b, i + (Sq - Sk)] == doc_k[b, j]

    else:
        seen = SEEN[k.program.name](**scalars)
    faults = run_twice(k, outputs, **inputs, **given)
    want = attention(*inputs.values(), bool(params.get("causal", False)), seen=seen)
    away = attention_distance(outputs["O"].tensor, outputs["LSE"].tensor, *want)
    judge(away.faults + faults)
    return away.error, away.lse or 0.0
