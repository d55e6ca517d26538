"""Rings: every role that touches a slot does so once a position, in order, with the arrivals and bytes it needs."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_text import Path
from tilegen.ir.plan_walk import body_of, operations, parts

_WORDS = {
    ir.WaitEmpty: "wait empty",
    ir.Expect: "expect full",
    ir.SignalCopies: "signal full",
    ir.WaitFull: "wait full",
    ir.WaitClean: "wait clean",
    ir.ArriveClean: "arrive clean",
    ir.ArriveEmpty: "arrive empty",
}


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on rings."""
    for index, role in enumerate(plan.roles):
        for path, operation in operations(role, index):
            for slot in parts(operation, ir.Slot):
                if slot.part is not None and not 0 <= slot.part < plan.ring(slot.ring).parts:
                    yield Violation(path, f"{slot.ring} has {plan.ring(slot.ring).parts} parts, no part {slot.part}")
                if slot.part is None and plan.ring(slot.ring).parts > 1 and role.kind in ("producer", "copier"):
                    yield Violation(path, f"which part of {slot.ring}?")
        yield from _body(plan, role.body, ("role", index))
    for ring in plan.rings:
        yield from _arrivals(plan, ring)
        yield from _scan(plan, ring)


def _arrivals(plan: ir.Plan, ring: ir.Ring) -> Iterator[Violation]:
    """One arrival an issuer on full; on empty, one a warpgroup or a warp of every reader of a part, in every CTA that
    shares the slots."""
    here = ("ring", ring.name)
    for part in range(ring.parts):
        full = empty = 0
        for index, role in enumerate(plan.roles):
            own = ring.parts > 1
            fills = reads = 0
            for _, operation in operations(role, index):
                if isinstance(operation, ir.Expect) and operation.slot.ring == ring.name:
                    fills = max(fills, int(operation.slot.part in (None, part)))
                if isinstance(operation, ir.SignalCopies) and operation.slot.ring == ring.name:
                    fills = max(fills, role.threads * int(operation.slot.part in (None, part)))
                if isinstance(operation, ir.ArriveEmpty) and operation.slot.ring == ring.name:
                    if operation.slot.part is None:
                        reads = int(part < role.warpgroups) if own else role.warpgroups
                    elif operation.slot.part == part:
                        reads = role.warpgroups
            full += fills
            empty += reads * role.releases(ring) * ring.shares
        which = f" of part {part}" if ring.parts > 1 else ""
        if full != ring.full_arrivals:
            yield Violation(here, f"full barriers{which} take {ring.full_arrivals} arrivals, {full} come")
        if empty != ring.empty_arrivals:
            yield Violation(here, f"empty barriers{which} take {ring.empty_arrivals} arrivals, {empty} come")


def _scan(plan: ir.Plan, ring: ir.Ring) -> Iterator[Violation]:
    """A ring that is looked through: one arrival of each warp of the scanner, and readers that wait for them."""
    if ring.scan is None:
        return
    clean = 0
    for index, role in enumerate(plan.roles):
        if role.kind != "scanner":
            for path in _unseen(ring, role.body, ("role", index)):
                yield Violation(path, f"{role.name} does not wait until the slot has been looked through")
        for _, operation in operations(role, index):
            match operation:
                case ir.ArriveClean(slot) if slot.ring == ring.name:
                    clean += role.warps_of_group[1]
    if clean != ring.scan.arrivals:
        message = f"clean barriers take {ring.scan.arrivals} arrivals, {clean} come"
        yield Violation(("ring", ring.name), message)


def _unseen(ring: ir.Ring, body: tuple[ir.Operation, ...], path: Path) -> Iterator[Path]:
    """Waits for a slot to be full, where the same body does not just free it again."""
    waits: dict[ir.Slot, Path] = {}
    freed: set[ir.Slot] = set()
    read: set[ir.Slot] = set()
    for position, operation in enumerate(body):
        yield from _unseen(ring, body_of(operation), (*path, position))
        match operation:
            case ir.WaitFull(slot) if slot.ring == ring.name:
                waits[slot] = (*path, position)
            case ir.ArriveEmpty(slot):
                freed.add(slot)
            case _ if type(operation) not in _WORDS:
                read |= set(parts(operation, ir.Slot))
    yield from (where for slot, where in waits.items() if slot not in freed or slot in read)


def _body(plan: ir.Plan, body: tuple[ir.Operation, ...], path: Path) -> Iterator[Violation]:
    """In one body, between two moves of a cursor, each kind of synchronisation happens once for each part."""
    seen: dict[tuple[type, ir.Slot], Path] = {}
    loads: dict[ir.Slot, int] = {}
    expects: dict[ir.Slot, tuple[int, Path]] = {}
    copies: dict[ir.Slot, bool] = {}  # whether they are asynchronous
    touched: set[ir.Slot] = set()  # in rings without barriers
    for position, operation in enumerate(body):
        here = (*path, position)
        match operation:
            case (
                ir.WaitEmpty(slot)
                | ir.WaitFull(slot)
                | ir.WaitClean(slot)
                | ir.ArriveEmpty(slot)
                | ir.ArriveClean(slot)
                | ir.Expect(slot)
                | ir.SignalCopies(slot)
            ):
                if (type(operation), slot) in seen:
                    yield Violation(here, f"a second {_WORDS[type(operation)]} of the same position")
                seen[(type(operation), slot)] = here
                yield from _order(operation, seen, here)
                if isinstance(operation, ir.SignalCopies) and copies.get(slot) is not operation.asynchronous:
                    yield Violation(here, "what is signalled is not what the copies before it are")
                if isinstance(operation, ir.Expect):
                    expects[slot] = (operation.bytes, here)
                    loads[slot] = 0
                    ring = plan.ring(slot.ring)
                    if operation.bytes != ring.bytes:
                        yield Violation(here, f"{ring.name} holds {ring.bytes} bytes, not {operation.bytes}")
            case ir.TmaLoad(_, _, slot, _, size):
                if slot not in expects:
                    yield Violation(here, "the load's bytes are not expected in this body")
                else:
                    loads[slot] += size * plan.ring(slot.ring).shares
            case ir.CopyTile(_, _, slot) if plan.ring(slot.ring).barriers:
                if slot in copies:
                    yield Violation(here, "a second copy to the same position")
                if (ir.WaitEmpty, slot) not in seen:
                    yield Violation(here, "the slot is filled without waiting until it is empty")
                copies[slot] = operation.width in ir.ASYNCHRONOUS
            case ir.CopyTile(_, _, slot):
                if (ir.CopyTile, slot) in seen:
                    yield Violation(here, "a second copy to the same position")
                seen[(ir.CopyTile, slot)] = here
            case ir.Advance(cursor):
                yield from _passed(cursor, seen, touched, here)
                touched = {slot for slot in touched if slot.cursor != cursor}
                copies = {slot: kind for slot, kind in copies.items() if slot.cursor != cursor}
                for slot in [s for s in expects if s.cursor == cursor]:
                    size, where = expects.pop(slot)
                    if loads.pop(slot) != size:
                        yield Violation(where, f"{size} bytes are expected and others loaded")
                seen = {key: p for key, p in seen.items() if key[1].cursor != cursor}
        for o in (operation, *_inside(operation)):
            touched |= {slot for slot in parts(o, ir.Slot) if not plan.ring(slot.ring).barriers}
        if not _ahead(operation):
            yield from _body(plan, body_of(operation), here)
    for where in seen.values():
        yield Violation(where, "the cursor does not move on in this body")


def _ahead(operation: ir.Operation) -> bool:
    """Whether it is a branch with nothing but waits: for slots that what follows, if anything does, goes on from."""
    return isinstance(operation, ir.If) and all(isinstance(o, ir.WaitFull | ir.WaitClean) for o in operation.body)


def _order(operation: ir.Operation, seen: dict[tuple[type, ir.Slot], Path], here: Path) -> Iterator[Violation]:
    """A slot is filled when it has been waited for."""
    if isinstance(operation, ir.Expect) and (ir.WaitEmpty, operation.slot) not in seen:
        yield Violation(here, "the slot is filled without waiting until it is empty")
    if isinstance(operation, ir.ArriveClean) and (ir.WaitFull, operation.slot) not in seen:
        yield Violation(here, "the slot is passed on without waiting until it is full")


def _inside(operation: ir.Operation) -> Iterator[ir.Operation]:
    for inner in body_of(operation):
        yield inner
        yield from _inside(inner)


def _passed(
    cursor: str, seen: dict[tuple[type, ir.Slot], Path], touched: set[ir.Slot], here: Path
) -> Iterator[Violation]:
    kinds = {kind for kind, slot in seen if slot.cursor == cursor}
    if not kinds and not any(slot.cursor == cursor for slot in touched):
        yield Violation(here, f"cursor {cursor} moves on, and nothing in this body was done with the position")
    if ir.WaitEmpty in kinds and not kinds & {ir.Expect, ir.SignalCopies}:
        yield Violation(here, f"cursor {cursor} moves on from a slot that was not filled")
