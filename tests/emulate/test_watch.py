"""Watched launches: each fault fires where one line of a kernel's PTX is taken away, and right kernels raise none."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilegen
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.oracle import poisoned, random_inputs
from tilegen.runtime.kernel import Kernel

SAMPLES = Path(__file__).parents[2] / "samples"
SIZES = {"B": 1, "Sq": 300, "Sk": 300, "Hk": 2, "G": 2}


@cache
def attention() -> Kernel:
    return tilegen.compile(SAMPLES / "fa3_fwd.tile", D=64, causal=True)


@cache
def arguments() -> dict[str, Any]:
    program = attention().program
    return {**random_inputs(program, SIZES, 0), **poisoned(program, SIZES)}


def edited(pattern: str, number: int = 0, by: str = "//") -> str:
    """The kernel's PTX with one of the lines that match, counted from 0, replaced."""
    lines = attention().ptx.splitlines()
    at = [n for n, line in enumerate(lines) if re.match(pattern, line.strip())][number]
    lines[at] = by
    return "\n".join(lines)


def found(ptx: str, seed: int | None = None) -> Diagnostic:
    with pytest.raises(TilegenError) as caught:
        attention().emulate(arguments(), ptx=ptx, seed=seed)
    assert len(caught.value.diagnostics) == 1
    return caught.value.diagnostics[0]


_PASSED = "setp.eq.u32 done, 0, 0;"


@pytest.mark.parametrize(
    ("code", "pattern", "number", "by", "words"),
    [
        ("EMULATED_RACE", r"mbarrier\.try_wait", 1, _PASSED, "q, stage 0, part 0, and nothing orders it"),
        ("EMULATED_RACE", r"mbarrier\.try_wait", 5, _PASSED, "of k, stage 0"),
        ("EMULATED_RACE", r"bar\.sync\s+0;", 0, "//", "is not known to be initialised where the "),
        ("EMULATED_RACE", r"cp\.async\.bulk\.wait_group\.read", 0, "//", "O.staging"),
        ("EMULATED_PROXY", r"fence\.proxy\.async", 2, "//", "no fence.proxy.async lies between it and"),
        ("EMULATED_UNWRITTEN", r"stmatrix", 0, "//", "O.staging, stage 0, part 0, which nothing has written"),
        ("EMULATED_IN_FLIGHT", r"wgmma\.wait_group", 0, "//", "in flight"),
        ("EMULATED_IN_FLIGHT", r"wgmma\.commit_group", 0, "//", "in flight"),
        ("EMULATED_REGISTER_FENCE", r"wgmma\.fence", 0, "//", "no wgmma.fence"),
        ("EMULATED_UNAWAITED", r"cp\.async\.bulk\.wait_group 0", 0, "//", "ends while a store of its own may still"),
    ],
)  # fmt: skip
def test_what_is_undefined_is_a_fault(code: str, pattern: str, number: int, by: str, words: str) -> None:
    fault = found(edited(pattern, number, by))
    assert fault.code == code and words in fault.message


def test_a_fault_names_statement_role_and_slot() -> None:
    fault = found(edited(r"mbarrier\.try_wait", 1, _PASSED))
    program = attention().program
    assert fault.span == program.definition("s").span
    assert "a product of the consumer (warp 4)" in fault.message and "byte 0 of q, stage 0, part 0" in fault.message
    (note,) = fault.notes
    assert note.span == next(m.span for m in program.moves if m.name == "q")


def test_the_kernel_itself_raises_none() -> None:
    assert np.isfinite(attention().emulate(arguments()).O.astype(np.float32)).all()
