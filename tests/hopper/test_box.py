"""The geometry of boxes: what it says of shared memory is what a load leaves there, in the emulator as on a GPU
(tests/gpu/test_geometry.py)."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.hopper.dumps import SWIZZLES, dump, every_side, foretold, map_over, numbered, random_case, words_of
from tilegen.targets.hopper.box import Box, bank, swizzled
from tilegen.targets.hopper.tensor_map import TensorMap


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_boxes_partly_outside_on_every_side_land_where_the_geometry_says(rank: int, swizzle: int) -> None:
    rng = Random(100 * rank + swizzle)
    shape, box = random_case(rng, rank, swizzle)
    coordinates = every_side(rng, shape, box)
    rng.shuffle(rows := list(range(len(coordinates))))
    coordinates = coordinates[rows[:40]]
    x, m = numbered(shape), map_over(shape, box, swizzle)
    y = np.full((len(coordinates), words_of(m)), np.nan, np.float32)
    dump(box, swizzle)(X=x[..., : shape[-1]], AT=coordinates, Y=y)
    np.testing.assert_array_equal(y, foretold(m, coordinates, x))
    assert (y == 0).any()


def test_corners_insides_and_bytes() -> None:
    m = TensorMap("bf16", 4096, (128, 1000, 8), (256, 256000), (64, 80, 1), swizzle=128)
    box = Box(m, (64, 960, 3))
    assert box.inside == (range(64), range(40), range(1))
    assert list(box.corners()) == [(0, 0, 0), (63, 0, 0), (0, 79, 0), (63, 79, 0)]
    assert box.global_byte((0, 0, 0)) == 64 * 2 + 960 * 256 + 3 * 256000
    assert [box.holds(c) for c in box.corners()] == [True, True, False, False]
    assert Box(m, (-70, 0, 0)).inside[0] == range(64, 0)  # nothing
    assert Box(m, (-10, -3, 7)).inside == (range(10, 64), range(3, 80), range(1))
    assert Box(m, (0, 0, 8)).inside[2] == range(0)


def test_steps_leave_elements_out() -> None:
    m = TensorMap("f32", 4096, (64, 100), (256,), (8, 10), (1, 3))
    box = Box(m, (0, -4))
    assert box.shape == (8, 4)
    assert box.position((0, 2)) == (0, 2)
    assert box.inside[1] == range(2, 4)
    assert Box(m, (0, 95)).inside[1] == range(2)


def test_swizzles_and_banks() -> None:
    assert [swizzled(128 * row, 128) // 16 % 8 for row in range(9)] == [0, 1, 2, 3, 4, 5, 6, 7, 0]
    assert [swizzled(128 * row, 64) // 16 % 8 for row in range(5)] == [0, 1, 2, 3, 0]
    assert [swizzled(128 * row + 16, 32) // 16 % 8 for row in range(3)] == [1, 0, 1]
    assert swizzled(128 * 5 + 48, 0) == 128 * 5 + 48
    assert [bank(b) for b in (0, 3, 4, 124, 128)] == [0, 0, 1, 31, 0]
