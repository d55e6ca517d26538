"""The operations of one scaled sum that can keep an old exponent together.

2**(x - m) is exact for every m that neither overflows nor lets a whole row underflow, so m need not be the
maximum. Where no mask is needed the weights are computed against the old exponent; a row whose partial sum then
outgrows a limit (or is no number) gets the exact step, the others keep theirs, and with it their bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.folded import Elementwise, Exponent, FoldedOp, FoldedProgram, Product, Reduce, Rescale, Weight
from tilegen.ir.scheduled import Stream
from tilegen.ir.tile import Cast, Read
from tilegen.passes.schedule import source_names

# Largest partial row sum of a thread. Overflow alone would allow 2**40 (2**12 where weights are f16), but a weight that
# outgrows the exponent by far is most of its row, and is rounded where the exact step would have made it 1: on scores
# of 36 standard deviations the error falls from 1.4 times the exact step's to 1.2 times with 2**10, and rows of normal
# scores outgrow neither. A lower limit gains little more, and sends more rows into the exact step.
LIMIT = 2.0**10


@dataclass(frozen=True)
class ScaledSum:
    """An exponent and what hangs on it in one loop."""

    exponent: Exponent
    weight: Weight
    sums: tuple[Reduce, ...]
    casts: tuple[Elementwise, ...]
    rescales: tuple[Rescale, ...]

    @property
    def members(self) -> frozenset[str]:
        """Names of the steps that the group stands for."""
        steps: tuple[FoldedOp, ...] = (self.exponent, self.weight, *self.sums, *self.casts, *self.rescales)
        return frozenset(step.name for step in steps)


def scaled_sum(exponent: str, stream: Stream, program: FoldedProgram) -> ScaledSum | None:
    """The group of an exponent in a loop, or None if one of its weights is read in another way."""
    ops = [program.op(s.op) for s in stream.steps]
    found = [o for o in ops if isinstance(o, Weight) and o.exponent == exponent]
    top = program.op(exponent)
    if len(found) != 1 or not isinstance(top, Exponent) or exponent not in {o.name for o in ops}:
        return None
    if stream.axis not in top.over:  # a tile gives it whole
        return None
    weight = found[0]
    sums: list[Reduce] = []
    casts: list[Elementwise] = []
    for o in ops:
        if weight.name not in source_names(o):
            continue
        if isinstance(o, Reduce) and o.exponent == exponent and o.kind == "sum":
            sums.append(o)
        elif (
            isinstance(o, Elementwise)
            and isinstance(o.value, Cast)
            and isinstance(o.value.value, Read)
            and any(isinstance(p, Product) and o.name in (p.a, p.b) for p in ops)
        ):
            casts.append(o)
        else:
            return None
    rescales = tuple(o for o in ops if isinstance(o, Rescale) and o.exponent == exponent)
    # without a sum of the weights there is nothing to tell that a row has outgrown its exponent
    return ScaledSum(top, weight, tuple(sums), tuple(casts), rescales) if sums else None
