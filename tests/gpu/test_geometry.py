"""The geometry of boxes against TMA, and tensor maps against the driver. In the emulator: tests/hopper."""

from __future__ import annotations

import pytest

from tests.gpu.harness import Harness

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_boxes_land_where_the_geometry_says(gpu: Harness, rank: int, swizzle: int) -> None:
    """Negative coordinates, and boxes partly outside on every side, among them."""
    for what, count in gpu.run("geometry_checks:boxes_land", rank=rank, swizzle=swizzle).items():
        gpu.counts[f"geometry of boxes, {what} compared"] += count


def test_random_tensor_maps_are_the_drivers(gpu: Harness) -> None:
    count = 3000
    refused = gpu.run("geometry_checks:maps_agree", count=count)
    gpu.counts["tensor maps like the driver's"] += count - len(refused)
    for m in refused[:5]:
        gpu.notes.append(f"one of {len(refused)} interleaved tensor maps that the driver refuses: {m}")


def test_rules_of_tensor_maps_are_the_drivers(gpu: Harness) -> None:
    """What the driver takes though a rule here forbids it is told: no map that passes them is refused, and that
    matters more."""
    for taken in gpu.run("geometry_checks:rules_of_the_driver"):
        gpu.notes.append(f"a tensor map that the driver takes, and tilegen refuses: {taken}")
