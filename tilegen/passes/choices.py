"""What a schedule may leave open for a machine with less room: blocks and stages, tried one choice after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tilegen.ir import schedule as directives
from tilegen.ir.schedule import Directive
from tilegen.ir.scheduled import Batch, Phase, Scheduled, Stream


@dataclass(frozen=True)
class Choice:
    """Positions of a streamed axis in a tile, of a grid axis that is no row; stages."""

    stream: int
    columns: int
    depth: int


def word(d: Directive) -> str:
    """How a directive begins, in a file."""
    name = type(d).__name__
    return "".join(f"_{c.lower()}" if c.isupper() and n else c.lower() for n, c in enumerate(name))


def distinct(made: Iterable[Scheduled]) -> Iterator[Scheduled]:
    """Each schedule once: choices that differ in nothing that a spec has make the same."""
    seen: list[Scheduled] = []
    for s in made:
        if s not in seen:
            seen.append(s)
            yield s


def with_blocks(s: Scheduled, given: tuple[Directive, ...], choice: Choice) -> Scheduled:
    """`s` with the blocks of a choice where the directives state none."""
    stated = {d.axis for d in given if isinstance(d, directives.Block)}
    for role in s.roles:
        if role.axis not in stated and role.axis not in s.workers.axes:
            if role.role == "stream":
                s = s.with_role(replace(role, block=choice.stream))
            elif role.role == "grid" and role.block > 1:
                s = s.with_role(replace(role, block=choice.columns))
    return s


def with_depth(s: Scheduled, depth: int) -> Scheduled:
    """`s` with streamed tiles in rings of this depth."""
    streams = {r.axis for r in s.roles if r.role == "stream"}
    moves = s.program.tile
    tiles = (replace(t, depth=depth if streams & set(moves.move(t.tile).axes) else 1) for t in s.tiles)
    return replace(s, tiles=tuple(tiles))


def one_by_one(phase: Phase) -> Phase:
    """Products are done when the next operation begins: none is in flight, so none is late."""
    if not isinstance(phase, Stream):
        return phase
    body = tuple(replace(i, wait="now") if isinstance(i, Batch) else i for i in phase.body)
    return replace(phase, body=body)
