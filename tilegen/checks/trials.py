"""Sizes at which a plan's run is worth checking: loops of no, one, two rounds and more than the rings are deep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from tilegen.checks.paths import Paths
from tilegen.checks.pipeline import run
from tilegen.checks.regions import Regions
from tilegen.checks.sequences import length_symbol
from tilegen.checks.ways import with_way
from tilegen.diagnostics.core import Diagnostic
from tilegen.ir import plan as ir
from tilegen.ir.deal import DealError
from tilegen.ir.plan_walk import all_operations, uniforms
from tilegen.ir.uniform import Int, Op, Sym, Uniform, evaluate, symbols
from tilegen.syntax.span import Span

ITEMS = 3  # consecutive work items that a CTA, or a cluster, goes through
SEQUENCES = 3  # where items are made of such
SKEW = 2  # rounds by which roles may be apart beside what a ring holds
# Sizes that vary over their whole list, each value with each; the others take two values, all the first or all the
# last, to keep the number of runs small.
FREE = 2
FEW = 3


def check_all(plan: ir.Plan, shown: bool = False) -> list[Diagnostic]:
    """What is wrong with a verified plan at any of the trial sizes: the first fault of each kind at each place.

    shown: the first of all comes with the shortest way there, where one is soon found.
    """
    found: dict[tuple[str, Span | None], Diagnostic] = {}
    regions = Regions(plan)
    paths, gone = Paths(plan, regions.numbers), set()
    for trial in trials(plan):
        ctas = evaluate(plan.grid, trial)
        chosen = []
        for cta in sorted({0, ctas - 1}) if ctas > 0 else []:
            path = _path(paths, trial, cta, ctas)
            if path is None or path not in gone:
                gone.add(path)
                chosen.append(cta)
        trace = run(plan, trial, chosen, regions)
        for diagnostic in trace.diagnostics:
            if shown and not found and trace.first is not None:
                diagnostic = with_way(diagnostic, plan, trial, *trace.first)
            found.setdefault((diagnostic.code, diagnostic.span), diagnostic)
    return list(found.values())


def _path(paths: Paths, trial: dict[str, int], cta: int, ctas: int) -> tuple[int, ...] | None:
    """None: there is none, and the run tells why."""
    try:
        return paths.of(trial, cta, ctas)
    except (ZeroDivisionError, DealError):
        return None


def trials(plan: ir.Plan) -> Iterator[dict[str, int]]:
    """Values for every size and integer scalar of the plan, and sm_count."""
    names = [p.name for p in plan.params if isinstance(p, ir.SizeParam)]
    names += sorted(_grid_symbols(plan) - set(names))
    if plan.table is not None and plan.table.sequences is not None:
        names = _sequence_names(plan.table.sequences, names)
    blocks = _blocks(plan)
    values = {name: _values(plan, name, blocks.get(name, 1)) for name in names}
    for one, other in _products(plan):  # lengths of one times the other: a few of the second will do
        if min(len(values.get(one, ())), len(values.get(other, ()))) > FEW:
            values[other] = [1, 2, FEW]
    free = [n for n in sorted(names, key=lambda n: -len(values[n])) if len(values[n]) > 2]
    for kept in free[FREE:]:
        values[kept] = [values[kept][1], values[kept][-1]]
    varied = [n for n in names if len(values[n]) > 2]
    for choice in product(*(values[n] for n in varied), (0, -1)):
        trial = {n: values[n][choice[-1]] for n in names} | dict(zip(varied, choice, strict=False))
        if plan.table is not None and plan.table.sequences is not None:
            trial |= _with_lengths(plan.table.sequences, trial, values)
        yield with_ctas(plan, trial, ITEMS)


def with_ctas(plan: ir.Plan, trial: Mapping[str, int], items: int) -> dict[str, int]:
    """The trial on so many multiprocessors that a CTA, or a cluster, has this many work items."""
    return {**trial, "sm_count": plan.cluster * max(1, -(-_items(plan, trial) // items))}


def _sequence_names(q: ir.Sequences, names: list[str]) -> list[str]:
    """`names` with those of the deal, and lengths instead of the tokens and sequences that follow from them."""
    names += [p.name for p in q.params if isinstance(p, ir.SizeParam) and p.name not in names]
    follow = {s for x in q.lengths for s in symbols(x.tokens)} | symbols(q.count) | {let.name for let in q.given}
    return [x.length for x in q.lengths] + [n for n in names if n not in follow]


def _with_lengths(q: ir.Sequences, trial: dict[str, int], values: dict[str, list[int]]) -> dict[str, int]:
    """Sequences of the trial's lengths, and of others behind them."""
    out = dict.fromkeys(symbols(q.count), SEQUENCES)
    for n, x in enumerate(q.lengths):
        every = values[x.length]
        first = every.index(trial[x.length])
        each = [every[(first + k * (n + 1)) % len(every)] for k in range(SEQUENCES)]
        out |= {length_symbol(x.length, k): length for k, length in enumerate(each)}
        out |= dict.fromkeys(symbols(x.tokens), sum(each))
    return out


def _products(plan: ir.Plan) -> Iterator[tuple[str, str]]:
    """Names that are multiplied with each other in extents."""

    def inside(e: Uniform) -> Iterator[tuple[str, str]]:
        if isinstance(e, Op):
            a, *rest = e.args
            if e.op == "mul" and isinstance(a, Sym) and isinstance(rest[0], Sym) and a != rest[0]:
                yield a.name, rest[0].name
            for arg in e.args:
                yield from inside(arg)

    yield from dict.fromkeys(pair for t in plan.tensors for d in t.dims for pair in inside(d))


def _grid_symbols(plan: ir.Plan) -> frozenset[str]:
    return symbols(plan.grid) - {"sm_count"}


def _items(plan: ir.Plan, trial: Mapping[str, int]) -> int:
    work = next(o for _, _, o in all_operations(plan) if isinstance(o, ir.Work))
    return evaluate(work.total, trial)


def _values(plan: ir.Plan, name: str, block: int) -> list[int]:
    """Few values for what only counts repetitions; around multiples of a block for what is cut into blocks."""
    extent = any(name in symbols(d) for t in plan.tensors for d in t.dims)
    if plan.table is not None and plan.table.sequences is not None:
        extent = extent or any(name == x.length for x in plan.table.sequences.lengths)
    if block == 1:
        return [1, 2] if extent else [-1, 0, 1]
    deepest = max((r.depth for r in plan.rings), default=1)
    counts = [0, 1, block, block + 1, 2 * block + 1, (deepest + SKEW) * block + 1]
    return counts if extent else [-1, *counts]


def _blocks(plan: ir.Plan) -> dict[str, int]:
    """By symbol the largest number that something with the symbol in it is divided by."""
    found: dict[str, int] = {}

    def walk(e: Uniform) -> None:
        if isinstance(e, Op):
            if e.op in ("floordiv", "ceildiv") and isinstance(e.args[1], Int):
                for name in symbols(e.args[0]):
                    found[name] = max(found.get(name, 1), e.args[1].value)
            for arg in e.args:
                walk(arg)

    for _, _, operation in all_operations(plan):
        for uniform in uniforms(operation):
            walk(uniform)
    if plan.table is not None and plan.table.sequences is not None:
        for uniform in (plan.table.sequences.units, *(let.value for let in plan.table.lets)):
            walk(uniform)
    return found
