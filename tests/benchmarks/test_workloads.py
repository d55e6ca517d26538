"""The cells that are timed, and what they count for."""

from __future__ import annotations

import pytest

from benchmarks import gemm
from tilegen.bench.suites import attention_cells, counterpart, gemm_cells, more_attention_cells
from tilegen.bench.workloads import Attention, Gemm


def test_the_eighteen_cells() -> None:
    cells = attention_cells()
    assert len(set(cells)) == 18
    assert {(w.B * w.S, w.H * w.D) for w in cells} == {(16384, 2048)}
    assert {(w.D, w.S, w.causal) for w in cells} == {
        (D, S, causal) for D in (64, 128, 256) for S in (2048, 8192, 16384) for causal in (False, True)
    }


def test_the_other_rows() -> None:
    cells = more_attention_cells([128])
    assert {(w.S, w.T, w.G) for w in cells} == {
        (512, "bf16", 1), (1024, "bf16", 1), (4096, "bf16", 1), (8192, "bf16", 8), (8192, "f16", 1), (16384, "f16", 1),
    }  # fmt: skip


def test_causal_counts_half() -> None:
    full, causal = Attention(128, 2048, False), Attention(128, 2048, True)
    assert full.flops == 4 * 8 * 16 * 2048**2 * 128
    assert causal.flops == full.flops / 2
    assert causal.params == {"D": 128, "T": "bf16", "causal": True}


def test_products() -> None:
    assert Gemm(8192, 4096, 1024).flops == 2 * 8192 * 4096 * 1024
    assert Gemm(2, 3, 4, "f16").label == "f16 M=2 N=3 K=4"
    assert gemm_cells([(2, 3, 4)], ["bf16", "f16"]) == [Gemm(2, 3, 4), Gemm(2, 3, 4, "f16")]
    assert gemm.size("1,2,3") == (1, 2, 3)
    with pytest.raises(Exception, match="M,N,K"):
        gemm.size("1,2")


def test_kernels_whose_peers_are_known() -> None:
    params = {"D": 64, "T": "f16", "causal": True}
    sizes = {"B": 3, "Sq": 100, "Sk": 100, "Hk": 2, "G": 4}
    found = counterpart("fa3_fwd", params, sizes)
    assert isinstance(found, Attention)
    assert (found.B, found.H, found.S, found.D, found.G, found.T, found.causal) == (3, 8, 100, 64, 4, "f16", True)
    assert counterpart("fa3_fwd", params, {**sizes, "Sk": 99}) is None
    assert counterpart("gemm", {"T": "bf16"}, {"M": 1, "N": 2, "K": 3}) == Gemm(1, 2, 3)
    assert counterpart("swiglu", {"T": "bf16"}, {"M": 1, "N": 2, "K": 3}) is None
