"""A kernel whose schedule depends on sizes, on the GPU: right on both sides of the border, and in one graph."""

from __future__ import annotations

import pytest

from benchmarks.builds import SAMPLES, Request
from tests.gpu.harness import Harness

pytestmark = pytest.mark.gpu

SHORT = """schedule hopper if D <= 128 and Sq <= 300 and Sk <= 520 {
    block i 128, j 128  consumers 2 over i  stages k 2, v 2  late O by 1  batch O, s  take_turns over s, O
    stale_max  walk j down  skip_rows  persistent table  order longest_first
  }
  """
TEXT = (SAMPLES / "fa3_fwd.tile").read_text(encoding="utf-8")
FIRST = TEXT.index("schedule hopper")
SPEC = TEXT[:FIRST] + SHORT + TEXT[FIRST:]
KERNELS = {
    f"D{D}-{'causal' if causal else 'full'}": Request(SPEC, (("D", D), ("causal", causal)))
    for D, causal in ((128, False), (128, True), (72, True))
}
SIZES = [(300, 520), (301, 520), (300, 521), (1, 1), (64, 2048), (2048, 64)]


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build(KERNELS.values())


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize(("Sq", "Sk"), SIZES, ids=[f"{q}x{k}" for q, k in SIZES])
def test_equals_the_exact_result_on_both_sides_of_the_border(gpu: Harness, kernel: Request, Sq: int, Sk: int) -> None:
    error, lse, _ = gpu.run("attention_checks:matches", kernel, B=2, Hk=2, G=2, Sq=Sq, Sk=Sk)
    gpu.saw("variants' O in bf16", error)
    gpu.saw("variants' LSE", lse)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_launches_of_both_variants_in_one_graph(gpu: Harness, kernel: Request) -> None:
    sizes = [(300, 520, True), (1200, 1300, False), (137, 75, True), (301, 9, False)]
    gpu.run("variant_checks:share_a_graph", kernel, sizes=sizes)
