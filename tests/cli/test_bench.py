"""`tilegen bench` with a GPU that is stood in for: what it times, beside whom, and what it says where it cannot."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cli.test_commands import fails, tilegen
from tilegen.bench.report import Report
from tilegen.bench.rounds import Cell, Sample
from tilegen.cli import bench

SAMPLES = Path(__file__).parents[2] / "samples"
GEMM, COPY = str(SAMPLES / "gemm.tile"), str(SAMPLES / "copy.tile")


@pytest.fixture
def contests(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The contests that were asked for; everybody takes 2 ms in them, and tilegen is not timed on 8192 tokens."""
    asked: list[dict[str, Any]] = []

    def compete(title: str, stem: str, cells: Any, providers: Any, ours: str, settings: Any, say: Any) -> Report:
        asked.append({"title": title, "cells": cells, "providers": providers, "settings": settings})
        made = []
        for workload in cells:
            cell = Cell(workload)
            cell.samples = {p.name: [Sample(2.0)] for p in providers}
            if workload.columns.get("S") == "8192":
                del cell.samples[ours]
            made.append(cell)
        return Report(title, {}, {}, made, [p.name for p in providers], ours)

    monkeypatch.setattr(bench, "gpu", lambda: SimpleNamespace(name="some GPU"))
    monkeypatch.setattr(bench, "find_spec", lambda name: SimpleNamespace())
    monkeypatch.setattr(bench, "compete", compete)
    return asked


@pytest.mark.parametrize("name", ["attention", "gemm", COPY])
def test_without_a_gpu_it_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "gpu", lambda: None)
    assert "there is no Hopper GPU here" in fails(2, "bench", name)


def test_a_named_benchmark_runs_its_cells(contests: list[dict[str, Any]], tmp_path: Path) -> None:
    done = tilegen("bench", "gemm", "--rounds", 3, "--seed", 4, "-o", tmp_path)
    assert done.exit_code == 0
    (asked,) = contests
    assert [w.label for w in asked["cells"]] == ["bf16 M=8192 N=8192 K=8192", "bf16 M=4096 N=4096 K=1024"]
    assert [p.name for p in asked["providers"]] == ["tilegen", "cuBLAS"]
    assert (asked["settings"].rounds, asked["settings"].seed, asked["settings"].out) == (3, 4, tmp_path)
    assert "1.000 (1.000–1.000)" in done.stdout
    kernel = asked["providers"][0].kernel(asked["cells"][0])
    assert kernel.name == "gemm"


def test_cells_are_chosen_by_columns(contests: list[dict[str, Any]]) -> None:
    assert tilegen("bench", "attention", "--only", "D=128", "--only", "S=2048").exit_code == 0
    assert [w.label for w in contests[0]["cells"]] == [
        "T=bf16 D=128 S=2048 G=1 mask=full", "T=bf16 D=128 S=2048 G=1 mask=causal",
    ]  # fmt: skip
    names = [p.name for p in contests[0]["providers"]]
    assert names[:3] == ["tilegen", "cuDNN", "FA2"]
    assert "Flex" not in names
    said = fails(2, "bench", "attention", "--only", "D=96")
    assert "got:    D=96" in said
    assert "D: 64, 128, 256" in said


def test_ours_missing_is_a_failure(contests: list[dict[str, Any]]) -> None:
    assert tilegen("bench", "attention", "--only", "S=8192").exit_code == 1


def test_a_spec_runs_beside_the_peers_that_compute_the_same(contests: list[dict[str, Any]]) -> None:
    assert tilegen("bench", GEMM, "-D", "T=f16", "--size", "M=300,N=80,K=64").exit_code == 0
    (asked,) = contests
    assert [w.label for w in asked["cells"]] == ["f16 M=300 N=80 K=64"]
    assert [p.name for p in asked["providers"]] == ["tilegen", "cuBLAS"]


@pytest.mark.parametrize(
    ("name", "size", "shapes"),
    [
        ("copy", "M=128,N=64", [(128, 64)]),
        ("fa3_varlen", "Sq=[5,0,9],Sk=[7,3,9],Hk=1,G=2", [(14, 2, 64), (2, 14)]),
    ],
)
def test_other_specs_run_alone(
    contests: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    size: str,
    shapes: list[tuple[int, ...]],
) -> None:
    class HostArray:
        """A numpy array for one on the GPU, so that the kernel runs in the emulator."""

        def __new__(cls, host: Any) -> Any:
            return host

    launched: list[Any] = []

    def seconds(launch: Any, times: int) -> list[float]:
        if not launched:
            launched.append(launch())
        return [1e-3] * times

    monkeypatch.setattr(bench, "DeviceArray", HostArray)
    monkeypatch.setattr("tilegen.bench.rounds.seconds_on_gpu", seconds)
    monkeypatch.setattr(bench.machine, "reader", lambda: lambda: (1500, None))
    params = ["-D", "D=64"] if name == "fa3_varlen" else []
    done = tilegen("bench", SAMPLES / f"{name}.tile", *params, "--size", size, "--rounds", "2")
    assert done.exit_code == 0, done.output
    assert contests == []
    assert "1000.0" in done.stdout
    outputs = launched[0] if isinstance(launched[0], tuple) else (launched[0],)
    assert [x.shape for x in outputs] == shapes
    assert all(np.isfinite(x.astype(np.float32)).all() for x in outputs)
    assert "2 rounds, alone" in done.stdout


def test_what_does_not_go_together(contests: list[dict[str, Any]]) -> None:
    assert "choose among them by --only" in fails(2, "bench", "gemm", "--size", "M=3")
    assert "--only chooses cells of a named benchmark" in fails(2, "bench", GEMM, "--only", "T=f16")
    assert "--only takes name=value" in fails(2, "bench", "gemm", "--only", "T")


def test_without_torch_it_says_so(contests: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    assert "need torch" in fails(2, "bench", "gemm")
    assert contests == []
