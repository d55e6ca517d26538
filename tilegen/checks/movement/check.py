"""The movement of a plan held against its Tile program, at sizes that meet every border.

The pipeline's runs show that each slot is read in its own round. These show that what is read is the right tile, that
nothing outside the domain reaches a fold, a product's row or an output, that sums take in every position once, and
that the outputs are written once each. They know of the spec's declarations, and of no pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from tilegen.checks.compiled import Numbers
from tilegen.checks.movement.declared import Declared
from tilegen.checks.movement.telling import telling
from tilegen.checks.movement.walk import Movement
from tilegen.checks.paths import Paths
from tilegen.checks.trials import trials, with_ctas
from tilegen.diagnostics.core import Diagnostic
from tilegen.ir import plan as ir
from tilegen.ir.outside import Outside, undecided
from tilegen.ir.tile import TileProgram
from tilegen.ir.uniform import evaluate

ONE_OR_TWO = 2
TWO_ITEMS = 2  # of a CTA
MOST_CTAS = 8  # of a launch whose outputs are counted


@dataclass(frozen=True)
class Judgement:
    """unknown: what the analysis met and could not judge, in words."""

    diagnostics: tuple[Diagnostic, ...]
    unknown: tuple[str, ...]


def check_movement(plan: ir.Plan, program: TileProgram) -> Judgement:
    """What is wrong with the tiles that a verified plan moves, and with what becomes of them."""
    declared = Declared(program, plan.target)
    movement = Movement(plan, declared)
    numbers = list(chosen(plan, program, Paths(plan, movement.numbers), movement.numbers))
    if not numbers:
        movement.found.unknown["sizes and scalars at which every index stays in its dimension"] = None
    for symbols, run in numbers:
        ctas = evaluate(plan.grid, symbols)
        movement.run(symbols, run, ctas)
        if ctas <= MOST_CTAS:
            movement.count(symbols, ctas)
    return Judgement(tuple(movement.found.diagnostics.values()), tuple(movement.found.unknown))


def chosen(
    plan: ir.Plan, program: TileProgram, paths: Paths, numbers: Numbers
) -> Iterator[tuple[Mapping[str, int], list[int]]]:
    """Few of the trials, with the CTAs to run: each size takes each of its values in one of them, in one all are
    several blocks, and each loop and branch that any goes into is gone into. Numbers that no launch has are left
    out: those that scalars may not have, and with which an index leaves its dimension. A CTA has two items, which
    show what one leaves behind. Where all CTAs do the same for other heads or batches, which the first trial
    tells apart, the last one is run for all."""
    rules = {s.name: s.constraint for s in program.scalars if s.constraint is not None}
    outside, reads = Outside(program.scalars), undecided(program)
    tried = list(trials(plan))
    lawful = [t for t in tried if all(rule.holds(t[n]) for n, rule in rules.items() if n in t)] or tried
    of_launches = [t for t in lawful if not any(outside.at(read, t) for read in reads)]
    if not of_launches:
        return
    every = [with_ctas(plan, trial, TWO_ITEMS) for trial in of_launches]
    left, once = set(paths.forks), dict.fromkeys(_repeated(every), 1)
    for number, trial in enumerate(_by_values(plan, every)):
        ctas = evaluate(plan.grid, trial)
        run = _ends(ctas)
        if number == 0 and run:
            run = sorted({telling(plan, paths, numbers, trial, ctas), ctas - 1})
        elif evaluate(plan.grid, {**trial, **once}) == plan.cluster:
            run = run[-1:]
        left -= _entered(paths, trial, run, ctas)
        yield trial, run
    for trial in every:
        if not left:
            break
        ctas = evaluate(plan.grid, trial)
        run = _ends(ctas)
        if new := left & _entered(paths, trial, run, ctas):
            left -= new
            yield trial, run


def _ends(ctas: int) -> list[int]:
    """The first and the last."""
    return sorted({0, ctas - 1} & set(range(ctas)))


def _repeated(every: Sequence[Mapping[str, int]]) -> list[str]:
    """Sizes of which the trials have one or two, of what only repeats."""
    return [name for name in every[0] if {t[name] for t in every} == {1, ONE_OR_TWO}]


def _entered(paths: Paths, trial: Mapping[str, int], run: list[int], ctas: int) -> frozenset[int]:
    return frozenset().union(*(paths.entered(trial, cta, ctas) for cta in run))


def _by_values(plan: ir.Plan, every: Sequence[Mapping[str, int]]) -> Iterator[Mapping[str, int]]:
    """What only repeats (heads) does so in the trial of several blocks, and where a launch is small enough for its
    outputs to be counted. The longest loops are run for one of it: they take most of the time. In the first trial
    each is repeated as often as nothing else, so that late items have other numbers for batch and head."""
    seen: set[tuple[str, int]] = set()
    values = {name: sorted({t[name] for t in every}) for name in every[0] if name != "sm_count"}
    blocks = {n: v for n, v in values.items() if len(v) > ONE_OR_TWO}
    several = max(reversed(every), key=lambda t: sum(t[name] == v[-2] for name, v in blocks.items()))
    once, repeated = ({tuple(t[n] for n in blocks): t for t in ts} for ts in (reversed(every), every))
    step = next(n for n in (7, 11, 13, 17) if gcd(n, len(every)) == 1)  # neighbours in the list are alike
    for trial in (several, *(every[n * step % len(every)] for n in range(len(every)))):
        taken = {(name, trial[name]) for name in values}
        if not taken <= seen:
            seen |= taken
            key = tuple(trial[name] for name in blocks)
            longest = any(trial[name] == v[-1] for name, v in blocks.items())
            counted = evaluate(plan.grid, repeated[key]) <= MOST_CTAS
            if trial is several:
                yield _told_apart(plan, trial)
            else:
                yield once[key] if longest else repeated[key] if counted else trial


def _told_apart(plan: ir.Plan, trial: Mapping[str, int]) -> Mapping[str, int]:
    sequences = plan.table.sequences if plan.table is not None else None
    lengths = {x.length for x in sequences.lengths} if sequences is not None else set()
    sizes = [p.name for p in plan.params if isinstance(p, ir.SizeParam) and p.name not in lengths]
    repeated = (name for name in sizes if trial.get(name) == ONE_OR_TWO)
    return with_ctas(plan, {**trial, **{name: n for n, name in enumerate(repeated, ONE_OR_TWO)}}, TWO_ITEMS)
