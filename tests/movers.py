"""Specs whose tiles are brought by another mover, for tests that hold what they compute against TMA's."""

from __future__ import annotations

import re

from tilegen.ir.tile import ParamValue
from tilegen.passes.pipeline import to_scheduled
from tilegen.passes.synchronise.hopper import tiles_in_shared
from tilegen.sema.loading import load
from tilegen.syntax.span import Source


def with_mover(text: str, mover: str, tiles: tuple[str, ...] = (), **params: ParamValue) -> str:
    """The spec with this mover in each of its schedules, for these tiles or for all that stand in shared memory."""
    tiles = tiles or tiles_in_shared(to_scheduled(load(Source("spec.tile", text), params)))
    via = f"via {', '.join(f'{tile} {mover}' for tile in tiles)}"
    text, count = re.subn(r"(schedule hopper[^{]*\{)", rf"\1 {via} ", text)
    assert count, "no schedule to put it into"
    return text
