"""Abstract values: where a fragment's elements stand, what each holds, and what folds have taken in."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tilegen.checks.movement.cuts import Cut
from tilegen.checks.movement.kinds import Kind
from tilegen.checks.movement.places import COL, Env
from tilegen.ir import plan as ir

# Positions along the folded axes that a sum has taken in: (axis, first, end) each.
Taken = tuple[tuple[str, int, int], ...]


class Regions(NamedTuple):
    """What an operation makes of its operands' regions. wrong: what one of them holds and what it should, if any is."""

    wrong: tuple[str, str] | None
    cut: Cut
    kinds: tuple[Kind, ...]


@dataclass(frozen=True, eq=False)
class Value:
    """envs: the readings of the spec under which its elements can stand where they do. sums: what an unfinished sum has
    taken in; tops: the same of a maximum or minimum; done: axes whose sums are complete. trail: the loads, products and
    masks that it came by. data: stand-ins for its elements, of tensors read into registers."""

    envs: tuple[Env, ...]
    cut: Cut
    kinds: tuple[Kind, ...]
    sums: frozenset[Taken] = frozenset()
    tops: frozenset[Taken] = frozenset()
    done: frozenset[str] = frozenset()
    trail: tuple[ir.Operation, ...] = ()
    data: npt.NDArray[Any] | None = field(default=None)

    @property
    def folded(self) -> frozenset[str]:
        """The axes that complete folds in it have gone over."""
        return self.done.union(axis for box in self.tops for axis, _, _ in box)

    @property
    def env(self) -> Env:
        return self.envs[0]

    @cached_property
    def along_columns(self) -> bool:
        return self.cut.shape[1] > 1 or any(p.along == COL for _, p in self.env)


def merged(*trails: tuple[ir.Operation, ...]) -> tuple[ir.Operation, ...]:
    """Trails as one, each operation once."""
    if all(trail is trails[0] or not trail for trail in trails):
        return trails[0]
    found: dict[int, ir.Operation] = {}
    for trail in trails:
        for operation in trail:
            found[id(operation)] = operation
    return tuple(found.values())


def overlap(a: Taken, b: Taken) -> bool:
    """Whether two boxes of the same axes share a point."""
    if tuple(x[0] for x in a) != tuple(x[0] for x in b):
        return False
    return all(max(x[1], y[1]) < min(x[2], y[2]) for x, y in zip(a, b, strict=True))


def kinds_array(value: Value, shape: tuple[int, int]) -> npt.NDArray[np.int16]:
    """The number of each element's region."""
    return np.broadcast_to(value.cut.labels, shape)
