"""Which fragments' registers hold values that are still needed, before each operation of a role."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir import plan as ir
from tilegen.ir.plan_text import Path
from tilegen.ir.plan_walk import body_of, fragments_read, fragments_written, storages

Live = frozenset[str]  # storages

# Registers a thread needs beside its fragments: addresses, cursors, loop counters, temporaries. For consumers from
# hand-written kernels of this kind: of 160 registers, accumulators and operands of 132 fit beside about 10 of row
# values, 136 do not; of 112, 84 fit and 96 do not; of 240, 212 fit and 220 do not.
OVERHEAD = {"consumer": 18, "producer": 24, "scanner": 24, "copier": 32, "worker": 48}


@dataclass(frozen=True)
class Point:
    """The place before an operation, and the storages live there."""

    path: Path
    operation: ir.Operation
    live: Live


def live_points(role: ir.RolePlan, index: int) -> tuple[Point, ...]:
    """Every place of a role, in the order of the plan.

    A product uses its accumulator and A operand until its token is retired; a fragment written over by an
    operation that does not read it is dead before it.
    """
    analysis = _Liveness(storages(role))
    analysis.body(role.body, ("role", index), frozenset())
    return tuple(
        Point(path, operation, live) for path, (operation, live) in sorted(analysis.before.items(), key=_order)
    )


def _order(item: tuple[Path, object]) -> tuple[int, ...]:
    return tuple(p for p in item[0] if isinstance(p, int))


def registers_of_storages(role: ir.RolePlan) -> dict[str, int]:
    """Registers a thread that each storage takes."""
    return {f.name: f.registers * role.together if f.storage else 0 for f in role.fragments}


def held(role: ir.RolePlan, index: int) -> tuple[int, int]:
    """Registers a thread that fragments hold at once, at most: anywhere, and inside of loops."""
    sizes, points = registers_of_storages(role), live_points(role, index)
    loops = {p.path for p in points if isinstance(p.operation, ir.For)}
    each = [(sum(sizes[name] for name in p.live), any(p.path[:n] in loops for n in range(len(p.path)))) for p in points]
    return max((n for n, _ in each), default=0), max((n for n, inside in each if inside), default=0)


class _Liveness:
    def __init__(self, storage: dict[str, str]) -> None:
        self.storage = storage
        self.before: dict[Path, tuple[ir.Operation, Live]] = {}
        self.products: dict[str, Live] = {}  # token -> registers it uses in flight

    def body(self, body: tuple[ir.Operation, ...], path: Path, after: Live) -> Live:
        """The storages live before `body`, given those live after it."""
        for operation in body:
            self._note_products(operation)
        live = after
        for position in reversed(range(len(body))):
            operation, here = body[position], (*path, position)
            if isinstance(operation, ir.If | ir.IfSpoiled):
                live = live | self.body(operation.body, here, live)
            elif isinstance(operation, ir.IfVote):
                live = live | self.body(operation.body, here, live) | {self.storage[operation.fragment]}
            elif isinstance(operation, ir.Sweep):
                live = self.body(operation.body, here, live)
            elif isinstance(operation, ir.Work | ir.For):
                around = live
                while True:  # grows inside a finite set
                    entry = around | self.body(operation.body, here, around)
                    if entry == around:
                        break
                    around = entry
                live = around
            else:
                live = self._step(operation, live)
            self.before[here] = (operation, live)
        return live

    def _note_products(self, operation: ir.Operation) -> None:
        if isinstance(operation, ir.Mma):
            names = [operation.accumulator]
            names += [operation.a.fragment] if isinstance(operation.a, ir.FragmentOperand) else []
            uses = frozenset(self.storage[n] for n in names)
            self.products[operation.token] = self.products.get(operation.token, frozenset()) | uses
        for inner in body_of(operation):
            self._note_products(inner)

    def _step(self, operation: ir.Operation, live: Live) -> Live:
        if isinstance(operation, ir.MmaWait):
            return live.union(*(self.products.get(t, frozenset()) for t in operation.retires))
        written = {self.storage[n] for n in fragments_written(operation)}
        return (live - written) | {self.storage[n] for n in fragments_read(operation)}
