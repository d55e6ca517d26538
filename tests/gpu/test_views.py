"""Views, and tensors larger than 32 bits count, on the GPU."""

from __future__ import annotations

import pytest

from benchmarks.builds import Request, sample
from tests.gpu.harness import Harness

pytestmark = pytest.mark.gpu

KERNELS = {"D64-causal": sample("fa3_fwd", D=64, causal=True), "D128-full": sample("fa3_fwd", D=128, causal=False)}
COPY = sample("copy")
LAYOUTS = [  # those of view_checks, which needs torch
    "fused", "fused in each head", "batch and sequence swapped", "heads before the sequence",
    "every second token, some heads", "one head for all", "one batch for all",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build([*KERNELS.values(), COPY])


@pytest.fixture(params=KERNELS.values(), ids=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Request:
    return request.param


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views(gpu: Harness, kernel: Request, layout: str) -> None:
    """Case 28 among them: an expanded tensor is right."""
    gpu.run("view_checks:layout", kernel, name=layout)


def test_tensors_over_4_gib(gpu: Harness, kernel: Request) -> None:
    """Case 25."""
    assert gpu.run("view_checks:over_4_gib", kernel, limit=100) > 4


@pytest.mark.parametrize("dim", [0, 1, 2], ids=["batches", "tokens", "heads"])
def test_offsets_over_32_bits(gpu: Harness, kernel: Request, dim: int) -> None:
    """Case 25."""
    gpu.run("view_checks:far_apart", kernel, dim=dim)


def test_keys_stored_by_token(gpu: Harness, kernel: Request) -> None:
    """Case 26."""
    gpu.run("view_checks:stored_by_token", kernel)


@pytest.mark.parametrize(
    ("B", "S", "H"), [(65537, 9, 1), (65536, 16, 16), (2, 9, 65537), (1, 200, 65536)], ids=lambda n: str(n)
)
def test_more_batches_or_heads_than_16_bits_count(gpu: Harness, kernel: Request, B: int, S: int, H: int) -> None:
    first, then = gpu.run("view_checks:many", kernel, B=B, S=S, H=H, limit=100)
    gpu.notes.append(
        f"host time of {kernel.label} at B = {B}, S = {S}, H = {H}: {first:.3f} s at first, then {1e6 * then:.0f} µs"
    )


def test_more_tiles_than_16_bits_count(gpu: Harness) -> None:
    gpu.run("view_checks:many_rows", COPY, M=128 * 70000 + 5, N=64)
