"""Kernels for sm_80: their machine code, and their PTX in the emulator against the oracle."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tests.passes.specs import SAMPLES, loaded, text_of
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.machines import MACHINES
from tilegen.oracle import batch_axes, compare, evaluate, poisoned, random_inputs, scalar_values
from tilegen.passes.pipeline import lower
from tilegen.runtime.compiler import assemble, compiled_for, emit
from tilegen.runtime.kernel import Kernel
from tilegen.targets.hopper.nvrtc import compile_cuda
from tilegen.targets.hopper.sass import disassemble, parse_sass

ATTENTION = {"B": 1, "Hk": 2, "G": 2}
FACTORS = """
kernel factors {{
  size   M, N, K
  input  A: bf16[{A}]
  input  B: bf16[{B}]
  output C: f32[M, N]

  tile a[{a}] = A[{a}]
  tile b[{b}] = B[{b}]

  C[m, n] = sum[k](a[{a}] * b[{b}])

  schedule sm_80 {{ block m 128, n 32, k {k}  warp_rows {rows} }}
}}
"""


@cache
def kernel(name: str, schedule: str = "", **params: object) -> Kernel:
    """A sample's kernel, with a schedule for sm_80 if one is given."""
    text = (SAMPLES / f"{name}.tile").read_text(encoding="utf-8")
    own = f"schedule sm_80 {{ {schedule} }} }}" if schedule else "}"
    return tilegen.compile(text[: text.rindex("}")] + own, target="sm_80", **params)


def causal() -> Kernel:
    """Attention by warps of 32 rows, in several blocks of keys."""
    return kernel("fa3_fwd", "block j 64  warp_rows 32", D=64, T="f16", causal=True)


def right(k: Kernel, sizes: dict[str, int], seed: int = 0) -> None:
    """Run on random data, outputs full of NaN, and compare with the float64 value of the spec's equations."""
    program, scalars = k.program, scalar_values(k.program, sizes, {})
    inputs, outputs = random_inputs(program, sizes, seed), poisoned(program, sizes)
    k(**inputs, **outputs, **sizes, **scalars)
    for name, wanted in evaluate(program, sizes, scalars, inputs).items():
        found = compare(wanted, outputs[name], batch_axes(program, name))
        assert found.right, (name, found)


@pytest.mark.parametrize(("M", "N", "K"), [(1, 8, 8), (137, 136, 200), (257, 72, 64), (64, 8, 0)])
def test_products(M: int, N: int, K: int) -> None:
    right(kernel("gemm"), {"M": M, "N": N, "K": K})


@pytest.mark.parametrize(("D", "schedule"), [(48, ""), (56, ""), (256, "stages k 1, v 2")])
def test_steps_that_keep_all_their_values_in_registers(D: int, schedule: str) -> None:
    text = text_of("fa3_fwd")
    text = f"{text[: text.rindex('}')]} schedule sm_80 {{ {schedule} }} }}" if schedule else text
    plan = lower(loaded(text, D=D, causal=True), "sm_80")
    assert assemble(plan, emit(plan), "worker").diagnostics == ()


def test_products_by_warps_of_16_rows() -> None:
    """Those of the other tests have 32."""
    k = kernel("gemm", "warp_rows 16  block m 128, n 48, k 32")
    assert (k.variants[0].plan.threads, kernel("gemm").variants[0].plan.threads) == (256, 128)
    right(k, {"M": 140, "N": 56, "K": 72})


@pytest.mark.parametrize(
    ("a", "b", "k", "rows"), [("k, m", "k, n", 32, 16), ("m, k", "n, k", 16, 32), ("k, m", "n, k", 32, 32)]
)
def test_factors_that_run_either_way(a: str, b: str, k: int, rows: int) -> None:
    """Along what is contracted or across it, in lines of 32, 64 and 128 bytes."""
    made = tilegen.compile(FACTORS.format(a=a, A=a.upper(), b=b, B=b.upper(), k=k, rows=rows), target="sm_80")
    right(made, {"M": 136, "N": 40, "K": 72})


def test_what_is_missing_is_found_when_a_launch_is_watched() -> None:
    """Races of copies, products and looks between meetings: none in what is made, one where a wait or a meeting is left
    out of it."""
    k, sizes = kernel("gemm"), {"M": 130, "N": 72, "K": 200}
    arguments = {**random_inputs(k.program, sizes, 1), **poisoned(k.program, sizes), **sizes}
    k.emulate(arguments)
    text = k.variants[0].ptx
    for whole, wrong in (("bar.sync", "// bar.sync"), ("cp.async.wait_group 1", "cp.async.wait_group 2")):
        assert whole in text
        with pytest.raises(TilegenError) as caught:
            k.emulate(arguments, ptx=text.replace(whole, wrong))
        assert all(d.code.startswith("EMULATED") for d in caught.value.diagnostics)


@pytest.mark.parametrize("pitch", [71, 70, 68])
def test_products_of_rows_that_begin_anywhere(pitch: int) -> None:
    """Copies of an element, of 4 and of 8 bytes."""
    k, g = kernel("gemm"), np.random.default_rng(pitch)
    a = g.standard_normal((70, pitch)).astype(ml_dtypes.bfloat16)[:, :67]
    b = g.standard_normal((67, 96)).astype(ml_dtypes.bfloat16)[:, :72]
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(k(A=a, B=b).astype(np.float64) - wanted) < 3e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize(("Sq", "Sk"), [(1, 1), (130, 200), (70, 3), (3, 0)])
def test_causal_attention(Sq: int, Sk: int) -> None:
    right(causal(), ATTENTION | {"Sq": Sq, "Sk": Sk})


def test_heads_that_are_no_whole_lines() -> None:
    right(kernel("fa3_fwd", "block j 32", D=40), ATTENTION | {"Sq": 65, "Sk": 137})


def test_what_a_row_does_not_see_stays_out() -> None:
    """NaN in values behind the diagonal reaches the rows that see it, and changes no bit of the others."""
    k, sizes = causal(), ATTENTION | {"Sq": 100, "Sk": 100}
    inputs = random_inputs(k.program, sizes, 3)
    clean = k(**inputs).O.copy()
    inputs["V"][0, 70, 1] = np.nan
    spoilt = k(**inputs).O
    seen = np.zeros((100, 4), bool)
    seen[70:, 2:] = True
    assert np.isnan(spoilt[0][seen]).all()
    assert np.array_equal(spoilt[0][~seen].view(np.uint16), clean[0][~seen].view(np.uint16))


def test_two_loops_over_one_ring() -> None:
    right(kernel("row_softmax"), {"M": 130, "N": 136})


def test_the_machine_code_has_what_sm_80_has() -> None:
    """One program for sm_80: copies with and without zero fill, matrices, products of warps; and nothing of Hopper."""
    k = kernel("gemm")
    variant = k.variants[0]
    assert "for sm_80." in variant.cuda
    assert ".target sm_80" in variant.ptx
    (function,) = parse_sass(variant.sass).functions
    opcodes = {i.opcode for i in function.instructions}
    assert {"LDGSTS.E.BYPASS.128", "LDGSTS.E.BYPASS.128.ZFILL", "HMMA.16816.F32.BF16", "LDGDEPBAR"} <= opcodes
    assert any(o.startswith("LDSM.16.MT88") for o in opcodes) and any(o.startswith("LDSM.16.M88") for o in opcodes)
    assert not [o for o in opcodes if o.startswith(("UTMA", "HGMMA", "SYNCS", "ELECT", "STL", "LDL"))]


def test_the_same_text_is_compiled_for_later_gpus() -> None:
    machine = MACHINES["sm_80"]
    found = [machine.architecture_on(c) for c in ((8, 0), (8, 9), (9, 0), (12, 0))]
    assert found == ["sm_80", "sm_80", "sm_90", "sm_120"]
    assert not machine.has((7, 5)) and machine.has((9, 0)) and not MACHINES["hopper"].has((10, 0))
    variant = kernel("copy").variants[0]
    sass = disassemble(compiled_for("sm_90", variant.plan, variant.cuda))
    assert ".target\tsm_90" in sass or "sm_90" in sass
    assert "sm_90" not in variant.sass


def test_what_does_not_compile_for_it_is_told() -> None:
    with pytest.raises(TilegenError, match="CUDA_COMPILE"):
        compile_cuda('__global__ void k() { asm("elect.sync _|p, 1;"); }', "k", "sm_80")


def test_tuned_schedules_are_of_hopper() -> None:
    with pytest.raises(TilegenError) as caught:
        tilegen.compile(Path(SAMPLES / "copy.tile"), target="sm_80", tuned=True)
    assert [d.code for d in caught.value.diagnostics] == ["TUNED_TARGET"]


def test_mls_has_no_kernel_to_call() -> None:
    with pytest.raises(TilegenError) as caught:
        tilegen.compile(Path(SAMPLES / "copy.tile"), target="mls")
    assert [d.code for d in caught.value.diagnostics] == ["TARGET_UNSUPPORTED"]
