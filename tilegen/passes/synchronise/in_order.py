"""The sequence of threads that do one thing after the other: for machines whose products are over when they are done.

What is computed, and in which loops, is the same on all of them; how tiles come, and what a product and a store are, is
each machine's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from tilegen.ir.folded import Output, Product, Rescale
from tilegen.ir.plan import For
from tilegen.ir.scheduled import Batch, Item, Phase, Step, Stream
from tilegen.ir.uniform import Int
from tilegen.passes.synchronise.context import Context
from tilegen.passes.synchronise.loops import Layout, Rounds, Segment, layout
from tilegen.passes.synchronise.sides import beginnings, nothing_to_rescale
from tilegen.passes.synchronise.stores import Stores
from tilegen.passes.synchronise.values import Values


@dataclass
class InOrder(ABC):
    """Builds it. `out`: operations of the machine's plan."""

    c: Context
    values: Values
    stores: Stores
    out: list[Any] = field(default_factory=list)

    @abstractmethod
    def iteration(self, phase: Stream, plan: Layout, masked: bool, streamed: list[str], depth: int) -> None:
        """One round of a streamed loop: what brings its tiles, and `body`."""

    @abstractmethod
    def product(self, o: Product, masked: bool) -> None: ...

    @abstractmethod
    def store(self, o: Output) -> None: ...

    def begin_loop(self, phase: Stream) -> Layout:
        """What stands in front of a streamed loop: its bounds, states that begin with values, loads that it reads."""
        plan = layout(phase, self.c.scheduled, apart=False)  # everybody comes to every meeting
        self.out += (*plan.lets, *plan.own_lets)
        hoisted = beginnings(phase, self.c, self.values)
        self.values.hoist_loads(phase, hoisted)
        self.out += hoisted
        return plan

    def segment(self, phase: Stream, plan: Layout, part: Segment | Rounds, streamed: list[str], depth: int) -> For:
        """One of a streamed loop's parts as a loop of its own."""
        if isinstance(part, Rounds):
            rounds: list[Any] = [self.segment(phase, plan, x, streamed, depth) for x in part.segments]
            return For(part.var, Int(0), Int(part.count), (*part.lets, *rounds), part.label, phase.span)
        saved, self.out = self.out, []
        self.iteration(phase, plan, part.masked, streamed, depth)
        body, self.out = tuple(self.out), saved
        return For(plan.time, part.start, part.stop, body, part.label, phase.span)

    def body(self, items: tuple[Item, ...], phase: Phase, masked: bool) -> None:
        """What is computed, in order."""
        active = {x.op for i in items for x in (i.steps if isinstance(i, Batch) else (i,))}
        self.values.new_iteration()
        for item in items:
            if isinstance(item, Batch):
                for step in item.steps:
                    self._product(step, masked)
                continue
            o = self.c.scheduled.op(item.op)
            if isinstance(o, Rescale) and nothing_to_rescale(o, phase, active, self.c, self.values):
                continue
            if isinstance(o, Output):
                self.store(o)
            else:
                self.out += self.values.lower(o, masked).operations

    def _product(self, step: Step, masked: bool) -> None:
        o = self.c.scheduled.op(step.op)
        assert isinstance(o, Product)
        self.product(o, masked)
