"""What counts as right: attention's bound, and the error of rounding by which few rows are judged too."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
module: Any = pytest.importorskip("tilegen.bench.exact")


def inputs(Sq: int, Sk: int, heads: int, seed: int) -> list[Any]:
    g = torch.Generator().manual_seed(seed)
    shapes = ((2, Sq, heads, 64), (2, Sk, heads, 64), (2, Sk, heads, 64))
    return [torch.randn(shape, generator=g).to(torch.bfloat16) for shape in shapes]


@pytest.mark.parametrize("causal", [False, True])
def test_the_exact_result(causal: bool) -> None:
    q, k, v = inputs(5, 7, 3, 1)
    o, lse = module.attention(q, k, v, causal)
    s = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double()) / 8
    if causal:
        s = s.masked_fill(torch.ones(5, 7, dtype=torch.bool).triu(3), float("-inf"))
    assert torch.allclose(lse, s.logsumexp(-1))
    assert torch.allclose(o, torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v.double()))


def rounded(q: Any, k: Any, v: Any, shift: float) -> Any:
    """O with P, relative to 2^-shift of its row's maximum, and O rounded to bf16, and nothing else."""
    s = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double()) / 8
    p = (s - s.amax(-1, keepdim=True)).exp() * 2**shift
    o = torch.einsum("bhqk,bkhd->bqhd", p.bfloat16().double(), v.double())
    return (o / p.sum(-1).transpose(1, 2).unsqueeze(-1)).bfloat16().double()


def test_the_error_of_rounding_is_its_root_mean_square() -> None:
    q, k, v = inputs(1, 137, 400, 2)
    exact, _ = module.attention(q, k, v, False)
    expected = module.rounding_error(q, k, v, False, rounded=torch.bfloat16)
    assert expected.shape == (2, 400)
    found = []
    for shift in (0.3, 0.6, 2.9):
        error = (rounded(q, k, v, shift) - exact).norm(dim=(1, 3)) / exact.norm(dim=(1, 3))
        found.append(error / expected)
        assert found[-1].max() < module.TIMES_EXPECTED
    assert torch.cat(found).square().mean().sqrt().item() == pytest.approx(1.0, abs=0.06)


def test_the_error_of_rounding_with_heads_in_groups_and_rows_without_keys() -> None:
    q, k, v = inputs(3, 2, 4, 5)
    k, v = k[:, :, :2], v[:, :, :2]
    error = module.rounding_error(q, k, v, True, 0.2, rounded=torch.float16)
    for h in range(4):
        one = module.rounding_error(
            q[:, 1:, h : h + 1], k[:, :, h // 2, None], v[:, :, h // 2, None], True, 0.2, rounded=torch.float16
        )
        assert torch.allclose(error[:, h], one[:, 0])
    assert not module.rounding_error(q, k[:, :0], v[:, :0], True, rounded=torch.float16).any()


def off(o: Any, by: float) -> Any:
    """o with a relative error of `by` in each batch and head, before it is rounded to float32."""
    return (o * (1 + by)).float()


def test_few_rows_are_judged_by_the_error_of_rounding_too() -> None:
    q, k, v = inputs(1, 137, 4, 3)
    exact, lse = module.attention(q, k, v, False)
    expected = torch.full((2, 4), 1.7e-3)
    judge = module.attention_distance
    assert judge(off(exact, 2.9e-3), lse, exact, lse, 3e-3).faults == []
    alone = judge(off(exact, 3.2e-3), lse, exact, lse, 3e-3)
    assert "off by 3.20e-03" in alone.faults[0]
    assert alone.by_rounding == 0
    beside = judge(off(exact, 3.2e-3), lse, exact, lse, 3e-3, lambda: expected)
    assert beside.faults == []
    assert beside.by_rounding == 8
    assert beside.error == pytest.approx(3.2e-3, rel=1e-3)
    much = judge(off(exact, 3.5e-3), lse, exact, lse, 3e-3, lambda: expected)
    assert "allowed 0.0034" in much.faults[0]
    one = off(exact, 2e-3)
    one[1, :, 2] = off(exact, 3.3e-3)[1, :, 2]
    assert judge(one, lse, exact, lse, 3e-3, lambda: expected).by_rounding == 1
    one[1, :, 2] = float("nan")
    assert judge(one, lse, exact, lse, 3e-3, lambda: expected).faults


def test_many_rows_have_the_bound_alone() -> None:
    few = module.FEW_ROWS - 1
    q, k, v = inputs(few + 1, 137, 4, 4)
    exact, lse = module.attention(q, k, v, False)
    far, expected = off(exact, 3.2e-3), torch.ones(2, 4)
    judge = module.attention_distance
    assert judge(far, lse, exact, lse, 3e-3, lambda: expected).faults
    assert not judge(far[:, :few], lse[..., :few], exact[:, :few], lse[..., :few], 3e-3, lambda: expected).faults
