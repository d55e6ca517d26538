"""A kernel of the MLS machine on arrays in CPU memory, in the emulator, which writes the outputs in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.diagnostics.catalogue import Code, fail, fault
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.emulate.mls import Report, launch
from tilegen.ir.deal import items_of, starts_fault
from tilegen.ir.mls_plan import MlsOperation, MlsPlan
from tilegen.ir.outside import undecided
from tilegen.ir.plan import For, If, StoreRows
from tilegen.ir.tile import TileProgram
from tilegen.ir.uniform import evaluate
from tilegen.runtime.arrays import describe
from tilegen.runtime.reads import check_reads
from tilegen.runtime.sequences import describe_fault
from tilegen.runtime.sizes import infer_sizes
from tilegen.syntax.span import Span
from tilegen.targets.mls.build import MlsBuilt
from tilegen.targets.mls.lower.kernel import ITEMS, stride_name

Array = npt.NDArray[Any]
LINE_BYTES = 16  # what a matrix load's base is a multiple of
_TOGETHER = 4  # numbers that a lane stores at once


def run(
    built: MlsBuilt,
    program: TileProgram,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    numbers: Mapping[str, int | float],
    *,
    straddle: Sequence[str] = (),
    seed: int = 0,
    step_limit: int | None = None,
) -> Report | None:
    """Run it once. numbers: sizes and scalars by name. straddle: tensors to lie across 4 GiB.
    seed, step_limit: see `launch`.

    None where there is nothing to do. Raises TilegenError for arrays that it cannot take, and for what the emulator
    finds.
    """
    plan = built.plan
    arrays = {**inputs, **outputs}
    groups = (program.tensors, program.sizes, program.scalars)
    spans = {item.name: item.span for group in groups for item in group}
    whole = {name: int(value) for name, value in numbers.items() if isinstance(value, int)}
    values = infer_sizes(plan.tensors, {name: describe(a) for name, a in arrays.items()}, whole, spans)
    if all(array.size == 0 for array in outputs.values()):
        return None
    check_reads(program, undecided(program), {**numbers, **values})
    if faults := tuple(dict.fromkeys(_misplaced(plan, arrays, spans))):
        raise TilegenError(faults)
    given: dict[str, Array | int | float] = dict(arrays)
    given |= {stride_name(n, d): a.strides[d] // a.itemsize for n, a in arrays.items() for d in range(a.ndim)}
    given |= {name: {**numbers, **values}[name] for name, _ in plan.scalars}
    count = _items(plan, values, arrays, spans, given)
    if not count:
        name = next(n for n, a in outputs.items() if a.size)
        fail(Code.OUTPUT_UNWRITTEN, spans.get(name), output=name, kernel=plan.name)
    return launch(built.program, (count, 1, 1), given, straddle=straddle, seed=seed, step_limit=step_limit)


def _items(
    plan: MlsPlan,
    values: Mapping[str, int],
    arrays: Mapping[str, Array],
    spans: Mapping[str, Span],
    given: dict[str, Array | int | float],
) -> int:
    """How many workgroups there are; their list, if the host makes one, is added to what is given."""
    if plan.table is None:
        return evaluate(plan.items, values)
    q = plan.table.sequences
    assert q is not None
    starts = {x.starts: arrays[x.starts].astype(np.int64) for x in q.lengths}
    if (found := starts_fault(q, values, starts)) is not None:
        raise TilegenError((describe_fault(q, found, spans),))
    bound, costs = items_of(plan.table, values, starts)
    rows = np.zeros((len(costs), len(plan.table.fields)), np.int32)
    for n, name in enumerate(plan.table.fields):
        rows[:, n] = bound[name] if len(costs) else 0
    given |= {ITEMS: rows, stride_name(ITEMS, 0): rows.shape[1], stride_name(ITEMS, 1): 1}
    return len(costs)


def _misplaced(plan: MlsPlan, arrays: Mapping[str, Array], spans: Mapping[str, Span]) -> Iterator[Diagnostic]:
    """Arrays whose lines do not lie as matrix loads and stores need them."""
    for ring in plan.rings:
        yield from _lines(ring.tensor, ring.col_dim, LINE_BYTES, Code.MLS_LINES, arrays, spans)
    for store in _stores(plan.body):
        name, array = store.tensor, arrays[store.tensor]
        width = _TOGETHER * array.itemsize
        lines = list(_lines(name, store.col_dim, width, Code.ARRAY_ALIGNMENT, arrays, spans))
        yield from lines
        if not lines and array.shape[store.col_dim] % _TOGETHER:
            what = f"the length of a row, {array.shape[store.col_dim] * array.itemsize} bytes,"
            yield fault(Code.ARRAY_ALIGNMENT, spans.get(name), tensor=name, bytes=width, what=what)


def _lines(
    name: str, inner: int, width: int, code: Code, arrays: Mapping[str, Array], spans: Mapping[str, Span]
) -> Iterator[Diagnostic]:
    """Strides of an array that are none of lines one behind the other, contiguous along `inner`."""
    array, span = arrays[name], spans.get(name)
    if array.size == 0:
        return  # nothing of it is read, and frameworks give an empty array any strides
    for dim, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        if extent < 2:
            continue
        if stride < 0:
            yield fault(Code.ARRAY_BACKWARDS, span, got=f"a stride of {stride} bytes", tensor=name, dim=dim, other="")
        elif dim == inner and stride != array.itemsize:
            got, wanted = f"a stride of {stride} bytes", f"{array.itemsize} bytes"
            yield fault(Code.ARRAY_INNER_STRIDE, span, got=got, wanted=wanted, tensor=name, dim=dim)
        elif dim != inner and stride % width:
            what = f"the stride of dimension {dim}, {stride} bytes,"
            yield fault(code, span, tensor=name, bytes=width, what=what)


def _stores(body: tuple[MlsOperation, ...]) -> Iterator[StoreRows]:
    for o in body:
        if isinstance(o, StoreRows):
            yield o
        elif isinstance(o, For | If):
            yield from _stores(o.body)
