from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.plan import edits
from tests.plan.plans import attention, gemm
from tilegen.checks.resources import check as check_resources
from tilegen.checks.trials import check_all, trials
from tilegen.ir import plan as ir
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.plan_verify import verify
from tilegen.ir.uniform import Int, op
from tilegen.passes.pipeline import lower_all
from tilegen.sema import load

SAMPLES = Path(__file__).parents[2] / "samples"


def test_loops_run_not_at_all_and_longer_than_the_rings_are_deep() -> None:
    found = list(trials(attention()))
    assert {t["Sk"] for t in found} == {0, 1, 64, 65, 129, 257}
    assert {t["Sq"] for t in found} == {0, 1, 128, 129, 257, 513}
    assert all(set(t) == {"Sq", "Sk", "sm_count"} for t in found)
    # a CTA goes through several items
    assert max(-(-t["Sq"] // 128) / t["sm_count"] for t in found) >= 2


def test_few_sizes_vary_freely() -> None:
    found = list(trials(gemm()))
    assert len(found) == 6 * 6 * 2
    assert {t["M"] for t in found} == {0, 1, 128, 129, 257, 513}
    assert {t["K"] for t in found} == {1, 257}


def test_a_fault_at_some_length_only_is_found() -> None:
    assert check_all(attention()) == []
    # the producer leaves out the last block of a long row
    short = edits.change(attention(), "producer", ir.For, lambda o: (replace(o, stop=op("min", o.stop, Int(3))),))
    assert {d.code for d in check_all(short)} == {"PIPELINE_DEADLOCK"}


FA3 = [{"D": d, "causal": c} for d in (64, 128, 256) for c in (False, True)]
CASES = [
    *(("fa3_fwd", p) for p in FA3),
    *((f"attention_{score}", p) for score in ("alibi", "bias", "sink", "softcap") for p in FA3[:4]),
    *(("gemm_logsumexp", {"D": d}) for d in (64, 128, 256)),
    *((name, {}) for name in ("copy", "difference", "gemm", "gemm_bias_gelu", "row_softmax", "swiglu")),
]


@pytest.mark.parametrize(
    ("name", "params"), CASES, ids=["-".join([n, *(f"{k}={v}" for k, v in p.items())]) for n, p in CASES]
)
def test_samples_verify_fit_and_run(name: str, params: dict[str, int | bool]) -> None:
    for plan in lower_all(load(SAMPLES / f"{name}.tile", params)):
        verify(plan)
        assert plan_from_json(plan_to_json(plan)) == plan
        assert check_resources(plan) == []
        assert check_all(plan) == []
