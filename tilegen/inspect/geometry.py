"""Where a tile lies: its boxes at a position of its axes, by the compiler's own plan and the launch's tensor maps.

Coordinates are the plan's expressions, evaluated; tensor maps are those that a launch on contiguous arrays makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan import (
    CLUSTER_RANK,
    Buffer,
    Descriptor,
    If,
    MapDim,
    Operation,
    Plan,
    TensorShape,
    TmaLoad,
    TmaStore,
)
from tilegen.ir.plan_walk import body_of
from tilegen.ir.poly import Poly
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.tile import Affine, Definition, Index, Move, TileProgram
from tilegen.ir.uniform import evaluate, symbols, text
from tilegen.passes.synchronise.geometry import extent_in_tile
from tilegen.passes.synchronise.rows import row_part
from tilegen.runtime.arrays import ArrayView, contiguous_strides
from tilegen.runtime.binding import map_faults, tensor_map
from tilegen.syntax.span import Span
from tilegen.targets.hopper.box import Box, bank
from tilegen.targets.hopper.tensor_map import TensorMap

_BASE = 256  # address of the array that stands for a tensor: any that every rule allows


@dataclass(frozen=True)
class PlacedBox:
    """One TMA instruction. part: of which consumer's copy of the tile, None where they share it. sharer: which of the
    CTAs that load the tile together issues it, None where each loads its own. slot_byte: where in a slot it begins;
    shared_byte: where in the CTA's dynamic shared memory, for the slot of its stage: the first one of a ring, and the
    one that a piece of an output is stored from."""

    box: Box
    part: int | None
    sharer: int | None
    slot_byte: int
    shared_byte: int
    stage: int = 0


@dataclass(frozen=True)
class PlacedElement:
    """One element. position: along the tensor's dimensions, outermost first. number: of the box that holds it, and
    index: its place there, innermost first. Bytes: from the tensor's start, from the slot's, and of dynamic shared
    memory for the slot of the box's stage."""

    position: tuple[int, ...]
    number: int
    index: tuple[int, ...]
    inside: bool
    global_byte: int
    slot_byte: int
    shared_byte: int

    @property
    def bank(self) -> int:
        return bank(self.shared_byte)


@dataclass(frozen=True)
class PlacedTile:
    """A tile at a position. at: of every axis. held: the positions along its axes that it holds, cut at their extents.
    labels: what the coordinates are, innermost first."""

    name: str
    span: Span
    store: bool
    at: Mapping[str, int]
    held: Mapping[str, range]
    tensor: TensorShape
    shape: tuple[int, ...]
    descriptor: Descriptor
    buffer: Buffer
    barrier_bytes: int  # that a full barrier expects for one copy; 0 for stores
    boxes: tuple[PlacedBox, ...]
    element: PlacedElement

    @property
    def labels(self) -> tuple[str, ...]:
        return _labels(self.descriptor, self.tensor)

    @property
    def beside_element(self) -> tuple[PlacedBox, ...]:
        """The boxes that lie in the slot with the one that holds the element, in the same copy of the tile; that one
        alone, where an output leaves in pieces."""
        mine = self.boxes[self.element.number]
        boxes = tuple(b for b in self.boxes if b.part == mine.part)
        return boxes if sum(b.box.map.box_bytes for b in boxes) <= self.buffer.stage_bytes else (mine,)


def as_json(tile: PlacedTile) -> dict[str, object]:
    """All of it as values that JSON has; coordinates and indices innermost first, positions outermost first."""
    m, e = tile.boxes[0].box.map, tile.element
    return {
        "tile": tile.name,
        "line": tile.span.line,
        "store": tile.store,
        "at": dict(tile.at),
        "held": {axis: [r.start, r.stop] for axis, r in tile.held.items()},
        "tensor": {"name": tile.tensor.name, "type": str(tile.tensor.dtype), "shape": list(tile.shape)},
        "map": {
            "type": m.dtype,
            "extents": list(m.dims),
            "strides": [m.element_bytes, *m.strides],
            "box": list(m.box),
            "element_strides": list(m.element_strides),
            "swizzle": m.swizzle,
            "fill": m.fill,
        },
        "barrier_bytes": tile.barrier_bytes,
        "buffer": {
            "name": tile.buffer.name,
            "offset": tile.buffer.offset,
            "stage_bytes": tile.buffer.stage_bytes,
            "stages": tile.buffer.stages,
            "parts": tile.buffer.parts,
        },
        "boxes": [_box_json(b) for b in tile.boxes],
        "element": {
            "position": list(e.position),
            "box": e.number,
            "index": list(e.index),
            "inside": e.inside,
            "global_byte": e.global_byte,
            "slot_byte": e.slot_byte,
            "shared_byte": e.shared_byte,
            "bank": e.bank,
        },
    }


def _box_json(placed: PlacedBox) -> dict[str, object]:
    box = placed.box
    return {
        "part": placed.part,
        "sharer": placed.sharer,
        "coordinates": list(box.coordinates),
        "shape": list(box.shape),
        "inside": [[r.start, r.stop] for r in box.inside],
        "stage": placed.stage,
        "slot_byte": placed.slot_byte,
        "shared_byte": placed.shared_byte,
        "bytes": box.map.box_bytes,
        "corners": [
            {"coordinates": list(box.position(c)), "byte": box.global_byte(c), "inside": box.holds(c)}
            for c in box.corners()
        ],
    }


def moved_by_tma(plan: Plan) -> tuple[str, ...]:
    """The tiles and outputs that boxes move, in the order of their tensor maps."""
    return tuple(d.name for d in plan.descriptors)


def declared(name: str, program: TileProgram) -> Move | Definition:
    """The tile or equation of this name. Raises KeyError."""
    move = next((m for m in program.moves if m.name == name), None)
    return move if move is not None else program.definition(name)


def tile_axes(name: str, scheduled: Scheduled) -> tuple[str, ...]:
    """The axes that say where a tile or output is: those in its brackets and those it carries along."""
    found = declared(name, scheduled.program.tile)
    return found.axes if isinstance(found, Move) else found.index


def held_positions(
    name: str, scheduled: Scheduled, values: Mapping[str, int], at: Mapping[str, int]
) -> dict[str, range]:
    """The positions along each of its axes that a tile at a position holds, cut at their extents."""
    return {a: _held(a, scheduled, at, values) for a in tile_axes(name, scheduled)}


def place_tile(
    name: str,
    scheduled: Scheduled,
    plan: Plan,
    values: Mapping[str, int],
    at: Mapping[str, int],
    element: Mapping[str, int],
) -> PlacedTile:
    """A tile of `moved_by_tma` at a position.

    values: sizes and integer scalars, of a ragged size the length at hand and its start. at: the position of every
    axis that the tile depends on, parts of split axes included. element: of the element that is looked for.
    Raises TilegenError where a tensor of these sizes cannot have a tensor map, or no box holds the element.
    """
    program = scheduled.program.tile
    descriptor = plan.descriptor(name)
    tensor = plan.tensor(descriptor.tensor)
    known = {**values, **_bound(scheduled, at)}
    made = dense_map(name, program, plan, values)
    moves = _moves(plan, name, known.keys())
    first = moves[0]
    buffer = plan.buffer(first.buffer if isinstance(first, TmaStore) else plan.ring(first.slot.ring).buffer)
    boxes = tuple(
        _placed(m, part, n, made, buffer, known) for m, part in _copies(moves, buffer) for n in _sharers(m, plan)
    )
    position = tuple(_position(e, values, element) for e in _index(name, program))
    return PlacedTile(
        name=name,
        span=declared(name, program).span,
        store=descriptor.store,
        at=at,
        held=held_positions(name, scheduled, values, at),
        tensor=tensor,
        shape=_shape(tensor, values),
        descriptor=descriptor,
        buffer=buffer,
        barrier_bytes=0 if isinstance(first, TmaStore) else plan.ring(first.slot.ring).bytes,
        boxes=boxes,
        element=_element(position, descriptor, boxes, values),
    )


def dense_map(name: str, program: TileProgram, plan: Plan, values: Mapping[str, int]) -> TensorMap:
    """The map of a tile of `moved_by_tma` over a contiguous tensor. Raises TilegenError with the rules it breaks."""
    descriptor = plan.descriptor(name)
    tensor = plan.tensor(descriptor.tensor)
    shape = _shape(tensor, values)
    view = ArrayView(_BASE, shape, contiguous_strides(shape, tensor.dtype.bytes), tensor.dtype, "cpu", "numpy", None)
    spans = {t.name: t.span for t in program.tensors}
    made = tensor_map(descriptor, tensor, view, values, spans)
    if faults := map_faults(descriptor, made, _labels(descriptor, tensor), spans.get(tensor.name)):
        raise TilegenError(tuple(faults))
    return made


def _shape(tensor: TensorShape, values: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(d, values) for d in tensor.dims)


def _bound(scheduled: Scheduled, at: Mapping[str, int]) -> dict[str, int]:
    """The names that a plan binds for positions of axes: of the first that the tile holds, where it holds several."""
    first = {a: position - position % extent_in_tile(a, scheduled) for a, position in at.items()}
    return {**at, **{f"{a}.0": position for a, position in first.items()}}


def _held(axis: str, scheduled: Scheduled, at: Mapping[str, int], values: Mapping[str, int]) -> range:
    part = row_part(axis, scheduled)
    if part is not None and part.axis != axis:  # a split axis, whose inner part runs along the rows
        inner, base = _held(part.axis, scheduled, at, values), at[axis] - at[part.axis]
        return range(base + inner.start, base + inner.stop)
    block, extent = extent_in_tile(axis, scheduled), scheduled.program.tile.axis(axis).extent.evaluate(values)
    first = at[axis] - at[axis] % block
    return range(first, min(first + block, extent))


def _moves(plan: Plan, name: str, known: Collection[str]) -> tuple[TmaLoad, ...] | tuple[TmaStore, ...]:
    """The instructions that move a tile, of the first place in the plan that names positions as they are at hand: a
    place that works on an iteration before names them by other names."""
    usable = {*known, "warpgroup", CLUSTER_RANK}
    for role in plan.roles:
        for body in _bodies(role.body):
            loads = tuple(o for o in body if isinstance(o, TmaLoad) and o.descriptor == name)
            stores = tuple(o for o in _beside(body) if isinstance(o, TmaStore) and o.descriptor == name)
            for moves in (loads, stores):
                if moves and all(symbols(c) <= usable for m in moves for c in m.coordinates):
                    return moves
    raise KeyError(name)


def _beside(body: tuple[Operation, ...]) -> Iterator[Operation]:
    """The operations of a body, and what a branch holds that decides nothing but whether a box is stored."""
    for o in body:
        yield from o.body if isinstance(o, If) and all(isinstance(p, TmaStore) for p in o.body) else (o,)


def _bodies(body: tuple[Operation, ...]) -> Iterator[tuple[Operation, ...]]:
    yield body
    for operation in body:
        if inner := body_of(operation):
            yield from _bodies(inner)


def _copies(
    moves: tuple[TmaLoad, ...] | tuple[TmaStore, ...], buffer: Buffer
) -> Iterator[tuple[TmaLoad | TmaStore, int | None]]:
    """Each instruction with the part that it moves: a store is one of every warpgroup's own part."""
    for part in range(buffer.parts):
        for move in moves:
            if isinstance(move, TmaStore) or (move.slot.part or 0) == part:
                yield move, part if buffer.parts > 1 else None


def _sharers(move: TmaLoad | TmaStore, plan: Plan) -> tuple[tuple[int, int], ...] | tuple[None]:
    """The number and the rank of each CTA that issues it for all of them."""
    sharers = plan.ring(move.slot.ring).sharers if isinstance(move, TmaLoad) else None
    return (None,) if sharers is None else tuple(enumerate(sharers.ranks(0)))


def _placed(
    move: TmaLoad | TmaStore,
    part: int | None,
    sharer: tuple[int, int] | None,
    made: TensorMap,
    buffer: Buffer,
    known: Mapping[str, int],
) -> PlacedBox:
    number, rank = sharer or (0, 0)
    here = {**known, "warpgroup": part or 0, CLUSTER_RANK: rank}
    box = Box(made, tuple(evaluate(c, here) for c in move.coordinates))
    slot = move.offset + (move.share * number if isinstance(move, TmaLoad) else 0)
    stage = move.stage if isinstance(move, TmaStore) else 0
    begin = buffer.offset + (stage * buffer.parts + (part or 0)) * buffer.stage_bytes
    return PlacedBox(box, part, None if sharer is None else number, slot, begin + slot, stage)


def _index(name: str, program: TileProgram) -> tuple[Index, ...]:
    """What a tile or output is indexed by along each dimension of its tensor, outermost first."""
    found = declared(name, program)
    if isinstance(found, Move):
        return found.at
    return tuple(Affine(((axis, 1),), Poly(), found.span) for axis in found.index)


def _position(entry: Index, values: Mapping[str, int], at: Mapping[str, int]) -> int:
    assert isinstance(entry, Affine), "no plan is made of lookups"
    return entry.offset.evaluate(values) + sum(coefficient * at[axis] for axis, coefficient in entry.terms)


def _element(
    position: tuple[int, ...], descriptor: Descriptor, boxes: tuple[PlacedBox, ...], values: Mapping[str, int]
) -> PlacedElement:
    coordinates = tuple(_coordinate(m, position[m.dim], values) for m in descriptor.dims)
    for number, placed in enumerate(boxes):
        box = placed.box
        index = tuple(c - first for c, first in zip(coordinates, box.coordinates, strict=True))
        if all(0 <= n < count for n, count in zip(index, box.shape, strict=True)):
            shared = box.shared_byte(index, placed.shared_byte)
            slot = shared - (placed.shared_byte - placed.slot_byte)
            return PlacedElement(position, number, index, box.holds(index), box.global_byte(index), slot, shared)
    raise KeyError(position)


def _coordinate(m: MapDim, position: int, values: Mapping[str, int]) -> int:
    """The coordinate along a dimension of a tensor map of a position along the tensor's."""
    length = m.chunk or (evaluate(m.by, values) if m.by is not None else 0)
    if not length:
        return position
    return position % length if m.part == "inner" else position // length


def _labels(descriptor: Descriptor, tensor: TensorShape) -> tuple[str, ...]:
    """What each coordinate counts, by the tensor's dimensions: `dim 3 mod 64`."""
    return tuple(f"dim {m.dim} ({text(tensor.dims[m.dim])}){_cut(m)}" for m in descriptor.dims)


def _cut(m: MapDim) -> str:
    if not m.part:
        return ""
    length = m.chunk if m.by is None else text(m.by)
    return f" {'mod' if m.part == 'inner' else 'div'} {length}"
