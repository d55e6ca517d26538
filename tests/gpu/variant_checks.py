"""Checks of kernels with several variants that run in the worker process."""

from __future__ import annotations

from typing import Any

import torch

from tests.gpu.tensors import DEVICE, TYPES, Placed, generator, judge, kernel, place
from tilegen.bench.exact import attention, attention_distance
from tilegen.bench.gpu_worker import finish


def share_a_graph(build: str, *, sizes: list[tuple[int, int, bool]], seed: int) -> None:
    """Launches of several sizes (Sq, Sk, whether they take the first variant), one behind the other, captured and
    replayed on outputs of NaN."""
    k = kernel(build)
    params: dict[str, Any] = dict(k.program.params)
    D, dtype, g = params["D"], TYPES[str(params["T"])], generator(seed)
    launches, cases, faults = [], [], []
    for Sq, Sk, first in sizes:
        shapes = {"Q": (2, Sq, 4, D), "K": (2, Sk, 2, D), "V": (2, Sk, 2, D)}
        inputs = {
            name: place(shape, dtype).fill(torch.randn(shape, device=DEVICE, generator=g))
            for name, shape in shapes.items()
        }
        outputs = {"O": place((2, Sq, 4, D), dtype), "LSE": place((2, 4, Sq), torch.float32)}
        if (k.variant(Sq=Sq, Sk=Sk) is k.variants[0]) != first:
            faults.append(f"{Sq} x {Sk} takes the wrong variant")
        launches.append(k.prepare(**inputs, **{name: placed.tensor for name, placed in outputs.items()}))
        cases.append((inputs, outputs, f"{Sq} x {Sk}"))
    for launch in launches:
        launch()
    finish("the first launches")
    faults += _wrong(cases, params["causal"], "launched")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    for _, outputs, _ in cases:
        for placed in outputs.values():
            placed.memory.fill_(float("nan"))
    graph.replay()
    finish("the replay")
    judge(faults + _wrong(cases, params["causal"], "replayed"))


def _wrong(cases: list[tuple[dict[str, Any], dict[str, Placed], str]], causal: bool, how: str) -> list[str]:
    faults = []
    for inputs, outputs, what in cases:
        want = attention(*inputs.values(), causal)
        away = attention_distance(outputs["O"].tensor, outputs["LSE"].tensor, *want)
        faults += [f"{what}, {how}: {fault}" for fault in away.faults]
        faults += [f"{what}, {how}: {name} wrote elsewhere" for name, p in outputs.items() if not p.untouched()]
    return faults
