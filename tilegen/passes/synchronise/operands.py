"""What a product reads and adds to, whichever instruction computes it."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import Product
from tilegen.ir.plan import BufferOperand, FragmentOperand, Slot, SlotOperand
from tilegen.passes.synchronise.context import Context
from tilegen.passes.synchronise.geometry import Operand, check_product_tile, operand
from tilegen.passes.synchronise.sides import sides
from tilegen.passes.synchronise.values import Values


@dataclass(frozen=True)
class Operands:
    """computed: the value that is the first factor, if it is one."""

    accumulator: str
    a: SlotOperand | FragmentOperand | BufferOperand
    b: SlotOperand
    n: int
    computed: str | None


def operands(o: Product, c: Context, values: Values) -> Operands:
    """Those of a product. Raises TilegenError for tiles that no instruction takes."""
    a, b = sides(o, c)
    (contracted,) = o.over
    gb = c.tiles[b]
    check_product_tile(gb, contracted, o.span, o.statement)
    n = gb.rows if gb.col_axis == contracted else gb.cols
    if n > 256 or n % 8:
        fail(Code.MMA_WIDTH, o.span, product=o.statement, got=str(n), wanted="a multiple of 8, at most 256")
    right = _slot_operand(b, operand(gb, contracted, by_rows=False))
    accumulator = values.accumulator(o, n)
    if a not in c.tiles:
        return Operands(accumulator, values.operand(a), right, n, a)
    ga = c.tiles[a]
    check_product_tile(ga, contracted, o.span, o.statement)
    apart = c.rings[a].parts > 1
    return Operands(accumulator, _slot_operand(a, operand(ga, contracted, by_rows=not apart)), right, n, None)


def _slot_operand(tile: str, how: Operand) -> SlotOperand:
    slot = Slot(tile, f"{tile}_read")
    return SlotOperand(slot, how.major, how.offsets, how.warpgroup, how.leading, how.stride, how.swizzle)
