"""`tilegen tune`: the fastest schedule of a spec at given sizes, searched on the GPU and kept."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tilegen.bench.machine import host_facts
from tilegen.cli.console import stdout, table
from tilegen.cli.engine import gpu
from tilegen.cli.memory import within_memory
from tilegen.cli.progress import Board
from tilegen.cli.publish import publish_file
from tilegen.cli.run import arguments
from tilegen.cli.usage import wrong_usage
from tilegen.cli.values import Sizes, Wanted
from tilegen.diagnostics.catalogue import Code, fail
from tilegen.runtime.driver import DeviceInfo
from tilegen.sema.loading import load
from tilegen.syntax.reading import read_source
from tilegen.tune import results, store
from tilegen.tune.search import Case, Limits, Search, Tried, compile_them, drawn, time_them

_COMPILING = 0.6  # of the time, where a GPU is to have the rest
_ROUNDS = 3  # full ones, for one schedule to be called faster than another
_SHOWN = 12  # schedules in the table
_SMS = 132  # of an H100 or H200, where there is none to ask


@dataclass(frozen=True)
class Asked:
    """budget: candidates to compile · seconds: in all · device: whether to time them · write: whether to print the
    winner as a statement · file: for everything that was found."""

    budget: int
    seconds: float
    seed: int
    device: bool
    write: bool
    file: Path | None


def tune_command(wanted: Wanted, given: Sizes, asked: Asked) -> None:
    """Fails with BAD_USAGE where there is no Hopper GPU and one is asked for."""
    began = time.monotonic()
    device = gpu() if asked.device else None
    if asked.device and device is None:
        wrong_usage("there is no Hopper GPU here to time schedules on", wanted="an H100 or H200, or --no-device")
    if asked.write and not asked.device:
        wrong_usage("--write prints the fastest schedule, and --no-device times none")
    source = read_source(wanted.spec)
    program = load(source, wanted.parameters)
    sizes, scalars = arguments(program, given, wanted.target, small=False)
    whole = {name: n for name, n in {**sizes, **scalars}.items() if isinstance(n, int)}
    program = program.variant(wanted.target, whole)
    case = Case(source, wanted.parameters, program, sizes, scalars, wanted.target)
    limits = Limits(asked.budget, began + asked.seconds, asked.seed, device.sm_count if device else _SMS)
    with (
        within_memory(program, sizes, scalars),
        tempfile.TemporaryDirectory(prefix="tilegen-tune-", ignore_cleanup_errors=True) as folder,
        Board() as board,
    ):
        search = drawn(case, limits, board)
        until = began + asked.seconds * (_COMPILING if device else 1.0)
        compile_them(case, search, Path(folder), limits, until, board)
        if device:
            time_them(case, search, limits, board)
    out = stdout()
    out.print(program.title, style="bold", markup=False)
    out.print(", ".join(f"{n}={v}".replace(" ", "") for n, v in {**sizes, **scalars}.items()), markup=False)
    if device:
        _print_times(out, search)
    else:
        _print_ready(out, search)
    _print_counts(out, search)
    if device:
        _keep(out, case, search, device, asked)
    if asked.file:
        settings = {"budget": asked.budget, "time": asked.seconds, "seed": asked.seed}
        machine = {"gpu": device.name if device else None, **host_facts()}
        told = results.data(case, search, machine, settings)
        publish_file(asked.file, (json.dumps(told, indent=1) + "\n").encode())


def _print_ready(out: Console, search: Search) -> None:
    """What would be timed, in the order in which it was drawn."""
    ready = search.ready()
    rows = [[round(t.candidate.estimate / 1e3), t.candidate.told] for t in ready]
    out.print(table(["estimate, 10³ cycles", "schedule"], rows))
    out.print(f"{len(ready)} schedules compile as planned and would be timed", markup=False)


def _print_times(out: Console, search: Search) -> None:
    """The fastest, and the spec's own wherever it stands."""
    standing, timed = search.standing, search.timed()
    assert standing is not None
    reference = "own" if any(t.candidate.own for t in timed) else "the first"
    rows: list[list[object]] = []
    for place, t in enumerate(timed, 1):
        if place > _SHOWN and not t.candidate.own:
            continue
        samples, counting = standing.samples[t.build], standing.counting(t.build)
        best = sorted(s.milliseconds for s in counting)[len(counting) // 2]
        ratio = standing.ratio(t.build)
        told = "–" if ratio is None else str(ratio)
        rows.append([place, f"{best * 1e3:.1f}", told, len(samples), f"{t.error or 0.0:.0e}", t.candidate.told])
    out.print(table(["", "µs", f"times as fast as {reference}", "rounds", "apart", "schedule"], rows))


def _print_counts(out: Console, search: Search) -> None:
    counts = ", ".join(f"{outcome} {n}" for outcome, n in search.counts.most_common() if n)
    if counts:
        out.print(f"what became of the candidates: {counts}", markup=False)


def _keep(out: Console, case: Case, search: Search, device: DeviceInfo, asked: Asked) -> None:
    """Keep the winner, say where it is, and print it if that is asked."""
    winner = best(search)
    if winner is None:
        told = f"fewer than {_ROUNDS} full rounds were run in this time; give more (--time), or fewer candidates"
        out.print(f"nothing is kept: {told}", markup=False)
        return
    kept = results.to_keep(case, search, winner, device.name)
    if kept is None:
        out.print("nothing is kept: tilegen's code changed since it was loaded", markup=False)
    else:
        try:
            out.print(f"kept in {store.keep(kept)}: `--tuned` builds with it", markup=False)
        except OSError as error:
            fail(Code.TUNED_STORE, None, folder=store.folder(), reason=error.strerror or str(error))
    if asked.write:
        out.print(results.to_paste(case, search, winner), markup=False)


def best(search: Search) -> Tried | None:
    """The first of the table, unless the spec's own schedule was as fast in one of the full rounds; None where these
    were too few to say."""
    first = search.timed()[0]
    own = next((t for t in search.timed() if t.candidate.own), None)
    assert search.standing is not None
    if len(search.standing.full) < _ROUNDS:
        return None
    ratio = search.standing.ratio(first.build)
    return own if own is not None and ratio is not None and ratio.low <= 1.0 else first


# ---- what is kept ----------------------------------------------------------------------------------


def list_command() -> None:
    """A line an entry: what it is for, how much it gained, and whether this tilegen would use it."""
    out, found, made = stdout(), store.everything(), store.made_with()
    if not found:
        out.print(f"{store.folder()}: no schedules are kept", markup=False)
        return
    rows = [
        [
            kept.title,
            kept.device,
            f"{kept.ratio:.3f}" if kept.ratio else "–",
            kept.when,
            "yes" if kept.made_with == made else "no: of another tilegen or NVRTC",
            kept.schedule,
        ]
        for _, kept in found
    ]
    out.print(table(["for", "GPU", "times as fast", "found", "used", "schedule"], rows))
    out.print(f"{store.folder()}: {len(found)} kept", markup=False)


def forget_command(kernel: str) -> None:
    """Remove what is kept for a kernel of this name, or for `all`."""
    try:
        count = store.forget(kernel=None if kernel == "all" else kernel)
    except OSError as error:
        fail(Code.TUNED_STORE, None, folder=store.folder(), reason=error.strerror or str(error))
    stdout().print(f"{store.folder()}: removed {count}", markup=False)
