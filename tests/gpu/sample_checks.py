"""Checks of the other samples that run in the worker process, against float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.gpu.tensors import DEVICE, TYPES, Placed, generator, judge, kernel, place, run_twice, same_bits
from tilegen.bench.distance import Distance
from tilegen.bench.exact import attention, attention_distance, distance, lse_distance
from tilegen.bench.gpu_worker import finish
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan import TensorShape
from tilegen.ir.uniform import evaluate
from tilegen.runtime.kernel import Kernel

Tensors = dict[str, Tensor]


def matches(build: str, *, sizes: dict[str, int], layout: str, seed: int) -> list[tuple[float, float | None]]:
    """Right by the exact result, the same bits twice, and nothing written elsewhere. Relative errors, and LSE's."""
    k = kernel(build)
    inputs = _inputs(k, sizes, layout, seed)
    outputs = {t.name: _placed(k, t.name, sizes, layout) for t in k.variants[0].plan.tensors if t.output}
    faults = run_twice(k, outputs, **inputs)
    found = _CHECKS[k.name](k, inputs, {name: placed.tensor for name, placed in outputs.items()})
    judge([fault for each in found for fault in each.faults] + faults)
    return [(each.error, each.lse) for each in found]


def refuses(build: str, *, sizes: dict[str, int], code: str, layout: str, seed: int) -> None:
    """Refused by this code before the driver sees anything."""
    k = kernel(build)
    codes = set()
    try:
        k(**{t.name: _placed(k, t.name, sizes, layout).tensor for t in k.variants[0].plan.tensors})
        finish("a launch that should have been refused")
    except TilegenError as e:
        codes = {d.code for d in e.diagnostics}
    judge([] if code in codes else [f"refused by {codes or 'nothing'}, not by {code}"])


def _given(k: Kernel) -> list[TensorShape]:
    return [t for t in k.variants[0].plan.tensors if not t.output]


def _shape(k: Kernel, name: str, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(d, sizes) for d in k.variants[0].plan.tensor(name).dims)


def _type(k: Kernel, name: str) -> torch.dtype:
    return TYPES[str(k.variants[0].plan.tensor(name).dtype)]


def _placed(k: Kernel, name: str, sizes: dict[str, int], layout: str) -> Placed:
    return place(_shape(k, name, sizes), _type(k, name), layout)


def _inputs(k: Kernel, sizes: dict[str, int], layout: str, seed: int) -> Tensors:
    g = generator(seed)
    factors = _FACTORS.get(k.name, {})
    inputs = {}
    for t in _given(k):
        shape = _shape(k, t.name, sizes)
        values = torch.randn(shape, device=DEVICE, generator=g) * factors.get(t.name, lambda _: 1.0)(sizes)
        if k.name == "copy":
            values = _any_number(shape, _type(k, t.name), g)
        inputs[t.name] = _placed(k, t.name, sizes, layout).fill(values)
    return inputs


def _any_number(shape: tuple[int, ...], dtype: torch.dtype, g: torch.Generator) -> Tensor:
    """Any bits but NaN's: infinities, both zeros and subnormals among them."""
    whole = torch.int32 if dtype.itemsize == 4 else torch.int16
    bits = torch.randint(-(2**31), 2**31, shape, device=DEVICE, generator=g).to(whole).view(dtype)
    few = torch.tensor([float("inf"), -float("inf"), 0.0, -0.0], dtype=dtype, device=DEVICE)
    special = few[torch.randint(0, 4, shape, device=DEVICE, generator=g)]
    rare = torch.rand(shape, device=DEVICE, generator=g) < 0.05
    return torch.where(bits.isnan() | rare, special, bits)


def _even(sizes: dict[str, int]) -> float:
    """Sums over K then have a variance of 1, where an epilogue is not yet a straight line."""
    return max(sizes["K"], 1) ** -0.25


_FACTORS: dict[str, dict[str, Callable[[dict[str, int]], float]]] = {
    "gemm_bias_gelu": {"A": _even, "B": _even},
    "swiglu": {"X": _even, "W1": _even, "W2": _even},
    "row_softmax": {"X": lambda _: 3.0},
    "attention_alibi": {"slope": lambda _: 0.02},
}


def _f64(x: Tensor) -> Tensor:
    return x.to(torch.float64)


def _gemm(k: Kernel, i: Tensors, o: Tensors) -> list[Distance]:
    return [distance("C", o["C"], _f64(i["A"]) @ _f64(i["B"]))]


def _gemm_bias_gelu(k: Kernel, i: Tensors, o: Tensors) -> list[Distance]:
    x = _f64(i["A"]) @ _f64(i["B"]) + _f64(i["bias"])
    return [distance("C", o["C"], 0.5 * x * (1 + torch.erf(x / math.sqrt(2))))]


def _swiglu(k: Kernel, i: Tensors, o: Tensors) -> list[Distance]:
    gate, up = (_f64(i["X"]) @ _f64(i[w]) for w in ("W1", "W2"))
    return [distance("Y", o["Y"], gate * torch.sigmoid(gate) * up)]


def _gemm_logsumexp(k: Kernel, i: Tensors, o: Tensors) -> list[Distance]:
    return [lse_distance(o["LSE"], (_f64(i["H"]) @ _f64(i["W"]).T).logsumexp(1))]


def _row_softmax(k: Kernel, i: Tensors, o: Tensors) -> list[Distance]:
    return [distance("Y", o["Y"], _f64(i["X"]).softmax(1))]


def _copy(k: Kernel, i: Tensors, o: Tensors) -> list[Distance]:
    return [Distance(faults=[] if same_bits(i["X"], o["Y"]) else ["Y is not X, bit by bit"])]


def _scored(k: Kernel, i: Tensors, o: Tensors) -> list[Distance]:
    """Attention with another score: what its sample has beside Q, K and V."""
    more: dict[str, Any] = {name.lower(): x for name, x in i.items() if name not in ("Q", "K", "V")}
    if k.name == "attention_softcap":
        more["cap"] = 30.0
    want = attention(i["Q"], i["K"], i["V"], bool(dict(k.program.params)["causal"]), **more)
    return [attention_distance(o["O"], o["LSE"], *want)]


_CHECKS: dict[str, Callable[[Kernel, Tensors, Tensors], list[Distance]]] = {
    "gemm": _gemm,
    "gemm_bias_gelu": _gemm_bias_gelu,
    "swiglu": _swiglu,
    "gemm_logsumexp": _gemm_logsumexp,
    "row_softmax": _row_softmax,
    "copy": _copy,
    "attention_alibi": _scored,
    "attention_bias": _scored,
    "attention_sink": _scored,
    "attention_softcap": _scored,
}
