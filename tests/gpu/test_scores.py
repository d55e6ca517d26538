"""Attention whose scores are capped, biased, tempered or share their weight with a sink, on the GPU."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from benchmarks.builds import Request, sample
from tests.gpu.harness import Harness
from tilegen.oracle.rounding import TANH

pytestmark = pytest.mark.gpu

Sizes = dict[str, int]
HALVES = ("bf16", "f16")
LENGTHS = [(1, 1), (5, 2), (9, 137), (128, 128), (300, 0), (1000, 1025), (1025, 64), (2048, 2048)]
SAMPLES = ("alibi", "sink", "softcap")
BIASED = [
    sample("attention_bias", T=T, W=W, D=D, causal=causal)
    for (T, W), D, causal in product((("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32")), (64, 128), (False, True))
]
SINKS = [sample("attention_sink", T=T, D=D, causal=c) for T, D, c in product(HALVES, (64, 128), (False, True))]
TANH_OF = Request(
    """kernel squash {
         size   M, N
         input  X: f32[M, N]
         output Y: f32[M, N]
         tile x[i, j] = X[i, j]
         Y[i, j] = tanh(x[i, j])
         schedule hopper { block i 128, j 64  consumers 2 over i }
       }"""
)


def cases() -> list[tuple[Request, Sizes]]:
    out: list[tuple[Request, Sizes]] = []
    for score, T, D, causal in product(SAMPLES, HALVES, (64, 128), (False, True)):
        request = sample(f"attention_{score}", T=T, D=D, causal=causal)
        out += [(request, _sizes(n, Sq, Sk)) for n, (Sq, Sk) in enumerate(LENGTHS)]
    for request in BIASED:  # rows of whole 16-byte chunks
        out += [(request, _sizes(n, Sq, -(-Sk // 8) * 8)) for n, (Sq, Sk) in enumerate(LENGTHS)]
    return out


def _sizes(n: int, Sq: int, Sk: int) -> Sizes:
    return {"B": 2, "Hk": 2, "G": (3, 1)[n % 2], "Sq": Sq, "Sk": Sk}


CASES = cases()


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build([TANH_OF, *(request for request, _ in CASES)])


def _name(value: Any) -> str:
    if isinstance(value, Request):
        return value.label.replace(" ", "-")
    return "x".join(map(str, value.values())) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("kernel", "sizes"), CASES, ids=_name)
def test_equals_the_exact_result(gpu: Harness, kernel: Request, sizes: Sizes) -> None:
    for error, lse in gpu.run("sample_checks:matches", kernel, sizes=sizes, layout="dense"):
        name, T = kernel.label.split(" ")[0], dict(kernel.params)["T"]
        gpu.saw(f"{name} in {T}", error)
        gpu.saw(f"{name}'s LSE", lse)


@pytest.mark.parametrize("kernel", BIASED, ids=_name)
@pytest.mark.parametrize(("Sq", "Sk"), [(1, 1), (200, 137), (137, 300), (1000, 1025)], ids=str)
def test_keys_that_a_bias_hides(gpu: Harness, kernel: Request, Sq: int, Sk: int) -> None:
    """Rows of any length lie in rows of whole chunks: what fills them up is NaN."""
    error, lse = gpu.run("score_checks:hidden_keys", kernel, B=2, Hk=2, G=2, Sq=Sq, Sk=Sk)
    gpu.saw("attention_bias with hidden keys", error)
    gpu.saw("its LSE", lse)


def test_an_expanded_bias(gpu: Harness) -> None:
    gpu.run("score_checks:expanded_bias", BIASED[0])


@pytest.mark.parametrize("kernel", SINKS, ids=_name)
@pytest.mark.parametrize(("Sq", "Sk"), [(1, 0), (200, 137), (137, 300), (1000, 1025)], ids=str)
def test_sinks_of_every_size(gpu: Harness, kernel: Request, Sq: int, Sk: int) -> None:
    error, lse = gpu.run("score_checks:sinks", kernel, Sq=Sq, Sk=Sk)
    gpu.saw("attention_sink with extreme sinks", error)
    gpu.saw("its LSE, relative", lse)


def test_tanh_over_the_whole_range(gpu: Harness) -> None:
    gpu.saw("tanh, relative", gpu.run("score_checks:tanh", TANH_OF, bound=TANH))
