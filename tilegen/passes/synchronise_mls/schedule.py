"""Schedules for the MLS machine: blocks, waves and ring depths; where a spec leaves them open, a list of choices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir import schedule as directives
from tilegen.ir.folded import FoldedProgram
from tilegen.ir.mls_plan import WAVE_ROWS, WAVES
from tilegen.ir.schedule import Directive
from tilegen.ir.scheduled import Batch, Scheduled, Stream
from tilegen.ir.scheduled_verify import verify
from tilegen.passes import rewrites
from tilegen.passes.isolate import check_scans, isolate
from tilegen.passes.schedule import schedule

_TAKEN = (directives.Block, directives.Walk, directives.Role)
_OPTIONS = frozenset({"waves", "prefetch", "exact_max", "isolate"})
_DEPTHS = (2, 1)


@dataclass(frozen=True)
class Choice:
    """What a schedule leaves open: positions of a streamed axis in a tile, of a grid axis that is no row; stages."""

    stream: int
    columns: int
    depth: int


# Tried in this order until LDS and registers suffice: large tiles first, and loads under arithmetic before larger ones.
CHOICES = tuple(
    Choice(stream, columns, depth) for depth in _DEPTHS for stream in (64, 32, 16) for columns in (64, 32, 16)
)


def schedules(folded: FoldedProgram, given: tuple[Directive, ...]) -> Iterator[Scheduled]:
    """The schedules to try, the best first. Raises TilegenError for what the machine or this version cannot do."""
    _check(given)
    seen: list[Scheduled] = []
    for choice in CHOICES:
        made = scheduled(folded, given, choice)
        if made not in seen:
            seen.append(made)
            yield made


def _check(given: tuple[Directive, ...]) -> None:
    for d in given:
        if isinstance(d, directives.Option):
            if d.name not in _OPTIONS:
                fail(Code.DIRECTIVE_UNSUPPORTED, d.span, directive=d.name, target="mls")
        elif not isinstance(d, _TAKEN):
            fail(Code.DIRECTIVE_UNSUPPORTED, d.span, directive=_word(d), target="mls")


def _word(d: Directive) -> str:
    """How a directive begins, in a file."""
    name = type(d).__name__
    return "".join(f"_{c.lower()}" if c.isupper() and n else c.lower() for n, c in enumerate(name))


def scheduled(folded: FoldedProgram, given: tuple[Directive, ...], choice: Choice) -> Scheduled:
    """The default schedule with a choice in it and the directives over that."""
    extents = {a.name: a.extent.constant for a in folded.tile.axes}
    s = isolate(schedule(folded, "mls", rewrites.role_overrides(given, extents)))
    stated = {d.axis for d in given if isinstance(d, directives.Block)}
    s = _with_waves(replace(s, order=replace(s.order, persistent=None)), given)
    rows = s.workers.axes[0]
    for role in s.roles:
        if role.axis not in stated and role.axis != rows:
            if role.role == "stream":
                s = s.with_role(replace(role, block=choice.stream))
            elif role.role == "grid" and role.block > 1:
                s = s.with_role(replace(role, block=choice.columns))
    for d in given:
        if isinstance(d, directives.Block):
            s = rewrites.block(s, d)
        elif isinstance(d, directives.Walk):
            s = rewrites.walk(s, d)
    s = _with_depth(s, given, choice.depth)
    s = replace(s, phases=tuple(_one_by_one(p) if isinstance(p, Stream) else p for p in s.phases))
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
    streams = {r.axis for r in s.roles if r.role == "stream"}
    moves = s.program.tile
    tiles = (replace(t, depth=depth if streams & set(moves.move(t.tile).axes) else 1) for t in s.tiles)
    return replace(s, tiles=tuple(tiles))


def _one_by_one(phase: Stream) -> Stream:
    """Products are done when the next operation begins: none is in flight, so none is late."""
    body = tuple(replace(i, wait="now") if isinstance(i, Batch) else i for i in phase.body)
    return replace(phase, body=body)
