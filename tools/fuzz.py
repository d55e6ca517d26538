"""Fuzzes specs, plan files and PTX: each must end in a diagnostic or success, never a traceback, within 10 seconds.

    python tools/fuzz.py [--specs 20000] [--plans 5000] [--ptx 5000] [--seed N] [--seconds S] [-o FILE.md]
    python tools/fuzz.py --again "specs 0 123"

Prints what came of them; exits 1 if there was a finding. A case is made again, and shown, by its seed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fuzz.plan_files import PLANS  # noqa: E402  (found from the root)
from tests.fuzz.ptx import PTX  # noqa: E402
from tests.fuzz.runner import Suite, Tally, fuzz, one  # noqa: E402
from tests.fuzz.specs import SPECS  # noqa: E402

SUITES = {suite.name: suite for suite in (PLANS, PTX, SPECS)}
COUNTS = {"specs": 20_000, "plans": 5_000, "ptx": 5_000}
SHOWN = 12  # outcomes a suite


def main() -> int:
    arguments = _arguments()
    if arguments.again:
        return _again(arguments.again)
    end = time.monotonic() + arguments.seconds if arguments.seconds else None
    wanted = {name: getattr(arguments, name) for name in SUITES}
    tallies = {}
    for n, (name, count) in enumerate(wanted.items()):
        # what is left of the time is shared out evenly to the suites that are left
        share = None if end is None else time.monotonic() + (end - time.monotonic()) / (len(wanted) - n)
        tallies[name] = _fuzz(SUITES[name], arguments.seed, count, share)
        print(_shown(name, tallies[name]), flush=True)
    report = _report(tallies, arguments.seed)
    if arguments.output:
        arguments.output.write_text(report, encoding="utf-8")
        print(f"wrote {arguments.output}")
    return 1 if any(t.findings for t in tallies.values()) else 0


def _fuzz(suite: Suite, seed: str, count: int, end: float | None) -> Tally:
    return fuzz(
        suite,
        (f"{seed} {k}" for k in range(count)),
        lambda: end is not None and time.monotonic() > end,
        lambda f: print(f"FOUND {suite.name} {f.seed} ({f.origin}): {f.what.strip()}", flush=True),
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, count in COUNTS.items():
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N", help=f"how many; default {count}")
    parser.add_argument("--seed", default="0", help="another one makes other cases")
    parser.add_argument("--seconds", type=float, help="stop when they are over, whatever is left")
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE.md", help="write the table there")
    parser.add_argument("--again", metavar="SEED", help='one case: "specs 0 123"')
    return parser.parse_args()


def _again(told: str) -> int:
    name, _, seed = told.partition(" ")
    suite: Suite = SUITES[name]
    print(suite.make(random.Random(f"{name} {seed}")).text)
    tally = Tally()
    one(suite, seed, tally)
    for finding in tally.findings:
        print(finding.what)
    print(_shown(name, tally))
    return 1 if tally.findings else 0


def _shown(name: str, tally: Tally) -> str:
    lines = [f"{name}: {tally.outcomes.total()} in {tally.seconds:.0f} s, the slowest took {tally.slowest[0]:.1f} s"]
    lines += [f"  {count:6} {outcome}" for outcome, count in tally.outcomes.most_common(SHOWN)]
    if rest := sum(count for _, count in tally.outcomes.most_common()[SHOWN:]):
        lines.append(f"  {rest:6} others, of {len(tally.outcomes) - SHOWN} kinds")
    return "\n".join(lines)


def _report(tallies: dict[str, Tally], seed: str) -> str:
    rows = [
        f"| {name} | {t.outcomes.total()} | {len(t.outcomes)} | {t.outcomes['traceback']} "
        f"| {len(t.findings)} | {t.slowest[0]:.1f} s | {t.seconds:.0f} s |"
        for name, t in tallies.items()
    ]
    head = [
        f"# Fuzzing, seed {seed}",
        "",
        "`python tools/fuzz.py`: each case ends in a diagnostic or success, never a traceback, within 10 seconds.",
        "",
        "| suite | cases | kinds of outcome | tracebacks | findings | slowest case | time |",
        "|---|---|---|---|---|---|---|",
        *rows,
    ]
    for name, t in tallies.items():
        head += ["", f"## {name}", "", "| outcome | cases |", "|---|---|"]
        head += [f"| {outcome} | {count} |" for outcome, count in t.outcomes.most_common()]
        head += [f"\nFound by `{name} {f.seed}` ({f.origin}):\n\n```\n{f.what.strip()}\n```" for f in t.findings]
    return "\n".join(head) + "\n"


if __name__ == "__main__":
    sys.exit(main())
