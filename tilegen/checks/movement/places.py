"""Where the elements of a value stand along the axes of the spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tilegen.ir.tile import TileProgram

U, ROW, COL, K = "u", "row", "col", "k"  # the same everywhere; along rows; along columns; along what is contracted


class Pos(NamedTuple):
    """Positions along one axis: base + offsets[n] at number n along a direction."""

    along: str
    base: int
    offsets: tuple[int, ...] = (0,)

    def shifted(self, by: int) -> Pos:
        return Pos(self.along, self.base + by, self.offsets)

    def array(self, width: int) -> npt.NDArray[np.int64]:
        """As an array that broadcasts over a fragment of so many columns; -1 in columns behind the last."""
        at = np.asarray(self.offsets, np.int64) + self.base
        if self.along == ROW:
            return at[:, None]
        if self.along == COL:
            return (at if len(at) >= width else np.pad(at, (0, width - len(at)), constant_values=-1))[None, :]
        return at.reshape(1, 1)

    def ends(self) -> tuple[int, int]:
        """The least and the largest."""
        if len(self.offsets) == 1:
            at = self.base + self.offsets[0]
            return at, at
        return self.base + min(self.offsets), self.base + max(self.offsets)

    def extended(self, count: int) -> Pos:
        """So many of them, those behind the last one after the other."""
        last = self.offsets[-1]
        return Pos(self.along, self.base, (*self.offsets, *range(last + 1, last + 1 + count - len(self.offsets))))

    def part(self, first: int, count: int) -> Pos:
        """So many of them, from one on."""
        return Pos(self.along, self.base, self.offsets[first : first + count])

    def all(self) -> list[int]:
        return [self.base + o for o in self.offsets]


def pos_of(along: str, positions: list[int]) -> Pos:
    """Positions, as one number where they are all the same."""
    base = positions[0]
    if positions.count(base) == len(positions):
        return Pos(U, base)
    return Pos(along, base, tuple(p - base for p in positions))


def joined(outer: Pos, inner: Pos, unit: int) -> Pos | None:
    """Positions given by the number of a unit and the place inside it; None if these run along different directions."""
    if outer.along == U:
        return inner.shifted(outer.base * unit)
    if inner.along == U:
        return pos_of(outer.along, [p * unit + inner.base for p in outer.all()])
    if inner.along != outer.along:
        return None
    return pos_of(outer.along, [a * unit + b for a, b in zip(outer.all(), inner.all(), strict=True)])


Env = tuple[tuple[str, Pos], ...]  # sorted by axis; of a split axis either itself or parts of it


class Axes:
    """How split axes and their parts give each other's positions. `extents`: of every axis, at the sizes at hand."""

    def __init__(self, program: TileProgram, extents: Mapping[str, int]) -> None:
        self.parent = {p: a for a in program.axes if a.split for p in (a.split.outer, a.split.inner)}
        self.split = {a.name: a.split for a in program.axes if a.split}
        self.extents = extents

    def lookup(self, env: Mapping[str, Pos], axis: str) -> Pos | None:
        """The position along an axis, if those at hand give it."""
        if axis in env:
            return env[axis]
        found = self._from_whole(env, axis)
        return found if found is not None else self._from_parts(env, axis)

    def _from_whole(self, env: Mapping[str, Pos], axis: str) -> Pos | None:
        if axis not in self.parent:
            return None
        whole = self.parent[axis]
        at = env[whole.name] if whole.name in env else self._from_whole(env, whole.name)
        if at is None:
            return None
        assert whole.split is not None
        unit = max(self.extents[whole.split.inner], 1)
        outer = axis == whole.split.outer
        return pos_of(at.along, [p // unit if outer else p % unit for p in at.all()])

    def _from_parts(self, env: Mapping[str, Pos], axis: str) -> Pos | None:
        if axis not in self.split:
            return None
        split = self.split[axis]
        outer, inner = self.lookup_down(env, split.outer), self.lookup_down(env, split.inner)
        if outer is None or inner is None:
            return None
        return joined(outer, inner, self.extents[split.inner])

    def lookup_down(self, env: Mapping[str, Pos], axis: str) -> Pos | None:
        return env[axis] if axis in env else self._from_parts(env, axis)

    def unify(self, a: Env, b: Env) -> Env | None:
        """Both, or None where they do not agree."""
        if a == b or not b:
            return a
        if not a:
            return b
        one, other = dict(a), dict(b)
        for first, second in ((one, other), (other, one)):
            for axis, pos in second.items():
                known = self.lookup(first, axis)
                if known is not None and known != pos:
                    return None
        merged = {**one, **other}
        for axis in list(merged):
            if self._from_whole(merged, axis) is not None:
                del merged[axis]
        return tuple(sorted(merged.items()))


def env_of(places: Iterable[tuple[str, Pos]]) -> Env:
    return tuple(sorted(places))


def along(env: Env, direction: str) -> Env:
    return tuple((a, p) for a, p in env if p.along == direction)


def turned(env: Env, one: str, other: str) -> Env:
    """What runs along one direction runs along another."""
    return tuple((a, Pos(other, p.base, p.offsets) if p.along == one else p) for a, p in env)
