"""Faults put into plans: each kind yields mutants of a plan, one a place."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tilegen.ir import plan as ir
from tilegen.ir.plan_walk import operations, parts
from tilegen.ir.uniform import Int, Op, Sym, Uniform, op, symbols
from tilegen.syntax.span import Span

_T = TypeVar("_T")
Body = tuple[ir.Operation, ...]
Path = tuple[int, ...]


@dataclass(frozen=True)
class Mutant:
    """`span`: where in the spec the operation at fault comes from."""

    kind: str
    where: str
    plan: ir.Plan
    span: Span | None


@dataclass(frozen=True)
class Site:
    """An operation of a role, by positions."""

    role: int
    path: Path
    operation: Any


KINDS: dict[str, Callable[[ir.Plan], Iterator[tuple[str, ir.Plan, Span | None]]]] = {}


def kind(name: str) -> Callable[[Any], Any]:
    def add(make: Any) -> Any:
        KINDS[name] = make
        return make

    return add


def mutants(plan: ir.Plan, names: tuple[str, ...] = ()) -> Iterator[Mutant]:
    """Every mutant of these kinds, or of all."""
    for name in names or KINDS:
        for where, made, span in KINDS[name](plan):
            if made != plan:
                yield Mutant(name, where, made, span)


# ---- editing -----------------------------------------------------------------------------------------


def sites(plan: ir.Plan, *kinds: type[Any]) -> Iterator[Site]:
    for number, role in enumerate(plan.roles):
        for path, operation in operations(role, number):
            if isinstance(operation, kinds):
                yield Site(number, tuple(int(p) for p in path[2:]), operation)


def edit(plan: ir.Plan, role: int, path: Path, change: Callable[[Body, int], Body]) -> ir.Plan:
    """The plan with the body that holds an operation changed: `change` gets the body and the operation's place."""

    def walk(body: Body, rest: Path) -> Body:
        here, *more = rest
        if not more:
            return change(body, here)
        inner: Any = body[here]
        return (*body[:here], replace(inner, body=walk(inner.body, tuple(more))), *body[here + 1 :])

    changed = plan.roles[role]
    changed = replace(changed, body=walk(changed.body, path))
    return replace(plan, roles=(*plan.roles[:role], changed, *plan.roles[role + 1 :]))


def put(plan: ir.Plan, site: Site, *new: ir.Operation) -> ir.Plan:
    return edit(plan, site.role, site.path, lambda body, at: (*body[:at], *new, *body[at + 1 :]))


def named(plan: ir.Plan, site: Site) -> str:
    return f"{plan.roles[site.role].name} {'.'.join(map(str, site.path))} {type(site.operation).__name__}"


def dropped(*kinds: type[Any], test: Callable[[Any], bool] = lambda o: True) -> Any:
    def make(plan: ir.Plan) -> Iterator[tuple[str, ir.Plan, Span | None]]:
        for site in sites(plan, *kinds):
            if test(site.operation):
                yield named(plan, site), put(plan, site), site.operation.span

    return make


def altered(kinds: Any, change: Callable[[ir.Plan, Any], Iterator[Any]]) -> Any:
    def make(plan: ir.Plan) -> Iterator[tuple[str, ir.Plan, Span | None]]:
        for site in sites(plan, *(kinds if isinstance(kinds, tuple) else (kinds,))):
            for n, new in enumerate(change(plan, site.operation)):
                group = new if isinstance(new, tuple) else (new,)
                yield f"{named(plan, site)} #{n}", put(plan, site, *group), site.operation.span

    return make


def declared(field: str, change: Callable[[ir.Plan, Any], Iterator[Any]]) -> Any:
    """A declaration (buffer, ring, descriptor, role) replaced."""

    def make(plan: ir.Plan) -> Iterator[tuple[str, ir.Plan, Span | None]]:
        every = getattr(plan, field)
        for n, item in enumerate(every):
            for m, new in enumerate(change(plan, item)):
                changed = (*every[:n], new, *every[n + 1 :])
                yield f"{item.name} #{m}", replace(plan, **{field: changed}), getattr(item, "span", None)

    return make


def subst(e: Uniform, name: str, by: Uniform) -> Uniform:
    if isinstance(e, Sym):
        return by if e.name == name else e
    if isinstance(e, Op):
        return Op(e.op, tuple(subst(a, name, by) for a in e.args))
    return e


def shifted(plan: ir.Plan, n: int, field: str, o: Any, by: int) -> Any:
    index = list(getattr(o, field))
    index[n] = op("add", index[n], by)
    return replace(o, **{field: tuple(index)})


# ---- synchronisation ---------------------------------------------------------------------------------

KINDS["a wait for a full slot dropped"] = dropped(ir.WaitFull)
KINDS["a wait for a clean slot dropped"] = dropped(ir.WaitClean)
KINDS["a wait for an empty slot dropped"] = dropped(ir.WaitEmpty)
KINDS["a release dropped"] = dropped(ir.ArriveEmpty)
KINDS["a release made twice"] = altered(ir.ArriveEmpty, lambda plan, o: iter([(o, o)]))
KINDS["an arrival after a scan dropped"] = dropped(ir.ArriveClean)
KINDS["a cursor not moved"] = dropped(ir.Advance)
KINDS["a cursor moved twice"] = altered(ir.Advance, lambda plan, o: iter([(o, o)]))
KINDS["empty count +1"] = declared("rings", lambda plan, r: iter([replace(r, empty_arrivals=r.empty_arrivals + 1)]))
KINDS["empty count -1"] = declared(
    "rings", lambda plan, r: iter([replace(r, empty_arrivals=r.empty_arrivals - 1)] if r.empty_arrivals > 1 else [])
)
KINDS["full count +1"] = declared("rings", lambda plan, r: iter([replace(r, full_arrivals=r.full_arrivals + 1)]))
KINDS["clean count +-1"] = declared(
    "rings",
    lambda plan, r: iter(
        [replace(r, scan=replace(r.scan, arrivals=r.scan.arrivals + n)) for n in (-1, 1)] if r.scan else []
    ),
)
KINDS["expected bytes +16"] = altered(ir.Expect, lambda plan, o: iter([replace(o, bytes=o.bytes + 16)]))
KINDS["expected bytes -16"] = altered(ir.Expect, lambda plan, o: iter([replace(o, bytes=o.bytes - 16)]))
KINDS["an expectation dropped"] = dropped(ir.Expect)
KINDS["a proxy fence dropped"] = dropped(ir.FenceAsync)
KINDS["a product's fence dropped"] = dropped(ir.MmaFence)
KINDS["a wait for products dropped"] = dropped(ir.MmaWait)
KINDS["a wait for products too short"] = altered(ir.MmaWait, lambda plan, o: iter([replace(o, pending=o.pending + 1)]))
KINDS["a meeting of a warpgroup dropped"] = dropped(ir.GroupSync)
KINDS["a wait for the turn dropped"] = dropped(ir.OrderWait)
KINDS["a turn not handed on"] = dropped(ir.OrderPass)
KINDS["nobody has the first turn"] = dropped(ir.OrderStart)
KINDS["a wait for stores dropped"] = dropped(ir.StoreWait)
KINDS["a wait for stores too short"] = altered(ir.StoreWait, lambda plan, o: iter([replace(o, pending=o.pending + 1)]))


@kind("a release before the product retires")
def _early(plan: ir.Plan) -> Iterator[tuple[str, ir.Plan, Span | None]]:
    for site in sites(plan, ir.MmaWait):

        def change(body: Body, at: int) -> Body:
            released = next((n for n in range(at + 1, len(body)) if isinstance(body[n], ir.ArriveEmpty)), None)
            if released is None:
                return body
            return (*body[:at], body[released], *body[at:released], *body[released + 1 :])

        yield named(plan, site), edit(plan, site.role, site.path, change), site.operation.span


@kind("the phase flipped")
def _phase(plan: ir.Plan) -> Iterator[tuple[str, ir.Plan, Span | None]]:
    """A role's cursor begins a whole round late: the same stages, the other parity."""
    for number, role in enumerate(plan.roles):
        for cursor in role.cursors:
            ahead = tuple(ir.Advance(cursor.name, role.body[0].span) for _ in range(plan.ring(cursor.ring).depth))
            changed = replace(role, body=(*ahead, *role.body))
            roles = (*plan.roles[:number], changed, *plan.roles[number + 1 :])
            yield f"{role.name} {cursor.name}", replace(plan, roles=roles), plan.ring(cursor.ring).span


@kind("the stage off by one")
def _stage(plan: ir.Plan) -> Iterator[tuple[str, ir.Plan, Span | None]]:
    for number, role in enumerate(plan.roles):
        for cursor in role.cursors:
            changed = replace(role, body=(ir.Advance(cursor.name, role.body[0].span), *role.body))
            roles = (*plan.roles[:number], changed, *plan.roles[number + 1 :])
            yield f"{role.name} {cursor.name}", replace(plan, roles=roles), plan.ring(cursor.ring).span


@kind("a slot read before the one that was awaited")
def _behind(plan: ir.Plan) -> Iterator[tuple[str, ir.Plan, Span | None]]:
    """The cursor moves between the wait and the reader."""
    for site in sites(plan, ir.WaitFull, ir.WaitClean):
        o = site.operation
        yield named(plan, site), put(plan, site, o, ir.Advance(o.slot.cursor, o.span)), o.span


@kind("the parts of a ring exchanged")
def _parts(plan: ir.Plan) -> Iterator[tuple[str, ir.Plan, Span | None]]:
    for site in sites(plan, ir.TmaLoad):
        o = site.operation
        count = plan.ring(o.slot.ring).parts
        if count > 1 and o.slot.part is not None:
            slot = replace(o.slot, part=(o.slot.part + 1) % count)
            yield named(plan, site), put(plan, site, replace(o, slot=slot)), o.span


# ---- tiles ---------------------------------------------------------------------------------------------

KINDS["a load dropped (a split box lost)"] = dropped(ir.TmaLoad)


def _coordinates(by: Callable[[ir.Plan, Any, int], int]) -> Callable[[ir.Plan, Any], Iterator[Any]]:
    def change(plan: ir.Plan, o: Any) -> Iterator[Any]:
        for n in range(len(o.coordinates)):
            yield shifted(plan, n, "coordinates", o, by(plan, o, n))

    return change


KINDS["a coordinate of a load +1"] = altered(ir.TmaLoad, _coordinates(lambda plan, o, n: 1))
KINDS["a coordinate of a load -1"] = altered(ir.TmaLoad, _coordinates(lambda plan, o, n: -1))
KINDS["a coordinate of a load a block on"] = altered(
    ir.TmaLoad, _coordinates(lambda plan, o, n: plan.descriptor(o.descriptor).dims[n].box)
)
KINDS["a coordinate of a store +1"] = altered(ir.TmaStore, _coordinates(lambda plan, o, n: 1))


def _swapped(plan: ir.Plan, o: Any) -> Iterator[Any]:
    for n in range(len(o.coordinates)):
        for m in range(n):
            index = list(o.coordinates)
            index[n], index[m] = index[m], index[n]
            yield replace(o, coordinates=tuple(index))


KINDS["coordinates swapped"] = altered((ir.TmaLoad, ir.TmaStore), _swapped)


def _other_symbols(plan: ir.Plan, o: Any) -> Iterator[Any]:
    """A head, batch or position in place of another."""
    index = o.coordinates if hasattr(o, "coordinates") else o.index
    field = "coordinates" if hasattr(o, "coordinates") else "index"
    names = sorted({s for e in index for s in symbols(e)} | {s for e in _bound(plan) for s in symbols(e)})
    sizes = {p.name for p in plan.params if isinstance(p, ir.SizeParam)}
    single = [n for n in names if n not in sizes and "." not in n and n != "warpgroup"]
    for n, e in enumerate(index):
        if isinstance(e, Sym) and e.name in single:
            for other in single:
                if other != e.name:
                    yield replace(o, **{field: (*index[:n], Sym(other), *index[n + 1 :])})
            yield replace(o, **{field: (*index[:n], Int(0), *index[n + 1 :])})


def _bound(plan: ir.Plan) -> list[Uniform]:
    return [Sym(f) for f in (plan.table.fields if plan.table else ())]


KINDS["the wrong head or batch"] = altered((ir.TmaLoad, ir.TmaStore, ir.StoreRows, ir.StoreVector), _other_symbols)
KINDS["a fill of NaN"] = declared(
    "descriptors", lambda plan, d: iter([replace(d, fill="nan")] if not d.store and d.fill == "zero" else [])
)

KINDS["a fill of zeros"] = declared(
    "descriptors", lambda plan, d: iter([replace(d, fill="zero")] if not d.store and d.fill == "nan" else [])
)


def _boxes(by: Callable[[int], int]) -> Callable[[ir.Plan, Any], Iterator[Any]]:
    def change(plan: ir.Plan, d: Any) -> Iterator[Any]:
        for n, dim in enumerate(d.dims):
            if dim.box > 1:
                yield replace(d, dims=(*d.dims[:n], replace(dim, box=by(dim.box)), *d.dims[n + 1 :]))

    return change


KINDS["a box twice as long"] = declared("descriptors", _boxes(lambda b: 2 * b))
KINDS["a box cut short"] = declared("descriptors", _boxes(lambda b: b // 2))


def _dims(plan: ir.Plan, d: Any) -> Iterator[Any]:
    plain = [n for n, x in enumerate(d.dims) if not x.part]
    for n in plain:
        for m in plain:
            if m < n:
                dims = list(d.dims)
                dims[n], dims[m] = replace(dims[n], dim=dims[m].dim), replace(dims[m], dim=dims[n].dim)
                yield replace(d, dims=tuple(dims))


KINDS["dimensions of a tensor map exchanged"] = declared("descriptors", _dims)


def _tensors(plan: ir.Plan, d: Any) -> Iterator[Any]:
    shape = plan.tensor(d.tensor)
    for other in plan.tensors:
        if other.name != d.tensor and len(other.dims) == len(shape.dims) and other.dtype == shape.dtype:
            yield replace(d, tensor=other.name)


KINDS["a tensor map of another tensor"] = declared("descriptors", _tensors)


def _offsets(plan: ir.Plan, o: Any) -> Iterator[Any]:
    size = plan.buffer(plan.ring(o.slot.ring).buffer).stage_bytes if isinstance(o, ir.TmaLoad) else 0
    yield replace(o, offset=(o.offset + o.bytes) % max(size, 1) if size > o.bytes else o.offset + 128)


KINDS["a box at another place of its slot"] = altered(ir.TmaLoad, _offsets)


def _moved(by: Callable[[ir.Buffer], int]) -> Callable[[ir.Plan, Any], Iterator[Any]]:
    def change(plan: ir.Plan, b: Any) -> Iterator[Any]:
        yield replace(b, offset=b.offset + by(b))

    return change


KINDS["the alignment of a tile lowered"] = declared("buffers", _moved(lambda b: 128))
KINDS["a tile over another"] = declared(
    "buffers",
    lambda plan, b: iter(
        [replace(b, offset=x.offset) for x in plan.buffers if x.offset < b.offset and x.host is None][:1]
    ),
)
KINDS["stages too close"] = declared(
    "buffers", lambda plan, b: iter([replace(b, stage_bytes=b.stage_bytes // 2)] if b.stages * b.parts > 1 else [])
)
KINDS["a ring deeper than its tile"] = declared("rings", lambda plan, r: iter([replace(r, depth=r.depth + 1)]))
KINDS["registers over what there is"] = declared(
    "roles",
    lambda plan, r: iter(
        [replace(r, registers=min(r.registers + 64, 248), body=_registers(r.body, 64))]
        if r.registers and r.kind == "consumer"
        else []
    ),
)


def _registers(body: Body, by: int) -> Body:
    return tuple(replace(o, count=min(o.count + by, 248)) if isinstance(o, ir.SetRegisters) else o for o in body)


def _operand(**change: Callable[[Any], Any]) -> Callable[[ir.Plan, Any], Iterator[Any]]:
    def made(plan: ir.Plan, o: Any) -> Iterator[Any]:
        for side in ("a", "b"):
            operand = getattr(o, side)
            for field, by in change.items():
                if hasattr(operand, field) and (new := by(getattr(operand, field))) != getattr(operand, field):
                    yield replace(o, **{side: replace(operand, **{field: new})})

    return made


KINDS["a step of an operand elsewhere"] = altered(
    ir.Mma, _operand(offsets=lambda x: (x[0], *(o + 32 for o in x[1:])) if len(x) > 1 else (x[0] + 32,))
)
KINDS["steps of an operand exchanged"] = altered(ir.Mma, _operand(offsets=lambda x: (*x[1:2], *x[:1], *x[2:])))
KINDS["an operand's stride doubled"] = altered(ir.Mma, _operand(stride=lambda x: 2 * x))
KINDS["an operand's leading offset doubled"] = altered(ir.Mma, _operand(leading=lambda x: 2 * x))
KINDS["a warpgroup's rows of an operand"] = altered(ir.Mma, _operand(warpgroup=lambda x: 0))
KINDS["an operand read across"] = altered(ir.Mma, _operand(major=lambda x: "mn" if x == "k" else "k"))


@kind("another tile as an operand")
def _other_slot(plan: ir.Plan) -> Iterator[tuple[str, ir.Plan, Span | None]]:
    for site in sites(plan, ir.Mma):
        o = site.operation
        for cursor in plan.roles[site.role].cursors:
            ring = plan.ring(cursor.ring)
            mine, other = plan.buffer(plan.ring(o.b.slot.ring).buffer), plan.buffer(ring.buffer)
            if ring.name != o.b.slot.ring and (mine.rows, mine.cols) == (other.rows, other.cols):
                slot = ir.Slot(ring.name, cursor.name)
                yield f"{named(plan, site)} {ring.name}", put(plan, site, replace(o, b=replace(o.b, slot=slot))), o.span


KINDS["an accumulator not begun anew"] = altered(
    ir.Mma, lambda plan, o: iter([replace(o, zero=False)] if o.zero is not False else [])
)
KINDS["an accumulator begun anew"] = altered(
    ir.Mma, lambda plan, o: iter([replace(o, zero=True)] if o.zero is not True else [])
)
KINDS["a product dropped"] = altered(
    ir.Mma,
    lambda plan, o: iter(
        [replace(o, a=replace(o.a, offsets=o.a.offsets[:-1]), b=replace(o.b, offsets=o.b.offsets[:-1]))]
        if hasattr(o.a, "offsets") and len(o.b.offsets) > 1
        else []
    ),
)

# ---- poison ----------------------------------------------------------------------------------------------

KINDS["a mask dropped"] = dropped(ir.Mask)


def _bounds(by: int) -> Callable[[ir.Plan, Any], Iterator[Any]]:
    def change(plan: ir.Plan, o: Any) -> Iterator[Any]:
        for n, conjunction in enumerate(o.alternatives):
            for m, bound in enumerate(conjunction):
                if isinstance(bound, ir.Bound):
                    new = replace(bound, offset=op("add", bound.offset, by))
                    changed = (*conjunction[:m], new, *conjunction[m + 1 :])
                    yield replace(o, alternatives=(*o.alternatives[:n], changed, *o.alternatives[n + 1 :]))

    return change


def _conditions(plan: ir.Plan, o: Any) -> Iterator[Any]:
    for n, conjunction in enumerate(o.alternatives):
        for m in range(len(conjunction)):
            if len(conjunction) > 1:
                changed = (*conjunction[:m], *conjunction[m + 1 :])
                yield replace(o, alternatives=(*o.alternatives[:n], changed, *o.alternatives[n + 1 :]))


KINDS["a mask's bound +1"] = altered(ir.Mask, _bounds(1))
KINDS["a mask's bound -1"] = altered(ir.Mask, _bounds(-1))
KINDS["a condition of a mask dropped"] = altered(ir.Mask, _conditions)
KINDS["a mask to another number"] = altered(
    ir.Mask, lambda plan, o: iter([replace(o, identity=0.0 if math.isinf(o.identity) else -math.inf)])
)


def _multiplied(plan: ir.Plan, o: Any) -> Iterator[Any]:
    """Dead elements times 0, plus the identity or what is next to it: arithmetic where a select is due."""
    bounds = [c for conjunction in o.alternatives for c in conjunction if isinstance(c, ir.Bound)]
    usable = [b for b in bounds if b.row_chunks is None and b.col_chunks is None and not b.uniform]
    if len(o.alternatives) != 1 or len(usable) != len(o.alternatives[0]):
        return
    alive: ir.ElementExpr = ir.Literal(1.0)
    for b in usable:
        place = ir.Place(b.row_factor, b.col_factor, b.offset, b.digits)
        alive = ir.Compute(
            "mul",
            (
                alive,
                ir.Compute("select", (ir.Compute("ge", (place, ir.Literal(0.0))), ir.Literal(1.0), ir.Literal(0.0))),
            ),
        )
    low = ir.Literal(max(o.identity, -1e30) if math.isinf(o.identity) else o.identity)
    dead = ir.Compute("mul", (ir.Compute("sub", (ir.Literal(1.0), alive)), low))
    value = ir.Compute("fma", (ir.Element(o.fragment), alive, dead))
    yield ir.Map(o.fragment, value, o.span, o.statement)


KINDS["a mask by multiplication"] = altered(ir.Mask, _multiplied)


def _votes(plan: ir.Plan, o: Any) -> Iterator[Any]:
    for e in parts(o.value, ir.Compute):
        if e.op == "select" and isinstance(e.args[2], ir.Element) and e.args[2].fragment == "rows.voting":
            yield replace(o, value=_swap(o.value, e, replace(e, args=(*e.args[:2], ir.Literal(1.0)))))


def _swap(tree: Any, old: Any, new: Any) -> Any:
    if tree == old:
        return new
    if isinstance(tree, tuple):
        return tuple(_swap(t, old, new) for t in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return replace(
            tree, **{f.name: _swap(getattr(tree, f.name), old, new) for f in dataclasses.fields(tree) if f.init}
        )
    return tree


KINDS["a vote over rows that are not stored"] = altered(ir.Map, _votes)
KINDS["a scan dropped"] = dropped(ir.ScanSlot)
KINDS["what a scan took out is not put back"] = dropped(ir.Mend)
KINDS["what a scan took out is put back a row on"] = altered(
    ir.Mend, lambda plan, o: iter([shifted(plan, o.dim, "index", o, 1)])
)
KINDS["a row's sum left apart"] = dropped(ir.QuadReduce)
KINDS["a fold of another kind"] = altered(
    ir.RowFold, lambda plan, o: iter([replace(o, kind="max" if o.kind == "sum" else "sum")])
)
KINDS["a first value forgotten"] = dropped(ir.Init)

# ---- outputs and loops -------------------------------------------------------------------------------------

KINDS["a store dropped"] = dropped(ir.StoreRows, ir.StoreVector, ir.TmaStore)


def _other_stages(plan: ir.Plan, o: Any) -> Iterator[Any]:
    stages = plan.buffer(o.buffer).stages
    return iter([replace(o, stage=(o.stage + 1) % stages)] if stages > 1 else [])


KINDS["a piece of an output in another stage"] = altered((ir.WriteShared, ir.TmaStore), _other_stages)
KINDS["another piece of an output"] = altered(
    ir.WriteShared,
    lambda plan, o: iter([replace(o, first=abs(o.first - plan.buffer(o.buffer).cols))] if _in_pieces(plan, o) else []),
)


def _in_pieces(plan: ir.Plan, o: ir.WriteShared) -> bool:
    width = next(f.cols for role in plan.roles for f in role.fragments if f.name == o.source)
    return plan.buffer(o.buffer).cols < width


KINDS["a store's rows one too many"] = altered(
    (ir.StoreRows, ir.StoreVector),
    lambda plan, o: iter(
        [replace(o, shared=(replace(o.shared[0], limit=op("add", o.shared[0].limit, 1)), *o.shared[1:]))]
        if o.shared
        else [replace(o, **{_limit(o): op("add", getattr(o, _limit(o)), 1)})]
    ),
)
KINDS["a store's rows one too few"] = altered(
    (ir.StoreRows, ir.StoreVector),
    lambda plan, o: iter([replace(o, **{_limit(o): op("sub", getattr(o, _limit(o)), 1)})] if not o.shared else []),
)
KINDS["a store's columns one too few"] = altered(
    ir.StoreRows, lambda plan, o: iter([replace(o, col_limit=op("sub", o.col_limit, 1))])
)


def _limit(o: Any) -> str:
    return "row_limit" if isinstance(o, ir.StoreRows) else "limit"


def _indices(plan: ir.Plan, o: Any) -> Iterator[Any]:
    for n in range(len(o.index)):
        yield shifted(plan, n, "index", o, 1)


KINDS["a store's position +1"] = altered((ir.StoreRows, ir.StoreVector), _indices)
KINDS["a vector's position +1"] = altered(ir.LoadVector, _indices)
KINDS["a vector's limit forgotten"] = altered(
    ir.LoadVector, lambda plan, o: iter([replace(o, limit=op("add", o.limit, 64))])
)
KINDS["a number of a tensor from elsewhere"] = altered(
    ir.LetFloat,
    lambda plan, o: iter(
        [replace(o, load=(o.load[0], (op("add", o.load[1][0], 1), *o.load[1][1:])))] if o.load is not None else []
    ),
)
KINDS["rows of a tile one on"] = altered(
    ir.ReadShared, lambda plan, o: iter([replace(o, row_offset=0 if o.row_offset else 8)])
)
KINDS["a loop begins one later"] = altered(ir.For, lambda plan, o: iter([replace(o, start=op("add", o.start, 1))]))
KINDS["a loop ends one sooner"] = altered(ir.For, lambda plan, o: iter([replace(o, stop=op("sub", o.stop, 1))]))
KINDS["a loop begins one sooner"] = altered(ir.For, lambda plan, o: iter([replace(o, start=op("sub", o.start, 1))]))


def _lets(plan: ir.Plan, o: Any) -> Iterator[Any]:
    yield replace(o, value=op("add", o.value, 1))
    yield replace(o, value=op("sub", o.value, 1))


KINDS["a position or bound off by one"] = altered(ir.Let, _lets)


@kind("an item's values off by one")
def _table(plan: ir.Plan) -> Iterator[tuple[str, ir.Plan, Span | None]]:
    if plan.table is None:
        return
    for n, let in enumerate(plan.table.lets):
        for by in (1, -1):
            changed = replace(let, value=op("add", let.value, by))
            lets = (*plan.table.lets[:n], changed, *plan.table.lets[n + 1 :])
            yield f"table {let.name} {by:+d}", replace(plan, table=replace(plan.table, lets=lets)), let.span


@kind("work items too few or too many")
def _total(plan: ir.Plan) -> Iterator[tuple[str, ir.Plan, Span | None]]:
    for by in (1, -1):

        def change(o: Any, by: int = by) -> Any:
            return replace(o, total=op("add", o.total, by)) if isinstance(o, ir.Work) else o

        roles = tuple(replace(r, body=tuple(map(change, r.body))) for r in plan.roles)
        table = plan.table and replace(plan.table, total=op("add", plan.table.total, by))
        if plan.table is None or plan.table.sequences is None:
            yield f"{by:+d}", replace(plan, roles=roles, table=table), plan.roles[0].body[0].span
