"""`oob x nan` on the GPU: what TMA writes outside of a tensor, and what fma.rn.oob makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.builds import Request, sample
from tests.gpu.harness import Harness
from tilegen.emulate.ptx.half import OOB_NAN

pytestmark = pytest.mark.gpu

TYPES = ("f16", "bf16")
_SPECS = Path(__file__).parents[1] / "specs"


def _plain(request: Request) -> Request:
    """The same without `oob`."""
    lines = Path(request.spec).read_text(encoding="utf-8").splitlines()
    return Request("\n".join(line for line in lines if not line.strip().startswith("oob ")), request.params)


DIFFERENCE = {T: sample("difference", T=T) for T in TYPES}
VARIOGRAM = {T: Request(str(_SPECS / "variogram.tile"), (("T", T),)) for T in TYPES}


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build([x for r in (*DIFFERENCE.values(), *VARIOGRAM.values()) for x in (r, _plain(r))])


def _with_plain(gpu: Harness, check: str, request: Request, M: int, N: int, lag: int) -> float | None:
    plain = str(gpu.built(_plain(request)))
    found: float | None = gpu.run(f"fill_checks:{check}", request, plain=plain, M=M, N=N, lag=lag)
    return found


@pytest.mark.parametrize("T", TYPES)
@pytest.mark.parametrize(
    ("M", "N", "lag"), [(1, 8, 1), (130, 136, 1), (130, 136, 0), (1000, 1000, 77), (2048, 512, 128), (300, 4096, 400)]
)
def test_differences_are_exact(gpu: Harness, T: str, M: int, N: int, lag: int) -> None:
    _with_plain(gpu, "differences", DIFFERENCE[T], M, N, lag)


@pytest.mark.parametrize("T", TYPES)
@pytest.mark.parametrize(
    ("M", "N", "lag"),
    [(1, 8, 1), (130, 136, 0), (257, 1000, 100), (512, 4096, 1), (64, 20008, 8), (30, 64, 8), (30, 64, 1000)],
)
def test_variograms_count_nothing_outside(gpu: Harness, T: str, M: int, N: int, lag: int) -> None:
    error = _with_plain(gpu, "variograms", VARIOGRAM[T], M, N, lag)
    assert error is not None
    gpu.saw(f"a variogram in {T}", error)


@pytest.mark.parametrize("T", TYPES)
def test_one_pattern_stands_for_what_lies_outside(gpu: Harness, T: str) -> None:
    """With either sign."""
    assert gpu.run("fill_checks:taken_for_outside", DIFFERENCE[T]) == [int(OOB_NAN), int(OOB_NAN) | 0x8000]
