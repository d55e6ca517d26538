"""Element-wise work and folds on abstract values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilegen.checks.movement import kinds as kd
from tilegen.checks.movement.cuts import Cut, Cuts
from tilegen.checks.movement.declared import DEAD, IGNORED, Item, UnknownError, Where, entries, function
from tilegen.checks.movement.kinds import LIVE, NEIGHBOUR, OWN, Kind
from tilegen.checks.movement.outlines import DECISIONS, Outlines
from tilegen.checks.movement.places import COL, ROW, Env, Pos, U, along
from tilegen.checks.movement.values import Regions, Taken, Value, merged, overlap
from tilegen.diagnostics.catalogue import Code
from tilegen.ir import plan as ir
from tilegen.ir.folded import FOLD_IDENTITY
from tilegen.ir.plan_rules.shapes import ROWS
from tilegen.ir.uniform import Uniform

# (code, the fields of its message, the operations that led there)
Report = Callable[..., None]
# values by the names of fragments and of uniform numbers
Held = Callable[[str], Value | None]
_LINEAR = frozenset(("add", "sub", "mul", "fma"))


@dataclass
class Algebra:
    """`item`: the declaration at the sizes at hand, changed with each work item. `number`: evaluates uniforms."""

    cuts: Cuts
    outlines: Outlines
    item: Item
    report: Report
    number: Callable[[Uniform], int]

    # ---- values ----

    def constant(self, value: float) -> Value:
        return Value(((),), self.cuts.whole, (float(value),))

    def uniform(self, kind: Kind = LIVE, envs: tuple[Env, ...] = ((),), data: Any = None) -> Value:
        return Value(envs, self.cuts.whole, (kind,), data=data)

    def filled_up(self, value: Value, width: int, wanted: int) -> Value:
        """A value of so many columns with zeros behind them."""
        if width == wanted:
            return value
        behind, known = self.cuts.of((np.arange(wanted) >= width)[None, :].astype(np.int64))
        labels = np.broadcast_to(value.cut.labels, (value.cut.shape[0], width))
        wide, of = self.cuts.of(np.pad(labels, ((0, 0), (0, wanted - width)), mode="edge"))
        cut, pairs = self.cuts.refine(wide, behind)
        kinds = tuple(0.0 if known[b] else value.kinds[of[a]] for a, b in pairs)
        envs = tuple(tuple((axis, p.extended(wanted) if p.along == COL else p) for axis, p in e) for e in value.envs)
        return replace(value, envs=envs, cut=cut, kinds=kinds, data=None)

    def columns(self, value: Value, first: int, count: int, width: int) -> Value:
        """So many columns of a value of `width`, from `first` on."""
        if count == width:
            return value
        labels = np.broadcast_to(value.cut.labels, (value.cut.shape[0], width))[:, first : first + count]
        cut, of = self.cuts.of(np.ascontiguousarray(labels))
        envs = tuple(tuple((axis, p.part(first, count) if p.along == COL else p) for axis, p in e) for e in value.envs)
        return replace(value, envs=envs, cut=cut, kinds=tuple(value.kinds[n] for n in of), data=None)

    def unify(self, values: Sequence[Value], what: str = "") -> tuple[Env, ...]:
        """The readings under which all stand where they do. Reports values that stand at different positions."""
        found = values[0].envs
        for value in values[1:]:
            if value.envs == found or value.envs == ((),):
                continue
            if found == ((),):
                found = value.envs
                continue
            both = tuple(
                dict.fromkeys(e for a in found for b in value.envs if (e := self.item.axes.unify(a, b)) is not None)
            )
            if not both:
                got, wanted = difference(self.item, found[0], value.env)
                trail = merged(*(v.trail for v in values))
                self.report(Code.MOVEMENT_PLACE, trail, got=got, wanted=wanted)
                return found
            found = both
        return found

    # ---- expressions ----

    def evaluate(self, e: ir.ElementExpr, held: Held) -> Value:
        """An element expression over fragments and named numbers."""
        outline = self.outlines.of(e)
        leaves = {n: held(n) or self.uniform(kd.LIVE) for n in outline.names}
        sums = self.outlines.sums(e, tuple(n for n, v in leaves.items() if v.sums))
        if not isinstance(e, ir.Compute) or not leaves or sums is None:
            return self._evaluated(e, leaves)
        key = (id(e), *((id(v.cut), v.kinds, v.along_columns) for v in leaves.values()))
        if key not in self.outlines.regions:
            made = self._evaluated(e, leaves)
            self.outlines.regions[key] = made.cut, made.kinds
            return made
        cut, kinds = self.outlines.regions[key]
        every = list(leaves.values())
        trail = every[0].trail if len(every) == 1 else merged(*(v.trail for v in every))
        envs = self.unify(every)
        tops: frozenset[Taken] = frozenset().union(*(leaves[n].tops for n in outline.tops))
        done: frozenset[str] = frozenset().union(*(leaves[n].done for n in outline.done))
        for name, own in sums.used:
            self._complete(leaves[name].sums, envs[0], trail)
            done |= _done(leaves[name]) if own else frozenset()
        return Value(envs, cut, kinds, leaves[sums.kept].sums if sums.kept else frozenset(), tops, done, trail)

    def _evaluated(self, e: ir.ElementExpr, leaves: Mapping[str, Value]) -> Value:
        match e:
            case ir.Element(name) | ir.Value(name):
                return leaves[name]
            case ir.Literal(value):
                return self.constant(value)
            case ir.IntValue() | ir.Place() | ir.Past() | ir.Coordinate():
                return self.uniform(kd.FINITE_LIVE)
            case ir.Compute(op, args):
                written = frozenset(n for n, a in enumerate(args) if isinstance(a, ir.Literal))
                return self.combine(op, [self._evaluated(a, leaves) for a in args], written)
        raise UnknownError(f"the expression {type(e).__name__}")

    def combine(self, op: str, args: list[Value], written: frozenset[int] = frozenset()) -> Value:
        """What an operation makes of values. written: which of them are constants that the spec writes."""
        each = [_of_a_row(a) for a in args] if op in ("mul", "fma", "fma_oob") else [a.kinds for a in args]
        cut, kinds = args[0].cut, [[k] for k in each[0]]
        for value, own in zip(args[1:], each[1:], strict=True):
            cut, pairs = self.cuts.refine(cut, value.cut)
            kinds = [[*kinds[a], own[b]] for a, b in pairs]
        sums, done = self._sums(op, args)
        tops: frozenset[Taken] = frozenset().union(*(a.tops for a in args))
        trail = args[0].trail if len(args) == 1 else merged(*(a.trail for a in args))
        if op in DECISIONS:
            tops = frozenset()
        made = tuple(_made(op, tuple(k), written) for k in kinds)
        return Value(self.unify(args), cut, made, sums, tops, done, trail)

    def _sums(self, op: str, args: list[Value]) -> tuple[frozenset[Taken], frozenset[str]]:
        """What sums in the result have taken in, and which are complete."""
        done: frozenset[str] = frozenset().union(*(a.done for a in args))
        if op in DECISIONS:
            return frozenset(), frozenset()
        if op in ("fma", "fma_oob"):
            sums, done = self._sums("mul", args[:2])
            factor = next((a for a in args[:2] if a.sums), args[0])
            return self._added([replace(factor, sums=sums, done=done), args[2]], args)
        if op == "select":
            return self._selected(*args[1:])
        if op in ("add", "sub"):
            return self._added(args, args)
        open_ones = [a for a in args if a.sums]
        if op in ("neg", "round", "mul") and len(open_ones) < 2:
            return (open_ones[0].sums if open_ones else frozenset()), done
        for a in open_ones:
            done |= self.finish(a).done
        return frozenset(), done

    def _selected(self, a: Value, b: Value) -> tuple[frozenset[Taken], frozenset[str]]:
        """What either of two values has taken in. Different sums are used as whole ones, if they are."""
        sums = [v for v in (a, b) if v.sums]
        whole = a.sums != b.sums and not any(why for v in sums for why in self._missing(v.sums, v.env))
        return (frozenset(), _done(a) | _done(b)) if whole else (self._either(a, b), a.done | b.done)

    def _either(self, a: Value, b: Value) -> frozenset[Taken]:
        """What either of two values has summed. Reports two that differ; a constant has summed what it stands for."""
        given = [v.sums for v in (a, b) if not all(map(kd.is_constant, v.kinds))]
        if len(given) == 2 and given[0] != given[1]:
            self.report(Code.MOVEMENT_FOLD, merged(a.trail, b.trail), why="what two branches sum differs")
        return frozenset[Taken]().union(*given)

    def _added(self, terms: list[Value], args: list[Value]) -> tuple[frozenset[Taken], frozenset[str]]:
        """What a sum of terms has taken in: parts of one sum, or whole sums that have nothing to do with each other."""
        done: frozenset[str] = frozenset().union(*(t.done for t in terms))
        given = [t for t in terms if t.sums]
        pairs = [(a, b) for n, one in enumerate(given) for t in given[n + 1 :] for a in one.sums for b in t.sums]
        meeting = [a for a, b in pairs if overlap(a, b) or _axes(a) != _axes(b)]
        if meeting and not any(why for t in given for why in self._missing(t.sums, t.env)):
            return frozenset(), done | {axis for t in given for box in t.sums for axis in _axes(box)}
        twice = next((a for a, b in pairs if overlap(a, b)), None)
        if twice is not None:
            why = f"{_taken(twice)} is summed twice"
            self.report(Code.MOVEMENT_FOLD, merged(*(a.trail for a in args)), why=why)
        return frozenset[Taken]().union(*(t.sums for t in given)), done

    def finish(self, value: Value) -> Value:
        """A value whose sums are used as whole ones. Reports what they have not taken in."""
        if not value.sums:
            return value
        self._complete(value.sums, value.env, value.trail)
        return replace(value, sums=frozenset(), done=_done(value))

    def _complete(self, sums: frozenset[Taken], env: Env, trail: tuple[ir.Operation, ...]) -> None:
        """Reports what sums that are used as whole ones have not taken in."""
        for why in self._missing(sums, env):
            self.report(Code.MOVEMENT_FOLD, trail, why=why)

    def _missing(self, sums: frozenset[Taken], env: Env) -> Iterator[str]:
        """What unfinished sums have not taken in, in words, an axis each."""
        boxes = list(sums)
        axes = _axes(boxes[0])
        if any(_axes(b) != axes for b in boxes):
            raise UnknownError("sums over different axes that are added up")
        varying = [n for n in range(len(axes)) if len({b[n][1:] for b in boxes}) > 1]
        if len(varying) > 1:
            raise UnknownError("a sum taken in by blocks of two axes")
        for n, axis in enumerate(axes):
            needed = self.item.needed(tuple(x for x in env if x[1].along in (ROW, U)), axis)
            if not needed or _reach(needed[0], (b[n][1:] for b in boxes)) > needed[-1]:
                continue
            missing = set(needed) - {p for b in boxes for p in range(b[n][1], b[n][2])}
            if missing:
                yield f"`{axis}` from {min(missing)} on is left out of the sum"

    # ---- masks ----

    def mask(self, value: Value, o: ir.Mask, held: Held, shape: tuple[int, int]) -> Value:
        keeps = np.zeros((1, 1), np.bool_)
        users = [value]
        for conjunction in o.alternatives:
            every: Any = np.ones((1, 1), np.bool_)
            for condition in conjunction:
                if isinstance(condition, ir.Bound):
                    every = every & self._bound(condition, shape)
                else:
                    every = every & np.asarray(self._data(condition, held, shape, users), np.bool_)
            keeps = keeps | every
        cut, flags = self.cuts.of(np.broadcast_to(keeps, np.broadcast_shapes(keeps.shape, (1, 1))).astype(np.int64))
        cut, pairs = self.cuts.refine(value.cut, cut)
        kinds = tuple(value.kinds[a] if flags[b] else float(o.identity) for a, b in pairs)
        return replace(value, envs=self.unify(users), cut=cut, kinds=kinds, trail=merged(value.trail, (o,)), data=None)

    def _bound(self, b: ir.Bound, shape: tuple[int, int]) -> Any:
        rows, cols = np.arange(shape[0])[:, None], np.arange(shape[1])[None, :]
        total: Any = np.asarray(self.number(b.offset)).reshape(1, 1)
        if b.row_factor:
            total = total + b.row_factor * self._chunks(rows, b.row_chunks)
        if b.col_factor:
            total = total + b.col_factor * self._chunks(cols, b.col_chunks)
        for factor, digit in b.digits:
            total = total + factor * digits(digit, rows)
        return total >= 0

    def _chunks(self, at: Any, chunks: ir.Chunks | None) -> Any:
        if chunks is None:
            return at
        return (self.number(chunks.origin) + digits(chunks.digit, at)) // max(self.number(chunks.length), 1)

    def _data(self, e: ir.ElementExpr, held: Held, shape: tuple[int, int], users: list[Value]) -> Any:
        """A condition's truth, on stand-ins for the entries of tensors."""
        rows, cols = np.arange(shape[0])[:, None], np.arange(shape[1])[None, :]
        match e:
            case ir.Element(name) | ir.Value(name) if (found := held(name)) is not None and found.data is not None:
                users.append(replace(found, cut=self.cuts.whole, kinds=(LIVE,)))
                return found.data
            case ir.Literal(value):
                return np.asarray(value)
            case ir.IntValue(value):
                return np.asarray(self.number(value))
            case ir.Coordinate(direction, origin, digit):
                return self.number(origin) + (digits(digit, rows) if direction == "row" else cols)
            case ir.Place(row_factor, col_factor, offset, more):
                total = self.number(offset) + row_factor * rows + col_factor * cols
                return total + sum(f * digits(d, rows) for f, d in more)
            case ir.Compute(op, args):
                return function(op)(*(self._data(a, held, shape, users) for a in args))
        raise UnknownError("a condition on computed values")

    # ---- folds ----

    def fold(self, value: Value, kind: str, width: int) -> Value:
        """Along columns."""
        value = self.finish(value) if value.sums else value
        env, (_, rows, kinds) = self._agreeing(value, kind, width)
        folded = tuple((a, p.base, p.base + len(p.offsets)) for a, p in self._whole(along(env, COL)))
        taken = frozenset((tuple(sorted(self._cut_off(folded))),)) if folded else frozenset()
        left = tuple(dict.fromkeys(tuple((a, p) for a, p in e if p.along != COL) for e in value.envs))
        if kind == "sum":
            return Value(left, rows, kinds, sums=taken, done=value.done, trail=value.trail)
        return Value(left, rows, kinds, tops=taken, done=value.done, trail=value.trail)

    def _rows(self, value: Value, env: Env, kind: str, width: int) -> Regions:
        """What a fold along columns makes under one reading."""
        states, flags = self._states(value, env, width)
        empty = 0 in self.item.extents.values()
        key = (id(value.cut), value.kinds, id(states), flags, kind, empty)
        if key not in self.outlines.folds:
            cut, pairs = self.cuts.refine(value.cut, states)
            rows, met = self.cuts.rows(cut)
            each = [(value.kinds[a], flags[b]) for a, b in pairs]
            wrong = next((f for held, state in each if (f := _misfolded(held, state, kind, empty))), None)
            kinds = tuple(_folded([each[n] for n in regions], kind) for regions in met)
            self.outlines.folds[key] = Regions(wrong, rows, kinds)
        return self.outlines.folds[key]

    def _states(self, value: Value, env: Env, width: int) -> tuple[Cut, tuple[int, ...]]:
        if not env and all(
            map(kd.is_constant, value.kinds)
        ):  # of an item without steps: what is stored of it is judged
            return self.cuts.whole, (IGNORED,)
        return self.item.states(env, (ROWS, width), folded=value.folded)

    def _cut_off(self, folded: Iterable[tuple[str, int, int]]) -> Iterable[tuple[str, int, int]]:
        return ((a, first, max(min(end, self.item.extents[a]), first)) for a, first, end in folded)

    def _whole(self, env: Env) -> Env:
        """Positions one behind the other. Raises UnknownError for others."""
        for axis, pos in env:
            if pos.offsets != tuple(range(len(pos.offsets))):
                raise UnknownError(f"a fold over `{axis}`, whose positions are not one behind the other")
        return env

    def _agreeing(self, value: Value, kind: str, width: int) -> tuple[Env, Regions]:
        """The first reading under which the fold takes in the domain's points and its identity elsewhere. Reports the
        fault of the first one, if there is none."""
        first: tuple[Env, Regions] | None = None
        for env in value.envs:
            made = self._rows(value, env, kind, width)
            if made.wrong is None:
                return env, made
            first = first or (env, made)
        assert first is not None and first[1].wrong is not None
        got, wanted = first[1].wrong
        self.report(Code.POISON_FOLD, value.trail, got=got, wanted=wanted, kind=kind)
        return first

    def join(self, a: Value, b: Value, vote: Value) -> Value:
        """Either of two values of one fragment: `b` where a row of the warp votes for it, its own row among others."""
        if a is b:
            return a
        both, pairs = self.cuts.refine(a.cut, b.cut)
        cut, votes = self.cuts.refine(both, vote.cut)
        kinds = tuple(
            b.kinds[pairs[n][1]] if kd.is_true(vote.kinds[v]) else kd.join(a.kinds[pairs[n][0]], b.kinds[pairs[n][1]])
            for n, v in votes
        )
        envs, trail = self.unify([a, b]), merged(a.trail, b.trail)
        return Value(envs, cut, kinds, self._either(a, b), a.tops | b.tops, a.done & b.done, trail)

    # ---- tensors read without a tile ----

    def vector(
        self, tensor: str, index: list[int], dim: int | None, steps: tuple[int, ...], along_: str, within: range
    ) -> Value:
        """Elements of a tensor: one, or several along a dimension, 0 at positions that are not `within`."""
        places = [Pos(U, at) for at in index]
        inside = np.ones(1, np.bool_)
        if dim is not None:
            places[dim] = Pos(along_, index[dim], steps)
            inside = np.asarray([index[dim] + s in within for s in steps])
        reads = self.item.declared.reads.get(tensor, [])
        envs = tuple(dict.fromkeys(e for w in reads for e in self.bound_vector(w, places, dim, inside)))
        if not envs:
            at = ", ".join(str(i) for i in index)
            self.report(
                Code.MOVEMENT_PLACE, (), got=f"{tensor}[{at}]", wanted=f"an element of {tensor} that the spec reads"
            )
            envs = ((),)
        coordinates = [np.asarray(p.all()) for p in places]
        data = entries(tensor, coordinates)
        if dim is None:
            return Value(envs, self.cuts.whole, (LIVE,), data=data.reshape(1, 1))
        shape = (-1, 1) if along_ == ROW else (1, -1)
        known = np.logical_or.reduce([np.broadcast_to(self.item.live(e).reshape(-1), inside.shape) for e in envs])
        cut, flags = self.cuts.of(np.where(inside, np.where(known, 2, 1), 0).reshape(shape))
        kinds: tuple[Kind, ...] = tuple((0.0, NEIGHBOUR, LIVE)[f] for f in flags)
        return Value(envs, cut, kinds, data=np.where(inside, data, 0).reshape(shape))

    def bound_vector(self, where: Where, places: list[Pos], dim: int | None, inside: Any) -> list[Env]:
        """The positions of a vector's elements. Along a split axis they are told in two ways, as those past its limit
        may go on along the axis or inside the part at hand: what they meet is told in one of them."""
        found = [self.item.bind(where, places)]
        split = None if dim is None or not where[dim].terms else self.item.axes.split.get(where[dim].terms[0][0])
        if dim is not None and split is not None:
            unit = max(self.item.extents[split.inner], 1)
            outer = {p // unit for p, there in zip(places[dim].all(), inside, strict=True) if there}
            if len(outer) == 1:
                (number,) = outer
                inner = places[dim].shifted(-number * unit)
                found.append(self.item.bind_split(where, dim, Pos(U, number), inner, unit, places))
        return [env for env in found if env is not None]


def _made(op: str, kinds: tuple[Kind, ...], written: frozenset[int]) -> Kind:
    """The kind of an operation's result: with a 0 or an infinity that the spec writes, values of the spec make one."""
    made = kd.apply(op, kinds)
    others = [k for n, k in enumerate(kinds) if n not in written]
    if op in _LINEAR and others and len(others) < len(kinds) and all(map(kd.is_live, others)) and not kd.is_live(made):
        return LIVE
    return made


def _of_a_row(value: Value) -> tuple[Kind, ...]:
    """Kinds of a factor. What is one number a row may be taken for finite: where it is not, its row holds no number
    anyway. An element at a position that the row does not see may not."""
    if value.along_columns:
        return value.kinds
    return tuple(kd.FINITE_LIVE if k == LIVE else k for k in value.kinds)


def digits(digit: ir.Digit | None, rows: Any) -> Any:
    """Where rows are along an axis that shares them."""
    if digit is None:
        return rows
    at = rows // digit.divide
    return at % digit.modulo if digit.modulo else at


def _misfolded(kind: Kind, state: int, fold: str, empty: bool) -> tuple[str, str] | None:
    """(what a fold takes in, what it should) at an element, None if that is right. empty: an axis has no positions, so
    that the spec's value may be made of what a fold begins with."""
    if state == IGNORED or kind == kd.NAN:  # what is no number makes the row's fold none, wherever that ends
        return None
    identity = FOLD_IDENTITY[fold]
    if state == DEAD:
        if kind == identity:
            return None
        return f"{words(kind)} at a point outside the domain", f"{identity:g} there"
    if empty and not kd.is_any(kind):
        return None
    if isinstance(kind, float) and kind in (identity, 0.0):
        return f"{kind:g} at a point of the domain", "the value there"
    if not isinstance(kind, float) and not kd.is_live(kind):
        return f"{words(kind)} at a point of the domain", "the value there"
    return None


def _folded(met: list[tuple[Kind, int]], fold: str) -> Kind:
    """What a row's fold holds."""
    kinds = [k for k, _ in met]
    if kd.NAN in kinds:
        return kd.NAN
    if all(k == FOLD_IDENTITY[fold] for k in kinds):
        return FOLD_IDENTITY[fold]
    if any(state == IGNORED for _, state in met):
        found = kd.worst(kinds)
        return OWN if kd.is_live(found) else found
    return LIVE


def _reach(first: int, spans: Iterable[tuple[int, int]]) -> int:
    """How far spans go from a position on without a gap."""
    end = first
    for start, after in sorted(spans):
        if start <= end:
            end = max(end, after)
    return end


def _axes(box: Taken) -> tuple[str, ...]:
    return tuple(axis for axis, _, _ in box)


def _done(value: Value) -> frozenset[str]:
    """The axes whose sums are complete once its unfinished ones are."""
    return value.done.union(axis for box in value.sums for axis in _axes(box))


def _taken(box: Taken) -> str:
    return ", ".join(f"`{axis}` from {first} to {end - 1}" for axis, first, end in box)


def words(kind: Kind) -> str:
    """A kind in the words of a message."""
    if isinstance(kind, float):
        return f"{kind:g}"
    return {
        kd.ANY: "what is no entry of this row's own tiles (a neighbour's, or stale)",
        kd.NEIGHBOUR: "another row's or column's entry, which lies beside these in memory",
        kd.OUTSIDE: "the NaN that fills a tile outside its tensor",
        kd.OWN: "a number that means nothing",
        kd.FINITE: "a finite number that means nothing",
        kd.NAN: "no number, made of what masks and folds begin with",
    }.get(kind, "a value")


def difference(item: Item, a: Env, b: Env) -> tuple[str, str]:
    """Where two readings differ, in words."""
    one, other = dict(a), dict(b)
    for axis, pos in other.items():
        known = item.axes.lookup(one, axis)
        if known is not None and known != pos:
            return place_text(axis, known), place_text(axis, pos)
    for axis, pos in one.items():
        known = item.axes.lookup(other, axis)
        if known is not None and known != pos:
            return place_text(axis, pos), place_text(axis, known)
    return "one place", "another"


def place_text(axis: str, pos: Pos) -> str:
    return f"{axis} = {pos.base}" + (f" … {pos.base + pos.offsets[-1]}" if len(pos.offsets) > 1 else "")
