"""Programs for the MLS machine with one thing wrong: how many of those that go wrong are named, not only wrong.

    python benchmarks/mls_mutations.py [--sample 0] [--seed 0] [-o benchmarks/results/mls-mutations.json]

Takes the emitted text of several specs, changes one line at a time (`KINDS`), runs it in the emulator and compares the
outputs with those of the right program. A mutant is *named* if the emulator reports a fault, *missed* if it only
computes something else, and *harmless* if nothing differs. --sample: so many mutants a case, drawn at random (0: all).
Exits 1 if less than 95 % of those that are not harmless are named.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from tilegen.cli.run import arguments, dense  # noqa: E402
from tilegen.diagnostics.core import TilegenError  # noqa: E402
from tilegen.emulate.mls import Report  # noqa: E402
from tilegen.ir.tile import TileProgram  # noqa: E402
from tilegen.oracle import poisoned, random_inputs  # noqa: E402
from tilegen.runtime.mls import run  # noqa: E402
from tilegen.sema.loading import load  # noqa: E402
from tilegen.targets.mls import isa  # noqa: E402
from tilegen.targets.mls.build import MlsBuilt, build  # noqa: E402
from tilegen.targets.mls.checks import check  # noqa: E402
from tilegen.targets.mls.program import SGPR, Instruction, Int, Line, Operand  # noqa: E402
from tilegen.targets.mls.text import line_text  # noqa: E402
from tilegen.version import VERSION  # noqa: E402

WANTED = 0.95
_SLACK = 4  # times the instructions of the right program, before a mutant is taken for endless
_LOADS = frozenset(isa.SHAPES)
_READS = frozenset({"ds_read_matrix_b16", "ds_read_matrix_trans_b16"})
_PAIRS = {"s_addc_u32": "s_add_u32", "s_subb_u32": "s_sub_u32", "v_addc_co_u32": "v_add_co_u32"}

Lines = tuple[Line, ...]


@dataclass(frozen=True)
class Mutant:
    """A change: `lines` stand in place of line `index` of the program."""

    kind: str
    index: int
    lines: Lines

    def applied(self, lines: Lines) -> Lines:
        return (*lines[: self.index], *self.lines, *lines[self.index + 1 :])

    def describe(self, lines: Lines) -> str:
        new = "; ".join(line_text(line).split(" ; ")[0].strip() for line in self.lines) or "nothing"
        return f"{self.kind}: line {self.index} `{line_text(lines[self.index]).split(' ; ')[0].strip()}` → {new}"


Maker = Callable[[Instruction], Iterator[Lines]]


# ---- waits and barriers ----


def _wait_dropped(i: Instruction) -> Iterator[Lines]:
    if i.name == "s_waitcnt":
        yield ()


def _wait_weakened(i: Instruction) -> Iterator[Lines]:
    if i.name == "s_waitcnt":
        yield (replace(i, modifiers=tuple((name, value + 1) for name, value in i.modifiers)),)


def _wait_of_one_counter_dropped(i: Instruction) -> Iterator[Lines]:
    if i.name == "s_waitcnt" and len(i.modifiers) > 1:
        yield from ((replace(i, modifiers=(m,)),) for m in i.modifiers)


def _barrier_dropped(i: Instruction) -> Iterator[Lines]:
    if i.name == "s_barrier":
        yield ()


# ---- addresses ----


def _carry_dropped(i: Instruction) -> Iterator[Lines]:
    if i.name == "v_addc_co_u32":
        yield (replace(i, name="v_add_co_u32", operands=i.operands[:4]),)
    elif i.name in _PAIRS:
        yield (replace(i, name=_PAIRS[i.name]),)


def _high_word_dropped(i: Instruction) -> Iterator[Lines]:
    if i.name in _PAIRS:
        yield ()


def _carry_spoilt(i: Instruction) -> Iterator[Lines]:
    if i.name in ("s_addc_u32", "s_subb_u32"):
        yield (Instruction("s_cmp_lg_u32", (SGPR(isa.WAVE), SGPR(isa.WAVE))), i)


def _word(i: Instruction, word: int) -> SGPR:
    assert isinstance(i.operands[0], SGPR)
    return SGPR(i.operands[0].index + word)


def _changed(i: Instruction, what: Operand, name: str, by: int) -> Lines:
    """An instruction behind a change of one of its registers, which is taken back behind it."""
    back = {"s_add_u32": "s_sub_u32", "s_sub_u32": "s_add_u32"}[name]
    return (
        Instruction(name, (what, what, Int(by))),
        Instruction("s_nop", (Int(0),)),
        i,
        Instruction(back, (what, what, Int(by))),
    )


def _on_loads(word: int, *changes: tuple[str, int]) -> Maker:
    def make(i: Instruction) -> Iterator[Lines]:
        if i.name in _LOADS:
            yield from (_changed(i, _word(i, word), name, by) for name, by in changes)

    return make


_base_changed = _on_loads(0, ("s_add_u32", 32), ("s_sub_u32", 32))
_high_word_changed = _on_loads(1, ("s_add_u32", 1))
_stride_changed = _on_loads(2, ("s_add_u32", 8), ("s_sub_u32", 8))
_lines_filtered = _on_loads(3, ("s_add_u32", 1 << 8))
_lines_let_through = _on_loads(3, ("s_sub_u32", 1 << 8))
_positions_filtered = _on_loads(3, ("s_add_u32", 8))


def _filter_cleared(i: Instruction) -> Iterator[Lines]:
    if i.name in _LOADS:
        yield Instruction("s_mov_b32", (_word(i, 3), Int(0))), Instruction("s_nop", (Int(0),)), i


def _moffset_changed(i: Instruction) -> Iterator[Lines]:
    if i.name in _LOADS:
        yield (replace(i, modifiers=(("moffset", (i.modifier("moffset") or 0) + 8),)),)


# ---- LDS ----


def _load_displaced(i: Instruction) -> Iterator[Lines]:
    if i.name in _LOADS:
        yield _changed(i, i.operands[1], "s_add_u32", isa.LINE_BYTES)
        yield _changed(i, i.operands[1], "s_add_u32", isa.SHAPES[i.name].bytes)


def _read_displaced(i: Instruction) -> Iterator[Lines]:
    if i.name in _READS or (i.name.startswith("ds_read") and i.access is not None):
        offset = i.modifier("offset") or 0
        yield from ((replace(i, modifiers=(("offset", offset + by),)),) for by in (32, 64, 1024) if offset + by < 65536)


def _load_dropped(i: Instruction) -> Iterator[Lines]:
    if i.name in _LOADS:
        yield ()


def _zeros_dropped(i: Instruction) -> Iterator[Lines]:
    if i.name.startswith("ds_write") and i.access is not None:
        yield ()


def _write_displaced(i: Instruction) -> Iterator[Lines]:
    if i.name.startswith("ds_write"):
        offset = i.modifier("offset") or 0
        yield from ((replace(i, modifiers=(("offset", offset + by),)),) for by in (16, 1024) if offset + by < 65536)


# ---- control ----


def _guard_dropped(i: Instruction) -> Iterator[Lines]:
    if i.name.startswith("s_cbranch"):
        yield ()


def _guard_turned(i: Instruction) -> Iterator[Lines]:
    turned = {"s_cbranch_scc0": "s_cbranch_scc1", "s_cbranch_scc1": "s_cbranch_scc0"}
    if i.name in turned:
        yield (replace(i, name=turned[i.name]),)


def _bound_changed(i: Instruction) -> Iterator[Lines]:
    if i.name.startswith("s_cmp_") and isinstance(i.operands[1], Int):
        yield from ((replace(i, operands=(i.operands[0], Int(i.operands[1].value + by))),) for by in (-1, 1))


# ---- stores ----


def _predicate_dropped(i: Instruction) -> Iterator[Lines]:
    if i.name == "s_and_saveexec_b64":
        yield (Instruction("s_mov_b64", (i.operands[0], Int(-1))),)


def _store_displaced(i: Instruction) -> Iterator[Lines]:
    if i.name.startswith("global_store"):
        yield (replace(i, modifiers=(("offset", (i.modifier("offset") or 0) + 4),)),)


def _store_dropped(i: Instruction) -> Iterator[Lines]:
    if i.name.startswith("global_store"):
        yield ()


KINDS: dict[str, Maker] = {
    "wait dropped": _wait_dropped,
    "wait weakened by one": _wait_weakened,
    "wait of one counter dropped": _wait_of_one_counter_dropped,
    "barrier dropped": _barrier_dropped,
    "carry dropped": _carry_dropped,
    "high word dropped": _high_word_dropped,
    "carry spoilt": _carry_spoilt,
    "base changed": _base_changed,
    "high word changed": _high_word_changed,
    "stride changed": _stride_changed,
    "a line more filtered": _lines_filtered,
    "a line less filtered": _lines_let_through,
    "positions filtered": _positions_filtered,
    "filter cleared": _filter_cleared,
    "moffset changed": _moffset_changed,
    "load displaced in LDS": _load_displaced,
    "read displaced in LDS": _read_displaced,
    "load dropped": _load_dropped,
    "zeros dropped": _zeros_dropped,
    "write displaced in LDS": _write_displaced,
    "branch dropped": _guard_dropped,
    "branch turned": _guard_turned,
    "bound changed": _bound_changed,
    "store's predicate dropped": _predicate_dropped,
    "store displaced": _store_displaced,
    "store dropped": _store_dropped,
}


def mutants(lines: Lines) -> Iterator[Mutant]:
    """Every mutant of a program."""
    for index, line in enumerate(lines):
        if isinstance(line, Instruction):
            for kind, make in KINDS.items():
                yield from (Mutant(kind, index, new) for new in make(line))


# ---- cases ----


@dataclass(frozen=True)
class Case:
    """A sample with its parameters and sizes. straddle: tensors lie across 4 GiB even if they are small."""

    name: str
    parameters: dict[str, str]
    sizes: dict[str, int | list[int]]
    straddle: bool = False

    def __str__(self) -> str:
        pairs = {**self.parameters, **self.sizes}
        words = (self.name, *(f"{k}={v}".replace(" ", "") for k, v in pairs.items()))
        return " ".join(words) + (" across 4 GiB" if self.straddle else "")


CASES = (
    Case("fa3_fwd", {"D": "64", "causal": "true"}, {"B": 1, "Sq": 70, "Sk": 100, "Hk": 1, "G": 2}),
    Case("fa3_fwd", {"D": "64"}, {"B": 1, "Sq": 35, "Sk": 150, "Hk": 1, "G": 1}, straddle=True),
    Case("fa3_varlen", {"D": "64"}, {"Sq": [9, 70], "Sk": [40, 77], "Hk": 1, "G": 1}),
    Case("gemm", {}, {"M": 70, "N": 72, "K": 152}),
    Case("gemm", {}, {"M": 37, "N": 72, "K": 88}, straddle=True),
    Case("row_softmax", {}, {"M": 37, "N": 152}),
    Case("copy", {}, {"M": 37, "N": 72}),
    Case("swiglu", {}, {"M": 37, "N": 72, "K": 88}),
)


class Bench:
    """A case ready to run: the right program, its inputs and outputs, and what it executed."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case = case
        self.program: TileProgram = load(ROOT / "samples" / f"{case.name}.tile", case.parameters)
        sizes, scalars = arguments(self.program, dict(case.sizes), "mls", small=True)
        self.built: MlsBuilt = build(self.program)
        self.lines = self.built.program.lines
        self._inputs = random_inputs(self.program, sizes, seed)
        self._empty = poisoned(self.program, sizes)
        self._numbers = {**dense(sizes), **scalars}
        self.right, report = self._run(self.lines, None)
        assert report is not None
        self._limit = _SLACK * sum(report.counts.values()) + 10_000

    def _run(self, lines: Lines, limit: int | None) -> tuple[dict[str, Any], Report | None]:
        outputs = {name: array.copy() for name, array in self._empty.items()}
        built = replace(self.built, program=replace(self.built.program, lines=lines))
        across = tuple({r.tensor for r in built.plan.rings}) if self.case.straddle else ()
        report = run(built, self.program, self._inputs, outputs, self._numbers, straddle=across, step_limit=limit)
        return outputs, report

    def outcome(self, mutant: Mutant) -> tuple[str, str]:
        """What becomes of a mutant: "named", "missed" or "harmless", and the fault's code."""
        lines = mutant.applied(self.lines)
        try:
            outputs, _ = self._run(lines, self._limit)
        except TilegenError as error:
            return "named", error.diagnostics[0].code
        same = all(_same(outputs[name], self.right[name]) for name in outputs)
        if same:
            return "harmless", ""
        found = check(replace(self.built.program, lines=lines))
        return "missed", f"(the static checks name {found[0].code})" if found else ""


def _same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a.view(np.uint8), b.view(np.uint8)))


def measure(case: Case, sample: int, seed: int) -> dict[str, Any]:
    """The outcomes of a case's mutants: by kind, by fault, and those that were missed, in words."""
    bench = Bench(case, seed)
    chosen = list(mutants(bench.lines))
    total = len(chosen)
    if sample and sample < total:
        chosen = random.Random(f"{seed} {case}").sample(chosen, sample)
    outcomes: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    codes: Counter[str] = Counter()
    missed: list[str] = []
    for mutant in chosen:
        outcome, code = bench.outcome(mutant)
        outcomes[outcome] += 1
        kinds.setdefault(mutant.kind, Counter())[outcome] += 1
        if outcome == "named":
            codes[code] += 1
        elif outcome == "missed":
            missed.append(" ".join((mutant.describe(bench.lines), code)).strip())
    return {
        "case": str(case),
        "mutants": total,
        "run": len(chosen),
        **outcomes,
        "kinds": {kind: dict(c) for kind, c in sorted(kinds.items())},
        "faults": dict(codes.most_common()),
        "missed_ones": missed,
    }


def rate(found: list[dict[str, Any]]) -> float:
    """Of the mutants that are not harmless, the share that is named."""
    named = sum(f.get("named", 0) for f in found)
    missed = sum(f.get("missed", 0) for f in found)
    return named / (named + missed) if named + missed else 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", dest="file", type=Path)
    options = parser.parse_args()
    started = time.time()
    found = []
    for case in CASES:
        found.append(measure(case, options.sample, options.seed))
        last = found[-1]
        counts = ", ".join(f"{last.get(word, 0)} {word}" for word in ("named", "missed", "harmless"))
        print(f"{case}: {last['run']} of {last['mutants']} mutants: {counts}", flush=True)
        for line in last["missed_ones"]:
            print(f"    missed: {line}", flush=True)
    share = rate(found)
    print(f"{share:.2%} of the mutants that are not harmless are named")
    if options.file:
        record = {"tilegen": VERSION, "seed": options.seed, "named": round(share, 5), "kinds": len(KINDS),
                  "seconds": round(time.time() - started, 1), "cases": found}  # fmt: skip
        options.file.parent.mkdir(parents=True, exist_ok=True)
        options.file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
