"""Puts faults into the plans of all samples, and counts which of the harmful ones the static checks report.

    python tools/mutate_plans.py [--each N] [--seed N] [--kinds A,B] [--samples A,B]
                                 [--jobs N] [--seconds S] [-o FILE.md]

--each N: of each kind N mutants a sample, drawn by the seed (0: every one), in random order. Harm is judged apart: a
mutant is run with the hardware's rules at adversarial times, from 20 seeds, and does harm if it hangs, breaks a rule,
or computes anything else than the plan did. Writes a table (kind x caught by what) and every miss, as Markdown.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.mutations.drawing import drawn, parser, shuffled
from tests.mutations.judging import SEEDS, SUBJECTS, Report, harm, plan_of, report
from tests.mutations.plan_kinds import KINDS, Mutant, mutants
from tests.suites.pool import Pool, Task
from tests.suites.record import Record

LIMIT = 120.0  # seconds that one mutant may take
CHECKS = ("plan rules", "resources", "pipeline", "movement")


@dataclass(frozen=True)
class Verdict:
    subject: int
    kind: str
    where: str
    harm: str
    report: Report | None
    seconds: float


@cache
def _every(number: int, kinds: tuple[str, ...]) -> tuple[Mutant, ...]:
    return tuple(mutants(plan_of(SUBJECTS[number]), kinds))


def chosen(number: int, each: int, seed: int, kinds: tuple[str, ...]) -> list[int]:
    """Numbers of a sample's mutants."""
    key = f"{seed} {SUBJECTS[number].name}"
    numbers: list[int] = shuffled(drawn(((m.kind, n) for n, m in enumerate(_every(number, kinds))), each, key), key)
    return numbers


def judge(task: tuple[int, int, tuple[str, ...]]) -> Verdict:
    number, n, kinds = task
    subject, mutant = SUBJECTS[number], _every(number, kinds)[n]
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


def main() -> int:
    args = parser(__doc__).parse_args()
    kinds = args.kinds or tuple(KINDS)
    verdicts: list[Verdict] = []
    failed: list[str] = []
    with Pool(args.jobs, args.seconds) as pool:
        record = Record("Faults in plans", "mutants", pool, args.output)
        tasks = [
            Task(subject.name, judge, (number, n, kinds))
            for number, subject in enumerate(SUBJECTS)
            if not args.samples or subject.sample in args.samples
            for n in chosen(number, args.each, args.seed, kinds)
        ]
        for done in pool.each(tasks, LIMIT):
            if (v := done.value) is None:
                mutant = _every(done.task.value[0], kinds)[done.task.value[1]]
                failed.append(f"{done.task.group}: {mutant.kind}, {mutant.where}: {done.failure}")
                print(f"not judged: {failed[-1]}", file=sys.stderr, flush=True)
                continue
            verdicts.append(v)
            if v.harm and not v.report:
                print(f"missed: {_named(v)}", file=sys.stderr, flush=True)
            record.update(lambda: _text(verdicts, failed), len(verdicts), len(tasks))
    record.finish(_text(verdicts, failed), len(verdicts), len(tasks))
    return 1 if failed or any(v.harm and not v.report for v in verdicts) else 0


def _text(verdicts: list[Verdict], failed: list[str]) -> str:
    seconds = sorted(v.seconds for v in verdicts) or [0.0]
    lines = [table(verdicts), f"Median time of the static checks for a mutant: {seconds[len(seconds) // 2]:.2f} s."]
    if failed:
        lines += ["", "Not judged:", "", *(f"- {text}" for text in failed)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
