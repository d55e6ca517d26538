"""A search from candidates to the fastest: drawn, compiled in parallel, held against each other, timed in rounds."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tilegen.bench.builds import Build, Request, compile_each, read
from tilegen.bench.gpu_worker import CallFailedError, GpuWorker, WorkerDiedError
from tilegen.bench.rounds import Sample
from tilegen.diagnostics.catalogue import Code, fail
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.tile import TileProgram
from tilegen.oracle import Space as Extents
from tilegen.syntax.span import Source
from tilegen.tune.candidates import Candidate, planned, ranked
from tilegen.tune.halving import LostError, Standing, Turn, halve
from tilegen.tune.loops import spills_in_loops
from tilegen.tune.space import Space, space_of
from tilegen.tune.spelling import listed, place_for_schedule, with_schedule

SPILLS, COMPILER, LATE = "spills in a loop", "the compiler failed", "not reached in time"
WRONG, BROKEN, KEPT = "another result", "hangs or breaks the GPU", "timed"
PLANS = 8  # to be made in one process before another is worth starting
LAUNCH = 10.0  # seconds that no launch takes
SET_UP, CALL = 300.0, 90.0  # seconds that making the arrays, or one check or measurement, may take


class Watch(Protocol):
    """Who looks on: a stage begins, of so many steps where that is known, and each step ends in some way."""

    def stage(self, name: str, steps: int | None) -> object: ...
    def step(self, outcome: str) -> object: ...


@dataclass(frozen=True)
class Case:
    """What is searched: a spec, its parameters as given, and every size and scalar."""

    source: Source
    params: Mapping[str, str]
    program: TileProgram
    sizes: Mapping[str, int | list[int]]
    scalars: Mapping[str, float]
    target: str = "hopper"


@dataclass(frozen=True)
class Limits:
    """budget: candidates that are compiled · deadline: on the monotonic clock · processes: None for one a core."""

    budget: int
    deadline: float
    seed: int
    sms: int
    processes: int | None = None


@dataclass
class Tried:
    """One candidate and what became of it. build: its file · error: how far its result is from the first one's."""

    candidate: Candidate
    outcome: str = LATE
    why: str = ""
    build: str = ""
    error: float | None = None

    @property
    def schedule(self) -> str:
        return listed(self.candidate.directives)


@dataclass
class Search:
    """counts: how many candidates came to which end · standing: their times, once they ran."""

    space: Space
    tried: list[Tried] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    standing: Standing | None = None

    def timed(self) -> list[Tried]:
        """The fastest first."""
        assert self.standing is not None
        by = {t.build: t for t in self.tried}
        return [by[name] for name in self.standing.ranking()]

    def ready(self) -> list[Tried]:
        """Those that compiled as planned, in the order in which they were drawn."""
        return [t for t in self.tried if t.build]


def drawn(case: Case, limits: Limits, watch: Watch) -> Search:
    """The candidates that have a plan, the likely ones first. Raises TilegenError for a spec that no schedule mends."""
    search = Search(space_of(case.program, case.target))
    extents = _extents(case)

    def told(code: str) -> None:
        search.counts[code] += 1
        watch.step(code)

    watch.stage("drawing", None)
    candidates = ranked(search.space, extents, limits.sms, limits.seed, told)
    watch.stage("planning", limits.budget)
    processes = min(limits.processes or os.cpu_count() or 1, max(1, limits.budget // PLANS))
    for candidate in planned(search.space, candidates, limits.budget, told, processes):
        search.tried.append(Tried(candidate))
        watch.step("")
    return search


def _extents(case: Case) -> dict[str, int]:
    space = Extents.of(case.program, case.sizes, case.scalars)
    return {axis.name: space.extent(axis.name) for axis in case.program.axes}


def compile_them(case: Case, search: Search, folder: Path, limits: Limits, until: float, watch: Watch) -> None:
    """NVRTC and the gates for every candidate, in parallel; those that break one are out. Nothing is begun after
    `until`, on the monotonic clock, but what runs then counts: the own schedule, the first of all, always."""
    place = place_for_schedule(case.source, case.target)
    params = tuple(sorted(case.params.items()))
    asked = {Request(with_schedule(case.source, t.schedule, case.target, place).text, params): t for t in search.tried}
    watch.stage("compiling", len(asked))
    for request, path in compile_each(asked, folder, limits.processes, until):
        tried = asked[request]
        tried.outcome, tried.why = _judged(read(path))
        if not tried.outcome:
            tried.build = str(path)
        else:
            search.counts[tried.outcome] += 1
        watch.step(tried.outcome)
    search.counts.update(t.outcome for t in search.tried if t.outcome == LATE)


def _judged(built: Build) -> tuple[str, str]:
    """Why a build is out and that in words, or nothing."""
    if not built.artefacts:
        why = built.summary()
        return (built.error.diagnostics[0].code if isinstance(built.error, TilegenError) else COMPILER), why
    if spilt := sum(map(spills_in_loops, built.artefacts)):
        return SPILLS, f"{spilt} loads and stores of local memory in loops"
    return "", ""


# ---- on the GPU ------------------------------------------------------------------------------------


class Bench:
    """The case on the GPU, in a process that is replaced where a kernel hangs or breaks it."""

    def __init__(self, case: Case, seed: int) -> None:
        self._case, self._seed = case, seed
        self._worker = GpuWorker()
        self._begun = False
        self._first = ""  # the build whose result the others are held against

    def check(self, build: str) -> float:
        """How far a build's result is from the first one's. Raises LostError."""
        error = self._call("check", build, LAUNCH)
        assert isinstance(error, float)
        self._first = self._first or build
        return error

    def measure(self, build: str, turn: Turn) -> Sample:
        """Raises LostError."""
        sample = self._call("measure", build, turn.warm_ms, turn.measure_ms)
        assert isinstance(sample, Sample)
        return sample

    def close(self) -> None:
        self._worker.close()

    def _call(self, function: str, *args: object) -> object:
        self._begin()
        try:
            return self._worker.call(f"tilegen.tune.device:{function}", *args, limit=CALL)
        except WorkerDiedError as e:
            self._begun = False
            raise LostError(f"{BROKEN}: {_line(e)}") from None
        except CallFailedError as e:
            raise LostError(f"{WRONG}: {_line(e)}") from None

    def _begin(self) -> None:
        """Fails with TUNE_FAILED where even that cannot be."""
        if self._begun:
            return
        c = self._case
        try:
            args = (c.source, dict(c.params), dict(c.sizes), dict(c.scalars), self._seed)
            self._worker.call("tilegen.tune.device:begin", *args, limit=SET_UP)
            if self._first:
                self._worker.call("tilegen.tune.device:check", self._first, LAUNCH, limit=CALL)
        except (CallFailedError, WorkerDiedError) as e:
            fail(Code.TUNE_FAILED, c.program.span, kernel=c.program.name, reason=_line(e))
        self._begun = True


def _line(e: Exception) -> str:
    """The last line of what a process said, which names the exception."""
    return str(e).strip().splitlines()[-1][:300]


def time_them(case: Case, search: Search, limits: Limits, watch: Watch, bench: Bench | None = None) -> None:
    """Hold every build's result against the first one's, then find the fastest by halving. `search.standing` is in
    reference to the own schedule, or to the fastest where that does not run.

    Fails with TUNE_FAILED where nothing runs.
    """
    bench = bench or Bench(case, limits.seed)
    with closing(bench):
        right = _right(search, bench, limits, watch)
        if not right:
            reasons = [t.why for t in search.tried if t.why] or ["no schedule was found that compiles"]
            fail(Code.TUNE_FAILED, case.program.span, kernel=case.program.name, reason=reasons[0])
        own = next((t.build for t in right if t.candidate.own), right[0].build)

        def told(done: int, rounds: int) -> None:
            if done == 1:
                watch.stage("timing", rounds)
            watch.step("")

        watch.stage("timing", None)
        search.standing = halve([t.build for t in right], own, bench.measure, limits.deadline, told)
    by = {t.build: t for t in search.tried}
    for name, why in search.standing.lost.items():
        by[name].outcome, _, by[name].why = why.partition(": ")
    search.counts.update(t.outcome for t in right)


def _right(search: Search, bench: Bench, limits: Limits, watch: Watch) -> list[Tried]:
    ready = search.ready()
    watch.stage("checking", len(ready))
    right: list[Tried] = []
    for tried in ready:
        if right and time.monotonic() > limits.deadline:
            tried.outcome = LATE
            search.counts[LATE] += 1
            continue
        try:
            tried.error = bench.check(tried.build)
            tried.outcome = KEPT
            right.append(tried)
        except LostError as e:
            tried.outcome, _, tried.why = str(e).partition(": ")
            search.counts[tried.outcome] += 1
        watch.step("" if tried.outcome == KEPT else tried.outcome)
    return right
