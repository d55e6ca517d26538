"""Movement and synchronisation: one statement an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.ir.plan import (
    Advance,
    ArriveClean,
    ArriveEmpty,
    CtaSync,
    Expect,
    FenceAsync,
    GroupSync,
    OrderPass,
    OrderStart,
    OrderWait,
    ScanSlot,
    SetRegisters,
    StoreCommit,
    StoreWait,
    TmaLoad,
    TmaStore,
    WaitClean,
    WaitEmpty,
    WaitFull,
)
from tilegen.ir.uniform import Int
from tilegen.targets.hopper.emit.scope import EXPONENT, RoleScope, first_rank


def set_registers(r: RoleScope, op: SetRegisters) -> str:
    wish = f"set_registers_{op.count}"
    return f"{r.functions.specific(wish, 'set_registers', count=op.count, increase=op.increase)}();"


def expect(r: RoleScope, op: Expect) -> str:
    return f"{r.functions.helper('mbarrier_expect')}({r.barrier(op.slot, 'full')}, {op.bytes});"


def tma_load(r: RoleScope, op: TmaLoad) -> str:
    sharers = r.plan.ring(op.slot.ring).sharers
    name = r.functions.specific(
        f"load_{op.descriptor}", "load", rank=len(op.coordinates), hint=bool(op.hint), multicast=sharers is not None
    )
    told = () if sharers is None else (r.ctas(sharers),)
    coordinates = ", ".join((*map(r.integer, op.coordinates), *told, *_policy(r, op.hint)))
    to = r.slot(op.slot, op.offset, share=(op.share, sharers.number) if sharers else (0, Int(0)))
    return f"{name}({to}, &{r.names['map', op.descriptor]}, {r.barrier(op.slot, 'full')}, {coordinates});"


def tma_store(r: RoleScope, op: TmaStore) -> str:
    name = r.functions.specific(f"store_{op.descriptor}", "store", rank=len(op.coordinates), hint=bool(op.hint))
    coordinates = ", ".join((*map(r.integer, op.coordinates), *_policy(r, op.hint)))
    start = r.part(op.buffer, op.stage, op.offset)
    return f"{name}(&{r.names['map', op.descriptor]}, {start}, {coordinates});"


def _policy(r: RoleScope, hint: str) -> tuple[str, ...]:
    """The variable that holds the cache policy of a hint, if there is one."""
    return (r.policy(hint),) if hint else ()


def store_commit(r: RoleScope, op: StoreCommit) -> str:
    return f"{r.functions.helper('store_commit')}();"


def store_wait(r: RoleScope, op: StoreWait) -> str:
    wish = "store_wait_read" if op.read else "store_wait"
    return f"{r.functions.specific(wish, 'store_wait', pending=op.pending, read=op.read)}();"


def wait_full(r: RoleScope, op: WaitFull) -> str:
    phase = r.cursor(op.slot.cursor)[1]
    return f"{r.functions.helper('mbarrier_wait')}({r.barrier(op.slot, 'full')}, {phase});"


def wait_empty(r: RoleScope, op: WaitEmpty) -> str:
    phase = r.cursor(op.slot.cursor)[1]
    return f"{r.functions.helper('mbarrier_wait')}({r.barrier(op.slot, 'empty')}, {phase} ^ 1);"


def wait_clean(r: RoleScope, op: WaitClean) -> str:
    phase = r.cursor(op.slot.cursor)[1]
    return f"{r.functions.helper('mbarrier_wait')}({r.barrier(op.slot, 'clean')}, {phase});"


def arrive_clean(r: RoleScope, op: ArriveClean) -> str:
    return f"{r.functions.helper('release_by_warp')}({r.barrier(op.slot, 'clean')});"


def scan_slot(r: RoleScope, op: ScanSlot) -> str:
    ring = r.plan.ring(op.slot.ring)
    buffer = r.plan.buffer(ring.buffer)
    first, _ = r.role.warps_of_group
    name = r.functions.specific(
        f"scan_{ring.name}",
        "scan",
        times_zero=r.functions.specific(f"times_zero_{buffer.dtype}", "times_zero", type=buffer.dtype.value),
        exponent=EXPONENT[buffer.dtype],
        bytes=ring.bytes,
        first=32 * (4 * r.role.first + first),
        threads=r.role.threads,
    )
    return f"{name}({r.slot(op.slot)}, {r.names['flag', ring.name]});"


def arrive_empty(r: RoleScope, op: ArriveEmpty) -> str:
    ring = r.plan.ring(op.slot.ring)
    by = "release_by_warp" if r.role.frees_by_warp(ring) else "release_by_warpgroup"
    if ring.sharers is not None:
        count, stride, by_warp = ring.sharers.count, ring.sharers.stride, r.role.frees_by_warp(ring)
        name = r.functions.specific(
            f"{by}_{ring.name}", "release_to_sharers", by_warp=by_warp, count=count, stride=stride
        )
        return f"{name}({r.barrier(op.slot, 'empty')}, {r.integer(first_rank(r.plan, ring.sharers))});"
    return f"{r.functions.helper('mbarrier_arrive' if r.role.elected else by)}({r.barrier(op.slot, 'empty')});"


def advance(r: RoleScope, op: Advance) -> str:
    stage, phase = r.cursor(op.cursor)
    cursor = next(c for c in r.role.cursors if c.name == op.cursor)
    ring = r.plan.ring(cursor.ring)
    if not ring.barriers:  # nobody tells one round from another
        return f"if (++{stage} == {ring.depth}) {stage} = 0;" if ring.depth > 1 else ""
    return f"{phase} ^= 1;" if ring.depth == 1 else f"if (++{stage} == {ring.depth}) {stage} = 0, {phase} ^= 1;"


def order_wait(r: RoleScope, op: OrderWait) -> str:
    return f"{r.functions.helper('named_sync')}({op.first_id} + warpgroup, 256);"


def order_pass(r: RoleScope, op: OrderPass) -> str:
    arrive, count = r.functions.helper("named_arrive"), r.role.warpgroups
    return f"{arrive}({op.first_id} + (warpgroup + 1) % {count}, 256);"


def order_start(r: RoleScope, op: OrderStart) -> str:
    arrive = r.functions.helper("named_arrive")
    return f"if (warpgroup == {r.role.warpgroups - 1}) {arrive}({op.first_id}, 256);"


def group_sync(r: RoleScope, op: GroupSync) -> str:
    return f"{r.functions.helper('named_sync')}({op.first_id} + warpgroup, 128);"


def cta_sync(r: RoleScope, op: CtaSync) -> str:
    return "__syncthreads();"


def fence_async(r: RoleScope, op: FenceAsync) -> str:
    return f"{r.functions.helper('fence_async')}();"


STATEMENTS: dict[type, Callable[[RoleScope, Any], str]] = {
    SetRegisters: set_registers,
    Expect: expect,
    TmaLoad: tma_load,
    TmaStore: tma_store,
    StoreCommit: store_commit,
    StoreWait: store_wait,
    WaitFull: wait_full,
    WaitEmpty: wait_empty,
    WaitClean: wait_clean,
    ArriveEmpty: arrive_empty,
    ArriveClean: arrive_clean,
    ScanSlot: scan_slot,
    Advance: advance,
    OrderWait: order_wait,
    OrderPass: order_pass,
    OrderStart: order_start,
    GroupSync: group_sync,
    CtaSync: cta_sync,
    FenceAsync: fence_async,
}
