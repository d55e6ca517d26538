"""How a streamed loop is laid out in time, the same for every role.

Steps with distance k run for t = k … n-1+k. With a largest distance of 1 the first and last times are peeled:
t = 0 holds the steps with distance 0, t = n those with distance 1. Consumers also cut t where their variant
(masked or not) changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.folded import Guarded, Product
from tilegen.ir.plan import Let, Operation
from tilegen.ir.scheduled import Batch, Scheduled, Stream
from tilegen.ir.uniform import Int, Sym, Uniform, op
from tilegen.passes.synchronise.work import ranges


@dataclass(frozen=True)
class Layout:
    """Names bound for a loop, and its cuts. Times run from 0 to `count`."""

    stream: Stream
    lets: tuple[Operation, ...]  # for every role
    own_lets: tuple[Operation, ...]  # for consumers: cuts of this warpgroup
    whole: tuple[Uniform, Uniform]  # first and past the last block that no row of the work item needs a mask in
    count: Uniform
    time: str
    peeled: bool
    guarded: bool
    shift: int  # distance of the element-wise steps: their iteration is time - shift
    skipped: Uniform  # first iterations that this warpgroup passes by
    segments: tuple[tuple[str, Uniform, Uniform, bool], ...]  # (label, start, stop, masked)

    def block(self, time: Uniform) -> Uniform:
        """Block number visited at a time."""
        axis = self.stream.axis
        if self.stream.direction == "down":
            return op("sub", op("sub", f"{axis}.last", 1), time)
        return op("add", f"{axis}.first", time)

    def cuts(self, of: str) -> tuple[Operation, Operation]:
        """`whole` bound to names that belong to `of`."""
        first, last = self._cut_names(of)
        return Let(first, self.whole[0], self.stream.span), Let(last, self.whole[1], self.stream.span)

    def straddles(self, time: Uniform, of: str) -> Uniform:
        """Whether the block visited at a time is cut by the domain for some row of the work item, by those names."""
        block, (first, last) = self.block(time), self._cut_names(of)
        return op("or", op("lt", block, first), op("ge", block, last))

    def _cut_names(self, of: str) -> tuple[str, str]:
        return f"{self.stream.axis}.{of}_first", f"{self.stream.axis}.{of}_last"


def layout(stream: Stream, s: Scheduled) -> Layout:
    axis, span = stream.axis, stream.span
    every = ranges(stream, s)
    found, constraints = every.shared, every.constraints
    guarded = any(isinstance(s.op(step.op), Guarded) for step in stream.steps)
    keeps_one = any(isinstance(i, Batch) and i.wait == "next" for i in stream.body)
    peeled = stream.reach > 0 or keeps_one
    first, last = f"{axis}.first", f"{axis}.last"
    count = f"{axis}.steps"
    lets = (
        Let(first, found.first, span),
        Let(last, found.last, span),
        Let(count, op("sub", last, first), span),
    )
    whole = every.whole.inside(first, last)
    down = stream.direction == "down"
    skipped: Uniform = Int(0)
    skip_lets: tuple[Operation, ...] = ()
    if stream.skip:
        unneeded = op("sub", last, every.own.last) if down else op("sub", every.own.first, first)
        # one block at least is computed, so that every fold has its first step
        value = op("max", 0, op("min", unneeded, op("sub", count, 1)))
        skipped, skip_lets = Sym(f"{axis}.skipped"), (Let(f"{axis}.skipped", value, span),)
    begin = op("add", skipped, 1 if peeled else 0)
    shift = max((x.distance for x in stream.steps if not isinstance(s.op(x.op), Product)), default=0)
    if not guarded:
        one = (("", begin, Sym(count), False),)
        return Layout(stream, lets, skip_lets, whole, Sym(count), f"{axis}.step", peeled, False, shift, skipped, one)
    # cuts between the straddling blocks of the low end, the inside, and those of the high end
    inside_first, inside_last = found.inside(first, last)
    low_cut = op("sub", inside_first, first)
    high_cut = op("sub", last, inside_last)
    inside = op("sub", inside_last, inside_first)
    enter, leave = f"{axis}.inside", f"{axis}.outside"
    head = op("add", high_cut if down else low_cut, shift)
    own = (*skip_lets, Let(enter, head, span), Let(leave, op("add", enter, inside), span))
    low_side = any(c.alpha >= 0 for c in constraints)
    # the extent alone is straddled by the last block at most
    high_short = found.holds != Int(0) and all(c.alpha > 0 for c in constraints)
    head_exists, tail_exists = (True, low_side) if down else (low_side, True)
    head_short = down and high_short and not low_side
    segments: list[tuple[str, Uniform, Uniform, bool]] = []
    if head_exists and not (peeled and head_short and not shift):
        end = op("min", enter, count) if shift else Sym(enter)
        segments.append(("straddling blocks, first end", begin, end, True))
    start: Uniform = op("max", enter, begin) if head_exists else begin
    stop: Uniform = op("min", leave, count) if tail_exists else Sym(count)
    segments.append(("blocks inside the domain", start, stop, False))
    if tail_exists:
        segments.append(("straddling blocks, last end", op("max", leave, begin), Sym(count), True))
    return Layout(stream, lets, own, whole, Sym(count), f"{axis}.step", peeled, True, shift, skipped, tuple(segments))
