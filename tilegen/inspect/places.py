"""Where machine instructions stem from, put right by the PTX that they were made from."""

from __future__ import annotations

from dataclasses import replace

from tilegen.inspect.ptx import ptx_lines
from tilegen.targets.hopper.sass import Function, Place

_Places = tuple[Place, ...]


def with_true_places(code: Function, ptx: str) -> Function:
    """The function with the places of its instructions as the PTX has them.

    A cubin's table of inlined calls gives some of them the file that the called function is in instead of their own.
    Where the PTX has no such places, but just one list with the same lines, that is meant.
    """
    known = {line.places for line in ptx_lines(ptx) if line.places}
    by_lines: dict[tuple[int, ...], set[_Places]] = {}
    for places in known:
        by_lines.setdefault(tuple(p.line for p in places), set()).add(places)

    def true(places: _Places) -> _Places:
        meant = () if places in known else by_lines.get(tuple(p.line for p in places), ())
        return next(iter(meant)) if len(meant) == 1 else places

    return replace(code, instructions=tuple(replace(i, places=true(i.places)) for i in code.instructions))
