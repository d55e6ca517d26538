"""What a launch's sizes and scalars determine, whatever the addresses: the grid and the items of each CTA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilegen.checks.grid import check_grid
from tilegen.checks.integers import check_integers
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.deal import deal, rounds_of, with_given
from tilegen.ir.plan import Plan
from tilegen.ir.uniform import evaluate


@dataclass(frozen=True, eq=False)
class Dispatch:
    """values: sizes, scalars and `sm_count` by name · grid: CTAs · table: int32[rounds, grid, fields], or None ·
    room: int32 words that the device takes to make the table itself, of the table and to work in.

    Each is equal to itself alone, and so a key for what is made of its table.
    """

    values: Mapping[str, int | float]
    grid: int
    table: npt.NDArray[np.int32] | None
    room: tuple[int, int] = (0, 0)

    @property
    def bytes(self) -> int:
        """That the table takes."""
        return 0 if self.table is None else self.table.nbytes


def dispatch(plan: Plan, sizes: Mapping[str, int], scalars: Mapping[str, int | float], sm_count: int) -> Dispatch:
    """The dispatch for a GPU of `sm_count` SMs. `scalars`: every scalar.

    Raises TilegenError for more CTAs than a grid takes, and for integers that would not fit 32 bits.
    """
    whole = {name: value for name, value in scalars.items() if isinstance(value, int)}
    known = {**sizes, **whole, "sm_count": sm_count}
    if faults := check_grid(plan, known):
        raise TilegenError(tuple(faults))
    check_integers(plan, known)
    grid = evaluate(plan.grid, known)
    values, table = {**scalars, **known}, plan.table
    if table is None or not grid:
        return Dispatch(values, grid, None)
    if table.sequences is None:
        return Dispatch(values, grid, deal(table, known, grid))
    known = with_given(table.sequences, known)
    words = rounds_of(table, known, grid) * grid * table.width
    return Dispatch({**values, **known}, grid, None, (words, evaluate(table.sequences.scratch, known)))
