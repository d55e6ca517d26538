"""Every read of an input: by which index, and at which positions the domain has it.

An equation is followed from each output that needs it, since the clauses that count are those of the reader: what an
equation reads at points that no output takes in is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tilegen.ir.inequalities import Alternatives, Linear, both, compared, opposite
from tilegen.ir.poly import Poly
from tilegen.ir.reach import AxisTree
from tilegen.ir.tile import (
    Affine,
    Apply,
    Axis,
    Clause,
    Definition,
    Expr,
    Fold,
    Guard,
    Index,
    Lookup,
    Move,
    Number,
    Position,
    Read,
    Symbol,
    Tensor,
)
from tilegen.ir.walk import parts

_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


@dataclass(frozen=True)
class Access:
    """One dimension of a read. Variables are axes, with primes where a fold runs over one that is in use outside it.

    variables: those at hand, and their extents. splits: (whole, outer part, inner part, its extent), of variables.
    conditions: what holds at every position that is read; those that are no inequalities are left out. exact: no others
    are.
    """

    tensor: str
    dimension: int
    extent: Poly
    index: Linear
    written: Affine
    variables: tuple[tuple[str, Poly], ...]
    splits: tuple[tuple[str, str, str, Poly], ...]
    conditions: tuple[Alternatives, ...]
    exact: bool

    @property
    def involved(self) -> tuple[str, ...]:
        """The variables that say where: those of the index, and those that conditions tie to them."""
        names = dict.fromkeys(v for v, _ in self.index.terms)
        groups = [{v for v, _ in x.terms} for c in self.conditions for x in _members(c)]
        while more := [g for g in groups if g & names.keys() and not g <= names.keys()]:
            names |= dict.fromkeys(sorted(more[0]))
        return tuple(names)

    @property
    def symbols(self) -> frozenset[str]:
        """The sizes and scalars that decide where it leads."""
        extents = dict(self.variables)
        polys = [self.extent, self.index.offset, *(extents[v] for v in self.involved)]
        tied = [x.offset for c in self.conditions if variables_of(c) & {*self.involved} for x in _members(c)]
        return frozenset[str]().union(*(p.symbols for p in (*polys, *tied)))


@dataclass(frozen=True)
class Declarations:
    """What a program declares that reads depend on."""

    axes: Mapping[str, Axis]
    tensors: Mapping[str, Tensor]
    moves: Mapping[str, Move]
    definitions: Mapping[str, Definition]
    domain: tuple[Clause, ...]


def accesses(declared: Declarations) -> tuple[Access, ...]:
    """Each read of an input once for each set of conditions that it stands under, but for dimensions that an axis of
    their own extent runs along."""
    walk = _Walk(declared)
    for definition in declared.definitions.values():
        if definition.output:
            walk.output(definition)
    for clause in declared.domain:
        walk.clause(clause)
    return tuple(walk.found)


@dataclass(frozen=True)
class _Place:
    """env: what the axes at hand are, None where that is no sum of variables; conditions: what holds there."""

    env: Mapping[str, Linear | None]
    conditions: tuple[Alternatives, ...] = ()
    exact: bool = True

    def under(self, alternatives: Alternatives) -> _Place:
        return replace(self, conditions=(*self.conditions, alternatives))

    def used(self) -> set[str]:
        """The variables in use."""
        of_conditions = set[str]().union(*map(variables_of, self.conditions))
        return of_conditions | {v for e in self.env.values() if e for v, _ in e.terms}


@dataclass
class _Walk:
    declared: Declarations
    found: dict[Access, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tree = AxisTree(self.declared.axes.values())
        self.seen: set[tuple[object, ...]] = set()

    # ---- where equations hold ----

    def output(self, definition: Definition) -> None:
        place = _Place({a: Linear.variable(a) for a in definition.axes})
        self.expression(definition.value, self._limited(place, definition.axes, None))

    def clause(self, clause: Clause) -> None:
        """What conditions read, where no other one decides already."""
        if all(isinstance(m, Affine) for alternative in clause.alternatives for m in alternative):
            return
        start = _Place({a: Linear.variable(a) for a in clause.axes})
        for other in self.declared.domain:
            if other is not clause and self._speaks(other, clause.axes):
                start = self._with(start, other)
        if clause.guard is not None:
            start = start.under(_guard(clause.guard))
        settled = [a for a in clause.alternatives if all(isinstance(m, Affine) for m in a)]
        for alternative in settled:  # where one of them holds, the others do not matter
            start = start.under(opposite((tuple(self._members(alternative, start)),)))
        for alternative in clause.alternatives:
            place = start.under((tuple(self._members(alternative, start)),))
            for member in alternative:
                if not isinstance(member, Affine):
                    self.expression(member, place)

    def _speaks(self, clause: Clause, axes: Iterable[str]) -> bool:
        return all(self.tree.covers(axes, a) for a in clause.axes)

    def _limited(self, place: _Place, axes: Iterable[str], over: Iterable[str] | None) -> _Place:
        """Under the clauses over `axes`, those that speak of axes in `over` alone."""
        folded = None if over is None else {atom for a in over for atom in self.tree.atoms(a)}
        for clause in self.declared.domain:
            atoms = {atom for a in clause.axes for atom in self.tree.atoms(a)}
            if self._speaks(clause, axes) and (folded is None or folded & atoms):
                place = self._with(place, clause)
        return place

    def _with(self, place: _Place, clause: Clause) -> _Place:
        made: Alternatives = ()
        for alternative in clause.alternatives:
            members = self._members(alternative, place)
            if len(members) < sum(isinstance(m, Affine) for m in alternative):
                place = replace(place, exact=False)
            made += (tuple(members),)
        if clause.guard is not None:
            guard = _guard(clause.guard)
            made = both(guard, made) + opposite(guard)
        return place.under(made)

    def _members(self, alternative: Iterable[Affine | Expr], place: _Place) -> list[Linear]:
        """The inequalities of a conjunction; what is none is left out."""
        made = (self.linear(m, place) for m in alternative if isinstance(m, Affine))
        return [m for m in made if m is not None]

    # ---- expressions ----

    def expression(self, e: Expr, place: _Place) -> None:
        if isinstance(e, Read):
            self.read(e, place)
        elif isinstance(e, Fold):
            self.fold(e, place)
        elif isinstance(e, Apply) and e.op == "select":
            condition, then, other = e.args
            self.expression(condition, place)
            holds, fails = (self.truth(condition, wanted, place) for wanted in (True, False))
            self.expression(then, place.under(holds))
            self.expression(other, place.under(fails))
        else:
            for part in parts(e):
                self.expression(part, place)

    def fold(self, e: Fold, place: _Place) -> None:
        env = dict(place.env)
        used = place.used()
        for axis in e.axes:
            atoms = set(self.tree.atoms(axis))
            apart = {a: x for a, x in env.items() if a == axis or not atoms & set(self.tree.atoms(a))}
            if any(not atoms >= set(self.tree.atoms(a)) for a in env.keys() - apart.keys()):
                place = replace(place, exact=False)  # of a whole, the part that is not folded is not told
            env = apart
            taken = [v for v in used if atoms & set(self.tree.atoms(_axis(v)))]
            env[axis] = Linear.variable(axis + "'" * max((v.count("'") + 1 for v in taken), default=0))
        inside = self._limited(replace(place, env=env), (*place.env, *e.axes), e.axes)
        for arg in e.args:
            self.expression(arg, inside)
        for term in e.extra:
            self.expression(term, place)

    def read(self, e: Read, place: _Place) -> None:
        d = self.declared
        for part in e.index:
            self.table(part, place)
        if e.name in d.tensors and not d.tensors[e.name].output:
            self.indexed(e.name, e.index, place)
        elif e.name in d.moves:
            move = d.moves[e.name]
            inner = self._entered(place, move.index, move.axes, e.index)
            for part in move.at:
                self.table(part, inner)
            self.indexed(move.tensor, move.at, inner)
        elif e.name in d.definitions:
            definition = d.definitions[e.name]
            inner = self._entered(place, definition.index, definition.axes, e.index)
            key = (e.name, tuple(sorted(inner.env.items(), key=lambda x: x[0])), inner.conditions, inner.exact)
            if key not in self.seen:
                self.seen.add(key)
                self.expression(definition.value, inner)

    def _entered(
        self, place: _Place, brackets: tuple[str, ...], axes: tuple[str, ...], at: tuple[Index, ...]
    ) -> _Place:
        """Inside of what has these brackets and axes, read at an index."""
        env: dict[str, Linear | None] = {a: self.axis(a, place) for a in axes}
        for axis, part in zip(brackets, at, strict=True):
            if isinstance(part, Affine) and part.axis == axis:
                env[axis] = self.axis(axis, place)
                continue
            atoms = set(self.tree.atoms(axis))
            env = {a: None if atoms & set(self.tree.atoms(a)) else x for a, x in env.items()}
            env[axis] = self.linear(part, place) if isinstance(part, Affine) else None
        return replace(place, env=env)

    def table(self, part: Index, place: _Place) -> None:
        """What looks a position up."""
        if isinstance(part, Lookup):
            self.indexed(part.table, part.index, place)

    def indexed(self, tensor: str, at: tuple[Index, ...], place: _Place) -> None:
        dims = self.declared.tensors[tensor].dims if tensor in self.declared.tensors else ()
        for n, (extent, part) in enumerate(zip(dims, at, strict=False)):
            index = self.linear(part, place) if isinstance(part, Affine) else None
            if isinstance(part, Affine) and index is not None:
                self.note(tensor, n, extent, index, part, place)

    def note(self, tensor: str, n: int, extent: Poly, index: Linear, part: Affine, place: _Place) -> None:
        alone = index.terms[0][0] if len(index.terms) == 1 else ""
        if index == Linear.variable(alone) and self.declared.axes[_axis(alone)].extent == extent:
            return  # an axis that ends with its dimension
        used = place.used() | {v for v, _ in index.terms}
        splits = self._splits(used)
        sizes = tuple((v, self.declared.axes[_axis(v)].extent) for v in sorted(used))
        access = Access(tensor, n, extent, index, part, sizes, tuple(splits), place.conditions, place.exact)
        self.found[access] = None

    def _splits(self, used: set[str]) -> list[tuple[str, str, str, Poly]]:
        """Split axes of which parts are in use too; the parts that give them join `used`."""
        splits: list[tuple[str, str, str, Poly]] = []
        done: set[str] = set()
        while more := sorted(used - done):
            for v in more:
                done.add(v)
                name = _axis(v)
                primes, split = v[len(name) :], self.declared.axes[name].split
                parts = {p + primes for p in self.tree.inside(name)}
                if split is not None and parts & used:
                    outer, inner = split.outer + primes, split.inner + primes
                    used |= {outer, inner}
                    splits.append((v, outer, inner, self.declared.axes[split.inner].extent))
        return splits

    # ---- forms ----

    def axis(self, name: str, place: _Place) -> Linear | None:
        """The position along an axis, by those at hand."""
        if name in place.env:
            return place.env[name]
        atoms = set(self.tree.atoms(name))
        found: set[str] = set()
        for other, at in place.env.items():
            if atoms & set(self.tree.atoms(other)):
                v = at.terms[0][0] if at is not None and len(at.terms) == 1 else ""
                if at is None or at != Linear.variable(v) or _axis(v) != other:
                    return None
                found.add(v[len(other) :])
        return Linear.variable(name + found.pop()) if len(found) == 1 else None

    def linear(self, affine: Affine, place: _Place) -> Linear | None:
        total = Linear((), affine.offset)
        for axis, factor in affine.terms:
            at = self.axis(axis, place)
            if at is None:
                return None
            total = total.plus(at, factor)
        return total

    def truth(self, e: Expr, wanted: bool, place: _Place) -> Alternatives:
        """What makes a condition of an equation true, or not; ((),) where that is no inequality."""
        if isinstance(e, Apply) and e.op == "not":
            return self.truth(e.args[0], not wanted, place)
        if isinstance(e, Apply) and e.op in ("and", "or"):
            a, b = (self.truth(x, wanted, place) for x in e.args)
            return both(a, b) if (e.op == "and") == wanted else a + b
        if isinstance(e, Apply) and e.op in _COMPARE:
            left, right = (self.number(x, place) for x in e.args)
            if left is not None and right is not None:
                found = compared(left.plus(right, -1), _COMPARE[e.op])
                return found if wanted else opposite(found)
        if isinstance(e, Number):
            return ((),) if bool(e.value) == wanted else ()
        return ((),)

    def number(self, e: Expr, place: _Place) -> Linear | None:
        """A whole number made of positions, sizes and integer scalars."""
        match e:
            case Position(axis):
                return self.axis(axis, place)
            case Symbol(name) if not e.dtype.is_float:
                return Linear((), Poly.symbol(name))
            case Number(value) if float(value).is_integer():
                return Linear((), Poly.const(int(value)))
            case Apply("add" | "sub", (left, right)):
                a, b = self.number(left, place), self.number(right, place)
                return None if a is None or b is None else a.plus(b, 1 if e.op == "add" else -1)
            case Apply("mul", (left, right)):
                a, b = self.number(left, place), self.number(right, place)
                for x, factor in ((a, b), (b, a)):
                    if x is not None and factor is not None and not factor.terms and factor.offset.constant is not None:
                        return Linear((), Poly()).plus(x, factor.offset.constant)
        return None


def _guard(guard: Guard) -> Alternatives:
    return compared(Linear((), guard.left - guard.right), guard.op)


def variables_of(alternatives: Alternatives) -> set[str]:
    return {v for x in _members(alternatives) for v, _ in x.terms}


def _members(alternatives: Alternatives) -> list[Linear]:
    return [x for alternative in alternatives for x in alternative]


def _axis(variable: str) -> str:
    return variable.rstrip("'")
