"""Clusters: CTAs that run together, and rings that some of them fill together."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_walk import all_operations

MOST_CTAS = 8  # that every GPU of the kind can place together


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on clusters."""
    if not 1 <= plan.cluster <= MOST_CTAS:
        yield Violation(("plan",), f"a cluster has 1 to {MOST_CTAS} CTAs, not {plan.cluster}")
    if plan.cluster > 1 and plan.table is not None:
        yield Violation(("plan",), "a table deals items out to CTAs, and those of a cluster do each item together")
    for ring in plan.rings:
        if ring.sharers is None:
            continue
        count, stride = ring.sharers.count, ring.sharers.stride
        if count < 2 or stride < 1 or plan.cluster % (count * stride):
            message = f"{count} CTAs, {stride} ranks apart, are no part of a cluster of {plan.cluster}"
            yield Violation(("ring", ring.name), message)
    for _, path, o in all_operations(plan):
        if isinstance(o, ir.CopyTile) and plan.ring(o.slot.ring).sharers is not None:
            yield Violation(path, "threads copy to their own CTA alone")
        if isinstance(o, ir.TmaLoad) and (o.share > 0) != (plan.ring(o.slot.ring).sharers is not None):
            yield Violation(path, "shares lie apart in rings that CTAs fill together, and in no others")
