"""Watched launches: each fault fires where one line of a kernel's PTX is taken away, and right kernels raise none."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilegen
from tests.emulate.device import DEVICE
from tests.emulate.support import run
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.emulate.memory import GlobalMemory
from tilegen.emulate.ptx.watch.context import Context
from tilegen.oracle import poisoned, random_inputs
from tilegen.runtime.kernel import Kernel
from tilegen.targets.hopper.tensor_map import TensorMap

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


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_the_kernel_itself_raises_none(seed: int | None) -> None:
    """At whatever times engines finish and warps run, to the same bits."""
    made = attention().emulate(arguments(), seed=seed).O
    assert np.array_equal(made, plain())


@cache
def plain() -> np.ndarray:
    """O of a run that is not watched."""
    made: np.ndarray = attention().emulate(arguments(), watch=False, seed=None).O.copy()
    assert np.isfinite(made.astype(np.float32)).all()
    return made


LOADS = (
    DEVICE
    + """
extern __shared__ __align__(1024) u8 smem[];
DEV void load(u32 to, const TMap* m, u32 b) {
  asm volatile("cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {0}], [%2];"
               :: "r"(to), "l"(m), "r"(b) : "memory");
}
extern "C" __global__ void k(const __grid_constant__ TMap m, u32 bytes) {
  __shared__ __align__(8) u64 bar; const u32 b = shared(&bar);
  if (threadIdx.x == 0) { init(b, 1); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
  __syncthreads();
  if (threadIdx.x == 0) { expect(b, bytes); load(shared(smem), &m, b); load(shared(smem) + 128, &m, b); }
  wait(b, 0);
}
"""
)


@pytest.mark.parametrize(("seed", "code"), [(None, "EMULATED_UNAWAITED"), (0, "EMULATED_PHASE")])
def test_bytes_that_nobody_expects(seed: int | None, code: str) -> None:
    """Two boxes, and an mbarrier that expects one: the other lands before anybody looks, or when its phase is over."""
    with pytest.raises(TilegenError) as caught:
        two_boxes(128, seed)
    assert caught.value.diagnostics[0].code == code
    two_boxes(256, seed)


def two_boxes(expected: int, seed: int | None) -> None:
    memory = GlobalMemory()
    tm = TensorMap("u16", memory.alloc(np.zeros(64, np.uint16)), (64,), (), (64,))
    run(LOADS, tm.to_bits(), expected, shared=256, memory=memory, watch=Context(), seed=seed)
