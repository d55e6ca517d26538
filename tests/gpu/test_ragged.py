"""FlashAttention-3 over sequences of different lengths on the GPU, each against the exact result for it alone."""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.builds import Request, sample
from tests.gpu.harness import Harness

pytestmark = pytest.mark.gpu

HEADS = ((64, "bf16"), (128, "bf16"), (128, "f16"), (192, "f16"), (256, "bf16"))
KERNELS = {
    f"D{D}-{T}-{'causal' if causal else 'full'}": sample("fa3_varlen", D=D, T=T, causal=causal)
    for (D, T), causal in product(HEADS, (False, True))
}
# (queries, keys): cases 9, 11, 18 and 21 among them
LENGTHS = [
    ([0, 0, 1023], [0, 1, 2045]),
    ([9, 12, 137, 1025], [9, 12, 137, 1025]),
    ([1025, 9, 12], [137, 1025, 1]),
    ([0, 0, 0, 1], [7, 0, 0, 0]),
    ([3], [7]),
    ([1] * 40, [1000, 0, 3, 129] * 10),
    ([300, 1, 0, 4096], [0, 300, 1, 4096]),
]


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build(KERNELS.values())


@pytest.fixture(params=KERNELS.values(), ids=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Request:
    return request.param


def _kept(gpu: Harness, found: tuple[float, float, int]) -> None:
    error, lse, by_rounding = found
    gpu.counts["sequences and heads of few rows beyond the bound, but within twice what rounding makes"] += by_rounding
    gpu.saw("ragged attention's O", error)
    gpu.saw("ragged attention's LSE", lse)


@pytest.mark.parametrize(("q", "keys"), LENGTHS, ids=str)
@pytest.mark.parametrize("G", [1, 3])
def test_equals_the_exact_result(gpu: Harness, kernel: Request, G: int, q: list[int], keys: list[int]) -> None:
    _kept(gpu, gpu.run("ragged_checks:matches", kernel, q=q, keys=keys, Hk=2, G=G))


@pytest.mark.parametrize(("count", "most"), [(16, 2000), (200, 40)], ids=str)
def test_random_lengths(gpu: Harness, kernel: Request, count: int, most: int) -> None:
    """Fresh ones at every run."""
    _kept(gpu, gpu.run("ragged_checks:random_lengths", kernel, count=count, most=most, Hk=2, G=2))


@pytest.mark.parametrize(("count", "most"), [(1500, 9), (2500, 1)], ids=str)
def test_more_sequences_than_the_kernel_in_front_has_threads(gpu: Harness, count: int, most: int) -> None:
    kernel = KERNELS["D128-bf16-causal"]
    _kept(gpu, gpu.run("ragged_checks:random_lengths", kernel, limit=110, count=count, most=most, Hk=1, G=2))


@pytest.mark.parametrize("layout", ["framed", "swapped"])
def test_strided_tensors(gpu: Harness, kernel: Request, layout: str) -> None:
    _kept(gpu, gpu.run("ragged_checks:matches", kernel, q=[333, 1], keys=[470, 30], Hk=2, G=3, layout=layout))


def test_case_16_a_shorter_sequence(gpu: Harness, kernel: Request) -> None:
    lengths = [700, 1025, 900, 333]
    for which in (0, 1, 3):
        gpu.run("ragged_checks:shortened", kernel, q=lengths, keys=lengths, which=which, by=77, Hk=2, G=2)


@pytest.mark.parametrize("what", ["finds_bad_starts", "runs_on_two_streams", "runs_in_a_graph"])
@pytest.mark.parametrize("name", ["D64-bf16-causal", "D128-bf16-full"])
def test_launches(gpu: Harness, name: str, what: str) -> None:
    gpu.run(f"ragged_checks:{what}", KERNELS[name])
