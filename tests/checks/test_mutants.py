"""A seeded sample of the faults that `tools/mutate_plans.py` puts into plans: harm is reported, at a statement.

The two judges are tested too: a plan that is right does no harm whatever the seed, and each kind of fault does some.
"""

from __future__ import annotations

import random

import pytest

from tests.mutations.judging import SUBJECTS, Subject, harm, plan_of, program_of, report
from tests.mutations.plan_kinds import KINDS, Mutant, mutants
from tilegen.checks.items import items, names_of
from tilegen.checks.movement.check import check_movement, chosen
from tilegen.checks.movement.declared import Declared
from tilegen.checks.movement.walk import Movement
from tilegen.checks.paths import Paths
from tilegen.ir import plan as ir
from tilegen.ir.plan_walk import all_operations
from tilegen.ir.uniform import evaluate

SMALL = {s.name: s for s in SUBJECTS if s.sample in ("copy", "difference", "gemm_logsumexp", "attention_decode")}
SAMPLED = 8  # of each
SEEDS = 4
# Kinds that must do harm in a small plan, or the judge of harm is blind to them.
HARMFUL = (
    "a wait for a clean slot dropped",
    "a proxy fence dropped",
    "expected bytes +16",
    "a coordinate of a load +1",
    "a mask dropped",
    "a mask's bound +1",
    "a mask by multiplication",
    "a scan dropped",
    "a store's rows one too many",
)


@pytest.mark.parametrize("name", SMALL)
def test_a_plan_that_is_right_does_no_harm_and_is_not_reported(name: str) -> None:
    subject = SMALL[name]
    right = Mutant("", "", plan_of(subject), None)
    assert harm(subject, right, SEEDS) == ""
    assert report(subject, right) is None


def test_a_mutant_does_not_change_what_others_are_run_on() -> None:
    """Results that go into an input."""
    subject = next(s for s in SUBJECTS if s.sample == "attention_sink")
    every = mutants(plan_of(subject), ("a tensor map of another tensor",))
    assert harm(subject, next(m for m in every if m.where.startswith("O ")), 1)
    assert harm(subject, Mutant("", "", plan_of(subject), None), 1) == ""


@pytest.mark.parametrize("name", SMALL)
def test_what_does_harm_is_reported_at_a_statement(name: str) -> None:
    subject = SMALL[name]
    every = list(mutants(plan_of(subject)))
    harmful = 0
    for mutant in random.Random(7).sample(every, SAMPLED):
        wrong = harm(subject, mutant, SEEDS)
        if wrong:
            harmful += 1
            found = report(subject, mutant)
            assert found is not None, (mutant.kind, mutant.where, wrong)
            assert found.placed, (mutant.kind, mutant.where, found)
    assert harmful >= SAMPLED // 2


def _some(subject: Subject, kind: str) -> list[Mutant]:
    return list(mutants(plan_of(subject), (kind,)))


@pytest.mark.parametrize("kind", ["the wrong head or batch", "dimensions of a tensor map exchanged"])
def test_batch_and_head_are_told_apart_wherever_they_are_named(kind: str) -> None:
    """The first and the last item of a launch have one number for both where there are as many heads as batches."""
    subject = SMALL["attention_decode D=64"]
    every = _some(subject, kind)
    assert every
    assert [m.where for m in every if report(subject, m) is None and harm(subject, m, 1)] == []


@pytest.mark.parametrize("sample", ["fa3_varlen", "attention_decode", "fa3_fwd"])
def test_what_runs_first_has_loops_and_heads_with_other_numbers(sample: str) -> None:
    """Where items are dealt out by length the last ones are empty, and the first ones of the first heads."""
    subject = next(
        s for s in SUBJECTS if s.sample == sample and (sample == "attention_decode" or dict(s.params).get("causal"))
    )
    plan = plan_of(subject)
    numbers = Movement(plan, Declared(program_of(subject), "hopper")).numbers
    paths = Paths(plan, numbers)
    trial, (first, _) = next(chosen(plan, program_of(subject), paths, numbers))
    ctas = evaluate(plan.grid, trial)
    work = next(o for _, _, o in all_operations(plan) if isinstance(o, ir.Work))
    bound = list(items(plan, work, names_of(plan, trial, first, 0), trial, first, ctas, numbers))
    assert any(0 < item["g"] != item.get("h", item.get("b")) > 0 for item in bound), bound
    assert paths.entered(trial, first, ctas) >= paths.entered(trial, 0, ctas)


@pytest.mark.parametrize("kind", HARMFUL)
def test_the_judge_sees_what_a_kind_does(kind: str) -> None:
    subject = SMALL["attention_decode D=64"]
    assert any(harm(subject, m, SEEDS) for m in _some(subject, kind)[:3])


def test_there_are_many_kinds() -> None:
    assert len(KINDS) >= 25


def test_movement_is_checked_in_every_loop_that_a_launch_goes_into() -> None:
    """The blocks of an item between the two borders of a window: few lengths have such, and few windows."""
    subject = next(s for s in SUBJECTS if s.sample == "attention_window")
    dropped = [m for m in mutants(plan_of(subject), ("a product dropped",)) if "Mma #0" in m.where]
    assert len(dropped) > 3
    for mutant in dropped:
        assert check_movement(mutant.plan, program_of(subject)).diagnostics, mutant.where
