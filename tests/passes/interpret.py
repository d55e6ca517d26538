"""Runs a plan on numpy arrays, one operation after the other, by what tilegen.ir.plan says each of them means.

It knows nothing of instructions, swizzles or time; what it holds plans to is the order that they write down.
A product takes effect either when it is issued or when it is awaited (`lazy`): both must give the same result, or
something touched what was in flight. A slot is read between the wait for it and its release, or the run fails.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.passes.interpreter.control import Control
from tests.passes.interpreter.products import Products
from tests.passes.interpreter.slots import Slots
from tests.passes.interpreter.state import F32, Array, Misuse, Shared
from tests.passes.interpreter.tensors import Tensors
from tilegen.ir import plan as ir
from tilegen.ir.uniform import evaluate, symbols


class Role(Control, Slots, Tensors, Products):
    """One warpgroup of a role, which knows every operation."""


def run(
    plan: ir.Plan,
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
    arrays: Mapping[str, Array],
    *,
    lazy: bool,
    sm_count: int = 3,
) -> dict[str, Array]:
    """The outputs, NaN where nothing is stored. `arrays`: every input in its own type. Of `sizes` the ragged ones are
    left out."""
    tensors = dict(arrays)
    names = {**sizes, "sm_count": sm_count}
    if plan.table is not None and plan.table.sequences is not None:
        for x in plan.table.sequences.lengths:
            names |= dict.fromkeys(symbols(x.tokens), int(arrays[x.starts][-1]))
    names |= {k: v for k, v in scalars.items() if isinstance(v, int)}
    floats = {k: F32(v) for k, v in scalars.items()}
    for t in plan.tensors:
        if t.output:
            shape = tuple(evaluate(d, names) for d in t.dims)
            tensors[t.name] = np.full(shape, np.nan, t.dtype.numpy)
    ctas = evaluate(plan.grid, names)
    for cta in range(ctas):
        shared = Shared(plan)
        for role in plan.roles:
            for warpgroup in range(role.warpgroups):
                state = Role(plan, role, shared, tensors, warpgroup, cta, ctas, lazy)
                state.names |= {**names, "warpgroup": warpgroup}
                state.floats |= floats
                state.body(role.body)
                if state.flying:
                    raise Misuse(f"{role.name} ends with {[t for t, _ in state.flying]} in flight")
    return {t.name: tensors[t.name] for t in plan.tensors if t.output}
