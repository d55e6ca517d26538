"""Whether a mutant of a kernel's PTX does harm, and who tells of it: the emulator, or the comparison with the spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

import tilegen
from tests.movers import with_mover
from tests.mutations.judging import SUBJECTS as PLANS
from tests.mutations.judging import dense, scanned, spoil
from tests.mutations.ptx_text import Mutant, Text
from tests.passes.specs import text_of
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.tile import ParamValue, TileProgram
from tilegen.oracle import batch_axes, compare, evaluate, poisoned, random_inputs, scalar_values
from tilegen.oracle.outputs import Result
from tilegen.runtime.kernel import Kernel
from tilegen.runtime.variants import Variant
from tilegen.targets.hopper.built import Built

Array = Any
_SLACK = 4  # times the steps of the right kernel, before a mutant is taken for endless
ROOM = 1.4  # times what the spec allows: an exponent that is kept costs the right kernel that much (docs/design.md)
_FLAVOURS = ("normal", "peaked", "spoiled")  # data: as `tilegen run` takes it, large scores, some that is not finite


@dataclass(frozen=True, eq=False)
class Subject:
    """A spec with its parameters, and sizes at which its mutants are run."""

    name: str
    spec: str
    params: tuple[tuple[str, ParamValue], ...]
    sizes: tuple[Mapping[str, Any], ...]
    target: str = "hopper"


def _moved(sample: str, tiles: tuple[str, ...], sizes: Mapping[str, Any], **params: ParamValue) -> Subject:
    """A sample with tiles copied by threads."""
    text = with_mover(text_of(sample), "cp_async", tiles, **params)
    given = "".join(f" {k}={v}" for k, v in params.items())
    return Subject(f"{sample}{given} {'+'.join(tiles)} by cp_async", text, tuple(params.items()), (sizes,))


SUBJECTS: tuple[Subject, ...] = (
    *(Subject(s.name, text_of(s.sample), s.params, s.sizes) for s in PLANS),
    *(
        Subject(f"{s.name} for sm_80", text_of(s.sample), s.params, s.sizes, "sm_80")
        for s in PLANS
        if s.name in ("gemm", "fa3_fwd D=64 causal=True")
    ),
    _moved("gemm", ("a", "b"), {"M": 70, "N": 72, "K": 200}),
    _moved("fa3_fwd", ("k",), {"B": 1, "Hk": 1, "G": 1, "Sq": 201, "Sk": 330}, D=64, causal=True),
)


def subject(name: str) -> Subject:
    return next(s for s in SUBJECTS if s.name == name)


@dataclass(frozen=True, eq=False)
class Case:
    """A launch: inputs, outputs that hold poison, and what the spec says must come."""

    seed: int
    numbers: Mapping[str, Any]
    inputs: Mapping[str, Array]
    empty: Mapping[str, Array]
    wanted: Mapping[str, Result]


@dataclass(frozen=True, eq=False)
class Right:
    """What the kernel that is right makes of a case."""

    outputs: Mapping[str, Array]
    steps: int


class Bench:
    """A subject, compiled, with its cases."""

    def __init__(self, s: Subject) -> None:
        self.subject = s
        kernel = tilegen.compile(s.spec, target=s.target, **dict(s.params))
        self.program: TileProgram = kernel.program
        self.built: Built = self._variant(kernel, s.sizes[0]).built
        # a launch of other sizes may take another variant
        self.sizes = tuple(z for z in s.sizes if self._variant(kernel, z).built is self.built)
        self.seeds = len(_FLAVOURS) * len(self.sizes)  # launches that harm is looked for in; as many others are watched
        self._cases: dict[int, Case] = {}
        self._right: dict[int, Right] = {}

    @staticmethod
    def _variant(kernel: Kernel, sizes: Mapping[str, Any]) -> Variant[Any]:
        return kernel.variants[0] if len(kernel.variants) == 1 else kernel.variant(**dense(sizes))

    @cached_property
    def text(self) -> Text:
        return Text(self.built.ptx)

    def kernel(self, ptx: str, image: bytes | None = None) -> Kernel:
        """The same kernel with other PTX; on a GPU it loads the image."""
        compiled = replace(self.built.compiled, ptx=ptx, cubin=image or self.built.cubin)
        return Kernel(self.program, (Variant.of(replace(self.built, compiled=compiled)),))

    def case(self, seed: int) -> Case:
        """Sizes and kinds of data take turns."""
        if seed not in self._cases:
            sizes = self.sizes[seed % len(self.sizes)]
            scalars = scalar_values(self.program, sizes, {})
            scalars |= {k: v for k, v in sizes.items() if k in {x.name for x in self.program.scalars}}
            inputs = self._data(sizes, seed)
            wanted = evaluate(self.program, sizes, scalars, inputs)
            numbers = {**dense(sizes), **scalars}
            self._cases[seed] = Case(seed, numbers, inputs, poisoned(self.program, sizes), wanted)
        return self._cases[seed]

    def _data(self, sizes: Mapping[str, Any], seed: int) -> dict[str, Array]:
        inputs = random_inputs(self.program, sizes, 1000 + seed)
        flavour = _FLAVOURS[seed // len(self.sizes) % len(_FLAVOURS)]
        if flavour == "peaked":
            first = next(name for name, array in inputs.items() if array.dtype.kind not in "iub")
            inputs[first] = (inputs[first] * 6).astype(inputs[first].dtype)
        elif flavour == "spoiled":
            for name in scanned(self.built.plan):
                spoil(inputs[name], seed)
        return inputs

    def right(self, case: Case) -> Right:
        if case.seed not in self._right:
            kernel = self.kernel(self.built.ptx)
            outputs = run(kernel, case)
            report = kernel.last_report
            assert report is not None and not self.wrong(case, outputs, ROOM), (self.subject.name, case.seed)
            self._right[case.seed] = Right(outputs, report.steps)
        return self._right[case.seed]

    def limit(self, case: Case) -> int:
        """Steps that a mutant may take."""
        return _SLACK * self.right(case).steps + 10_000

    def wrong(self, case: Case, outputs: Mapping[str, Array], room: float = 1.0) -> str:
        """Which output is off by more than `room` times what the spec allows, and where; empty: none is."""
        for name, result in case.wanted.items():
            found = compare(result, outputs[name], batch_axes(self.program, name))
            if found.mismatches or found.worst > room:
                return f"{name} is wrong at {found.mismatch_at if found.mismatches else found.worst_at}"
        return ""


@cache
def bench(s: Subject) -> Bench:
    return Bench(s)


def run(
    kernel: Kernel, case: Case, limit: int | None = None, *, watch: bool = False, times: int | None = None
) -> dict[str, Array]:
    """The outputs of a launch in the emulator, which ends after so many steps. `times`: the seed of when engines finish
    and warps run. Raises TilegenError."""
    inputs = {name: array.copy() for name, array in case.inputs.items()}  # a mutant may write them
    outputs = {name: array.copy() for name, array in case.empty.items()}
    with np.errstate(all="ignore"):
        kernel.emulate({**inputs, **outputs, **case.numbers}, watch=watch, seed=times, step_limit=limit)
    return outputs


@dataclass(frozen=True)
class Harm:
    """`kind`: "wrong", "hang", "fault", "crash" of the emulator, or "" where none was seen. `changed`: bits differ,
    within what the spec allows."""

    kind: str
    what: str
    changed: bool = False


_HANGS = ("EMULATED_HANG", "EMULATED_STEP_LIMIT")


def harm(s: Subject, mutant: Mutant, seeds: int | None = None) -> Harm:
    """What goes wrong when the mutant is run, unwatched."""
    b = bench(s)
    return _harm(b, b.kernel(mutant.applied(b.text)), seeds or b.seeds)


def _harm(b: Bench, kernel: Kernel, seeds: int) -> Harm:
    changed = False
    for seed in range(seeds):
        case = b.case(seed)
        right = b.right(case)
        try:
            outputs = run(kernel, case, b.limit(case), times=seed)
        except TilegenError as error:
            first = error.diagnostics[0]
            return Harm("hang" if first.code in _HANGS else "fault", _told(first))
        except Exception as error:
            return Harm("crash", f"{type(error).__name__}: {error}")
        if all(outputs[name].tobytes() == right.outputs[name].tobytes() for name in outputs):
            continue
        if found := b.wrong(case, outputs, ROOM) or _apart(right, outputs):
            return Harm("wrong", f"{found}, seed {seed}")
        changed = True
    return Harm("", "", changed)


def _told(diagnostic: Diagnostic) -> str:
    return f"{diagnostic.code}: {diagnostic.message.splitlines()[0]}"


def _apart(right: Right, outputs: Mapping[str, Array]) -> str:
    """Which output is far from the right kernel's, whatever the spec allows."""
    for name, wanted in right.outputs.items():
        a, b = outputs[name].astype(np.float64), wanted.astype(np.float64)
        finite = np.isfinite(b)
        if not np.array_equal(np.isfinite(a), finite):
            return f"{name} is finite elsewhere"
        if (np.abs(a[finite] - b[finite]) > 0.02 * np.abs(b[finite]).max(initial=0.0)).any():
            return f"{name} is far off"
    return ""


@dataclass(frozen=True)
class Report:
    """Who tells of a mutant: "emulator", by a fault's code, or "oracle"; "crash" if the emulator breaks. `placed`: at a
    statement of the spec."""

    by: str
    code: str
    placed: bool
    text: str


def report(s: Subject, mutant: Mutant, seeds: int | None = None) -> Report | None:
    """What `tilegen run --emulate` tells of the mutant, of other data than harm was seen with."""
    b = bench(s)
    return _report(b, b.kernel(mutant.applied(b.text)), seeds or b.seeds)


def _report(b: Bench, kernel: Kernel, seeds: int) -> Report | None:
    told = None
    for n in range(seeds):
        if told and n > len(b.sizes):
            break  # a fault would have been met where the kernel has gone wrong
        seed = b.seeds + n
        case = b.case(seed)
        try:
            outputs = run(kernel, case, b.limit(case), watch=True, times=seed)
        except TilegenError as error:
            first = error.diagnostics[0]
            return Report("emulator", first.code, any(d.span for d in error.diagnostics), _told(first))
        except Exception as error:
            return Report("crash", type(error).__name__, False, f"{type(error).__name__}: {error}")
        if told is None and (found := b.wrong(case, outputs)):
            told = Report("oracle", "RESULT_WRONG", True, found)
    return told


def judged(s: Subject, mutant: Mutant, seeds: int | None = None) -> tuple[Harm, Report | None]:
    """Both, apart."""
    b = bench(s)
    kernel = b.kernel(mutant.applied(b.text))
    return _harm(b, kernel, seeds or b.seeds), _report(b, kernel, seeds or b.seeds)
