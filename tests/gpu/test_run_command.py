"""`tilegen run` on a real GPU: it goes there by itself, is right, and says how long it took."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.cli.main import main
from tilegen.oracle import default_sizes
from tilegen.sema.loading import load, read_source

pytestmark = pytest.mark.gpu
SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.tile")))
def test_every_sample_is_right_at_odd_sizes_chosen_for_the_emulator(name: str) -> None:
    small = default_sizes(load(read_source(SAMPLES / name), {}), small=True)
    sizes = ",".join(f"{size}={value}" for size, value in small.items())
    result = CliRunner().invoke(main, ["run", str(SAMPLES / name), "--size", sizes])
    assert result.exit_code == 0, result.output
    assert re.search(r"^on NVIDIA ", result.stdout, re.M)
    assert re.search(r"^time: [\d.]+ µs on the GPU", result.stdout, re.M)


@pytest.mark.timeout(300)
def test_the_flagship_is_right_at_its_default_size() -> None:
    """Once: the float64 values take some ten seconds."""
    result = CliRunner().invoke(main, ["run", str(SAMPLES / "fa3_fwd.tile"), "-D", "causal=true"])
    assert result.exit_code == 0, result.output
    assert "Sq=2048, Sk=2048" in result.stdout
