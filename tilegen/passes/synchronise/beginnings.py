"""Which product of a work item is an accumulator's first: it overwrites what the registers hold, so nothing fills them.

Filling an accumulator costs an instruction a register in every work item. Where a loop's first time is peeled, it is
known there, or by comparing its time with a constant, whether a product is the first. Where a warpgroup passes by
blocks that are not its own, the comparison would be with a number of its own, which can take ten instructions a step.
"""

from __future__ import annotations

from tilegen.ir.folded import Product, Rescale
from tilegen.ir.scheduled import Scheduled, Step, Stream
from tilegen.ir.uniform import Int, Sym, Uniform, op
from tilegen.passes.synchronise.context import carried
from tilegen.passes.synchronise.loops import Layout, is_peeled


def begun_by_products(s: Scheduled, stream: str | None) -> frozenset[str]:
    """Products whose accumulators nothing touches before their first time."""
    found = set()
    for phase in (p for p in s.phases if isinstance(p, Stream) and is_peeled(p)):
        for step in phase.steps:
            o = s.op(step.op)
            known = step.distance == 0 or not phase.skip
            if isinstance(o, Product) and carried(o, stream) and known and _first_to_touch(step, phase, s):
                found.add(o.name)
    return frozenset(found)


def _first_to_touch(product: Step, phase: Stream, s: Scheduled) -> bool:
    """Whether the product comes before what is held relative to a newer exponent is rescaled."""
    rescales = (x for x in phase.steps if isinstance(r := s.op(x.op), Rescale) and r.source == product.op)
    return all(x.distance < product.distance for x in rescales)


def is_first(step: Step, time: Uniform, plan: Layout) -> bool | Uniform:
    """Whether a step's product at this time is the first that this warpgroup issues in the loop."""
    if time == Sym(plan.time) and step.distance == 0:
        return False  # that was peeled
    first = op("eq", time, op("add", plan.skipped, step.distance))
    if time == plan.skipped and step.distance == 0:
        return True
    return bool(first.value) if isinstance(first, Int) else first
