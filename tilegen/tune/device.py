"""What a search does on the GPU, in a process that a kernel may hang or break: one case, many kernels of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.bench import machine
from tilegen.bench.builds import read
from tilegen.bench.gpu_worker import finish
from tilegen.bench.rounds import Launch, Look, Sample, without_torch
from tilegen.ir.dtypes import DType
from tilegen.ir.tile import TileProgram
from tilegen.oracle import poisoned, random_inputs
from tilegen.runtime.device_memory import DeviceArray
from tilegen.sema.loading import load
from tilegen.syntax.span import Source

Array = npt.NDArray[Any]
# What two right kernels may differ by where a spec rounds to this type: of the output's norm, and of an element beside
# its own size and the output's root mean square.
ALLOWED = {DType.F32: (1e-4, 1e-2), DType.F16: (1e-3, 5e-2), DType.BF16: (6e-3, 1e-1)}


@dataclass
class _Case:
    """arrays: of all tensors, on the GPU · numbers: dense sizes and scalars · wanted: the first kernel's outputs."""

    program: TileProgram
    arrays: dict[str, DeviceArray]
    empty: dict[str, Array]
    numbers: dict[str, int | float]
    look: Look
    wanted: dict[str, Array] = field(default_factory=dict)
    launches: dict[str, Launch] = field(default_factory=dict)


_CASE: list[_Case] = []


def begin(
    source: Source,
    params: Mapping[str, str],
    sizes: Mapping[str, int | list[int]],
    scalars: Mapping[str, float],
    seed: int,
) -> None:
    """Make the case's arrays: random inputs, as they are every time for one seed."""
    program = load(source, params)
    empty = poisoned(program, sizes)
    arrays = {name: DeviceArray(a) for name, a in {**random_inputs(program, sizes, seed), **empty}.items()}
    dense = {name: value for name, value in sizes.items() if isinstance(value, int)}
    _CASE[:] = [_Case(program, arrays, empty, {**dense, **scalars}, machine.reader())]


def check(build: str, limit: float) -> float:
    """Launch a build's kernel once, on poisoned outputs, and hold them against those of the first that was checked: how
    far they are apart, of their norm. Raises AssertionError in words for more than is allowed, HangError after `limit`
    seconds."""
    (case,) = _CASE
    got = _outputs(build, case, case.empty, limit)
    if not case.wanted:
        again = _outputs(build, case, {name: np.ones_like(a) for name, a in case.empty.items()}, limit)
        unwritten = [name for name, a in got.items() if a.tobytes() != again[name].tobytes()]
        assert not unwritten, f"{', '.join(unwritten)} is not written everywhere, or not the same every time"
        case.wanted = got
    allowed = _allowed(case.program)
    return max((distance(name, got[name], case.wanted[name], *allowed) for name in got), default=0.0)


def _outputs(build: str, case: _Case, before: Mapping[str, Array], limit: float) -> dict[str, Array]:
    launch = _launch(build, case)
    for name, array in before.items():
        case.arrays[name].write(array)
    launch()
    finish("one launch", limit)
    return {name: case.arrays[name].numpy() for name in before}


def _allowed(program: TileProgram) -> tuple[float, float]:
    """By the roughest type of a tensor: casts are written to the types of tensors."""
    return max(ALLOWED[t.dtype] for t in program.tensors if t.dtype in ALLOWED)


def distance(name: str, got: Array, want: Array, of_norm: float, of_element: float) -> float:
    """How far apart, of the norm. Raises AssertionError for more than is allowed of the norm or of an element, and for
    what is infinite or no number in one of them alone."""
    if got.tobytes() == want.tobytes():
        return 0.0
    a, b = got.astype(np.float32).ravel(), want.astype(np.float32).ravel()
    finite = np.isfinite(b)
    odd = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b))) | finite & ~np.isfinite(a)
    assert not odd.any(), f"{name} is {a[odd][0]} in place of {b[odd][0]} in {int(odd.sum())} of {odd.size} places"
    a, b = a[finite], b[finite]
    away = np.abs(a - b)
    norm = float(np.sqrt(np.square(b, dtype=np.float64).sum()))
    found = float(np.sqrt(np.square(away, dtype=np.float64).sum())) / (norm or 1.0)
    assert found <= of_norm, f"{name} is off by {found:.1e} of its norm; two right kernels differ by {of_norm:.0e}"
    rough = away > of_element * (np.abs(b) + norm / max(1.0, b.size**0.5))
    assert not rough.any(), (
        f"{name} is {a[rough][0]:.6g} in place of {b[rough][0]:.6g}, and so in {int(rough.sum())} places"
    )
    return found


def measure(build: str, warm_ms: float, measure_ms: float) -> Sample:
    """The median time of a launch after a warm-up of the same kernel, with clock and power meanwhile."""
    (case,) = _CASE
    return without_torch(_launch(build, case), case.look, warm_ms, measure_ms)


def _launch(build: str, case: _Case) -> Launch:
    if build not in case.launches:
        case.launches[build] = read(build).kernel().prepare(**case.arrays, **case.numbers)
    return case.launches[build]
