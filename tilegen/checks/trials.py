"""Sizes at which a plan's run is worth checking: loops of no, one, two rounds and more than the rings are deep."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tilegen.checks.pipeline import run
from tilegen.checks.regions import Regions
from tilegen.diagnostics.core import Diagnostic
from tilegen.ir import plan as ir
from tilegen.ir.plan_walk import all_operations, uniforms
from tilegen.ir.uniform import Int, Op, Uniform, evaluate, symbols
from tilegen.syntax.span import Span

ITEMS = 3  # consecutive work items that a CTA goes through
SKEW = 2  # rounds by which roles may be apart beside what a ring holds
# Sizes that vary over their whole list, each value with each; the others take two values, all the first or all the
# last, to keep the number of runs small.
FREE = 2


def check_all(plan: ir.Plan) -> list[Diagnostic]:
    """What is wrong with a verified plan at any of the trial sizes: the first fault of each kind at each place."""
    found: dict[tuple[str, Span | None], Diagnostic] = {}
    regions = Regions(plan)
    for trial in trials(plan):
        ctas = evaluate(plan.grid, trial)
        chosen = sorted({0, ctas - 1}) if ctas > 0 else []
        for diagnostic in run(plan, trial, chosen, regions).diagnostics:
            found.setdefault((diagnostic.code, diagnostic.span), diagnostic)
    return list(found.values())


def trials(plan: ir.Plan) -> Iterator[dict[str, int]]:
    """Values for every size and integer scalar of the plan, and sm_count."""
    names = [p.name for p in plan.params if isinstance(p, ir.SizeParam)]
    names += sorted(_grid_symbols(plan) - set(names))
    values = {name: _values(plan, name) for name in names}
    free = [n for n in sorted(names, key=lambda n: -len(values[n])) if len(values[n]) > 2]
    for kept in free[FREE:]:
        values[kept] = [values[kept][1], values[kept][-1]]
    varied = [n for n in names if len(values[n]) > 2]
    for choice in product(*(values[n] for n in varied), (0, -1)):
        trial = {n: values[n][choice[-1]] for n in names} | dict(zip(varied, choice, strict=False))
        trial["sm_count"] = max(1, -(-_items(plan, trial) // ITEMS))
        yield trial


def _grid_symbols(plan: ir.Plan) -> frozenset[str]:
    return symbols(plan.grid) - {"sm_count"}


def _items(plan: ir.Plan, trial: dict[str, int]) -> int:
    work = next(o for _, _, o in all_operations(plan) if isinstance(o, ir.Work))
    return evaluate(work.total, trial)


def _values(plan: ir.Plan, name: str) -> list[int]:
    """Few values for what only counts repetitions; around multiples of a block for what is cut into blocks."""
    extent = any(name in symbols(d) for t in plan.tensors for d in t.dims)
    block = _block(plan, name)
    if block == 1:
        return [1, 2] if extent else [-1, 0, 1]
    deepest = max((r.depth for r in plan.rings), default=1)
    counts = [0, 1, block, block + 1, 2 * block + 1, (deepest + SKEW) * block]
    return counts if extent else [-1, *counts]


def _block(plan: ir.Plan, name: str) -> int:
    """The largest number that something with the symbol in it is divided by."""

    def divisors(expr: Uniform) -> Iterator[int]:
        if isinstance(expr, Op):
            if expr.op in ("floordiv", "ceildiv") and isinstance(expr.args[1], Int) and name in symbols(expr.args[0]):
                yield expr.args[1].value
            for arg in expr.args:
                yield from divisors(arg)

    return max((d for _, _, o in all_operations(plan) for u in uniforms(o) for d in divisors(u)), default=1)
