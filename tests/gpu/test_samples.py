"""The other samples on the GPU against exact results, at sizes that are and are not multiples of their blocks."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from benchmarks.builds import SAMPLES, Request, sample
from tests.gpu.harness import Harness
from tilegen.syntax.reading import read_source
from tilegen.tune.spelling import with_schedule

pytestmark = pytest.mark.gpu

Sizes = dict[str, int]
HALVES = ("bf16", "f16")
# rows of 16 bytes are what TMA needs, so inner extents are multiples of 8; K = 0 … 5 steps of a ring of 4 (case 41)
PRODUCTS = [
    *((256, 512, K) for K in (0, 8, 64, 128, 192, 256, 320, 328)),
    (1, 8, 8), (64, 40, 72), (130, 264, 72), (257, 8, 136), (0, 8, 8), (1000, 1000, 1000), (2048, 2048, 2048),
]  # fmt: skip
LOGSUMEXPS = [(1, 1), (128, 128), (130, 137), (64, 0), (257, 1000), (1000, 50257)]
MATRICES = [
    (1, 8),
    (7, 64),
    (128, 64),
    (130, 136),
    (129, 72),
    (1000, 1000),
    (300, 4096),
    (2048, 512),
    (40, 20008),
    (5, 0),
]


def cases() -> list[tuple[Request, Sizes]]:
    """Every sample with every set of its parameters and sizes."""
    out: list[tuple[Request, Sizes]] = []
    for T, name in product(HALVES, ("gemm", "gemm_bias_gelu", "swiglu")):
        out += [(sample(name, T=T), {"M": M, "N": N, "K": K}) for M, N, K in PRODUCTS]
    for T, D in product(HALVES, (64, 128, 256)):
        out += [(sample("gemm_logsumexp", T=T, D=D), {"M": M, "V": V}) for M, V in LOGSUMEXPS]
    for T in HALVES:
        out += [(sample("row_softmax", T=T), {"M": M, "N": N}) for M, N in MATRICES]
    for T in (*HALVES, "f32"):
        out += [(sample("copy", T=T), {"M": M, "N": N}) for M, N in MATRICES]
    out += [(sample("copy", T="f32"), {"M": M, "N": N}) for M, N in ((7, 4), (33, 252), (250, 252))]  # case 31
    return out


CASES = cases()
REFUSED: list[tuple[Request, Sizes, str]] = [
    (sample("gemm", T="f16"), {"M": 64, "N": 64, "K": 12}, "TMA_STRIDE_ALIGNMENT"),  # case 30
    (sample("gemm", T="bf16"), {"M": 64, "N": 63, "K": 64}, "TMA_STRIDE_ALIGNMENT"),
    (sample("copy", T="f32"), {"M": 64, "N": 250}, "TMA_STRIDE_ALIGNMENT"),  # case 31
    (sample("row_softmax", T="bf16"), {"M": 64, "N": 9}, "TMA_STRIDE_ALIGNMENT"),
]


BOXES = "block m 128, n 128, k 64  stages a 3, b 3  consumers 2 over m  via C tma"
STORED_BY_BOXES = Request(with_schedule(read_source(SAMPLES / "gemm.tile"), BOXES).text, (("T", "bf16"),))


FRAMED: list[tuple[Request, Sizes]] = [
    (sample(name, T=T), sizes)
    for T in HALVES
    for name, sizes in (
        ("gemm", {"M": 300, "N": 264, "K": 136}),
        ("gemm_bias_gelu", {"M": 300, "N": 264, "K": 136}),
        ("swiglu", {"M": 300, "N": 264, "K": 136}),
        ("gemm_logsumexp", {"M": 300, "V": 777}),
        ("row_softmax", {"M": 300, "N": 1000}),
        ("copy", {"M": 300, "N": 264}),
    )
]


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build([request for request, *_ in (*CASES, *REFUSED, *FRAMED, (STORED_BY_BOXES,))])


def _matches(gpu: Harness, kernel: Request, sizes: Sizes, layout: str) -> None:
    for error, lse in gpu.run("sample_checks:matches", kernel, sizes=sizes, layout=layout):
        name, T = kernel.label.split(" ")[0], dict(kernel.params)["T"]
        gpu.saw(f"{name} in {T}", error)
        if lse is not None:
            gpu.saw(f"{name}'s LSE", lse)


def _name(value: Any) -> str:
    if isinstance(value, Request):
        return value.label.replace(" ", "-")
    return "x".join(map(str, value.values())) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("kernel", "sizes"), CASES, ids=_name)
def test_equals_the_exact_result(gpu: Harness, kernel: Request, sizes: Sizes) -> None:
    _matches(gpu, kernel, sizes, "dense")


@pytest.mark.parametrize(("kernel", "sizes"), FRAMED, ids=_name)
def test_strided_tensors(gpu: Harness, kernel: Request, sizes: Sizes) -> None:
    """What lies between and around the rows is NaN: neither read into a result nor written."""
    _matches(gpu, kernel, sizes, "framed")


@pytest.mark.parametrize(("kernel", "sizes", "code"), REFUSED, ids=_name)
def test_rows_that_tma_cannot_read_are_refused(gpu: Harness, kernel: Request, sizes: Sizes, code: str) -> None:
    gpu.run("sample_checks:refuses", kernel, sizes=sizes, code=code, layout="dense")


@pytest.mark.parametrize("N", [8, 16, 24, 136])
def test_boxes_are_stored_up_to_the_end_of_rows(gpu: Harness, N: int) -> None:
    sizes = {"M": 130, "N": N, "K": 72}
    for error, _ in gpu.run("sample_checks:matches", STORED_BY_BOXES, sizes=sizes, layout="apart"):
        gpu.saw("gemm in bf16", error)


@pytest.mark.parametrize("N", [9, 12, 15, 132])
def test_rows_that_a_box_would_write_past_are_refused(gpu: Harness, N: int) -> None:
    sizes = {"M": 130, "N": N, "K": 72}
    gpu.run("sample_checks:refuses", STORED_BY_BOXES, sizes=sizes, code="TMA_STORE_ROWS", layout="apart")
