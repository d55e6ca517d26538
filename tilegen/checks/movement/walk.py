"""A CTA's roles run on abstract values, one after the other: what its loads bring, what becomes of it, what is stored.

When things happen is the pipeline's affair (`checks/pipeline.py`): here a slot is what was loaded at its position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from tilegen.checks.compiled import Numbers
from tilegen.checks.items import cluster_of, items, names_of
from tilegen.checks.machine import part_of
from tilegen.checks.movement.algebra import Algebra, digits
from tilegen.checks.movement.boxes import Box, Layouts, MixedBoxes, Tile
from tilegen.checks.movement.cuts import Cuts
from tilegen.checks.movement.declared import Array, Declared, Item, UnknownError, start_symbol
from tilegen.checks.movement.kinds import ANY, LIVE, POSITIVE, is_any
from tilegen.checks.movement.outlines import Outlines
from tilegen.checks.movement.outputs import Outputs
from tilegen.checks.movement.places import COL, ROW, K, Pos, turned
from tilegen.checks.movement.products import Products, window
from tilegen.checks.movement.stored import Counts
from tilegen.checks.movement.values import Value
from tilegen.checks.sequences import starts_of
from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, Note
from tilegen.ir import plan as ir
from tilegen.ir.plan_op_text import operation_text
from tilegen.ir.plan_rules.memory import PIECE
from tilegen.ir.plan_rules.shapes import ROWS, STEP
from tilegen.ir.plan_text import Path
from tilegen.ir.plan_walk import all_operations
from tilegen.ir.tile import Constraint
from tilegen.ir.uniform import Op, Uniform, evaluate

SlotKey = tuple[str, int, int]  # ring, part, position


@dataclass
class Slots:
    """What producers load and copiers copy, by absolute positions. scanned: looked through, by item."""

    loads: dict[SlotKey, list[tuple[ir.TmaLoad, Box]]] = field(default_factory=dict)
    tiles: dict[SlotKey, Tile | None] = field(default_factory=dict)
    copies: dict[SlotKey, tuple[Tile, ir.CopyTile]] = field(default_factory=dict)
    clean: set[SlotKey] = field(default_factory=set)
    operands: dict[tuple[object, ...], Value | None] = field(default_factory=dict)
    scanned: dict[int, set[tuple[str, tuple[int, ...]]]] = field(default_factory=dict)


@dataclass
class Found:
    """Faults, once a place, and what could not be judged."""

    diagnostics: dict[tuple[Code, Path], Diagnostic] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)


class Movement:
    """The analysis of one plan against its program."""

    def __init__(self, plan: ir.Plan, declared: Declared) -> None:
        self.plan, self.declared = plan, declared
        self.cuts, self.outlines = Cuts(), Outlines()
        self.layouts = Layouts(plan)
        self.found = Found()
        self.numbers = Numbers()
        self.tiles = {
            o.slot.ring: plan.descriptor(o.descriptor).tensor
            for _, _, o in all_operations(plan)
            if isinstance(o, ir.TmaLoad)
        } | {o.slot.ring: o.tensor for _, _, o in all_operations(plan) if isinstance(o, ir.CopyTile)}
        self._items: dict[tuple[tuple[str, int], ...], Item] = {}
        self.positive = {s.name for s in declared.program.scalars if s.constraint and _positive(s.constraint)}

    def run(self, symbols: Mapping[str, int], ctas: Iterable[int], count: int) -> None:
        """Run these CTAs of a launch of `count`."""
        extents = self._extents(symbols)
        for cluster in dict.fromkeys(cluster_of(self.plan, cta) for cta in ctas):
            slots = [Slots() for _ in cluster]
            for index, role in enumerate(self.plan.roles):
                for cta, group in product(cluster, range(role.warpgroups)):
                    walker = _Walker(self, role, index, group, cta, count, symbols, slots, extents)
                    try:
                        walker.body(role.body, ("role", index))
                    except UnknownError as unknown:
                        self.found.unknown[str(unknown)] = None
                    except ZeroDivisionError:
                        walker.report(Code.DIVISION_BY_ZERO, ())

    def count(self, symbols: Mapping[str, int], ctas: int) -> None:
        """Report what all CTAs of a launch together do not write once."""
        counts = Counts(self.plan, self.layouts, self.numbers, symbols, self._extents(symbols))
        try:
            found = counts.of(ctas)
        except ZeroDivisionError:
            assert counts.at is not None
            self.found.diagnostics.setdefault(
                (Code.DIVISION_BY_ZERO, ()),
                fault(Code.DIVISION_BY_ZERO, counts.at.span, who="a CTA", statement=counts.at.statement),
            )
            return
        for name, each in found.items():
            self._stored_once(name, each)

    def _extents(self, symbols: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        return {t.name: tuple(evaluate(d, symbols) for d in t.dims) for t in self.plan.tensors}

    def _stored_once(self, tensor: str, counts: Array) -> None:
        if (counts == 1).all():
            return
        found = np.unique(counts)
        # what does not vary along an axis that items differ in is stored, alike, by each of them
        alike = len(found) == 1 and found[0] > 0 and not self._item_axes() <= self._covered(tensor)
        wrong = [int(v) for v in found if v != 1]
        if alike:
            return
        path: Path = ("tensor", tensor)
        at = tuple(int(v) for v in np.argwhere(counts == wrong[0])[0])
        self.found.diagnostics.setdefault(
            (Code.MOVEMENT_STORE, path),
            fault(
                Code.MOVEMENT_STORE, self.declared.program.definition(tensor).span, tensor=tensor, who="the kernel",
                statement=tensor, got=f"{tensor}{list(at)} is written {wrong[0]} times", wanted="once",
            ),
        )  # fmt: skip

    def _item_axes(self) -> set[str]:
        """The axes in which work items differ."""
        lets = [o for r in self.plan.roles for w in r.body if isinstance(w, ir.Work) for o in w.body]
        lets += self.plan.table.lets if self.plan.table is not None else ()
        names = {o.name.removesuffix(".0") for o in lets if isinstance(o, ir.Let)}
        return names & {a.name for a in self.declared.program.axes}

    def _covered(self, tensor: str) -> set[str]:
        """The axes that an output runs along, split ones with their parts and the other way."""
        found = set(self.declared.program.definition(tensor).index)
        for axis in self.declared.program.axes:
            parts = {axis.split.outer, axis.split.inner} if axis.split else set()
            if parts and (axis.name in found or parts <= found):
                found |= {axis.name, *parts}
        return found

    def item(self, values: Mapping[str, int], symbols: Mapping[str, int]) -> Item:
        """The declaration at a work item."""
        table = self.plan.table
        bound = dict(symbols)
        sequence = None
        if table is not None and table.sequences is not None:
            q = table.sequences
            sequence = values[q.position]
            starts = starts_of(q, symbols)
            for size, ragged in self.declared.ragged.items():
                at = starts[ragged.by]
                bound[size] = int(at[sequence + 1] - at[sequence])
                bound[start_symbol(size)] = int(at[sequence])
        key = (*sorted(bound.items()), ("", -1 if sequence is None else sequence))
        if key not in self._items:
            self._items[key] = Item(self.declared, bound, self.cuts, sequence)
        return self._items[key]


def _end(limit: Uniform) -> Uniform:
    """Where rows end, of a limit that may be 0 where they are left out altogether."""
    return limit.args[1] if isinstance(limit, Op) and limit.op == "select" else limit


def _positive(c: Constraint) -> bool:
    return (c.op == ">" and c.bound >= 0) or (c.op in (">=", "==") and c.bound > 0)


class _Walker:
    def __init__(
        self,
        movement: Movement,
        role: ir.RolePlan,
        index: int,
        group: int,
        cta: int,
        ctas: int,
        symbols: Mapping[str, int],
        slots: list[Slots],  # of the CTAs that run together, by rank
        extents: dict[str, tuple[int, ...]],
    ) -> None:
        self.m, self.plan, self.role, self.group = movement, movement.plan, role, group
        self.cta, self.ctas, self.symbols = cta, ctas, symbols
        self.rank, self.cluster = cta % self.plan.cluster, slots
        self.slots = slots[self.rank]
        self.name = role.name if role.warpgroups == 1 else f"{role.name} {group}"
        self.names = names_of(self.plan, symbols, cta, group)
        self.cursors = {c.name: 0 for c in role.cursors}
        self.fragments = {f.name: f for f in role.fragments}
        self.storage = {f.name: f.storage or f.name for f in role.fragments}
        self.held: dict[str, Value] = {}
        self.buffers: dict[tuple[str, int], Value] = {}  # by name and stage
        self.number_of_item = -1
        self.mended: set[tuple[str, tuple[int, ...]]] = set()
        self.at: tuple[ir.Operation, Path] | None = None
        first = movement.item({**symbols, **self._a_sequence()}, symbols)
        self.algebra = Algebra(movement.cuts, movement.outlines, first, self.report, self.number)
        self.products = Products(self.algebra, movement.tiles)
        self.outputs, self.extents = Outputs(self.algebra, self.number), extents
        for p in movement.plan.params:
            if isinstance(p, ir.ScalarParam):
                self.held[p.name] = self.algebra.uniform(POSITIVE if p.name in movement.positive else LIVE)

    def _a_sequence(self) -> dict[str, int]:
        table = self.plan.table
        return {table.sequences.position: 0} if table is not None and table.sequences is not None else {}

    def number(self, e: Uniform) -> int:
        return self.m.numbers(e, self.names)

    def report(self, code: Code, trail: tuple[ir.Operation, ...], **fields: str) -> None:
        """A fault at the operation at hand, once a place."""
        assert self.at is not None
        operation, path = self.at
        key = (code, path)
        if key in self.m.found.diagnostics:
            return
        got, wanted = fields.pop("got", ""), fields.pop("wanted", "")
        notes = tuple(Note(o.span, f"{o.statement}: {operation_text(o)[:160]}") for o in trail if o is not operation)
        self.m.found.diagnostics[key] = fault(
            code, operation.span, got=got, wanted=wanted, notes=notes, who=self.name,
            statement=operation.statement or operation_text(operation)[:80], **fields,
        )  # fmt: skip

    # ---- control ----

    def body(self, body: tuple[ir.Operation, ...], path: Path) -> None:
        for position, o in enumerate(body):
            here = (*path, position)
            self.at = (o, here)
            if (method := _STEPS.get(type(o))) is not None:
                method(self, o)
                continue
            match o:
                case ir.Let(name, value):
                    self.names[name] = self.number(value)
                case ir.If(condition, inner):
                    if self.number(condition):
                        self.body(inner, here)
                case ir.For(name, start, stop, inner):
                    for turn in range(self.number(start), self.number(stop)):
                        self.names[name] = turn
                        self.body(inner, here)
                case ir.Work():
                    for bound in items(self.plan, o, self.names, self.symbols, self.cta, self.ctas, self.m.numbers):
                        self.names.update(bound)
                        self._begin_item()
                        self.body(o.body, here)
                        self._end_item(o, here)
                case ir.Sweep(inner):
                    self.body(inner, here)
                case ir.IfSpoiled(_, inner):
                    self.body(inner, here)
                case ir.IfVote(fragment, inner):
                    self._vote(fragment, inner, here)
                case ir.Advance(cursor):
                    self.cursors[cursor] += 1

    def _begin_item(self) -> None:
        self.number_of_item += 1
        self.mended = set()
        for name in self.fragments:  # what the last item left there is none of this one's
            self.held.pop(name, None)
        self.algebra.item = self.m.item(self.names, self.symbols)

    def _end_item(self, work: ir.Work, path: Path) -> None:
        if self.role.kind not in ("consumer", "worker"):
            return
        missing = self.slots.scanned.get(self.number_of_item, set()) - self.mended
        if missing:
            self.at = (work, path)
            tensor, corner = min(missing)
            got = f"entries of {tensor}{list(corner)} that a scan took out do not come back"
            self.report(Code.MOVEMENT_MEND, (), got=got, wanted="each block that was looked through")

    def _vote(self, fragment: str, inner: tuple[ir.Operation, ...], path: Path) -> None:
        vote = self.get(fragment)
        if any(map(is_any, vote.kinds)):
            got = "a row that holds a neighbour's entries takes part"
            self.report(Code.POISON_VOTE, vote.trail, got=got, wanted="rows that are stored alone")
        before, buffers = dict(self.held), dict(self.buffers)
        self.body(inner, path)
        for name, value in before.items():
            if name in self.fragments and not self.fragments[name].storage:
                continue  # of a sweep: nobody reads it behind that
            if self.held[name] is not value:
                self.held[name] = self.algebra.join(value, self.held[name], vote)
        for place, value in buffers.items():
            if self.buffers[place] is not value:
                self.buffers[place] = self.algebra.join(value, self.buffers[place], vote)

    # ---- fragments ----

    def find(self, name: str) -> Value | None:
        """What a fragment or a uniform number holds."""
        return self.held.get(self.storage.get(name, name))

    def get(self, fragment: str) -> Value:
        return self.find(fragment) or self.algebra.uniform(ANY)

    def put(self, fragment: str, value: Value) -> None:
        self.held[self.storage[fragment]] = value

    def _width(self, fragment: str) -> int:
        f = self.fragments[fragment]
        return 1 if f.layout == "row" else f.cols

    # ---- movement ----

    def key(self, slot: ir.Slot) -> SlotKey:
        ring = self.plan.ring(slot.ring)
        return slot.ring, part_of(ring, slot, self.group), self.cursors[slot.cursor]

    def tma_load(self, o: ir.TmaLoad) -> None:
        sharers = self.plan.ring(o.slot.ring).sharers
        ranks = (self.rank,) if sharers is None else sharers.ranks(self.rank)
        offset = o.offset + o.share * ranks.index(self.rank)
        box = replace(self._box(o, o.slot.ring), offset=offset)
        for rank in ranks:
            self.cluster[rank].loads.setdefault(self.key(o.slot), []).append((o, box))
        d = self.plan.descriptor(o.descriptor)
        size = self.plan.tensor(d.tensor).dtype.bytes * int(np.prod([x.box for x in d.dims]))
        if size != o.bytes:
            self.report(Code.MOVEMENT_BOXES, (), ring=o.slot.ring, got=f"a box of {size} bytes", wanted=f"{o.bytes}")

    def _box(self, o: ir.TmaLoad | ir.TmaStore, place: str) -> Box:
        box = Box(o.descriptor, o.offset, tuple(self.number(c) for c in o.coordinates))
        size = self.plan.tensor(self.plan.descriptor(o.descriptor).tensor).dtype.bytes
        if box.coordinates[0] * size % PIECE:
            got = f"a box that begins {box.coordinates[0]} elements of {size} bytes into a row"
            self.report(Code.MOVEMENT_BOXES, (), ring=place, got=got, wanted=f"a multiple of {PIECE} bytes")
        return box

    def copy_tile(self, o: ir.CopyTile) -> None:
        buffer = self.plan.buffer(self.plan.ring(o.slot.ring).buffer)
        index = tuple(self.number(i) for i in o.index)
        limits = (*(self.number(step.limit) for step in o.rows), self.number(o.col_limit))
        item = self.algebra.item
        dims = self.plan.tensor(o.tensor).dims
        # rows that end before the tensor does: within one position of a split axis's outer part
        clipped = {step.dim for step in o.rows if _end(step.limit) != dims[step.dim]}
        units = {
            n: item.extents[split.inner]
            for where in item.declared.reads.get(o.tensor, [])
            for n, entry in enumerate(where)
            for axis, _ in entry.terms
            if n in clipped and (split := item.axes.split.get(axis)) is not None
        }
        self.slots.copies[self.key(o.slot)] = self.m.layouts.copied(buffer, o, index, limits, units), o

    def tile(self, slot: ir.Slot) -> tuple[Tile, ir.TmaLoad | ir.CopyTile] | None:
        key = self.key(slot)
        if key in self.slots.copies:
            return self.slots.copies[key]
        loads = self.slots.loads.get(key)
        if not loads:
            return None
        if key not in self.slots.tiles:
            buffer = self.plan.buffer(self.plan.ring(slot.ring).buffer)
            try:
                made: Tile | None = self.m.layouts.tile(buffer, [b for _, b in loads], self.symbols)
            except MixedBoxes:
                made = None
                operation, path = self.at or (loads[0][0], ())
                self.at = (loads[0][0], path)
                self.report(
                    Code.MOVEMENT_BOXES, tuple(x for x, _ in loads), ring=slot.ring,
                    got="boxes that make no one tile", wanted="one tile",
                )  # fmt: skip
                self.at = (operation, path)
            self.slots.tiles[key] = made
        found = self.slots.tiles[key]
        return None if found is None else (found, loads[0][0])

    def part(self, slot: ir.Slot, rows: tuple[int, ...], cols: tuple[int, ...]) -> Value:
        """Rows and columns of a slot."""
        found = self.tile(slot)
        if found is None:
            return self.algebra.uniform(ANY)
        tile, load = found
        if max(rows) >= len(tile.rows) or max(cols) >= len(tile.cols):
            self.report(Code.MOVEMENT_OPERAND, (load,), got="bytes behind the tile", wanted="the tile's own")
            return self.algebra.uniform(ANY)
        return self.products.of_tile(tile, rows, cols, self.key(slot) in self.slots.clean, load)

    def scan(self, o: ir.ScanSlot) -> None:
        self.slots.clean.add(self.key(o.slot))
        found = self.tile(o.slot)
        if found is not None:
            tile, _ = found
            self.slots.scanned.setdefault(self.number_of_item, set()).add((tile.tensor, tile.corner))

    def mend(self, o: ir.Mend) -> None:
        index = [self.number(i) for i in o.index]
        self.mended.add((o.tensor, tuple(index)))
        self._inside(o.tensor, index, o.dim, self.number(o.count))
        live, width = self.get(o.live), self._width(o.live)
        places = [Pos("u", i) for i in index]
        places[o.dim] = Pos(COL, index[o.dim], tuple(range(width)))
        places[o.col_dim] = Pos("e", index[o.col_dim], tuple(range(self._width(o.fragment))))
        item = self.algebra.item
        rows = [tuple((a, p) for a, p in e if p.along != COL) for e in self.get(o.fragment).envs]
        reads = item.declared.reads.get(o.tensor, [])
        envs = [
            u for w in reads if (e := item.bind(w, places)) is not None for r in rows
            if (u := item.axes.unify(tuple(x for x in e if x[1].along != "e"), r)) is not None
        ]  # fmt: skip
        if not envs:
            got = f"{o.tensor}{index}"
            self.report(
                Code.MOVEMENT_PLACE, self.get(o.fragment).trail, got=got, wanted="the block that was looked through"
            )
            return
        states, flags = item.states(envs[0], (ROWS, width))
        exists, known = self.m.cuts.of((np.arange(width)[None, :] < self.number(o.count)).astype(np.int64))
        cut, first = self.m.cuts.refine(live.cut, states)
        _, pairs = self.m.cuts.refine(cut, exists)
        for both, there in pairs:
            kind, state = live.kinds[first[both][0]], flags[first[both][1]]
            if state == 2:
                continue
            if (kind != 0.0 and bool(known[there])) != (state == 1):
                got = "positions that come back to rows that do not see them, or not to rows that do"
                self.report(Code.MOVEMENT_MEND, live.trail, got=got, wanted="each to the rows that see it")
                return

    def read_shared(self, o: ir.ReadShared) -> None:
        rows = o.row_offset * self.group + digits(o.digit, np.arange(ROWS))
        self.put(o.out, self.part(o.slot, tuple(rows.tolist()), tuple(range(self._width(o.out)))))

    def write_shared(self, o: ir.WriteShared) -> None:
        cols, width = self.plan.buffer(o.buffer).cols, self._width(o.source)
        taken = min(cols, width - o.first)
        piece = self.algebra.columns(self.get(o.source), o.first, taken, width)
        self.buffers[o.buffer, o.stage] = self.algebra.filled_up(piece, taken, cols)

    def tma_store(self, o: ir.TmaStore) -> None:
        buffer = self.plan.buffer(o.buffer)
        box = self._box(o, o.buffer)
        try:
            tile = self.m.layouts.tile(buffer, [box], self.symbols)
        except MixedBoxes:
            self.report(Code.MOVEMENT_BOXES, (), ring=o.buffer, got="a box that does not fit", wanted="one that does")
            return
        held = self.buffers.get((o.buffer, o.stage)) or self.algebra.uniform(ANY)
        self.outputs.box(o, self.group, tile, held)

    def store_commit(self, o: ir.StoreCommit) -> None:
        self.outputs.commit()

    # ---- values ----

    def let_float(self, o: ir.LetFloat) -> None:
        if o.load is None:
            assert o.value is not None
            self.held[o.name] = self.algebra.evaluate(o.value, self.find)
        else:
            tensor, index = o.load
            if not self.number(o.exists):
                self.held[o.name] = self.algebra.constant(0.0)
                return
            at = [self.number(i) for i in index]
            self._inside(tensor, at, None, 1)
            self.held[o.name] = self.algebra.vector(tensor, at, None, (), "", range(0))

    def init(self, o: ir.Init) -> None:
        self.put(o.fragment, self.algebra.constant(o.value))

    def map(self, o: ir.Map) -> None:
        self.put(o.out, self.algebra.evaluate(o.value, self.find))

    def fma_oob(self, o: ir.FmaOob) -> None:
        operands = [self.algebra.evaluate(e, self.find) for e in (o.a, o.b, o.c)]
        self.put(o.out, self.algebra.combine("fma_oob", operands))

    def mask(self, o: ir.Mask) -> None:
        width = self._width(o.fragment)
        self.put(o.fragment, self.algebra.mask(self.get(o.fragment), o, self.find, (ROWS, width)))

    def row_fold(self, o: ir.RowFold) -> None:
        self.put(o.out, self.algebra.fold(self.get(o.source), o.kind, self._width(o.source)))

    def relayout(self, o: ir.Relayout) -> None:
        self.put(o.out, self.algebra.filled_up(self.get(o.source), self._width(o.source), self._width(o.out)))

    def copy(self, o: ir.CopyOperand) -> None:
        self.put(o.out, self.get(o.source))

    def load_vector(self, o: ir.LoadVector) -> None:
        row = self.fragments[o.out].layout == "row"
        steps = digits(o.digit, np.arange(ROWS if row else self._width(o.out)))
        index, limit = [self.number(i) for i in o.index], self.number(o.limit)
        first = max(0, -index[o.dim]) if o.from_below else 0
        self._inside(o.tensor, index, o.dim, min(int(steps.max()) + 1, limit - index[o.dim]), first)
        within = range(index[o.dim] + first, limit)
        made = self.algebra.vector(o.tensor, index, o.dim, tuple(steps.tolist()), ROW if row else COL, within)
        self.put(o.out, made)

    def _inside(self, tensor: str, index: list[int], dim: int | None, count: int, begin: int = 0) -> None:
        """Report elements, those from `begin` to below `count` along a dimension, that lie outside a tensor."""
        if count <= begin:
            return
        for n, (at, extent) in enumerate(zip(index, self.extents[tensor], strict=True)):
            first, last = (at + begin, at + count - 1) if n == dim else (at, at)
            if first < 0 or last >= extent:
                got, wanted = f"{first} … {last} of dimension {n}", f"0 … {extent - 1}"
                self.report(Code.MOVEMENT_BOUNDS, (), tensor=tensor, got=got, wanted=wanted)
                return

    def mma(self, o: ir.AnyMma) -> None:
        depth = STEP * len(o.b.offsets)
        x, y = self._first(o, depth), self._operand(o.b, o.n, True)
        if x is None or y is None:
            self.report(Code.MOVEMENT_OPERAND, (), got="bytes that are no part of a tile", wanted="rows of one")
            self.put(o.accumulator, self.algebra.uniform(ANY))
            return
        made = self.products.contract(x, y, o.n, depth, o)
        zero = o.zero if isinstance(o.zero, bool) else bool(self.number(o.zero))
        self.put(o.accumulator, self.products.accumulate(None if zero else self.get(o.accumulator), made))

    def _first(self, o: ir.AnyMma, depth: int) -> Value | None:
        if isinstance(o.a, ir.FragmentOperand):
            value = self.get(o.a.fragment)
            return replace(value, envs=tuple(turned(e, COL, K) for e in value.envs))
        return self._operand(o.a, ROWS, False)

    def _operand(self, operand: ir.SlotOperand | ir.BufferOperand, extent: int, second: bool) -> Value | None:
        if isinstance(operand, ir.BufferOperand):
            buffer = self.plan.buffer(operand.buffer)
            taken = window(operand, buffer, extent, self.group)
            if taken is None or taken.rows != tuple(range(ROWS)) or taken.cols != tuple(range(buffer.cols)):
                return None
            return self._turned(operand, self.buffers.get((operand.buffer, 0)) or self.algebra.uniform(ANY), second)
        slot = self.key(operand.slot)
        group = self.group if operand.warpgroup else 0  # for the others it is the same
        key = (slot, id(operand), extent, group, slot in self.slots.clean)
        if key not in self.slots.operands:
            buffer = self.plan.buffer(self.plan.ring(operand.slot.ring).buffer)
            taken = window(operand, buffer, extent, self.group)
            part = None if taken is None else self.part(operand.slot, taken.rows, taken.cols)
            self.slots.operands[key] = None if part is None else self._turned(operand, part, second)
        return self.slots.operands[key]

    def _turned(self, operand: ir.SlotOperand | ir.BufferOperand, value: Value, second: bool) -> Value:
        """A part of a tile as a factor: what is contracted runs along K."""
        outer = COL if second else ROW
        directions = (outer, K) if operand.major == "k" else (K, outer)
        envs = []
        for env in value.envs:
            moved = turned(turned(env, ROW, "first"), COL, "second")
            envs.append(turned(turned(moved, "first", directions[0]), "second", directions[1]))
        swap = (operand.major == "k") == second
        return replace(value, envs=tuple(envs), cut=self.m.cuts.turned(value.cut) if swap else value.cut)

    def store_rows(self, o: ir.StoreRows) -> None:
        self.outputs.rows(o, self.get(o.fragment), self._width(o.fragment))

    def store_vector(self, o: ir.StoreVector) -> None:
        self.outputs.vector(o, self.get(o.fragment))


_STEPS: dict[type, Callable[[_Walker, Any], None]] = {
    ir.TmaLoad: _Walker.tma_load, ir.CopyTile: _Walker.copy_tile,
    ir.ScanSlot: _Walker.scan, ir.Mend: _Walker.mend, ir.ReadShared: _Walker.read_shared,
    ir.WriteShared: _Walker.write_shared, ir.TmaStore: _Walker.tma_store, ir.StoreCommit: _Walker.store_commit,
    ir.LetFloat: _Walker.let_float, ir.Init: _Walker.init, ir.Map: _Walker.map, ir.FmaOob: _Walker.fma_oob,
    ir.Mask: _Walker.mask,
    ir.RowFold: _Walker.row_fold, ir.Relayout: _Walker.relayout, ir.CopyOperand: _Walker.copy,
    ir.LoadVector: _Walker.load_vector, ir.Mma: _Walker.mma, ir.WarpMma: _Walker.mma, ir.StoreRows: _Walker.store_rows,
    ir.StoreVector: _Walker.store_vector,
}  # fmt: skip
