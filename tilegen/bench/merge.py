"""Several runs as one report: what each measured stays paired with what ran in the same round of the same run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilegen.bench.report import Report
from tilegen.bench.rounds import Cell

_APART = 1_000_000  # rounds between two runs


def read(path: Path) -> Report:
    """A report from its JSON. Raises OSError, and ValueError where the file holds something else."""
    try:
        return Report.of(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"{path} is no report of a benchmark, or of an older one: {e!r}") from e


def merge(reports: Sequence[Report]) -> Report:
    """All cells of all runs; a cell of several runs has the rounds of all. Raises ValueError for other contests."""
    first = reports[0]
    if any((r.title, r.ours) != (first.title, first.ours) for r in reports):
        titles = sorted({f"{r.title} of {r.ours}" for r in reports})
        raise ValueError(f"not one benchmark: {', '.join(titles)}")
    names = list(dict.fromkeys(name for r in reports for name in r.names))
    cells: dict[str, Cell] = {}
    for number, report in enumerate(reports):
        for cell in report.cells:
            into = cells.setdefault(cell.workload.label, Cell(cell.workload))
            for name, samples in cell.samples.items():
                later = [replace(s, round=s.round + number * _APART) for s in samples]
                into.samples.setdefault(name, []).extend(later)
                into.errors[name] = _worse(into.errors.get(name, {}), cell.errors.get(name, {}))
            into.flops |= cell.flops
            into.absent |= cell.absent
    for cell in cells.values():
        cell.absent = {name: why for name, why in cell.absent.items() if name not in cell.samples}
    machine, settings = _together([r.machine for r in reports]), _together([r.settings for r in reports])
    return Report(first.title, machine, settings, _sorted(list(cells.values())), names, first.ours)


def _sorted(cells: list[Cell]) -> list[Cell]:
    """By their columns from left to right: numbers rise, words come as they first came."""
    first: dict[str, list[str]] = {}
    for cell in cells:
        for name, value in cell.workload.columns.items():
            first.setdefault(name, []).append(value)

    def place(cell: Cell) -> list[int]:
        values = cell.workload.columns.items()
        return [int(value) if value.isdigit() else first[name].index(value) for name, value in values]

    return sorted(cells, key=place)


def _worse(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    return {what: max(x[what] for x in (a, b) if what in x) for what in {**a, **b}}


def _together(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all say, once; what they say differently, one after the other."""
    out: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in each for name in one):
        said = list(dict.fromkeys(str(one[name]) for one in each if name in one))
        out[name] = said[0] if len(said) == 1 else "; ".join(said)
    return out
