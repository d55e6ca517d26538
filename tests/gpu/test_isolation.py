"""Isolation on the GPU: NaN and infinities in V, at places that some rows of a tile see and others do not."""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.builds import Request, sample
from tests.gpu.harness import Harness

pytestmark = pytest.mark.gpu

KERNELS = {f"D{D}-{T}": sample("fa3_fwd", D=D, T=T, causal=True) for D, T in product((64, 128, 256), ("bf16", "f16"))}
SIZES = [(2, 2, 2, 1500, 1700, 30), (2, 4, 1, 2048, 2048, 200), (8, 4, 3, 300, 137, 20), (1, 2, 1, 4097, 4097, 1)]


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build(KERNELS.values())


@pytest.fixture(params=KERNELS.values(), ids=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Request:
    return request.param


@pytest.mark.parametrize(("B", "Hk", "G", "Sq", "Sk", "bad"), SIZES, ids=lambda n: str(n))
def test_spoilt_values(gpu: Harness, kernel: Request, B: int, Hk: int, G: int, Sq: int, Sk: int, bad: int) -> None:
    """Cases 11 and 12."""
    gpu.run("isolation_checks:spoilt_values", kernel, B=B, Hk=Hk, G=G, Sq=Sq, Sk=Sk, bad=bad)


@pytest.mark.parametrize("bad", [1e-4, 1e-2])
def test_what_bringing_entries_back_costs(gpu: Harness, bad: float) -> None:
    """Noted, not judged: once such an entry was found, a CTA goes through the cut blocks of each item again."""
    clean, mended = gpu.run("isolation_checks:cost_of_mending", KERNELS["D128-bf16"], S=8192, bad=bad)
    gpu.notes.append(
        f"causal D=128 S=8192: {clean:.3f} ms, with infinities in {100 * bad:g} % of V's rows {mended:.3f} ms"
    )
