"""`tilegen bench` on a real GPU: it times a kernel beside its peers, or alone, and writes what it found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.bench.merge import read
from tilegen.cli.main import main

pytestmark = pytest.mark.gpu
SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.mark.parametrize(
    ("name", "size", "peer"),
    [("gemm", "M=1024,N=1024,K=512", "cuBLAS"), ("fa3_fwd", "B=2,Sq=1024,Sk=1024,Hk=4,G=2", "cuDNN")],
)
def test_a_sample_is_timed_beside_its_peers(name: str, size: str, peer: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    arguments = ["bench", str(SAMPLES / f"{name}.tile"), "--size", size, "--rounds", "2", "-o", str(tmp_path)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    (path,) = tmp_path.glob("*.json")
    report = read(path)
    (cell,) = report.cells
    assert [len(cell.samples[n]) for n in ("tilegen", peer)] == [2, 2]
    ratio = report.ratio(cell, peer)
    assert ratio is not None
    assert 0.1 < ratio.median < 10
    assert f"/ {peer}" in result.stdout


def test_a_sample_without_peers_is_timed_alone() -> None:
    result = CliRunner().invoke(main, ["bench", str(SAMPLES / "copy.tile"), "--size", "M=4096,N=4096", "--rounds", "2"])
    assert result.exit_code == 0, result.output
    assert "2 rounds, alone" in result.stdout
    assert re.search(r"^ *[\d.]+  [\d.]+–[\d.]+ +\d+", result.stdout, re.M)
