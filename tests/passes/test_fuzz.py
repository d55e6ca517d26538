"""Whatever a spec says, lowering works or refuses in words: specs changed at random."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.passes.mutations import mutate
from tests.passes.specs import SAMPLES, loaded, run_symbols, text_of
from tilegen.checks.pipeline import check
from tilegen.checks.resources import check as check_resources
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan import Plan
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.tile import TileProgram
from tilegen.oracle import default_sizes, scalar_values
from tilegen.passes.pipeline import lower

SAMPLE_NAMES = sorted(f.stem for f in SAMPLES.glob("*.tile"))
NAMES = [*SAMPLE_NAMES, "matmul_at", "outputs_two_orders", "split_reduction"]
SPECS = 40  # a file


@pytest.mark.parametrize("name", NAMES)
def test_changed_specs_lower_or_are_refused(name: str) -> None:
    """No Python exception, no plan that breaks its own rules, no barrier that hangs."""
    outcomes: Counter[str] = Counter()
    for seed in range(SPECS):
        text = mutate(text_of(name), random.Random(f"{name} {seed}"))
        try:
            program = loaded(text)
            plan = lower(program)
        except TilegenError as error:
            outcomes[error.diagnostics[0].code] += 1
            continue
        outcomes["lowered"] += 1
        check_resources(plan)
        if seed % 8 == 0:
            assert plan_from_json(plan_to_json(plan)) == plan
            check_run(program, plan)
    assert "INVALID_PLAN" not in outcomes
    assert outcomes["lowered"] or name not in SAMPLE_NAMES, outcomes
    assert len(outcomes) > 5, outcomes


def check_run(program: TileProgram, plan: Plan) -> None:
    chosen = default_sizes(program, small=True)
    sizes = run_symbols({name: min(n, 150) if isinstance(n, int) else n for name, n in chosen.items()})
    given = {s.name: 1.0 if s.dtype.is_float else 1 for s in program.scalars if s.default is None}
    scalars = scalar_values(program, sizes, given)
    integers = {k: v for k, v in scalars.items() if isinstance(v, int)}
    assert check(plan, {**sizes, **integers, "sm_count": 2}) == []
