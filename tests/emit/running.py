"""Runs a plan in the PTX emulator on numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from tilegen.emulate.ptx import Module, parse
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import Plan
from tilegen.runtime.arrays import describe
from tilegen.runtime.binding import bind, output_shapes, resolve
from tilegen.runtime.dispatch import dispatch
from tilegen.runtime.emulated import emulated
from tilegen.targets.hopper.emit import emit
from tilegen.targets.hopper.nvrtc import compile_cuda


@cache
def module(plan: Plan) -> Module:
    return parse(compile_cuda(emit(plan), plan.name).ptx)


def run(
    plan: Plan,
    inputs: Mapping[str, npt.NDArray[np.generic]],
    scalars: Mapping[str, int | float] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, npt.NDArray[np.generic]]:
    """The outputs, which held NaN (or -77) before."""
    views = {name: describe(a, name) for name, a in inputs.items()}
    known = resolve(plan, views, dict(sizes or {}), {})
    outputs = {}
    for name, shape in output_shapes(plan, known).items():
        dtype = plan.tensor(name).dtype
        outputs[name] = np.full(shape, np.nan if dtype.is_float else -77).astype(dtype.numpy)
        views[name] = describe(outputs[name], name)

    emulated(
        module(plan), [plan.name], plan, views,
        lambda moved, device: bind(plan, moved, known, partial(dispatch, plan, known, dict(scalars or {})), device, {}),
        lambda words: None,
    )  # fmt: skip
    return outputs


def random(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> npt.NDArray[np.generic]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype.numpy)
