"""A launch in the PTX emulator, on arrays in CPU memory, which it writes in place."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.emulate.memory import GlobalMemory
from tilegen.emulate.ptx import Module, Report
from tilegen.emulate.ptx import launch as emulate
from tilegen.emulate.ptx.watch.context import Tensor, of_plan
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import Plan
from tilegen.ir.tile import TileProgram
from tilegen.runtime.arrays import ArrayView
from tilegen.runtime.binding import Binding, Device
from tilegen.runtime.dispatch import Dispatch
from tilegen.runtime.sequences import DEAL_THREADS, FAULT_WORDS
from tilegen.targets.hopper.tensor_map import TensorMap


@dataclass(frozen=True)
class Emulation:
    """How a launch is emulated. watch: report what the hardware leaves undefined (docs/emulator.md), in terms of the
    spec. seed: of the times at which engines finish and warps run; None completes everything when it is issued.
    step_limit: steps after which a launch is taken for endless; None is the emulator's own."""

    watch: bool = False
    seed: int | None = None
    step_limit: int | None = None


PLAIN = Emulation()
EMULATED_SMS = 2  # enough for CTAs to work through several items each, also in small problems


def emulated(
    module: Module,
    entries: Sequence[str],
    plan: Plan,
    views: Mapping[str, ArrayView],
    bind: Callable[[Mapping[str, ArrayView], Device], Binding],
    found: Callable[[Sequence[int]], None],
    mode: Emulation = PLAIN,
    program: TileProgram | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Report | None:
    """Run a launch on arrays in CPU memory, written in place; None where there was nothing to do.

    entries: the kernel, and the one in front that deals out its items, if there is one. `bind` binds views whose
    pointers are addresses of the emulated memory. `found` gets the fault words of the kernel in front. program, sizes:
    what faults are told in terms of, if the launch is watched.
    """
    memory = GlobalMemory()
    moved = {name: replace(view, pointer=_map(memory, view)) for name, view in views.items()}

    def upload(launch: Dispatch) -> tuple[int, object]:
        assert launch.table is not None
        return memory.alloc(launch.table), launch.table

    options: dict[str, Any] = {"seed": mode.seed}
    if mode.step_limit is not None:
        options["step_limit"] = mode.step_limit
    device = Device(EMULATED_SMS, TensorMap.to_bits, upload)
    binding = bind(moved, device)
    if not binding.grid:
        return None
    arguments, dealing = binding.arguments, binding.dealing
    if dealing is not None:
        table, scratch, words = (np.zeros(n, np.int32) for n in (dealing.table, dealing.scratch, FAULT_WORDS))
        front, arguments = dealing.arguments(*map(memory.alloc, (table, scratch, words)))
        emulate(module, entries[1], (1, 1, 1), (DEAL_THREADS, 1, 1), front, memory, 0, **options)
        found(words.tolist())
    grid, block = (binding.grid, 1, 1), (plan.threads, 1, 1)
    if mode.watch:
        tensors = tuple(_tensor(name, view, plan) for name, view in moved.items())
        options["watch"] = of_plan(plan, program, tensors, sizes or {})
    return emulate(module, entries[0], grid, block, arguments, memory, plan.shared_bytes, **options)


def _tensor(name: str, view: ArrayView, plan: Plan) -> Tensor:
    assert isinstance(view.dtype, DType)  # checked when the view was resolved
    output = any(t.name == name and t.output for t in plan.tensors)
    return Tensor(name, view.pointer, view.shape, view.strides, view.dtype.bytes, output)


def _map(memory: GlobalMemory, view: ArrayView) -> int:
    """The emulated address of an array's first element, as far off a 16-byte boundary as the array itself."""
    if 0 in view.shape:
        return 0
    assert isinstance(view.dtype, DType)  # checked when the view was resolved
    reaches = [(extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True)]
    below = sum(r for r in reaches if r < 0)
    start = view.pointer + below
    count = sum(abs(r) for r in reaches) + view.dtype.bytes
    skew = start % 16
    if skew or count % view.dtype.bytes:
        return memory.alloc(_bytes(start - skew, skew + count)) + skew - below
    array = _bytes(start, count).view(view.dtype.numpy)
    if array.size == prod(view.shape):  # no gaps, so that the emulator can name elements by their indices
        array = array.reshape(view.shape)
    return memory.alloc(array) - below


def _bytes(address: int, count: int) -> npt.NDArray[np.uint8]:
    memory = (ctypes.c_uint8 * count).from_address(address)
    return np.ctypeslib.as_array(memory)
