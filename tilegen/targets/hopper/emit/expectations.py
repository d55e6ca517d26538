"""What the machine code of a plan must hold, for the SASS gates: counted from the plan, op by op."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilegen.ir.plan import (
    ASYNCHRONOUS,
    AnyMma,
    Compute,
    CopyOperand,
    CopyTile,
    CtaSync,
    ElementExpr,
    Expect,
    For,
    GroupSync,
    LoadVector,
    Map,
    Mma,
    MmaCommit,
    MmaFence,
    MmaWait,
    Operation,
    OrderPass,
    OrderWait,
    Plan,
    RolePlan,
    SetRegisters,
    Sweep,
    TmaLoad,
    TmaStore,
    WarpMma,
    Work,
)
from tilegen.ir.uniform import Int
from tilegen.targets.hopper.emit.scope import walk
from tilegen.targets.hopper.gates import MAX_MOVES, Event, KernelGate, LoopGate, Under

# Register moves that a load from global memory brings along: its 64-bit address, and the zero that it may not replace.
MOVES_A_LOAD = 3
_EVIDENCE = {"UTMALDG": TmaLoad, "UTMASTG": TmaStore, "SYNCS.ARRIVE.TRANS64": Expect, "HGMMA": Mma, "HMMA": WarpMma}


def expectations(plan: Plan) -> KernelGate:
    """The gates of a plan's kernel: one for each innermost loop with products, and the hardware it must use."""
    operations = [o for r in plan.roles for o in walk(r.body)]
    evidence = [(name, 1) for name, kind in _EVIDENCE.items() if any(isinstance(o, kind) for o in operations)]
    if any(isinstance(o, TmaLoad) and plan.ring(o.slot.ring).sharers for o in operations):
        evidence.append(("MULTICAST", 1))
    if any(isinstance(o, CopyTile) and o.width in ASYNCHRONOUS for o in operations):
        evidence.append(("LDGSTS", 1))
    if any(r.elected for r in plan.roles):
        evidence.append(("ELECT", 1))
    if plan.dependent:
        evidence += [("PREEXIT", 1), ("ACQBULK", 1)]
    registers = tuple(o.count for o in operations if isinstance(o, SetRegisters))
    if registers:
        evidence.append(("USETMAXREG", len(registers)))
    loops = tuple(_loop_gate(r, loop) for r in plan.roles for loop in _product_loops(r.body))
    outside = sum(_products(walk(r.body), r) for r in plan.roles) - sum(g.products for g in loops)
    return KernelGate(loops, operations[0].span, tuple(evidence), registers, outside)


def _products(operations: Iterable[Operation], role: RolePlan) -> int:
    """Tensor-core instructions of these."""
    return sum(_instructions(o, role) for o in operations)


def _instructions(o: Operation, role: RolePlan) -> int:
    """Tensor-core instructions of one operation: of a warp's product, one for each 8 columns and 16 of its rows."""
    if isinstance(o, WarpMma):
        return len(o.b.offsets) * (o.n // 8) * role.together
    return len(o.b.offsets) if isinstance(o, Mma) else 0


def _product_loops(body: tuple[Operation, ...]) -> Iterator[For | Work]:
    """The innermost loops with products, less those whose one step the compiler knows."""
    for o in walk(body):
        if isinstance(o, For | Work) and any(isinstance(p, AnyMma) for p in walk(o.body)):
            inner = any(True for p in walk(o.body) if isinstance(p, For) and any(_product_loops((p,))))
            if not inner and not _single(o):
                yield o


def _single(loop: For | Work) -> bool:
    if isinstance(loop, Work):
        return loop.mode == "single"
    start, stop = loop.start, loop.stop
    return isinstance(start, Int) and isinstance(stop, Int) and stop.value - start.value <= 1


def _loop_gate(role: RolePlan, loop: For | Work) -> LoopGate:
    held = list(walk(loop.body))

    def of(*kinds: type) -> int:
        return sum(isinstance(o, kinds) for o in held)

    registers = {f.name: f.registers for f in role.fragments}
    loads = sum(registers[o.out] for o in held if isinstance(o, LoadVector))
    moves = sum(registers[o.out] for o in held if isinstance(o, CopyOperand))
    branches = any(isinstance(o, Mma | MmaWait) for o in held if o not in loop.body)
    return LoopGate(
        name=f"{role.name}: {loop.label or loop.var if isinstance(loop, For) else 'work items'}",
        span=loop.span,
        products=_products(held, role),
        commits=of(MmaCommit),
        waits=of(MmaWait),
        arrivals=of(MmaFence),
        order=() if branches else tuple(_order(loop.body)),
        under=() if branches else tuple(_under(role, loop.body)),
        turn_waits=of(OrderWait, GroupSync, CtaSync),
        turn_passes=of(OrderPass),
        max_moves=MAX_MOVES + MOVES_A_LOAD * loads + moves,
    )


def _order(body: tuple[Operation, ...]) -> Iterator[Event]:
    """Groups of products, closed by their commits, and waits."""
    products = 0
    for o in body:
        if isinstance(o, Mma):
            products += len(o.b.offsets)
        elif isinstance(o, MmaCommit):
            yield "mma", products
            products = 0
        elif isinstance(o, MmaWait):
            yield "wait", o.pending


def _under(role: RolePlan, body: tuple[Operation, ...]) -> Iterator[Under]:
    """Exponentials that stand between the issue of a product and the wait that retires it."""
    registers = {f.name: f.registers for f in role.fragments}
    issued: list[Mma] = []
    between: list[Map] = []
    wait = 0
    for o in body:
        if isinstance(o, Mma):
            issued.append(o)
            between.clear()
        elif isinstance(o, Map | Sweep) and issued:
            between += [m for m in (o.body if isinstance(o, Sweep) else (o,)) if isinstance(m, Map)]
        elif isinstance(o, MmaWait):
            retired = [p for p in issued if p.token in o.retires]
            for m in between if retired else ():
                exponentials = _count(m.value, "ex2")
                if exponentials and registers[m.out] > 2:
                    least = exponentials * registers[m.out]
                    product = retired[-1].statement or retired[-1].accumulator
                    yield Under(m.statement or m.out, product, wait, "MUFU.EX2", least, m.span)
            issued = [p for p in issued if p.token not in o.retires]
            between.clear()
            wait += 1


def _count(e: ElementExpr, op: str) -> int:
    if not isinstance(e, Compute):
        return 0
    return (e.op == op) + sum(_count(a, op) for a in e.args)
