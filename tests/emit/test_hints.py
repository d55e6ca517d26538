"""Eviction hints: in the plan, in each instruction that moves what they speak of, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.emit.running import random, run
from tests.passes.specs import loaded, schedule_of, text_of
from tests.plan import edits
from tilegen.ir import plan as ir
from tilegen.ir.dtypes import DType
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.plan_text import print_plan
from tilegen.ir.plan_verify import InvalidPlan, verify
from tilegen.ir.plan_walk import all_operations
from tilegen.passes.pipeline import lower
from tilegen.targets.hopper.build import build
from tilegen.targets.hopper.built import Built
from tilegen.targets.hopper.sass import parse_sass

BASE = "block m 64, n 64  consumers 1 over m  via C tma"
HINTED = f"{BASE}  hint a keep, b stream, C stream"


def gemm(directives: str) -> ir.Plan:
    return lower(loaded(schedule_of(text_of("gemm"), directives)))


@cache
def built(directives: str) -> Built:
    return build(gemm(directives))


def test_every_move_of_a_hinted_name_says_so() -> None:
    moves = {
        o.descriptor: o.hint for _, _, o in all_operations(gemm(HINTED)) if isinstance(o, ir.TmaLoad | ir.TmaStore)
    }
    assert moves == {"a": "keep", "b": "stream", "C": "stream"}
    text = print_plan(gemm(HINTED))
    assert len(re.findall(r"tma_load a.*, keep in L2$", text, re.M)) == text.count("tma_load a")
    assert len(re.findall(r"tma_store C.*, stream in L2$", text, re.M)) == text.count("tma_store C")


def test_a_hint_adds_nothing_else() -> None:
    plain, hinted = gemm(BASE), gemm(HINTED)
    assert plan_from_json(plan_to_json(hinted)) == hinted
    for name in ("a", "b", "C"):
        for kind in (ir.TmaLoad, ir.TmaStore):
            hinted = _without(hinted, kind, name)
    assert print_plan(hinted) == print_plan(plain)
    assert print_plan(gemm(f"{BASE}  hint a normal, C normal")) == print_plan(plain)


def _without(plan: ir.Plan, kind: type[ir.TmaLoad] | type[ir.TmaStore], name: str) -> ir.Plan:
    def walk(body: tuple[ir.Operation, ...]) -> tuple[ir.Operation, ...]:
        out: list[ir.Operation] = []
        for o in body:
            if isinstance(o, kind) and o.descriptor == name:
                o = replace(o, hint="")
            elif isinstance(o, ir.Work | ir.For | ir.If):
                o = replace(o, body=walk(o.body))
            out.append(o)
        return tuple(out)

    return replace(plan, roles=tuple(replace(r, body=walk(r.body)) for r in plan.roles))


def test_instructions_carry_a_policy_made_once_a_role() -> None:
    ptx = built(HINTED).ptx
    loads = re.findall(r"cp\.async\.bulk\.tensor\S*shared::cluster.*", ptx)
    stores = re.findall(r"cp\.async\.bulk\.tensor\S*bulk_group.*", ptx)
    assert loads and stores
    assert all(".L2::cache_hint" in line and re.search(r", %rd\d+;", line) for line in (*loads, *stores))
    made = re.findall(r"createpolicy\.fractional\.L2::(\w+)\.b64", ptx)
    assert sorted(made) == ["evict_first", "evict_first", "evict_last"]  # the producer's two, the consumer's one
    assert "cache_hint" not in built(BASE).ptx
    assert "createpolicy" not in built(BASE).ptx


def test_machine_code_carries_it() -> None:
    """A hinted UTMALDG or UTMASTG names a descriptor beside its two operands."""
    hinted, plain = (_moves(built(d)) for d in (HINTED, BASE))
    assert hinted.keys() == plain.keys() == {"UTMALDG", "UTMASTG"}
    assert all("desc[" in text for texts in hinted.values() for text in texts)
    assert not any("desc[" in text for texts in plain.values() for text in texts)


def _moves(b: Built) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for function in parse_sass(b.sass).functions:
        for i in function.instructions:
            if i.is_a("UTMALDG", "UTMASTG"):
                found.setdefault(i.opcode[:7], []).append(str(i))
    return found


def test_the_kernel_gives_the_same() -> None:
    inputs = {"A": random((100, 72), DType.BF16), "B": random((72, 136), DType.BF16, 1)}
    results = [run(gemm(d), inputs)["C"] for d in (BASE, HINTED)]
    assert np.array_equal(*(r.view(np.uint16) for r in results))
    assert np.isfinite(results[0].astype(np.float32)).all()


def test_an_unknown_hint_is_no_plan() -> None:
    with pytest.raises(InvalidPlan, match="none of"):
        verify(edits.alter(gemm(BASE), "producer", ir.TmaLoad, hint="last"))
