"""A benchmark from its contestants on: check against exact results, time in rounds, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tilegen.bench import machine, plot
from tilegen.bench.peers import AbsentError, Provider
from tilegen.bench.report import Report
from tilegen.bench.rounds import Cell, Elsewhere, Launch, Sample, measure, run_rounds
from tilegen.bench.watchdog import watchdog

_CHECKS = 120.0  # seconds that making and checking one result may take, compilations by torch included
Say = Callable[[str], object]


@dataclass(frozen=True)
class Settings:
    """deadline: on the monotonic clock; rounds that would end after it are left out · out: where the report goes, if
    anywhere."""

    rounds: int
    warm_ms: float
    measure_ms: float
    deadline: float
    out: Path | None
    seed: int


def checked_cell(workload: Any, providers: Sequence[Provider], seed: int) -> Cell:
    """Everybody's result on fresh random data, against the exact one. One that is not finite, or that is judged and
    beyond the allowed, is not timed."""
    import torch

    cell = Cell(workload)
    known: dict[Any, tuple[Any, Any]] = {}
    for provider in providers:
        with watchdog(f"{provider.name} on {workload.label}", _CHECKS):
            try:
                work = provider.stands_on(workload)
                if work not in known:
                    inputs = work.inputs(seed)
                    known[work] = inputs, work.exact(inputs)
                inputs, exact = known[work]
                launch = provider.prepare(work, inputs)
                outputs = launch()
                if isinstance(launch, Elsewhere):
                    outputs = launch.wait(outputs)
                torch.cuda.synchronize()
            except Exception as e:
                why = str(e) if isinstance(e, AbsentError) else f"{type(e).__name__}: {e}"
                cell.absent[provider.name] = " ".join(why.split())[:400]
                continue
            found = work.distance(outputs, exact)
        cell.errors[provider.name] = {"output": found.error} | ({} if found.lse is None else {"lse": found.lse})
        wrong = found.faults if provider.judged else [f for f in found.faults if "not finite" in f]
        if wrong:
            cell.absent[provider.name] = "wrong: " + "; ".join(wrong)
            continue
        cell.launches[provider.name] = launch
        if work is not workload:
            cell.flops[provider.name] = work.flops
    return cell


def compete(
    title: str, stem: str, workloads: Sequence[Any], providers: Sequence[Provider], ours: str, s: Settings, say: Say
) -> Report:
    """Check and time everybody on every workload; the report is written after each round."""
    cells = []
    for workload in workloads:
        cells.append(checked_cell(workload, providers, s.seed))
        say(f"{workload.label}: {_errors(cells[-1])}")
    look = machine.reader()

    def measured(launch: Launch) -> Sample:
        return measure(launch, look, s.warm_ms, s.measure_ms)

    told: dict[str, Any] = {"seed": s.seed, "warm-up": f"{s.warm_ms:g} ms", "measurement": f"{s.measure_ms:g} ms"}
    known = [p.name for p in providers if any(p.name in c.launches or _had_reason(c, p.name) for c in cells)]
    report = Report(title, machine.facts(), told, cells, known, ours)
    name = f"{stem}-{datetime.now(UTC):%Y-%m-%d-%H%M%S}"

    def after_round(number: int) -> None:
        told["rounds"] = number
        if s.out is not None:
            report.write(s.out, name)
        say(f"round {number} of {s.rounds}")

    told["rounds"] = run_rounds(cells, s.rounds, s.deadline, measured, after_round)
    if s.out is not None:
        say("wrote " + ", ".join(map(str, write(report, s.out, name))))
    return report


def write(report: Report, folder: Path, name: str) -> list[Path]:
    """The report's files; a plot among them where matplotlib is installed and lengths are compared."""
    paths = list(report.write(folder, name))
    figure = folder / f"{name}.svg"
    if plot.available() and plot.draw(report, figure):
        paths.append(figure)
    return paths


def _had_reason(cell: Cell, name: str) -> bool:
    """Whether it is absent for another reason than that it is not installed: such a one has no column."""
    return not cell.absent.get(name, "").endswith("is not installed")


def _errors(cell: Cell) -> str:
    said = [f"{name} {errors['output']:.1e}" for name, errors in cell.errors.items()]
    return ", ".join([*said, *(f"{name} absent ({why})" for name, why in cell.absent.items())])


def stopwatch(began: float) -> Callable[[str], None]:
    """Prints lines with the seconds since `began`, of the monotonic clock."""

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)

    return say
