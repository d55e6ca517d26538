"""Medians, paired ratios, tables and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilegen.bench.report import Ratio, Report, aligned, mean, paired, tflops
from tilegen.bench.rounds import Cell, Sample
from tilegen.bench.workloads import Attention


def samples(*milliseconds: float) -> list[Sample]:
    return [Sample(ms, 1700, 650.0, number) for number, ms in enumerate(milliseconds)]


def report() -> Report:
    full, causal = (Cell(Attention(128, 8192, causal)) for causal in (False, True))
    full.samples = {"tilegen": samples(2.0, 2.2, 1.8), "cuDNN": samples(2.1, 2.2, 2.0)}
    full.errors = {"tilegen": {"output": 2e-3, "lse": 1e-6}, "cuDNN": {"output": 2.1e-3}}
    full.absent = {"FA2": "no such backend"}
    causal.samples = {"tilegen": samples(1.0, 1.1)}
    causal.absent = {"FA2": "no such backend", "cuDNN": "out of | memory\nat line 1"}
    return Report(
        "Attention", {"gpu": "some GPU"}, {"rounds": 3}, [full, causal], ["tilegen", "cuDNN", "FA2"], "tilegen"
    )


def test_ratios_pair_what_ran_in_the_same_round() -> None:
    ratio = paired(samples(2.0, 4.0, 1.0), samples(3.0, 4.0, 4.0))
    assert ratio == Ratio(1.5, 1.0, 4.0)
    assert str(ratio) == "1.500 (1.000–4.000)"
    assert paired(samples(1.0, 2.0), samples(2.0)) == Ratio(2.0, 2.0, 2.0)
    assert paired([], samples(2.0)) is None
    assert paired(samples(1.0, 2.0)[1:], samples(2.0, 3.0)) == Ratio(1.5, 1.5, 1.5)  # the first round was missed


def test_speed_is_operations_over_the_median() -> None:
    cell = Cell(Attention(128, 8192, True))
    cell.samples = {"a": samples(1.0, 9.0, 2.0)}
    assert cell.workload.flops == 4 * 2 * 16 * 8192**2 * 128 / 2
    assert tflops(cell, "a") == pytest.approx(cell.workload.flops / 2e-3 / 1e12)
    assert tflops(cell, "b") is None


def test_ratios_are_of_operations_a_second() -> None:
    """A window has a tenth of the pairs and takes a fifth of the time: half as fast."""
    told = report()
    cell = told.cells[0]
    cell.flops["cuDNN"] = 10 * cell.workload.flops
    cell.samples["cuDNN"] = samples(10.0, 11.0, 9.0)
    assert told.ratio(cell, "cuDNN") == Ratio(0.5, 0.5, 0.5)
    assert tflops(cell, "cuDNN") == pytest.approx(2 * (tflops(cell, "tilegen") or 0.0))


def test_means_are_geometric_over_the_cells_that_both_ran_in() -> None:
    assert mean([Ratio(2.0, 1, 3), Ratio(0.5, 0, 9), Ratio(1.0, 1, 1)]) == Ratio(pytest.approx(1.0), 0.5, 2.0)  # type: ignore[arg-type]
    assert report().means() == [
        ["against", "cells", "mean (least–most)"], ["cuDNN", "1", "1.050 (1.050–1.050)"],
    ]  # fmt: skip


def test_the_table_shows_what_tells_the_cells_apart() -> None:
    header, full, causal = report().speeds()
    assert header == ["mask", "tilegen", "cuDNN", "FA2", "/ cuDNN", "/ FA2"]
    flops = 4 * 2 * 16 * 8192**2 * 128
    assert full == ["full", f"{flops / 2e9:.1f}", f"{flops / 2.1e9:.1f}", "–", "1.050 (1.000–1.111)", "–"]
    assert causal == ["causal", f"{flops / 2 / 1.05e9:.1f}", "–", "–", "–", "–"]


def test_the_text_says_who_is_absent() -> None:
    text = report().text()
    assert "without FA2 (in every cell): no such backend" in text
    assert "without cuDNN (T=bf16 D=128 S=8192 G=1 mask=causal): out of | memory" in text


def test_columns_line_up() -> None:
    assert aligned([["name", "n", "r"], ["a", "1", "1.000 (0.900–1.100)"], ["bcdef", "200", "–"]]) == [
        "name     n                    r",
        "a        1  1.000 (0.900–1.100)",
        "bcdef  200                    –",
    ]


def test_files_are_whole_and_hold_everything(tmp_path: Path) -> None:
    as_json, as_markdown = report().write(tmp_path / "new", "attention-now")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["attention-now.json", "attention-now.md"]
    data = json.loads(as_json.read_text(encoding="utf-8"))
    assert data["machine"] == {"gpu": "some GPU"}
    full, causal = data["cells"]
    assert full["workload"]["S"] == 8192
    assert full["providers"]["tilegen"]["errors"] == {"output": 2e-3, "lse": 1e-6}
    assert full["providers"]["cuDNN"]["samples"][1] == {
        "milliseconds": 2.2, "clock_mhz": 1700, "watts": 650.0, "round": 1,
    }  # fmt: skip
    assert full["providers"]["cuDNN"]["ours_over_it"] == {"median": 1.05, "low": 1.0, "high": pytest.approx(2 / 1.8)}
    assert full["providers"]["tilegen"]["ours_over_it"] is None
    assert causal["providers"]["cuDNN"] == {"absent": "out of | memory\nat line 1"}
    text = as_markdown.read_text(encoding="utf-8")
    assert "- gpu: some GPU" in text
    assert "| causal | cuDNN | out of \\| memory at line 1 |" in text
    assert len({line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| ")}) == 3


def test_a_report_is_read_back(tmp_path: Path) -> None:
    told = report()
    told.cells[0].flops["cuDNN"] = 5e12
    again = Report.of(json.loads(told.write(tmp_path, "x")[0].read_text(encoding="utf-8")))
    assert again.data() == told.data()
    assert again.markdown() == told.markdown()
