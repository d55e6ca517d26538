"""Times providers against each other: in rounds, interleaved, in an order in which everybody follows everybody."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from tilegen.bench.watchdog import watchdog
from tilegen.runtime.device_memory import seconds_on_gpu

Launch = Callable[[], Any]
Look = Callable[[], tuple[int | None, float | None]]  # MHz of the multiprocessors, watts
STUCK = 60.0  # seconds that no measurement takes


@dataclass(frozen=True)
class Sample:
    """One provider's turn in one round: median milliseconds a launch, and the GPU while it ran (None: not known)."""

    milliseconds: float
    clock_mhz: int | None = None
    watts: float | None = None
    round: int = 0


@dataclass
class Cell:
    """One workload: who competes and what was measured. `absent`: why a provider does not compete. `errors`: how far
    its result is from the exact one. `flops`: of a provider that does other work than the workload."""

    workload: Any
    launches: dict[str, Launch] = field(default_factory=dict)
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    errors: dict[str, dict[str, float]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    flops: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Elsewhere:
    """A launch on a stream that torch does not know: `wait` waits for what `launch` returned."""

    launch: Launch
    wait: Callable[[Any], object]

    def __call__(self) -> Any:
        return self.launch()


def order(count: int, number: int) -> list[int]:
    """Who runs when in round `number`: rows of a Williams design. In `count` rounds (twice that, if odd) everybody
    comes right after everybody else equally often."""
    zigzag = [0][:count]
    for step in range(1, count):
        zigzag.append((zigzag[-1] + (step if step % 2 else -step)) % count)
    row = [(place + number) % count for place in zigzag]
    return row[::-1] if count % 2 and number // count % 2 else row


def measure(launch: Launch, look: Look, warm_ms: float, ms: float) -> Sample:
    """Median time of `launch` by CUDA events, after at least `warm_ms` of itself: a lighter kernel just before, or an
    idle GPU, flatters the next one. `look` reads clock and power while the launches run."""
    if isinstance(launch, Elsewhere):
        return by_the_clock(launch, look, warm_ms, ms)
    import torch

    def event() -> Any:
        return torch.cuda.Event(enable_timing=True)

    start, stop = event(), event()
    start.record()
    for _ in range(3):
        launch()
    stop.record()
    torch.cuda.synchronize()
    one = max(1e-3, start.elapsed_time(stop) / 3)
    for _ in range(int(warm_ms / one) + 1):
        launch()
    pairs = []
    for _ in range(max(5, int(ms / one) + 1)):
        before, after = event(), event()
        before.record()
        launch()
        after.record()
        pairs.append((before, after))
    pairs[len(pairs) // 2][0].synchronize()  # the GPU is in the midst of it
    clock, watts = look()
    torch.cuda.synchronize()
    return Sample(median(before.elapsed_time(after) for before, after in pairs), clock, watts)


def without_torch(launch: Launch, look: Look, warm_ms: float, ms: float) -> Sample:
    """`measure` for a launch on the default stream, by the driver's own events."""
    one = max(1e-6, median(seconds_on_gpu(launch, 3)))
    seconds_on_gpu(launch, int(warm_ms / 1e3 / one) + 1)
    times = seconds_on_gpu(launch, max(5, int(ms / 1e3 / one) + 1))
    return Sample(median(times) * 1e3, *look())


def by_the_clock(
    launch: Elsewhere, look: Look, warm_ms: float, ms: float, now: Callable[[], float] = time.perf_counter
) -> Sample:
    """Median over five batches of launches, each timed from the first launch to the end of the last."""
    seen: list[tuple[int | None, float | None]] = []

    def batch(count: int) -> float:
        began = now()
        for _ in range(count):
            last = launch()
        seen.append(look())
        launch.wait(last)
        return (now() - began) * 1e3 / count

    batch(1)  # compiles
    one = max(1e-3, batch(3))
    batch(int(warm_ms / one) + 1)
    times = [batch(int(ms / one / 5) + 1) for _ in range(5)]
    return Sample(median(times), *seen[-1])


def run_rounds(
    cells: Sequence[Cell],
    rounds: int,
    deadline: float,
    measured: Callable[[Launch], Sample],
    after_round: Callable[[int], None],
    now: Callable[[], float] = time.monotonic,
) -> int:
    """Every round visits every cell. A round that would end after `deadline` is not begun (the first one always is,
    and stops between cells), so that all cells have as many. The number of whole rounds."""
    longest = 0.0
    for number in range(rounds):
        began = now()
        if number and began + longest > deadline:
            return number
        for cell in cells:
            if now() > deadline:
                return number
            _visit(cell, number, measured)
        longest = max(longest, now() - began)
        after_round(number + 1)
    return rounds


def _visit(cell: Cell, number: int, measured: Callable[[Launch], Sample]) -> None:
    names = list(cell.launches)
    for place in order(len(names), number):
        name = names[place]
        with watchdog(f"{name} on {cell.workload.label}", STUCK):
            sample = replace(measured(cell.launches[name]), round=number)
        cell.samples.setdefault(name, []).append(sample)
