"""Special registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.spaces import RANK_SHIFT
from tilegen.emulate.ptx.types import Array

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

_AXES = ("x", "y", "z")
_TRIPLES = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
_SCALARS = (
    "laneid",
    "warpid",
    "nwarpid",
    "smid",
    "nsmid",
    "gridid",
    "cluster_ctarank",
    "cluster_nctarank",
    "is_explicit_cluster",
    "clock",
    "clock_hi",
    "clock64",
    "globaltimer",
    "globaltimer_lo",
    "globaltimer_hi",
    "lanemask_eq",
    "lanemask_le",
    "lanemask_lt",
    "lanemask_ge",
    "lanemask_gt",
    "dynamic_smem_size",
    "total_smem_size",
    "aggr_smem_size",
)
_NAMES = {f"%{name}.{axis}" for name in _TRIPLES for axis in _AXES} | {f"%{name}" for name in _SCALARS}
#: Registers that change while a CTA runs: read when the instruction runs, never folded at decode time.
CLOCKS = {"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}


def is_special(name: str) -> bool:
    """Whether `name` is a special register that the emulator has."""
    return name in _NAMES


def special_rows(machine: Machine) -> dict[str, Array]:
    """Value of each special register but the clocks, uint64 a thread; those of which CTA, and which cluster, a thread
    is in are refilled for each that starts."""
    threads = machine.threads
    linear = np.arange(threads, dtype=np.uint64) % np.uint64(machine.threads_apart)
    bx, by, _ = machine.block
    lane = linear % 32

    def constant(value: int) -> Array:
        return np.full(threads, value, np.uint64)

    rows: dict[str, Array] = {
        "%tid.x": linear % bx,
        "%tid.y": linear // bx % by,
        "%tid.z": linear // (bx * by),
        "%laneid": lane,
        "%warpid": linear // 32,
        "%nwarpid": constant(-(-machine.cta_threads // 32)),
        "%smid": constant(0),
        "%nsmid": constant(132),
        "%gridid": constant(1),
        "%cluster_ctarank": machine.rank_bits >> np.uint64(RANK_SHIFT),
        "%cluster_nctarank": constant(machine.ctas),
        "%is_explicit_cluster": constant(int(machine.ctas > 1)),
        "%lanemask_eq": np.uint64(1) << lane,
        "%lanemask_lt": (np.uint64(1) << lane) - np.uint64(1),
        "%lanemask_le": (np.uint64(2) << lane) - np.uint64(1),
        "%lanemask_ge": np.uint64(0xFFFFFFFF) & ~((np.uint64(1) << lane) - np.uint64(1)),
        "%lanemask_gt": np.uint64(0xFFFFFFFF) & ~((np.uint64(2) << lane) - np.uint64(1)),
        "%dynamic_smem_size": constant(machine.dynamic_bytes),
        "%total_smem_size": constant(machine.shared_end - machine.shared_base),
        "%aggr_smem_size": constant(machine.shared_end),
    }
    sides = zip(_AXES, machine.block, machine.grid, machine.function.cluster, strict=True)
    for axis, block, grid, cluster in sides:
        rows[f"%ntid.{axis}"] = constant(block)
        rows[f"%nctaid.{axis}"] = constant(grid)
        rows[f"%nclusterid.{axis}"] = constant(grid // cluster)
        rows[f"%cluster_nctaid.{axis}"] = constant(cluster)
        for name in ("ctaid", "clusterid", "cluster_ctaid"):
            rows[f"%{name}.{axis}"] = constant(0)
    return rows


def read_clock(machine: Machine, name: str) -> int:
    """A clock: one tick per executed step of the emulator (the global timer runs at the same pace)."""
    ticks = machine.ticks()
    if name in ("%clock_hi", "%globaltimer_hi"):
        return ticks >> 32
    return ticks & 0xFFFFFFFF if name in ("%clock", "%globaltimer_lo") else ticks
