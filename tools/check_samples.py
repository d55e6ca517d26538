"""Runs the static checks on the plans of every sample: all are right, so whatever is reported is a false alarm.

    python tools/check_samples.py [--all] [--most N] [--samples A,B] [--output FILE]

Every value of every parameter, each with each (of a range of more than eight, its ends, what is given as a default and
every fifth; --all: every one; --most: N combinations of each spec, spread evenly), each schedule in the file that a
launch may take, and the schedules listed under benchmarks/schedules. Writes what was checked, what was reported, what
could not be judged, and how long it took.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
LISTED = 8
EVERY = 5


@dataclass(frozen=True)
class Result:
    title: str
    refused: str  # the code with which the compiler refuses the parameters, if it does
    plans: int
    faults: tuple[str, ...]
    unknown: tuple[str, ...]
    seconds: tuple[float, ...]


def texts(names: list[str]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """(title, spec, parameters that are fixed)."""
    for path in sorted((ROOT / "samples").glob("*.tile")):
        if not names or path.stem in names:
            yield path.stem, path.read_text(encoding="utf-8"), {}
    spec = (ROOT / "samples" / "fa3_fwd.tile").read_text(encoding="utf-8")
    bare = spec[: spec.index("  schedule ")]
    for path in sorted((ROOT / "benchmarks" / "schedules").glob("*.txt")):
        for entry in path.read_text(encoding="utf-8").split("=== ")[1:]:
            head, _, directives = entry.partition("\n")
            name, _, condition = head.partition(" if ")
            fixed = dict(pair.split("=") for pair in condition.replace(" and ", " ").split() if "=" in pair)
            if not names or path.stem in names:
                yield f"{path.stem}: {name}", f"{bare}  schedule hopper {{\n{directives}\n  }}\n}}\n", fixed


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


def check(title: str, text: str, given: dict[str, str]) -> Result:
    title = " ".join([title, *(f"{k}={v}" for k, v in given.items())])
    faults: list[str] = []
    unknown: list[str] = []
    seconds: list[float] = []
    try:
        source = Source("sample.tile", text)
        parse(source)
        program = load(source, given)
        plans = lower_all(program)
        if refused := [d for plan in plans for d in resources.check(plan)]:
            return Result(title, refused[0].code, 0, (), (), ())
    except TilegenError as e:
        return Result(title, e.diagnostics[0].code, 0, (), (), ())
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
    return Result(title, "", len(plans), tuple(faults), tuple(unknown), tuple(seconds))


def report(results: list[Result]) -> str:
    plans = sum(r.plans for r in results)
    alarms = [r for r in results if r.faults]
    unknown = [r for r in results if r.unknown]
    seconds = sorted(s for r in results for s in r.seconds) or [0.0]
    refused = [r for r in results if r.refused]
    lines = [
        "# The checks on plans that are right",
        "",
        f"{plans} plans of {len(results) - len(refused)} bound specs: {len(alarms)} with a false alarm, {len(unknown)} "
        f"in which something could not be judged. {len(refused)} bound specs are refused before.",
        "",
        f"Time of all checks for a plan (CPU): median {seconds[len(seconds) // 2]:.2f} s, longest {seconds[-1]:.2f} s.",
        "",
    ]
    lines += [f"- false alarm: {r.title}: {', '.join(r.faults)}" for r in alarms]
    lines += [f"- not judged: {r.title}: {'; '.join(r.unknown)}" for r in unknown]
    refusals = sorted({(r.title.split()[0], r.refused) for r in refused})
    lines += [f"- refused: {name}: {code}" for name, code in refusals]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--samples", default="")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    results: list[Result] = []
    for title, text, fixed in texts([n for n in args.samples.split(",") if n]):
        every = [g for g in parameters(text, args.all) if all(g.get(k) == v for k, v in fixed.items())]
        count = min(args.most or len(every), len(every))
        for given in (every[n * len(every) // count] for n in range(count)):
            results.append(check(title, text, given))
            if results[-1].faults or results[-1].unknown:
                print(results[-1], file=sys.stderr, flush=True)
        print(f"{title}: {len(results)} so far", file=sys.stderr, flush=True)
        if args.output:
            args.output.write_text(report(results), encoding="utf-8")
    print(report(results))
    sys.exit(any(r.faults for r in results))


if __name__ == "__main__":
    main()
