"""Reports of several runs as one, and their plot, from timings that nobody measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import merge as script
from benchmarks.forms import Ragged
from tilegen.bench import plot
from tilegen.bench.merge import merge, read
from tilegen.bench.report import Ratio, Report
from tilegen.bench.rounds import Cell, Sample
from tilegen.bench.workloads import Attention, Gemm


def run(gpu: str, *cells: tuple[Attention, dict[str, list[float]]], title: str = "Attention") -> Report:
    made = []
    for workload, times in cells:
        cell = Cell(workload)
        cell.samples = {name: [Sample(ms, round=n) for n, ms in enumerate(each)] for name, each in times.items()}
        cell.errors = {name: {"output": 1e-3 * len(each)} for name, each in times.items()}
        cell.absent = {"FA4": "no such thing"} if "FA4" not in times else {}
        made.append(cell)
    return Report(title, {"gpu": gpu, "torch": "2"}, {"rounds": 2}, made, ["tilegen", "cuDNN", "FA4"], "tilegen")


SHORT, LONG = Attention(64, 512, False), Attention(64, 8192, False)


def test_cells_of_all_runs_are_there() -> None:
    joined = merge([run("a", (SHORT, {"tilegen": [1.0, 1.0]})), run("b", (LONG, {"tilegen": [2.0]}))])
    assert [cell.workload for cell in joined.cells] == [SHORT, LONG]
    assert [cell.workload for cell in merge([run("b", (LONG, {})), run("a", (SHORT, {}))]).cells] == [SHORT, LONG]
    assert joined.machine == {"gpu": "a; b", "torch": "2"}
    assert joined.settings == {"rounds": "2"}


def test_rounds_stay_paired_within_their_run() -> None:
    first = run("a", (SHORT, {"tilegen": [1.0, 1.0], "cuDNN": [2.0]}))  # cuDNN missed a round
    second = run("a", (SHORT, {"tilegen": [10.0], "cuDNN": [40.0], "FA4": [5.0]}))
    joined = merge([first, second])
    (cell,) = joined.cells
    assert joined.ratio(cell, "cuDNN") == Ratio(3.0, 2.0, 4.0)
    assert joined.ratio(cell, "FA4") == Ratio(0.5, 0.5, 0.5)
    assert cell.absent == {}
    assert cell.errors["tilegen"] == {"output": 2e-3}  # the worse


def test_what_is_not_one_benchmark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Attention of tilegen, Products of tilegen"):
        merge([run("a"), run("a", title="Products")])
    path = tmp_path / "x.json"
    path.write_text('{"title": "Attention", "cells": [{}]}', encoding="utf-8")
    with pytest.raises(ValueError, match="is no report"):
        read(path)


def speeds() -> Report:
    cells = [
        (Attention(D, S, causal, G=G), {"tilegen": [1.0], "cuDNN": [1.5]})
        for D in (64, 128) for S in (512, 2048, 8192) for causal in (False, True) for G in (1, 8) if G == 1 or S == 512
    ]  # fmt: skip
    return run("H200", *cells)


def test_a_panel_a_head_size_and_a_line_a_provider_and_mask() -> None:
    rows = plot.lines(speeds())
    assert list(rows) == ["T=bf16, G=1"]  # of G = 8 there is one length only
    assert list(rows["T=bf16, G=1"]) == [64, 128]
    panel = rows["T=bf16, G=1"][64]
    assert set(panel) == {(name, mask) for name in ("tilegen", "cuDNN") for mask in ("full", "causal")}
    assert [S for S, _ in panel["tilegen", "full"]] == [512, 2048, 8192]
    assert panel["tilegen", "full"][0][1] == pytest.approx(1.5 * panel["cuDNN", "full"][0][1])
    assert plot.lines(run("a", (SHORT, {"tilegen": [1.0]}))) == {}
    for workload in (Gemm(1, 2, 3), Ragged(True)):  # without a length, or without one length
        cell = Cell(workload, samples={"tilegen": [Sample(1.0)]})
        assert plot.lines(Report("Others", {}, {}, [cell], ["tilegen"], "tilegen")) == {}


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "new" / "x.svg"
    assert plot.draw(speeds(), path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<?xml")
    assert all(f"<!-- {words} -->" in text for words in ("D = 64, T=bf16, G=1", "cuDNN causal", "8192", "TFLOP/s"))
    assert plot.draw(speeds(), tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text(encoding="utf-8") == text  # nothing of it is by chance
    assert not plot.draw(run("a", (SHORT, {"tilegen": [1.0]})), tmp_path / "none.svg")


def test_every_point_is_in_view() -> None:
    pytest.importorskip("matplotlib")
    cells = [(Attention(D, S, False), {"tilegen": [1.0]}) for D in (64, 128) for S in (512, 8192)]  # 128: twice as fast
    panels = plot.figure(run("H200", *cells)).axes
    assert len(panels) == 2
    for panel in panels:
        low, high = panel.get_ylim()
        assert low == 0
        assert all(low < y <= high for line in panel.lines for y in line.get_ydata())


def test_the_script_joins_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [run("a", (w, {"tilegen": [1.0], "cuDNN": [2.0]})) for w in (SHORT, LONG)]
    files = [str(part.write(tmp_path, f"part{n}")[0]) for n, part in enumerate(parts)]
    assert script.main([*files, "-o", str(tmp_path / "all")]) == 0
    assert [cell.workload.columns["S"] for cell in read(tmp_path / "all.json").cells] == ["512", "8192"]
    assert (tmp_path / "all.md").exists()
    assert (tmp_path / "all.svg").exists() == plot.available()
    assert "2.000 (2.000–2.000)" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        script.main([str(tmp_path / "none.json"), "-o", str(tmp_path / "x")])
