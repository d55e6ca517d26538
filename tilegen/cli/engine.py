"""Where `tilegen run` runs a kernel: on the GPU, or its PTX in the emulator."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy.typing as npt

from tilegen.ir.machines import MACHINES
from tilegen.runtime import driver
from tilegen.runtime.device_memory import DeviceArray, seconds_on_gpu
from tilegen.runtime.kernel import Kernel

Array = npt.NDArray[Any]
LAUNCHES = 20  # timed on a GPU


@dataclass(frozen=True)
class Outcome:
    """What a kernel wrote, and how long it took: in words, since the two engines' times do not compare."""

    outputs: dict[str, Array]
    time: str


def gpu(target: str = "hopper") -> driver.DeviceInfo | None:
    """The GPU to run on, or None where there is none that runs this target's code."""
    info = driver.device_info(0) if driver.available() else None
    return info if info is not None and MACHINES[target].has(info.capability) else None


def run_kernel(
    kernel: Kernel,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    numbers: Mapping[str, int | float],
    on_gpu: bool,
    times: int | None,
) -> Outcome:
    """Run a kernel once on copies of these arrays; the outputs hold what was in them where it writes nothing.

    On a GPU it runs LAUNCHES times more, for the time. In the emulator it is watched, and engines take their time by
    the seed `times`; neither where that is None. `numbers`: sizes and scalars.
    """
    if not on_gpu:
        written = {name: array.copy() for name, array in outputs.items()}
        started = time.perf_counter()
        kernel.emulate({**inputs, **written, **numbers}, watch=times is not None, seed=times)
        return Outcome(written, f"{time.perf_counter() - started:.2f} s in the emulator")
    device = {name: DeviceArray(array) for name, array in {**inputs, **outputs}.items()}
    launch = kernel.prepare(**device, **numbers)
    launch()
    written = {name: device[name].numpy() for name in outputs}
    seconds = median(seconds_on_gpu(launch, LAUNCHES))
    return Outcome(written, f"{seconds * 1e6:.1f} µs on the GPU (median of {LAUNCHES} launches)")
