"""Mutants of emitted programs: a sample of what `benchmarks/mls_mutations.py` runs whole."""

from __future__ import annotations

from benchmarks.mls_mutations import CASES, KINDS, WANTED, Bench, Case, Mutant, measure, mutants, rate
from tilegen.targets.mls.program import Instruction

SAMPLED = (CASES[1], CASES[4], Case("row_softmax", {}, {"M": 17, "N": 72}))


def test_most_mutants_that_go_wrong_are_named() -> None:
    found = [measure(case, 12, seed=5) for case in SAMPLED]
    assert sum(f.get("named", 0) for f in found) > 12
    assert rate(found) >= WANTED, [f["missed_ones"] for f in found]


def test_every_kind_of_mutant_occurs() -> None:
    kinds = {m.kind for m in mutants(Bench(CASES[1], 0).lines)}
    assert kinds == set(KINDS)


def test_a_mutant_that_only_computes_something_else_is_missed() -> None:
    """What counts as missed is a wrong number without a fault: here a subtraction that became an addition."""
    bench = Bench(SAMPLED[2], 0)
    index, line = next(
        (n, x) for n, x in enumerate(bench.lines) if isinstance(x, Instruction) and x.name == "v_exp_f32"
    )
    assert isinstance(line, Instruction)
    squared = Instruction("v_add_f32", (line.operands[0], line.operands[1], line.operands[1]))
    assert bench.outcome(Mutant("another operation", index, (squared,)))[0] == "missed"
    assert bench.outcome(Mutant("nothing", index, (line,)))[0] == "harmless"
