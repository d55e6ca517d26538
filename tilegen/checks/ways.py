"""The shortest way to a fault of a pipeline, in the words of its message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilegen.checks.explorer import Explorer, TooManyStates
from tilegen.checks.shared import Site
from tilegen.diagnostics.core import Diagnostic, Note
from tilegen.ir import plan as ir
from tilegen.ir.uniform import evaluate

STATES = 4_000  # a fraction of a second's
STEPS = 12  # that are told, the last ones


def with_way(diagnostic: Diagnostic, plan: ir.Plan, trial: Mapping[str, int], cta: int, site: Site) -> Diagnostic:
    """A fault found in a trial's run, with the interleaving of one ring's operations that soonest leads to harm."""
    here = site.operation.span
    for ring in (r for r in rings_of(site.operation) if plan.ring(r).barriers):
        explorer = Explorer(plan, trial, ring, cta, evaluate(plan.grid, trial))
        try:
            way = explorer.shortest_way(STATES)
        except TooManyStates:
            continue
        if way is not None:
            last = way[-STEPS:]
            left_out = f" (after {len(way) - len(last)} other steps)" if len(way) > len(last) else ""
            told = [Note(span or here, f"{n}. {word}") for n, (word, span) in enumerate(last, len(way) - len(last) + 1)]
            head = Note(here, f"the shortest way to harm that the slots of {ring} show{left_out}:")
            return replace(diagnostic, notes=(*diagnostic.notes, head, *told))
    return diagnostic


def rings_of(operation: ir.Operation) -> tuple[str, ...]:
    """The rings whose slots an operation names."""
    if isinstance(operation, ir.AnyMma):
        slots = [o.slot for o in (operation.a, operation.b) if isinstance(o, ir.SlotOperand)]
    else:
        slot = getattr(operation, "slot", None)
        slots = [slot] if isinstance(slot, ir.Slot) else []
    return tuple(dict.fromkeys(s.ring for s in slots))
