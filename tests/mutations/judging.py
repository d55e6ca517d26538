"""Whether a mutant of a plan does harm, and whether the static checks report it: two judges that share nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tests.mutations import simulator
from tests.mutations.plan_kinds import Mutant
from tests.passes import interpret
from tests.passes.specs import loaded, text_of
from tilegen.checks import resources
from tilegen.checks.movement.check import check_movement
from tilegen.checks.trials import check_all
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan import Plan
from tilegen.ir.plan_verify import verify
from tilegen.ir.tile import ParamValue, TileProgram
from tilegen.oracle import compare, evaluate, random_inputs, scalar_values
from tilegen.passes.pipeline import lower

Array = Any
SEEDS = 20
NEAR = 16  # positions


@dataclass(frozen=True)
class Subject:
    """A sample with its parameters, and sizes at which its mutants are run: one sequence of CTAs, and several items a
    CTA."""

    sample: str
    params: tuple[tuple[str, ParamValue], ...]
    sizes: tuple[dict[str, Any], ...]

    @property
    def name(self) -> str:
        return " ".join([self.sample, *(f"{k}={v}" for k, v in self.params)])


def subject(sample: str, *sizes: dict[str, Any], **params: ParamValue) -> Subject:
    return Subject(sample, tuple(params.items()), sizes)


_HEADS = {"B": 2, "Hk": 2, "G": 2}
_ONE = {"B": 1, "Hk": 1, "G": 1}

SUBJECTS = (
    subject("copy", {"M": 200, "N": 136}),
    subject("difference", {"M": 200, "N": 136, "lag": 70}),
    subject("gemm", {"M": 140, "N": 264, "K": 136}, {"M": 260, "N": 264, "K": 400}),
    subject("gemm_bias_gelu", {"M": 140, "N": 264, "K": 136}),
    subject("swiglu", {"M": 140, "N": 136, "K": 136}),
    subject("gemm_logsumexp", {"M": 140, "V": 400}, D=64),
    subject("row_softmax", {"M": 140, "N": 400}),
    subject("fa3_fwd", {**_ONE, "Sq": 201, "Sk": 330}, {**_HEADS, "Sq": 70, "Sk": 90}),
    subject("fa3_fwd", {**_ONE, "Sq": 270, "Sk": 330}, {**_HEADS, "Sq": 70, "Sk": 90}, D=64, causal=True),
    subject("fa3_fwd", {**_ONE, "Sq": 140, "Sk": 170}, {**_HEADS, "Sq": 70, "Sk": 90}, D=192, causal=True),
    subject("fa3_varlen", {"Hk": 2, "G": 2, "B": 3, "Sq": [70, 0, 201], "Sk": [90, 3, 170]}, D=64, causal=True),
    subject(
        "attention_window",
        {**_ONE, "Sq": 270, "Sk": 330, "left": 70, "right": 9},
        {**_HEADS, "Sq": 70, "Sk": 90, "left": 5, "right": -1},
        D=64,
    ),
    subject("attention_global_tokens", {**_ONE, "Sq": 300, "Sk": 310}, {**_HEADS, "Sq": 70, "Sk": 90}, D=64),
    subject("attention_documents", {**_ONE, "Sq": 201, "Sk": 170}, {**_HEADS, "Sq": 70, "Sk": 90}, D=64),
    subject("attention_prefix_lm", {**_ONE, "Sq": 201, "Sk": 201}, {**_HEADS, "Sq": 70, "Sk": 90}, D=64),
    subject("attention_chunks", {**_ONE, "N": 3, "C": 100}, {**_HEADS, "N": 3, "C": 30}, D=64),
    subject("attention_alibi", {**_ONE, "Sq": 201, "Sk": 170}, {**_HEADS, "Sq": 70, "Sk": 90}, D=64),
    subject("attention_bias", {**_ONE, "Sq": 201, "Sk": 168}, {**_HEADS, "Sq": 70, "Sk": 88}, D=64),
    subject("attention_sink", {**_ONE, "Sq": 201, "Sk": 170}, {**_HEADS, "Sq": 70, "Sk": 90}, D=64),
    subject("attention_softcap", {**_ONE, "Sq": 201, "Sk": 170}, {**_HEADS, "Sq": 70, "Sk": 90}, D=64),
    subject("attention_mixed_heads", {**_ONE, "Sq": 201, "Sk": 170}, D=96, DV=64, causal=True),
    subject(
        "attention_decode",
        {"B": 2, "Hk": 2, "G": 5, "Sq": 9, "Sk": 90},
        {"B": 1, "Hk": 1, "G": 8, "Sq": 19, "Sk": 330},
        D=64,
    ),
)


@cache
def _built(sample: str, params: tuple[tuple[str, ParamValue], ...]) -> tuple[TileProgram, Plan]:
    program = loaded(text_of(sample), **dict(params)).variants("hopper")[-1]
    return program, lower(program)


def program_of(s: Subject) -> TileProgram:
    return _built(s.sample, s.params)[0]


def plan_of(s: Subject) -> Plan:
    return _built(s.sample, s.params)[1]


@dataclass(frozen=True)
class Case:
    """Inputs and what must come of them."""

    sizes: Mapping[str, int]
    scalars: Mapping[str, Any]
    inputs: Mapping[str, Array]
    wanted: Mapping[str, Array]


def dense(sizes: Mapping[str, Any]) -> dict[str, int]:
    return {k: v for k, v in sizes.items() if isinstance(v, int)}


def scanned(plan: Plan) -> set[str]:
    """Tensors in which a scan looks for what is not finite."""
    return {d.tensor for r in plan.rings if r.scan for d in plan.descriptors if d.name == r.name}


def spoil(array: Array, seed: int) -> None:
    """Put NaN and infinities into it: one in a column of its longest axis on average, half of them at any place, the
    others near the end, where most blocks of few positions lie."""
    rng = np.random.default_rng(seed)
    outer = array.shape[:-1]
    longest = int(np.argmax(outer))
    count = max(array.size // outer[longest], 3)
    places = [rng.integers(0, extent, count) for extent in array.shape]
    near = rng.integers(0, min(NEAR, outer[longest]), count // 2)
    places[longest][: count // 2] = outer[longest] - 1 - near
    array[tuple(places)] = np.where(rng.random(count) < 0.5, np.nan, np.inf)


@cache
def _cases(sample: str, params: tuple[tuple[str, ParamValue], ...], number: int) -> tuple[Case, ...]:
    """Plain inputs, and such as hold numbers that are not finite where a scan has to find them. Both are held against
    the oracle by what the plan that is right makes of them."""
    s = next(x for x in SUBJECTS if (x.sample, x.params) == (sample, params))
    program, plan, sizes = program_of(s), plan_of(s), s.sizes[number]
    scalars = scalar_values(program, sizes, {})
    scalars |= {k: v for k, v in sizes.items() if k in {x.name for x in program.scalars}}
    out = []
    for spoiled in (False, True):
        inputs = random_inputs(program, sizes, 3)
        if spoiled:
            tensors = scanned(plan)
            if not tensors:
                continue
            for name in tensors:
                spoil(inputs[name], 1)
        wanted = evaluate(program, sizes, scalars, inputs)
        got = interpret.run(plan, dense(sizes), scalars, inputs, lazy=True)
        for name, result in wanted.items():
            found = compare(result, got[name], ())
            assert found.right, (s.name, name, found)
        for array in (*inputs.values(), *got.values()):
            array.setflags(write=False)  # no mutant is to change what the next ones are run on
        out.append(Case(dense(sizes), scalars, inputs, got))
    return tuple(out)


def harm(s: Subject, mutant: Mutant, seeds: int = SEEDS) -> str:
    """What goes wrong when the mutant is run at adversarial times; empty: nothing in this many seeds."""
    for seed in range(seeds):
        number = seed % len(s.sizes)
        cases = _cases(s.sample, s.params, number)
        case = cases[seed // len(s.sizes) % len(cases)]
        try:
            with np.errstate(all="ignore"):
                got = simulator.run(mutant.plan, case.sizes, case.scalars, case.inputs, seed, 1 + seed // 2 % 2)
        except (
            simulator.Harm,
            interpret.Misuse,
            IndexError,
            KeyError,
            AssertionError,
            ValueError,
            ZeroDivisionError,
        ) as e:
            return f"{type(e).__name__}: {e}"
        for name, wanted in case.wanted.items():
            if not _same(got[name], wanted):
                return f"{name} differs, seed {seed}"
    return ""


def _same(got: Array, wanted: Array) -> bool:
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite) or not np.array_equal(np.isnan(a), np.isnan(b)):
        return False
    scale = np.abs(b[finite]).max(initial=0.0)
    return bool((np.abs(a[finite] - b[finite]) <= 0.02 * scale).all())


@dataclass(frozen=True)
class Report:
    """The first report of a mutant: the check, its code, and whether it names the spec's statement."""

    check: str
    code: str
    placed: bool


def report(s: Subject, mutant: Mutant) -> Report | None:
    """What the static checks say of it, before anything is compiled."""
    try:
        verify(mutant.plan)
    except TilegenError as e:
        return Report("plan rules", e.diagnostics[0].code, any(d.span for d in e.diagnostics))
    for name, check in (
        ("resources", lambda: resources.check(mutant.plan)),
        ("pipeline", lambda: check_all(mutant.plan)),
        ("movement", lambda: list(check_movement(mutant.plan, program_of(s)).diagnostics)),
    ):
        found = check()
        if found:
            return Report(name, found[0].code, any(d.span for d in found))
    return None
