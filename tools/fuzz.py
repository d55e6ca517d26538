"""Fuzzes specs, plan files and PTX: each must end in a diagnostic or success, never a traceback, within 10 seconds.

    python tools/fuzz.py [--specs 20000] [--plans 5000] [--ptx 5000] [--seed N] [--jobs N] [--seconds S] [-o FILE.md]
    python tools/fuzz.py --again "specs 0 123"

Prints what came of them; exits 1 if there was a finding. A case is made again, and shown, by its seed.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fuzz.plan_files import PLANS  # noqa: E402  (found from the root)
from tests.fuzz.ptx import PTX  # noqa: E402
from tests.fuzz.runner import LIMIT, Finding, Suite, Tally, fuzz, one  # noqa: E402
from tests.fuzz.specs import SPECS  # noqa: E402
from tests.suites.pool import Pool, Task  # noqa: E402
from tests.suites.record import Record, common  # noqa: E402

SUITES = {suite.name: suite for suite in (PLANS, PTX, SPECS)}
COUNTS = {"specs": 20_000, "plans": 5_000, "ptx": 5_000}
CHUNK = 10  # cases that a process runs at a time


def main() -> int:
    arguments = _arguments()
    if arguments.again:
        return _again(arguments.again)
    wanted: dict[str, int] = {name: getattr(arguments, name) for name in SUITES}
    tasks = [
        Task(name, _fuzz, (name, arguments.seed, range(k, min(k + CHUNK, count))))
        for name, count in wanted.items()
        for k in range(0, count, CHUNK)
    ]
    tallies = {name: Tally() for name in SUITES}
    with Pool(arguments.jobs, arguments.seconds) as pool:
        record = Record(f"Fuzzing, seed {arguments.seed}", "cases", pool, arguments.output)
        for done in pool.each(tasks, 2 * CHUNK * LIMIT):
            name, _, cases = done.task.value
            part = done.value or _lost(arguments.seed, cases, done.failure)
            for f in part.findings:
                print(f"FOUND {name} {f.seed} ({f.origin}): {f.what.strip()}", flush=True)
            tallies[name].add(part)
            record.update(lambda: _report(tallies, wanted), _ran(tallies), sum(wanted.values()))
    record.finish(_report(tallies, wanted), _ran(tallies), sum(wanted.values()))
    return 1 if any(t.findings for t in tallies.values()) else 0


def _fuzz(task: tuple[str, str, range]) -> Tally:
    name, seed, cases = task
    return fuzz(SUITES[name], (f"{seed} {k}" for k in cases))


def _lost(seed: str, cases: range, why: str) -> Tally:
    """Of cases in a process that did not live through them."""
    tally = Tally()
    tally.outcomes["lost"] = len(cases)
    tally.findings.append(Finding(f"{seed} {cases[0]}", f"or one of the {len(cases) - 1} behind it", why, ""))
    return tally


def _ran(tallies: dict[str, Tally]) -> int:
    return sum(t.outcomes.total() for t in tallies.values())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, count in COUNTS.items():
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N", help=f"how many; default {count}")
    parser.add_argument("--seed", default="0", help="another one makes other cases")
    common(parser)
    parser.add_argument("--again", metavar="SEED", help='one case: "specs 0 123"')
    return parser.parse_args()


def _again(told: str) -> int:
    name, _, seed = told.partition(" ")
    suite: Suite = SUITES[name]
    print(suite.make(random.Random(f"{name} {seed}")).text)
    tally = Tally()
    one(suite, seed, tally)
    print(*tally.outcomes, *(finding.what for finding in tally.findings), sep="\n")
    return 1 if tally.findings else 0


def _report(tallies: dict[str, Tally], wanted: dict[str, int]) -> str:
    lines = [
        "Each case ends in a diagnostic or success, never a traceback, within 10 seconds of the processor.",
        "",
        "| suite | cases | of | kinds of outcome | tracebacks | findings | slowest case | time in processes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {t.outcomes.total()} | {wanted[name]} | {len(t.outcomes)} | {t.outcomes['traceback']} "
        f"| {len(t.findings)} | {t.slowest[0]:.1f} s | {t.seconds:.0f} s |"
        for name, t in tallies.items()
    ]
    for name, t in tallies.items():
        lines += ["", f"## {name}", "", "| outcome | cases |", "|---|---|"]
        lines += [f"| {outcome} | {count} |" for outcome, count in t.outcomes.most_common()]
        lines += [f"\nFound by `{name} {f.seed}` ({f.origin}):\n\n```\n{f.what.strip()}\n```" for f in t.findings]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
