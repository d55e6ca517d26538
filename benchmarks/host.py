"""What the host spends: on a prepared launch, on a call, on the way from a spec to a cubin in a fresh process, and on
the static checks of all plans that a spec is compiled to.

    python benchmarks/host.py
    python benchmarks/host.py --stand-in        without a GPU: launches and tensors are stand-ins, so that what is left
                                                is tilegen's own part

Launches are small, so that the GPU keeps up, and timed in batches; a process's time is that from its start to its end,
and the checks' that of the processor, in a fresh process too.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.builds import ROOT, SAMPLES
from benchmarks.stand_in import installed
from tilegen.bench.machine import facts, host_facts, processor_facts
from tilegen.bench.report import aligned
from tilegen.runtime import driver
from tilegen.runtime.direct import AFTER
from tilegen.runtime.graphs import made
from tilegen.runtime.recent import MOST

RESULTS = ROOT / "benchmarks" / "results"
SHAPE = (1, 64, 2, 128)  # batch, length, heads, head size
BATCH = 50  # launches between two looks at the clock: a GPU's queue holds more
FEW, MANY = 64, 2 * MOST  # outputs that calls take in turn: launches that are all kept, and none of them


@dataclass(frozen=True)
class Row:
    """One thing measured: the median, the least and the most of its times, in `unit`."""

    what: str
    unit: str
    median: float
    least: float
    most: float
    times: int

    @staticmethod
    def of(what: str, unit: str, times: list[float]) -> Row:
        return Row(what, unit, median(times), min(times), max(times), len(times))


# ---- launches ------------------------------------------------------------------------------------


def launches(torch: Any, synchronise: Callable[[], object], batches: int) -> Iterator[Row]:
    """µs of host time. torch: the module, or what stands in for it."""
    import tilegen

    place = torch.device("cuda:0")

    def tensor(shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.empty(shape, dtype=dtype, device=place)

    k = tilegen.compile(SAMPLES / "fa3_fwd.tile")
    (b, s, h, _), half, single = SHAPE, torch.bfloat16, torch.float32
    q, keys, v, o = (tensor(SHAPE, half) for _ in range(4))
    lse = tensor((b, h, s), single)
    for t in (q, keys, v):
        t.zero_()
    prepared = k.prepare(Q=q, K=keys, V=v, O=o, LSE=lse)
    few, many = (cycle([tensor(SHAPE, half) for _ in range(count)]) for count in (FEW, MANY))
    cases: Mapping[str, Callable[[], object]] = {
        "prepared launch": prepared,
        "call, outputs given": lambda: k(Q=q, K=keys, V=v, O=o, LSE=lse),
        "call, outputs made": lambda: k(Q=q, K=keys, V=v),
        f"call, {FEW} outputs in turn": lambda: k(Q=q, K=keys, V=v, O=next(few), LSE=lse),
        "call, an output at a new address": lambda: k(Q=q, K=keys, V=v, O=next(many), LSE=lse),
        "the outputs' torch.empty alone": lambda: (tensor(SHAPE, half), tensor((b, h, s), single)),
    }
    for what, run in cases.items():
        yield _timed(what, run, synchronise, batches)
    synchronise()


def _timed(what: str, run: Callable[[], object], synchronise: Callable[[], object], batches: int) -> Row:
    """µs of host time."""
    for _ in range((AFTER + 1) * FEW):  # until each of those that are taken in turn has its graph
        run()
    times = []
    for _ in range(batches):
        synchronise()
        start = time.perf_counter()
        for _ in range(BATCH):
            run()
        times.append((time.perf_counter() - start) / BATCH * 1e6)
    return Row.of(what, "µs", times)


_EMPTY = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n\0"


def the_drivers(synchronise: Callable[[], object], batches: int) -> Iterator[Row]:
    """µs of host time that the driver itself takes, by its own functions: what bounds a launch."""
    kernel, library = driver.load(_EMPTY, "empty", 0, 32, 0), ctypes.CDLL(driver.LIBRARY)
    stream, no_arguments = ctypes.c_void_p(), ctypes.c_void_p()
    with driver.current(0):
        plain = partial(library.cuLaunchKernel, ctypes.c_void_p(kernel.function), 1, 1, 1, 32, 1, 1, 0, stream)
        graph = partial(library.cuGraphLaunch, made(kernel, 1, ctypes.addressof(no_arguments)), stream)
        assert not plain(None, None) and not graph()
        yield _timed("the driver's launch of an empty kernel alone", lambda: plain(None, None), synchronise, batches)
        yield _timed("the driver's launch of a graph of it alone", graph, synchronise, batches)
        synchronise()


# ---- compilations --------------------------------------------------------------------------------


# What a process does: the last variant's cubin, of a kernel that has several.
_PROGRAM = """
import sys
from pathlib import Path
from tilegen.runtime.compilation import compile_source
from tilegen.syntax.reading import read_source

done = compile_source(read_source(Path(sys.argv[1])), dict(pair.split("=") for pair in sys.argv[2:]))
built = done.variants[-1].built
print(built.seconds, done.cached, len(built.cubin))
"""


def compilations(specs: Mapping[str, tuple[str, ...]], runs: int) -> Iterator[Row]:
    """Seconds of fresh processes that make the cubin of a spec, or have it from the cache.

    "Cold" is a spec that the cache lacks, though others are there; "first" has an empty cache, and makes the tables of
    grammar and templates too. Python's own bytecode is there in all, as an installer leaves it.
    specs: label → the sample's name and the values of its parameters.
    """
    for label, (name, *values) in specs.items():
        arguments = [str(SAMPLES / f"{name}.tile"), *values]
        with tempfile.TemporaryDirectory(prefix="tilegen-host-") as temporary:
            folder = Path(temporary)
            _process(arguments, folder / "cache")
            first = [_process(arguments, folder / str(n)) for n in range(runs)]
            cold = [_process([_changed(name, n, folder), *values], folder / "cache") for n in range(runs)]
            cached = [_process(arguments, folder / "cache") for _ in range(runs)]
        assert not any(found for _, _, found in (*first, *cold)) and all(found for _, _, found in cached)
        yield Row.of(f"{label}, cold", "s", [seconds for seconds, _, _ in cold])
        yield Row.of(f"{label}, cold: of which NVRTC", "s", [nvrtc for _, nvrtc, _ in cold])
        yield Row.of(f"{label}, first of all", "s", [seconds for seconds, _, _ in first])
        yield Row.of(f"{label}, from the cache", "s", [seconds for seconds, _, _ in cached])


def _changed(name: str, number: int, folder: Path) -> str:
    """A spec that differs from the sample, and from those of other numbers, by a comment."""
    path = folder / f"{name}_{number}.tile"
    path.write_text((SAMPLES / f"{name}.tile").read_text(encoding="utf-8") + f"# {number}\n", encoding="utf-8")
    return str(path)


def _process(arguments: list[str], cache: Path) -> tuple[float, float, bool]:
    """Seconds that it takes, those that NVRTC took when it made this, and whether it came from the cache."""
    start = time.perf_counter()
    printed = _output(_PROGRAM, arguments, str(cache))
    seconds = time.perf_counter() - start
    nvrtc, cached, size = printed.split()
    assert int(size)
    return seconds, float(nvrtc), cached == "True"


def _output(program: str, arguments: list[str], cache: str) -> str:
    """What a fresh process prints that runs this program."""
    paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    known = {**os.environ, "TILEGEN_CACHE": cache, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    known.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=known, capture_output=True, text=True, check=True).stdout


# ---- checks --------------------------------------------------------------------------------------


# What a process does: every check that precedes machine code, on all plans of a spec, which are right.
_CHECKS = """
import sys
import time
from pathlib import Path
from tilegen.checks import resources
from tilegen.checks.movement.check import check_movement
from tilegen.checks.trials import check_all
from tilegen.ir.plan_verify import verify
from tilegen.passes.pipeline import lower_all, program_of
from tilegen.sema import load

program = load(Path(sys.argv[1]), dict(pair.split("=") for pair in sys.argv[2:]))
plans = lower_all(program)
start = time.process_time()
for number, plan in enumerate(plans):
    verify(plan)
    declared = program_of(program, "hopper", number)
    found = [*resources.check(plan), *check_all(plan), *check_movement(plan, declared).diagnostics]
    assert not found, found
print(time.process_time() - start, len(plans))
"""


def checks(specs: Mapping[str, tuple[str, ...]], runs: int) -> Iterator[Row]:
    """Seconds of a processor that all static checks of all plans take together, in fresh processes. specs: as above."""
    for label, (name, *values) in specs.items():
        done = [_output(_CHECKS, [str(SAMPLES / f"{name}.tile"), *values], "off").split() for _ in range(runs)]
        yield Row.of(f"{label}, checks of {done[0][1]} plans (CPU)", "s", [float(seconds) for seconds, _ in done])


# ---- the record ----------------------------------------------------------------------------------


def report(machine: Mapping[str, str], rows: list[Row], folder: Path) -> list[str]:
    """The table, as lines for a terminal; written as JSON and Markdown."""
    table = [["", "median", "least", "most", "times"]]
    for r in rows:
        digits = 2 if r.unit == "µs" else 3
        numbers = (f"{x:.{digits}f}" for x in (r.median, r.least, r.most))
        table.append([f"{r.what} ({r.unit})", *numbers, str(r.times)])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"host-{datetime.now(UTC):%Y-%m-%d-%H%M%S}"
    facts = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    lines.insert(1, "|" + "---|" * len(table[0]))
    text = f"# Host time\n\n{facts}\n\n" + "\n".join(lines) + "\n"
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    data = {"title": "Host time", "machine": dict(machine), "rows": [asdict(r) for r in rows]}
    path.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return [*aligned(table), f"wrote {path}.json and .md"]


@contextmanager
def device(stand_in: bool) -> Iterator[tuple[Any, Callable[[], object], dict[str, str]]]:
    """torch, a wait for the GPU, and what is known of the machine."""
    if stand_in:
        known = host_facts()
        with installed() as (torch, _):
            yield torch, lambda: None, {"gpu": "none: torch and the driver are stand-ins", **known}
        return
    import torch

    yield torch, torch.cuda.synchronize, {**facts(), **processor_facts()}


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description="Times the host's part of launches, compilations and checks.")
    p.add_argument("--stand-in", action="store_true", help="without a GPU: what tilegen itself takes")
    p.add_argument("--batches", type=int, default=200, help=f"of {BATCH} launches, a case")
    p.add_argument("--runs", type=int, default=7, help="fresh processes, a case; 0 leaves compilations and checks out")
    p.add_argument("-D", nargs="+", type=int, default=[128], metavar="SIZE", help="head sizes to compile")
    p.add_argument("--out", type=Path, default=RESULTS, help="where the JSON and the Markdown go")
    options = p.parse_args(arguments)
    specs = {f"fa3_fwd D={D}": ("fa3_fwd", f"D={D}") for D in options.D}
    with device(options.stand_in) as (torch, synchronise, machine):
        gc.disable()  # a collection in one batch and not in another would be noise
        rows = list(launches(torch, synchronise, options.batches))
        if not options.stand_in:
            rows += the_drivers(synchronise, options.batches)
        gc.enable()
    if options.runs:
        rows += [*compilations(specs, options.runs), *checks(specs, options.runs)]
    print("\n".join(report(machine, rows, options.out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
