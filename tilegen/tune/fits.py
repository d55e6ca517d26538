"""What a schedule needs at least, by arithmetic on shapes alone: what cannot fit is not worth lowering.

Lower bounds: the plan needs this much and more, so that nothing that would fit is turned away. What is let through is
counted exactly, on its plan, by `checks.resources`.
"""

from __future__ import annotations

from math import prod

from tilegen.checks.resources import MAX_REGISTERS
from tilegen.ir.folded import Output, Product
from tilegen.ir.liveness import OVERHEAD
from tilegen.ir.machines import MACHINES
from tilegen.ir.scheduled import Scheduled, Stream
from tilegen.passes.schedule import registers_at_entry
from tilegen.passes.synchronise.geometry import extent_in_tile, tile_geometry, up, value_shape
from tilegen.passes.synchronise.hopper import ALIGNMENT, tiles_in_shared
from tilegen.passes.synchronise.rows import row_part

PIECE = 64  # bytes that a piece of an output is wide at least
SHARED, REGISTERS = "SHARED_MEMORY_FULL", "REGISTERS_FULL"  # the codes that compiling would give


def refusal(s: Scheduled) -> str | None:
    """The code of what the machine does not have, or None. Raises TilegenError for a shape that no tile can have."""
    if shared_bytes(s) > MACHINES[s.target].shared_bytes:
        return SHARED
    if registers(s) > available(s):
        return REGISTERS
    return None


def shared_bytes(s: Scheduled) -> int:
    """Bytes of all rings of tiles, and of what leaves by TMA from a place of its own. Raises TilegenError."""
    tiles = sum(stage_bytes(t, s) * s.tile(t).depth for t in tiles_in_shared(s))
    staged = {store.output for store in s.stores if store.via == "tma" and store.host is None}
    return tiles + sum(staged_bytes(o, s) for o in s.program.ops if isinstance(o, Output) and o.tensor in staged)


def stage_bytes(tile: str, s: Scheduled) -> int:
    """Bytes of one stage of a tile, the parts that consumers hold apart together. Raises TilegenError."""
    g = tile_geometry(s.program.tile.move(tile), s)
    apart = s.tile(tile).apart and g.row_dims and row_part(g.row_dims[0].axis, s)
    return up(g.bytes, ALIGNMENT) * (s.workers.count if apart else 1)


def staged_bytes(output: Output, s: Scheduled) -> int:
    """Bytes that an output leaves through: of its block, or of as many pieces of it as there are stages."""
    whole, stages = stored_bytes(output, s), s.store(output.tensor).stages
    rows = prod(extent_in_tile(a, s) for a in output.axes if row_part(a, s))
    return min(whole, rows * PIECE * stages) if stages else whole


def stored_bytes(output: Output, s: Scheduled) -> int:
    """Bytes of an output's block."""
    return prod(extent_in_tile(a, s) for a in output.axes) * s.program.tile.tensor(output.tensor).dtype.bytes


def available(s: Scheduled) -> int:
    """Registers of a consumer's thread."""
    return min(s.workers.consumer_registers or registers_at_entry(s.workers.count), MAX_REGISTERS)


def registers(s: Scheduled) -> int:
    """Registers of a consumer's thread: the accumulators of a loop that last, the largest of those that do not, and,
    where a late product is in flight with it, that product's factor in 16 bits, unless shared memory holds it."""
    return OVERHEAD["consumer"] + max((_in_loop(p, s) for p in s.phases if isinstance(p, Stream)), default=0)


def _in_loop(loop: Stream, s: Scheduled) -> int:
    products = [(o, step.distance) for step in loop.steps if isinstance(o := s.op(step.op), Product)]
    lasting = sum(_width(o.axes, s, o) // 2 for o, _ in products if loop.axis in o.over)
    passing = max((_width(o.axes, s, o) // 2 for o, _ in products if loop.axis not in o.over), default=0)
    if not passing:
        return lasting
    factors = (n for o, distance in products if distance for n in (o.a, o.b) if s.program.has(n))
    held = [s.op(n) for n in dict.fromkeys(factors) if n not in s.placed]
    return lasting + passing + sum(_width(o.axes, s, o) // 4 for o in held)


def _width(axes: tuple[str, ...], s: Scheduled, o: object) -> int:
    """Columns of a value: a warpgroup's 128 threads hold half as many registers of 32 bits each."""
    span, name = getattr(o, "span", s.span), getattr(o, "statement", "")
    return value_shape(axes, s, span, name).width
