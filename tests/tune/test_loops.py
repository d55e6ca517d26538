"""Local memory in loops, found in machine code."""

from __future__ import annotations

import pytest

from tests.hopper.test_sass import listing
from tilegen.tune.loops import spills

SPIN = ("NOP", ".L_x_2:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R8", "@!P0 BRA `(.L_x_2)")


@pytest.mark.parametrize(
    ("first", "count"),
    [
        (("LDL R3, [R1+0x8]",), 1),
        ((*SPIN, "LDL R3, [R1+0x8]", "STL [R1+0x8], R3"), 2),  # a wait is a part of the loop that waits
        (("FMUL R3, R3, R2",), 0),
        (("UTMALDG.2D [UR8], [UR4]", "LDL R3, [R1+0x8]"), 0),  # the producer's
        (("HGMMA.64x8x16.F32.BF16 R24, gdesc[UR4], R24, gsb0", "LDL R3, [R1+0x8]"), 0),  # the gates'
    ],
)
def test_only_what_a_loop_that_computes_spills_counts(first: tuple[str, ...], count: int) -> None:
    loop = (".L_x_1:", *first, "@P1 BRA `(.L_x_1)")
    assert spills(listing("MOV R1, RZ", *loop, "LDL R4, [R1]", "EXIT")) == count
    items = (".L_x_0:", "LDL R5, [R1]", *loop, "@P2 BRA `(.L_x_0)")
    assert spills(listing("MOV R1, RZ", *items, "EXIT")) == count
