"""Puts faults into the plans of all samples, and counts which of the harmful ones the static checks report.

    python tools/mutate_plans.py [--each N] [--jobs N] [--seed N] [--kinds A,B] [--samples A,B] [--output FILE]

--each N: of each kind N mutants a sample, drawn by the seed (0: every one). Harm is judged apart: a mutant is run with
the hardware's rules at adversarial times, from 20 seeds, and does harm if it hangs, breaks a rule, or computes anything
else than the plan did. Writes a table (kind x caught by what) and every miss, as Markdown.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.mutations.drawing import drawn, parser
from tests.mutations.judging import SEEDS, SUBJECTS, Report, harm, plan_of, report
from tests.mutations.plan_kinds import KINDS, Mutant, mutants

CHECKS = ("plan rules", "resources", "pipeline", "movement")


@dataclass(frozen=True)
class Verdict:
    subject: int
    kind: str
    where: str
    harm: str
    report: Report | None
    seconds: float


def chosen(number: int, each: int, seed: int, kinds: tuple[str, ...]) -> Iterator[int]:
    """Numbers of a sample's mutants."""
    every = ((mutant.kind, n) for n, mutant in enumerate(mutants(plan_of(SUBJECTS[number]), kinds)))
    for some in drawn(every, each, f"{seed} {SUBJECTS[number].name}"):
        yield from sorted(some)


def judge(task: tuple[int, tuple[int, ...], tuple[str, ...]]) -> list[Verdict]:
    number, wanted, kinds = task
    subject = SUBJECTS[number]
    out = []
    for n, mutant in enumerate(mutants(plan_of(subject), kinds)):
        if n in wanted:
            out.append(_judged(number, mutant))
    return out


def _judged(number: int, mutant: Mutant) -> Verdict:
    subject = SUBJECTS[number]
    begun = time.perf_counter()
    found = report(subject, mutant)
    seconds = time.perf_counter() - begun
    return Verdict(number, mutant.kind, mutant.where, harm(subject, mutant), found, seconds)


def _named(v: Verdict) -> str:
    return f"{SUBJECTS[v.subject].name}: {v.kind}, {v.where}: {v.harm}"


def table(verdicts: list[Verdict]) -> str:
    """Markdown: a line a kind."""
    harmful = [v for v in verdicts if v.harm]
    caught = [v for v in harmful if v.report]
    placed = [v for v in caught if v.report and v.report.placed]
    share = 100 * len(caught) / max(len(harmful), 1)
    lines = [
        f"{len(verdicts)} mutants of {len({v.kind for v in verdicts})} kinds "
        f"in {len({v.subject for v in verdicts})} plans; "
        f"{len(harmful)} do harm within {SEEDS} seeds; of those {len(caught)} are reported before launch "
        f"({share:.2f} %), {len(placed)} of them at a statement of the spec.",
        "",
        f"| kind | mutants | harmful | {' | '.join(CHECKS)} | missed | reported without harm seen |",
        "|---|---" + "|---" * (len(CHECKS) + 3) + "|",
    ]
    for kind in KINDS:
        own = [v for v in verdicts if v.kind == kind]
        if not own:
            continue
        bad = [v for v in own if v.harm]
        by = Counter(v.report.check for v in bad if v.report)
        counts = " | ".join(str(by[c] or "") for c in CHECKS)
        missed = sum(1 for v in bad if not v.report)
        idle = sum(1 for v in own if v.report and not v.harm)
        lines.append(f"| {kind} | {len(own)} | {len(bad)} | {counts} | {missed or ''} | {idle or ''} |")
    missed_ones = [v for v in harmful if not v.report]
    if missed_ones:
        lines += ["", "Missed:", ""]
        lines += [f"- {_named(v)}" for v in missed_ones]
    nowhere = [v for v in caught if v.report and not v.report.placed]
    if nowhere:
        lines += ["", "Reported without a statement:", ""]
        lines += [f"- {_named(v)}: {v.report.code if v.report else ''}" for v in nowhere]
    quiet = Counter(v.kind for v in verdicts if not v.harm and not v.report)
    lines += ["", "Equivalent (no harm in any seed, nothing reported), by kind:", ""]
    lines += [f"- {kind}: {n}" for kind, n in sorted(quiet.items())]
    return "\n".join(lines) + "\n"


def main() -> None:
    args = parser(__doc__).parse_args()
    kinds = args.kinds or tuple(KINDS)
    tasks = []
    for number, subject in enumerate(SUBJECTS):
        if args.samples and subject.sample not in args.samples:
            continue
        wanted = list(chosen(number, args.each, args.seed, kinds))
        tasks += [(number, tuple(wanted[n : n + 12]), kinds) for n in range(0, len(wanted), 12)]
    begun = time.perf_counter()
    verdicts: list[Verdict] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for done in pool.map(judge, tasks):
            verdicts += done
            print(f"{len(verdicts)} mutants, {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
            for v in done:
                if v.harm and not v.report:
                    print(
                        f"missed: {SUBJECTS[v.subject].name}: {v.kind}, {v.where}: {v.harm}",
                        file=sys.stderr,
                        flush=True,
                    )
            if args.output:
                args.output.write_text(_text(verdicts), encoding="utf-8")
    print(_text(verdicts))


def _text(verdicts: list[Verdict]) -> str:
    median = sorted(v.seconds for v in verdicts)[len(verdicts) // 2]
    return f"# Faults in plans\n\n{table(verdicts)}\nMedian time of the static checks for a mutant: {median:.2f} s.\n"


if __name__ == "__main__":
    main()
