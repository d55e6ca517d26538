"""Tables of items: names stand in scope; and of items made of sequences, the kernel that deals them out has what it
needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilegen.ir import plan as ir
from tilegen.ir.dtypes import DType
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_text import Path
from tilegen.ir.uniform import Uniform, symbols

HERE: Path = ("table",)
OF_DEALING = (ir.ScratchParam, ir.FaultParam, ir.CtasParam)


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on tables and sequences."""
    for index, param in enumerate(plan.params):
        if isinstance(param, OF_DEALING):
            yield Violation(("param", index), "only a kernel that deals out items takes this")
    if plan.table is None:
        return
    if plan.table.sequences is None:
        for message in _host_scope(plan, plan.table):
            yield Violation(HERE, message)
        return
    yield from _params(plan, plan.table.sequences)
    for message in _scopes(plan.table, plan.table.sequences, plan.params):
        yield Violation(HERE, message)


def _host_scope(plan: ir.Plan, table: ir.ItemTable) -> Iterator[str]:
    scope = {p.name for p in plan.params if isinstance(p, ir.SizeParam)}
    yield from _unknown((table.total,), scope)
    scope.add(table.item)
    for let in table.lets:
        yield from _unknown((let.value,), scope)
        scope.add(let.name)
    yield from _unknown((table.cost,), scope)
    yield from (f"nothing binds the field {name}" for name in table.fields if name not in scope)


def _params(plan: ir.Plan, q: ir.Sequences) -> Iterator[Violation]:
    for kind in (ir.TableParam, *OF_DEALING):
        if sum(isinstance(p, kind) for p in q.params) != 1:
            yield Violation(HERE, f"the kernel that deals out items takes one {kind.__name__}")
    tensors = {t.name: t for t in plan.tensors}
    for x in q.lengths:
        starts = tensors.get(x.starts)
        if starts is None or starts.dtype is not DType.I32 or len(starts.dims) != 1:
            yield Violation(HERE, f"{x.starts} is no vector of whole numbers")
        elif ir.PointerParam(x.starts) not in q.params:
            yield Violation(HERE, f"no parameter carries the address of {x.starts}")


def _scopes(table: ir.ItemTable, q: ir.Sequences, params: tuple[ir.Param, ...]) -> Iterator[str]:
    sizes = {p.name for p in q.params if isinstance(p, ir.SizeParam)}
    own = {q.position, *(name for x in q.lengths for name in (x.start, x.length))}
    yield from _unknown((q.count, q.most_units, table.total, q.scratch, *(x.tokens for x in q.lengths)), sizes)
    yield from (f"no parameter carries {let.name}" for let in q.given if let.name not in sizes)
    yield from _unknown((let.value for let in q.given), sizes | {p.name for p in params if isinstance(p, ir.SizeParam)})
    yield from _unknown((q.units,), sizes | own)
    yield from _unknown((q.items,), sizes | {q.all_units})
    scope = sizes | {table.item, q.all_units}
    for let in q.ranking:
        yield from _unknown((let.value,), scope)
        scope.add(let.name)
    if q.rank not in {let.name for let in q.ranking}:
        yield f"nothing binds {q.rank}"
    # what follows costs units, too, before there are items
    scope = (scope | own | {q.unit}) - {table.item, q.all_units}
    for let in table.lets:
        yield from _unknown((let.value,), scope)
        scope.add(let.name)
    yield from _unknown((table.cost,), scope)
    scope |= {table.item, q.all_units}
    yield from (f"nothing binds the field {name}" for name in table.fields if name not in scope)


def _unknown(expressions: Iterable[Uniform], scope: set[str]) -> Iterator[str]:
    for name in sorted(frozenset().union(*map(symbols, expressions)) - scope):
        yield f"nothing named {name} is in scope"
