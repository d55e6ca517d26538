"""`multicast`: CTAs that are neighbours along a grid axis form a cluster, and each loads a share of a tile for all."""

from __future__ import annotations

from dataclasses import replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir import schedule as directives
from tilegen.ir.plan_rules.clusters import MOST_CTAS
from tilegen.ir.scheduled import ClusterAxis, Scheduled
from tilegen.passes.guard import with_parts


def multicast(program: Scheduled, d: directives.Multicast) -> Scheduled:
    """The tile is loaded once for the CTAs of a cluster along the axis, which it does not depend on."""
    if program.target != "hopper":
        directive = f"multicast {d.tile} over {d.axis}"
        fail(Code.DIRECTIVE_UNSUPPORTED, d.span, directive=directive, target=program.target)
    tile = program.program.tile
    if not program.has_role(d.axis, "grid"):
        fail(Code.MULTICAST_AXIS, d.span, axis=d.axis)
    if with_parts(tile, (d.axis,)) & with_parts(tile, tile.move(d.tile).axes):
        fail(Code.MULTICAST_DEPENDS, d.span, tile=d.tile, axis=d.axis)
    if program.tile(d.tile).mover != "tma":
        fail(Code.MULTICAST_OF_COPIES, d.span, tile=d.tile)
    if tile.ragged or program.order.persistent == "table":
        why = "sequences of different lengths" if tile.ragged else "`persistent table`"
        fail(Code.MULTICAST_DEALT, d.span, tile=d.tile, why=why)
    if d.count == 1:
        return program
    cluster = _with_axis(program.cluster, d)
    tiles = tuple(replace(t, multicast=d.axis, span=d.span) if t.tile == d.tile else t for t in program.tiles)
    program = replace(program, tiles=tiles, cluster=cluster)
    if d.count & (d.count - 1) or program.cluster_size > MOST_CTAS:
        got = " x ".join(str(c.count) for c in cluster)
        fail(Code.CLUSTER_SIZE, d.span, got=f"{got} CTAs", wanted=f"powers of two, at most {MOST_CTAS} together")
    return program


def _with_axis(cluster: tuple[ClusterAxis, ...], d: directives.Multicast) -> tuple[ClusterAxis, ...]:
    known = next((c for c in cluster if c.axis == d.axis), None)
    if known is None:
        return (*cluster, ClusterAxis(d.axis, d.count, d.span))
    if known.count != d.count:
        fail(Code.CLUSTER_COUNTS, d.span, axis=d.axis, got=str(d.count), wanted=str(known.count))
    return cluster
