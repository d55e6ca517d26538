"""Fragments cut into regions."""

from __future__ import annotations

import numpy as np
import pytest

from tilegen.checks.movement.cuts import MOST, Cuts


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("regions", [3, MOST - 1, MOST, 100])
def test_rows_that_meet_the_same_regions(regions: int, axis: int) -> None:
    """Also where there are more regions than a number has bits."""
    values = np.random.default_rng(regions).integers(0, regions, (24, 40))
    values[5], values[7:9] = values[2], values[3]
    values[:, 11] = values[:, 4]
    values.flat[:regions] = np.arange(regions)
    cut, numbers = Cuts().of(values)
    rows, met = (cuts := Cuts()).rows(cut, axis)
    lines = cut.labels if axis else cut.labels.T
    assert cuts.rows(cut, axis) == (rows, met)
    assert len(set(met)) == len(met) == rows.count < len(lines) + 1
    for line, label in zip(lines, rows.labels.ravel(), strict=True):
        assert met[label] == tuple(sorted(set(line.tolist())))
    assert len(numbers) == cut.count == regions
