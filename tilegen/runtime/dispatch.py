"""What a launch's sizes and scalars determine, whatever the addresses: the grid and the items of each CTA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilegen.checks.grid import check_grid
from tilegen.checks.integers import check_integers
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.deal import deal
from tilegen.ir.plan import Plan
from tilegen.ir.uniform import evaluate


@dataclass(frozen=True, eq=False)
class Dispatch:
    """values: sizes, scalars and `sm_count` by name · grid: CTAs · table: int32[rounds, grid, fields], or None.

    Each is equal to itself alone, and so a key for what is made of its table.
    """

    values: Mapping[str, int | float]
    grid: int
    table: npt.NDArray[np.int32] | None

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
    return Dispatch({**scalars, **known}, grid, deal(plan.table, known, grid) if plan.table else None)
