"""What leaves: whether each stored element is the one that the spec defines there, and all of them are stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.checks.movement import kinds as kd
from tilegen.checks.movement.algebra import Algebra, words
from tilegen.checks.movement.boxes import Tile
from tilegen.checks.movement.places import COL, ROW, Env, Pos, U, pos_of
from tilegen.checks.movement.stored import Part, box_at, rows_at, vector_at
from tilegen.checks.movement.values import Value
from tilegen.diagnostics.catalogue import Code
from tilegen.ir import plan as ir
from tilegen.ir.uniform import Uniform

Array = npt.NDArray[Any]
_DEFINED, _ELSE = 1, 2  # elements that are stored: points of the domain, and others


@dataclass
class Outputs:
    algebra: Algebra
    number: Callable[[Uniform], int]
    staged: dict[tuple[str, int, int], list[tuple[ir.TmaStore, Tile, Value]]] = field(default_factory=dict)

    def rows(self, o: ir.StoreRows, value: Value, width: int) -> None:
        self._check(o, o.tensor, value, [rows_at(o, width, self.number)])

    def vector(self, o: ir.StoreVector, value: Value) -> None:
        self._check(o, o.tensor, value, [vector_at(o, self.number)])

    def box(self, o: ir.TmaStore, group: int, tile: Tile, value: Value) -> None:
        self.staged.setdefault((o.buffer, o.stage, group), []).append((o, tile, value))

    def commit(self) -> None:
        """The boxes of a group together."""
        for boxes in self.staged.values():
            o, first, value = boxes[0]
            self._check(o, first.tensor, value, [box_at(tile) for _, tile, _ in boxes])
        self.staged.clear()

    def _check(self, o: ir.Operation, tensor: str, value: Value, parts: list[Part]) -> None:
        a, item = self.algebra, self.algebra.item
        value = a.finish(value)
        trail = (*value.trail, o)
        stored = parts[0][1] if len(parts) == 1 else np.logical_or.reduce([inside for _, inside in parts])
        shape = (stored.shape[0], stored.shape[1])
        bound = [all(item.coordinate(e, env) for e in item.declared.outputs[tensor]) for env in value.envs]
        free = not all(bound)
        if free:  # the same along some axis, wherever it is stored: a row without a position of the folded axis
            placed = self._placed(tensor, parts)
            both = tuple(e for p in placed for env in value.envs if (e := item.axes.unify(p, env)) is not None)
            value = replace(value, envs=both or value.envs)
        first: tuple[Code, str, str] | None = None
        for env in value.envs:
            found = self._misplaced(env, tensor, parts, stored, shape, free)
            if found is None:
                break
            first = first or found
        else:
            assert first is not None
            a.report(first[0], trail, got=first[1], wanted=first[2], tensor=tensor)
            return
        self._unfit(value, env, tensor, stored, shape, trail)
        sums, tops = item.declared.folded[tensor]
        rows = tuple(x for x in env if x[1].along in (ROW, U))
        missing = [axis for axis in sorted(sums - value.done) if item.needed(rows, axis)]
        if missing and not (free and any(not item.needed(rows, axis) for axis in sums | tops)):
            a.report(Code.MOVEMENT_FOLD, trail, why=f"no sum over `{missing[0]}` is in what is stored")

    def _folds_something(self, env: Env, tensor: str, rows: Array) -> bool:
        """Whether some of these rows fold over a position of their domain. Those that do not hold what a fold begins
        with."""
        item = self.algebra.item
        sums, tops = item.declared.folded[tensor]
        base = tuple(x for x in env if x[1].along in (ROW, U))
        for axis in sums | tops:
            if not item.extents[axis]:
                return False
            every = Pos(COL, 0, tuple(range(item.extents[axis])))
            if item.axes.lookup(dict(base), axis) is not None:
                continue
            points = np.broadcast_to(item.live((*base, (axis, every))), (len(rows), len(every.offsets)))
            if not points[rows].any():
                return False
        return True

    def _placed(self, tensor: str, parts: list[Part]) -> list[Env]:
        """The positions that a store's coordinates stand for."""
        at = list(parts[0][0])
        for more, inside in parts[1:]:
            for n, each in enumerate(more):
                if each.shape[1] > 1:
                    at[n] = np.where(inside.any(axis=0), each, at[n])
        places = [pos_of(COL if each.shape[1] > 1 else ROW, each.ravel().tolist()) for each in at]
        item = self.algebra.item
        where, stored = item.declared.outputs[tensor], parts[0][1].any(axis=1)
        split = [n for n, e in enumerate(where) if e.terms and e.terms[0][0] in item.axes.split]
        dim = next((n for n in split if places[n].along == ROW), None)
        return self.algebra.bound_vector(where, places, dim, stored)

    def _misplaced(
        self, env: Env, tensor: str, parts: list[Part], stored: Array, shape: tuple[int, int], free: bool
    ) -> tuple[Code, str, str] | None:
        item = self.algebra.item
        wanted: list[Array] = []
        for entry in item.declared.outputs[tensor]:
            pos = item.coordinate(entry, env)
            if pos is None:
                return Code.MOVEMENT_PLACE, "a value without a position there", f"one for each position of {tensor}"
            wanted.append(pos.array(shape[1]))
        key = (item.short(env, ROW, COL), shape)
        if key not in item.stored:
            item.stored[key] = _padded(item.live(env), shape, _width(env, shape[1]))
        whole = item.declared.tensors[tensor].otherwise is not None  # what the domain leaves out is written too
        wants = _padded(item.exists(env), shape, _width(env, shape[1])) if whole else item.stored[key]
        outside = stored & ~wants
        if outside.any():
            where = tensor if whole else "the domain"
            return Code.MOVEMENT_STORE, f"{int(outside.sum())} elements outside {where} are written", "none"
        if not free and (missing := wants & ~stored).any():
            return Code.MOVEMENT_STORE, f"{int(missing.sum())} elements are not written", "all of them"
        for at, inside in parts:
            for n, (one, other) in enumerate(zip(at, wanted, strict=True)):
                differs = one != other
                if differs.any() and (wrong := inside & differs).any():
                    r, c = (int(v) for v in np.argwhere(wrong)[0])
                    here, there = (int(np.broadcast_to(x, shape)[r, c]) for x in (one, other))
                    got = f"the value for position {there} of dimension {n}, at position {here}"
                    return Code.MOVEMENT_PLACE, got, "each value at its own position"
        return None

    def _unfit(
        self,
        value: Value,
        env: Env,
        tensor: str,
        stored: Array,
        shape: tuple[int, int],
        trail: tuple[ir.Operation, ...],
    ) -> None:
        a, item = self.algebra, self.algebra.item
        otherwise, folds = item.declared.tensors[tensor].otherwise, any(item.declared.folded[tensor])
        if otherwise is None and all(map(kd.is_live, value.kinds)):
            return
        width = value.cut.shape[1]
        flags = np.where(stored, np.where(item.stored[item.short(env, ROW, COL), shape], _DEFINED, _ELSE), 0)
        flags = flags if width in (1, shape[1]) else flags[:, :width]
        cut, known = a.cuts.of(flags)
        _, pairs = a.cuts.refine(value.cut, cut)
        for n, m in pairs:
            kind = value.kinds[n]
            constant = kd.is_constant(kind)
            if known[m] == _ELSE and otherwise is not None and kind != otherwise:
                got = f"{words(kind)} outside the domain"
                a.report(Code.POISON_STORE, trail, got=got, wanted=f"{otherwise:g}", tensor=tensor)
                return
            if known[m] != _DEFINED or kd.is_live(kind) or (constant and not folds):
                continue
            rows = ((value.cut.labels == n) & (flags == _DEFINED)).any(axis=1)
            if not (kind == kd.OWN or constant) or self._folds_something(env, tensor, rows):
                a.report(Code.POISON_STORE, trail, got=words(kind), wanted="the spec's value", tensor=tensor)
                return
            empty = item.declared.of_nothing(tensor)
            if kd.differ(kind, empty) and all(
                item.extents[axis] for axis in set().union(*item.declared.folded[tensor])
            ):
                a.report(Code.POISON_STORE, trail, got=words(kind), wanted=words(empty), tensor=tensor)
                return


def _padded(live: Array, shape: tuple[int, int], width: int) -> Array:
    """Of a fragment, where only so many columns have a position."""
    found = np.broadcast_to(live, (shape[0], width))
    return found if width >= shape[1] else np.pad(found, ((0, 0), (0, shape[1] - width)))


def _width(env: Env, width: int) -> int:
    return max([len(p.offsets) for _, p in env if p.along == COL] or [width])
