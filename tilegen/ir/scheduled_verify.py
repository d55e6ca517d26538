"""What a Scheduled program may be: checked before and after every rewrite."""

from __future__ import annotations

from tilegen.ir.folded import Exponent, Output, Product
from tilegen.ir.folded_verify import verify as verify_folded
from tilegen.ir.scheduled import Batch, Scheduled, Step, Stream
from tilegen.ir.scheduled_text import print_scheduled


class InvalidScheduled(AssertionError):  # noqa: N818
    """A rewrite broke the rules of the Scheduled program: an internal fault, not the user's."""


def verify(s: Scheduled) -> None:
    """Raises InvalidScheduled, with the printed program, unless every rule holds.

    The folded program is valid; every operation is scheduled (in one phase, but for what a second loop computes
    again); products stand in batches and nothing else does; distances are 0 or more, and only operations of one
    loop have them; every axis has one role, grid axes are ordered once each; turns name products; computed
    factors of products alone are placed; every output has a store and rings have stages; tiles have a mover, and hints
    and sharers, along an axis of the cluster, and a fill other than zeros only if that is TMA; clusters stand along
    grid axes.
    """
    verify_folded(s.program)
    faults: list[str] = []
    placed: dict[str, int] = {}
    for n, phase in enumerate(s.phases):
        seen: set[str] = set()
        for item in phase.body:
            steps = item.steps if isinstance(item, Batch) else (item,)
            for step in steps:
                faults += _step(step, item, s, in_loop=isinstance(phase, Stream))
                if step.op in seen:
                    faults.append(f"{step.op} stands twice in one phase")
                seen.add(step.op)
                if isinstance(s.op(step.op), Output) and step.op in placed:
                    faults.append(f"{step.op} is stored in two phases")
                placed.setdefault(step.op, n)
        if isinstance(phase, Stream) and phase.direction not in ("up", "down"):
            faults.append(f"the loop over {phase.axis} has no direction {phase.direction}")
    faults += [f"{op.name} is not scheduled" for op in s.program.ops if op.name not in placed]
    axes = [r.axis for r in s.roles]
    faults += [f"{a} has two roles" for a in set(axes) if axes.count(a) > 1]
    grid = sorted(r.axis for r in s.roles if r.role == "grid")
    if sorted(s.order.axes) != grid:
        faults.append(f"the order of work items names {', '.join(s.order.axes)}, and the grid is {', '.join(grid)}")
    faults += [f"the workers share out {a}, which is not in the grid" for a in s.workers.axes if a not in grid]
    faults += [f"{t} takes turns and is no product" for t in s.turns if not isinstance(s.op(t), Product)]
    moved = {m.name for m in s.program.tile.moves}
    factors = {n for o in s.program.ops if isinstance(o, Product) for n in (o.a, o.b)} - moved
    faults += [f"{n} is placed and is no computed factor of a product" for n in s.placed if n not in factors]
    faults += [f"{e} is kept and is no exponent" for e in s.stale if not isinstance(s.op(e), Exponent)]
    faults += [f"the ring of {t.tile} has no stage" for t in s.tiles if t.depth < 1]
    faults += [f"{t.tile} has no mover {t.mover}" for t in s.tiles if t.mover not in ("tma", "cp_async")]
    faults += [f"{t.tile} has a hint, and no TMA to take it" for t in s.tiles if t.hint and t.mover != "tma"]
    named = [c.axis for c in s.cluster]
    faults += [f"a cluster stands along {a}, which is not in the grid" for a in named if a not in grid]
    faults += [f"a cluster has {a} twice" for a in set(named) if named.count(a) > 1]
    faults += [
        f"{t.tile} is shared along {t.multicast}, without a cluster or TMA"
        for t in s.tiles
        if t.multicast and (t.multicast not in named or t.mover != "tma")
    ]
    faults += [f"{t.tile} is filled with {t.fill}" for t in s.tiles if t.fill not in ("zero", "nan")]
    faults += [f"{t.tile} is filled with NaN, and not by TMA" for t in s.tiles if t.fill == "nan" and t.mover != "tma"]
    outputs = sorted(t.name for t in s.program.tile.tensors if t.output)
    if sorted(x.output for x in s.stores) != outputs:
        faults.append("not every output has one store")
    if faults:
        raise InvalidScheduled("\n".join([*faults, "", print_scheduled(s)]))


def _step(step: Step, item: object, s: Scheduled, *, in_loop: bool) -> list[str]:
    faults = []
    if not s.program.has(step.op):
        return [f"there is no operation {step.op}"]
    if isinstance(s.op(step.op), Product) != isinstance(item, Batch):
        faults.append(f"{step.op}: products stand in batches, and nothing else does")
    if step.distance < 0 or (step.distance and not in_loop):
        faults.append(f"{step.op} cannot be late by {step.distance} here")
    return faults
