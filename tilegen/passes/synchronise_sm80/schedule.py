"""Schedules for sm_80: what a spec leaves open of blocks and ring depths is a list of choices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir import schedule as directives
from tilegen.ir.folded import FoldedProgram, Rescale
from tilegen.ir.schedule import Directive
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.scheduled_verify import verify
from tilegen.passes.choices import Choice, distinct, one_by_one, with_blocks, with_depth, word
from tilegen.passes.isolate import check_scans, isolate
from tilegen.passes.rewrites import apply_directives, default_schedule

TARGET = "sm_80"
WARP_ROWS = 16  # of a matrix instruction
# Columns; positions of a streamed axis, stages, warpgroups that are the same threads: tried in this order until there
# is room. Those that are read a second factor once. Where they do not fit, a step that rescales states costs as much
# however many positions it adds to them.
_COLUMNS = (128, 64, 32)
_TOGETHER = (64, 3, 2)
_RESCALED = (128, 2, 1)
_APART = ((64, 3, 1), (64, 2, 1), (32, 2, 1), (16, 2, 1), (32, 1, 1), (16, 1, 1))
# Products are done one after the other by the threads that do all the rest: nothing is late, batched or in turns.
_TAKEN = (
    directives.Block,
    directives.Consumers,
    directives.Stages,
    directives.Walk,
    directives.Order,
    directives.Group,
    directives.Role,
    directives.Option,
)


# What asks for something that the machine does not have, rather than for what could be written for it.
_LACKING = {
    "multicast": "the machine has no clusters of CTAs",
    "registers": "its warps cannot hand registers to each other",
    "dependent_launch": "its launches cannot begin under the end of others",
    "prefetch": "it is of the target `mls`; here `stages` says how many tiles are on their way",
    "waves": "it is of the target `mls`; here `consumers` says how many warps there are",
}


def schedules(folded: FoldedProgram, given: tuple[Directive, ...]) -> Iterator[Scheduled]:
    """The schedules to try, the best first. Raises TilegenError for what this target cannot do, by name."""
    _check(given)
    rescales = any(isinstance(o, Rescale) for o in folded.ops)
    blocks = (_TOGETHER, *((_RESCALED,) if rescales else ()), *_APART)
    yield from distinct(
        scheduled(folded, given, Choice(stream, columns, depth), together)
        for columns in _COLUMNS
        for stream, depth, together in blocks
    )


def _check(given: tuple[Directive, ...]) -> None:
    for d in given:
        if isinstance(d, directives.Via) and d.mover in ("cp_async", "rows"):
            continue
        if isinstance(d, directives.Via):
            why = "the machine has no TMA"
            fail(Code.DIRECTIVE_OF_OTHERS, d.span, directive=f"via {d.tile} {d.mover}", target=TARGET, why=why)
        name = d.name if isinstance(d, directives.Option) else word(d)
        if name in _LACKING:
            fail(Code.DIRECTIVE_OF_OTHERS, d.span, directive=name, target=TARGET, why=_LACKING[name])
        if not isinstance(d, _TAKEN):
            fail(Code.DIRECTIVE_UNSUPPORTED, d.span, directive=name, target=TARGET)


def _together(given: tuple[Directive, ...], count: int, chosen: int) -> int:
    """How many warpgroups are the same threads: as the rows of a warp say, if they are stated, or as chosen."""
    stated = next((d for d in given if isinstance(d, directives.Option) and d.name == "warp_rows"), None)
    if stated is None:
        return chosen if count % chosen == 0 else 1
    rows = stated.value
    assert isinstance(rows, int)
    if rows % WARP_ROWS or rows not in (WARP_ROWS, 2 * WARP_ROWS) or count % (rows // WARP_ROWS):
        fail(
            Code.WARP_ROWS, stated.span, got=f"{rows}, {count} consumers", wanted="16, or 32 of an even number of them"
        )
    return rows // WARP_ROWS


def scheduled(folded: FoldedProgram, given: tuple[Directive, ...], choice: Choice, together: int) -> Scheduled:
    """The default schedule with a choice in it and the directives over that."""
    s = isolate(default_schedule(folded, given, TARGET))
    s = replace(with_depth(s, choice.depth), order=replace(s.order, persistent=None))
    s = apply_directives(with_blocks(s, given, choice), given)
    tiles = tuple(replace(t, apart=False) for t in s.tiles)
    workers = replace(s.workers, together=_together(given, s.workers.count, together))
    s = replace(s, tiles=tiles, workers=workers, phases=tuple(map(one_by_one, s.phases)))
    verify(s)
    check_scans(s)
    return s
