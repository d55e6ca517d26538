"""How long a schedule might take: enough to try the likely ones first, and nothing more.

A step is as long as the busiest of what it needs: tensor cores, special functions, issue slots, traffic with L2.
What the consumers' other work takes shows as far as nothing hides it, which warpgroups do for each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod

from tilegen.ir.folded import Elementwise, Exponent, FoldedOp, Guarded, Output, Product, Reduce, Rescale, Weight
from tilegen.ir.scheduled import Phase, Scheduled, Straight, Stream
from tilegen.ir.tile import Apply, Expr
from tilegen.passes.synchronise.geometry import extent_in_tile, value_shape
from tilegen.passes.synchronise.hopper import tiles_in_shared
from tilegen.passes.synchronise.rows import WARPGROUP_ROWS
from tilegen.tune.fits import stage_bytes, stored_bytes

# Of one SM and clock cycle, on Hopper.
FLOPS = 4096  # of 16-bit products, at 64 columns and more
SPECIAL = 16  # exponentials, tangents, reciprocals
LANES = 128  # of ordinary instructions
L2_BYTES = 56  # that go to and from L2 while all SMs ask
LATENCY = 900  # cycles from a load's issue to its data
STEP = 90  # cycles of barriers and waits a step
ITEM = 1500  # cycles of an item beside its loops: set-up, first loads, stores
KEPT_ITEM = 500  # the same, where one CTA works through many items and loads ahead
SHOWN = {1: 0.6, 2: 0.35, 3: 0.2, 4: 0.15}  # by warpgroups: the part of the other units' time that is not hidden
SHOWN_IN_TURNS = 0.6  # of that, where warpgroups take turns at the products
TAILS = 1.08  # of items of different lengths that are not dealt longest first
_SPECIAL = frozenset(
    {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "tanh_approx", "sigmoid", "erf", "div", "div_rn"}
)


def cycles(s: Scheduled, extents: Mapping[str, int], sms: int) -> float:
    """Cycles of the kernel at these extents of its axes, on a GPU with so many SMs."""
    loops = [p for p in s.phases if isinstance(p, Stream)]
    steps = {p.axis: max(1, ceil(extents[p.axis] / s.role(p.axis).block)) for p in loops}
    item = sum(steps[p.axis] * step_cycles(p, s) for p in loops) + _beside_loops(s)
    item += KEPT_ITEM if s.order.persistent else ITEM
    items = prod(max(1, ceil(extents[r.axis] / r.block)) for r in s.roles if r.role == "grid")
    rounds = items / sms if s.order.persistent == "table" and items > sms else ceil(items / sms)
    tails = 1.0 if s.order.descending or not s.program.tile.domain else TAILS
    return rounds * item * tails


def step_cycles(loop: Stream, s: Scheduled) -> float:
    """Cycles of one step of a loop, of all consumers of a CTA together."""
    units = _units(loop, s)
    streamed = [t for t in tiles_in_shared(s) if loop.axis in s.program.tile.move(t).axes]
    moved = (sum(stage_bytes(t, s) for t in streamed) + _stored(loop, s)) / L2_BYTES
    shown = SHOWN[s.workers.count] * (SHOWN_IN_TURNS if s.turns else 1.0)
    late = any(step.distance for step in loop.steps)
    longest = max(units)
    step = longest + shown * (sum(units) - longest) + STEP * (1 if late or not units[1] else 1.5)
    step = max(step, moved)
    ahead = min((s.tile(t).depth for t in streamed), default=1) - 1
    return step + max(0.0, LATENCY + moved - step * ahead) / (ahead + 1)


def _units(phase: Phase, s: Scheduled) -> tuple[float, float, float]:
    """Cycles of tensor cores, of special functions and of issue slots that one run through a phase takes."""
    rows = WARPGROUP_ROWS * s.workers.count
    tensor = special = issue = 0.0
    for o in (s.op(step.op) for step in phase.steps):
        if isinstance(o, Product):
            tensor += _product_flops(o, rows, s) / FLOPS
        elements = rows * _columns(o, s)
        more_special, instructions = _costs(o, bool(s.stale))
        special += elements * more_special / SPECIAL
        issue += elements * instructions / LANES
    return tensor, special, issue


def _beside_loops(s: Scheduled) -> float:
    """Cycles of an item's straight work, and of the tiles and outputs that it moves once."""
    stream = next((r.axis for r in s.roles if r.role == "stream"), None)
    once = [t for t in tiles_in_shared(s) if stream not in s.program.tile.move(t).axes]
    straight = [p for p in s.phases if isinstance(p, Straight)]
    moved = sum(stage_bytes(t, s) for t in once) + sum(_stored(p, s) for p in straight)
    return moved / L2_BYTES + sum(sum(_units(p, s)) for p in straight)


def _stored(phase: Phase, s: Scheduled) -> int:
    """Bytes of outputs that one run through a phase stores."""
    return sum(stored_bytes(o, s) for step in phase.steps if isinstance(o := s.op(step.op), Output))


def _product_flops(o: Product, rows: int, s: Scheduled) -> float:
    contracted = prod(extent_in_tile(a, s) for a in o.over)
    return 2.0 * rows * max(64, _columns(o, s)) * contracted


def _columns(o: FoldedOp, s: Scheduled) -> int:
    axes = o.axes
    if isinstance(o, Reduce | Exponent):
        axes = (*o.axes, *o.over)
    return value_shape(axes, s, o.span, o.statement).width


def _costs(o: FoldedOp, stale: bool) -> tuple[float, float]:
    """Special functions and other instructions an element."""
    match o:
        case Weight():
            return 1.0, 1.0
        case Exponent():
            return 0.0, 0.0 if stale else 2.0  # a maximum takes two slots
        case Rescale():
            return 0.0, 0.0 if stale else 1.0
        case Reduce() | Guarded():
            return 0.0, 1.0
        case Elementwise(value=value):
            ops = list(_applied(value))
            return float(sum(name in _SPECIAL for name in ops)), float(len(ops) or 1)
    return 0.0, 0.0


def _applied(expr: Expr) -> list[str]:
    found: list[str] = []
    todo: list[object] = [expr]
    while todo:
        node = todo.pop()
        if isinstance(node, Apply):
            found.append(node.op)
        todo += getattr(node, "args", ())
        if hasattr(node, "value") and not isinstance(node.value, int | float):
            todo.append(node.value)
    return found
