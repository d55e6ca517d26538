"""Tiles loaded once for a cluster of CTAs, on the GPU against exact results."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from benchmarks.builds import SAMPLES, Request
from tests.gpu.harness import Harness
from tilegen.syntax.reading import read_source
from tilegen.tune.spelling import with_schedule

pytestmark = pytest.mark.gpu

BLOCKS = "block m 128, n 256, k 64  consumers 2 over m  stages a 4, b 4"
PRODUCTS = {
    "b": f"{BLOCKS}  multicast b over m  persistent static  group m by 16",
    "a": f"{BLOCKS}  multicast a over n",
    "both": f"{BLOCKS}  multicast b over m, a over n by 2  persistent static",
    "four": f"{BLOCKS}  multicast b over m by 4  persistent static  group m by 16",
    "eight": f"{BLOCKS}  multicast b over m by 4, a over n  persistent static",
}
ATTENTION = {
    64: "block i 256, j 64  consumers 4 over i  stages k 4, v 4  via O tma  late O by 1  batch O, s"
    "  take_turns over s, O  stale_max  walk j down  skip_rows  persistent static  order longest_first"
    "  multicast k over i, v over i",
    128: "block i 128, j 96  consumers 2 over i  stages k 2, v 2  multicast k over i by 4, v over i by 4",
}


def _with(sample: str, schedule: str, **params: Any) -> Request:
    return Request(with_schedule(read_source(SAMPLES / f"{sample}.tile"), schedule).text, tuple(params.items()))


GEMMS = {name: _with("gemm", schedule, T="bf16") for name, schedule in PRODUCTS.items()}
ATTENTIONS = {
    f"D{D}-{'causal' if causal else 'full'}": _with("fa3_fwd", ATTENTION[D], D=D, T="bf16", causal=causal)
    for D, causal in product(ATTENTION, (False, True))
}
SIZES = [
    (1, 8, 8),
    (128, 256, 64),
    (130, 520, 72),
    (384, 768, 328),
    (1000, 1000, 1000),
    (2048, 4096, 2048),
    (640, 8, 0),
]


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build([*GEMMS.values(), *ATTENTIONS.values()])


@pytest.mark.parametrize("kernel", GEMMS.values(), ids=GEMMS)
def test_products(gpu: Harness, kernel: Request) -> None:
    for M, N, K in SIZES:
        for error, _ in gpu.run("sample_checks:matches", kernel, sizes={"M": M, "N": N, "K": K}, layout="framed"):
            gpu.saw("C of tiles loaded for a cluster", error)


@pytest.mark.parametrize(
    "sizes",
    [
        {"B": 1, "Hk": 2, "G": 3, "Sq": 137, "Sk": 1000},
        {"B": 2, "Hk": 4, "G": 1, "Sq": 2049, "Sk": 2049},
        {"B": 1, "Hk": 1, "G": 1, "Sq": 1, "Sk": 70},
        {"B": 1, "Hk": 2, "G": 1, "Sq": 1000, "Sk": 2048, "data": "rising"},
    ],
    ids=["short", "long", "single", "rising"],
)
@pytest.mark.parametrize("kernel", ATTENTIONS.values(), ids=ATTENTIONS)
def test_attention(gpu: Harness, kernel: Request, sizes: dict[str, Any]) -> None:
    error, lse, _ = gpu.run("attention_checks:matches", kernel, **sizes)
    gpu.saw("O of tiles loaded for a cluster", error)
    gpu.saw("LSE of tiles loaded for a cluster", lse)
