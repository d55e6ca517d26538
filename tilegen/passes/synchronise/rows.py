"""The axes whose positions are a tile's rows: one description for loads, masks, ranges and stores.

Several axes may share the rows, outermost first: row R of the consumers' together is at position R div `inner` mod
`block` of each. A warpgroup holds 64 rows in a row; the inner blocks are powers of two up to 64 together, so that where
a warpgroup begins only the outermost axis has moved, and a row's position is a constant of the thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import Product
from tilegen.ir.plan import Digit
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.terms import TERMS

WARPGROUP_ROWS = 64  # rows of a wgmma instruction


@dataclass(frozen=True)
class RowAxis:
    """An axis along the rows. `inner`: the rows of one position; `block`: its positions, all consumers together."""

    axis: str
    block: int
    inner: int
    outermost: bool

    @property
    def digit(self) -> Digit | None:
        """Where a row of a warpgroup is along the axis; None for the number of the row itself."""
        if self.outermost:
            return None if self.inner == 1 else Digit(self.inner, 0)
        return Digit(self.inner, self.block)

    @property
    def positions(self) -> int:
        """Positions that one warpgroup holds."""
        return WARPGROUP_ROWS // self.inner if self.outermost else self.block

    @property
    def step(self) -> int:
        """Positions from one warpgroup to the next."""
        return self.positions if self.outermost else 0


def row_axes(s: Scheduled) -> tuple[RowAxis, ...]:
    """Outermost first."""
    found: list[RowAxis] = []
    inner = 1
    for axis in reversed(s.workers.axes):
        block = s.role(axis).block
        found.append(RowAxis(axis, block, inner, axis == s.workers.axes[0]))
        inner *= block
    return tuple(reversed(found))


def row_part(axis: str, s: Scheduled) -> RowAxis | None:
    """The axis of the rows that moves `axis` one position at a time: itself, or the inner part of a split one."""
    names = {axis}
    whole = next((a for a in s.program.tile.axes if a.name == axis), None)
    if whole is not None and whole.split is not None:
        names.add(whole.split.inner)
    return next((r for r in row_axes(s) if r.axis in names), None)


def check_rows(s: Scheduled) -> None:
    """Raises TilegenError for blocks that are no rows of this many consumers."""
    wanted, rows = WARPGROUP_ROWS * s.workers.count, row_axes(s)
    product = rows[0].block * rows[0].inner
    names, span = s.workers.names, s.role(s.workers.axes[-1]).span
    if product != wanted:
        terms = TERMS[s.target]
        blocks = " x ".join(str(r.block) for r in rows)
        fail(
            Code.BLOCK_OF_WORKERS,
            span,
            axis=names,
            sharers=f"{s.workers.count} {terms.worker if s.workers.count == 1 else terms.workers}",
            **terms.fields(),
            got=blocks if len(rows) == 1 else f"{blocks} = {product}",
            wanted=f"{wanted} ({s.workers.count} x {WARPGROUP_ROWS} rows)",
        )
    for r in rows[1:]:
        if r.block & (r.block - 1) or WARPGROUP_ROWS % (r.block * r.inner):
            wanted_block = f"a power of two, at most {WARPGROUP_ROWS // r.inner}"
            fail(Code.BLOCK_OF_ROWS, s.role(r.axis).span, axis=r.axis, got=str(r.block), wanted=wanted_block)


def swapped(s: Scheduled) -> str:
    """How an author can turn rows and columns around, as a product's first factor gives its rows. Empty without one."""
    for o in s.program.ops:
        if isinstance(o, Product):
            return f"swap the two factors of the product in `{o.statement}`: the first one gives the rows"
    return ""
