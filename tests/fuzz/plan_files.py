"""Fuzzed plan files: JSON of real plans with changes, read back, verified, checked and emitted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

from tests.fuzz.runner import Case, Suite
from tests.fuzz.specs import texts
from tilegen.checks.grid import check_grid
from tilegen.checks.pipeline import check as check_pipeline
from tilegen.checks.resources import check as check_resources
from tilegen.checks.trials import trials
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.plan_text import print_plan
from tilegen.ir.plan_verify import verify
from tilegen.passes.pipeline import lower_all
from tilegen.sema.loading import load
from tilegen.syntax.span import Source
from tilegen.targets.hopper.emit import emit

_PLANS: tuple[tuple[str, dict[str, str]], ...] = (
    ("copy", {}),
    ("gemm", {}),
    ("row_softmax", {}),
    ("gemm_logsumexp", {"D": "64"}),
    ("fa3_fwd", {"D": "64", "causal": "true"}),
    ("fa3_fwd", {"D": "192"}),  # its output leaves in pieces
    ("fa3_varlen", {"D": "64"}),
    ("attention_decode", {"D": "64"}),
)
_NUMBERS = (-1, 0, 1, 2, 3, 7, 8, 16, 64, 128, 255, 256, 257, 1024, 2**20, 2**31, 2**63, 10**30)
APART = 9  # of the sizes that the checks run a plan at every so many-th is taken
_ODD: tuple[Any, ...] = (None, True, "", "x", 0.5, [], {}, "inf", 1e300)


@cache
def plans() -> dict[str, str]:
    """The JSON of each."""
    found = {}
    for name, params in _PLANS:
        program = load(Source(f"{name}.tile", texts()[name]), params)
        for n, plan in enumerate(lower_all(program)):
            found[" ".join([f"{name}.{n}", *(f"{k}={v}" for k, v in params.items())])] = plan_to_json(plan, indent=None)
    return found


def make(rng: random.Random) -> Case:
    """A plan with one to three changes of its tree, or of its text."""
    name = rng.choice(sorted(plans()))
    text = plans()[name]
    if rng.random() < 0.1:
        return Case(name, _damaged(text, rng))
    tree = json.loads(text)["plan"]
    for _ in range(rng.randint(1, 2)):
        _change(tree, rng)
    tree = json.loads(text) | {"plan": tree}
    return Case(name, json.dumps(tree))


def _damaged(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text))
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at]
    if kind == 1:
        return text[:at] + text[at + rng.randint(1, 20) :]
    if kind == 2:
        return text[:at] + rng.choice('{}[],:"\\0-e\u00e9\x00') + text[at:]
    return "[" * rng.choice((10, 2000, 100_000)) + text


def _change(tree: Any, rng: random.Random) -> None:
    """A value of the tree for another, or an entry gone, doubled or moved."""
    holder, key = rng.choice(list(_places(tree)))
    value = holder[key]
    kind = rng.random()
    if kind < 0.03:
        holder[key] = rng.choice(_ODD)
    elif kind < 0.05 and isinstance(holder, dict):
        holder[rng.choice(("extra", "type", key))] = holder.pop(key)
    elif isinstance(holder, list) and kind < 0.5:
        entry = holder.pop(key)
        if kind < 0.35:
            holder.insert(rng.randint(0, len(holder)), entry)
            if kind < 0.2:
                holder.append(entry)
    elif isinstance(value, int) and not isinstance(value, bool) and kind < 0.8:
        holder[key] = rng.choice((value + 1, value - 1, value * 2, value + 16, -value, rng.choice(_NUMBERS)))
    else:
        holder[key] = _alike(tree, value, rng)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every (holder, key) of a tree, but for places in the spec, and names of classes."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(entries):
        if key not in ("span", "type"):
            yield tree, key
            yield from _places(value)


def _alike(tree: Any, value: Any, rng: random.Random) -> Any:
    """Another value of the same kind from elsewhere."""
    tag = value.get("type") if isinstance(value, dict) else None
    same = [
        holder[key]
        for holder, key in _places(tree)
        if type(holder[key]) is type(value) and (tag is None or holder[key].get("type") == tag)
    ]
    return json.loads(json.dumps(rng.choice(same))) if same else value


def run(case: Case) -> str:
    plan = plan_from_json(case.text)
    verify(plan)
    if faults := check_resources(plan):
        raise TilegenError(tuple(faults))
    emit(plan)
    print_plan(plan)
    for trial in islice(trials(plan), 0, None, APART):
        if faults := check_grid(plan, trial) or check_pipeline(plan, trial):
            raise TilegenError(tuple(faults))
    return "checked and emitted"


PLANS = Suite("plans", make, run, trusted=False)
