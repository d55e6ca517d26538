"""`tilegen bench`: a spec timed on the GPU beside its peers, or one of tilegen's own benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import click

from tilegen.bench import machine
from tilegen.bench.contest import Settings, compete
from tilegen.bench.peers import Prepared, Provider
from tilegen.bench.rounds import Sample, without_torch
from tilegen.bench.suites import SUITES, counterpart, peers_of
from tilegen.cli.compile import choose, plan_spec
from tilegen.cli.console import stdout, table
from tilegen.cli.engine import gpu
from tilegen.cli.memory import within_memory
from tilegen.cli.run import arguments, dense
from tilegen.cli.usage import wrong_usage
from tilegen.cli.values import Parameters, Sizes, Wanted
from tilegen.oracle import poisoned, random_inputs
from tilegen.resources import resource
from tilegen.runtime.compilation import compile_source
from tilegen.runtime.device_memory import DeviceArray
from tilegen.runtime.kernel import Kernel
from tilegen.syntax.reading import read_source

WARM_MS, MEASURE_MS = 80.0, 110.0  # before each measurement, and of it


@dataclass(frozen=True)
class Asked:
    """budget: seconds in all · folder: where the report goes."""

    rounds: int
    budget: float
    flex: bool
    folder: Path | None
    seed: int

    def settings(self) -> Settings:
        deadline = time.monotonic() + self.budget
        return Settings(self.rounds, WARM_MS, MEASURE_MS, deadline, self.folder, self.seed)


def bench_command(wanted: Wanted, given: Sizes, only: Parameters, asked: Asked) -> None:
    """Fails with BAD_USAGE where there is no Hopper GPU, and with exit code 1 where a result is wrong."""
    if gpu() is None:
        wrong_usage("there is no Hopper GPU here, and nothing else is worth timing", wanted="an H100 or H200")
    name = str(wanted.spec)
    if name in SUITES and not wanted.spec.exists():
        if given or wanted.parameters:
            wrong_usage(f"{name} has cells of its own: choose among them by --only", got="-D or --size")
        suite = SUITES[name]
        cells = _chosen(suite.cells(), only)
        kernel = cache(lambda w: _sample(w.spec, w.params, wanted))
        _contest(suite.title, name, cells, kernel, suite.peers(asked.flex), asked)
        return
    if only:
        wrong_usage("--only chooses cells of a named benchmark", got=name, wanted=" or ".join(SUITES))
    done, _ = plan_spec(wanted, given)
    sizes, scalars = arguments(done.program, given, wanted.target, small=False)
    chosen = choose(done, {**dense(sizes), **scalars})
    title = ", ".join(filter(None, (done.title, chosen.heading)))
    names = {s.name for s in done.program.scalars}
    workload = None if names & given.keys() else counterpart(done.program.name, dict(done.program.params), sizes)
    if workload is None:
        _alone(title, chosen.kernel, sizes, scalars, asked)
    else:
        peers = peers_of(workload, asked.flex)
        _contest(title, done.program.name, [workload], lambda _: chosen.kernel, peers, asked)


def _chosen(cells: Sequence[Any], only: Parameters) -> list[Any]:
    """The cells whose columns are so. Fails with BAD_USAGE where there are none."""
    chosen = [w for w in cells if all(w.columns.get(name) == value for name, value in only.items())]
    if not chosen:
        had = {name: dict.fromkeys(w.columns[name] for w in cells) for name in cells[0].columns}
        wanted = "; ".join(f"{name}: {', '.join(each)}" for name, each in had.items())
        wrong_usage("--only leaves no cell", got=", ".join(f"{n}={v}" for n, v in only.items()), wanted=wanted)
    return chosen


def _sample(name: str, params: Mapping[str, Any], wanted: Wanted) -> Kernel:
    source = read_source(resource("samples", f"{name}.tile"))
    return compile_source(source, params, wanted.target, wanted.use_cache).kernel()


def _contest(
    title: str, stem: str, cells: Sequence[Any], kernel: Callable[[Any], Kernel], peers: list[Provider], asked: Asked
) -> None:
    if find_spec("torch") is None:
        wrong_usage("the peers and their timing need torch, which is not installed", wanted="pip install torch")
    ours = Prepared("tilegen", kernel)

    def say(text: str) -> None:
        click.echo(text, err=True)

    report = compete(title, stem, cells, [ours, *peers], ours.name, asked.settings(), say)
    stdout().print(report.text(), markup=False)
    if any(not cell.samples.get(ours.name) for cell in report.cells):
        click.get_current_context().exit(1)


def _alone(
    title: str,
    kernel: Kernel,
    sizes: Mapping[str, int | list[int]],
    scalars: Mapping[str, float],
    asked: Asked,
) -> None:
    """Times of the kernel on random data, round by round, and the bytes of its arrays over them."""
    program = kernel.program
    with within_memory(program, sizes, scalars):
        inputs = random_inputs(program, sizes, asked.seed)
        made = poisoned(program, sizes)
    arrays = {name: DeviceArray(array) for name, array in {**inputs, **made}.items()}
    launch = kernel.prepare(**arrays, **dense(sizes), **scalars)
    look, deadline = machine.reader(), time.monotonic() + asked.budget
    samples: list[Sample] = []
    for _ in range(asked.rounds):
        if samples and time.monotonic() > deadline:
            break
        samples.append(without_torch(launch, look, WARM_MS, MEASURE_MS))
    times = [sample.milliseconds / 1e3 for sample in samples]
    moved = sum(prod(a.shape) * a.dtype.itemsize for a in arrays.values())
    best, middle, worst = min(times), median(times), max(times)
    out = stdout()
    out.print(title, style="bold", markup=False)
    out.print(
        ", ".join(f"{name}={value}".replace(" ", "") for name, value in {**sizes, **scalars}.items()), markup=False
    )
    row = [
        f"{middle * 1e6:.1f}",
        f"{best * 1e6:.1f}–{worst * 1e6:.1f}",
        f"{moved / middle / 1e9:.0f}",
        samples[-1].clock_mhz,
        samples[-1].watts,
    ]
    out.print(table(["µs", "least–most", "GB/s", "MHz", "W"], [["" if x is None else x for x in row]]))
    out.print(f"{len(times)} rounds, alone: no peer is known for it; `tilegen run` checks its results", markup=False)
