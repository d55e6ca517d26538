"""The record of a run on a GPU, as Markdown: where, what passed, how long it took, what was measured."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilegen.bench.gpu_worker import CallFailedError, GpuWorker, WorkerDiedError

OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")  # as pytest files its reports
_SLOWEST = 15


def machine() -> dict[str, str]:
    """What the GPU and the versions are, asked in a process of its own; or why that is not known."""
    worker = GpuWorker()
    try:
        return dict(worker.call("tilegen.bench.machine:facts"))
    except (CallFailedError, WorkerDiedError) as e:
        return {"machine": f"not known: {str(e).strip().splitlines()[-1]}"}
    finally:
        worker.close()


def markdown(stats: Mapping[str, Sequence[Any]], facts: Mapping[str, str], measured: Iterable[str]) -> str:
    """`stats`: pytest's reports by their outcome; those of setups and teardowns that went well are filed under ""."""
    reports = [(outcome, r) for outcome in ("", *OUTCOMES) for r in stats.get(outcome, ()) if hasattr(r, "nodeid")]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for outcome, r in reports:
        path = r.nodeid.split("::")[0]
        duration = getattr(r, "duration", 0.0)
        seconds[path] += duration
        tests[r.nodeid] += duration
        if outcome:
            counts[path][outcome] += 1
    total = sum(counts.values(), Counter[str]())
    lines = ["# Tests on a GPU", "", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    lines += [
        "Seconds are those of tests and their fixtures; kernels are compiled in the fixture of a file's first test.",
        "",
        f"| file | {' | '.join(OUTCOMES)} | seconds |",
        f"|---|{'---:|' * (len(OUTCOMES) + 1)}",
    ]
    for name, count, taken in (
        *((path, counts[path], seconds[path]) for path in sorted(counts)),
        ("all", total, sum(seconds.values())),
    ):
        lines.append(f"| {name} | {' | '.join(str(count[outcome]) for outcome in OUTCOMES)} | {taken:.1f} |")
    wrong = sorted({f"- {outcome}: {r.nodeid}" for outcome, r in reports if outcome in ("failed", "error", "xpassed")})
    reasons = Counter(_reason(r) for outcome, r in reports if outcome == "skipped")
    sections = {
        "Not passed": wrong,
        "Skipped": [f"- {count}: {reason}" for reason, count in reasons.most_common()],
        "Slowest": [f"- {taken:.1f} s: {test}" for test, taken in tests.most_common(_SLOWEST) if taken >= 0.1],
        "Measured on the GPU": [f"- {line}" for line in measured],
    }
    for title, entries in sections.items():
        if entries:
            lines += ["", f"## {title}", "", *entries]
    return "\n".join(lines) + "\n"


def _reason(report: Any) -> str:
    longrepr = report.longrepr
    return str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix("Skipped: ")
