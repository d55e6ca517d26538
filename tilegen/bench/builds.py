"""Many kernels compiled at once in processes of their own, as files that any process loads in milliseconds."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tilegen.diagnostics.core import TilegenError
from tilegen.ir.variants import file_stem
from tilegen.passes.pipeline import lower_all, program_of
from tilegen.runtime.compiler import compile_plan, plan_spec
from tilegen.runtime.kernel import Kernel
from tilegen.runtime.variants import Variant
from tilegen.sema.loading import load
from tilegen.syntax.reading import read_source
from tilegen.syntax.span import Source
from tilegen.targets.hopper.build import Built, build


@dataclass(frozen=True)
class Request:
    """What to compile: a path or a spec's text, and the kernel's parameters. `gated`: faults of the machine code are
    errors, as for everybody; otherwise they are only listed, so that a schedule can be timed all the same."""

    spec: str
    params: tuple[tuple[str, Any], ...] = ()
    gated: bool = True
    target: str = "hopper"

    @property
    def label(self) -> str:
        name = "spec" if "{" in self.spec else Path(self.spec).stem
        where = [] if self.target == "hopper" else [self.target]
        return " ".join([name, *(f"{key}={value}" for key, value in self.params), *where])


@dataclass(frozen=True)
class Build:
    """A request's outcome: the kernel's parts, `artefacts` one a variant, or `error`. `gates`: the codes of what its
    machine code breaks."""

    request: Request
    program: Any = None
    artefacts: tuple[Built, ...] = ()
    gates: tuple[str, ...] = ()
    error: Exception | None = None

    def kernel(self) -> Kernel:
        """Raises the error of the compilation."""
        if self.error is not None:
            raise self.error
        assert self.artefacts, "a build has a kernel or an error"
        return Kernel(self.program, [Variant.of(built) for built in self.artefacts])

    def summary(self) -> str:
        """Registers, spills, compile time and what is not as planned, or the error, on one line."""
        if not self.artefacts:
            return " ".join(str(self.error).split())[:400]
        told = " | ".join(map(_told, self.artefacts))
        return told + (f"; not as planned: {', '.join(self.gates)}" if self.gates else "")


def _told(built: Built) -> str:
    usage = built.usage
    spills = usage.spill_store_bytes + usage.spill_load_bytes
    return f"{usage.registers} registers at entry, {spills} bytes spilled, {built.seconds:.1f} s in NVRTC"


def compile_one(request: Request) -> Build:
    """Compile here and now. A fault of the spec or of the compiler is kept in the build, not raised."""
    try:
        source = Source("<text>", request.spec) if "{" in request.spec else read_source(request.spec)
        params = dict(request.params)
        if request.gated:
            program, plans = plan_spec(source, params, request.target)
            artefacts = tuple(
                compile_plan(plan, file_stem(plans, n), program_of(program, request.target, n))
                for n, plan in enumerate(plans)
            )
        else:
            program = load(source, params)
            artefacts = tuple(map(build, lower_all(program, request.target)))
    except Exception as e:
        return Build(request, error=_portable(e))
    gates = {fault.code for built in artefacts for fault in built.diagnostics}
    return Build(request, program, artefacts, tuple(sorted(gates)))


def _portable(e: Exception) -> Exception:
    """The exception, or one that says the same and travels between processes."""
    if isinstance(e, TilegenError):
        return e
    return RuntimeError(f"{type(e).__name__}: {e}")


def compile_each(
    requests: Iterable[Request], folder: Path, processes: int | None = None, until: float = inf
) -> Iterator[tuple[Request, Path]]:
    """Compile in parallel, in the order in which they are done; each outcome becomes a file in `folder` for `read`. One
    that is there is kept. They are begun in their order, and none but the first after `until`, on the monotonic clock;
    those that were begun come all."""
    wanted = []
    for request in dict.fromkeys(requests):
        path = folder / _file_name(request)
        if path.exists():
            yield request, path
        else:
            wanted.append(request)
    alone = False
    while wanted:
        now = wanted[:1] if alone else wanted
        for request, built in _compiled(now, processes, until):
            if built is None:  # a process died and took the others' work with it: each by itself
                if alone:
                    built = Build(request, error=RuntimeError("the process that compiled it died"))
                else:
                    alone = True
                    break
            wanted.remove(request)
            path = folder / _file_name(request)
            path.write_bytes(pickle.dumps(built))
            yield request, path
        if time.monotonic() > until:
            return


def _compiled(requests: list[Request], processes: int | None, until: float) -> Iterator[tuple[Request, Build | None]]:
    """What came of each that was begun; None where the process died."""
    count = min(len(requests), processes or os.cpu_count() or 1)
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"))
    waiting, jobs = deque(requests), dict[Future[Build], Request]()
    try:
        while waiting or jobs:
            for request in [waiting.popleft() for _ in range(min(len(waiting), count - len(jobs)))]:
                jobs[pool.submit(compile_one, request)] = request
            for job in wait(jobs, return_when=FIRST_COMPLETED).done:
                request = jobs.pop(job)
                try:
                    yield request, job.result()
                except BrokenProcessPool:
                    yield request, None
            if time.monotonic() > until:
                waiting.clear()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def compile_all(requests: Iterable[Request], folder: Path, processes: int | None = None) -> dict[Request, Path]:
    """The files of all requests, compiled in parallel where they are not there yet."""
    requests = list(requests)
    paths = dict(compile_each(requests, folder, processes))
    return {request: paths[request] for request in requests}


def _file_name(request: Request) -> str:
    readable = re.sub(r"[^\w.=]+", "-", request.label)
    return f"{readable}-{hashlib.sha256(repr(request).encode()).hexdigest()[:12]}.build"


def read(path: str | Path) -> Build:
    """A build that `compile_all` wrote."""
    built = pickle.loads(Path(path).read_bytes())
    assert isinstance(built, Build)
    return built
