"""Whether a launch has no more CTAs than a grid takes, and whole clusters of them."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic
from tilegen.ir import plan as ir
from tilegen.ir.uniform import evaluate

MAX_CTAS = 2**31 - 1


def check_grid(plan: ir.Plan, symbols: Mapping[str, int]) -> list[Diagnostic]:
    """What is wrong with the number of CTAs at these sizes; `symbols` also gives sm_count."""
    ctas = evaluate(plan.grid, symbols)
    if ctas % plan.cluster:
        wanted = f"a multiple of {plan.cluster}"
        return [fault(Code.GRID_CLUSTERS, None, kernel=plan.name, got=f"{ctas} CTAs", wanted=wanted)]
    if ctas <= MAX_CTAS:
        return []
    return [fault(Code.GRID_TOO_LARGE, None, kernel=plan.name, got=f"{ctas} CTAs", wanted=f"at most {MAX_CTAS}")]
