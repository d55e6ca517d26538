"""`tilegen run` on a real GPU: it goes there by itself, is right, and says how long it took."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.cli.main import main

pytestmark = pytest.mark.gpu
SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.tile")))
def test_every_sample_is_right_at_odd_sizes_chosen_for_the_emulator(name: str) -> None:
    emulated = CliRunner().invoke(main, ["run", str(SAMPLES / name), "--emulate"])
    sizes = emulated.stdout.splitlines()[1].replace(" ", "")
    result = CliRunner().invoke(main, ["run", str(SAMPLES / name), "--size", sizes])
    assert result.exit_code == 0, result.output
    assert re.search(r"^on NVIDIA ", result.stdout, re.M)
    assert re.search(r"^time: [\d.]+ µs on the GPU", result.stdout, re.M)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("causal", ["false", "true"])
def test_the_flagship_is_right_at_its_default_size(causal: str) -> None:
    result = CliRunner().invoke(main, ["run", str(SAMPLES / "fa3_fwd.tile"), "-D", f"causal={causal}"])
    assert result.exit_code == 0, result.output
    assert "Sq=2048, Sk=2048" in result.stdout
