"""Hand-written plans through NVRTC and ptxas: they compile, to machine code like that of good hand-written kernels."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from tests.emit.plans import attention_plan, copy_plan, gemm_plan
from tests.emit.test_lines import lines_of
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import Plan
from tilegen.targets.hopper.build import Built, build
from tilegen.targets.hopper.emit import emit
from tilegen.targets.hopper.emit.lines import directed
from tilegen.targets.hopper.sass import MOVES, Function, count, parse_sass

PLANS = {"copy": copy_plan(), "gemm": gemm_plan(), "attention": attention_plan()}


@cache
def built(name: str) -> Built:
    return build(PLANS[name])


def code(name: str) -> Function:
    return parse_sass(built(name).sass).function(name)


@pytest.mark.parametrize("name", PLANS)
def test_the_machine_code_is_as_planned(name: str) -> None:
    b = built(name)
    assert b.diagnostics == ()
    assert b.usage.spill_store_bytes == b.usage.spill_load_bytes == b.usage.stack_bytes == 0
    assert b.usage.registers == b.plan.registers_at_entry


@pytest.mark.parametrize("name", PLANS)
def test_the_text_needs_no_header_and_is_silent_in_the_compiler(name: str) -> None:
    b = built(name)
    assert "#include" not in b.cuda
    assert "#if" not in b.cuda
    assert "#define" not in b.cuda
    assert "warning" not in b.log
    assert "\0" not in b.cuda


@pytest.mark.parametrize("name", PLANS)
def test_every_function_is_used(name: str) -> None:
    text = built(name).cuda
    for function in re.findall(r"^__device__ \w+ \w+ (\w+)\(", text, re.M):
        assert len(re.findall(rf"\b{function}\(", text)) >= 2, function


def test_the_ptx_uses_the_hardware() -> None:
    ptx = built("attention").ptx
    for word in (
        "cp.async.bulk.tensor.5d.shared::cluster.global", "mbarrier.arrive.expect_tx", "elect.sync",
        "setmaxnreg.inc", "setmaxnreg.dec", "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16", "bar.sync",
    ):  # fmt: skip
        assert word in ptx
    assert "cp.async.bulk.tensor.2d.global.shared::cta" in built("copy").ptx


def test_a_step_of_attention_costs_what_it_costs_by_hand() -> None:
    """The hand-tuned kernel's masked step is 472 instructions; both loops keep all descriptors uniform."""
    kernel = code("attention")
    straddling, inside = sorted(kernel.product_loops, key=lambda p: -len(kernel.code(sorted(p.blocks))))
    for loop, most in ((straddling, 475), (inside, 370)):
        step = kernel.code(sorted(loop.blocks))
        assert count(step, "HGMMA") == 13
        assert count(step, "MUFU.EX2") == 42
        assert count(step, "R2UR") == 0
        assert count(step, *MOVES) <= 4
        assert count(step, "LDL", "STL") == 0
        assert len(step) <= most


def test_the_issuer_is_elected_once() -> None:
    kernel = code("attention")
    assert count(kernel.instructions, "ELECT") == 1
    assert kernel.evidence()["UTMALDG"] == 7  # k, v and three of q; k and v again in the loop


def test_statements_carry_their_spec_line_down_to_the_machine_code() -> None:
    """ptxas marks lines where it sees them change, so instructions that it moved may bear a neighbour's."""
    kernel = code("attention")

    def commonest(opcode: str, n: int) -> set[int]:
        found = Counter(
            p.line for i in kernel.instructions if i.is_a(opcode) for p in i.places if p.file == "attention.tile"
        )
        return {line for line, _ in found.most_common(n)}

    assert commonest("UTMALDG", 3) == {12, 13, 14}
    assert commonest("HGMMA", 2) == {16, 18}
    assert commonest("MUFU.EX2", 1) == {17}
    assert commonest("STG", 2) == {18, 19}


def test_scaffolding_belongs_to_the_generated_file() -> None:
    text = built("attention").cuda
    physical = {line.strip(): n for n, line in enumerate(text.splitlines(), 1)}
    found = lines_of(directed(text, "attention.cu", "attention.tile"), "attention.cu")
    for line in ("const int warpgroup = group - 1;", "__syncthreads();"):
        assert found[line] == ("attention.cu", physical[line])


def test_f16_uses_f16_instructions() -> None:
    text = emit(attention_plan(DType.F16))
    assert "m64n80k16.f32.f16.f16" in text
    assert "cvt.rn.f16x2.f32" in text
    assert "bf16" not in text


@pytest.mark.parametrize("name", PLANS)
def test_text_is_the_same_each_time(name: str) -> None:
    assert emit(PLANS[name]) == built(name).cuda


def test_descriptors_of_both_majors() -> None:
    """Bits of the wgmma descriptors: 128B swizzle is 1 at 63:62; offsets are in 16 bytes."""
    text = emit(gemm_plan())
    assert "mov.b64 da, { %128, 0x40000040};" in text  # stride 1024
    assert "a_low = a >> 4 | 0x10000, b_low = b >> 4 | 0x2000000;" in text  # leading: 16, 8192
    assert "da, db, 1, 1, 1, 0, 1;" in text


def _plan_without_stride() -> Plan:
    plan = gemm_plan()
    return replace(plan, params=tuple(p for p in plan.params if type(p).__name__ != "StrideParam"))


def test_a_plan_that_lacks_a_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match=r"C: the plan has no parameter for the stride of dimension 0"):
        emit(_plan_without_stride())
