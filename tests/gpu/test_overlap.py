"""Softmax computed while a product runs, on the GPU against exact results: with turns and without, each exponent."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from benchmarks.builds import Request, sample
from tests.gpu.harness import Harness
from tilegen.syntax.reading import read_source
from tilegen.tune.spelling import with_schedule

pytestmark = pytest.mark.gpu

BLOCKS = {
    64: "block i 192, j 96 consumers 3 over i",
    128: "block i 192, j 64 consumers 3 over i",
    256: "block i 128, j 64 consumers 2 over i",
}
ORDER = "stages k 2, v 2 late O by 1 issue s, O under O: p walk j down skip_rows persistent table"


def _kernel(D: int, causal: bool, more: str) -> Request:
    own = sample("fa3_fwd", D=D, causal=causal)
    return replace(own, spec=with_schedule(read_source(own.spec), f"{BLOCKS[D]} {ORDER} {more}").text)


KERNELS = {
    f"D{D}-{'causal' if causal else 'full'}-{name}": _kernel(D, causal, more)
    for D, causal, (name, more) in product(
        (64, 128, 256),
        (False, True),
        (("exact", "take_turns over s, O"), ("kept", "stale_max take_turns over s, O"), ("kept-no-turns", "stale_max")),
    )
}


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build(KERNELS.values())


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize(("Sq", "Sk"), [(1000, 1000), (137, 2049), (300, 64)], ids=lambda n: str(n))
@pytest.mark.parametrize("data", ["normal", "rising"])
def test_equals_the_exact_result(gpu: Harness, kernel: Request, Sq: int, Sk: int, data: str) -> None:
    """The same bits twice: what moves past a wait would be seen now and then only."""
    error, lse, _ = gpu.run("attention_checks:matches", kernel, B=2, Hk=4, G=2, Sq=Sq, Sk=Sk, data=data)
    gpu.saw("attention's O with softmax under a product", error)
    gpu.saw("attention's LSE", lse)
