"""Weights that go through shared memory, and hints to L2, on the GPU against exact results."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from benchmarks.builds import SAMPLES, Request
from tests.gpu.harness import Harness
from tilegen.syntax.reading import read_source
from tilegen.tune.spelling import with_schedule

pytestmark = pytest.mark.gpu

BATCH = "late O by 1  batch O, s  take_turns over s, O  stale_max  walk j down  skip_rows  persistent table"
SCHEDULES = {
    64: f"block i 192, j 160  consumers 3 over i  stages k 2, v 2  {BATCH}  place p shared"
    "  hint k keep, v keep, q stream",
    128: f"block i 192, j 96  consumers 3 over i  stages k 2, v 2  {BATCH}  place p shared",
    256: "block i 128, j 64  consumers 2 over i  stages k 1, v 1  late O by 1  issue s, O  place p shared"
    "  via O tma  alias O, q  hint O stream, k keep",
}
SPEC = read_source(SAMPLES / "fa3_fwd.tile")
KERNELS = {
    f"D{D}-{T}-{'causal' if causal else 'full'}": Request(
        with_schedule(SPEC, SCHEDULES[D]).text, (("D", D), ("T", T), ("causal", causal))
    )
    for D, (T, causal) in product(SCHEDULES, (("bf16", False), ("f16", True)))
}


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build(KERNELS.values())


@pytest.mark.parametrize(
    "sizes",
    [
        {"B": 1, "Hk": 2, "G": 3, "Sq": 137, "Sk": 1000},
        {"B": 4, "Hk": 8, "G": 1, "Sq": 2049, "Sk": 2049},
        {"B": 1, "Hk": 2, "G": 1, "Sq": 1000, "Sk": 2048, "data": "rising"},
    ],
    ids=["short", "long", "rising"],
)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_equals_the_exact_result(gpu: Harness, kernel: Request, sizes: dict[str, Any]) -> None:
    error, lse, _ = gpu.run("attention_checks:matches", kernel, **sizes)
    gpu.saw(f"O with weights in shared memory, {dict(kernel.params)['T']}", error)
    gpu.saw("LSE with weights in shared memory", lse)
