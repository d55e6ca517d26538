"""Domains of the samples on the GPU at size: windows, prefixes, global tokens, documents, against exact results."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from benchmarks.builds import Request, sample
from tests.gpu.harness import Harness

pytestmark = pytest.mark.gpu

PARAMS = [{"D": D, "T": T} for D, T in product((64, 128), ("bf16", "f16"))]
CASES: list[tuple[str, dict[str, bool], dict[str, int]]] = [
    ("window", {}, {"left": 256, "right": 0}),
    ("window", {}, {"left": 1000, "right": 333}),
    ("window", {}, {"left": -1, "right": 70}),
    ("window", {}, {"left": 0, "right": -1}),
    ("window", {}, {"left": -1, "right": -1}),
    ("prefix_lm", {}, {"prefix": 777}),
    ("prefix_lm", {}, {"prefix": 0}),
    *(
        ("global_tokens", {"causal": causal}, {"globals": n, "window": w})
        for causal in (False, True)
        for n, w in [(4, 300), (200, 17), (0, 0), (1000, 1000)]
    ),
    ("documents", {"causal": False}, {}),
    ("documents", {"causal": True}, {}),
]
# (B, Hk, G, Sq, Sk): more work items than an H200 has multiprocessors in the first
SIZES = [(4, 4, 3, 2049, 2049), (1, 2, 2, 3001, 2222), (1, 3, 1, 1500, 4001)]


def _request(name: str, params: dict[str, Any]) -> Request:
    return sample(f"attention_{name}", **params)


CHUNKS = [(300, 7), (1024, 3), (17, 150)]  # (C, N)


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    builds = [(name, more) for name, more, _ in CASES] + [("chunks", {"causal": c}) for c in (False, True)]
    gpu.build({_request(name, {**p, **more}) for (name, more), p in product(builds, PARAMS)})


@pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("params", PARAMS, ids=lambda p: f"D{p['D']}-{p['T']}")
@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join([c[0], *map(str, (*c[1].values(), *c[2].values()))]))
def test_equals_the_exact_result(
    gpu: Harness,
    case: tuple[str, dict[str, bool], dict[str, int]],
    params: dict[str, Any],
    size: tuple[int, int, int, int, int],
) -> None:
    """Cases 3, 5, 7 and 15 among them."""
    name, more, scalars = case
    B, Hk, G, Sq, Sk = size
    request = _request(name, {**params, **more})
    error, lse = gpu.run("domain_checks:matches", request, B=B, Hk=Hk, G=G, Sq=Sq, Sk=Sk, **scalars)
    gpu.saw(f"attention's O over domains in {params['T']}", error)
    gpu.saw("attention's LSE over domains", lse)


@pytest.mark.parametrize(("C", "N"), CHUNKS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("params", PARAMS, ids=lambda p: f"D{p['D']}-{p['T']}")
def test_chunks_equal_the_exact_result(gpu: Harness, params: dict[str, Any], causal: bool, C: int, N: int) -> None:
    request = _request("chunks", {**params, "causal": causal})
    error, lse = gpu.run("domain_checks:matches", request, B=2, Hk=3, G=2, Sq=N * C, Sk=N * C, C=C)
    gpu.saw(f"attention's O over domains in {params['T']}", error)
    gpu.saw("attention's LSE over domains", lse)
