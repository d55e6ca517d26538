"""Puts faults into the PTX of all samples' kernels, and counts which of the harmful ones the emulator tells of.

    python tools/mutate_ptx.py [--each N] [--seed N] [--kinds A,B] [--samples A,B] [--jobs N] [--seconds S] [-o FILE.md]
    python tools/mutate_ptx.py --gpu [--mutants N] [--seed N] [--kinds A,B] [--samples A,B] [--jobs N] [--seconds S]
                               [-o FILE.md]

--each N: of each kind N mutants a sample, drawn by the seed (0: every one), in random order. Harm is judged apart: a
mutant is run in the emulator unwatched, at adversarial times, on random, peaked and spoiled data, and does harm if it
hangs, meets a fault, or writes what the spec does not allow. Reported is what a watched run tells, on other data: a
fault, or else a result that is wrong by the equations. Writes a table (kind x caught by what) and every miss, as
Markdown.

--gpu: mutants, spread over kinds, are assembled by the driver and run on the GPU as well, each in a process that it may
take down; tells whether the GPU agrees with the emulator on what they do. Kernels without a fault are run first.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.mutations import ptx_values  # noqa: F401  (adds kinds)
from tests.mutations.drawing import drawn, parser, shuffled
from tests.mutations.ptx_judging import SUBJECTS, Harm, Report, bench, judged, subject
from tests.mutations.ptx_kinds import KINDS, mutants
from tests.mutations.ptx_text import Mutant
from tests.suites.pool import Pool, Task
from tests.suites.record import Record
from tilegen.bench.gpu_worker import CallFailedError, GpuWorker, WorkerDiedError

LIMIT = 300.0  # seconds that one mutant may take


@dataclass(frozen=True)
class Verdict:
    """Of one mutant, by the emulator; `gpu`: what it does there ("right" if nothing), None where it was not run."""

    sample: str
    mutant: Mutant
    harm: Harm
    report: Report | None
    gpu: tuple[str, str] | None = None

    @property
    def told(self) -> Report | None:
        """What is reported, unless the emulator itself breaks."""
        return None if self.report is None or self.report.by == "crash" else self.report

    @property
    def broke(self) -> bool:
        """Whether the emulator itself breaks."""
        return self.harm.kind == "crash" or (self.report is not None and self.report.by == "crash")

    @property
    def kind(self) -> str:
        return str(self.mutant.kind)

    @property
    def text(self) -> str:
        """The mutant and its harm, in words."""
        return f"{_named(self.sample, self.mutant)}: {self.harm.kind} {self.harm.what}".rstrip()


# ---- in the emulator -------------------------------------------------------------------------------------


def judge(task: tuple[str, Mutant]) -> Verdict:
    name, mutant = task
    return Verdict(name, mutant, *judged(subject(name), mutant))


def draw(task: tuple[str, int, int, tuple[str, ...]]) -> list[Mutant]:
    """Of a sample's mutants."""
    name, each, seed, kinds = task
    every = ((mutant.kind, mutant) for mutant in mutants(bench(subject(name)).text, kinds))
    chosen: list[Mutant] = shuffled(drawn(every, each, f"{seed} {name}"), f"{seed} {name}")
    return chosen


def emulated(args: argparse.Namespace, names: Sequence[str], kinds: tuple[str, ...]) -> int:
    verdicts: list[Verdict] = []
    failed: list[str] = []
    wanted = 0
    with Pool(args.jobs, args.seconds) as pool:
        record = Record("Faults in PTX", "mutants drawn", pool, args.output)
        drawing = [Task(name, draw, (name, args.each, args.seed, kinds)) for name in names]
        for done in pool.each(drawing, LIMIT):
            if done.failure:
                name, *what = done.task.value
                failed.append(f"{_named(name, *what) if done.task.function is judge else name}: {done.failure}")
                print(f"not judged: {failed[-1]}", file=sys.stderr, flush=True)
            elif done.task.function is draw:
                wanted += len(done.value)
                pool.add([Task(done.task.group, judge, (done.task.group, mutant)) for mutant in done.value])
            else:
                verdicts.append(done.value)
                if done.value.harm.kind and not done.value.told:
                    print(f"missed: {done.value.text}", file=sys.stderr, flush=True)
                record.update(lambda: document(verdicts, failed, len(names)), len(verdicts), wanted)
    record.finish(document(verdicts, failed, len(names)), len(verdicts), wanted)
    return 1 if failed or any(v.broke or (v.harm.kind and not v.told) for v in verdicts) else 0


def _named(name: str, mutant: Mutant) -> str:
    return f"{name}: {mutant.kind}, {mutant.where}"


def document(verdicts: Sequence[Verdict], failed: Sequence[str], kernels: int) -> str:
    """Markdown: what came of the mutants, by kind."""
    harmful = [v for v in verdicts if v.harm.kind]
    told = [v for v in harmful if v.told]
    by_emulator = [v for v in told if v.told and v.told.by == "emulator"]
    placed = [v for v in told if v.told and v.told.placed]
    lines = [
        f"{len(verdicts)} mutants of {len({v.kind for v in verdicts})} kinds in "
        f"{len({v.sample for v in verdicts})} of {kernels} kernels; {len(harmful)} do harm. Of those the watching "
        f"emulator names a fault in {len(by_emulator)} ({_share(by_emulator, harmful)}), and the comparison with the "
        f"equations tells of {len(told) - len(by_emulator)} more: {len(told)} are reported "
        f"({_share(told, harmful)}), {len(placed)} of them at a statement of the spec.",
        "",
        "| kind | mutants | harmful | wrong | hang | fault | named by the emulator | told by the oracle | missed "
        "| named without harm seen |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        own = [v for v in verdicts if v.kind == kind]
        if own:
            lines.append(_row(kind, own))
    lines += ["", "What is told of them:", ""]
    codes = Counter(v.told.code for v in harmful if v.told)
    lines += [f"- {code}: {n}" for code, n in codes.most_common()]
    for title, some in (
        ("Missed:", [v for v in harmful if not v.told]),
        ("Reported without a statement:", [v for v in told if v.told and not v.told.placed]),
        ("The emulator broke:", [v for v in verdicts if v.broke]),
    ):
        if some:
            lines += ["", title, "", *(f"- {v.text}" for v in some)]
    if failed:
        lines += ["", "Not judged:", "", *(f"- {text}" for text in failed)]
    quiet = [v for v in verdicts if not v.harm.kind and not v.told]
    lines += [
        "",
        "No harm seen and nothing reported, by kind; in brackets, those that change bits within what is allowed:",
        "",
    ]
    for kind, n in sorted(Counter(v.kind for v in quiet).items()):
        changed = sum(1 for v in quiet if v.kind == kind and v.harm.changed)
        lines.append(f"- {kind}: {n}" + (f" ({changed})" if changed else ""))
    return "\n".join(lines)


def _row(kind: str, own: Sequence[Verdict]) -> str:
    bad = [v for v in own if v.harm.kind]
    counts = [sum(1 for v in bad if v.harm.kind == k) for k in ("wrong", "hang", "fault")]
    by = Counter(v.told.by for v in bad if v.told)
    missed = sum(1 for v in bad if not v.told)
    idle = sum(1 for v in own if v.told and v.told.by == "emulator" and not v.harm.kind)
    cells = [len(bad), *counts, by["emulator"], by["oracle"], missed, idle]
    return f"| {kind} | {len(own)} | {' | '.join(str(c or '') for c in cells)} |"


def _share(part: Sequence[object], whole: Sequence[object]) -> str:
    return f"{100 * len(part) / max(len(whole), 1):.2f} %"


# ---- on the GPU ------------------------------------------------------------------------------------------

_ON_GPU = (
    *("copy", "gemm", "swiglu", "gemm_logsumexp D=64", "row_softmax", "fa3_fwd D=64 causal=True"),
    *("attention_bias D=64", "attention_decode D=64", "gemm a+b by cp_async"),
)
_CALL = 40.0  # seconds that a mutant may take on the GPU, all told


def spread(names: Sequence[str], count: int, seed: int, kinds: Sequence[str]) -> list[tuple[str, Mutant]]:
    """So many mutants, of each kind in turn, of samples in turn."""
    rng = random.Random(seed)
    ways: list[Iterator[tuple[str, Mutant]]] = []
    for n, kind in enumerate(kinds):
        order = [*names[n % len(names) :], *names[: n % len(names)]]
        by_name = {name: list(mutants(bench(subject(name)).text, (kind,))) for name in order}
        ways.append(iter([(name, rng.choice(every)) for name, every in by_name.items() if every]))
    found: list[tuple[str, Mutant]] = []
    while ways and len(found) < count:
        left = []
        for way in ways:
            if (one := next(way, None)) is not None:
                found.append(one)
                left.append(way)
        ways = left
    return sorted(found[:count], key=lambda task: task[0])  # so that a process meets few samples


class _Runner:
    """A process on the GPU that takes mutants from a queue, until the time is up."""

    def __init__(self, tasks: SimpleQueue[tuple[int, str, Mutant | None]], pool: Pool) -> None:
        self._tasks, self._pool = tasks, pool
        self.found: dict[int, tuple[str, str]] = {}

    def run(self) -> None:
        worker = GpuWorker()
        try:
            while self._pool.left > 0 and not self._pool.cut:
                number, name, mutant = self._tasks.get_nowait()
                self.found[number] = _on_gpu(worker, name, mutant)
        except Empty:
            pass
        finally:
            worker.close()


def _on_gpu(worker: GpuWorker, name: str, mutant: Mutant | None) -> tuple[str, str]:
    try:
        kind, what = worker.call("tests.mutations.ptx_gpu:judge", name, mutant, limit=_CALL)
    except WorkerDiedError as error:
        text = str(error).splitlines()[0]
        return ("hang" if "hangs" in text or "no answer" in text else "fault"), text
    except CallFailedError as error:
        return "failed", str(error).strip().splitlines()[-1]
    return kind or "right", what


def compared(args: argparse.Namespace, kinds: Sequence[str]) -> int:
    names = [s.name for s in SUBJECTS if s.name in _ON_GPU and (not args.samples or s.name in args.samples)]
    with Pool(args.jobs, args.seconds or 600) as pool:
        record = Record("Faults in PTX, on the GPU and in the emulator", "mutants", pool, args.output, gpu=True)
        for _ in pool.each([Task(name, _compiled, name) for name in names], LIMIT):
            pass  # into the cache, from which every process takes them
        tasks = spread(names, args.mutants, args.seed, kinds)
        queue: SimpleQueue[tuple[int, str, Mutant | None]] = SimpleQueue()
        for n, name in enumerate(names):
            queue.put((-1 - n, name, None))
        for n, (name, mutant) in enumerate(tasks):
            queue.put((n, name, mutant))
        runners = [_Runner(queue, pool) for _ in range(max(args.jobs // 2, 1))]
        with ThreadPoolExecutor(len(runners)) as threads:
            running = [threads.submit(runner.run) for runner in runners]
            judging = pool.each([Task(name, judge, (name, mutant)) for name, mutant in tasks], LIMIT)
            verdicts = [each.value for each in judging if each.value]
            for future in running:
                future.result()
        on_gpu = {n: what for runner in runners for n, what in runner.found.items()}
        told = {(v.sample, v.mutant): v for v in verdicts}
        done = [replace(told[task], gpu=on_gpu[n]) for n, task in enumerate(tasks) if task in told and n in on_gpu]
    untouched = {name: on_gpu.get(-1 - n, ("not run", "")) for n, name in enumerate(names)}
    record.finish(agreement(done, untouched), len(done), len(tasks))
    return 0 if all(kind == "right" for kind, _ in untouched.values()) else 1


def _compiled(name: str) -> None:
    bench(subject(name))


def agreement(done: Sequence[Verdict], untouched: dict[str, tuple[str, str]]) -> str:
    """Markdown: what the GPU and the emulator make of the same mutants."""
    lines = [
        "Without a fault: " + ", ".join(f"{name} {' '.join(what)}".strip() for name, what in untouched.items()) + ".",
        "",
    ]
    counts = Counter((v.harm.kind or "right", v.gpu[0]) for v in done if v.gpu)
    rows = ("wrong", "hang", "fault", "right", "crash")
    columns = ("wrong", "hang", "fault", "right", "refused", "failed")
    assembled = [v for v in done if v.gpu and v.gpu[0] in ("wrong", "hang", "fault", "right")]
    same = [v for v in assembled if v.gpu and bool(v.harm.kind) == (v.gpu[0] != "right")]
    there = [v for v in assembled if v.gpu and v.gpu[0] != "right"]
    told = [v for v in there if v.told]
    lines += [
        f"{len(done)} mutants of {len({v.kind for v in done})} kinds. On harm the "
        f"two agree in {len(same)} of the {len(assembled)} that the driver assembles. Of {len(there)} that do harm "
        f"on the GPU, {len(told)} are reported by the emulator or by the comparison of its result "
        f"({_share(told, there)}).",
        "",
        "| in the emulator, unwatched | " + " | ".join(f"GPU: {c}" for c in columns) + " |",
        "|---|" + "---|" * len(columns),
        *(f"| {r} | " + " | ".join(str(counts[r, c] or "") for c in columns) + " |" for r in rows),
        "",
        "| kind | in the emulator | on the GPU | reported |",
        "|---|---|---|---|",
    ]
    for kind in KINDS:
        for v in done:
            if v.kind == kind and v.gpu:
                lines.append(f"| {kind} | {v.harm.kind or 'right'} | {v.gpu[0]} | {v.told.code if v.told else ''} |")
    lines += ["", "Where they differ:", ""]
    for v in done:
        if v.gpu and (v.harm.kind or "right") != v.gpu[0]:
            named = v.told.text if v.told else "nothing is reported"
            lines.append(f"- {v.text or 'right'} | GPU: {' '.join(v.gpu)} | {named}")
    return "\n".join(lines)


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--gpu", action="store_true")
    command.add_argument("--mutants", type=int, default=130)
    args = command.parse_args()
    kinds = args.kinds or tuple(KINDS)
    if args.gpu:
        return compared(args, kinds)
    given = args.samples
    names = [s.name for s in SUBJECTS if not given or s.name in given or s.name.split()[0] in given]
    return emulated(args, names, kinds)


if __name__ == "__main__":
    sys.exit(main())
