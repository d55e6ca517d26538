"""What the spec declares of tiles and outputs: which position along each axis stands at a tensor's coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from tilegen.ir.plan import MapParam, Plan
from tilegen.ir.poly import Poly
from tilegen.ir.tile import Affine, Apply, Cast, Definition, Expr, Fold, Index, Read, TileProgram
from tilegen.ir.uniform import evaluate


@dataclass(frozen=True)
class Dim:
    """A dimension of a tensor as it is stored: along `axis` a coordinate is the position plus `offset`; "" where the
    declaration says something else than one axis."""

    axis: str
    offset: int


@dataclass(frozen=True)
class Tile:
    """A tile, or an output: its name, its tensor, and the tensor's dimensions, outermost first."""

    name: str
    tensor: str
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class Map:
    """A tensor map of the launch: what it is for, and for each of its dimensions, innermost first, (dimension of the
    tensor, how far one step moves along it)."""

    tile: str
    tensor: str
    dims: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Split:
    """whole = outer * extent + inner."""

    whole: str
    outer: str
    inner: str
    extent: int


@dataclass(frozen=True)
class Declared:
    """tiles: by name. maps: by the number of the kernel's parameter. extents: of axes whose positions are counted from
    0 (of an axis of tokens they are not). restricted: axes that clauses of the domain speak of. summed: outputs each of
    whose elements is made, without a choice, of a sum that has terms, and along which axes."""

    tiles: Mapping[str, Tile]
    outputs: Mapping[str, Tile]
    maps: Mapping[int, Map]
    splits: tuple[Split, ...]
    extents: Mapping[str, int]
    restricted: frozenset[str]
    summed: Mapping[str, tuple[str, ...]]


def declared(program: TileProgram, plan: Plan, sizes: Mapping[str, int]) -> Declared:
    """What a program declares, at the sizes of a launch."""
    ragged = {Poly.symbol(r.size) for r in program.ragged}
    over = {Poly.symbol(r.over) for r in program.ragged}

    def dims(tensor: str, index: Sequence[Index]) -> tuple[Dim, ...]:
        shape = program.tensor(tensor).dims
        of_tokens = any(d in ragged for d in shape)  # the sequences of one axis lie one behind the other
        kept = [e for e, d in zip(index, shape, strict=True) if not (of_tokens and d in over)]
        return tuple(_dim(e, sizes) for e in kept)

    tiles = {m.name: Tile(m.name, m.tensor, dims(m.tensor, m.at)) for m in program.moves}
    outputs = {}
    for d in program.definitions:
        if d.output:
            axes = tuple(Affine(((axis, 1),), Poly(), d.span) for axis in d.index)
            outputs[d.name] = Tile(d.name, d.name, dims(d.name, axes))
    maps = {}
    for number, param in enumerate(plan.params):
        if isinstance(param, MapParam):
            found = plan.descriptor(param.descriptor)
            steps = []
            for m in found.dims:
                by = 1 if m.by is None else int(evaluate(m.by, sizes))
                steps.append((m.dim, (m.chunk or by) if m.part == "outer" else 1))
            maps[number] = Map(found.name, found.tensor, tuple(steps))
    known = {a.name: a for a in program.axes}
    extents = {a.name: int(a.extent.evaluate(sizes)) for a in program.axes if a.extent not in ragged}
    splits = tuple(
        Split(a.name, a.split.outer, a.split.inner, extents[a.split.inner])
        for a in known.values()
        if a.split is not None and a.split.inner in extents
    )
    restricted = {axis for clause in program.domain for axis in clause.axes}
    restricted |= {part for s in splits for part in (s.outer, s.inner) if s.whole in restricted}
    restricted |= {s.whole for s in splits if {s.outer, s.inner} & restricted}
    whole = {axis for axis, extent in extents.items() if extent and axis not in restricted}
    summed = {d.name: folded for d in program.definitions if d.output and (folded := _summed(d, whole, program))}
    return Declared(tiles, outputs, maps, splits, extents, frozenset(restricted), summed)


def _summed(d: Definition, whole: Set[str], program: TileProgram) -> tuple[str, ...]:
    """The axes of a sum that is in each element of an output; none if there is no such. whole: axes all of whose
    positions, at least one, are points of the domain."""
    made = {d.name: d for d in program.definitions}

    def within(e: Expr) -> tuple[str, ...]:
        match e:
            case Fold("sum", over):
                return over if whole >= set(over) else ()
            case Read(name) if name in made:
                return within(made[name].value)
            case Cast(value):
                return within(value)
            case Apply("select", (_, one, other)):
                return within(one) and within(other)
            case Apply("add" | "sub" | "mul" | "neg" | "abs" | "min" | "max", args):
                return next(filter(None, map(within, args)), ())
        return ()

    return within(d.value) if whole >= set(d.index) else ()


def _dim(index: Index, sizes: Mapping[str, int]) -> Dim:
    if not isinstance(index, Affine) or len(index.terms) != 1 or index.terms[0][1] != 1:
        return Dim("", 0)
    return Dim(index.terms[0][0], int(index.offset.evaluate(sizes)))
