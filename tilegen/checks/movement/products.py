"""Products: which elements of two tiles meet, and whether what meets may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilegen.checks.movement import kinds as kd
from tilegen.checks.movement.algebra import Algebra, difference, words
from tilegen.checks.movement.boxes import Tile
from tilegen.checks.movement.cuts import Cut
from tilegen.checks.movement.declared import DEAD, IGNORED, UnknownError
from tilegen.checks.movement.kinds import ANY, FINITE, FINITE_LIVE, LIVE, NEIGHBOUR, OWN, Kind
from tilegen.checks.movement.places import COL, ROW, Env, K, Pos, U, along, pos_of
from tilegen.checks.movement.values import Regions, Taken, Value, merged
from tilegen.diagnostics.catalogue import Code
from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.shapes import ROWS, STEP

Flags = tuple[Cut, tuple[int, ...]]  # a cut, and what is known of each of its regions
_OUTSIDE, _FILLED, _INSIDE, _MISSING = range(4)


@dataclass(frozen=True)
class Window:
    """The part of a tile that an operand takes: its rows and its columns."""

    rows: tuple[int, ...]
    cols: tuple[int, ...]


def window(operand: ir.SlotOperand | ir.BufferOperand, buffer: ir.Buffer, extent: int, group: int) -> Window | None:
    """Rows and columns of the buffer that an operand with this extent along M or N reads; None if it is no window."""
    shift = operand.warpgroup * group if isinstance(operand, ir.SlotOperand) else 0
    size, tall = buffer.dtype.bytes, buffer.rows * buffer.line
    corners = []
    for offset in operand.offsets:
        chunk, rest = divmod(offset + shift, tall)
        row, byte = divmod(rest, buffer.line)
        corners.append((row, chunk * buffer.chunk + byte // size))
    if operand.major == "k":
        rows = {r for r, _ in corners}
        if len(rows) != 1 or operand.stride != 8 * buffer.line:
            return None
        first = rows.pop()
        return Window(tuple(range(first, first + extent)), tuple(c + n for _, c in corners for n in range(STEP)))
    cols = {c for _, c in corners}
    if len(cols) != 1 or operand.stride != 8 * buffer.line or (extent > buffer.chunk and operand.leading != tall):
        return None
    first = cols.pop()
    return Window(tuple(r + n for r, _ in corners for n in range(STEP)), tuple(range(first, first + extent)))


class Products:
    """`tiles`: the tensor that each ring's slots are loaded from."""

    def __init__(self, algebra: Algebra, tiles: Mapping[str, str]) -> None:
        self.algebra, self.tiles = algebra, tiles

    # ---- tiles ----

    def of_tile(
        self, tile: Tile, rows: tuple[int, ...], cols: tuple[int, ...], scanned: bool, o: ir.Operation
    ) -> Value:
        """A part of a tile as a value of that many rows and columns."""
        a = self.algebra
        dims = [_part(d, rows, cols) for d in tile.dims]
        envs: dict[Env, None] = {}
        for where in a.item.declared.reads.get(tile.tensor, []):
            split = next(((n, d) for n, d in enumerate(dims) if not isinstance(d, Pos)), None)
            if split is None:
                found = a.item.bind(where, [d for d in dims if isinstance(d, Pos)])
            else:
                n, (outer, inner, unit) = split
                plain = [d if isinstance(d, Pos) else Pos(U, 0) for d in dims]
                found = a.item.bind_split(where, n, outer, inner, unit, plain)
            if found is not None:
                envs[found] = None
        if not envs:
            at = ", ".join(str(c) for c in tile.corner)
            got, wanted = f"{tile.tensor}[{at}]", f"a tile of {tile.tensor} that the spec declares"
            a.report(Code.MOVEMENT_PLACE, (o,), got=got, wanted=wanted)
            envs[()] = None
        cut, flags = self._regions(tile, rows, cols, tuple(envs))
        fill: Kind = 0.0 if tile.fill == "zero" or scanned else kd.OUTSIDE
        memory: tuple[Kind, ...] = (FINITE if scanned else NEIGHBOUR, fill, FINITE_LIVE if scanned else LIVE, ANY)
        return Value(tuple(envs), cut, tuple(memory[f] for f in flags), trail=(o,))

    def _regions(
        self, tile: Tile, rows: tuple[int, ...], cols: tuple[int, ...], envs: tuple[Env, ...]
    ) -> tuple[Cut, tuple[int, ...]]:
        """What of a part of a tile is filled, the spec's, another entry, or was not loaded."""
        item = self.algebra.item
        key = (tuple(item.short(e, ROW, COL) for e in envs), tile.rows, tile.cols, id(tile.covered), rows, cols)
        if key not in item.regions:
            live = [item.live(e) for e in envs]
            if all(tile.rows) and all(tile.cols) and any(x.size == 1 and x.all() for x in live) and tile.covered.all():
                item.regions[key] = self.algebra.cuts.whole, (_INSIDE,)
                return item.regions[key]
            inside = np.asarray(tile.rows)[list(rows), None] & np.asarray(tile.cols)[None, list(cols)]
            live = [np.broadcast_to(x, inside.shape) for x in live]
            known = np.where(np.logical_or.reduce(live), _INSIDE, _OUTSIDE)
            covered = tile.covered[np.ix_(rows, cols)]
            item.regions[key] = self.algebra.cuts.of(np.where(covered, np.where(inside, known, _FILLED), _MISSING))
        return item.regions[key]

    # ---- contraction ----

    def contract(self, x: Value, y: Value, n: int, depth: int, o: ir.AnyMma) -> Value:
        """x (rows x depth) times y (depth x n); x's columns and y's rows run along K."""
        a = self.algebra
        trail = merged(x.trail, y.trail, (o,))
        self._of_the_statement(o, trail)
        if x.sums:
            x = a.finish(x)
        env = self._meet(x, y, trail)
        wrong, cut, kinds = self._regions_of(x, y, env, n, depth)
        if wrong is not None:
            a.report(Code.POISON_PRODUCT, trail, got=wrong[0], wanted=wrong[1])
        left = tuple((axis, p) for axis, p in env if p.along != K)
        return Value((left,), cut, kinds, sums=self._taken(env), done=x.done | y.done, trail=trail)

    def _regions_of(self, x: Value, y: Value, env: Env, n: int, depth: int) -> Regions:
        """What factors that meet so make, and what a row takes in of positions outside its domain or misses of those
        inside."""
        item, known = self.algebra.item, self.algebra.outlines.products
        states, columns = self._used(item.states(env, (ROWS, depth), ROW, K, x.folded), env, n)
        inner = item.points(tuple(e for e in env if e[1].along != COL), (depth, 1), K)
        met = ((id(cut), flags) for cut, flags in (states, columns, inner))
        key = (id(x.cut), x.kinds, id(y.cut), y.kinds, *met)
        if key not in known:
            wrong = self._wrong(x, y, states, columns, depth)
            rows, row_kinds = self._rows(x, states)
            cols, col_kinds = self._cols(y, inner)
            cut, pairs = self.algebra.cuts.refine(rows, cols)
            kinds = tuple(_outcome(row_kinds[r], col_kinds[c], item.declared.fast) for r, c in pairs)
            known[key] = Regions(wrong, cut, kinds)
        return known[key]

    def _used(self, states: Flags, env: Env, n: int) -> tuple[Flags, Flags]:
        """Points of rows and K, IGNORED in rows that meet no column of the domain here; columns, as one row, and
        whether they meet a row of it."""
        a = self.algebra
        points, known = a.item.points(env, (ROWS, n))
        rows, met_by_rows = a.cuts.rows(points)
        cols, met_by_cols = a.cuts.rows(points, 0)
        cut, pairs = a.cuts.refine(states[0], rows)
        used = [any(known[r] for r in regions) for regions in met_by_rows]
        flags = tuple(states[1][state] if used[row] else IGNORED for state, row in pairs)
        return (cut, flags), (cols, tuple(int(any(known[r] for r in regions)) for regions in met_by_cols))

    def _of_the_statement(self, o: ir.AnyMma, trail: tuple[ir.Operation, ...]) -> None:
        """Report a tile that the statement of the product does not read."""
        named = self.algebra.item.declared.tensors_of.get(o.statement)
        for operand in (o.a, o.b):
            if isinstance(operand, ir.SlotOperand) and named and operand.slot.ring in self.tiles:
                tensor = self.tiles[operand.slot.ring]
                if tensor not in named:
                    got, wanted = f"a tile of {tensor}", f"one of {', '.join(sorted(named))}"
                    self.algebra.report(Code.MOVEMENT_PLACE, trail, got=got, wanted=wanted)

    def _meet(self, x: Value, y: Value, trail: tuple[ir.Operation, ...]) -> Env:
        """The reading under which both factors stand at the same positions of what is contracted."""
        item = self.algebra.item
        for one in x.envs:
            for other in y.envs:
                same = {axis for axis, p in one if p.along == K} == {axis for axis, p in other if p.along == K}
                found = item.axes.unify(one, other) if same else None
                if found is not None:
                    return found
        got, wanted = difference(item, x.env, y.env)
        self.algebra.report(Code.MOVEMENT_PLACE, trail, got=got, wanted=wanted)
        merged_env = {**dict(y.env), **dict(x.env)}
        return tuple(sorted(merged_env.items()))

    def _taken(self, env: Env) -> frozenset[Taken]:
        item = self.algebra.item
        box = []
        for axis, pos in along(env, K):
            if pos.offsets != tuple(range(len(pos.offsets))):
                raise UnknownError(f"a product along `{axis}`, whose positions are not one behind the other")
            box.append((axis, pos.base, max(min(pos.base + len(pos.offsets), item.extents[axis]), pos.base)))
        return frozenset((tuple(sorted(box)),)) if box else frozenset()

    def _wrong(self, x: Value, y: Value, states: Flags, columns: Flags, depth: int) -> tuple[str, str] | None:
        """What a row takes in of positions outside its domain, or misses of those inside, and what it should."""
        cuts = self.algebra.cuts
        reach, others = self._worst_of_depth(y, columns, depth)
        cut, first = cuts.refine(x.cut, states[0])
        _, pairs = cuts.refine(cut, reach)
        for both, k in pairs:
            at, state = first[both]
            wrong = self._wrong_at(x.kinds[at], states[1][state], others[k])
            if wrong:
                return wrong
        return None

    def _wrong_at(self, factor: Kind, state: int, other: tuple[Kind, ...]) -> tuple[str, str] | None:
        if state == IGNORED:
            return None
        if state != DEAD:
            if not kd.is_live(factor):
                return f"{words(factor)} at a position of the domain", "the factor's value there"
            bad = next((k for k in other if not kd.is_live(k)), None)
            if bad is None:
                return None
            what = "a fill" if bad == 0.0 else words(bad)
            return f"{what} in the other factor at a position of the domain", "its value there"
        fast = self.algebra.item.declared.fast  # entries of tensors are finite, by the user's word
        for k in other:
            if factor == 0.0 and (kd.is_finite(k) or (fast and (k == NEIGHBOUR or not kd.is_any(k)))):
                continue
            if k == 0.0 and kd.is_finite(factor):
                continue
            if factor == 0.0:
                what = words(k) if kd.is_any(k) else "an entry that may be no finite number"
                return f"0 times {what} at a position outside the domain", "0 times a finite number there"
            return f"{words(factor)} at a position outside the domain", "0 there"
        return None

    def _worst_of_depth(self, y: Value, columns: Flags, depth: int) -> tuple[Cut, tuple[tuple[Kind, ...], ...]]:
        """Regions of K, as one row, and the kinds that y has there in columns that exist."""
        a = self.algebra
        flags, known = columns
        cut, pairs = a.cuts.refine(y.cut, flags)
        if cut.shape[0] == 1 and depth > 1:
            cut = a.cuts.whole if cut.count == 1 else a.cuts.of(np.broadcast_to(cut.labels, (depth, cut.shape[1])))[0]
        rows, met = a.cuts.rows(cut)
        found = tuple(
            tuple(dict.fromkeys(y.kinds[pairs[r][0]] for r in regions if known[pairs[r][1]])) for regions in met
        )
        return a.cuts.turned(rows), found

    def _rows(self, x: Value, states: Flags) -> tuple[Cut, tuple[Kind, ...]]:
        a, flags = self.algebra, states[1]
        cut, pairs = a.cuts.refine(x.cut, states[0])
        rows, met = a.cuts.rows(cut)
        out: list[Kind] = []
        for regions in met:
            kinds = [x.kinds[pairs[r][0]] for r in regions]
            if all(k == 0.0 for k in kinds):
                out.append(0.0)
            elif any(flags[pairs[r][1]] == IGNORED for r in regions):
                out.append(ANY if any(map(kd.is_any, kinds)) else OWN)
            else:
                out.append(ANY if any(map(kd.is_any, kinds)) else LIVE)
        return rows, tuple(out)

    def _cols(self, y: Value, inner: Flags) -> tuple[Cut, tuple[Kind, ...]]:
        """A kind for each column, of those positions of K that exist."""
        a = self.algebra
        flags, known = inner
        cut, pairs = a.cuts.refine(y.cut, flags)
        cols, met = a.cuts.rows(cut, 0)
        out: list[Kind] = []
        for regions in met:
            kinds = [y.kinds[pairs[r][0]] for r in regions if known[pairs[r][1]]]
            if not kinds:
                out.append(FINITE_LIVE)
            elif all(k == 0.0 for k in kinds):
                out.append(0.0)
            else:
                found = kd.worst(kinds)
                out.append(FINITE_LIVE if all(map(kd.is_finite, kinds)) else found)
        return cols, tuple(out)

    def accumulate(self, before: Value | None, made: Value) -> Value:
        """A product added to what its accumulator holds; None: it overwrites."""
        if before is None:
            return made
        found = self.algebra.combine("add", [before, made])
        return replace(found, trail=made.trail)


def _outcome(row: Kind, col: Kind, fast: bool) -> Kind:
    """What a row and a column of these kinds make. fast: entries are finite, by the user's word."""
    if row == 0.0 and (kd.is_finite(col) or (fast and kd.is_live(col))):
        return 0.0
    if kd.is_any(row) or kd.is_any(col):
        return ANY
    if row == LIVE and kd.is_live(col):
        return LIVE
    return OWN


def _part(dim: Pos | tuple[Pos, Pos, int], rows: tuple[int, ...], cols: tuple[int, ...]) -> Pos | tuple[Pos, Pos, int]:
    if not isinstance(dim, Pos):
        outer, inner = _part(dim[0], rows, cols), _part(dim[1], rows, cols)
        assert isinstance(outer, Pos) and isinstance(inner, Pos)
        return outer, inner, dim[2]
    if dim.along == U:
        return dim
    chosen = rows if dim.along == ROW else cols
    every = dim.all()
    return pos_of(dim.along, [every[n] for n in chosen])
