"""`evaluate`: the value of every output of a program, and the error it allows an implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilegen.ir.dtypes import DType
from tilegen.ir.tile import Definition, TileProgram
from tilegen.oracle.chunks import Planner
from tilegen.oracle.evaluator import Evaluator
from tilegen.oracle.named import Array, Axes, expand, fill
from tilegen.oracle.rounding import unit
from tilegen.oracle.space import Box, Sizes, Space


@dataclass(frozen=True)
class Result:
    """One output, in the shape it is stored in (a ragged tensor: its batch and ragged dimension as one of tokens).

    value: float64, over the reals, casts ignored; the `else` constant at points outside the domain.
    allowed: float64 >= 0, the largest |implementation - value| at each element; inf where the type may overflow.
    defined: bool, the points that are in the output's domain.
    dtype: the type that an implementation stores.
    """

    value: Array
    allowed: Array
    defined: Array
    dtype: DType


def evaluate(
    program: TileProgram,
    sizes: Sizes,
    scalars: Mapping[str, float | int],
    inputs: Mapping[str, Array],
    *,
    outputs: Sequence[str] | None = None,
) -> dict[str, Result]:
    """Evaluate a program's outputs (all, or those named) by folds over the domain alone, in float64.

    `sizes` gives every size, for a ragged one a list of lengths, one a batch position; `scalars` every scalar (see
    `scalar_values`); `inputs` an array a tensor, ragged ones with the batch and the ragged dimension as one of tokens,
    sequence after sequence. Low-precision inputs are exact. Raises ValueError or KeyError for sizes or arrays that do
    not fit the program.
    """
    space = Space.of(program, sizes, scalars)
    wanted = [d for d in program.definitions if d.output and (outputs is None or d.name in outputs)]
    with np.errstate(all="ignore"):
        evaluator = Evaluator(space, scalars, inputs)
        results = {d.name: _blank(space, d) for d in wanted}
        for group, boxes in Planner(space, evaluator.domain).groups(wanted):
            for box in boxes:
                for definition in group:
                    _store(space, evaluator, definition, box, results[definition.name])
                evaluator.forget()
        return {d.name: _result(space, d, results[d.name]) for d in wanted}


@dataclass(frozen=True)
class _Pieces:
    """value, allowed and defined over the leaf axes of an output, in the order of its dimensions."""

    leaves: Axes
    value: Array
    allowed: Array
    defined: Array


def _blank(space: Space, definition: Definition) -> _Pieces:
    leaves = tuple(leaf for axis in definition.index for leaf in space.leaves(axis))
    shape = tuple(space.extent(leaf) for leaf in leaves)
    return _Pieces(leaves, np.zeros(shape), np.zeros(shape), np.ones(shape, dtype=np.bool_))


def _store(space: Space, evaluator: Evaluator, definition: Definition, box: Box, out: _Pieces) -> None:
    """Writes the part of an output that lies in the box."""
    field = evaluator.definition(definition, box)
    box = {leaf: box[leaf] for leaf in out.leaves}
    mask = evaluator.domain.mask(box, box)
    at = tuple(slice(box[leaf].start, box[leaf].stop) for leaf in out.leaves)
    ordered = tuple(sorted(out.leaves))
    place = [ordered.index(leaf) for leaf in out.leaves]

    def write(target: Array, source: Array, axes: Axes) -> None:
        target[at] = np.transpose(fill(expand(source, axes, ordered), ordered, box), place)

    write(out.value, field.value, field.axes)
    write(out.allowed, field.error, field.axes)
    if mask is not None:
        write(out.defined, mask[1], mask[0])


def _result(space: Space, definition: Definition, pieces: _Pieces) -> Result:
    """The pieces in the shape that the tensor is stored in."""
    tensor = space.program.tensor(definition.name)
    otherwise = np.asarray(np.nan if tensor.otherwise is None else tensor.otherwise)
    value = np.where(pieces.defined, pieces.value, otherwise)
    stored = unit(otherwise, np.zeros(()), tensor.dtype) if tensor.dtype.is_float else 0.0
    allowed = np.where(pieces.defined, pieces.allowed, stored)
    tokens = space.token_dims(tensor)

    def shaped(array: Array) -> Array:
        array = array.reshape(space.dims(tensor))
        if tokens is not None:
            batch, at, ragged = tokens
            array = np.moveaxis(array, (batch, at), (0, 1))
            sequences = [array[n, :length] for n, length in enumerate(space.lengths[ragged.size])]
            array = np.concatenate([*sequences, array[:0].reshape(0, *array.shape[2:])])
            array = np.moveaxis(array, 0, at - (batch < at))
        return array

    return Result(shaped(value), shaped(allowed), shaped(pieces.defined), tensor.dtype)
