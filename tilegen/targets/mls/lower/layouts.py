"""Fragments in vector registers. A group of four waves holds 64 rows, a wave 16 of them: lane l has row l mod 16.

    acc  4 registers for each 16 columns: register 4t + e is column 16t + 4 * (l div 16) + e
    a    acc's numbers as 16 bits, two to a register: 2 registers for each 16 columns
    row  one register, equal in the four lanes of a row unless it is partial
    col  as acc, the same in all rows

These are what a matrix product of transposed factors gives and takes: an accumulator, cast and packed, is an operand.
"""

from __future__ import annotations

from tilegen.ir.plan import Digit, Fragment

WIDTH = 16  # columns of a block of registers


def blocks(cols: int) -> int:
    return -(-cols // WIDTH)


def registers(fragment: Fragment) -> int:
    """How many a lane has of it."""
    if fragment.layout == "row":
        return 1
    return blocks(fragment.cols) * (2 if fragment.layout == "a" else 4)


def column(n: int) -> int:
    """The column of an acc or col fragment's nth register, past the lane's first."""
    return WIDTH * (n // 4) + n % 4


def digit_of(d: Digit | None) -> tuple[int, int]:
    """(shift, mask or 0) that give a row's digit; divisors are powers of two."""
    if d is None:
        return 0, 0
    return d.divide.bit_length() - 1, d.modulo - 1 if d.modulo else 0
