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


@dataclass(frozen=True)
class Wanted:
    """An output of the first kernel. norm: of what is finite in it."""

    values: Array
    norm: float

    @staticmethod
    def of(values: Array) -> Wanted:
        numbers = values.astype(np.float32).ravel()
        finite = np.isfinite(numbers)
        return Wanted(values, _norm(numbers if finite.all() else numbers[finite]))


@dataclass
class _Case:
    """arrays: of all tensors, on the GPU · numbers: dense sizes and scalars · wanted: the first kernel's outputs."""

    program: TileProgram
    arrays: dict[str, DeviceArray]
    empty: dict[str, Array]
    numbers: dict[str, int | float]
    look: Look
    wanted: dict[str, Wanted] = field(default_factory=dict)
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
        unwritten = [name for name, a in got.items() if _differing(a, again[name]).size]
        assert not unwritten, f"{', '.join(unwritten)} is not written everywhere, or not the same every time"
        case.wanted = {name: Wanted.of(a) for name, a in got.items()}
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


def distance(name: str, got: Array, want: Wanted, of_norm: float, of_element: float) -> float:
    """How far apart, of the norm. Raises AssertionError for more than is allowed of the norm or of an element, and for
    what is infinite or no number in one of them alone."""
    places = _differing(got, want.values)  # alone looked at: of most candidates there are few, of many none
    if not places.size:
        return 0.0
    a, b = (x.ravel()[places].astype(np.float32) for x in (got, want.values))
    finite = np.isfinite(b)
    odd = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b))) | finite & ~np.isfinite(a)
    assert not odd.any(), f"{name} is {a[odd][0]} in place of {b[odd][0]} in {int(odd.sum())} of {got.size} places"
    a, b = a[finite], b[finite]
    away = np.abs(a - b)
    found = _norm(away) / (want.norm or 1.0)
    assert found <= of_norm, f"{name} is off by {found:.1e} of its norm; two right kernels differ by {of_norm:.0e}"
    rough = away > of_element * (np.abs(b) + want.norm / max(1.0, got.size**0.5))
    assert not rough.any(), (
        f"{name} is {a[rough][0]:.6g} in place of {b[rough][0]:.6g}, and so in {int(rough.sum())} places"
    )
    return found


def _differing(a: Array, b: Array) -> npt.NDArray[np.intp]:
    """Places at which two arrays of one type have other bits."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    return np.flatnonzero(a.ravel().view(bits) != b.ravel().view(bits))


def _norm(numbers: Array) -> float:
    return float(np.sqrt(np.einsum("i,i->", numbers, numbers, dtype=np.float64)))


def measure(build: str, warm_ms: float, measure_ms: float) -> Sample:
    """The median time of a launch after a warm-up of the same kernel, with clock and power meanwhile."""
    (case,) = _CASE
    return without_torch(_launch(build, case), case.look, warm_ms, measure_ms)


def _launch(build: str, case: _Case) -> Launch:
    if build not in case.launches:
        case.launches[build] = read(build).kernel().prepare(**case.arrays, **case.numbers)
    return case.launches[build]
