"""Roles: who runs what, registers, the loop over work items, named barriers."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_walk import all_operations, body_of, operations, uniforms
from tilegen.ir.uniform import symbols

WARPGROUP = "warpgroup"  # the symbol
WARPGROUP_THREADS = 128
SETMAXNREG = range(24, 257, 8)  # registers a thread that setmaxnreg takes
REGISTER_FILE = 65536  # 32-bit registers of an SM
MAX_REGISTERS = 255  # that a thread can use
NAMED_BARRIERS = range(1, 16)  # 0 is the barrier of the whole CTA
MODES = ("static", "single", "table")

PRODUCER_ONLY = (ir.Expect, ir.TmaLoad)
COPIER_ONLY = (ir.CopyTile, ir.SignalCopies)
FILLING = (ir.WaitEmpty,)  # of producers and copiers
SCANNER_ONLY = (ir.ScanSlot, ir.ArriveClean)
WORKER_ONLY = (ir.CopyCommit, ir.CopyWait, ir.CtaSync, ir.WarpMma)
SHARED = (ir.WaitFull, ir.ArriveEmpty, ir.FenceAsync)  # of scanners and consumers
ASYNCHRONOUS = (  # of consumers: what hands over to, or takes from, other roles and the engines beside the threads
    ir.TmaStore,
    ir.StoreCommit,
    ir.StoreWait,
    ir.WaitClean,
    ir.OrderWait,
    ir.OrderPass,
    ir.OrderStart,
    ir.GroupSync,
    ir.Mma,
    ir.MmaFence,
    ir.MmaCommit,
    ir.MmaWait,
    ir.WriteShared,
)
CONSUMER_ONLY = (
    *ASYNCHRONOUS,
    ir.Init,
    ir.Map,
    ir.FmaOob,
    ir.Mask,
    ir.RowFold,
    ir.QuadReduce,
    ir.Relayout,
    ir.CopyOperand,
    ir.ReadShared,
    ir.LoadVector,
    ir.StoreRows,
    ir.StoreVector,
    ir.Mend,
    ir.IfSpoiled,
    ir.IfVote,
    ir.Sweep,
)


# What threads that are several warpgroups do once for all of them.
WHOLE = (ir.Let, ir.LetFloat, ir.CopyTile, ir.CopyCommit, ir.CopyWait, ir.CtaSync, ir.ScanSlot, ir.Advance)
NOT_DONE_BY = {
    "producer": (*COPIER_ONLY, *SCANNER_ONLY, *CONSUMER_ONLY, *SHARED, *WORKER_ONLY),
    "copier": (*PRODUCER_ONLY, *SCANNER_ONLY, *CONSUMER_ONLY, *SHARED, *WORKER_ONLY),
    "scanner": (*PRODUCER_ONLY, *COPIER_ONLY, *FILLING, *CONSUMER_ONLY, *WORKER_ONLY),
    "consumer": (*PRODUCER_ONLY, *COPIER_ONLY, *FILLING, *SCANNER_ONLY, *WORKER_ONLY),
    "worker": (*PRODUCER_ONLY, *FILLING, *SHARED, *ASYNCHRONOUS, ir.SignalCopies, ir.ArriveClean, ir.SetRegisters),
}
# Whether a role of this kind runs in some warps of a warpgroup alone; a copier may, beside others.
HAS_WARPS = {"producer": False, "scanner": True, "consumer": False, "worker": False}


def entry_registers(threads: int) -> int:
    """What the compiler may give each of so many threads, launched as the only CTA of an SM."""
    return min(MAX_REGISTERS, REGISTER_FILE // threads // 8 * 8)


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on roles."""
    yield from _warpgroups(plan)
    yield from _registers(plan)
    yield from _work(plan)
    yield from _named_barriers(plan)
    for role, path, operation in all_operations(plan):
        if isinstance(operation, NOT_DONE_BY.get(role.kind, ())):
            yield Violation(path, f"a {role.kind} does not do this")
        steers = isinstance(operation, (*WHOLE, ir.Work, ir.For, ir.If))
        if role.together > 1 and steers and any(WARPGROUP in symbols(u) for u in uniforms(operation)):
            yield Violation(path, f"it depends on the warpgroup, of which {role.together} are the same threads")


def _warpgroups(plan: ir.Plan) -> Iterator[Violation]:
    """Every warpgroup has roles, each of its warps at most one; that of its first warp, which sets the registers of
    them all, stands before the others."""
    taken: dict[int, dict[int, str]] = {}
    for index, role in enumerate(plan.roles):
        here = ("role", index)
        if role.kind not in NOT_DONE_BY:
            yield Violation(here, f'kind "{role.kind}" is none of {", ".join(NOT_DONE_BY)}')
        if role.kind == "worker" and len(plan.roles) > 1:
            yield Violation(here, "a worker meets every thread of the CTA, and stands beside no other role")
        if role.warpgroups < 1 or (role.kind not in ("consumer", "worker") and role.warpgroups != 1):
            yield Violation(here, f"{role.warpgroups} warpgroups for a {role.kind}")
        if role.together != 1 and (role.kind != "worker" or role.together < 1 or role.warpgroups % role.together):
            yield Violation(here, f"{role.warpgroups} warpgroups of a {role.kind} are not run {role.together} together")
            continue
        if role.elected != (role.kind == "producer"):
            wrong = "is run" if role.elected else "is not run"
            yield Violation(here, f"a {role.kind} {wrong} by one elected thread")
        if (role.warps is not None) is not HAS_WARPS.get(role.kind, role.warps is not None):
            yield Violation(here, f"a {role.kind} {'has' if role.warps else 'lacks'} warps of its own")
        first, count = role.warps_of_group
        if not 0 <= first < first + count <= ir.WARPS:
            yield Violation(here, f"a warpgroup has no warps {first} to {first + count - 1}")
            continue
        if first and role.registers is not None:
            yield Violation(here, "registers are set by the role that the warpgroup's first warp runs")
        if first and role.first not in taken:
            yield Violation(here, f"no role for the first warp of warpgroup {role.first} stands before it")
        own = {0} if role.elected else set(range(first, first + count))
        for group in range(role.first, role.first + role.thread_groups):
            others = taken.setdefault(group, {})
            if clash := next((others[w] for w in sorted(own) if w in others), None):
                yield Violation(here, f"warpgroup {group} also runs {clash}")
            others.update(dict.fromkeys(own, role.name))
    groups = plan.threads // WARPGROUP_THREADS
    if plan.threads % WARPGROUP_THREADS or sorted(taken) != list(range(groups)):
        yield Violation(("size",), f"{plan.threads} threads, and roles for the warpgroups {sorted(taken)}")


def _registers(plan: ir.Plan) -> Iterator[Violation]:
    given = entry_registers(max(plan.threads, 1))
    if plan.registers_at_entry != given:
        message = (
            f"the compiler gives {given} registers to each of {plan.threads} threads, not {plan.registers_at_entry}"
        )
        yield Violation(("size",), message)
    for index, role in enumerate(plan.roles):
        here = ("role", index)
        first = role.body[0] if role.body else None
        if role.registers is not None:
            if role.registers not in SETMAXNREG:
                yield Violation(
                    here,
                    f"registers are a multiple of 8 from {SETMAXNREG[0]} to {SETMAXNREG[-1]}, not {role.registers}",
                )
            if not isinstance(first, ir.SetRegisters) or first.count != role.registers:
                yield Violation(here, f"the role does not begin by setting its {role.registers} registers")
        for path, operation in operations(role, index):
            if not isinstance(operation, ir.SetRegisters):
                continue
            if operation is not first or role.registers is None:
                yield Violation(path, "registers are set once, at the start of a role that has its own number")
            elif operation.increase != (operation.count >= plan.registers_at_entry):
                way = "up" if operation.increase else "down"
                yield Violation(path, f"{way} to {operation.count} from {plan.registers_at_entry} at entry")


def _work(plan: ir.Plan) -> Iterator[Violation]:
    """One loop over work items a role, at its outermost level, the same in all roles."""
    headers: dict[tuple[object, str], str] = {}
    for index, role in enumerate(plan.roles):
        count = 0
        for path, operation in operations(role, index):
            if not isinstance(operation, ir.Work):
                continue
            count += 1
            headers[(operation.total, operation.mode)] = role.name
            if operation.mode not in MODES:
                yield Violation(path, f'mode "{operation.mode}" is none of {", ".join(MODES)}')
            known = plan.table.fields if plan.table is not None and operation.mode == "table" else ()
            for name in (f for f in operation.fields if f not in known):
                yield Violation(path, f"the table of work items has no field {name}")
            if operation.mode == "table" and plan.table is None:
                yield Violation(path, "there is no table of work items")
            if len(path) != 3:
                yield Violation(path, "the loop over work items stands inside another operation")
        if count != 1:
            yield Violation(("role", index), f"{count} loops over work items, one is wanted")
    if len(headers) > 1:
        yield Violation(("plan",), f"{' and '.join(headers.values())} go through different work items")


def _named_barriers(plan: ir.Plan) -> Iterator[Violation]:
    """A range of barriers serves one purpose of one role; turns are taken as often as they are handed on."""
    purposes: dict[int, tuple[str, str]] = {}
    for role, path, operation in all_operations(plan):
        if isinstance(operation, ir.OrderWait | ir.OrderPass | ir.OrderStart):
            purpose = "turns"
        elif isinstance(operation, ir.GroupSync):
            purpose = "meetings"
        else:
            continue
        for barrier in range(operation.first_id, operation.first_id + role.warpgroups):
            if barrier not in NAMED_BARRIERS:
                yield Violation(path, f"named barriers are 1 to 15, and warpgroups need {barrier}")
            owner = purposes.setdefault(barrier, (purpose, role.name))
            if owner != (purpose, role.name):
                yield Violation(path, f"barrier {barrier} serves the {owner[0]} of {owner[1]} already")
        if purpose == "turns" and role.warpgroups < 2:
            yield Violation(path, f"{role.name} has one warpgroup, and takes turns")
    for index, role in enumerate(plan.roles):
        yield from _turns(role.body, ("role", index))


def _turns(body: tuple[ir.Operation, ...], path: tuple[str | int, ...]) -> Iterator[Violation]:
    """In every body, waits and passes of each set of turns alternate, a wait first."""
    holding: dict[int, tuple[str | int, ...]] = {}
    for position, operation in enumerate(body):
        here = (*path, position)
        if isinstance(operation, ir.OrderWait):
            if operation.first_id in holding:
                yield Violation(here, "waits for a turn that this warpgroup has")
            holding[operation.first_id] = here
        elif isinstance(operation, ir.OrderPass) and holding.pop(operation.first_id, None) is None:
            yield Violation(here, "hands on a turn that this warpgroup does not have")
        yield from _turns(body_of(operation), here)
    for here in holding.values():
        yield Violation(here, "the turn is not handed on in this body")
