"""A part of what `tools/fuzz.py` runs, with the same seeds each time; and what it has found, each by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

import tilegen
from tests.fuzz.plan_files import PLANS, plans
from tests.fuzz.ptx import PTX, launches
from tests.fuzz.runner import LIMIT, Case, Suite, Tally, fuzz, one
from tests.fuzz.specs import SPECS
from tilegen.checks.movement.check import check_movement
from tilegen.checks.pipeline import check as check_pipeline
from tilegen.checks.trials import trials
from tilegen.diagnostics.core import TilegenError
from tilegen.emulate.ptx import launch, parse
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.plan_verify import verify
from tilegen.ir.uniform import Int
from tilegen.passes.pipeline import lower_all
from tilegen.sema.loading import load
from tilegen.syntax.span import Source


@pytest.mark.parametrize(("suite", "cases"), [(SPECS, 100), (PLANS, 20), (PTX, 15)], ids=["specs", "plans", "ptx"])
def test_all_ends_in_a_diagnostic_or_success(suite: Suite, cases: int) -> None:
    """More of it runs by itself in CI."""
    tally = fuzz(suite, (f"ci {n}" for n in range(cases)))
    assert [(f.seed, f.what) for f in tally.findings] == []
    assert tally.outcomes.total() == cases
    assert len(tally.outcomes) >= 3, tally.outcomes


@pytest.mark.parametrize(
    ("run", "outcome"),
    [
        (lambda _: "fine", "fine"),
        (lambda _: {}["x"], "traceback"),
        (lambda _: load(Source("k.tile", "kernel k {"), {}), "UNEXPECTED_END"),
    ],
)
def test_outcomes_are_told_apart(run: Callable[[Case], str], outcome: str) -> None:
    tally = Tally()
    one(Suite("any", lambda rng: Case("here", "text"), run, trusted=True), "0", tally)
    assert list(tally.outcomes) == [outcome]
    assert [f.seed for f in tally.findings] == (["0"] if outcome == "traceback" else [])


def test_what_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.runner.LIMIT", 0.05)

    def never_ends(_: Case) -> str:
        while True:
            try:
                sum(range(10**6))
            except Exception:  # what is fuzzed may catch what it likes
                return "caught"

    tally = Tally()
    one(Suite("any", lambda rng: Case("here", "text"), never_ends, trusted=True), "0", tally)
    assert len(tally.findings) == 1
    assert LIMIT == 10


# ---- found -----------------------------------------------------------------------------------------


def test_a_fold_of_a_fold_behind_a_loop_is_scheduled() -> None:
    """Two folds over a held axis, the second of the first, behind the streamed loop."""
    kernel = tilegen.compile("""kernel chain {
      size   I, J
      input  X: f32[J, 64]
      input  Z: f32[J, I]
      output Y: f32[J]
      tile x[j, k] = X[j, k]
      tile z[j, i] = Z[j, i]
      m[j]    = max[i](z[j, i])
      w[j, k] = softmax[k](x[j, k] * m[j])
      Y[j]    = logsumexp[k](w[j, k])
    }""")
    rng = np.random.default_rng(0)
    x, z = (rng.standard_normal(shape).astype(np.float32) for shape in ((70, 64), (70, 72)))
    e = np.exp(x * z.max(1)[:, None])
    np.testing.assert_allclose(kernel(X=x, Z=z), np.log(np.exp(e / e.sum(1)[:, None]).sum(1)), rtol=1e-5)


TILES = """kernel k(T: bf16 | f16 = bf16) {
  size   I, J
  input  X: T[I, 64]
  input  W: T[64, 16]
  input  Z: T[I, J]
  output Y: f32[%s]
  axis   i in I, j in J, h in 64, n in 16
  tile x[i, h] = X[i, h]
  tile w[h, n] = W[h, n]
  tile z[i, j] = Z[i, j]
  top[i] = max[j](z[i, j])
  %s
}"""


@pytest.mark.parametrize(
    ("dims", "equations"),
    [
        ("I, 16", "Y[i, n] = sum[h](x[i, h] * w[h, n]) + sum[h](T(2 * x[i, h]) * w[h, n]) + top[i]"),
        ("I", "Y[i] = sum[h](x[i, h] * x[i, h]) + sum[j](z[i, j] * top[i]) + max[n](sum[h](x[i, h] * w[h, n]))"),
        ("I, 64", "same[i, h] = x[i, h] Y[i, h] = same[i, h] + top[i] + max[n](sum[h](T(same[i, h]) * w[h, n]))"),
        ("I, 64", "Y[i, h] = x[i, h] * top[i] + logsumexp[h](x[i, h] * top[i]) + max[n](sum[h](x[i, h] * w[h, n]))"),
    ],
    ids=["two products", "sums of two axes", "another name", "what an empty fold begins with"],
)
def test_right_movement_is_not_called_wrong(dims: str, equations: str) -> None:
    program = load(Source("k.tile", TILES % (dims, equations)), {})
    (plan,) = lower_all(program)
    assert check_movement(plan, program).diagnostics == ()


def test_a_vote_does_not_meet_the_last_items_rows() -> None:
    text = """kernel k {
      size   B, I, J
      input  X: bf16[B, I, J]
      output Y: bf16[B, I]
      axis   b in B, i in I, j in J
      tile x[i, j] = X[b, i, j]
      p[b, i, j] = softmax[j](x[i, j])
      Y[b, i] = sum[j](p[b, i, j])
      schedule hopper { block i 64  consumers 1 over i  persistent static  stale_max }
    }"""
    program = load(Source("k.tile", text), {})
    (plan,) = lower_all(program)
    assert check_movement(plan, program).diagnostics == ()


def test_a_parameter_with_a_reserved_name_is_named() -> None:
    with pytest.raises(TilegenError) as caught:
        load(Source("k.tile", "kernel k(sum: 1 .. 4 = 2) { size M }"), {})
    assert "RESERVED_NAME" in [d.code for d in caught.value.diagnostics]


def test_a_deal_that_is_none_is_told() -> None:
    plan = plan_from_json(plans()["fa3_varlen.0 D=64"])
    table = plan.table
    assert table is not None
    assert table.sequences is not None
    q = table.sequences
    lets = tuple(replace(let, value=Int(10**6)) if let.name == q.rank else let for let in q.ranking)
    plan = replace(plan, table=replace(table, sequences=replace(q, ranking=lets)))
    verify(plan)
    found = {d.message for trial in islice(trials(plan), 40) for d in check_pipeline(plan, trial)}
    assert any("a rank that no unit has" in message for message in found), found


PTX_CHANGES = [
    (".loc\t1 ", ".loc\t- "),
    (".maxntid 384", ".maxntid 0x"),
    ("@%p", "@%r"),
    ("selp.b32", "selp.pred"),
    (".reg .pred ", ".reg .pred.b32 "),
    (".extern .shared .align 1024 .b8 shared_memory[];", ".global shared_memory[] = {1, 2};"),
]


@pytest.mark.parametrize(("old", "new"), PTX_CHANGES)
def test_ptx_that_is_none_is_named(old: str, new: str) -> None:
    text = launches()["gemm"].ptx
    assert old in text
    with pytest.raises(TilegenError) as caught:
        parse(text.replace(old, new, 1))
    assert {d.code for d in caught.value.diagnostics} <= {"PTX_SYNTAX", "PTX_UNKNOWN_INSTRUCTION"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"(selp\.b32\s+%r\d+, )%r\d+", r"\1%p1"),
        (r"(cvt\.s64\.s32\s+)%rd\d+", r"\1%p1"),
        (r"(add\.s32\s+%r\d+, )%r\d+", r"\1%p1"),
        (r"(setp\.\w+\.s32\s+)%p\d+", r"\1%r1"),
    ],
)
def test_a_predicate_is_no_number(old: str, new: str) -> None:
    """Nor the other way."""
    kernel = launches()["copy"]
    text, count = re.subn(old, new, kernel.ptx)
    assert count
    with pytest.raises(TilegenError) as caught:
        launch(parse(text), *kernel.arguments)
    assert [d.code for d in caught.value.diagnostics] == ["PTX_UNKNOWN_INSTRUCTION"]


def test_a_plan_file_says_what_is_wrong_in_it() -> None:
    plan = plan_from_json(plans()["gemm.0"])
    assert plan_to_json(plan, indent=None) == plans()["gemm.0"]
    with pytest.raises(TilegenError, match="PLAN_JSON"):
        plan_from_json(plans()["gemm.0"][:-5])
