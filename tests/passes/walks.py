"""Streamed loops as each warpgroup goes through them, held against the points of their domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilegen.ir.plan import Let
from tilegen.ir.scheduled import Scheduled, Stream
from tilegen.ir.tile import Affine, TileProgram
from tilegen.ir.uniform import Sym, evaluate, symbols
from tilegen.passes.synchronise.geometry import WARPGROUP_ROWS
from tilegen.passes.synchronise.loops import Layout, Segment, layout
from tilegen.passes.synchronise.work import guard_value

Points = npt.NDArray[np.bool_]


def stream_of(s: Scheduled) -> Stream:
    return next(p for p in s.phases if isinstance(p, Stream))


def live(program: TileProgram, axes: tuple[str, str], values: Mapping[str, int]) -> Points:
    """Which points of two axes are in the domain, extents included; every clause of these specs is affine."""
    at = np.meshgrid(*(np.arange(program.axis(a).extent.evaluate(values)) for a in axes), indexing="ij")
    positions = dict(zip(axes, at, strict=True))
    found = np.ones_like(at[0], dtype=np.bool_)
    for clause in program.domain:
        if clause.guard is not None and not evaluate(guard_value(clause.guard), values):
            continue
        either = np.zeros_like(found)
        for parts in clause.alternatives:
            every = np.ones_like(found)
            for p in parts:
                assert isinstance(p, Affine)
                every &= p.offset.evaluate(values) + sum(c * positions[a] for a, c in p.terms) >= 0
            either |= every
        found &= either
    return found


def whole(points: Points, rows: range, block: range) -> bool:
    """Whether a block lies in the domain for all of these rows."""
    return block.stop <= points.shape[1] and bool(points[rows.start : rows.stop, block.start : block.stop].all())


@dataclass(frozen=True)
class Loop:
    """A streamed loop as one warpgroup of one row block goes through it."""

    first_row: int
    warpgroup: int
    visited: tuple[int, ...]  # blocks, in order
    before: tuple[int, ...]  # blocks that it passes by first
    after: tuple[int, ...]  # and last
    walked: tuple[tuple[int, bool], ...]  # (block, masked), in order


def loops(s: Scheduled, values: Mapping[str, int]) -> Iterator[Loop]:
    plan = layout(stream_of(s), s)
    assert not any("warpgroup" in symbols(let.value) for let in plan.lets if isinstance(let, Let))
    (rows,) = s.workers.axes
    extent = s.program.tile.axis(rows).extent.evaluate(values)
    for row in range(0, extent, s.role(rows).block):
        for warpgroup in range(s.workers.count):
            names = {**values, f"{rows}.0": row, "warpgroup": warpgroup}
            for let in (*plan.lets, *plan.own_lets):
                assert isinstance(let, Let)
                names[let.name] = evaluate(let.value, names)
            count = evaluate(plan.count, names)

            def block(iteration: int, names: dict[str, int] = names) -> int:
                return evaluate(plan.block(Sym("t")), {**names, "t": iteration})

            visited = [block(t) for t in range(count)]
            skipped = evaluate(plan.skipped, names) if visited else 0
            stop = evaluate(plan.stop, names) if visited else 0
            walked: list[tuple[int, bool]] = []
            if plan.peeled and visited and not plan.shift:
                walked.append((block(skipped), plan.guarded))
            for part, bound in in_rounds(plan, names):
                times = range(evaluate(part.start, bound), evaluate(part.stop, bound))
                walked += [(block(t - plan.shift), part.masked) for t in times]
            if plan.shift and visited:
                walked.append((block(stop - plan.shift), plan.guarded))  # the drain
            yield Loop(row, warpgroup, tuple(visited), tuple(visited[:skipped]), tuple(visited[stop:]), tuple(walked))


def in_rounds(plan: Layout, names: Mapping[str, int]) -> Iterator[tuple[Segment, Mapping[str, int]]]:
    """The segments in the order in which they are gone through, with what is bound then."""
    for part in plan.segments:
        if isinstance(part, Segment):
            yield part, names
            continue
        for n in range(part.count):
            bound = {**names, part.var: n}
            for let in part.lets:
                assert isinstance(let, Let)
                bound[let.name] = evaluate(let.value, bound)
            yield from ((segment, bound) for segment in part.segments)


def check_loops(s: Scheduled, values: Mapping[str, int], *, minimal: bool = True) -> None:
    """Blocks visited, masked and passed by are those that the domain needs, for each warpgroup.

    minimal: no block is masked without need, peeled ones apart.
    """
    stream = stream_of(s)
    (rows,), size = s.workers.axes, s.role(stream.axis).block
    points = live(s.program.tile, (rows, stream.axis), values)
    height, width = points.shape
    plan = layout(stream, s)
    peeled = {0, -1} if plan.peeled else set()
    for loop in loops(s, values):
        cta = points[loop.first_row : loop.first_row + s.role(rows).block]
        assert set(loop.visited) == {b for b in range(-(-width // size)) if cta[:, b * size : (b + 1) * size].any()}
        assert list(loop.visited) == sorted(loop.visited, reverse=stream.direction == "down")
        assert (*loop.before, *(b for b, _ in loop.walked), *loop.after) == loop.visited
        own = range(*(min(loop.first_row + (loop.warpgroup + n) * WARPGROUP_ROWS, height) for n in (0, 1)))
        for b in (*loop.before, *loop.after):
            assert not points[own.start : own.stop, b * size : (b + 1) * size].any(), f"rows {own} need block {b}"
        for n, (b, masked) in enumerate(loop.walked):
            needs_none = whole(points, own, range(b * size, (b + 1) * size))
            assert masked or needs_none, f"block {b} of rows {own} needs a mask"
            if minimal and own and not {n, n - len(loop.walked)} & peeled:
                assert masked != needs_none, f"block {b} of rows {own} is masked without need"
