"""What accumulators hold: of which positions each row and column is, and over which positions they are summed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tilegen.emulate.ptx.types import Array
from tilegen.emulate.ptx.watch.declared import Declared, Tile
from tilegen.emulate.ptx.watch.origins import Axes, WrongTileError

Position = Array | int


@dataclass
class Value:
    """An accumulator's. rows, columns: positions of the 64 rows and of the columns, along each axis that varies there;
    uniform: of axes with one position. folded: along each axis the positions summed over, a piece a product."""

    number: int
    rows: dict[str, Array]
    columns: dict[str, Array]
    uniform: dict[str, int]
    folded: dict[str, list[Array]] = field(default_factory=dict)
    pc: int = 0
    complete: bool = False


class Values:
    """Makes values of products, and judges what meets."""

    def __init__(self, declaration: Declared) -> None:
        self.declaration = declaration
        self.all: list[Value] = []
        self._agree: dict[tuple[int, int, bool], bool] = {}

    def product(
        self, left: Axes | Value, right: Axes, steps: slice, before: Value | None, pc: int, known: bool = True
    ) -> Value:
        """The value of a product, added to `before` if there is one. left: an operand in shared memory, or a value in
        registers whose columns `steps` are contracted. known: whether without `before` zeros are added to, else
        nothing is known of the whole sum. Raises WrongTileError where they do not belong together."""
        if isinstance(left, Axes):
            rows, along, uniform, name = left.across, left.along, dict(left.uniform), left.tile
        else:
            rows = left.rows
            along = {a: p[steps] for a, p in left.columns.items()}
            uniform, name = dict(left.uniform), "the factor in registers"
            self.whole(left, name)
        self._contracted(name, along, right)
        for axis, at in right.uniform.items():
            self._one(name, axis, uniform.get(axis, rows.get(axis)), right.tile, at)
            uniform[axis] = at
        for axis in sorted(right.across.keys() & (uniform.keys() | rows.keys())):
            raise WrongTileError(f"{right.tile} varies along {axis} from column to column, and so does not {name}")
        self._splits(rows, uniform, f"{name} and {right.tile}")
        if before is not None:
            self._same("rows", before.rows, rows, before)
            self._same("columns", before.columns, right.across, before)
            for axis in sorted(before.uniform.keys() & uniform.keys()):
                if before.uniform[axis] != uniform[axis]:
                    raise WrongTileError(
                        f"adds {axis} = {uniform[axis]} to an accumulator that is of {axis} = {before.uniform[axis]}"
                    )
            value = before
        else:
            value = Value(len(self.all), dict(rows), dict(right.across), uniform, {}, pc, not known)
            self.all.append(value)
        for axis, positions in along.items():
            value.folded.setdefault(axis, []).append(positions)
        return value

    def _contracted(self, name: str, along: Mapping[str, Array], right: Axes) -> None:
        for axis in sorted(along.keys() ^ right.along.keys()):
            raise WrongTileError(f"only one of {name} and {right.tile} is contracted along {axis}")
        for axis, positions in along.items():
            other = right.along[axis]
            if len(positions) != len(other):
                raise WrongTileError(f"{len(positions)} columns of {name} meet {len(other)} rows of {right.tile}")
            if not np.array_equal(positions, other):
                n = int((positions != other).argmax())
                raise WrongTileError(
                    f"{axis} = {int(positions[n])} of {name} meets {axis} = {int(other[n])} of {right.tile}"
                )

    @staticmethod
    def _one(name: str, axis: str, had: Position | None, other: str, at: int) -> None:
        if had is None or bool(np.all(np.asarray(had) == at)):
            return
        was = int(np.asarray(had).reshape(-1)[0])
        raise WrongTileError(f"{axis} = {was} of {name} meets {axis} = {at} of {other}")

    def _splits(self, rows: Mapping[str, Array], uniform: Mapping[str, int], whose: str) -> None:
        """A whole and the parts of it that are known are of one place."""
        for s in self.declaration.splits:
            whole = uniform.get(s.whole, rows.get(s.whole))
            if whole is None or not s.extent:
                continue
            inside = (np.asarray(whole) >= 0) & (np.asarray(whole) < self.declaration.extents.get(s.whole, 0))
            for part, found in ((s.outer, np.asarray(whole) // s.extent), (s.inner, np.asarray(whole) % s.extent)):
                at = uniform.get(part, rows.get(part))
                if at is not None and bool(((found != at) & inside).any()):
                    raise WrongTileError(
                        f"{s.whole} = {int(np.asarray(whole).reshape(-1)[0])} meets {part} = "
                        f"{int(np.asarray(at).reshape(-1)[0])} in {whose}"
                    )

    @staticmethod
    def _same(what: str, had: Mapping[str, Array], now: Mapping[str, Array], value: Value) -> None:
        for axis in sorted(had.keys() | now.keys()):
            a, b = had.get(axis), now.get(axis)
            if a is None or b is None or not np.array_equal(a, b):
                raise WrongTileError(f"adds to an accumulator whose {what} are others along {axis}")

    def whole(self, value: Value, name: str) -> None:
        """A value's sums are over. Raise WrongTileError unless they are over each position along an axis once: all of
        them, if no clause of the domain speaks of the axis."""
        if value.complete:
            return
        value.complete = True
        for axis, pieces in value.folded.items():
            extent = self.declaration.extents.get(axis)
            if extent is None:
                continue
            taken = np.concatenate(pieces)
            taken = taken[(taken >= 0) & (taken < extent)]
            if len(np.unique(taken)) != len(taken):
                twice = np.flatnonzero(np.bincount(taken, minlength=extent) > 1)
                raise WrongTileError(f"{name} is summed over {axis} = {int(twice[0])} twice")
            if len(taken) != extent and axis not in self.declaration.restricted:
                lacks = np.flatnonzero(np.bincount(taken, minlength=extent) == 0)
                raise WrongTileError(f"{name} is not summed over {axis} = {int(lacks[0])}")

    def agree(self, one: int, other: int, columns: bool) -> bool:
        """Whether the rows (and columns) of two values are of the same positions, as far as both are known."""
        if one == other:
            return True
        key = (one, other, columns)
        found = self._agree.get(key)
        if found is None:
            a, b = self.all[one], self.all[other]
            found = _agree(a.rows, b.rows) and all(a.uniform[x] == b.uniform[x] for x in a.uniform.keys() & b.uniform)
            if columns:
                found = found and _agree(a.columns, b.columns)
            self._agree[key] = found
        return found

    def stored(self, value: Value, output: Tile, rows: Array, columns: Array | None, coordinates: Array) -> None:
        """Raise WrongTileError unless rows (and columns; None: a number a row) of a value go to the elements of an
        output at these coordinates [n, dimensions], and what it sums is there."""
        self.whole(value, f"what is stored to {output.name}")
        for n, dim in enumerate(output.dims):
            if not dim.axis:
                continue
            at = coordinates[:, n] - dim.offset
            known: Position | None = value.uniform.get(dim.axis)
            if known is None and dim.axis in value.rows:
                known = value.rows[dim.axis][rows]
            if known is None and columns is not None and dim.axis in value.columns:
                known = value.columns[dim.axis][columns]
            if known is None:
                continue
            wrong = np.asarray(known) != at
            if wrong.any():
                first = int(np.broadcast_to(wrong, at.shape).argmax())
                is_of = int(np.broadcast_to(known, at.shape)[first])
                raise WrongTileError(
                    f"stores what is of {dim.axis} = {is_of} to {output.name} at {dim.axis} = {int(at[first])}"
                )


def _agree(a: Mapping[str, Array], b: Mapping[str, Array]) -> bool:
    return all(np.array_equal(a[x], b[x]) for x in a.keys() & b.keys())
