"""Runs the static checks on the plans of every sample: all are right, so whatever is reported is a false alarm.

    python tools/check_samples.py [--all] [--most N] [--samples A,B] [--jobs N] [--seconds S] [-o FILE.md]

Every value of every parameter, each with each (of a range of more than eight, its ends, what is given as a default and
every fifth; --all: every one; --most: N combinations of each spec, spread evenly), each schedule in the file that a
launch may take, and the schedules listed under benchmarks/schedules. Specs take turns, so that a run that is cut short
has met all of them. Writes what was checked, what was reported, what could not be judged, and how long it took.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.variants import read_variants
from tests.suites.pool import Pool, Task
from tests.suites.record import Record, common
from tilegen.checks import resources
from tilegen.checks.movement.check import check_movement
from tilegen.checks.trials import check_all
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan_verify import verify
from tilegen.passes.pipeline import lower_all, program_of
from tilegen.sema import load
from tilegen.syntax.parsing import parse
from tilegen.syntax.span import Source

ROOT = Path(__file__).parents[1]
LIMIT = 120.0  # seconds that one bound spec may take
LISTED = 8
EVERY = 5


@dataclass(frozen=True)
class Result:
    title: str
    given: str
    refused: str  # the code with which the compiler refuses the parameters, if it does
    plans: int
    faults: tuple[str, ...]
    unknown: tuple[str, ...]
    seconds: tuple[float, ...]


def texts(names: list[str]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """(title, spec, parameters that are fixed)."""
    samples = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "samples").glob("*.tile"))}
    yield from ((name, text, {}) for name, text in samples.items() if not names or name in names)
    for path in sorted((ROOT / "benchmarks" / "schedules").glob("*.txt")):
        if names and path.stem not in names:
            continue
        spec = next((text for name, text in samples.items() if path.stem.endswith(f"_{name}")), samples["fa3_fwd"])
        bare = spec[: spec.index("  schedule ")]
        for v in read_variants(path.read_text(encoding="utf-8")):
            text = f"{bare}  schedule hopper {{\n{v.directives}\n  }}\n}}\n"
            yield f"{path.stem}: {v.name}", text, dict(v.only)


def parameters(text: str, whole: bool) -> Iterator[dict[str, str]]:
    """Every combination of the values that the head of a kernel lists."""
    head = re.search(r"kernel\s+\w+\s*\((.*?)\)\s*\{", text, re.S)
    lists: list[list[tuple[str, str]]] = []
    for name, choices in re.findall(r"(\w+)\s*:\s*([^,=]+?)\s*=", head.group(1) if head else ""):
        values: list[str] = []
        for choice in choices.split("|"):
            span = re.fullmatch(r"\s*(\d+)\s*\.\.\s*(\d+)(?:\s+by\s+(\d+))?\s*", choice)
            if span is None:
                values += ["true", "false"] if choice.strip() == "bool" else [choice.strip()]
                continue
            every = list(range(int(span[1]), int(span[2]) + 1, int(span[3] or 1)))
            few = sorted({*every[::EVERY], every[-1], 64, 128} & set(every))
            values += map(str, every if whole or len(every) <= LISTED else few)
        lists.append([(name, v) for v in values])
    for choice in itertools.product(*lists):
        yield dict(choice)


def asked(names: list[str], whole: bool, most: int) -> list[Task]:
    """Every bound spec; the specs take turns."""
    ways = []
    for title, text, fixed in texts(names):
        every = [g for g in parameters(text, whole) if all(g.get(k) == v for k, v in fixed.items())]
        count = min(most or len(every), len(every))
        some = [every[n * len(every) // count] for n in range(count)]
        random.Random(title).shuffle(some)
        ways.append([Task("", check, (title, text, given)) for given in some])
    return [task for turn in itertools.zip_longest(*ways) for task in turn if task is not None]


def check(task: tuple[str, str, dict[str, str]]) -> Result:
    title, text, parameters = task
    given = " ".join(f"{k}={v}" for k, v in parameters.items())
    faults: list[str] = []
    unknown: list[str] = []
    seconds: list[float] = []
    try:
        source = Source("sample.tile", text)
        parse(source)
        program = load(source, parameters)
        plans = lower_all(program)
        if refused := [d for plan in plans for d in resources.check(plan)]:
            return Result(title, given, refused[0].code, 0, (), (), ())
    except TilegenError as e:
        return Result(title, given, e.diagnostics[0].code, 0, (), (), ())
    for number, plan in enumerate(plans):
        begun = time.process_time()
        try:
            verify(plan)
            judgement = check_movement(plan, program_of(program, "hopper", number))
            faults += [d.code for d in (*check_all(plan), *judgement.diagnostics)]
            unknown += judgement.unknown
        except TilegenError as e:
            faults += [d.code for d in e.diagnostics]
        seconds.append(time.process_time() - begun)
    return Result(title, given, "", len(plans), tuple(faults), tuple(unknown), tuple(seconds))


def report(results: list[Result], failed: list[str]) -> str:
    plans = sum(r.plans for r in results)
    alarms = [r for r in results if r.faults]
    unknown = [r for r in results if r.unknown]
    seconds = sorted(s for r in results for s in r.seconds) or [0.0]
    refused = Counter((r.title, r.refused) for r in results if r.refused)
    lines = [
        f"{plans} plans of {len(results) - refused.total()} bound specs: {len(alarms)} with a false alarm, "
        f"{len(unknown)} in which something could not be judged. {refused.total()} bound specs are refused before.",
        "",
        f"Time of all checks for a plan (CPU): median {seconds[len(seconds) // 2]:.2f} s, longest {seconds[-1]:.2f} s.",
        "",
        *(f"- false alarm: {r.title} {r.given}: {', '.join(r.faults)}" for r in alarms),
        *(f"- not judged: {r.title} {r.given}: {'; '.join(r.unknown)}" for r in unknown),
        *(f"- failed: {text}" for text in failed),
        "",
        "| spec | bound | plans | refused | false alarms |",
        "|---|---|---|---|---|",
    ]
    for title in sorted({r.title for r in results}):
        own = [r for r in results if r.title == title]
        codes = ", ".join(f"{code} {n}" for (t, code), n in sorted(refused.items()) if t == title)
        cells = (len(own), sum(r.plans for r in own), codes, sum(1 for r in own if r.faults) or "")
        lines.append(f"| {title} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--samples", default="")
    common(parser)
    args = parser.parse_args()
    tasks = asked([n for n in args.samples.split(",") if n], args.all, args.most)
    results: list[Result] = []
    failed: list[str] = []
    with Pool(args.jobs, args.seconds) as pool:
        record = Record("The checks on plans that are right", "bound specs", pool, args.output)
        for done in pool.each(tasks, LIMIT):
            if (r := done.value) is None:
                title, _, given = done.task.value
                failed.append(f"{title} {given}: {done.failure}")
                continue
            results.append(r)
            if r.faults or r.unknown:
                print(r, file=sys.stderr, flush=True)
            record.update(lambda: report(results, failed), len(results), len(tasks))
    record.finish(report(results, failed), len(results), len(tasks))
    return 1 if failed or any(r.faults for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
