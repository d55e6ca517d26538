"""Sizes and fresh random inputs for `tilegen run`, and which dimensions of an output are batches."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tilegen.ir import schedule
from tilegen.ir.dtypes import DType
from tilegen.ir.tile import Affine, Definition, Fold, Index, Lookup, Position, Read, Tensor, TileProgram
from tilegen.oracle.chunks import closure, walk
from tilegen.oracle.evaluator import Reach, factors, named
from tilegen.oracle.named import Array
from tilegen.oracle.space import Sizes, Space

SMALL, SMALL_INNER = 137, 136  # odd, and nearly so for what is contiguous in memory
CHUNK = 16  # bytes, of which rows are a whole number that TMA or matrix loads read, or vectors of numbers store
LARGE = 2048
SMALL_LENGTHS = ((0, 9, 130), (5, 9, 137))  # of ragged sizes, in turn
LARGE_LENGTHS = ((LARGE, 0, 1000), (LARGE, 7, 1023))
LABELS = 4  # integer tensors that look nothing up hold labels below this (documents, segments)


def batch_axes(program: TileProgram, output: str) -> tuple[int, ...]:
    """The dimensions of an output (as stored) that are batches: every product behind it has them on both sides.

    Heads count where only a part of them is shared (query heads that read one key head). Empty without products.
    """
    space = Space(program, {}, {}, {})
    definition = program.definition(output)
    own = _batch_axes(space, definition)
    tokens = space.token_dims(program.tensor(output))
    stored = [axis for n, axis in enumerate(definition.index) if tokens is None or n != tokens[0]]
    ragged = definition.index[tokens[1]] if tokens else None
    return tuple(n for n, axis in enumerate(stored) if axis in own and axis != ragged)


def _batch_axes(space: Space, output: Definition) -> set[str]:
    reach = Reach(space)
    apart: set[str] = set()  # leaf axes that some product has on one side alone, or folds
    products = 0
    for definition in closure(space.program, [output]):
        for expr in walk(definition.value):
            if isinstance(expr, Fold):
                apart |= set(space.leaf_set(expr.axes))
                sides = [s for e, _ in factors(expr.args[-1]) if (s := frozenset(reach.expr(e)))]
                # factors over the same axes are no product, as in a sum of squares
                if expr.kind in ("sum", "expsum") and len(set(sides)) > 1:
                    products += 1
                    apart |= frozenset().union(*sides) - sides[0].intersection(*sides)
    if not products:
        return set()
    return {axis for axis in output.index if set(space.leaves(axis)) - apart}


def default_sizes(program: TileProgram, *, small: bool, target: str = "hopper") -> dict[str, int | list[int]]:
    """A value for every size: its default in the spec, else a small or large one by what it measures, such that the
    rows of every tensor lie as the target needs them.

    Sizes of batch axes, and of others of which every tile has one position, stay at 1 or 2, so that a small run is one
    the emulator finishes in seconds.
    """
    space = Space(program, {}, {}, {})
    batch = {leaf for d in program.definitions if d.output for a in _batch_axes(space, d) for leaf in space.leaves(a)}
    leaves = [a for a in program.axes if a.split is None]
    held = {leaf for m in program.moves for a in m.index for leaf in space.leaves(a)}
    batch |= {a.name for a in leaves} - held if program.moves else set()
    steps = _steps(program, target)
    lengths = iter((SMALL_LENGTHS if small else LARGE_LENGTHS) * len(program.ragged))
    over = {r.over for r in program.ragged}
    sizes: dict[str, int | list[int]] = {}
    batches = []
    for size in program.sizes:
        measured = {a.name for a in leaves if size.name in a.extent.symbols}
        if space.ragged(size.name) is not None:
            sizes[size.name] = list(next(lengths))
        elif size.name in over:
            sizes[size.name] = len(SMALL_LENGTHS[0])
        elif size.default is not None:
            sizes[size.name] = size.default
        elif measured and measured <= batch:
            batches.append(size.name)
            sizes[size.name] = 1
        else:
            step = steps.get(size.name, 1)
            wanted = LARGE if not small else SMALL_INNER if size.name in steps else SMALL
            sizes[size.name] = -(-wanted // _coefficient(program, size.name) // step) * step
    for name in batches[-1:] if small else batches[1:]:
        sizes[name] = 2
    return sizes


def _steps(program: TileProgram, target: str) -> dict[str, int]:
    """What each size that extents of rows depend on has to be a multiple of, so that rows are whole chunks."""
    steps: dict[str, int] = {}
    for t in program.tensors:
        if t.dims and (not t.output or t.dtype.bits == 16 or _stored_whole(program, t.name, target)):
            for monomial, coefficient in t.dims[-1].terms:
                chunk = CHUNK // t.dtype.bytes
                for symbol in monomial:
                    steps[symbol] = max(steps.get(symbol, 1), chunk // math.gcd(chunk, coefficient))
    return steps


def _stored_whole(program: TileProgram, output: str, target: str) -> bool:
    """Whether a launch may store no rows of an output but such of whole chunks."""
    return target == "mls" or any(
        (isinstance(d, schedule.Via) and (d.tile, d.mover) == (output, "tma"))
        or (isinstance(d, schedule.Stages) and d.tile == output)
        for s in program.schedules
        if s.target == target
        for d in s.directives
    )


def _coefficient(program: TileProgram, size: str) -> int:
    """How many positions of an axis one unit of a size makes (the rows of a page)."""
    alone = (a.extent.terms[0] for a in program.axes if len(a.extent.terms) == 1)
    return max((c for monomial, c in alone if monomial == (size,)), default=1)


def random_inputs(program: TileProgram, sizes: Sizes, seed: int) -> dict[str, Array]:
    """An array for every input, in its own type and stored shape: standard normal floats; positions that exist for
    tables that are looked up in; the starts of the sequences for tables of ragged sizes; for integers that a domain
    compares with positions (`j < used[b]`) anything up to the axis's extent; small sorted labels for the others.
    """
    space = Space.of(program, sizes)
    starts = {r.by: r.size for r in program.ragged}
    limits = {**dict(_compared(space)), **dict(_looked_up(space))}
    arrays: dict[str, Array] = {}
    for number, tensor in enumerate(t for t in program.tensors if not t.output):
        random = np.random.default_rng((seed, number))
        shape = space.stored(tensor)
        if tensor.name in starts:
            array: Array = space.starts(starts[tensor.name])
        elif tensor.dtype.is_float:
            array = random.standard_normal(shape)
        elif tensor.dtype is DType.BOOL:
            array = random.integers(0, 2, shape)
        else:
            array = random.integers(0, max(limits.get(tensor.name, LABELS), 1), shape)
            array = array if tensor.name in limits else np.sort(array, axis=-1)
        arrays[tensor.name] = array.astype(tensor.dtype.numpy)
    return arrays


def poisoned(program: TileProgram, sizes: Sizes) -> dict[str, Array]:
    """An array for every output, of NaN, or of the largest number where the type has none: what nobody wrote is then
    wrong."""
    space = Space.of(program, sizes)
    arrays = {}
    for tensor in program.tensors:
        if tensor.output:
            dtype = tensor.dtype.numpy
            floating = dtype.kind in "fV"  # bfloat16 is of kind V
            arrays[tensor.name] = np.full(space.stored(tensor), np.nan if floating else np.iinfo(dtype).max, dtype)
    return arrays


def _looked_up(space: Space) -> Iterator[tuple[str, int]]:
    """Tables, and the number of positions that there are where their entries point."""
    program = space.program
    things = named(program)

    def entries(target: Tensor, index: tuple[Index, ...]) -> Iterator[tuple[str, int]]:
        for part, extent in zip(index, space.dims(target), strict=True):
            if isinstance(part, Lookup):
                yield part.table, extent

    for move in program.moves:
        yield from entries(program.tensor(move.tensor), move.at)
    for definition in program.definitions:
        for expr in walk(definition.value):
            target = things.get(expr.name) if isinstance(expr, Read) else None
            if isinstance(target, Tensor) and isinstance(expr, Read):
                yield from entries(target, expr.index)


def _compared(space: Space) -> Iterator[tuple[str, int]]:
    """Integer tensors that a domain compares with positions, and the number of values that make a difference."""
    integers = {t.name for t in space.program.tensors if t.dtype is DType.I32}
    terms = [t for c in space.program.domain for alternative in c.alternatives for t in alternative]
    for term in terms:
        if isinstance(term, Affine):
            continue
        inside = list(walk(term))
        extents = [space.extent(e.axis) + 1 for e in inside if isinstance(e, Position)]
        if extents:
            yield from ((e.name, max(extents)) for e in inside if isinstance(e, Read) and e.name in integers)
