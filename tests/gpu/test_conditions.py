"""Conditions of rows, columns and scores, with arithmetic in them and behind them, on the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_commands import tilegen
from tests.emulate.test_parting import MASKS, spec

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_what_conditions_choose_is_right(name: str, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "masked.tile"
    path.write_text(spec(name), encoding="utf-8")
    done = tilegen("run", path, "--size", "S=1000", "-D", f"T={dtype}")
    assert done.exit_code == 0, done.output
    assert "\non NVIDIA " in done.stdout and " right" in done.stdout, done.stdout
