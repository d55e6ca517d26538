"""What the Tile program declares of movement: which elements a read means, and at which points the equations hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.checks.movement import kinds as kd
from tilegen.checks.movement.cuts import Cut, Cuts
from tilegen.checks.movement.kinds import Kind
from tilegen.checks.movement.outlines import DECISIONS
from tilegen.checks.movement.places import COL, ROW, Axes, Env, Pos, U, env_of
from tilegen.ir.folded import FOLD_IDENTITY
from tilegen.ir.poly import Poly
from tilegen.ir.schedule import Option
from tilegen.ir.tile import Affine, Apply, Cast, Clause, Expr, Fold, Index, Number, Position, Read, Symbol, TileProgram

Array = npt.NDArray[Any]
Where = tuple[Affine, ...]

_ALL: Array = np.ones((1, 1), np.bool_)
_NONE: Array = np.zeros((1, 1), np.bool_)
DEAD, LIVE, IGNORED = 0, 1, 2  # IGNORED: in a row that no output has
_MIX = (2654435761, 40503, 97, 31, 7)
_OPS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "neg": np.negative, "abs": np.abs,
    "select": np.where, "div": np.divide, "div_rn": np.divide, "floor": np.floor,
}  # fmt: skip


class UnknownError(Exception):
    """What the analysis cannot judge; the message says what."""


def entries(tensor: str, at: Iterable[Array | int]) -> Array:
    """Stand-ins for the entries of a tensor at some coordinates: small whole numbers, so that some are equal."""
    mixed: Array = np.asarray(len(tensor), np.int64)
    for n, coordinate in enumerate(at):
        mixed = mixed * 31 + np.asarray(coordinate, np.int64) * _MIX[n % len(_MIX)]
    return (mixed * 2654435761 >> 9) % 3


def function(op: str) -> Any:
    """The function of arrays that an element-wise operation is. Raises UnknownError for one that it does not know."""
    if op not in _OPS:
        raise UnknownError(f"`{op}` in a condition")
    return _OPS[op]


class Declared:
    """A Tile program, with its ragged tensors stored over tokens. target: whose schedule speaks."""

    def __init__(self, program: TileProgram, target: str) -> None:
        self.program = program
        self.ragged = {r.size: r for r in program.ragged}
        over = {r.over for r in program.ragged}
        self.batch = next((a.name for a in program.axes if str(a.extent) in over), None)
        self.clauses = program.domain
        self.spoken = {id(c): dict.fromkeys((*c.axes, *_affine_axes(c))) for c in program.domain}
        options = [d for d in program.directives(target) if isinstance(d, Option)]
        self.fast = any((d.name, d.value) == ("isolate", "fast") for d in options)
        self.reads: dict[str, list[Where]] = {}
        for tensor, index in self._every_read():
            stored = self.stored(tensor, index)
            if stored is not None and stored not in self.reads.setdefault(tensor, []):
                self.reads[tensor].append(stored)
        self.tensors = {t.name: t for t in program.tensors}
        outputs = [t.name for t in program.tensors if t.output]
        self.outputs = {name: self._output(name) for name in outputs}  # where their elements go
        # axes over which their values are folded by sums, and by a maximum or minimum
        self.folded = {name: self._folded(name) for name in outputs}
        # inputs that a definition reads: by tiles, directly or by another name
        self.tensors_of = {d.name: self._tensors_of(d.name) for d in program.definitions}

    def stored(self, tensor: str, index: tuple[Index, ...]) -> Where | None:
        """An index into a tensor as it lies in memory; None for one that holds a lookup."""
        affine = [e for e in index if isinstance(e, Affine)]
        if len(affine) != len(index):
            return None
        dims = self.program.tensor(tensor).dims
        sizes = [next((s for s in self.ragged if d == Poly.symbol(s)), None) for d in dims]
        over = {self.ragged[s].over for s in sizes if s is not None}
        out = []
        for e, d, size in zip(affine, dims, sizes, strict=True):
            if size is not None:
                out.append(replace(e, offset=e.offset + Poly.symbol(start_symbol(size))))
            elif not any(d == Poly.symbol(o) for o in over):
                out.append(e)
        return tuple(out)

    def _output(self, tensor: str) -> Where:
        definition = self.program.definition(tensor)
        index = tuple(Affine(((axis, 1),), Poly(), definition.span) for axis in definition.index)
        found = self.stored(tensor, index)
        assert found is not None
        return found

    def _folded(self, output: str) -> tuple[frozenset[str], frozenset[str]]:
        sums: set[str] = set()
        tops: set[str] = set()

        def walk(e: Expr) -> None:
            if isinstance(e, Apply) and e.op in DECISIONS:
                return  # what only decides which of two values stands is not in either
            if isinstance(e, Fold):
                (tops if e.kind in ("max", "min") else sums).update(e.axes)
            if isinstance(e, Read):
                inner = next((d for d in self.program.definitions if d.name == e.name), None)
                if inner is not None:
                    walk(inner.value)
            for child in _children(e):
                walk(child)

        walk(self.program.definition(output).value)
        return frozenset(sums), frozenset(tops)

    def of_nothing(self, output: str) -> Kind:
        """What an output holds at points where its folds have no position to take in."""
        defined = {d.name: d.value for d in self.program.definitions}

        def value(e: Expr) -> Kind:
            match e:
                case Number(number):
                    return float(number)
                case Fold(kind, _, _, extra):
                    if extra:  # it begins with that
                        return kd.LIVE
                    return FOLD_IDENTITY["max" if kind == "logsumexp" else kind if kind in FOLD_IDENTITY else "sum"]
                case Cast(inner):
                    return value(inner)
                case Read(name) if name in defined:
                    return value(defined[name])
                case Apply(op, args):
                    return kd.apply(op, tuple(map(value, args)))
            return kd.LIVE

        return value(defined[output])

    def _tensors_of(self, statement: str) -> frozenset[str]:
        defined = {d.name: d.value for d in self.program.definitions}
        moves = {m.name: m.tensor for m in self.program.moves}
        inputs = {t.name for t in self.program.tensors if not t.output}
        found: set[str] = set()

        def walk(e: Expr) -> None:
            if isinstance(e, Read):
                found.update({moves.get(e.name, e.name)} & inputs)
                value = defined.get(e.name)
                while isinstance(value, Cast):
                    value = value.value
                if isinstance(value, Read):  # another name for what is read there
                    walk(value)
            for child in _children(e):
                walk(child)

        walk(defined[statement])
        return frozenset(found)

    def _every_read(self) -> Iterator[tuple[str, tuple[Index, ...]]]:
        inputs = {t.name for t in self.program.tensors if not t.output}
        for move in self.program.moves:
            yield move.tensor, move.at

        def walk(e: object) -> Iterator[tuple[str, tuple[Index, ...]]]:
            if isinstance(e, Read) and e.name in inputs:
                yield e.name, e.index
            for child in _children(e):
                yield from walk(child)

        for definition in self.program.definitions:
            yield from walk(definition.value)
        for clause in self.program.domain:
            for member in (m for alternative in clause.alternatives for m in alternative):
                yield from walk(member)


def _children(e: object) -> tuple[Expr, ...]:
    match e:
        case Apply(_, args):
            return args
        case Cast(value):
            return (value,)
        case Fold(_, _, args, extra):
            return (*args, *extra)
    return ()


def _affine_axes(clause: Clause) -> Iterator[str]:
    """The axes that the affine conditions of a clause name."""
    for alternative in clause.alternatives:
        for member in alternative:
            if isinstance(member, Affine):
                yield from (axis for axis, _ in member.terms)


def start_symbol(size: str) -> str:
    """The first token of the sequence at hand."""
    return f"{size} start"


class Item:
    """The declaration at the sizes of one launch, or of one sequence of it."""

    def __init__(self, declared: Declared, values: Mapping[str, int], cuts: Cuts, sequence: int | None) -> None:
        self.declared, self.values, self.cuts = declared, values, cuts
        program = declared.program
        self.extents = {a.name: max(a.extent.evaluate(values), 0) for a in program.axes}
        self.axes = Axes(program, self.extents)
        self.base: Env = ()
        if sequence is not None and declared.batch is not None:
            self.base = env_of([(declared.batch, Pos(U, sequence))])
        self._guards = {id(c): self._guard(c) for c in declared.clauses}
        self._states: dict[tuple[object, ...], tuple[Cut, tuple[int, ...]]] = {}
        self._points: dict[tuple[object, ...], tuple[Cut, tuple[int, ...]]] = {}
        self.regions: dict[tuple[object, ...], tuple[Cut, tuple[int, ...]]] = {}  # of parts of tiles
        self.stored: dict[tuple[object, ...], Array] = {}  # elements of outputs that exist
        self._needs: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._of_clauses = frozenset(a for c in declared.clauses for a in self._related(c.axes))

    def _related(self, axes: Iterable[str]) -> Iterator[str]:
        """Axes, the wholes that they are parts of, and parts."""
        for axis in axes:
            yield axis
            at = axis
            while at in self.axes.parent:
                at = self.axes.parent[at].name
                yield at
            if axis in self.axes.split:
                yield from self._related((self.axes.split[axis].outer, self.axes.split[axis].inner))

    def _guard(self, clause: Clause) -> bool:
        if clause.guard is None:
            return True
        g = clause.guard
        left, right = g.left.evaluate(self.values), g.right.evaluate(self.values)
        by = {">": left > right, ">=": left >= right, "<": left < right, "<=": left <= right, "==": left == right}
        return by.get(g.op, left != right)

    # ---- reads ----

    def bind(self, where: Where, coordinates: list[Pos]) -> Env | None:
        """The positions along axes at which an index is at these coordinates; None if it never is.

        Raises UnknownError where an index has several axes.
        """
        out: Env = self.base
        for entry, at in zip(where, coordinates, strict=True):
            inside = at.shifted(-entry.offset.evaluate(self.values))
            if not entry.terms:
                if inside != Pos(U, 0):
                    return None
                continue
            if len(entry.terms) > 1 or entry.terms[0][1] != 1:
                raise UnknownError("an index of several axes, or with a factor")
            merged = self.axes.unify(out, ((entry.terms[0][0], inside),))
            if merged is None:
                return None
            out = merged
        return out

    def bind_split(self, where: Where, dim: int, outer: Pos, inner: Pos, unit: int, others: list[Pos]) -> Env | None:
        """The same where dimension `dim` is given by a unit's number and the place inside it."""
        (axis, factor), *more = where[dim].terms or (("", 0),)
        split = self.axes.split.get(axis)
        if more or factor != 1 or split is None or self.extents[split.inner] != unit or where[dim].offset.terms:
            return None
        rest = self.bind(
            tuple(e for n, e in enumerate(where) if n != dim), [p for n, p in enumerate(others) if n != dim]
        )
        return None if rest is None else self.axes.unify(rest, env_of([(split.outer, outer), (split.inner, inner)]))

    def coordinate(self, entry: Affine, env: Env) -> Pos | None:
        """The coordinate that one dimension of an index has."""
        offset = entry.offset.evaluate(self.values)
        if not entry.terms:
            return Pos(U, offset)
        if len(entry.terms) > 1 or entry.terms[0][1] != 1:
            raise UnknownError("an index of several axes, or with a factor")
        found = self.axes.lookup(dict(env), entry.terms[0][0])
        return None if found is None else found.shifted(offset)

    # ---- the domain ----

    def live(self, env: Env, rows: str = ROW, cols: str = COL) -> Array:
        """Which points of two directions the domain holds, of what stands along other directions nothing. One number
        where they are all alike, which is soon known of most."""
        held = {a: p for a, p in env if p.along in (rows, cols, U)}
        sure = self._alike(held)
        if sure is not None:
            return _ALL if sure else _NONE
        out = self.exists(env, rows, cols)
        for clause, places in self._clauses(held):
            arrays = {a: _array(p, rows) for a, p in places.items()}
            either: Array = np.zeros((1, 1), np.bool_)
            for alternative in clause.alternatives:
                every: Array = np.ones((1, 1), np.bool_)
                for member in alternative:
                    every = every & self._holds(member, arrays, held, rows)
                either = either | every
            out = out & either
        return out

    def exists(self, env: Env, rows: str = ROW, cols: str = COL) -> Array:
        """Which points of two directions lie on the axes, in the domain or not."""
        out: Array = np.ones((1, 1), np.bool_)
        for axis, pos in env:
            if pos.along in (rows, cols, U):
                at = _array(pos, rows)
                out = out & (at >= 0) & (at < self.extents[axis])
        return out

    def _clauses(self, held: Mapping[str, Pos]) -> Iterator[tuple[Clause, dict[str, Pos]]]:
        """The clauses that speak of these axes alone, with the positions that they speak of: conditions may name parts
        of the axes that the clause is over."""
        for clause in self.declared.clauses:
            if self._guards[id(clause)]:
                places = {a: self.axes.lookup(held, a) for a in self.declared.spoken[id(clause)]}
                known = {a: p for a, p in places.items() if p is not None}
                if len(known) == len(places):
                    yield clause, known

    def _alike(self, held: Mapping[str, Pos]) -> bool | None:
        """Whether the domain holds all of these points, or none of them, by the ends of each axis; None: not known."""
        ends = {a: p.ends() for a, p in held.items()}
        if any(last < 0 or first >= self.extents[a] for a, (first, last) in ends.items()):
            return False
        whole = all(first >= 0 and last < self.extents[a] for a, (first, last) in ends.items())
        for clause, places in self._clauses(held):
            spans = [[self._span(member, places) for member in alternative] for alternative in clause.alternatives]
            if all(any(most < 0 for _, most in alternative) for alternative in spans):
                return False
            whole = whole and any(all(least >= 0 for least, _ in alternative) for alternative in spans)
        return True if whole else None

    def _span(self, member: Affine | Expr, places: Mapping[str, Pos]) -> tuple[int, int]:
        """What a condition is at least and at most, if it is affine."""
        if not isinstance(member, Affine):
            return -1, 0
        least = most = member.offset.evaluate(self.values)
        for axis, factor in member.terms:
            one, other = (factor * end for end in places[axis].ends())
            least, most = least + min(one, other), most + max(one, other)
        return least, most

    def _holds(self, member: Affine | Expr, arrays: Mapping[str, Array], held: dict[str, Pos], rows: str) -> Array:
        if isinstance(member, Affine):
            total: Array = np.asarray(member.offset.evaluate(self.values))
            for axis, factor in member.terms:
                total = total + factor * arrays[axis]
            return total >= 0
        return np.asarray(self._value(member, held, rows), np.bool_)

    def _value(self, e: Expr, held: dict[str, Pos], rows: str) -> Array:
        match e:
            case Number(value):
                return np.asarray(value)
            case Symbol(name):
                if name not in self.values:
                    raise UnknownError(f"`{name}` in a condition of the domain")
                return np.asarray(self.values[name])
            case Position(axis):
                return self._axis(axis, held, rows)
            case Cast(value):
                return self._value(value, held, rows)
            case Apply(op, args):
                return np.asarray(function(op)(*(self._value(a, held, rows) for a in args)))
            case Read(name, index) if name in self.declared.tensors:
                where = self.declared.stored(name, index)
                if where is not None:
                    return entries(name, [self._affine(entry, held, rows) for entry in where])
        raise UnknownError("a condition of the domain")

    def _affine(self, entry: Affine, held: dict[str, Pos], rows: str) -> Array:
        total: Array = np.asarray(entry.offset.evaluate(self.values))
        for axis, factor in entry.terms:
            total = total + factor * self._axis(axis, held, rows)
        return total

    def _axis(self, axis: str, held: dict[str, Pos], rows: str) -> Array:
        pos = self.axes.lookup(held, axis)
        if pos is None:
            raise UnknownError(f"a condition over `{axis}`, which no tile at hand has")
        return _array(pos, rows)

    def states(
        self,
        env: Env,
        shape: tuple[int, int],
        rows: str = ROW,
        cols: str = COL,
        folded: frozenset[str] = frozenset(),
    ) -> tuple[Cut, tuple[int, ...]]:
        """For each point of two directions whether it is LIVE or DEAD, or IGNORED, in a row that holds no point of any
        output. folded: axes of complete folds; IGNORED are rows too in which one of them has taken in nothing, whose
        values are made of what folds begin with."""
        empty = frozenset(
            a for a in folded
            if (a in self._of_clauses or not self.extents[a]) and self.axes.lookup(dict(env), a) is None
        )  # fmt: skip
        key = (self.short(env, rows, cols), rows, cols, shape, empty)
        if key not in self._states:
            whole = self.live(env, rows, cols)
            base = tuple((a, p) for a, p in env if p.along != cols)
            row = self.live(base, rows, cols)
            for axis in empty:
                every = Pos("folded", 0, tuple(range(max(self.extents[axis], 1))))
                row = row & self.live((*base, (axis, every)), rows, "folded").any(axis=1, keepdims=True)
            state = np.where(row, whole, IGNORED).astype(np.int64)
            self._states[key] = self.cuts.of(state if state.size == 1 else np.broadcast_to(state, shape))
        return self._states[key]

    def points(self, env: Env, shape: tuple[int, int], rows: str = ROW, cols: str = COL) -> tuple[Cut, tuple[int, ...]]:
        """For each point of two directions whether the domain holds it, of what stands along other directions
        nothing."""
        kept = tuple((a, p) for a, p in env if p.along in (rows, cols, U))
        key = (self.short(kept, rows, cols), rows, cols, shape)
        if key not in self._points:
            self._points[key] = self.cuts.of(np.broadcast_to(self.live(kept, rows, cols), shape).astype(np.int64))
        return self._points[key]

    def short(self, env: Env, *directions: str) -> tuple[object, ...]:
        """What of an environment the domain depends on."""
        inside = all(0 <= p.base < self.extents[a] for a, p in env if p.along == U)
        kept = tuple((a, p) for a, p in env if p.along in directions or (p.along == U and a in self._of_clauses))
        return (inside, kept)

    def needed(self, env: Env, axis: str) -> tuple[int, ...]:
        """Positions along an axis that some live row of a value's folds over it must take in, in their order."""
        rows = tuple((a, p) for a, p in env if p.along in (ROW, U))
        key = (axis, self.short(rows, ROW))
        if key not in self._needs:
            extent = self.extents[axis]
            row = self.live(rows)
            points = self.live((*rows, (axis, Pos(COL, 0, tuple(range(max(extent, 1)))))))
            some = np.broadcast_to(np.any(points & row, axis=0), max(extent, 1))
            self._needs[key] = tuple(np.flatnonzero(some[:extent]).tolist())
        return self._needs[key]


def _array(pos: Pos, rows: str) -> Array:
    if pos.along == U:
        return np.asarray(pos.base).reshape(1, 1)
    found = pos.base + np.asarray(pos.offsets, np.int64)
    return found[:, None] if pos.along == rows else found[None, :]
