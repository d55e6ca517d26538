"""The kernel that deals out items made of sequences: see `ir.plan.Sequences`, and `ir.deal` for a model of it."""

from __future__ import annotations

from tilegen.ir.deal_limits import BUCKETS, MOST_CTAS, THREADS
from tilegen.ir.plan import Lengths, Let, Plan, SizeParam
from tilegen.ir.uniform import Uniform, symbols
from tilegen.targets.hopper.emit.functions import Functions
from tilegen.targets.hopper.emit.integers import Integers
from tilegen.targets.hopper.emit.names import Names, deal_name
from tilegen.targets.hopper.emit.parameters import parameter


def add_deal_kernel(plan: Plan, functions: Functions) -> None:
    """Put the kernel behind the functions, if the plan has one."""
    if plan.table is None or plan.table.sequences is None:
        return
    table, q = plan.table, plan.table.sequences
    names = functions.local("deal")
    parameters = [parameter(plan, names, p, deals=True)["declaration"] for p in q.params]
    sizes = {p.name for p in q.params if isinstance(p, SizeParam)} - _scalars(plan)
    known = {q.position, q.unit, q.all_units, table.item, *(n for x in q.lengths for n in (x.start, x.length))}
    for name in (table.item, q.all_units, q.position, q.unit, *(n for x in q.lengths for n in (x.start, x.length))):
        names.give(("symbol", name), name)
    integers = Integers(lambda name: names["symbol", name], functions.helper, frozenset(sizes | known))
    ranking, ranked = _lines(q.ranking, names, integers)
    by_rank, _ = _lines(_needed(q.ranking, {q.rank}), names, integers)
    rows, _ = _lines(_needed(table.lets, set(table.fields)), names, ranked)
    dense = {x.name for x in q.ranking}
    of_cost = _needed(table.lets, set(symbols(table.cost)))
    reached = symbols(table.cost).union(*(symbols(x.value) for x in of_cost)) & dense
    first = [f"const int {names['symbol', name]} = 0;" for name in sorted(reached)]
    costs, costed = _lines(of_cost, names, integers.with_natural(*dense))
    words = [names["symbol", name] for name in (table.item, *table.fields)]
    words += ["0"] * (table.width - len(words))
    functions.specific(
        deal_name(plan.name),
        "deal",
        kernel=plan.name,
        scan=functions.helper("block_scan"),
        threads=THREADS,
        buckets=BUCKETS,
        most_ctas=MOST_CTAS,
        width=table.width,
        parameters=parameters,
        lengths=[_lengths(x, names, integers) for x in q.lengths],
        ranking=ranking,
        by_rank=by_rank,
        cost_lets=first + costs,
        row_lets=rows,
        pieces=[", ".join(words[n : n + 4]) for n in range(0, table.width, 4)],
        table=names["table",],
        scratch=names["scratch",],
        fault=names["fault",],
        ctas=names["ctas",],
        count=integers.factor(q.count),
        position=names["symbol", q.position],
        units=integers.text(q.units),
        unit=names["symbol", q.unit],
        all_units=names["symbol", q.all_units],
        most_units=integers.factor(q.most_units),
        total=integers.text(table.total),
        items=integers.text(q.items),
        item=names["symbol", table.item],
        rank=names["symbol", q.rank],
        cost=costed.text(table.cost),
    )


def _scalars(plan: Plan) -> set[str]:
    """Integer scalars, which unlike sizes may be negative: no tensor's extent is made of them."""
    assert plan.table is not None
    assert plan.table.sequences is not None
    extents = {s for t in plan.tensors for d in t.dims for s in symbols(d)}
    return {p.name for p in plan.table.sequences.params if isinstance(p, SizeParam)} - extents


def _lengths(x: Lengths, names: Names, integers: Integers) -> dict[str, str]:
    return {
        "starts": names["pointer", x.starts],
        "tokens": integers.text(x.tokens),
        "start": names["symbol", x.start],
        "length": names["symbol", x.length],
    }


def _needed(lets: tuple[Let, ...], wanted: set[str]) -> tuple[Let, ...]:
    """The bindings that these names come from."""
    kept: list[Let] = []
    for let in reversed(lets):
        if let.name in wanted:
            kept.insert(0, let)
            wanted = wanted | symbols(let.value)
    return tuple(kept)


def _lines(lets: tuple[Let, ...], names: Names, integers: Integers) -> tuple[list[str], Integers]:
    """A declaration a binding, and what is known after them."""
    out = []
    for let in lets:
        value: Uniform = let.value
        out.append(f"const int {names.give(('symbol', let.name), let.name)} = {integers.text(value)};")
        if integers.is_natural(value):
            integers = integers.with_natural(let.name)
    return out, integers
