"""Clusters in text and machine code: who is told of a load and of a free slot, where CTAs meet, what stays uniform."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.passes.specs import loaded, schedule_of, text_of
from tilegen.ir import plan as ir
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.plan_text import print_plan
from tilegen.ir.uniform import evaluate
from tilegen.passes.pipeline import lower
from tilegen.targets.hopper.build import build
from tilegen.targets.hopper.built import Built
from tilegen.targets.hopper.emit import emit
from tilegen.targets.hopper.sass import parse_sass

BASE = "block m 128, n 128, k 64  consumers 2 over m  stages a 3, b 3  persistent static  hint b keep"


def gemm(more: str) -> ir.Plan:
    return lower(loaded(schedule_of(text_of("gemm"), f"{BASE}  {more}")))


@cache
def built(more: str) -> Built:
    return build(gemm(more))


def test_the_plan_says_who_shares() -> None:
    plan = gemm("multicast b over m, a over n")
    assert plan_from_json(plan_to_json(plan)) == plan
    text = print_plan(plan)
    assert "  clusters of 4 CTAs\n" in text
    assert re.search(r"^.* a: depth 3 .*; with 2 CTAs, 2 ranks apart$", text, re.M)
    assert re.search(r"^.* b: depth 3 .*empty: arrivals 4, one a warpgroup; with 2 CTAs, 1 rank apart$", text, re.M)
    assert text.count(", share 8192 bytes apart") == 2  # 64 rows of a, one of the two columns of b


@pytest.mark.parametrize(("sms", "grid"), [(132, 132), (131, 128), (4, 4), (3, 4), (1, 4)])
def test_a_grid_is_whole_clusters(sms: int, grid: int) -> None:
    plan = gemm("multicast b over m, a over n")
    assert evaluate(plan.grid, {"M": 9999, "N": 9999, "sm_count": sms}) == grid
    assert evaluate(plan.grid, {"M": 129, "N": 129, "sm_count": sms}) == 4
    assert evaluate(plan.grid, {"M": 0, "N": 129, "sm_count": sms}) == 0


def test_a_load_names_the_ctas_and_a_release_reaches_them() -> None:
    text = emit(gemm("multicast b over m, a over n"))
    assert "__cluster_dims__(4, 1, 1) __launch_bounds__(384, 1) gemm(" in text
    assert "const int cluster_rank = blockIdx.x % 4;" in text
    assert re.search(r"load_b\(.*, 0x3 << \(cluster_rank - cluster_rank % 2\), keep_policy\);", text)
    assert re.search(r"load_a\(.*, 0x5 << \(cluster_rank - cluster_rank / 2 % 2 \* 2\)\);", text)
    assert "multicast::cluster.L2::cache_hint" in text
    assert re.search(r"release_by_warpgroup_a\(a_empty .*, cluster_rank - cluster_rank / 2 % 2 \* 2\);", text)
    assert text.count("  cluster_meet();") == 2
    assert "work_item = blockIdx.x / 4" in text
    assert "work_item += gridDim.x / 4" in text


def test_a_kernel_without_clusters_knows_nothing_of_them() -> None:
    text = emit(gemm(""))
    assert not re.search(r"cluster_dims|cluster_meet|multicast|mapa|cluster_rank|0x3ffff", text)


def test_machine_code() -> None:
    """Loads are multicast, arrivals go to other CTAs, and addresses stay in uniform registers, so that the loop with
    products makes no use of memory barriers and moves nothing there."""
    assert built("multicast b over m").diagnostics == ()
    (function,) = parse_sass(built("multicast b over m").sass).functions
    assert function.evidence()["MULTICAST"] == 1  # half of two boxes
    assert function.evidence()["UTMALDG"] == 2
    opcodes = [i.opcode for i in function.instructions]
    assert sum(o.startswith("UCGABAR_WAIT") for o in opcodes) == 2
    assert any(".RED" in o for o in opcodes if o.startswith("SYNCS.ARRIVE"))
    for loop in function.product_loops:
        inside = [i.opcode for b in loop.blocks for i in function.blocks[b].instructions]
        assert not [o for o in inside if o.startswith(("MEMBAR", "R2UR", "CCTL"))]
