"""Specs and the stages they lower to, for the tests of the passes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tilegen.checks.sequences import length_symbol
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.folded import FoldedProgram
from tilegen.ir.plan import Plan
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.tile import ParamValue, TileProgram
from tilegen.passes.fold import fold
from tilegen.passes.guard import guard
from tilegen.passes.pipeline import lower, to_scheduled
from tilegen.passes.tokens import tokens_of
from tilegen.sema import load
from tilegen.syntax.span import Source

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
SPECS = ROOT / "tests" / "specs"

# every sample with each set of parameters that chooses other passes or another schedule
CASES: tuple[tuple[str, dict[str, ParamValue]], ...] = (
    ("fa3_fwd", {"D": 128}),
    ("fa3_fwd", {"D": 128, "causal": True}),
    ("fa3_fwd", {"D": 64, "causal": True}),
    ("fa3_fwd", {"D": 256}),
    ("gemm", {}),
    ("gemm_bias_gelu", {}),
    ("swiglu", {}),
    ("gemm_logsumexp", {}),
    ("gemm_logsumexp", {"D": 256}),
    ("row_softmax", {}),
    ("copy", {}),
    ("difference", {}),
    ("attention_window", {"D": 64}),
    ("attention_global_tokens", {"D": 64}),
    ("attention_documents", {"D": 64}),
    ("attention_alibi", {}),
    ("attention_alibi", {"causal": False, "D": 64}),
    ("attention_bias", {}),
    ("attention_bias", {"causal": True, "D": 64, "W": "f32"}),
    ("attention_sink", {}),
    ("attention_softcap", {}),
    ("attention_softcap", {"causal": False, "D": 64}),
)


# A tile whose product the first loop holds in flight over the back edge, and the second awaits at once.
TWO_LOOPS = """
kernel two_loops_of_a_tile {
  size   I, J
  input  X: f16[I, J]
  input  Y: f16[J, 40]
  output Z: f16[I, J]
  axis   i in I, j in J, h in 40
  tile x[i, j] = X[i, j]
  tile y[j, h] = Y[j, h]
  a[i, h] = sum[j](x[i, j] * y[j, h])
  b[j, i] = sum[h](y[j, h] * f16(a[i, h]))
  Z[i, j] = b[j, i]
}
"""


def case_id(case: tuple[str, dict[str, ParamValue]]) -> str:
    name, params = case
    return "-".join([name, *(f"{k}={str(v).lower()}" for k, v in params.items())])


def run_symbols(sizes: Mapping[str, int | list[int]]) -> dict[str, int]:
    """Sizes, ragged ones as lists of lengths, as the runs of the checks take them."""
    out = {name: n for name, n in sizes.items() if isinstance(n, int)}
    for name, lengths in sizes.items():
        if isinstance(lengths, list):
            out |= {length_symbol(name, n): length for n, length in enumerate(lengths)}
            out[tokens_of(name)] = sum(lengths)
    return out


def text_of(name: str) -> str:
    """The text of a sample, or of a spec of the tests."""
    path = SAMPLES / f"{name}.tile"
    return (path if path.exists() else SPECS / f"{name}.tile").read_text(encoding="utf-8")


def loaded(text: str, **params: ParamValue) -> TileProgram:
    return load(Source("spec.tile", text), params)


def sample(name: str, **params: ParamValue) -> TileProgram:
    """With the last of its schedules, where the parameters leave several: the one for all sizes."""
    return load(Source(f"{name}.tile", text_of(name)), params).variants("hopper")[-1]


def folded(program: TileProgram) -> FoldedProgram:
    return guard(fold(program))


@cache
def _lowered(name: str, params: tuple[tuple[str, ParamValue], ...]) -> tuple[Scheduled, Plan]:
    program = sample(name, **dict(params))
    return to_scheduled(program), lower(program)


def scheduled_sample(name: str, **params: ParamValue) -> Scheduled:
    return _lowered(name, tuple(sorted(params.items())))[0]


def planned_sample(name: str, **params: ParamValue) -> Plan:
    return _lowered(name, tuple(sorted(params.items())))[1]


def schedule_of(text: str, directives: str) -> str:
    """A spec with all its schedules replaced by one for Hopper that holds these directives."""
    start = text.find("schedule ")
    end = text.rindex("}")
    bare = text if start < 0 else text[:start] + text[end:]
    end = bare.rindex("}")
    return f"{bare[:end]}  schedule hopper {{ {directives} }}\n{bare[end:]}"


def unscheduled(text: str) -> str:
    """A spec without any schedule."""
    start = text.find("schedule ")
    return text if start < 0 else text[:start] + text[text.rindex("}") :]


def refused(text: str, **params: ParamValue) -> Diagnostic:
    """The one diagnostic with which lowering a spec stops."""
    with pytest.raises(TilegenError) as error:
        lower(loaded(text, **params))
    (diagnostic,) = error.value.diagnostics
    return diagnostic
