"""Runs a kernel."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence

import numpy as np

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.emulate.memory import GlobalMemory
from tilegen.emulate.ptx.cluster import Cluster
from tilegen.emulate.ptx.machine import Machine
from tilegen.emulate.ptx.module import Module
from tilegen.emulate.ptx.report import Report
from tilegen.emulate.ptx.watch.context import Context

STEP_LIMIT = 100_000_000

_Triple = tuple[int, int, int]


def launch(
    module: Module,
    entry: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: Sequence[bytes],
    memory: GlobalMemory,
    shared_bytes: int,
    *,
    step_limit: int = STEP_LIMIT,
    watch: Context | None = None,
    seed: int | None = None,
) -> Report:
    """Run kernel `entry`: `grid` CTAs of `block` threads, one CTA or cluster after another, x fastest.

    `args` are the raw bytes of each kernel parameter in order; `shared_bytes` the dynamic shared memory. `watch`:
    report what the hardware leaves undefined, in these terms. `seed`: engines finish, and warps run, when it says so;
    without one everything completes when it is issued.

    Raises TilegenError for a launch that the kernel does not allow, for a fault (bad address, barrier misuse, …), for a
    hang, and for more than `step_limit` steps.
    """
    function = module.functions.get(entry)
    if function is None or not function.entry:
        kernels = ", ".join(f.name for f in module.functions.values() if f.entry) or "none"
        fail(Code.EMULATED_LAUNCH, None, what=f"the module has no kernel {entry} (it has: {kernels})")
    threads = block[0] * block[1] * block[2]
    if not 1 <= threads <= (function.max_threads or 1024):
        fail(
            Code.EMULATED_LAUNCH,
            None,
            what=f"{entry} is launched with {threads} threads, it allows 1 to {function.max_threads or 1024}",
        )
    if any(n % c for n, c in zip(grid, function.cluster, strict=True)):
        fail(Code.EMULATED_LAUNCH, None, what=f"a grid of {grid} holds no whole number of clusters {function.cluster}")
    started = time.perf_counter()
    rng = None if seed is None else random.Random(seed)
    machine = Machine(module, function, grid, block, args, memory, shared_bytes, step_limit, watch, rng)
    with np.errstate(all="ignore"):
        for indices in _clusters(grid, function.cluster):
            machine.start(indices)
            cluster = Cluster(machine, indices)
            if machine.watch is not None:
                machine.watch.begin(cluster)
            cluster.run()
    if machine.watch is not None:
        machine.watch.outputs.judge()
    return Report(
        dict(machine.program.counts()),
        dict(machine.tma_loads),
        dict(machine.tma_stores),
        time.perf_counter() - started,
        machine.steps,
    )


def _clusters(grid: _Triple, cluster: _Triple) -> Iterator[list[_Triple]]:
    """The CTAs of each cluster, by rank."""
    for z, y, x in itertools.product(*(range(0, n, c) for n, c in zip(grid[::-1], cluster[::-1], strict=True))):
        inside = itertools.product(*(range(c) for c in reversed(cluster)))
        yield [(x + dx, y + dy, z + dz) for dz, dy, dx in inside]
