"""What the roles' passes share: geometry, rings, fragments and their registers."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace

from tilegen.ir.folded import Elementwise, FoldedOp, Guarded, Product, Weight
from tilegen.ir.plan import For, If, IfSpoiled, Let, LetFloat, Operation, Ring, Value, Work
from tilegen.ir.plan_walk import nodes
from tilegen.ir.scheduled import Scheduled, Stream
from tilegen.ir.tile import Cast
from tilegen.ir.uniform import Sym
from tilegen.passes.schedule import source_names
from tilegen.passes.synchronise.geometry import TileGeometry, value_shape


@dataclass(frozen=True)
class Context:
    scheduled: Scheduled
    tiles: dict[str, TileGeometry]
    rings: dict[str, Ring]
    storage: dict[str, str]  # value -> the value whose registers it takes over

    @property
    def tabled(self) -> bool:
        """Whether a table that the host makes gives each item's positions and ranges, so that no role derives them."""
        return self.scheduled.order.persistent == "table"

    @property
    def stream(self) -> str | None:
        return next((r.axis for r in self.scheduled.roles if r.role == "stream"), None)

    def scanned(self, tile: str) -> bool:
        """Whether a tile's slots are looked through before the consumers read them."""
        return self.scheduled.tile(tile).scan

    def streamed(self, tile: str) -> bool:
        return self.stream is not None and self.stream in self.tiles[tile].move.axes

    def tiles_of(self, op: FoldedOp) -> tuple[str, ...]:
        """Tiles that an operation reads from shared memory."""
        return tuple(n for n in source_names(op) if n in self.tiles)


def carried(op: FoldedOp, stream: str | None) -> bool:
    """A fold whose state lives through the streamed loop."""
    return stream is not None and stream in getattr(op, "over", ()) and not isinstance(op, Guarded)


def storage(s: Scheduled) -> dict[str, str]:
    """Which values take over the registers of a value that is read for the last time where they are computed.

    Only element by element in one layout: a guarded, weighted or mapped accumulator is written over its source, if
    it can be in every phase that computes it.
    """
    kept: set[str] = set()
    while True:
        out, refused = _storage_without(kept, s)
        if not refused:
            return out
        kept |= refused


def _storage_without(kept: set[str], s: Scheduled) -> tuple[dict[str, str], set[str]]:
    """The same with values that keep registers of their own; and those of them that a phase wants to keep as well."""
    stream = next((r.axis for r in s.roles if r.role == "stream"), None)
    out: dict[str, str] = {}
    refused: set[str] = set()

    def root(name: str) -> str:
        return root(out[name]) if name in out else name

    for phase in s.phases:
        order = [step.op for step in phase.steps]
        for n, name in enumerate(order):
            op = s.op(name)
            if name in kept or not isinstance(op, Guarded | Weight | Elementwise) or _becomes_operand(op, s):
                continue
            shape = value_shape(op.axes, s, op.span, op.statement)
            if shape.layout != "acc":
                continue
            for source in source_names(op):
                if not s.program.has(source):
                    continue
                before = s.op(source)
                held = root(source)
                if out.get(name, held) != held:
                    continue
                other = value_shape(before.axes, s, before.span, before.statement)
                if (other.layout, other.width) != (shape.layout, shape.width):
                    continue
                if carried(before, stream) and isinstance(phase, Stream):
                    continue
                later = [s.op(o) for o in order[n + 1 :]]
                to_come = set(order[n:])
                family = {v for v in [*out, source] if root(v) == held and v not in to_come}
                if any(family & set(source_names(o)) for o in later):
                    continue
                if _read_in_other_phase(family, phase, s):
                    continue
                if any(step.distance for step in phase.steps if step.op in family | {name}):
                    continue
                out[name] = held
                break
            else:
                refused.add(name)
    return out, refused & set(out)


def _becomes_operand(op: FoldedOp, s: Scheduled) -> bool:
    """A cast that a product reads as its first factor is packed into registers of its own."""
    return (
        isinstance(op, Elementwise)
        and isinstance(op.value, Cast)
        and any(isinstance(o, Product) and op.name in (o.a, o.b) for o in s.program.ops)
    )


def _read_in_other_phase(family: set[str], phase: object, s: Scheduled) -> bool:
    """Whether a later phase reads a member without computing it again."""
    seen = False
    for p in s.phases:
        if p is phase:
            seen = True
        elif seen:
            made = {step.op for step in p.steps}
            for step in p.steps:
                if any(n in family and n not in made for n in source_names(s.op(step.op))):
                    return True
    return False


# ---- names ----------------------------------------------------------------------------------


def symbols_in(top: object) -> set[str]:
    return {node.name for node in nodes(top) if isinstance(node, Sym | Value)}


def prune(body: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """`body` without bindings that nothing after them uses, or that repeat one in the same body."""
    kept: list[Operation] = []
    used: set[str] = set()
    for n, op in reversed(tuple(enumerate(body))):
        if isinstance(op, Let) and any(
            isinstance(o, Let) and (o.name, o.value) == (op.name, op.value) for o in body[:n]
        ):
            continue
        if isinstance(op, Let | LetFloat) and op.name not in used:
            continue
        if isinstance(op, Work | For | If | IfSpoiled):
            op = replace(op, body=prune(op.body))
            if isinstance(op, For | If) and not op.body:
                continue
        used |= symbols_in(op)
        kept.append(op)
    return tuple(reversed(kept))


def rename(body: tuple[Operation, ...], old: str, new: str) -> tuple[Operation, ...]:
    """`body` with the uniform `old`, and its binding, called `new`."""

    def change(node: object) -> object:
        if isinstance(node, Sym):
            return Sym(new) if node.name == old else node
        if isinstance(node, tuple):
            return tuple(change(n) for n in node)
        if is_dataclass(node) and not isinstance(node, type):
            changed = {f.name: change(getattr(node, f.name)) for f in fields(node)}
            if isinstance(node, Let) and node.name == old:
                changed["name"] = new
            return replace(node, **changed)
        return node

    return tuple(change(o) for o in body)  # type: ignore[misc]
