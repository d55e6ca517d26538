"""Checks of fa3_varlen that run in the worker process: each raises AssertionError with everything that is wrong."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from tests.gpu.tensors import DEVICE, TYPES, Placed, generator, judge, kernel, place, run, run_twice, same_bits
from tilegen.bench.exact import attention, attention_distance, rounding_error
from tilegen.bench.gpu_worker import finish
from tilegen.diagnostics.core import TilegenError
from tilegen.runtime.kernel import Kernel

Lengths = list[int]


def _param(k: Kernel, name: str) -> Any:
    return next(value for n, value in k.program.params if n == name)


def _type(k: Kernel) -> torch.dtype:
    return TYPES[str(k.program.tensor("Q").dtype)]


def _starts(lengths: Lengths) -> Tensor:
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=DEVICE)


def _place(tokens: int, heads: int, D: int, dtype: torch.dtype, layout: str) -> Placed:
    """Layouts as for `place`; "swapped": head by head."""
    if layout != "swapped":
        return place((tokens, heads, D), dtype, layout)
    stored = place((heads, tokens, D), dtype)
    return Placed(stored.tensor.transpose(0, 1), stored.memory)


def _inputs(k: Kernel, q: Lengths, keys: Lengths, Hk: int, G: int, seed: int, layout: str = "dense") -> dict[str, Any]:
    g, D = generator(seed), int(_param(k, "D"))
    out: dict[str, Any] = {"cu_q": _starts(q), "cu_k": _starts(keys)}
    for name, tokens, heads in (("Q", sum(q), Hk * G), ("K", sum(keys), Hk), ("V", sum(keys), Hk)):
        values = torch.randn((tokens, heads, D), device=DEVICE, generator=g)
        out[name] = _place(tokens, heads, D, _type(k), layout).fill(values)
    return out


def _outputs(k: Kernel, tokens: int, H: int, layout: str = "dense") -> dict[str, Placed]:
    of_lse = "framed" if layout == "framed" else "dense"
    return {
        "O": _place(tokens, H, int(_param(k, "D")), _type(k), layout),
        "LSE": place((H, tokens), torch.float32, of_lse),
    }


def _judge(k: Kernel, inputs: dict[str, Any], outputs: dict[str, Placed], where: str = "") -> tuple[float, float, int]:
    """Every sequence by the exact result for it alone. The largest errors of O and LSE; how many needed rounding's."""
    faults: list[str] = []
    error, lse, by_rounding = 0.0, 0.0, 0
    q, keys = (inputs[name].tolist() for name in ("cu_q", "cu_k"))
    for n, ((q0, q1), (k0, k1)) in enumerate(zip(pairwise(q), pairwise(keys), strict=True)):
        if q0 == q1:
            continue
        given = (inputs["Q"][None, q0:q1], inputs["K"][None, k0:k1], inputs["V"][None, k0:k1], _param(k, "causal"))
        away = attention_distance(
            outputs["O"].tensor[None, q0:q1],
            outputs["LSE"].tensor[None, :, q0:q1],
            *attention(*given),
            expected=lambda given=given: rounding_error(*given, rounded=_type(k)),
        )
        faults += [f"{where}sequence {n} ({q1 - q0} x {k1 - k0}): {fault}" for fault in away.faults]
        error, lse = max(error, away.error), max(lse, away.lse or 0.0)
        by_rounding += away.by_rounding
    judge(faults)
    return error, lse, by_rounding


def matches(
    build: str, *, q: Lengths, keys: Lengths, Hk: int, G: int, seed: int, layout: str = "dense"
) -> tuple[float, float, int]:
    """Each sequence right by itself, the same bits twice, and nothing written elsewhere."""
    k = kernel(build)
    inputs = _inputs(k, q, keys, Hk, G, seed, layout)
    outputs = _outputs(k, sum(q), Hk * G, layout)
    faults = run_twice(k, outputs, **inputs, G=G)
    k.check()
    found = _judge(k, inputs, outputs)
    judge(faults)
    return found


def random_lengths(build: str, *, count: int, most: int, Hk: int, G: int, seed: int) -> tuple[float, float, int]:
    """As `matches`, at lengths of 0 to `most`."""
    lengths = torch.randint(0, most + 1, (2, count), generator=torch.Generator().manual_seed(seed)).tolist()
    return matches(build, q=lengths[0], keys=lengths[1], Hk=Hk, G=G, seed=seed)


def shortened(build: str, *, q: Lengths, keys: Lengths, which: int, by: int, Hk: int, G: int, seed: int) -> None:
    """Case 16: a shorter sequence leaves every other sequence's bits as they were."""
    k = kernel(build)
    inputs = _inputs(k, q, keys, Hk, G, seed)
    outputs = _outputs(k, sum(q), Hk * G)
    run(k, outputs, **inputs, G=G)
    shorter = [[n - by if at == which else n for at, n in enumerate(each)] for each in (q, keys)]
    less: dict[str, Any] = {"cu_q": _starts(shorter[0]), "cu_k": _starts(shorter[1])}
    for name, each in (("Q", q), ("K", keys), ("V", keys)):
        end = sum(each[: which + 1])
        less[name] = torch.cat([inputs[name][: end - by], inputs[name][end:]])
    after = _outputs(k, sum(shorter[0]), Hk * G)
    run(k, after, **less, G=G)
    first, last = sum(q[:which]), sum(q[: which + 1])
    faults = []
    for name, dim in (("O", 0), ("LSE", 1)):
        before, now = (x[name].tensor.transpose(0, dim) for x in (outputs, after))
        pairs = {"before": (before[:first], now[:first]), "behind": (before[last:], now[last - by :])}
        faults += [f"{name} of the sequences {where} it" for where, pair in pairs.items() if not same_bits(*pair)]
    judge(faults)


# ---- starts that are wrong -----------------------------------------------------------------------


def _refused(call: Any) -> str:
    try:
        call()
    except TilegenError as e:
        return str(e)
    return ""


def finds_bad_starts(build: str, *, seed: int) -> None:
    """The kernel in front finds them: nothing is written, `check` says so, and so does the next call after that."""
    k = kernel(build)
    q, keys = [100, 0, 333], [64, 5, 400]
    inputs, outputs = _inputs(k, q, keys, 2, 2, seed), _outputs(k, sum(q), 4)
    bad = {
        "cu_q[0] = 1": ("cu_q", [1, 100, 100, 433]),
        "cu_q[2] = 99": ("cu_q", [0, 100, 99, 433]),
        "cu_k[3] = 470": ("cu_k", [0, 64, 69, 470]),
        "cu_k[1] = -2000000000": ("cu_k", [0, -2000000000, 69, 469]),
        "cu_q[3] = 2000000000": ("cu_q", [0, 100, 100, 2000000000]),
    }
    faults = []
    for words, (name, starts) in bad.items():
        wrong = {**inputs, name: torch.tensor(starts, dtype=torch.int32, device=DEVICE)}
        for how in ("check", "the next call"):
            run(k, outputs, **wrong, G=2)
            again = k.check if how == "check" else lambda: k(**inputs, G=2)
            said = _refused(again)
            if "RAGGED_STARTS" not in said or words not in said:
                faults.append(f"{words}: {how} says {said or 'nothing'}")
            faults += [f"{words}: {n} is written" for n, p in outputs.items() if not bool(p.memory.isnan().all())]
    run(k, outputs, **inputs, G=2)  # raises nothing: what was found is told once
    k.check()
    judge(faults)
    _judge(k, inputs, outputs, "after bad starts: ")


# ---- where a launch runs -------------------------------------------------------------------------


def runs_on_two_streams(build: str, *, seed: int) -> None:
    """One launch and another, time and again, on two streams at once: their tables do not meet."""
    k = kernel(build)
    work = []
    for n, (q, keys) in enumerate((([900, 3, 0, 700], [900, 5, 9, 1000]), ([1, 2, 1500, 80], [300, 2, 1300, 81]))):
        inputs, outputs = _inputs(k, q, keys, 2, 2, seed + n), _outputs(k, sum(q), 4)
        launch = k.prepare(**inputs, G=2, **{name: p.tensor for name, p in outputs.items()})
        work.append((inputs, outputs, launch))
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    finish("the setup")
    for turn in range(20):
        for at, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                work[(at + turn) % 2][2]()
    for stream in streams:
        with torch.cuda.stream(stream):
            finish("launches on two streams")
    k.check()
    for inputs, outputs, _ in work:
        _judge(k, inputs, outputs, "on two streams: ")


def runs_in_a_graph(build: str, *, seed: int) -> None:
    """A captured launch follows the lengths that stand in memory when it is replayed, also where its first launch is
    the captured one."""
    k = kernel(build)
    lengths = ([400, 0, 600], [500, 77, 600]), ([7, 993, 0], [77, 1000, 100]), ([1000, 0, 0], [1177, 0, 0])
    inputs, outputs = _inputs(k, *lengths[0], 2, 2, seed), _outputs(k, 1000, 4)
    launch = k.prepare(**inputs, G=2, **{name: p.tensor for name, p in outputs.items()})
    run(k, _outputs(k, 1000, 4), **inputs, G=2)  # loads the kernels
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    for q, keys in lengths:
        inputs["cu_q"].copy_(_starts(q))
        inputs["cu_k"].copy_(_starts(keys))
        for placed in outputs.values():
            placed.memory.fill_(float("nan"))
        finish("what comes before a replay")
        graph.replay()
        launch()  # in memory of its own
        finish("a replay")
        _judge(k, inputs, outputs, f"replayed at {q}, {keys}: ")
    k.check()
