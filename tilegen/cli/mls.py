"""`tilegen build`, `check` and `run` for the target mls."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilegen.cli.console import stdout, table
from tilegen.cli.memory import within_memory
from tilegen.cli.publish import publish
from tilegen.cli.run import Judged, arguments, dense, judge, numbers, print_judged, tell_if_long
from tilegen.cli.usage import wrong_usage
from tilegen.cli.values import Sizes, Wanted
from tilegen.diagnostics.catalogue import Code, fail
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.tile import TileProgram
from tilegen.oracle import evaluate, poisoned, random_inputs
from tilegen.runtime.mls import run
from tilegen.sema.loading import load
from tilegen.syntax.reading import read_source
from tilegen.targets.mls import isa
from tilegen.targets.mls.build import MlsBuilt, build
from tilegen.targets.mls.checks import check
from tilegen.version import VERSION

EXTENSION = "mls"


@dataclass(frozen=True)
class _Compiled:
    program: TileProgram
    built: tuple[MlsBuilt, ...]  # one for each of its schedules
    seconds: float

    def name(self, n: int) -> str:
        """The file of the nth, without its extension."""
        stem = self.program.name
        return stem if len(self.built) == 1 else f"{stem}.{n + 1}"


def _program(wanted: Wanted) -> TileProgram:
    if wanted.tuned:
        wrong_usage("--tuned is of the target hopper", got="--tuned", wanted="--target mls without it")
    return load(read_source(wanted.spec), wanted.parameters)


def _compile(wanted: Wanted, defect: str | None) -> _Compiled:
    """Every schedule for mls. Raises TilegenError with the faults of all."""
    started = time.perf_counter()
    program = _program(wanted)
    built: list[MlsBuilt] = []
    errors: list[TilegenError] = []
    for variant in program.variants("mls"):
        try:
            built.append(build(variant, frozenset({defect} if defect else ())))
        except TilegenError as error:
            errors.append(error)
    if errors:
        raise TilegenError(tuple(dict.fromkeys(d for error in errors for d in error.diagnostics)))
    return _Compiled(program, tuple(built), time.perf_counter() - started)


def build_mls(wanted: Wanted, folder: Path, emit: str | None, sizes: Sizes, defect: str | None) -> None:
    """Write NAME.mls to the folder, and print what the kernel needs; with a defect, what the static checks find."""
    if emit not in (None, EXTENSION):
        wrong_usage(f"--emit: mls writes no {emit}", got=emit, wanted=EXTENSION)
    if sizes:
        wrong_usage("--size chooses among tuned schedules of hopper", wanted="--target mls without it")
    done = _compile(wanted, defect)
    faults = _faults(done)
    if faults and defect is None:
        raise TilegenError(faults)
    files = {f"{done.name(n)}.{EXTENSION}": b.text.encode() for n, b in enumerate(done.built)}
    publish(files, folder)
    out = stdout()
    out.print(done.program.title, style="bold", markup=False)
    rows = [_needs(b) for b in done.built]
    out.print(table(["waves", "instructions", "SGPRs", "VGPRs", "LDS", "blocks", "stages"], rows))
    for note in dict.fromkeys(n for b in done.built for n in b.plan.notes):
        out.print(f"note: {note}", markup=False)
    if defect is not None:
        codes = ", ".join(f"{code} {n} times" for code, n in Counter(f.code for f in faults).items())
        out.print(f"defect {defect}: put in on purpose; the static checks find {codes}", markup=False)
    out.print(f"time: compiled in {done.seconds:.2f} s", markup=False)
    out.print(f"made with: tilegen {VERSION}", markup=False)
    out.print(f"wrote {', '.join(str(folder / name) for name in files)}", markup=False)


def _needs(built: MlsBuilt) -> Sequence[object]:
    plan, program = built.plan, built.program
    blocks = ", ".join(f"{axis} {block}" for axis, block in plan.blocks)
    stages = ", ".join(f"{r.tile} {r.depth}" for r in plan.rings) or "none"
    return [
        plan.waves,
        len(program.instructions),
        f"{program.sgprs} of {isa.SGPRS}",
        f"{program.vgprs} of {isa.VGPRS}",
        f"{program.lds} of {isa.LDS_BYTES} bytes",
        blocks,
        stages,
    ]


def _faults(done: _Compiled) -> tuple[Diagnostic, ...]:
    """What the static checks find."""
    return tuple(fault for b in done.built for fault in check(b.program))


def check_mls(wanted: Wanted, defect: str | None) -> None:
    """Compile, run the static checks, and say that nothing is wrong, or fail with all that is."""
    done = _compile(wanted, defect)
    if faults := _faults(done):
        raise TilegenError(faults)
    out = stdout()
    for note in dict.fromkeys(n for b in done.built for n in b.plan.notes):
        out.print(f"note: {note}", markup=False)
    out.print(f"{done.program.title}: all checks passed (compiled in {done.seconds:.2f} s)", markup=False)


def run_mls(wanted: Wanted, given: Sizes, seed: int, defect: str | None) -> None:
    """Run the assembly in its emulator and compare; fails with what the emulator finds, or RESULT_WRONG.

    Tensors lie across 4 GiB and end where a page does, whatever their size, so that a defect is met.
    """
    program = _program(wanted)
    sizes, scalars = arguments(program, given, wanted.target, small=True)
    whole = dense(sizes)
    chosen = program.variant("mls", {**whole, **{k: v for k, v in scalars.items() if isinstance(v, int)}})
    if program.schedule("mls") and not chosen.schedule("mls"):
        fail(Code.NO_VARIANT, program.span, kernel=program.name)
    started = time.perf_counter()
    built = build(chosen, frozenset({defect} if defect else ()))
    compiled = time.perf_counter() - started
    out = stdout()
    out.print(program.title, style="bold", markup=False)
    out.print(numbers({**sizes, **scalars}), markup=False)
    if defect:
        out.print(f"defect {defect}: {_SITUATIONS[defect]}", markup=False)
    out.print(f"MLS assembly in the emulator, random data with seed {seed}", markup=False)
    for note in built.plan.notes:
        out.print(f"note: {note}", markup=False)
    with within_memory(program, sizes, scalars):
        tell_if_long(program, sizes, scalars)
        try:
            trial = emulated(built, program, sizes, scalars, seed, straddle=defect == "carry")
        except TilegenError as error:
            if defect is None:
                raise
            named = (replace(d, message=f"defect {defect}: {d.message}") for d in error.diagnostics)
            raise TilegenError(tuple(named)) from error
    took = f"time: {trial.seconds:.2f} s in the emulator; compiled in {compiled:.2f} s"
    print_judged(program, trial.judged, took)
    if defect is not None:
        fail(Code.MLS_DEFECT_UNMET, None, wanted=_MEETS[defect], defect=defect)


_SITUATIONS = {
    "carry": "the tensors that tiles are read from lie across a multiple of 4 GiB",
    "tail": "the tensors end where a page does, and the page behind them is not mapped",
    "dirty-lds": "the last block of a streamed tile ends inside, in a stage that another block was in",
}
_MEETS = {
    "carry": "tensors of several lines",
    "tail": "an extent that leaves some of a block's 16 rows or 32 columns empty",
    "dirty-lds": "an extent that leaves some of a block's 16 rows or 32 columns empty",
}


@dataclass(frozen=True)
class Trial:
    """A run on random data: the outputs beside what they should be, the emulator's seconds, wave instructions."""

    judged: list[Judged]
    seconds: float
    instructions: int


def emulated(
    built: MlsBuilt,
    program: TileProgram,
    sizes: Mapping[str, int | list[int]],
    scalars: Mapping[str, float],
    seed: int,
    *,
    straddle: bool = False,
) -> Trial:
    """Run a kernel on random data. straddle: tensors that tiles are read from lie across 4 GiB even if small.

    Raises TilegenError for what the emulator finds.
    """
    inputs = random_inputs(program, sizes, seed)
    results = evaluate(program, sizes, scalars, inputs)
    outputs = {name: array.copy() for name, array in poisoned(program, sizes).items()}
    across = dict.fromkeys(r.tensor for r in built.plan.rings) if straddle else ()
    started = time.perf_counter()
    report = run(built, program, inputs, outputs, {**dense(sizes), **scalars}, straddle=tuple(across), seed=seed)
    seconds = time.perf_counter() - started
    executed = sum(report.counts.values()) if report else 0
    return Trial(judge(program, results, outputs), seconds, executed)
