"""Puts faults into the PTX of all samples' kernels, and counts which of the harmful ones the emulator tells of.

    python tools/mutate_ptx.py [--each N] [--seed N] [--kinds A,B] [--samples A,B] [--seconds S] [--jobs N]
                               [--output FILE]
    python tools/mutate_ptx.py --gpu [--mutants N] [--seconds S] [--jobs N] [--output FILE]

--each N: of each kind N mutants a sample, drawn by the seed (0: every one). Harm is judged apart: a mutant is run in
the emulator unwatched, at adversarial times, on random, peaked and spoiled data, and does harm if it hangs, meets a
fault, or writes what the spec does not allow. Reported is what a watched run tells, on other data: a fault, or else a
result that is wrong by the equations. Writes a table (kind x caught by what) and every miss, as Markdown.

--gpu: mutants, spread over kinds, are assembled by the driver and run on the GPU as well, each in a process that it may
take down; tells whether the GPU agrees with the emulator on what they do. Kernels without a fault are run first.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.mutations import ptx_values  # noqa: F401  (adds kinds)
from tests.mutations.drawing import drawn, parser
from tests.mutations.ptx_judging import SUBJECTS, Harm, Report, Subject, bench, judged, subject
from tests.mutations.ptx_kinds import KINDS, mutants
from tests.mutations.ptx_text import Mutant
from tilegen.bench.gpu_worker import CallFailedError, GpuWorker, WorkerDiedError


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
        return f"{self.sample}: {self.kind}, {self.mutant.where}: {self.harm.kind} {self.harm.what}".rstrip()


# ---- in the emulator -------------------------------------------------------------------------------------


def judge(name: str, mutant: Mutant) -> Verdict:
    return Verdict(name, mutant, *judged(subject(name), mutant))


@dataclass(frozen=True)
class Share:
    """Of a sample's mutants every `parts`-th, as many as there are seconds for."""

    sample: str
    each: int
    seed: int
    kinds: tuple[str, ...]
    part: int
    parts: int
    seconds: float


def judge_share(share: Share) -> tuple[int, list[Verdict]]:
    """How many mutants were drawn, and what came of those that there was time for."""
    end = time.perf_counter() + share.seconds
    every = ((mutant.kind, mutant) for mutant in mutants(bench(subject(share.sample)).text, share.kinds))
    wanted = [m for some in drawn(every, share.each, f"{share.seed} {share.sample}") for m in some]
    random.Random(share.seed).shuffle(wanted)
    wanted = wanted[share.part :: share.parts]
    done: list[Verdict] = []
    for mutant in wanted:
        if time.perf_counter() > end:
            break
        done.append(judge(share.sample, mutant))
    return len(wanted), done


def emulated(args: argparse.Namespace, subjects: Sequence[Subject], kinds: tuple[str, ...]) -> None:
    """A sample's mutants are judged by one process, or by few: it takes long to build what they are held against."""
    begun = time.perf_counter()
    count = -(-len(subjects) // args.jobs) * args.jobs
    seconds = args.seconds * args.jobs / count if args.seconds else float("inf")
    shares = []
    for n, s in enumerate(subjects):
        parts = (count + n) // len(subjects)
        shares += [Share(s.name, args.each, args.seed, kinds, part, parts, seconds) for part in range(parts)]
    verdicts: list[Verdict] = []
    total = 0
    with ProcessPoolExecutor(args.jobs) as pool:
        for wanted, done in pool.map(judge_share, shares):
            verdicts += done
            total += wanted
            print(f"{len(verdicts)} mutants, {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
            if args.output:
                args.output.write_text(document(verdicts, total), encoding="utf-8")
    print(document(verdicts, total))


def document(verdicts: Sequence[Verdict], total: int) -> str:
    """Markdown: what came of the mutants, by kind."""
    harmful = [v for v in verdicts if v.harm.kind]
    told = [v for v in harmful if v.told]
    by_emulator = [v for v in told if v.told and v.told.by == "emulator"]
    placed = [v for v in told if v.told and v.told.placed]
    drawn_of = f" (of {total} drawn)" if total > len(verdicts) else ""
    lines = [
        "# Faults in PTX",
        "",
        f"{len(verdicts)} mutants{drawn_of} of {len({v.kind for v in verdicts})} kinds in "
        f"{len({v.sample for v in verdicts})} kernels; {len(harmful)} do harm. Of those the watching emulator names a "
        f"fault in {len(by_emulator)} ({_share(by_emulator, harmful)}), and the comparison with the equations tells of "
        f"{len(told) - len(by_emulator)} more: {len(told)} are reported ({_share(told, harmful)}), {len(placed)} of "
        "them at a statement of the spec.",
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
    quiet = [v for v in verdicts if not v.harm.kind and not v.told]
    lines += [
        "",
        "No harm seen and nothing reported, by kind; in brackets, those that change bits within what is allowed:",
        "",
    ]
    for kind, n in sorted(Counter(v.kind for v in quiet).items()):
        changed = sum(1 for v in quiet if v.kind == kind and v.harm.changed)
        lines.append(f"- {kind}: {n}" + (f" ({changed})" if changed else ""))
    return "\n".join(lines) + "\n"


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

    def __init__(self, tasks: SimpleQueue[tuple[int, str, Mutant | None]], end: float) -> None:
        self._tasks, self._end = tasks, end
        self.found: dict[int, tuple[str, str]] = {}

    def run(self) -> None:
        worker = GpuWorker()
        try:
            while time.perf_counter() < self._end:
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
    begun = time.perf_counter()
    end = begun + (args.seconds or 600)
    names = [s.name for s in SUBJECTS if s.name in _ON_GPU and (not args.samples or s.name in args.samples)]
    with ProcessPoolExecutor(args.jobs) as pool:
        list(pool.map(_compiled, names))
        tasks = spread(names, args.mutants, args.seed, kinds)
        verdicts: list[Future[Verdict]] = [pool.submit(judge, name, mutant) for name, mutant in tasks]
        queue: SimpleQueue[tuple[int, str, Mutant | None]] = SimpleQueue()
        for n, name in enumerate(names):
            queue.put((-1 - n, name, None))
        for n, (name, mutant) in enumerate(tasks):
            queue.put((n, name, mutant))
        runners = [_Runner(queue, end) for _ in range(max(args.jobs // 2, 1))]
        with ThreadPoolExecutor(len(runners)) as threads:
            for future in [threads.submit(runner.run) for runner in runners]:
                future.result()
        on_gpu = {n: what for runner in runners for n, what in runner.found.items()}
        done: list[Verdict] = []
        for n, one in enumerate(verdicts):
            if time.perf_counter() > end + 10 and not one.done():
                one.cancel()
                continue
            if n in on_gpu:
                done.append(replace(one.result(), gpu=on_gpu[n]))
    untouched = {name: on_gpu.get(-1 - n, ("not run", "")) for n, name in enumerate(names)}
    text = agreement(done, untouched, len(tasks), time.perf_counter() - begun)
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    print(text)
    return 0 if all(kind == "right" for kind, _ in untouched.values()) else 1


def _compiled(name: str) -> None:
    bench(subject(name))


def agreement(done: Sequence[Verdict], untouched: dict[str, tuple[str, str]], total: int, seconds: float) -> str:
    """Markdown: what the GPU and the emulator make of the same mutants."""
    lines = [
        "# Faults in PTX, on the GPU and in the emulator",
        "",
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
        f"{len(done)} mutants of {total} drawn, of {len({v.kind for v in done})} kinds, in {seconds:.0f} s. On harm "
        f"the two agree in {len(same)} of the {len(assembled)} that the driver assembles. Of {len(there)} that do harm "
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
    return "\n".join(lines) + "\n"


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--seconds", type=float, default=0.0)
    command.add_argument("--gpu", action="store_true")
    command.add_argument("--mutants", type=int, default=130)
    args = command.parse_args()
    kinds = args.kinds or tuple(KINDS)
    if args.gpu:
        return compared(args, kinds)
    names = args.samples
    emulated(args, [s for s in SUBJECTS if not names or s.name in names or s.name.split()[0] in names], kinds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
