"""Runs an MLS program over a grid of workgroups."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.emulate.mls.group import Group
from tilegen.emulate.mls.memory import PagedMemory, Tensor
from tilegen.emulate.mls.operation import Context, Operation, ready
from tilegen.syntax.span import Span
from tilegen.targets.mls.program import Argument, Instruction, Label, Program, Target
from tilegen.targets.mls.verify import program_spans

STEP_LIMIT = 50_000_000
_FORMATS = {"i32": "<i", "i64": "<q", "f32": "<f"}


@dataclass(frozen=True)
class Report:
    """What a launch executed: wave instructions by name."""

    counts: Mapping[str, int]

    def count(self, beginning: str) -> int:
        """Wave instructions whose name begins so."""
        return sum(n for name, n in self.counts.items() if name.startswith(beginning))


def launch(
    program: Program,
    grid: tuple[int, int, int],
    arguments: Mapping[str, npt.NDArray[Any] | int | float],
    *,
    seed: int = 0,
    straddle: Sequence[str] = (),
    spans: Sequence[Span] | None = None,
    step_limit: int | None = None,
) -> Report:
    """Run `program` on copies of the input arrays; the elements of output arrays are overwritten with the results.

    arguments: one value for each `.arg`, by name; strides in elements. straddle: tensors to lie across 4 GiB whatever
    their size (larger than a page they do anyway). seed: of the waves' turns and of when loads land. spans: where the
    program's lines stand (else in its own text). step_limit: wave instructions before a launch is taken for endless
    (`STEP_LIMIT`).

    Raises TilegenError where an argument is missing, and for the first fault, naming instruction, tile, element and
    address.
    """
    names = [argument.name for argument in program.arguments]
    if missing := [name for name in names if name not in arguments]:
        fail(Code.MLS_ARGUMENTS, None, kernel=program.name, missing=", ".join(missing), known=", ".join(names))
    memory = PagedMemory()
    tensors: dict[str, Tensor] = {}
    values: dict[str, int | float] = {}
    for argument in program.arguments:
        given = arguments[argument.name]
        if argument.dtype is None:
            values[argument.name] = given  # type: ignore[assignment]
            continue
        array = np.asarray(given)
        _fits(argument, array)
        tensors[argument.name] = memory.place(
            argument.name, array, output=argument.kind == "output", straddle=argument.name in straddle
        )
        values[argument.name] = tensors[argument.name].base
    block = np.frombuffer(_packed(program, values), np.uint8)
    context = Context(program, memory, tensors)
    operations = _operations(program, context, program_spans(program) if spans is None else spans)
    address = memory.place("the kernel's arguments", block).base
    chance = random.Random(seed)
    steps, counts = [STEP_LIMIT if step_limit is None else step_limit], Counter[str]()
    with np.errstate(all="ignore"):
        for z in range(grid[2]):
            for y in range(grid[1]):
                for x in range(grid[0]):
                    Group(program, operations, (x, y, z), address, chance, steps, counts).run()
    for argument in program.arguments:
        if argument.kind == "output":
            _hand_back(tensors[argument.name], arguments[argument.name])
    return Report(counts)


def _fits(argument: Argument, array: npt.NDArray[Any]) -> None:
    assert argument.dtype is not None
    if array.dtype != argument.dtype.numpy or array.ndim != argument.rank:
        wanted = f"{argument.dtype}[{argument.rank} axes]"
        raise ValueError(f"{argument.name} is {array.dtype}[{array.ndim} axes], and {wanted} is wanted")


def _packed(program: Program, values: Mapping[str, int | float]) -> bytes:
    """The kernel's arguments as they lie in memory."""
    block = bytearray(-(-max(program.argument_bytes, 4) // 4) * 4)
    for argument in program.arguments:
        struct.pack_into(_FORMATS.get(argument.kind, "<Q"), block, argument.offset, values[argument.name])
    return bytes(block)


def _operations(program: Program, context: Context, spans: Sequence[Span]) -> list[Operation]:
    """One operation an instruction; a branch leads to the first instruction behind its label."""
    places: dict[str, int] = {}
    count = 0
    for line in program.lines:
        if isinstance(line, Label):
            places[line.name] = count
        count += isinstance(line, Instruction)
    made = []
    for line, span in zip(program.lines, spans, strict=True):
        if isinstance(line, Instruction):
            target = next((places[o.label] for o in line.operands if isinstance(o, Target)), -1)
            made.append(ready(line, span, target, context))
    return made


def _hand_back(tensor: Tensor, array: Any) -> None:
    """Copy an output's elements to the caller's array. Raises TilegenError for one that nothing wrote."""
    if array.size == 0:
        return
    assert tensor.writer is not None
    writer = np.ndarray(
        tensor.shape, np.int32, np.ascontiguousarray(tensor.writer).data, 4 * (tensor.base - tensor.first),
        tuple(4 * s for s in tensor.strides),
    )  # fmt: skip
    if int(writer.min()) < 0:
        place = np.unravel_index(int(np.argmin(writer)), writer.shape)
        element = f"{tensor.name}[{', '.join(map(str, place))}]"
        fail(Code.MLS_STORE, None, what=f"{int((writer < 0).sum())} elements were never written, first {element}")
    array[...] = tensor.array(array.dtype)
