"""From cells to tables: speeds, paired ratios with their spread, as text, Markdown and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from tilegen.bench.rounds import Cell, Sample


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one is as the other, by rounds: median, least and most."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f}–{self.high:.3f})"


def paired(ours: Sequence[Sample], theirs: Sequence[Sample], work: float = 1.0) -> Ratio | None:
    """Of the rounds that both ran in. `work`: our operations over theirs, where they differ."""
    by_round = {s.round: s.milliseconds for s in theirs}
    ratios = [work * by_round[s.round] / s.milliseconds for s in ours if s.round in by_round]
    return Ratio(median(ratios), min(ratios), max(ratios)) if ratios else None


def mean(ratios: Sequence[Ratio]) -> Ratio:
    """The geometric mean of the medians, and the least and the most of them."""
    medians = [r.median for r in ratios]
    return Ratio(geometric_mean(medians), min(medians), max(medians))


def flops(cell: Cell, name: str) -> float:
    """Operations of one of its launches."""
    return cell.flops.get(name, float(cell.workload.flops))


def tflops(cell: Cell, name: str) -> float | None:
    """By the median of the rounds' medians."""
    samples = cell.samples.get(name)
    return flops(cell, name) / median(s.milliseconds for s in samples) / 1e9 if samples else None


@dataclass(frozen=True)
class Recorded:
    """A workload as a file tells it."""

    known: dict[str, Any]
    columns: dict[str, str]
    label: str
    flops: float

    def fields(self) -> dict[str, Any]:
        return self.known


@dataclass(frozen=True)
class Report:
    """`ours` is the provider that the ratios are of; `names` all providers, in the order of the columns."""

    title: str
    machine: dict[str, str]
    settings: dict[str, Any]
    cells: Sequence[Cell]
    names: Sequence[str]
    ours: str

    @property
    def peers(self) -> list[str]:
        return [name for name in self.names if name != self.ours]

    def ratio(self, cell: Cell, peer: str) -> Ratio | None:
        """How many times as fast as a peer ours is, by operations a second."""
        ours, theirs = cell.samples.get(self.ours, []), cell.samples.get(peer, [])
        return paired(ours, theirs, flops(cell, self.ours) / flops(cell, peer))

    # ---- text ------------------------------------------------------------------------------------

    def _columns(self) -> list[str]:
        """Of a workload's columns those that tell the cells apart, at least one."""
        columns = list(self.cells[0].workload.columns)
        telling = [c for c in columns if len({cell.workload.columns[c] for cell in self.cells}) > 1]
        return telling or columns

    def speeds(self) -> list[list[str]]:
        """The header and a row a cell: TFLOP/s of everybody, then the ratios to the peers."""
        columns = self._columns()
        rows = [[*columns, *self.names, *(f"/ {peer}" for peer in self.peers)]]
        for cell in self.cells:
            speeds = [_number(tflops(cell, name)) for name in self.names]
            ratios = [self.ratio(cell, peer) for peer in self.peers]
            rows.append(
                [*(cell.workload.columns[c] for c in columns), *speeds, *(str(r) if r else "–" for r in ratios)]
            )
        return rows

    def means(self) -> list[list[str]]:
        """The header and a row a peer: over how many cells, and the geometric mean of the ratios."""
        rows = [["against", "cells", "mean (least–most)"]]
        for peer in self.peers:
            ratios = [r for cell in self.cells if (r := self.ratio(cell, peer))]
            if ratios:
                rows.append([peer, str(len(ratios)), str(mean(ratios))])
        return rows

    def states(self) -> list[list[str]]:
        """The header and a row a cell and provider: error, time, rounds, and the GPU meanwhile."""
        columns = self._columns()
        rows = [[*columns, "provider", "error", "ms", "rounds", "MHz", "W"]]
        for cell in self.cells:
            for name in self.names:
                where = [cell.workload.columns[c] for c in columns]
                samples = cell.samples.get(name, [])
                if not samples:
                    rows.append([*where, name, cell.absent.get(name, "not measured"), "–", "0", "–", "–"])
                    continue
                error = cell.errors.get(name, {}).get("output")
                clocks = [s.clock_mhz for s in samples if s.clock_mhz is not None]
                watts = [s.watts for s in samples if s.watts is not None]
                rows.append([
                    *where, name, "–" if error is None else f"{error:.1e}",
                    f"{median(s.milliseconds for s in samples):.4f}", str(len(samples)),
                    f"{median(clocks):.0f}" if clocks else "–", f"{median(watts):.0f}" if watts else "–",
                ])  # fmt: skip
        return rows

    def text(self) -> str:
        """The speeds as a table for a terminal, and who is absent and why."""
        lines = [self.title, *aligned(self.speeds()), "", *aligned(self.means())]
        absent: dict[tuple[str, str], list[str]] = {}
        for cell in self.cells:
            for reason in cell.absent.items():
                absent.setdefault(reason, []).append(cell.workload.label)
        for (name, why), labels in absent.items():
            where = "in every cell" if len(labels) == len(self.cells) > 1 else "; ".join(labels)
            lines.append(f"without {name} ({where}): {why}")
        return "\n".join(lines)

    def markdown(self) -> str:
        machine = "\n".join(f"- {name}: {value}" for name, value in {**self.machine, **self.settings}.items())
        return "\n\n".join([
            f"# {self.title}", machine,
            f"TFLOP/s by the median of the rounds. / NAME: how many times as fast as NAME {self.ours} is, paired by "
            "rounds: median (least–most, which hold the true median with a probability of 1 − 2^(1 − n) in n rounds).",
            _markdown(self.speeds()), _markdown(self.means()), _markdown(self.states()),
        ]) + "\n"  # fmt: skip

    # ---- JSON ------------------------------------------------------------------------------------

    def data(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "machine": self.machine,
            "settings": self.settings,
            "ours": self.ours,
            "cells": [self._cell(cell) for cell in self.cells],
        }

    def _cell(self, cell: Cell) -> dict[str, Any]:
        providers: dict[str, Any] = {}
        for name in self.names:
            samples = cell.samples.get(name, [])
            if samples:
                ratio = self.ratio(cell, name) if name != self.ours else None
                providers[name] = {
                    "tflops": tflops(cell, name),
                    "flops": flops(cell, name),
                    "samples": [asdict(s) for s in samples],
                    "errors": cell.errors.get(name, {}),
                    "ours_over_it": asdict(ratio) if ratio else None,
                }
            else:
                providers[name] = {"absent": cell.absent.get(name, "not measured")}
        w = cell.workload
        told = {"workload": w.fields(), "columns": w.columns, "label": w.label, "flops": w.flops}
        return {**told, "providers": providers}

    @staticmethod
    def of(data: dict[str, Any]) -> Report:
        """What `data` gave. Raises KeyError or TypeError where it is something else."""
        cells, names = [], dict[str, None]()
        for each in data["cells"]:
            cell = Cell(Recorded(each["workload"], each["columns"], each["label"], each["flops"]))
            for name, told in each["providers"].items():
                names[name] = None
                if "absent" in told:
                    cell.absent[name] = told["absent"]
                    continue
                cell.samples[name] = [Sample(**s) for s in told["samples"]]
                cell.errors[name] = told["errors"]
                if told["flops"] != each["flops"]:
                    cell.flops[name] = told["flops"]
            cells.append(cell)
        return Report(data["title"], data["machine"], data["settings"], cells, list(names), data["ours"])

    def write(self, folder: Path, stem: str) -> tuple[Path, Path]:
        """STEM.json and STEM.md, each whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"json": json.dumps(self.data(), indent=1) + "\n", "md": self.markdown()}
        paths = []
        for ending, text in texts.items():
            path = folder / f"{stem}.{ending}"
            part = path.with_name(path.name + ".part")
            part.write_text(text, encoding="utf-8")
            part.replace(path)
            paths.append(path)
        return paths[0], paths[1]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width; numbers, and their header, stand to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [all(re.fullmatch(r"[\d.e()+–-]+( \([\d.–]+\))?", row[n]) for row in rows[1:]) for n in range(len(widths))]
    return [
        "  ".join(t.rjust(w) if r else t.ljust(w) for t, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in rows
    ]


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(t.replace("|", "\\|").replace("\n", " ") for t in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
