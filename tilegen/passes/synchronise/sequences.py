"""Work items of sequences whose lengths the device knows: a unit is one block of rows of one sequence.

Units are ordered by what they cost; the other grid axes (heads) are dense, and an item is a unit at a dense position.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.plan import (
    CtasParam,
    FaultParam,
    ItemTable,
    Lengths,
    Let,
    Param,
    PointerParam,
    ScratchParam,
    Sequences,
    SizeParam,
    TableParam,
)
from tilegen.ir.poly import Poly
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.uniform import Int, Op, Sym, Uniform, from_poly, op, symbols
from tilegen.passes.synchronise.geometry import extent
from tilegen.passes.tokens import batch_axis, ragged_extent, start_of, tokens_of

UNITS, UNIT, RANK, GROUP = "work.units", "work.unit", "work.rank", "group.size"


def _blocks(axis: str, s: Scheduled) -> Uniform:
    return op("ceildiv", extent(s.program.tile.axis(axis)), s.role(axis).block)


def unit_axes(s: Scheduled) -> tuple[str, ...]:
    """Grid axes that a sequence's units run along, innermost first: the ragged one, and the rows, along which items
    cost more or less. Raises TilegenError if there are more ragged ones, or sequences are no grid axis of their own."""
    program = s.program.tile
    sequence = batch_axis(program).name
    role = next((r for r in s.roles if r.axis == sequence), None)
    if role is None or role.role != "grid" or role.block != 1:
        fail(Code.RAGGED_GRID, program.ragged[0].span, kernel=program.name, axis=sequence)
    ragged = [a for a in s.order.axes if ragged_extent(program.axis(a), program)]
    if len(ragged) > 1:
        fail(Code.RAGGED_GRID, program.axis(ragged[1]).span, got=", ".join(ragged), kernel=program.name, axis=sequence)
    return tuple(a for a in s.order.axes if a in ragged or (a == s.workers.axes[0] and a != sequence))


def _dense_axes(s: Scheduled) -> tuple[str, ...]:
    return tuple(a for a in s.order.axes if a not in unit_axes(s) and a != batch_axis(s.program.tile).name)


def _product(axes: tuple[str, ...], s: Scheduled) -> Uniform:
    total: Uniform = Int(1)
    for axis in axes:
        total = op("mul", total, _blocks(axis, s))
    return total


def _over_all(poly: Poly, s: Scheduled) -> Uniform:
    """The sum of an extent over all sequences."""
    program = s.program.tile
    ragged = {r.size: Poly.symbol(tokens_of(r.size)) for r in program.ragged}
    total = Poly()
    for monomial, c in poly.terms:
        own = [n for n in monomial if n in ragged]
        if len(own) > 1:
            sequence = batch_axis(program).name
            fail(Code.RAGGED_GRID, program.ragged[0].span, got=str(poly), kernel=program.name, axis=sequence)
        term = Poly.const(c) * (ragged[own[0]] if own else Poly.symbol(program.ragged[0].over))
        for name in monomial:
            term = term if name in ragged else term * Poly.symbol(name)
        total = total + term
    return from_poly(total)


def _most_units(s: Scheduled) -> Uniform:
    """No less than the number of units of any launch of these tokens: sum of ceil(n / block) <= (sum of n + count *
    (block - 1)) / block."""
    program = s.program.tile
    count: Uniform = Sym(program.ragged[0].over)
    total = count
    for axis in unit_axes(s):
        if ragged_extent(program.axis(axis), program):
            block = s.role(axis).block
            spare = op("mul", count, block - 1)
            total = op("floordiv", op("add", _over_all(program.axis(axis).extent, s), spare), block)
    for axis in unit_axes(s):
        if not ragged_extent(program.axis(axis), program):
            total = op("mul", total, _blocks(axis, s))
    return total


def most_items(s: Scheduled) -> Uniform:
    """No less than the number of items of any launch of these tokens."""
    return op("mul", _most_units(s), _product(_dense_axes(s), s))


def _renamed(e: Uniform, names: Mapping[str, str]) -> Uniform:
    if isinstance(e, Sym):
        return Sym(names.get(e.name, e.name))
    return Op(e.op, tuple(_renamed(a, names) for a in e.args)) if isinstance(e, Op) else e


def _group_size(s: Scheduled, bytes_of: Uniform) -> tuple[Let, ...]:
    """How many dense positions make a group, if there are groups; `bytes_of`: of the streamed tiles that a position of
    the grouped axis reads."""
    positions = _product(_dense_axes(s), s)
    if s.order.group is None or positions == Int(1):
        return ()
    _, size, count = s.order.group
    tokens = _renamed(bytes_of, {r.size: tokens_of(r.size) for r in s.program.tile.ragged})
    wanted = Int(count) if count is not None else op("max", 1, op("floordiv", size or 0, tokens))
    return (Let(GROUP, op("min", wanted, positions), s.order.span),)


def _ranking(s: Scheduled, item: str, grouped: bool) -> tuple[Let, ...]:
    """From an item's number to the rank of its unit and its dense position.

    Dense positions are cut into groups, all units of one before the next: in a group the units by rank, each at
    every position.
    """
    lets: list[Let] = []

    def bind(name: str, value: Uniform) -> Uniform:
        lets.append(Let(name, value, s.order.span))
        return Sym(name)

    dense = _dense_axes(s)
    positions = _product(dense, s)
    place: Uniform
    if not grouped:
        bind(RANK, op("floordiv", item, positions))
        place = op("mod", item, positions)
    else:
        most = Sym(GROUP)
        items = op("mul", most, UNITS)
        number = bind("group.number", op("floordiv", item, items))
        inside = bind("group.item", op("sub", item, op("mul", number, items)))
        first = bind("group.first", op("mul", number, most))
        mine = bind("group.units", op("min", most, op("sub", positions, first)))
        bind(RANK, op("floordiv", inside, mine))
        place = op("add", first, op("mod", inside, mine))
    for n, axis in enumerate(dense):
        blocks, last = _blocks(axis, s), n == len(dense) - 1
        index = place if last else op("mod", place, blocks)
        if axis in s.order.descending:
            index = op("sub", op("sub", blocks, 1), index)
        role = s.role(axis)
        bind(axis if role.block == 1 else f"{axis}.0", op("mul", index, role.block))
        if not last:
            place = bind(f"{item}_{n}", op("floordiv", place, blocks))
    return tuple(lets)


def unit_lets(s: Scheduled) -> tuple[Let, ...]:
    """Positions of the unit's axes from its number in its sequence."""
    lets: list[Let] = []
    rest: Uniform = Sym(UNIT)
    axes = unit_axes(s)
    for n, axis in enumerate(axes):
        last, role = n == len(axes) - 1, s.role(axis)
        index = rest if last else op("mod", rest, _blocks(axis, s))
        lets.append(Let(axis if role.block == 1 else f"{axis}.0", op("mul", index, role.block), s.order.span))
        if not last:
            lets.append(Let(f"{UNIT}_{n}", op("floordiv", rest, _blocks(axis, s)), s.order.span))
            rest = Sym(f"{UNIT}_{n}")
    return tuple(lets)


def sequence_table(
    s: Scheduled, item: str, lets: tuple[Let, ...], cost: Uniform, used: set[str], bytes_of: Uniform
) -> ItemTable:
    """The table that the device makes. `lets`: what follows from an item's unit and dense position, in order;
    `used`: names that the roles use; `bytes_of`: see _group_size."""
    program = s.program.tile
    count: Uniform = Sym(program.ragged[0].over)
    lengths = tuple(Lengths(r.by, Sym(tokens_of(r.size)), start_of(r.size), r.size) for r in program.ragged)
    given = _group_size(s, bytes_of)
    ranking = _ranking(s, item, bool(given))
    position = batch_axis(program).name
    most, total = _most_units(s), most_items(s)
    bound = [x.name for x in ranking] + [position, *(n for x in lengths for n in (x.start, x.length))]
    bound += [x.name for x in lets]
    fields = tuple(name for name in dict.fromkeys(bound) if name in used)
    needed = set(fields) | symbols(cost)
    kept: list[Let] = []
    for let in reversed(lets):
        if let.name in needed:
            kept.insert(0, let)
            needed |= symbols(let.value)
    arrays = op("add", op("add", count, 1), op("add", op("mul", most, 3), total))
    expressions: list[Uniform] = [cost, count, total, arrays, *(x.tokens for x in lengths)]
    expressions += [x.value for x in (*ranking, *kept)]
    units = _product(unit_axes(s), s)
    items = op("mul", UNITS, _product(_dense_axes(s), s))
    names = frozenset().union(*map(symbols, (*expressions, units, items)))
    params: list[Param] = [TableParam(), ScratchParam(), FaultParam(), CtasParam()]
    params += [PointerParam(n) for n in dict.fromkeys(x.starts for x in lengths)]
    params += [SizeParam(z.name) for z in program.sizes if z.name in names]
    params += [SizeParam(z.name) for z in program.scalars if z.name in names]
    params += [SizeParam(x.name) for x in given]
    sequences = Sequences(
        count, position, lengths, units, UNIT, UNITS, most, items, ranking, RANK, given, arrays, tuple(params)
    )
    return ItemTable(item, total, tuple(kept), cost, fields, sequences)
