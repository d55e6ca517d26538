"""Tiles that threads copy, on the GPU against exact results: every sample, odd lengths, arrays that TMA cannot take."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.builds import SAMPLES, Request
from tests.gpu.harness import Harness
from tests.movers import with_mover
from tests.passes.specs import schedule_of

pytestmark = pytest.mark.gpu

# the samples whose own schedules are several take one: each mover is a few variants already
ATTENTION = {
    64: "block i 192, j 128  consumers 3 over i  stages k 2, v 2",
    128: "block i 192, j 80  consumers 3 over i  stages k 3, v 3",
    256: "block i 128, j 64  consumers 2 over i  stages k 2, v 2",
}
MORE = "late O by 1  batch O, s  take_turns over s, O  stale_max  walk j down  skip_rows  persistent table"
MANY = ("fa3_fwd", "fa3_varlen")


def _request(name: str, mover: str = "cp_async", tiles: tuple[str, ...] = (), **params: Any) -> Request:
    text = (SAMPLES / f"{name}.tile").read_text(encoding="utf-8")
    if name in MANY:
        text = schedule_of(text, f"{ATTENTION[params['D']]}  {MORE}  order longest_first  group h by 32 MB")
    return Request(with_mover(text, mover, tiles, **params), tuple(params.items()))


FA3 = [
    _request("fa3_fwd", D=64, T="f16", causal=True),
    _request("fa3_fwd", D=128, T="bf16", causal=False),
    _request("fa3_fwd", tiles=("k", "v"), D=128, T="f16", causal=True),
    _request("fa3_fwd", D=256, T="bf16", causal=True),
    _request("attention_decode", D=72, T="bf16", causal=True),
    _request("attention_mixed_heads", D=72, DV=40, T="f16", causal=True),
]
VARLEN = [_request("fa3_varlen", D=128, T="bf16", causal=True)]
WINDOW = [_request("attention_window", D=128, T="bf16")]
SIZES = {"B": 2, "Hk": 2, "G": 3, "Sq": 137, "Sk": 264}
SAMPLED: list[tuple[Request, dict[str, int]]] = [
    *((_request(f"attention_{n}", D=128, T="bf16", causal=True), SIZES) for n in ("alibi", "sink", "softcap", "bias")),
    *((_request(name, T="f16"), {"M": 257, "N": 136, "K": 328}) for name in ("gemm", "gemm_bias_gelu", "swiglu")),
    (_request("gemm_logsumexp", T="bf16", D=128), {"M": 257, "V": 1001}),
    (_request("row_softmax", T="bf16"), {"M": 257, "N": 1000}),
    (_request("copy", T="f32"), {"M": 257, "N": 252}),
    (_request("copy", T="bf16"), {"M": 257, "N": 1000}),
]
ANY = [_request("gemm", mover, T="bf16") for mover in ("auto", "cp_async")]


@pytest.fixture(scope="module", autouse=True)
def _built(gpu: Harness) -> None:
    gpu.build([*FA3, *VARLEN, *WINDOW, *(r for r, _ in SAMPLED), *ANY])


def _name(value: Any) -> str:
    if isinstance(value, Request):
        return " ".join(["spec", *(f"{k}={v}" for k, v in value.params)])
    return str(value)


@pytest.mark.parametrize("layout", ["dense", "framed"])
@pytest.mark.parametrize(("Sq", "Sk"), [(1, 1), (137, 1000), (1000, 129), (2049, 2049)])
@pytest.mark.parametrize("kernel", FA3, ids=_name)
def test_attention(gpu: Harness, kernel: Request, Sq: int, Sk: int, layout: str) -> None:
    error, lse, _ = gpu.run("attention_checks:matches", kernel, B=2, Hk=3, G=2, Sq=Sq, Sk=Sk, layout=layout)
    gpu.saw("O of tiles that threads copy", error)
    gpu.saw("LSE of tiles that threads copy", lse)


@pytest.mark.parametrize(("q", "keys"), [([9, 0, 137, 1025], [9, 12, 0, 1300]), ([1] * 40, [1000, 0, 3, 129] * 10)])
@pytest.mark.parametrize("kernel", VARLEN, ids=_name)
def test_sequences(gpu: Harness, kernel: Request, q: list[int], keys: list[int]) -> None:
    gpu.run("ragged_checks:matches", kernel, q=q, keys=keys, Hk=2, G=3)


@pytest.mark.parametrize("kernel", WINDOW, ids=_name)
def test_a_window(gpu: Harness, kernel: Request) -> None:
    gpu.run("domain_checks:matches", kernel, B=1, Hk=2, G=2, Sq=3001, Sk=2222, left=1000, right=333)


@pytest.mark.parametrize(("kernel", "sizes"), SAMPLED, ids=_name)
def test_other_samples(gpu: Harness, kernel: Request, sizes: dict[str, int]) -> None:
    for error, _ in gpu.run("sample_checks:matches", kernel, sizes=sizes, layout="dense"):
        gpu.saw("other samples whose tiles threads copy", error)


@pytest.mark.parametrize(("M", "N", "K"), [(130, 263, 131), (257, 75, 1000), (64, 1, 72)])
@pytest.mark.parametrize("kernel", ANY, ids=["auto", "cp_async"])
def test_arrays_that_begin_and_step_anywhere(gpu: Harness, kernel: Request, M: int, N: int, K: int) -> None:
    gpu.saw("products of arrays that TMA cannot take", gpu.run("mover_checks:any_alignment", kernel, M=M, N=N, K=K))
