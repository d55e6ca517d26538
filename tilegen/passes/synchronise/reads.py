"""What element-wise work reads: vectors and single elements of tensors, tiles in shared memory, a domain's entries."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.bounds import bounds, never_negative
from tilegen.ir.dtypes import DType
from tilegen.ir.folded import (
    Elementwise,
    Guarded,
)
from tilegen.ir.plan import (
    Element,
    ElementExpr,
    Fragment,
    LetFloat,
    LoadVector,
    Mask,
    Operation,
    ReadShared,
    Slot,
    Value,
)
from tilegen.ir.scheduled import Phase
from tilegen.ir.terms import TERMS
from tilegen.ir.tile import Affine, Clause, Expr, Read
from tilegen.ir.uniform import Int, Uniform, from_poly, op
from tilegen.passes.expressions import index_axes, reads
from tilegen.passes.fills import filled
from tilegen.passes.synchronise.elements import lower
from tilegen.passes.synchronise.fragments import Fragments
from tilegen.passes.synchronise.geometry import (
    Shape,
    affine_position,
    extent_in_tile,
    row_limit,
)
from tilegen.passes.synchronise.rows import WARPGROUP_ROWS, RowAxis, row_axes, row_part, swapped
from tilegen.passes.synchronise.work import mask_alternatives, predicates
from tilegen.syntax.span import Span


@dataclass
class Reads(Fragments):
    """Fragments, and those that hold what is read of tensors and tiles."""

    loads: dict[object, str] = field(default_factory=dict)  # tensor reads in registers for the whole work item
    streamed_loads: dict[object, str] = field(default_factory=dict)
    vectors: dict[tuple[str, object], str] = field(default_factory=dict)  # tensor read -> its fragment
    tile_reads: dict[str, str] = field(default_factory=dict)  # tile -> fragment, this iteration

    def hoist_loads(self, phase: Phase, out: list[Operation]) -> None:
        """Load what a phase's expressions read of tensors and what does not change in its loop."""
        for step in phase.steps:
            o = self.c.scheduled.op(step.op)
            wanted = reads(o.value) if isinstance(o, Elementwise) else ()
            if isinstance(o, Guarded):
                wanted = tuple(r for p in predicates(o.clauses) for r in reads(p))
            for r in wanted:
                if not self._moves_with_stream(r):
                    self._load(r, self.shape(o), out)

    def new_iteration(self) -> None:
        self.streamed_loads.clear()
        self.tile_reads.clear()

    def _moves_with_stream(self, r: Read) -> bool:
        at = self._tensor_index(r)
        return at is not None and any(self.c.stream == axis for entry in at[1] for axis, _ in entry.terms)

    def _tensor_index(self, r: Read) -> tuple[str, tuple[Affine, ...]] | None:
        """(tensor, index) if a read goes to device memory: an input, or a tile that no ring holds."""
        program = self.c.scheduled.program.tile
        if self.c.scheduled.program.has(r.name) or r.name in self.c.tiles:
            return None
        move = next((m for m in program.moves if m.name == r.name), None)
        tensor, index = (move.tensor, move.at) if move else (r.name, r.index)
        affine = tuple(e for e in index if isinstance(e, Affine))
        if len(affine) != len(index):
            fail(Code.LOOKUP_UNSUPPORTED, r.span, name=r.name)
        return tensor, affine

    def _load(self, r: Read, shape: Shape, out: list[Operation]) -> ElementExpr | None:
        """The element expression of a read of device memory, loading it first if need be; None for other reads."""
        found = self._tensor_index(r)
        if found is None:
            return None
        tensor, index = found
        s = self.c.scheduled
        wide = [d for d, e in enumerate(index) if any(extent_in_tile(a, s) > 1 for a, _ in e.terms)]
        known = (tensor, tuple((e.terms, e.offset) for e in index))
        cache = self.streamed_loads if self._moves_with_stream(r) else self.loads
        if len(wide) > 1:
            fail(Code.READ_NEEDS_TILE, r.span, tensor=tensor, axes=", ".join(index_axes(r)))
        where = [affine_position(e, s) for e in index]
        exists = self._exists(tensor, index, where, wide)
        if not wide:
            if known not in cache:
                cache[known] = f"{tensor}.value{len(self.loads) or ''}"
                out.append(LetFloat(cache[known], None, (tensor, tuple(where)), r.span, tensor, exists))
            return Value(cache[known])
        dim = wide[0]
        axis = index[dim].terms[0][0]
        if len(index[dim].terms) > 1 or index[dim].terms[0][1] != 1:
            fail(Code.INDEX_NOT_AFFINE_UNIT, r.span, tile=tensor)
        part = row_part(axis, s)
        along = "row" if part is not None else "col"
        if known not in cache:
            count = sum(1 for t, _ in self.vectors if t == tensor)
            wanted = self.vectors.setdefault(known, f"{tensor}.{along}{count or ''}")
            cols = extent_in_tile(axis, s) if along == "col" else 1
            whole = s.program.tile.tensor(tensor).dtype is DType.I32
            name = self._fragment(wanted, along, cols, r.span, DType.I32 if whole else DType.F32)
            limit: Uniform = from_poly(s.program.tile.tensor(tensor).dims[dim])
            if part is not None:
                where[dim] = op("add", where[dim], op("mul", "warpgroup", part.step))
                held = row_limit(axis, s, limit)
                if held != limit:
                    shifted = op("add", held, from_poly(index[dim].offset))
                    limit = shifted if shifted == held else op("min", shifted, limit)
            limit = op("select", exists, limit, 0)
            cache[known] = name
            digit = None if part is None else part.digit
            below = self._leaves(tensor, index, dim)[0]
            out.append(LoadVector(name, tensor, tuple(where), dim, limit, r.span, tensor, digit, below))
        return Element(cache[known])

    def _leaves(self, tensor: str, index: tuple[Affine, ...], dim: int) -> tuple[bool, bool]:
        """Whether an index may lie below a dimension, and past its end, at positions outside the domain."""
        program = self.c.scheduled.program.tile
        lowest, highest = bounds(index[dim], program.axis)
        last = program.tensor(tensor).dims[dim] - 1
        signed = frozenset(s.name for s in program.scalars)
        return not never_negative(lowest, signed), not never_negative(last - highest, signed)

    def _exists(self, tensor: str, index: tuple[Affine, ...], where: list[Uniform], wide: list[int]) -> Uniform:
        """Whether there is an element, as far as the dimensions say that are the same for all threads. What no axis
        moves is left as it is: no domain says where it lies."""
        exists: Uniform = Int(1)
        for dim, entry in enumerate(index):
            if dim in wide or not entry.terms:
                continue
            below, past = self._leaves(tensor, index, dim)
            if below:
                exists = op("and", exists, op("ge", where[dim], 0))
            if past:
                extent = from_poly(self.c.scheduled.program.tile.tensor(tensor).dims[dim])
                exists = op("and", exists, op("lt", where[dim], extent))
        return exists

    def mask(
        self,
        fragment: str,
        clauses: tuple[Clause, ...],
        bounded: tuple[str, ...],
        shape: Shape,
        identity: float,
        span: Span,
        statement: str,
    ) -> list[Operation]:
        """Elements of a fragment outside these clauses, or past the end of a `bounded` axis, become `identity`."""
        out: list[Operation] = []

        def element(r: Read) -> ElementExpr:
            loaded = self._load(r, shape, out)
            assert loaded is not None, "a domain reads inputs only"
            return loaded

        def predicate(e: Expr) -> ElementExpr:
            return lower(e, shape, self.c.scheduled, element)

        alternatives = mask_alternatives(clauses, bounded, shape, self.c.scheduled, predicate)
        return [*out, Mask(fragment, alternatives, identity, span, statement)]

    def _read_tile(self, r: Read, out: list[Operation], tiles: list[str]) -> str:
        """This warpgroup's rows of a tile, read once an iteration."""
        tile = r.name
        cols = self._own_columns(r)
        dtype = self.c.scheduled.program.tile.move(tile).dtype
        if tile in filled(self.c.scheduled):
            name = self._fragment(f"{tile}.regs", "pair", cols, r.span, dtype)
        else:
            name = self._fragment(f"{tile}.regs", "acc", cols, r.span)
        if tile not in self.tile_reads:
            self.tile_reads[tile] = name
            out.append(self._read_shared(name, r))
        if tile not in tiles:
            tiles.append(tile)
        return name

    def _pass_tile(self, r: Read, passing: list[ReadShared], tiles: list[str]) -> str:
        """The same in a sweep, beside an accumulator that fills the registers already."""
        name = f"{r.name}.here"
        cols = self._own_columns(r)
        self.known.setdefault(name, Fragment(name, "acc", WARPGROUP_ROWS, cols, DType.F32, "", r.span))
        if r.name not in tiles:
            tiles.append(r.name)
            passing.append(self._read_shared(name, r))
        return name

    def _own_columns(self, r: Read) -> int:
        """Columns of a tile whose rows are shared out to the consumers."""
        s, g = self.c.scheduled, self.c.tiles[r.name]
        held = self._rows_of(r.name)
        if held is None or (held != self._every_row() and len(held) != 1):
            fail(Code.TILE_ROWS, r.span, tile=r.name, rows=s.workers.names, swap=swapped(s), **TERMS[s.target].fields())
        return g.cols

    def _rows_of(self, tile: str) -> tuple[RowAxis, ...] | None:
        """The axes of the rows along which a tile's rows lie; None if they lie along others, or there is one row."""
        parts = [row_part(d.axis, self.c.scheduled) for d in self.c.tiles[tile].row_dims]
        return tuple(p for p in parts if p) if parts and all(parts) else None

    def _every_row(self) -> tuple[RowAxis, ...]:
        return tuple(r for r in row_axes(self.c.scheduled) if r.block > 1)

    def _read_shared(self, fragment: str, r: Read) -> ReadShared:
        slot, held = Slot(r.name, f"{r.name}_read"), self._rows_of(r.name)
        assert held is not None
        if held == self._every_row():
            apart = self.c.rings[r.name].parts > 1
            return ReadShared(fragment, slot, 0 if apart else WARPGROUP_ROWS, r.span, r.name)
        (part,) = held  # of several axes that share the rows, one: read at its position of each row
        return ReadShared(fragment, slot, part.step, r.span, r.name, part.digit)
