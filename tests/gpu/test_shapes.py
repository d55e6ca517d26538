"""Head sizes that fill no swizzle line, values of another size than keys, heads that share the rows of a tile: against
exact results on the GPU."""

from __future__ import annotations

import pytest

from benchmarks.builds import Request, sample
from tests.gpu.harness import Harness

pytestmark = pytest.mark.gpu

SIZES = range(32, 257, 8)
HEADS = {
    f"D{D}-{T}-{'causal' if causal else 'full'}": sample("fa3_fwd", D=D, T=T, causal=causal)
    for D in SIZES
    for T, causal in (("bf16", D % 16 == 0), ("f16", D % 16 != 0))
}
MIXED = {
    f"D{D}-DV{DV}-{T}-{'causal' if causal else 'full'}": sample("attention_mixed_heads", D=D, DV=DV, T=T, causal=causal)
    for D, DV in ((192, 128), (128, 64), (64, 256), (72, 40), (40, 136), (256, 200), (96, 80))
    for T, causal in (("bf16", True), ("f16", False))
}
SHARED = {
    f"I{n}-R{64 // n}-D{D}-{T}-{'causal' if causal else 'full'}": sample(
        "attention_decode", D=D, I=n, R=64 // n, T=T, causal=causal
    )
    for n, D, T, causal in (
        (8, 128, "bf16", True),
        (1, 64, "f16", False),
        (16, 72, "f16", True),
        (4, 256, "bf16", False),
    )
}
KERNELS = HEADS | MIXED


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build((KERNELS | SHARED).values())


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize(
    ("layout", "Sq", "Sk"), [("dense", 3, 7), ("framed", 137, 300), ("dense", 1000, 1025)], ids=lambda x: str(x)
)
def test_every_head_size_is_right(gpu: Harness, kernel: Request, layout: str, Sq: int, Sk: int) -> None:
    """Cases 18 and 19: outputs of NaN, written everywhere and nowhere else, the same bits twice."""
    error, lse, _ = gpu.run("attention_checks:matches", kernel, B=2, Hk=4, G=2, Sq=Sq, Sk=Sk, layout=layout)
    gpu.saw("O at any head size", error)
    gpu.saw("LSE at any head size", lse)


@pytest.mark.parametrize("kernel", SHARED.values(), ids=SHARED)
@pytest.mark.parametrize("G", [1, 3, 5, 8, 12])
def test_heads_of_a_group_share_the_rows(gpu: Harness, kernel: Request, G: int) -> None:
    """Short queries, keys of many blocks, more items than multiprocessors."""
    for Sq, Sk, layout in (
        (1, 1000, "dense"),
        (2, 4097, "framed"),
        (3, 7, "dense"),
        (17, 2048, "swapped"),
        (130, 300, "dense"),
    ):
        error, lse, _ = gpu.run("attention_checks:matches", kernel, B=20, Hk=4, G=G, Sq=Sq, Sk=Sk, layout=layout)
        gpu.saw("O with heads that share rows", error)
        gpu.saw("LSE with heads that share rows", lse)
