"""FlashAttention-3 forward on the GPU against exact results, on fresh random data and outputs of NaN."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from benchmarks.builds import Request, sample
from tests.gpu.harness import Harness

pytestmark = pytest.mark.gpu

KERNELS = {
    f"D{D}-{T}-{'causal' if causal else 'full'}": sample("fa3_fwd", D=D, T=T, causal=causal)
    for D, T, causal in product((64, 128, 256), ("bf16", "f16"), (False, True))
}
LENGTHS = [
    *((S, S) for S in (1, 9, 12, 64, 128, 137, 1000, 1025, 2048, 4096)),
    (1, 137), (5, 2), (3, 128), (128, 1000), (137, 9), (1000, 300), (1025, 64), (64, 1), (2048, 4096), (300, 0),
    (0, 64),
]  # fmt: skip
# (B, Hk, G, Sq, Sk): more work items than an H200 has multiprocessors, so that a CTA does several, of few steps or many
MANY_ITEMS = [
    (40, 8, 3, 9, 9),
    (16, 8, 3, 137, 300),
    (30, 4, 4, 1, 1000),
    (16, 8, 3, 300, 64),
    (20, 8, 4, 300, 0),
    (4, 8, 1, 2049, 2049),
    (1, 5, 3, 4096, 1025),
]


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build(KERNELS.values())


def _matches(gpu: Harness, kernel: Request, **arguments: Any) -> None:
    error, lse, by_rounding = gpu.run("attention_checks:matches", kernel, **arguments)
    gpu.counts["batches and heads of few rows beyond the bound, but within twice what rounding makes"] += by_rounding
    gpu.saw(f"attention's O in {dict(kernel.params)['T']}", error)
    gpu.saw("attention's LSE", lse)


@pytest.fixture(params=KERNELS.values(), ids=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Request:
    return request.param


@pytest.mark.parametrize(("Sq", "Sk"), LENGTHS, ids=[f"{q}x{k}" for q, k in LENGTHS])
@pytest.mark.parametrize("G", [1, 4, 3])
def test_equals_the_exact_result(gpu: Harness, kernel: Request, G: int, Sq: int, Sk: int) -> None:
    """Cases 3, 15 and 21 among them."""
    n = 2 if max(Sq, Sk) < 1025 else 1
    _matches(gpu, kernel, B=n, Hk=n, G=G, Sq=Sq, Sk=Sk)


@pytest.mark.parametrize(("B", "Hk", "G", "Sq", "Sk"), MANY_ITEMS, ids=lambda n: str(n))
def test_many_work_items(gpu: Harness, kernel: Request, B: int, Hk: int, G: int, Sq: int, Sk: int) -> None:
    _matches(gpu, kernel, B=B, Hk=Hk, G=G, Sq=Sq, Sk=Sk)


@pytest.mark.parametrize("data", ["sharp", "rising"])
def test_large_scores(gpu: Harness, kernel: Request, data: str) -> None:
    _matches(gpu, kernel, B=1, Hk=2, G=1, Sq=1000, Sk=2048, data=data)


@pytest.mark.parametrize(
    ("layout", "Sq", "Sk"), [("framed", 333, 470), ("swapped", 333, 470), ("fused", 470, 470)], ids=lambda x: str(x)
)
def test_strided_tensors(gpu: Harness, kernel: Request, layout: str, Sq: int, Sk: int) -> None:
    """What lies between the rows is NaN: neither read into a result nor written."""
    _matches(gpu, kernel, B=2, Hk=2, G=3, Sq=Sq, Sk=Sk, layout=layout)


def test_a_given_scale(gpu: Harness, kernel: Request) -> None:
    _matches(gpu, kernel, B=1, Hk=2, G=1, Sq=300, Sk=300, scale=0.37)


@pytest.mark.parametrize("D", [64, 128, 256])
@pytest.mark.parametrize(("Sq", "Sk"), [(5, 2), (3, 64), (64, 1), (1, 1), (40, 0)], ids=lambda n: str(n))
def test_causal_rows_see_what_they_should(gpu: Harness, D: int, Sq: int, Sk: int) -> None:
    """Cases 1, 2 and 8, by hand."""
    gpu.run("attention_checks:rows_see", KERNELS[f"D{D}-bf16-causal"], Sq=Sq, Sk=Sk)


WHERE = ["runs_on_the_current_stream", "runs_in_a_graph", "runs_in_a_fresh_thread", "runs_from_another_context"]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", ["D64-bf16-causal", "D128-f16-full", "D256-bf16-causal"])
def test_where_a_launch_runs(gpu: Harness, name: str, where: str) -> None:
    """Case 49."""
    gpu.run(f"attention_checks:{where}", KERNELS[name])


BAD = {  # the catalogue's code, and what its message must name; cases 30 and 32 among them
    "float32 queries": ("ARRAY_DTYPE", "Q"),
    "keys of another type": ("ARRAY_DTYPE", "K"),
    "float64 LSE": ("ARRAY_DTYPE", "LSE"),
    "three dimensions": ("ARRAY_RANK", "Q"),
    "head size 96": ("ARRAY_EXTENT", "Q"),
    "fewer values than keys": ("ARRAY_EXTENT", "V"),
    "three query heads on two": ("ARRAY_EXTENT", "Q"),
    "another batch": ("ARRAY_EXTENT", "K"),
    "a wrong output": ("ARRAY_EXTENT", "O"),
    "no values": ("MISSING_ARRAY", "V"),
    "keys on the CPU": ("ARRAY_DEVICE", "K"),
    "an output on the CPU": ("ARRAY_DEVICE", "O"),
    "every second column": ("ARRAY_INNER_STRIDE", "K"),
    "rows of 16-byte chunks and a half": ("TMA_STRIDE_ALIGNMENT", "K"),
    "a start off by 4 bytes": ("TMA_ADDRESS", "V"),
    "an output in one place": ("OUTPUT_OVERLAP", "O"),
    "a negative scale": ("SCALAR_CONSTRAINT", "scale"),
    "queries that require a gradient": ("ARRAY_GRADIENT", "Q"),
    "a scale on the GPU": ("SCALAR_VALUE", "scale"),
    "a misspelt name": ("UNKNOWN_ARGUMENT", "scael"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_arguments_are_refused_by_name(gpu: Harness, what: str) -> None:
    code, named = BAD[what]
    gpu.run("attention_checks:refuses", KERNELS["D128-bf16-causal"], what=what, code=code, named=named)


def test_expanded_heads(gpu: Harness) -> None:
    gpu.run("attention_checks:broadcasts", KERNELS["D64-bf16-causal"])
