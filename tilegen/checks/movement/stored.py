"""Where stores go, and how often all CTAs of a launch together write each element of an output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.checks.compiled import Numbers
from tilegen.checks.items import items, names_of
from tilegen.checks.movement.algebra import digits
from tilegen.checks.movement.boxes import Box, Layouts, MixedBoxes, Tile
from tilegen.checks.movement.places import Pos
from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.shapes import ROWS
from tilegen.ir.plan_walk import body_of
from tilegen.ir.uniform import Uniform

Array = npt.NDArray[Any]
Part = tuple[list[Array], Array]  # coordinates, a dimension each, and which elements go there
_STORES = (ir.StoreRows, ir.StoreVector, ir.TmaStore)


def rows_at(o: ir.StoreRows, width: int, number: Callable[[Uniform], int]) -> Part:
    """Where a fragment of so many columns is stored."""
    rows, cols = np.arange(ROWS)[:, None], np.arange(width)[None, :]
    at, stored = _rows(o.index, o.shared, o.row_dim, o.row_limit, rows, number)
    at[o.col_dim] = at[o.col_dim] + cols
    return at, stored & (at[o.col_dim] < number(o.col_limit))


def vector_at(o: ir.StoreVector, number: Callable[[Uniform], int]) -> Part:
    return _rows(o.index, o.shared, o.dim, o.limit, np.arange(ROWS)[:, None], number)


def box_at(tile: Tile) -> Part:
    """Where a tile goes that a box stores."""
    inside = np.asarray(tile.rows)[:, None] & np.asarray(tile.cols)[None, :] & tile.covered
    return [_coordinates(place) for place in tile.dims], inside


def _rows(
    index: tuple[Uniform, ...],
    shared: tuple[ir.RowStep, ...],
    dim: int,
    limit: Uniform,
    rows: Array,
    number: Callable[[Uniform], int],
) -> Part:
    at: list[Array] = [np.asarray(number(i)).reshape(1, 1) for i in index]
    if not shared:
        at[dim] = at[dim] + rows
        return at, at[dim] < number(limit)
    stored: Array = np.ones(rows.shape, np.bool_)
    for step in shared:
        at[step.dim] = at[step.dim] + digits(step.digit, rows)
        stored = stored & (at[step.dim] < number(step.limit))
    return at, stored


def _coordinates(place: Pos | tuple[Pos, Pos, int]) -> Array:
    if isinstance(place, Pos):
        return place.array(1)
    return place[0].array(1) * place[2] + place[1].array(1)


@dataclass
class Counts:
    """How often each element of each output is written at some sizes."""

    plan: ir.Plan
    layouts: Layouts
    numbers: Numbers
    symbols: Mapping[str, int]
    extents: Mapping[str, tuple[int, ...]]
    at: ir.Operation | None = None  # what is run
    _storing: dict[int, bool] = field(default_factory=dict)  # operations by id: the plan keeps them

    def of(self, ctas: int) -> dict[str, Array]:
        """By all of a launch's CTAs. Raises ZeroDivisionError."""
        found = {t.name: np.zeros(self.extents[t.name], np.int64) for t in self.plan.tensors if t.output}
        for role in self.plan.roles:
            if not any(map(self._stores, role.body)):
                continue
            widths = {f.name: f.cols for f in role.fragments}
            for cta in range(ctas):
                for group in range(role.warpgroups):
                    names = names_of(self.plan, self.symbols, cta, group)
                    for tensor, part in self._body(role.body, names, widths, cta, ctas):
                        self._count(found[tensor], part)
        return found

    def _body(
        self, body: tuple[ir.Operation, ...], names: dict[str, int], widths: Mapping[str, int], cta: int, ctas: int
    ) -> Iterator[tuple[str, Part]]:
        number = self.numbers
        for o in body:
            self.at = o
            match o:
                case ir.Let(name, value):
                    names[name] = number(value, names)
                case ir.If(condition, inner):
                    if number(condition, names):
                        yield from self._body(inner, names, widths, cta, ctas)
                case ir.For(name, start, stop, inner):
                    turns = range(number(start, names), number(stop, names))
                    for turn in turns if self._stores(o) else turns[-1:]:
                        names[name] = turn
                        yield from self._body(inner, names, widths, cta, ctas)
                case ir.Work():
                    for bound in items(self.plan, o, names, self.symbols, cta, ctas, number):
                        names.update(bound)
                        yield from self._body(o.body, names, widths, cta, ctas)
                case ir.StoreRows():
                    yield o.tensor, rows_at(o, widths[o.fragment], lambda e: number(e, names))
                case ir.StoreVector():
                    yield o.tensor, vector_at(o, lambda e: number(e, names))
                case ir.TmaStore():
                    box = Box(o.descriptor, o.offset, tuple(number(c, names) for c in o.coordinates))
                    try:
                        tile = self.layouts.tile(self.plan.buffer(o.buffer), [box], self.symbols)
                    except MixedBoxes:
                        continue  # told of by those who run it
                    yield tile.tensor, box_at(tile)

    def _stores(self, o: ir.Operation) -> bool:
        """Whether it is a store, or holds one."""
        if id(o) not in self._storing:
            self._storing[id(o)] = isinstance(o, _STORES) or any(map(self._stores, body_of(o)))
        return self._storing[id(o)]

    @staticmethod
    def _count(counts: Array, part: Part) -> None:
        at, inside = part
        flat: dict[tuple[int, ...], Array] = {}  # by shape: rows, columns and numbers are added up before they meet
        step = 1
        for place, extent in zip(reversed(at), reversed(counts.shape), strict=True):
            within = (place >= 0) & (place < extent)
            if not within.all():
                inside = inside & within
            flat[place.shape] = flat.get(place.shape, 0) + place * step
            step *= extent
        every: Array = np.broadcast_to(sum(flat.values()), inside.shape)
        counts.reshape(-1)[every if inside.all() else every[inside]] += 1
