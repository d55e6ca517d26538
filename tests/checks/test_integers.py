"""Integers of a launch that would wrap around in 32 bits are refused; no ordinary launch is."""

from __future__ import annotations

import re
import time

import pytest

from tests.passes.specs import loaded, planned_sample, text_of, unscheduled
from tilegen.checks.integers import check_integers
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.plan import Plan
from tilegen.passes.pipeline import lower

INT_MAX = 2**31 - 1
SIZES = {"B": 2, "Hk": 2, "G": 2, "Sq": 300, "Sk": 500, "sm_count": 132}


def attention(domain: str, scalars: str = "", walk: str = "") -> Plan:
    """fa3_fwd with another domain."""
    text = unscheduled(text_of("fa3_fwd"))
    text = re.sub(r"domain i, j: .*", domain, text)
    text = text.replace("  axis   b", f"{scalars}\n  axis   b")
    text = text.rstrip().removesuffix("}") + "schedule hopper { block i 128, j 64 consumers 2 over i " + walk + " } }"
    return lower(loaded(text.replace(", causal: bool = false", ""), D=64))


def refused(plan: Plan, **values: int) -> Diagnostic:
    with pytest.raises(TilegenError) as caught:
        check_integers(plan, {**SIZES, **values})
    (found,) = caught.value.diagnostics
    assert found.code == "INTEGER_RANGE"
    assert found.span is not None
    return found


WINDOWS = [
    ("domain i, j: j <= i + w", "scalar w: i32"),
    ("domain i, j: j >= i - w", "scalar w: i32"),
    ("domain i, j: j >= i + Sk - Sq - w if w >= 0", "scalar w: i32 >= -1"),
    ("domain i, j: j >= i - w and j <= i + w", "scalar w: i32"),
]


@pytest.mark.parametrize(("domain", "scalars"), WINDOWS, ids=[d for d, _ in WINDOWS])
@pytest.mark.parametrize("walk", ["", "walk j down skip_rows persistent table order longest_first group h by 32 MB"])
def test_windows_that_wrap_around_are_refused_and_wide_ones_are_not(domain: str, scalars: str, walk: str) -> None:
    plan = attention(domain, scalars, walk)
    found = refused(plan, w=INT_MAX)
    assert "w = 2147483647" in found.got
    assert "w" in found.fixes[0].split()
    for w in (0, 1, 511, 2**24, 2**29):
        check_integers(plan, {**SIZES, "w": w})
        check_integers(plan, {**SIZES, "Sq": 2**24, "Sk": 2**24, "w": w})


def test_products_of_positions_and_sizes_in_a_condition_are_judged() -> None:
    """The positions' factors are sizes, so the clause is no inequality: it masks, by comparing whole numbers."""
    plan = attention("domain i, j: Sk * i >= Sq * j")
    check_integers(plan, {**SIZES, "Sq": 2**15, "Sk": 2**15})
    assert refused(plan, Sq=2**16, Sk=2**16).fixes


def test_a_clause_that_its_guard_switches_off_is_not_judged() -> None:
    plan = attention("domain i, j: j >= 3 * i - 2000000000 - w if w < 2000000000", "scalar w: i32")
    refused(plan, w=INT_MAX - 2**30)
    check_integers(plan, {**SIZES, "w": 2_000_000_001})


def test_large_factors_are_refused_where_positions_are_large() -> None:
    plan = attention("domain i, j: 15000000 * j <= 10000000 * i")
    check_integers(plan, {**SIZES, "Sq": 40, "Sk": 64})
    found = refused(plan, Sq=5000)
    assert "Sq = 5000" in found.got
    assert "10000000" in found.message
    positions = attention("domain i, j: 40000000 * j <= i + 5")  # 64 columns of a block: only the mask wraps around
    assert "-2519999995" in refused(positions).got


@pytest.mark.parametrize("depth", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_large_launches_pass(depth: int, causal: bool) -> None:
    plan = planned_sample("fa3_fwd", D=depth, causal=causal)
    for batch, heads, group, queries, keys in [
        (2**14, 64, 1, 2**12, 2**12),
        (2**14, 8, 8, 128, 2**24),
        (2**14, 64, 1, 2**13, 128),
        (2**10, 2**10, 1, 1, 1),
        (1, 1, 64, 2**24, 2**24),
        (1, 8, 1, 1, 2**24),
        (1, 8, 4, 2**24, 1),
        (3, 5, 7, 1234, 4321),
    ]:
        sizes = {"B": batch, "Hk": heads, "G": group, "Sq": queries, "Sk": keys}
        check_integers(plan, {**sizes, "sm_count": 132})


def test_more_work_items_than_int32_holds_are_refused() -> None:
    plan = planned_sample("fa3_fwd", D=128, causal=True)
    found = refused(plan, B=2**16, Hk=2**10, Sq=2**20)
    assert all(name in found.got for name in ("B = 65536", "Hk = 1024", "Sq = 1048576"))


def test_it_takes_about_a_millisecond() -> None:
    plan = planned_sample("fa3_fwd", D=128, causal=True)
    spent = []
    for _ in range(20):
        start = time.perf_counter()
        check_integers(plan, SIZES)
        spent.append(time.perf_counter() - start)
    assert min(spent) < 0.02  # ten times what it takes: only a change of its order is a fault
