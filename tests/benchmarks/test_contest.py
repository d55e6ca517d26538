"""A contest of stand-ins: who is checked, who is timed, what is told. No GPU, no torch."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilegen.bench import contest
from tilegen.bench.contest import Settings, compete
from tilegen.bench.distance import Distance
from tilegen.bench.peers import AbsentError, Flash, Flex, Provider
from tilegen.bench.rounds import Elsewhere, Sample, by_the_clock


@dataclass(frozen=True)
class Work:
    name: str = "w"
    flops: float = 1e12

    @property
    def columns(self) -> dict[str, str]:
        return {"work": self.name}

    @property
    def label(self) -> str:
        return self.name

    def fields(self) -> dict[str, Any]:
        return {"name": self.name}

    def inputs(self, seed: int) -> dict[str, Any]:
        return {"seed": seed}

    def exact(self, inputs: Mapping[str, Any]) -> float:
        return float(inputs["seed"])

    def distance(self, outputs: tuple[float, ...], exact: float) -> Distance:
        away = abs(outputs[0] - exact)
        finite = ["O is not finite in 1 of 1 places"] if outputs[0] != outputs[0] else []
        return Distance(away, faults=finite or (["O is off"] if away > 1e-3 else []))


@dataclass(frozen=True)
class Fake(Provider):
    """Takes this many ms, and is off by so much."""

    ms: float
    off: float = 0.0
    judged: bool = False
    on: Work | None = None

    def stands_on(self, workload: Any) -> Any:
        return self.on or workload

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Any:
        assert workload == (self.on or Work())
        if self.ms < 0:
            raise AbsentError("for other kernels")
        launch = lambda: (inputs["seed"] + self.off,)  # noqa: E731
        launch.ms = self.ms  # type: ignore[attr-defined]
        return launch


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None)))
    monkeypatch.setattr(contest.machine, "facts", lambda: {"gpu": "none"})
    monkeypatch.setattr(contest.machine, "reader", lambda: lambda: (1, 2.0))
    monkeypatch.setattr(contest, "measure", lambda launch, look, warm, ms: Sample(launch.ms, *look()))
    return []


def settings(out: Path | None) -> Settings:
    return Settings(2, 80, 110, time.monotonic() + 60, out, 7)


def test_everybody_is_checked_and_timed(told: list[str], tmp_path: Path) -> None:
    providers = [
        Fake("ours", 2.0, judged=True),
        Fake("peer", 3.0, off=0.5),  # a peer may be coarse
        Fake("broken", 1.0, off=float("nan")),
        Fake("elsewhere", -1.0),
        Fake("plain", 8.0, judged=True, on=Work("plain", 8e12)),
    ]
    report = compete("Title", "stem", [Work()], providers, "ours", settings(tmp_path), told.append)
    (cell,) = report.cells
    assert {name: [s.round for s in each] for name, each in cell.samples.items()} == {
        "ours": [0, 1], "peer": [0, 1], "plain": [0, 1],
    }  # fmt: skip
    assert cell.errors["peer"] == {"output": 0.5}
    assert "not finite" in cell.absent["broken"]
    assert cell.absent["elsewhere"] == "for other kernels"
    assert str(report.ratio(cell, "peer")) == "1.500 (1.500–1.500)"
    assert str(report.ratio(cell, "plain")) == "0.500 (0.500–0.500)"  # an eighth of the operations in a quarter
    assert report.settings["rounds"] == 2
    (path,) = tmp_path.glob("stem-*.json")
    assert json.loads(path.read_text(encoding="utf-8"))["cells"][0]["providers"]["plain"]["flops"] == 8e12
    assert any(str(path) in line for line in told)


def test_a_wrong_result_of_ours_is_not_timed(told: list[str]) -> None:
    report = compete("t", "s", [Work()], [Fake("ours", 2.0, 0.5, True)], "ours", settings(None), told.append)
    assert report.cells[0].absent == {"ours": "wrong: O is off"}
    assert report.cells[0].samples == {}


def test_what_is_not_installed_has_no_column(told: list[str]) -> None:
    missing = Flash("FA9", "flash_attn_of_another_world")
    report = compete("t", "s", [Work()], [Fake("ours", 2.0), missing], "ours", settings(None), told.append)
    assert report.names == ["ours"]
    assert report.cells[0].absent == {"FA9": "flash_attn_of_another_world is not installed"}


def test_flex_needs_a_score_of_its_own_only_where_it_is_told() -> None:
    assert Flex().name == "Flex"
    assert Flex(change=lambda w, i: (None, None)) != Flex()


def test_work_that_torch_does_not_see_is_timed_by_the_clock() -> None:
    """Each launch takes 2 ms on a device that runs behind."""
    clock, device = [0.0], [0.0]

    def launch() -> int:
        clock[0] += 1e-5
        device[0] = max(device[0], clock[0]) + 2e-3
        return 1

    def wait(last: int) -> None:
        clock[0] = max(clock[0], device[0])

    found = by_the_clock(Elsewhere(launch, wait), lambda: (1500, 600.0), 10.0, 100.0, lambda: clock[0])
    assert found.milliseconds == pytest.approx(2.0, rel=0.01)
    assert (found.clock_mhz, found.watts) == (1500, 600.0)
