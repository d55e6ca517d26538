"""Checks of isolation that run in the worker process: each raises AssertionError with all that is wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.gpu.tensors import DEVICE, TYPES, generator, judge, kernel, place, run

_BAD = (float("nan"), float("inf"), float("-inf"))


def spoilt_values(build: str, *, B: int, Hk: int, G: int, Sq: int, Sk: int, bad: int, seed: int) -> None:
    """A causal kernel on V with `bad` entries that are no finite numbers: rows that see one hold what it makes of their
    sum, and every other bit is as without them; LSE does not change."""
    k, g = kernel(build), generator(seed)
    D, dtype = int(dict(k.program.params)["D"]), TYPES[str(k.program.tensor("Q").dtype)]  # type: ignore[arg-type]

    def normal(*shape: int) -> Tensor:
        return place(shape, dtype).fill(torch.randn(shape, device=DEVICE, generator=g))

    q, keys, v = normal(B, Sq, Hk * G, D), normal(B, Sk, Hk, D), normal(B, Sk, Hk, D)
    outputs = {"O": place((B, Sq, Hk * G, D), dtype), "LSE": place((B, Hk * G, Sq), torch.float32)}
    run(k, outputs, Q=q, K=keys, V=v)
    clean = {name: placed.tensor.clone() for name, placed in outputs.items()}
    flat = torch.randint(v.numel(), (bad,), device=DEVICE, generator=g)
    kinds = torch.tensor(_BAD, device=DEVICE, dtype=dtype)
    v.view(-1)[flat] = kinds[torch.randint(3, (bad,), device=DEVICE, generator=g)]
    run(k, outputs, Q=q, K=keys, V=v)
    # what is seen up to each key: the sum of its entries that are no finite numbers, which only grows worse
    entries = torch.where(v.isfinite(), torch.zeros_like(v), v).float().cumsum(dim=1)
    last = torch.arange(Sq, device=DEVICE) + Sk - Sq
    seen = entries[:, last.clamp(min=0)]
    wanted = torch.where((last >= 0)[:, None, None], seen, torch.zeros_like(seen))
    wanted = wanted.repeat_interleave(G, dim=2)
    touched = ~wanted.isfinite()
    got = outputs["O"].tensor
    kind = torch.where(got.isnan() & wanted.isnan(), True, got.float() == wanted)
    same = got.view(torch.int16) == clean["O"].view(torch.int16)
    faults = []
    if not bool(touched.any()) or bool(touched.all()):
        faults.append("the data tests nothing")
    if wrong := int((touched & ~kind).sum()):
        faults.append(f"{wrong} of {int(touched.sum())} elements that see such an entry do not hold what it makes")
    if wrong := int((~touched & ~same).sum()):
        faults.append(f"{wrong} elements that see none changed")
    if not torch.equal(outputs["LSE"].tensor, clean["LSE"]):
        faults.append("LSE changed")
    judge(faults)


def cost_of_mending(build: str, *, S: int, bad: float, seed: int) -> tuple[float, float]:
    """Milliseconds of a causal launch without and with this share of V's rows holding an infinity, in turns."""
    k, g = kernel(build), generator(seed)
    D, dtype = int(dict(k.program.params)["D"]), TYPES[str(k.program.tensor("Q").dtype)]  # type: ignore[arg-type]
    H = 2048 // D
    q, keys, v = (torch.randn(1, S, H, D, device=DEVICE, generator=g).to(dtype) for _ in range(3))
    spoilt = v.clone()
    spoilt[torch.rand(1, S, H, device=DEVICE, generator=g) < bad, 0] = float("inf")
    launches = [k.prepare(Q=q, K=keys, V=values) for values in (v, spoilt)]
    times: list[list[float]] = [[], []]
    for _ in range(5):
        for launch, found in zip(launches, times, strict=True):
            launch()
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            launch()
            after.record()
            torch.cuda.synchronize()
            found.append(before.elapsed_time(after))
    clean, mended = (sorted(t)[2] for t in times)
    return clean, mended
