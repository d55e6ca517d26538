"""Schedules for the MLS machine: blocks, waves and ring depths; where a spec leaves them open, a list of choices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir import schedule as directives
from tilegen.ir.folded import FoldedProgram
from tilegen.ir.mls_plan import WAVE_ROWS, WAVES
from tilegen.ir.schedule import Directive
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.scheduled_verify import verify
from tilegen.passes import rewrites
from tilegen.passes.choices import Choice, distinct, one_by_one, with_blocks, with_depth, word
from tilegen.passes.isolate import check_scans, isolate

_TAKEN = (directives.Block, directives.Walk, directives.Role)
_OPTIONS = frozenset({"waves", "prefetch", "exact_max", "isolate"})
_DEPTHS = (2, 1)


# Tried in this order until LDS and registers suffice: large tiles first, and loads under arithmetic before larger ones.
CHOICES = tuple(
    Choice(stream, columns, depth) for depth in _DEPTHS for stream in (64, 32, 16) for columns in (64, 32, 16)
)


def schedules(folded: FoldedProgram, given: tuple[Directive, ...]) -> Iterator[Scheduled]:
    """The schedules to try, the best first. Raises TilegenError for what the machine or this version cannot do."""
    _check(given)
    yield from distinct(scheduled(folded, given, choice) for choice in CHOICES)


def _check(given: tuple[Directive, ...]) -> None:
    for d in given:
        if isinstance(d, directives.Option):
            if d.name not in _OPTIONS:
                fail(Code.DIRECTIVE_UNSUPPORTED, d.span, directive=d.name, target="mls")
        elif not isinstance(d, _TAKEN):
            fail(Code.DIRECTIVE_UNSUPPORTED, d.span, directive=word(d), target="mls")


def scheduled(folded: FoldedProgram, given: tuple[Directive, ...], choice: Choice) -> Scheduled:
    """The default schedule with a choice in it and the directives over that."""
    s = isolate(rewrites.default_schedule(folded, given, "mls"))
    s = _with_waves(replace(s, order=replace(s.order, persistent=None)), given)
    s = with_blocks(s, given, choice)
    for d in given:
        if isinstance(d, directives.Block):
            s = rewrites.block(s, d)
        elif isinstance(d, directives.Walk):
            s = rewrites.walk(s, d)
    s = _with_depth(s, given, choice.depth)
    s = replace(s, phases=tuple(map(one_by_one, s.phases)))
    isolation = _option(given, "isolate")
    if isolation is not None and isolation.value == "fast":
        s = replace(s, tiles=tuple(replace(t, scan=False) for t in s.tiles))
    verify(s)
    check_scans(s)
    return s


def _option(given: tuple[Directive, ...], name: str) -> directives.Option | None:
    return next((d for d in given if isinstance(d, directives.Option) and d.name == name), None)


def _with_waves(s: Scheduled, given: tuple[Directive, ...]) -> Scheduled:
    """Groups of four waves, whose rows are the rows' block."""
    count, stated = 1, _option(given, "waves")
    if stated is not None:
        assert isinstance(stated.value, int)
        if stated.value % WAVES or not 0 < stated.value <= 4 * WAVES:
            fail(Code.MLS_WAVES, stated.span, got=str(stated.value), wanted="4, 8, 12 or 16")
        count = stated.value // WAVES
    s = replace(s, workers=replace(s.workers, count=count), tiles=tuple(replace(t, apart=False) for t in s.tiles))
    role = s.role(s.workers.axes[0])
    return s.with_role(replace(role, block=WAVE_ROWS * WAVES * count))


def _with_depth(s: Scheduled, given: tuple[Directive, ...], depth: int) -> Scheduled:
    """Streamed tiles in rings of this depth, or of what `prefetch` says."""
    stated = _option(given, "prefetch")
    if stated is not None:
        if stated.value not in _DEPTHS:
            fail(Code.MLS_PREFETCH, stated.span, got=str(stated.value), wanted="1 or 2")
        depth = stated.value
    return with_depth(s, depth)
