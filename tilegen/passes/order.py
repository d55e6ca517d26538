"""Whether the steps of a streamed loop, as a schedule has ordered them, find what they read.

A step with distance k works at time t on iteration t - k. What it reads of the same iteration must have been
computed by then, and a value lasts until the next iteration of its own step overwrites it: so a reader is as late
as its source and stands behind it, or is one iteration later and stands before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import FoldedOp, Reduce, Rescale
from tilegen.ir.scheduled import Batch, Scheduled, Step, Stream
from tilegen.passes.schedule import source_names
from tilegen.syntax.span import Span


def check_order(s: Scheduled) -> None:
    """Raises TilegenError for a step that would read what is not there yet or no more."""
    for phase in s.phases:
        if isinstance(phase, Stream):
            placed = {step.op: (n, step, span) for n, step, span in _steps(phase)}
            for reader in placed.values():
                for name in _needed(s.op(reader[1].op), s):
                    if name in placed:
                        _check_pair(reader, placed[name], s)
            _check_tiles(phase, s)


Placed = tuple[int, Step, Span]  # position in the body, and the place of what put it there


def _steps(phase: Stream) -> Iterator[Placed]:
    n = 0
    for item in phase.body:
        for step in item.steps if isinstance(item, Batch) else (item,):
            yield n, step, item.span
            n += 1


def _needed(o: FoldedOp, s: Scheduled) -> tuple[str, ...]:
    """Steps of the same iteration whose results a step needs."""
    if isinstance(o, Rescale):  # its source is the state of a fold, which is of an earlier iteration
        return (o.exponent,)
    before = tuple(r.name for r in s.program.ops if isinstance(r, Rescale) and r.source == o.name)
    more = (o.exponent,) if isinstance(o, Reduce) and o.exponent is not None else ()
    return (*source_names(o), *more, *before)


def _check_pair(reader: Placed, source: Placed, s: Scheduled) -> None:
    later = reader[1].distance - source[1].distance
    if (later == 0 and reader[0] > source[0]) or (later == 1 and reader[0] < source[0]):
        return
    statement, other = (s.op(step.op).statement for step in (reader[1], source[1]))
    fail(
        Code.STEP_ORDER,
        source[2] if later < 0 else reader[2],
        got=f"{_words(reader[1])} reads {_words(source[1])}",
        reader=statement,
        source=other if other != statement else source[1].op,
    )


def _words(step: Step) -> str:
    return f"`{step.op}`{', an iteration late' if step.distance else ''}"


def _check_tiles(phase: Stream, s: Scheduled) -> None:
    """A slot of a ring is read in one iteration: all its readers have one distance."""
    first: dict[str, Step] = {}
    moves = {m.name for m in s.program.tile.moves if phase.axis in m.axes}
    for _, step, span in _steps(phase):
        for name in source_names(s.op(step.op)):
            if name in moves and first.setdefault(name, step).distance != step.distance:
                fail(
                    Code.TILE_AT_TWO_DISTANCES,
                    span,
                    tile=name,
                    first=s.op(first[name].op).statement,
                    second=s.op(step.op).statement,
                )
