"""Checks of attention with other scores that run in the worker process: each raises AssertionError with its faults."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.gpu.tensors import DEVICE, TYPES, Placed, generator, judge, kernel, place, run, run_twice
from tilegen.bench.exact import attention, attention_distance
from tilegen.diagnostics.core import TilegenError
from tilegen.runtime.kernel import Kernel

INFINITY = float("inf")


def _param(k: Kernel, name: str) -> Any:
    return next(value for n, value in k.program.params if n == name)


def _given(k: Kernel, B: int, Hk: int, G: int, Sq: int, Sk: int, g: torch.Generator) -> dict[str, Tensor]:
    D, dtype = int(_param(k, "D")), TYPES[str(k.program.tensor("Q").dtype)]
    shapes = {"Q": (B, Sq, Hk * G, D), "K": (B, Sk, Hk, D), "V": (B, Sk, Hk, D)}
    return {n: place(s, dtype).fill(torch.randn(s, device=DEVICE, generator=g)) for n, s in shapes.items()}


def _outputs(inputs: dict[str, Tensor]) -> dict[str, Placed]:
    B, Sq, H, D = inputs["Q"].shape
    return {"O": place((B, Sq, H, D), inputs["Q"].dtype), "LSE": place((B, H, Sq), torch.float32)}


def _bias(k: Kernel, shape: tuple[int, ...], g: torch.Generator) -> Tensor:
    """Normal, in rows that begin on whole chunks of 16 bytes; between them lies NaN."""
    dtype = TYPES[str(k.program.tensor("Bias").dtype)]
    stored = torch.full((*shape[:-1], -(-shape[-1] // 8) * 8), float("nan"), dtype=dtype, device=DEVICE)
    bias = stored[..., : shape[-1]]
    return bias.copy_(torch.randn(shape, device=DEVICE, generator=g))


def hidden_keys(build: str, *, B: int, Hk: int, G: int, Sq: int, Sk: int, seed: int) -> tuple[float, float]:
    """-inf in the bias weighs 0, a row of nothing else gives 0 and -inf, and NaN where no row looks reaches none."""
    k, g = kernel(build), generator(seed)
    inputs = _given(k, B, Hk, G, Sq, Sk, g)
    bias = _bias(k, (B, Hk * G, Sq, Sk), g)
    bias[torch.rand(bias.shape, device=DEVICE, generator=g) < 0.5] = -INFINITY
    bias[:, :, Sq // 3 : Sq // 3 + 2] = -INFINITY
    causal = bool(_param(k, "causal"))
    if causal:
        last = torch.arange(Sq, device=DEVICE)[:, None] + (Sk - Sq)
        bias.masked_fill_(torch.arange(Sk, device=DEVICE) > last, float("nan"))
    outputs = _outputs(inputs)
    faults = run_twice(k, outputs, **inputs, Bias=bias)
    away = attention_distance(
        outputs["O"].tensor, outputs["LSE"].tensor, *attention(**_named(inputs), causal=causal, bias=bias)
    )
    judge(away.faults + faults)
    return away.error, away.lse or 0.0


def _named(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.lower(): x for name, x in inputs.items()}


def expanded_bias(build: str, *, seed: int) -> None:
    """One bias for every batch and head, with strides of 0: right, or refused by name."""
    k, g = kernel(build), generator(seed)
    inputs = _given(k, 2, 2, 2, 200, 328, g)
    bias = _bias(k, (1, 1, 200, 328), g).expand(2, 4, 200, 328)
    outputs = _outputs(inputs)
    try:
        run(k, outputs, **inputs, Bias=bias)
    except TilegenError as e:
        judge([str(e)] if "DRIVER_FAILED" in {d.code for d in e.diagnostics} else [])
        return
    want = attention(**_named(inputs), causal=bool(_param(k, "causal")), bias=bias)
    judge(attention_distance(outputs["O"].tensor, outputs["LSE"].tensor, *want).faults)


def sinks(build: str, *, Sq: int, Sk: int, seed: int) -> tuple[float, float]:
    """Sinks of every size, none (-inf) among them; a row without a key gives 0 and its sink. One temperature is < 0."""
    k, g = kernel(build), generator(seed)
    inputs = _given(k, 2, 4, 2, Sq, Sk, g)
    more = {
        "sink": torch.tensor([-INFINITY, -1e4, -50.0, -1.0, 0.0, 3.0, 6.0, 1e4], device=DEVICE),
        "temperature": torch.tensor([1.0, 0.5, 2.0, -1.0, 8.0, 0.0, 1.0, 1.0], device=DEVICE),
    }
    outputs = _outputs(inputs)
    faults = run_twice(k, outputs, **inputs, **more)
    want = attention(**_named(inputs), causal=bool(_param(k, "causal")), **more)
    away = attention_distance(outputs["O"].tensor[:, :, :-1], None, want[0][:, :, :-1], want[1][:, :-1])
    if not bool((outputs["O"].tensor[:, :, -1].float().abs() < 1e-30).all()):
        faults.append("O is not 0 beside a sink of 10000")
    lse = outputs["LSE"].tensor
    off = torch.where(want[1].isneginf(), 0.0, (lse - want[1]).abs() / want[1].abs().clamp(min=1.0))
    if not bool((off < 3e-5).all()) or not torch.equal(lse.isneginf(), want[1].isneginf()):
        faults.append(f"LSE is off by {float(off.max()):.2e}, relative to its size where that is over 1")
    without = max(Sq - Sk, 0) if _param(k, "causal") or not Sk else 0
    if not bool((outputs["O"].tensor[:, :without] == 0).all()):
        faults.append("O is not 0 in a row without a key")
    judge(away.faults + faults)
    return away.error, float(off.max())


def tanh(build: str, *, bound: float, seed: int) -> float:
    """tanh over every binade of f32, and the ends of its range: the largest relative error."""
    k = kernel(build)
    whole = torch.arange(-(2**31), 2**31, 2**31 // 8_000_000, device=DEVICE, dtype=torch.int64)
    x = whole.to(torch.int32).view(torch.float32)
    x = torch.cat([x, torch.linspace(-20, 20, 4_000_000, device=DEVICE)])
    x = x[x.isfinite()]
    x = x[: len(x) // 4096 * 4096].reshape(-1, 4096).contiguous()
    y = torch.full_like(x, float("nan"))
    k(X=x, Y=y)
    want = x.double().tanh()
    off = (y.double() - want).abs()
    error = float(torch.where(want.abs() < 2.0**-126, 0.0, off / want.abs()).nan_to_num().max())
    faults = [f"tanh is off by {error:.2e}, allowed {bound:.2e}"] if error > bound else []
    if bool((y.abs() > 1).any()) or not bool((off <= 2.0**-20).all()):
        faults.append("tanh leaves [-1, 1]")
    special = torch.tensor([INFINITY, -INFINITY, float("nan"), 0.0], device=DEVICE).repeat(2, 2)
    ends = torch.empty_like(special)
    k(X=special, Y=ends)
    if not bool((ends[0, :2].abs() > 0.999999).all()) or not bool(ends[0, 2].isnan()) or float(ends[0, 3]) != 0:
        faults.append(f"tanh of inf, -inf, nan, 0 is {ends[0, :4].tolist()}")
    judge(faults)
    return error
