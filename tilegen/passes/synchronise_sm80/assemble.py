"""Assemble the sm_80 plan: shared memory, rings without barriers, parameters, and the one role."""

from __future__ import annotations

from dataclasses import replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import FoldedProgram
from tilegen.ir.liveness import OVERHEAD, held
from tilegen.ir.machines import MACHINES
from tilegen.ir.plan import Buffer, Plan, Ring, RolePlan, Scan
from tilegen.ir.plan_rules.roles import entry_registers
from tilegen.ir.schedule import Directive
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.uniform import Uniform
from tilegen.passes.synchronise.context import Context, storage
from tilegen.passes.synchronise.geometry import TileGeometry, tile_geometry
from tilegen.passes.synchronise.hopper import (
    FLAG_BYTES,
    check_products,
    domain_notes,
    params_of,
    ring_buffer,
    tensors_of,
    tile_notes,
    tiles_in_shared,
)
from tilegen.passes.synchronise.rows import check_rows
from tilegen.passes.synchronise.stores import Stores
from tilegen.passes.synchronise.values import Values
from tilegen.passes.synchronise.work import grid
from tilegen.passes.synchronise_sm80.schedule import TARGET, schedules
from tilegen.passes.synchronise_sm80.worker import Worker

# Registers a thread that a loop takes beside fragments: for a tile's addresses, strides, limits and stages, and for
# operands on their way, by how many warpgroups it is. Of 255, with three tiles, fragments of 152 have left enough for
# two warpgroups, and of 168 not; with four tiles, of 144 not. For one, with three tiles, 166 have, and 168 not.
_A_TILE = 12
_OPERANDS = {1: 52, 2: 64}


def first_with_room(folded: FoldedProgram, directives: tuple[Directive, ...], guard: Uniform | None = None) -> Plan:
    """The plan of the first of the schedules that the directives leave open which the machine has room for; of the last
    one, if it has room for none. Raises TilegenError for what cannot be."""
    for s in schedules(folded, directives):
        plan = synchronise(s, guard)
        if _has_room(plan):
            break
    return plan


def _has_room(plan: Plan) -> bool:
    """Whether shared memory and registers suffice."""
    (role,) = plan.roles
    beside = _A_TILE * len(plan.rings) + _OPERANDS[role.together]
    anywhere, in_loops = held(role, 0)
    fits = max(anywhere + OVERHEAD[role.kind], in_loops + beside) <= plan.registers_at_entry
    return fits and plan.shared_bytes <= MACHINES[TARGET].shared_bytes


def synchronise(s: Scheduled, guard: Uniform | None = None) -> Plan:
    """The plan of a scheduled program, for launches where the guard holds. Raises TilegenError for what cannot be."""
    program = s.program.tile
    if program.ragged:
        fail(Code.SM80_UNSUPPORTED, program.span, what="sequences of different lengths")
    check_rows(s)
    check_products(s)
    tiles = {t: tile_geometry(program.move(t), s) for t in tiles_in_shared(s)}
    rings, buffers, top = _rings(s, tiles)
    context = Context(s, tiles, rings, storage(s))
    values = Values(context)
    body, cursors, fragments = Worker(context, values, Stores(context, 0)).build()
    count, together = s.workers.count, s.workers.together
    role = RolePlan("worker", "worker", 0, count, None, False, cursors, fragments, body, together=together)
    return Plan(
        name=program.name,
        target=TARGET,
        source_name=program.source.name,
        params=params_of(program, (), (role,), table=False),
        tensors=tensors_of(program),
        descriptors=(),
        buffers=buffers,
        rings=tuple(rings.values()),
        roles=(role,),
        threads=role.threads,
        shared_bytes=top,
        registers_at_entry=entry_registers(role.threads),
        grid=grid(s),
        notes=(*tile_notes(tiles, s), *domain_notes(s)),
        guard=guard,
    )


def _rings(s: Scheduled, tiles: dict[str, TileGeometry]) -> tuple[dict[str, Ring], tuple[Buffer, ...], int]:
    """A ring for each tile, its bytes, and those of all, with the flags of scans behind them."""
    rings: dict[str, Ring] = {}
    buffers: list[Buffer] = []
    top = 0
    for name, g in tiles.items():
        depth = s.tile(name).depth
        buffers.append(ring_buffer(name, g, depth, 1, top))
        top += buffers[-1].stage_bytes * depth
        rings[name] = Ring(name, name, depth, 1, 0, 0, 0, 0, "none", g.bytes, g.move.span)
    for name, ring in rings.items():
        if s.tile(name).scan:
            rings[name] = replace(ring, scan=Scan(0, 0, top))
            top += FLAG_BYTES
    return rings, tuple(buffers), top
