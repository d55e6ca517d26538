"""Starts of sequences that do not fit the tokens: found on the host where they are there, on the device elsewhere."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic
from tilegen.ir.deal import starts_fault
from tilegen.ir.deal_limits import THREADS
from tilegen.ir.plan import Plan, Sequences
from tilegen.runtime.arrays import ArrayView
from tilegen.syntax.span import Span

FAULT_WORDS = 8  # int32: see plan.Sequences
DEAL_THREADS = THREADS


def sequences_of(plan: Plan) -> Sequences | None:
    """What a plan's items are made of, None where the host knows them."""
    return plan.table.sequences if plan.table is not None else None


def check_starts(
    q: Sequences, views: Mapping[str, ArrayView], values: Mapping[str, int], spans: Mapping[str, Span]
) -> Diagnostic | None:
    """What is wrong with starts that lie in CPU memory."""
    starts = {x.starts: _numbers(views[x.starts]) for x in q.lengths}
    found = starts_fault(q, values, starts)
    return None if found is None else describe_fault(q, found, spans)


def _numbers(view: ArrayView) -> npt.NDArray[np.int64]:
    places = (view.pointer + n * view.strides[0] for n in range(view.shape[0]))
    return np.array([ctypes.c_int32.from_address(place).value for place in places], np.int64)


def describe_fault(q: Sequences, found: Sequence[int], spans: Mapping[str, Span]) -> Diagnostic:
    """`found`: which of the lengths, at which entry, its value, the one before it, the tokens."""
    which, entry, value, before, tokens = found
    lengths = q.lengths[which]
    after = f", after {before}" if entry and value < before else ""
    return fault(
        Code.RAGGED_STARTS, spans.get(lengths.starts), got=f"{lengths.starts}[{entry}] = {value}{after}",
        wanted=f"0 first, never less than before, and last {tokens}, the number of tokens",
        starts=lengths.starts, size=lengths.length,
    )  # fmt: skip
