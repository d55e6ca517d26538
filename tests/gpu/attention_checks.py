"""Checks of fa3_fwd and its like that run in the worker process: each raises AssertionError with all that is wrong."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from cuda.bindings import driver as cuda
from torch import Tensor

from tests.gpu.tensors import DEVICE, TYPES, Placed, generator, judge, kernel, place, run, run_twice
from tilegen.bench.exact import attention, attention_distance, rounding_error
from tilegen.bench.gpu_worker import finish
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.runtime.kernel import Kernel


def _param(k: Kernel, name: str) -> Any:
    return next(value for n, value in k.program.params if n == name)


def _type(k: Kernel) -> torch.dtype:
    return TYPES[str(k.program.tensor("Q").dtype)]


def _head_size(k: Kernel) -> int:
    return int(_param(k, "D"))


def _value_size(k: Kernel) -> int:
    return int(dict(k.program.params).get("DV", _head_size(k)))  # type: ignore[arg-type]


def _values(shape: tuple[int, ...], g: torch.Generator) -> Tensor:
    return torch.randn(shape, device=DEVICE, generator=g)


def _inputs(
    k: Kernel, B: int, Hk: int, G: int, Sq: int, Sk: int, seed: int, layout: str, data: str
) -> dict[str, Tensor]:
    D, dtype, g = _head_size(k), _type(k), generator(seed)
    if layout == "fused":
        assert Sq == Sk, "a fused tensor holds as many queries as keys"
        whole = place((B, Sq, Hk * (G + 2), D), dtype).fill(_values((B, Sq, Hk * (G + 2), D), g))
        q, keys, v = whole.split([Hk * G, Hk, Hk], dim=2)
        return {"Q": q, "K": keys, "V": v}
    shapes = {"Q": (B, Sq, Hk * G, D), "K": (B, Sk, Hk, D), "V": (B, Sk, Hk, _value_size(k))}
    values = {name: _values(shape, g) for name, shape in shapes.items()}
    if data in ("sharp", "rising"):  # scores of ±200, where a wrong maximum overflows
        values["Q"] *= 6
        values["K"] *= 6
    if data == "rising":  # in the order in which key blocks are walked, so that the maximum keeps moving
        values["K"] *= torch.linspace(4, 0.03, max(Sk, 1), device=DEVICE)[:Sk, None, None]
    return {name: place(shapes[name], dtype, layout).fill(values[name]) for name in shapes}


def _outputs(k: Kernel, B: int, H: int, Sq: int, layout: str) -> dict[str, Placed]:
    layout = "dense" if layout == "fused" else layout
    return {
        "O": place((B, Sq, H, _value_size(k)), _type(k), layout),
        "LSE": place((B, H, Sq), torch.float32, layout),
    }


def matches(
    build: str, *, B: int, Hk: int, G: int, Sq: int, Sk: int, seed: int,
    layout: str = "dense", data: str = "normal", scale: float | None = None,
) -> tuple[float, float, int]:  # fmt: skip
    """Right by the exact result, the same bits twice, and nothing written elsewhere. The errors of O and LSE.

    O is judged by batch and head: by a bound, and where one has few rows, also by twice the error that an ideal
    implementation with P and O in the kernel's type is expected to have there. How many needed that comes third.
    """
    k = kernel(build)
    inputs = _inputs(k, B, Hk, G, Sq, Sk, seed, layout, data)
    outputs = _outputs(k, B, Hk * G, Sq, layout)
    given = {} if scale is None else {"scale": scale}
    faults = run_twice(k, outputs, **inputs, **given)
    given_all = (*inputs.values(), _param(k, "causal"), scale)
    away = attention_distance(
        outputs["O"].tensor,
        outputs["LSE"].tensor,
        *attention(*given_all),
        expected=lambda: rounding_error(*given_all, rounded=_type(k)),
    )
    judge(away.faults + faults)
    return away.error, away.lse or 0.0, away.by_rounding


def rows_see(build: str, *, Sq: int, Sk: int, seed: int) -> None:
    """Which keys a causal row sees, by values that tell them apart: each key's V is its own power of two in one column.

    Row i of a bottom-right aligned causal mask sees keys 0 … i + Sk - Sq, and no key scores higher than another.
    """
    k = kernel(build)
    D, dtype = _head_size(k), _type(k)
    assert Sk <= D, "a column a key"
    q = place((1, Sq, 1, D), dtype).fill(_values((1, Sq, 1, D), generator(seed)))
    keys = place((1, Sk, 1, D), dtype).fill(torch.zeros(1, Sk, 1, D, device=DEVICE))  # every score is 0
    v = place((1, Sk, 1, D), dtype).fill(torch.eye(Sk, D, device=DEVICE)[None, :, None])
    outputs = _outputs(k, 1, 1, Sq, "dense")
    run(k, outputs, Q=q, K=keys, V=v)
    o, lse = outputs["O"].tensor[0, :, 0], outputs["LSE"].tensor[0, 0]
    faults = []
    for i in range(Sq):
        seen = max(min(i + Sk - Sq + 1, Sk), 0)
        want = [1.0] * seen + [0.0] * (D - seen)
        got = (o[i] * seen).float().round(decimals=2) if seen else o[i].float()
        if got.tolist() != want:
            faults.append(f"row {i} sees keys {o[i].nonzero().flatten().tolist()}, not 0 … {seen - 1}: {o[i].tolist()}")
        if seen and abs(lse[i].item() - torch.tensor(float(seen)).log().item()) > 1e-5:
            faults.append(f"LSE of row {i} is {lse[i].item()}, not log {seen}")
        if not seen and lse[i].item() != float("-inf"):
            faults.append(f"LSE of row {i} is {lse[i].item()}, not -inf")
    judge(faults)


# ---- where a launch runs -------------------------------------------------------------------------


def _small(build: str, seed: int) -> tuple[Kernel, dict[str, Tensor], dict[str, Placed], tuple[Tensor, Tensor]]:
    k = kernel(build)
    inputs = _inputs(k, 2, 2, 3, 200, 333, seed, "dense", "normal")
    return k, inputs, _outputs(k, 2, 6, 200, "dense"), attention(*inputs.values(), _param(k, "causal"))


def _judge_small(outputs: dict[str, Placed], wanted: tuple[Tensor, Tensor], where: str) -> None:
    away = attention_distance(outputs["O"].tensor, outputs["LSE"].tensor, *wanted)
    judge([f"{where}: {fault}" for fault in away.faults])


def runs_on_the_current_stream(build: str, *, seed: int) -> None:
    """Case 49: what runs before on that stream is seen, and nothing waits."""
    k, inputs, outputs, wanted = _small(build, seed)
    arrays = {**inputs, **{name: placed.tensor for name, placed in outputs.items()}}
    launch = k.prepare(**arrays)
    launch()  # loads the kernel
    finish("the first launch")
    queries = inputs["Q"].clone()
    for call in (launch, lambda: k(**arrays)):
        inputs["Q"].fill_(float("nan"))
        for placed in outputs.values():
            placed.memory.fill_(float("nan"))
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(40_000_000)  # some 20 ms
            inputs["Q"].copy_(queries)
            call()
            assert not stream.query(), "the call waited for the stream"
            finish("a launch on another stream")
        _judge_small(outputs, wanted, "on another stream")


def runs_in_a_graph(build: str, *, seed: int) -> None:
    """Case 49: a captured launch runs at each replay, on what its memory holds then."""
    k, inputs, outputs, wanted = _small(build, seed)
    arrays = {**inputs, **{name: placed.tensor for name, placed in outputs.items()}}
    launch = k.prepare(**arrays)
    launch()
    finish("the first launch")
    for call in (launch, lambda: k(**arrays)):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        for factor in (1.0, -1.0):  # O is linear in V
            values = inputs["V"].clone()
            inputs["V"].mul_(factor)
            for placed in outputs.values():
                placed.memory.fill_(float("nan"))
            finish("what comes before a replay")
            assert bool(outputs["O"].tensor.isnan().all()), "the launch ran outside of the graph"
            graph.replay()
            finish("a replay")
            inputs["V"].copy_(values)
            _judge_small(outputs, (factor * wanted[0], wanted[1]), f"replayed on {factor:g} V")


def runs_in_a_fresh_thread(build: str, *, seed: int) -> None:
    """A thread that has not touched the GPU has no context of its own; neither has one whose call is of a known form,
    with arrays at other addresses."""
    k, inputs, outputs, wanted = _small(build, seed)
    before = [_outputs(k, 2, 6, 200, "dense") for _ in range(3)]  # all at addresses of their own
    for others in before:
        k(**inputs, **{name: placed.tensor for name, placed in others.items()})
    raised: list[BaseException] = []

    def work() -> None:
        try:
            k(**inputs, **{name: placed.tensor for name, placed in outputs.items()})
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    finish("a launch from a fresh thread")
    _judge_small(outputs, wanted, "in a fresh thread")


def runs_from_another_context(build: str, *, seed: int) -> None:
    """Where a context is current that is not the kernel's own, as another GPU's would be."""
    k, inputs, outputs, wanted = _small(build, seed)
    arrays = {**inputs, **{name: placed.tensor for name, placed in outputs.items()}}
    launch = k.prepare(**arrays)
    launch()
    k(**arrays)
    for call in (launch, lambda: k(**arrays)):
        for placed in outputs.values():
            placed.memory.fill_(float("nan"))
        finish("what comes before")
        with _another_context():
            call()
        finish("a launch from another context")
        _judge_small(outputs, wanted, "from another context")


@contextmanager
def _another_context() -> Iterator[None]:
    """A new context of the same GPU is current."""
    error, device = cuda.cuDeviceGet(torch.cuda.current_device())
    assert not int(error)
    error, made = cuda.cuCtxCreate(None, 0, device)
    assert not int(error)
    try:
        yield
    finally:
        assert not int(cuda.cuCtxDestroy(made)[0])  # which brings the one before back


# ---- what is refused, or right -------------------------------------------------------------------


def _bad(k: Kernel, name: str) -> dict[str, Any]:
    """Arguments with one thing wrong. B = 2, Sq = 64, Sk = 96, two heads, all alike otherwise."""
    D, dtype = _head_size(k), _type(k)
    other = torch.float16 if dtype is torch.bfloat16 else torch.bfloat16

    def t(*shape: int, dtype: torch.dtype = dtype, device: str = DEVICE) -> Tensor:
        return torch.randn(shape, device=device).to(dtype)

    q, keys, v = t(2, 64, 2, D), t(2, 96, 2, D), t(2, 96, 2, D)
    right: dict[str, Any] = {"Q": q, "K": keys, "V": v}
    o, lse = t(2, 64, 2, D), t(2, 2, 64, dtype=torch.float32)
    return (
        right
        | {
            "float32 queries": lambda: {"Q": q.float()},
            "keys of another type": lambda: {"K": t(2, 96, 2, D, dtype=other)},
            "float64 LSE": lambda: {"LSE": lse.double()},
            "three dimensions": lambda: {"Q": q[0]},
            "head size 96": lambda: {"Q": t(2, 64, 2, 96), "K": t(2, 96, 2, 96), "V": t(2, 96, 2, 96)},
            "fewer values than keys": lambda: {"V": v[:, :95]},
            "three query heads on two": lambda: {"Q": t(2, 64, 3, D)},
            "another batch": lambda: {"K": t(3, 96, 2, D)},
            "a wrong output": lambda: {"O": o[:, :63]},
            "no values": lambda: {"V": None},
            "keys on the CPU": lambda: {"K": keys.cpu()},
            "an output on the CPU": lambda: {"O": o.cpu()},
            "every second column": lambda: {"K": t(2, 96, 2, 2 * D)[..., ::2]},
            "rows of 16-byte chunks and a half": lambda: {"K": t(2, 96, 2, D + 4)[..., :D]},
            "a start off by 4 bytes": lambda: {"V": t(2 * 96 * 2 * D + 2)[2:].view(2, 96, 2, D)},
            "an output in one place": lambda: {"O": t(2, 1, 2, D).expand(2, 64, 2, D)},
            "a negative scale": lambda: {"scale": -1.0},
            "queries that require a gradient": lambda: {"Q": q.requires_grad_()},
            "a scale on the GPU": lambda: {"scale": torch.ones((), device=DEVICE)},
            "a misspelt name": lambda: {"scael": 1.0},
        }[name]()
    )


def _faults(call: Callable[[], object]) -> tuple[Diagnostic, ...]:
    try:
        call()
    except TilegenError as e:
        return e.diagnostics
    return ()


def refuses(build: str, *, what: str, code: str, named: str, seed: int) -> None:
    """A fault of the arguments is a diagnostic that names the tensor, before the driver sees anything."""
    k = kernel(build)
    faults = _faults(lambda: k(**_bad(k, what)))
    finish(f"a launch with {what}")
    assert faults, f"{what}: accepted"
    found = [d for d in faults if d.code == code and re.search(rf"\b{named}\b", d.message)]
    assert found, f"{what}: refused otherwise than by {code} of {named}: {TilegenError(faults)}"


def broadcasts(build: str, *, seed: int) -> None:
    """Case 28: one key head expanded to four, with a stride of 0, is right (or refused by name, not by the driver)."""
    k = kernel(build)
    inputs = _inputs(k, 2, 1, 1, 70, 150, seed, "dense", "normal")
    expanded = {name: t.expand(-1, -1, 4, -1) for name, t in inputs.items()}
    outputs = _outputs(k, 2, 4, 70, "dense")
    faults = _faults(lambda: run(k, outputs, **expanded))
    assert "DRIVER_FAILED" not in {d.code for d in faults}, str(TilegenError(faults))
    if faults:
        return
    _judge_small(outputs, attention(*expanded.values(), _param(k, "causal")), "on expanded heads")
