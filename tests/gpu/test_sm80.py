"""Kernels without TMA and wgmma on the GPU against exact results: the code for sm_80, compiled for the GPU at hand."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.builds import Request, sample
from tests.gpu.harness import Harness

pytestmark = pytest.mark.gpu


def _request(name: str, **params: Any) -> Request:
    plain = sample(name, **params)
    return Request(plain.spec, plain.params, target="sm_80")


FA3 = {
    "D64-f16-causal": _request("fa3_fwd", D=64, T="f16", causal=True),
    "D128-bf16-full": _request("fa3_fwd", D=128, T="bf16", causal=False),
    "D128-bf16-causal": _request("fa3_fwd", D=128, T="bf16", causal=True),
    "D72-f16-full": _request("fa3_fwd", D=72, T="f16", causal=False),
    "D256-bf16-causal": _request("fa3_fwd", D=256, T="bf16", causal=True),
}
# (B, Hk, G, Sq, Sk): as those of the kernels for Hopper
LENGTHS = [
    *((2, 2, G, S, S) for G, S in ((1, 1), (3, 9), (4, 64), (1, 128), (3, 137), (1, 1000), (4, 1025))),
    *((2, 2, 3, *s) for s in ((1, 137), (5, 2), (3, 128), (128, 1000), (137, 9), (1000, 300), (1025, 64), (64, 1))),
    (1, 1, 2, 2048, 4096), (2, 2, 1, 300, 0), (2, 2, 1, 0, 64), (30, 4, 4, 1, 1000), (16, 8, 3, 137, 300),
]  # fmt: skip
SIZES = {"B": 2, "Hk": 2, "G": 3, "Sq": 137, "Sk": 264}
SAMPLED: list[tuple[Request, dict[str, int]]] = [
    *((_request("gemm", T="bf16"), {"M": M, "N": N, "K": K}) for M, N, K in (
        (1, 8, 8), (130, 264, 72), (257, 8, 136), (256, 512, 0), (0, 8, 8), (1000, 1000, 1000), (300, 520, 75),
    )),
    (_request("gemm_bias_gelu", T="f16"), {"M": 257, "N": 136, "K": 328}),
    (_request("swiglu", T="f16"), {"M": 257, "N": 136, "K": 328}),
    (_request("gemm_logsumexp", T="bf16", D=128), {"M": 257, "V": 1001}),
    (_request("row_softmax", T="bf16"), {"M": 257, "N": 1000}),
    (_request("copy", T="f32"), {"M": 257, "N": 252}),
    (_request("attention_alibi", D=128, T="bf16", causal=True), SIZES),
    (_request("attention_bias", D=64, T="f16", causal=True), SIZES),
]  # fmt: skip
ANY = _request("gemm", T="bf16")


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build([*FA3.values(), *(r for r, _ in SAMPLED)])


def _name(value: Any) -> str:
    if isinstance(value, Request):
        return value.label.replace(" ", "-")
    return "x".join(map(str, value.values())) if isinstance(value, dict) else str(value)


def _matches(gpu: Harness, kernel: Request, **arguments: Any) -> None:
    error, lse, _ = gpu.run("attention_checks:matches", kernel, **arguments)
    gpu.saw("O of a build for sm_80", error)
    gpu.saw("LSE of a build for sm_80", lse)


@pytest.mark.parametrize(("B", "Hk", "G", "Sq", "Sk"), LENGTHS, ids=lambda n: str(n))
@pytest.mark.parametrize("kernel", FA3.values(), ids=FA3)
def test_attention(gpu: Harness, kernel: Request, B: int, Hk: int, G: int, Sq: int, Sk: int) -> None:
    _matches(gpu, kernel, B=B, Hk=Hk, G=G, Sq=Sq, Sk=Sk)


@pytest.mark.parametrize("layout", ["framed", "swapped"])
def test_strided_tensors(gpu: Harness, layout: str) -> None:
    """What lies between the rows is NaN: neither read into a result nor written."""
    _matches(gpu, FA3["D128-bf16-causal"], B=2, Hk=2, G=3, Sq=333, Sk=470, layout=layout)


@pytest.mark.parametrize("data", ["sharp", "rising"])
def test_large_scores(gpu: Harness, data: str) -> None:
    _matches(gpu, FA3["D128-bf16-full"], B=1, Hk=2, G=1, Sq=1000, Sk=2048, data=data)


def test_masked_values_stay_out(gpu: Harness) -> None:
    gpu.run("isolation_checks:spoilt_values", FA3["D128-bf16-causal"], B=2, Hk=2, G=2, Sq=300, Sk=470, bad=3)


@pytest.mark.parametrize(("kernel", "sizes"), SAMPLED, ids=_name)
def test_other_samples(gpu: Harness, kernel: Request, sizes: dict[str, int]) -> None:
    for error, _ in gpu.run("sample_checks:matches", kernel, sizes=sizes, layout="dense"):
        gpu.saw("other samples' builds for sm_80", error)


def test_arrays_that_begin_and_step_anywhere(gpu: Harness) -> None:
    gpu.saw("products of any arrays for sm_80", gpu.run("mover_checks:any_alignment", ANY, M=130, N=264, K=131))


def test_a_launch_runs_on_the_current_stream(gpu: Harness) -> None:
    gpu.run("attention_checks:runs_on_the_current_stream", FA3["D64-f16-causal"])
