"""Fuzzed specs, through everything between the text and NVRTC, and to MLS programs."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from tests.fuzz import grammar, plausible
from tests.fuzz.runner import Case, Suite, blames
from tests.passes.mutations import mutate
from tilegen.checks.movement.check import check_movement
from tilegen.checks.resources import check as check_resources
from tilegen.checks.trials import check_all
from tilegen.diagnostics.core import TilegenError
from tilegen.diagnostics.render import render
from tilegen.inspect.geometry import moved_by_tma, place_tile
from tilegen.ir.plan import Plan
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.plan_text import print_plan
from tilegen.ir.tile import TileProgram
from tilegen.passes.pipeline import lower_all, to_scheduled
from tilegen.sema.loading import load
from tilegen.syntax.span import Source
from tilegen.targets.hopper.emit import emit
from tilegen.targets.mls.build import build

ROOT = Path(__file__).parents[2]
RUN = 8  # of so many plans one is checked at its trial sizes, which takes longer than all else


@cache
def texts() -> dict[str, str]:
    """The specs that are changed: the samples, and those of the tests."""
    files = [*sorted(ROOT.glob("samples/*.tile")), *sorted(ROOT.glob("tests/specs/*.tile"))]
    return {f.stem: f.read_text(encoding="utf-8") for f in files}


def make(rng: random.Random) -> Case:
    """Half are samples with changes; the others are plausible kernels, and anything that the grammar allows."""
    kind = rng.random()
    if kind < 0.5:
        name = rng.choice(sorted(texts()))
        return Case(name, mutate(texts()[name], rng))
    if kind < 0.8:
        text = plausible.spec(rng)
        return Case("plausible", text) if rng.random() < 0.7 else Case("plausible, changed", mutate(text, rng))
    return Case("grammar", grammar.sentence(rng))


def run(case: Case) -> str:
    source = Source("fuzzed.tile", case.text)
    try:
        return _run(source)
    except TilegenError as error:
        render(error.diagnostics, {source.name: source})
        raise


def _run(source: Source) -> str:
    program = load(source, {})
    for variant in program.variants("mls"):
        try:
            build(variant)
        except TilegenError as error:
            if blames(error):
                raise
    plans = lower_all(program)
    faults = [fault for plan in plans for fault in check_resources(plan)]
    if faults:
        raise TilegenError(tuple(faults))
    for plan in plans:
        emit(plan)
        print_plan(plan)
        assert plan_from_json(plan_to_json(plan)) == plan
    if sum(map(ord, source.text)) % RUN == 0:
        found = (*check_all(plans[0]), *check_movement(plans[0], program).diagnostics)
        if found:
            raise TilegenError(found)
    _explain(program, plans)
    return "compiled"


def _explain(program: TileProgram, plans: tuple[Plan, ...]) -> None:
    """Every tile of the first plan, at the beginning."""
    variant = program.variants("hopper")[0]
    scheduled = to_scheduled(variant)
    sizes = {z.name: 64 for z in program.sizes} | {s.name: 1 for s in program.scalars}
    for ragged in program.ragged:
        sizes |= {f"{ragged.size}.tokens": 128, f"{ragged.size}.start": 0}
    at = {a.name: 0 for a in program.axes}
    for name in moved_by_tma(plans[0]):
        try:
            place_tile(name, scheduled, plans[0], sizes, at, at)
        except TilegenError:
            continue  # sizes that no tensor map takes


SPECS = Suite("specs", make, run, trusted=True)
