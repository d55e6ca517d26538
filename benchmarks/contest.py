"""A benchmark from start to end: build, probe, check against exact results, time in rounds, report."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.builds import ROOT, Request, compile_all, read, sample
from benchmarks.gpu_worker import CallFailedError, GpuWorker, WorkerDiedError, watchdog
from benchmarks.providers import AbsentError, Provider, Requested, Tilegen, yardstick_cubin
from benchmarks.report import Report
from benchmarks.rounds import Cell, Launch, Sample, measure, run_rounds

BEGAN = time.monotonic()
RESULTS = ROOT / "benchmarks" / "results"
_CHECKS = 120.0  # seconds that making and checking one result may take, compilations by torch included


@dataclass(frozen=True)
class Settings:
    """Of the command line. `budget`: seconds from the start of the process to the last measurement."""

    rounds: int
    warm_ms: float
    measure_ms: float
    budget: float
    out: Path
    seed: int
    probe: bool


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--rounds", type=int, default=5, help="rounds, in each of which everybody runs once")
    p.add_argument("--warm-ms", type=float, default=80, help="milliseconds of warm-up before each measurement")
    p.add_argument("--measure-ms", type=float, default=110, help="milliseconds of each measurement")
    p.add_argument("--budget", type=float, default=540, help="seconds in all; rounds that do not fit are left out")
    p.add_argument("--out", type=Path, default=RESULTS, help="where the JSON and the Markdown go")
    p.add_argument("--seed", type=int, help="of the random data; fresh if not given")
    p.add_argument("--no-probe", action="store_true", help="do not first run each kernel where a hang does no harm")
    return p


def settings(options: argparse.Namespace) -> Settings:
    seed = secrets.randbits(31) if options.seed is None else options.seed
    return Settings(
        options.rounds, options.warm_ms, options.measure_ms, options.budget, options.out, seed, not options.no_probe
    )


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:5.1f} s] {text}", flush=True)


# ---- kernels -------------------------------------------------------------------------------------


def requested(workload: Any) -> Request:
    """The sample's kernel as the user gets it."""
    return sample(workload.spec, **workload.params)


def contestants(names: dict[str, Requested], workloads: Sequence[Any], folder: Path, s: Settings) -> list[Tilegen]:
    """Build the kernels of every named contestant for every workload, and find those that do not survive a launch."""
    pairs = [(r, w) for request in names.values() for w in workloads if (r := request(w)) is not None]
    paths = compile_all((request for request, _ in pairs), folder)
    for request, path in paths.items():
        say(f"{request.label}: {read(path).summary()}")
    broken = probed(pairs, paths, s.seed) if s.probe else {}
    return [Tilegen(name, request, paths, broken) for name, request in names.items()]


def probed(
    pairs: Iterable[tuple[Request, Any]], paths: dict[Request, Path], seed: int
) -> dict[tuple[Request, Any], str]:
    """Why a kernel is not to be run on a workload: it hangs, or breaks the GPU's context."""
    worker = GpuWorker()
    broken: dict[tuple[Request, Any], str] = {}
    hanging: dict[Request, str] = {}
    for request, workload in dict.fromkeys(pairs):
        if request in hanging:
            broken[request, workload] = hanging[request]
            continue
        with suppress(CallFailedError):  # said again, and in full, where it is prepared
            try:
                worker.call("benchmarks.providers:probe", str(paths[request]), workload, seed)
            except WorkerDiedError as e:
                broken[request, workload] = hanging[request] = str(e)
                say(f"{request.label} on {workload.label}: {e}")
    worker.close()
    return broken


def yardstick_cubins(reference: Path, kernels: Iterable[tuple[int, bool, str]], folder: Path) -> Path:
    """Its kernels (head size, causal, type) compiled in parallel into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(yardstick_cubin, str(reference), *kernel) for kernel in dict.fromkeys(kernels)]
        for job in jobs:
            name, cubin = job.result()
            (folder / name).write_bytes(cubin)
    return folder


# ---- check, time, report -------------------------------------------------------------------------


def checked_cell(workload: Any, providers: Sequence[Provider], seed: int) -> Cell:
    """Everybody's result on fresh random data, against the exact one. One that is not finite, or that is tilegen's and
    beyond the allowed, is not timed."""
    import torch

    cell = Cell(workload)
    inputs = workload.inputs(seed)
    exact = workload.exact(inputs)
    for provider in providers:
        with watchdog(f"{provider.name} on {workload.label}", _CHECKS):
            try:
                launch = provider.prepare(workload, inputs)
                outputs = launch()
                torch.cuda.synchronize()
            except Exception as e:
                why = str(e) if isinstance(e, AbsentError) else f"{type(e).__name__}: {e}"
                cell.absent[provider.name] = " ".join(why.split())[:400]
                continue
            found = workload.distance(outputs, exact)
        cell.errors[provider.name] = {"output": found.error} | ({} if found.lse is None else {"lse": found.lse})
        wrong = found.faults if isinstance(provider, Tilegen) else [f for f in found.faults if "not finite" in f]
        if wrong:
            cell.absent[provider.name] = "wrong: " + "; ".join(wrong)
        else:
            cell.launches[provider.name] = launch
    return cell


def compete(
    title: str, stem: str, workloads: Sequence[Any], providers: Sequence[Provider], ours: str, s: Settings
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
    report = Report(title, machine.facts(), told, cells, [p.name for p in providers], ours)
    name = f"{stem}-{datetime.now(UTC):%Y-%m-%d-%H%M%S}"

    def after_round(number: int) -> None:
        told["rounds"] = number
        report.write(s.out, name)
        say(f"round {number} of {s.rounds}")

    told["rounds"] = run_rounds(cells, s.rounds, BEGAN + s.budget, measured, after_round)
    paths = report.write(s.out, name)
    say("wrote " + ", ".join(map(str, paths)))
    return report


def _errors(cell: Cell) -> str:
    said = [f"{name} {errors['output']:.1e}" for name, errors in cell.errors.items()]
    return ", ".join([*said, *(f"{name} absent ({why})" for name, why in cell.absent.items())])


def finished(report: Report, names: Sequence[str]) -> int:
    """The exit code: 1 where one of these did not compete somewhere, so that a log that nobody reads fails."""
    missing = [(c.workload.label, n) for c in report.cells for n in names if not c.samples.get(n)]
    for label, name in missing:
        print(f"{name} was not timed on {label}", file=sys.stderr)
    return 1 if missing else 0


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tilegen-benchmark-", ignore_cleanup_errors=True)
