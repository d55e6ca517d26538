"""The benchmark of the host's part, with stand-ins for torch and the GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import host


def test_every_kind_of_launch_is_timed_and_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert host.main(["--stand-in", "--batches", "2", "--runs", "0", "--out", str(tmp_path)]) == 0
    (record,) = tmp_path.glob("host-*.json")
    data = json.loads(record.read_text(encoding="utf-8"))
    assert data["machine"]["gpu"].startswith("none")
    rows = {row["what"]: row for row in data["rows"]}
    assert list(rows)[:2] == ["prepared launch", "call, outputs given"]
    assert not any("driver" in what for what in rows)  # there is none to time
    assert all(row["times"] == 2 and 0 < row["least"] <= row["median"] <= row["most"] for row in rows.values())
    table = record.with_suffix(".md").read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    for what in rows:
        assert f"{what} (µs)" in table
        assert f"{what} (µs)" in printed


def test_a_compilation_is_timed_without_and_with_the_cache() -> None:
    cold, nvrtc, first, cached = host.compilations({"copy": ("copy",)}, 1)
    assert (cold.what, nvrtc.what, first.what, cached.what) == (
        "copy, cold",
        "copy, cold: of which NVRTC",
        "copy, first of all",
        "copy, from the cache",
    )
    assert 0 < nvrtc.median < cold.median
    assert cached.times == 1


def test_the_checks_of_all_plans_of_a_spec_are_timed_together() -> None:
    (row,) = host.checks({"gemm": ("gemm",)}, 1)
    assert row.what.startswith("gemm, checks of ")
    assert row.median > 0
    assert row.times == 1
