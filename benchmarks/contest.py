"""What every script here does before the contest: options, kernels built in parallel and probed, the yardstick."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.builds import ROOT, Request, compile_all, read, sample
from benchmarks.providers import Requested, Tilegen, yardstick_cubin
from tilegen.bench.contest import Settings, stopwatch
from tilegen.bench.gpu_worker import CallFailedError, GpuWorker, WorkerDiedError
from tilegen.bench.report import Report
from tilegen.runtime import driver

BEGAN = time.monotonic()
RESULTS = ROOT / "benchmarks" / "results"


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
    """Ends the process in words where there is nothing to time on."""
    if find_spec("torch") is None or not driver.available():
        sys.exit("benchmarks need torch and a Hopper GPU: the inputs are torch's, and so are the peers")
    seed = secrets.randbits(31) if options.seed is None else options.seed
    deadline = BEGAN + options.budget
    return Settings(options.rounds, options.warm_ms, options.measure_ms, deadline, options.out, seed)


say = stopwatch(BEGAN)


# ---- kernels -------------------------------------------------------------------------------------


def requested(workload: Any) -> Request:
    """The sample's kernel as the user gets it."""
    return sample(workload.spec, **workload.params)


def contestants(
    names: dict[str, Requested], workloads: Sequence[Any], folder: Path, options: argparse.Namespace, seed: int
) -> list[Tilegen]:
    """Build the kernels of every named contestant for every workload, and find those that do not survive a launch."""
    pairs = [(r, w) for request in names.values() for w in workloads if (r := request(w)) is not None]
    paths = compile_all((request for request, _ in pairs), folder)
    for request, path in paths.items():
        say(f"{request.label}: {read(path).summary()}")
    broken = {} if options.no_probe else probed(pairs, paths, seed)
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


def finished(report: Report, names: Sequence[str]) -> int:
    """The exit code: 1 where one of these did not compete somewhere, so that a log that nobody reads fails."""
    missing = [(c.workload.label, n) for c in report.cells for n in names if not c.samples.get(n)]
    for label, name in missing:
        print(f"{name} was not timed on {label}", file=sys.stderr)
    return 1 if missing else 0


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tilegen-benchmark-", ignore_cleanup_errors=True)
