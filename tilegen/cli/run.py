"""`tilegen run`: a kernel on random data, against the float64 value of the spec's equations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from tilegen.cli.compile import choose, how_long, plan_spec
from tilegen.cli.console import stdout, table
from tilegen.cli.engine import gpu, run_kernel
from tilegen.cli.memory import within_memory
from tilegen.cli.usage import no_defect, wrong_usage
from tilegen.cli.values import Sizes, SizeValue, Wanted
from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.machines import MACHINES
from tilegen.ir.outside import undecided
from tilegen.ir.tile import TileProgram
from tilegen.oracle import (
    Comparison,
    Result,
    Space,
    batch_axes,
    compare,
    default_sizes,
    evaluate,
    poisoned,
    random_inputs,
    scalar_values,
)
from tilegen.runtime.kernel import Kernel
from tilegen.runtime.reads import check_reads
from tilegen.runtime.sizes import MAX_SIZE
from tilegen.sema.faults import suggestion

LONG = 1 << 30  # points of equations; an emulator goes through some 10^7 to 10^8 in a second
_UNTELLING = (
    "what rounding may do to it is as large as the output itself, so that wrong results would pass. A comparison or a "
    "floor may stand where its argument can fall on either side: look at it on data that keep away from there"
)


@dataclass(frozen=True)
class Judged:
    """One output: what was wanted, what came, and how the two compare."""

    name: str
    result: Result
    got: npt.NDArray[Any]
    comparison: Comparison


def run_command(
    wanted: Wanted, given: Sizes, emulate: bool, seed: int, defect: str | None = None, plain: bool = False
) -> None:
    """Compile, run, compare, print; fails with RESULT_WRONG for each output that differs by more than allowed.

    plain: an emulated launch is not watched, and everything completes when it is issued.
    """
    if wanted.target == "mls":
        from tilegen.cli.mls import run_mls

        run_mls(wanted, given, seed, defect)
        return
    no_defect(defect)
    done, seconds = plan_spec(wanted, given)
    device = None if emulate else gpu(wanted.target)
    sizes, scalars = arguments(done.program, given, wanted.target, small=device is None)
    chosen = choose(done, {**dense(sizes), **scalars})
    where = (
        f"on {device.name}"
        if device
        else "the PTX in the emulator"
        + (", not watched" if plain else "")
        + ("" if emulate else f": no {MACHINES[wanted.target].words} here")
    )
    with within_memory(done.program, sizes, scalars):
        # before it runs: that may take long, and what it is about then stands above a fault too
        out = stdout()
        out.print(done.title, style="bold", markup=False)
        out.print(numbers({**sizes, **scalars}), markup=False)
        if chosen.heading:
            out.print(chosen.heading, markup=False)
        out.print(f"{where}, random data with seed {seed}", markup=False)
        for note in chosen.notes:
            out.print(f"note: {note}", markup=False)
        if device is None:
            tell_if_long(done.program, sizes, scalars)
        judged, time = _judged(chosen.kernel, sizes, scalars, seed, on_gpu=device is not None, plain=plain)
    print_judged(done.program, judged, f"time: {time}; {how_long(done, seconds + chosen.seconds)}")


def tell_if_long(program: TileProgram, sizes: Mapping[str, int | list[int]], scalars: Mapping[str, float]) -> None:
    """Say on stderr, of a run in an emulator, that it may take minutes."""
    if Space.of(program, sizes, scalars).points > LONG:
        click.echo("note: at these sizes the emulator may take minutes; --size makes them smaller", err=True)


def print_judged(program: TileProgram, judged: Sequence[Judged], time: str) -> None:
    """The table of outputs and the time; fails with RESULT_WRONG for each that is wrong."""
    out = stdout()
    out.print(table(["output", "error", "allowed", "‖out-ref‖/‖ref‖", "absolute", ""], [_row(j) for j in judged]))
    for j in judged:
        if j.comparison.right and not j.comparison.telling:
            out.print(f"note: {j.name} is not judged: {_UNTELLING}", markup=False)
    out.print(time, markup=False)
    wrong = tuple(_wrong(program, j) for j in judged if not j.comparison.right)
    if wrong:
        raise TilegenError(wrong)


def _judged(
    kernel: Kernel,
    sizes: Mapping[str, int | list[int]],
    scalars: Mapping[str, float],
    seed: int,
    on_gpu: bool,
    plain: bool,
) -> tuple[list[Judged], str]:
    """Each output of a run on random data beside what it should be, and how long the run took."""
    program = kernel.program
    inputs = random_inputs(program, sizes, seed)
    results = evaluate(program, sizes, scalars, inputs)
    times = None if plain else seed
    outcome = run_kernel(kernel, inputs, poisoned(program, sizes), {**dense(sizes), **scalars}, on_gpu, times)
    return judge(program, results, outcome.outputs), outcome.time


def judge(program: TileProgram, results: Mapping[str, Result], outputs: Mapping[str, npt.NDArray[Any]]) -> list[Judged]:
    """Each output of a run beside what it should be."""
    return [
        Judged(name, result, got, compare(result, got, batch_axes(program, name)))
        for name, result in results.items()
        for got in (outputs[name],)
    ]


def arguments(
    program: TileProgram, given: Sizes, target: str, *, small: bool
) -> tuple[dict[str, int | list[int]], dict[str, float]]:
    """Every size and every scalar: those given, else the spec's defaults, else small or large ones.

    The batch size follows the number of lengths given for a ragged size, and the lengths of others follow it. Fails
    with BAD_USAGE.
    """
    names = {size.name for size in program.sizes}
    scalars = {scalar.name for scalar in program.scalars}
    for name in given:
        if name not in names | scalars:
            if name in {parameter for parameter, _ in program.params}:
                wrong_usage(f"--size: {name} is a parameter of {program.name}", got=name, wanted=f"-D {name}=…")
            wrong_usage(f"--size: {program.name} has no {name}", got=name, wanted=suggestion(name, names | scalars))
    sizes: dict[str, int | list[int]] = dict(default_sizes(program, small=small, target=target))
    for ragged in program.ragged:
        lengths = given.get(ragged.size)
        if isinstance(lengths, list):
            sizes[ragged.over] = len(lengths)
    sizes |= {name: _size(name, value) for name, value in given.items() if name in names}
    for ragged in program.ragged:
        lengths, count = sizes[ragged.size], sizes[ragged.over]
        if ragged.size not in given and isinstance(lengths, list) and isinstance(count, int):
            sizes[ragged.size] = [lengths[n % len(lengths)] for n in range(count)]
    wanted = {name: _scalar(name, value) for name, value in given.items() if name in scalars}
    values = scalar_values(program, sizes, wanted)
    try:
        Space.of(program, sizes, values)
    except ValueError as error:
        wrong_usage(f"--size: {error}")
    check_reads(program, undecided(program), {**sizes, **values})
    return sizes, values


def _size(name: str, value: SizeValue) -> int | list[int]:
    if isinstance(value, float) or (isinstance(value, int) and value < 0):
        wrong_usage(f"--size: {name} is a size", got=str(value), wanted="a whole number from 0 up")
    if max(value if isinstance(value, list) else [value]) > MAX_SIZE:
        wrong_usage(
            f"--size: {name} does not fit into an int32, in which kernels take sizes",
            got=str(value),
            wanted=f"0 to {MAX_SIZE}",
        )
    return value


def _scalar(name: str, value: SizeValue) -> int | float:
    if isinstance(value, list):
        wrong_usage(f"--size: {name} is a scalar", got=str(value), wanted="a number")
    return value


def dense(sizes: Mapping[str, int | list[int]]) -> dict[str, int]:
    """The sizes that are numbers: those of the others come as an array."""
    return {name: value for name, value in sizes.items() if isinstance(value, int)}


def numbers(values: Mapping[str, SizeValue]) -> str:
    """Sizes and scalars in one line."""
    return ", ".join(f"{name}={_number(value)}" for name, value in values.items())


def _number(value: SizeValue) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace(" ", "")


def _row(judged: Judged) -> list[object]:
    """The error at the point that uses most of what is allowed there, both relative to the root mean square of the
    output's values, unless that is 0: the value there may lie near 0 by chance."""
    c = judged.comparison
    error = allowed = "0"
    if c.worst_at is not None:
        value, room = float(judged.result.value[c.worst_at]), float(judged.result.allowed[c.worst_at])
        distance = abs(float(judged.got[c.worst_at]) - value)
        usual = _root_mean_square(judged.result)
        scale, unit = (usual, "") if usual else (1.0, " absolute")
        error, allowed = f"{distance / scale:.2e}{unit}", f"{room / scale:.2e}{unit}"
    return [
        judged.name,
        error,
        allowed,
        "" if c.relative is None else f"{c.relative:.2e}",
        f"{c.absolute:.2e}",
        _word(judged),
    ]


def _word(judged: Judged) -> str:
    c = judged.comparison
    if c.right:
        if not c.telling:
            return "unjudged"
        return "unjudged: the reference is all zeros" if _is_zeros(judged.result) else "right"
    return f"wrong ({c.mismatches} points not finite or not written)" if c.mismatches else "wrong"


def _is_zeros(result: Result) -> bool:
    """Whether all that the equations say is 0, which a kernel that computes nothing gives too."""
    return bool(result.value.size) and not np.any(result.value)


def _root_mean_square(result: Result) -> float:
    """Of the values of the domain that are finite; 0 where there is none."""
    counted = result.value[result.defined & np.isfinite(result.value)]
    return float(np.sqrt(np.mean(counted**2))) if counted.size else 0.0


def _wrong(program: TileProgram, judged: Judged) -> Diagnostic:
    c, result = judged.comparison, judged.result
    place = c.mismatch_at if c.mismatches else c.worst_at
    assert place is not None, "an output that is wrong is wrong somewhere"
    value, allowed = float(result.value[place]), float(result.allowed[place])
    margin = f" ± {allowed:.3g}" if math.isfinite(value) and np.isfinite(allowed) else ""
    return fault(
        Code.RESULT_WRONG,
        program.definition(judged.name).span,
        got=f"{float(judged.got[place]):.8g}",
        wanted=f"{value:.8g}{margin}",
        output=judged.name,
        place=", ".join(str(n) for n in place),
    )
