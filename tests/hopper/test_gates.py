"""Gates: each fires on code that breaks it, and is silent on code that keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.hopper.snippets import STREAM
from tests.hopper.test_sass import built, listing
from tests.passes.specs import loaded
from tilegen.diagnostics.core import Diagnostic
from tilegen.passes.pipeline import lower
from tilegen.syntax.span import Span
from tilegen.targets.hopper.build import build
from tilegen.targets.hopper.emit.expectations import expectations
from tilegen.targets.hopper.emit.names import kernel_name
from tilegen.targets.hopper.gates import KernelGate, LoopGate, Under, check_gates
from tilegen.targets.hopper.sass import Function, parse_sass

HERE = Span("stream.tile", 30, 1, 30, 9)
LOOP = LoopGate(
    name="the stream over j",
    span=HERE,
    products=2,
    commits=2,
    waits=2,
    arrivals=2,
    order=(("mma", 1), ("mma", 1), ("wait", 1), ("wait", 0)),
    under=(Under("p", "O", 1, "MUFU.EX2", 4, HERE),),
)
KERNEL = KernelGate((LOOP,), HERE, evidence=(("HGMMA", 2),))


def codes(function: Function, gate: KernelGate = KERNEL) -> list[str]:
    return [d.code for d in check_gates(function, gate)]


def only(function: Function, gate: KernelGate = KERNEL) -> Diagnostic:
    (d,) = check_gates(function, gate)
    return d


STEP = (
    "WARPGROUP.ARRIVE",
    "HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT, gsb0",
    "WARPGROUP.ARRIVE",
    "HGMMA.64x8x16.F32 R28, gdesc[UR8], R28, gsb0",
    "WARPGROUP.DEPBAR.LE gsb0, 0x1",
    *("MUFU.EX2 R5, R24",) * 4,
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R8",
    "WARPGROUP.DEPBAR.LE gsb0, 0x0",
)


def loop(*step: str) -> Function:
    return listing(".L_x_0:", *step, "@P0 BRA `(.L_x_0)", "EXIT")


def test_a_real_kernel_that_keeps_its_plan_passes() -> None:
    assert check_gates(built(STREAM, "stream"), KERNEL) == []


def test_a_real_kernel_unrolled_by_the_compiler_passes() -> None:
    source = STREAM.replace("#pragma unroll 1\n", "#pragma unroll 2\n").replace("n; ++i", "n * 2; ++i")
    f = built(source, "stream")
    assert 4 in [sum(i.is_a("HGMMA") for i in f.code(p.always)) for p in f.product_loops]
    assert check_gates(f, KERNEL) == []


def test_work_that_the_assembler_moves_behind_the_wait_is_found() -> None:
    """A compiler whose exponentials land after the wait for the product they were to run under."""
    late = [s for s in STEP if not s.startswith("MUFU")] + ["MUFU.EX2 R5, R24"] * 4
    d = only(loop(*late))
    assert d.code == "GATE_UNDER"
    assert (d.got, d.wanted, d.span) == ("0", "at least 4", HERE)
    assert "p does not run under O" in d.message


def test_a_step_that_starts_elsewhere_in_the_cycle_passes() -> None:
    for turn in range(len(STEP)):
        assert codes(loop(*STEP[turn:], *STEP[:turn])) == []


def test_wrong_counts_are_named() -> None:
    more = replace(LOOP, commits=1, waits=1, arrivals=1, turn_passes=1, order=(), under=())
    found = check_gates(loop(*STEP, "BAR.SYNC.DEFER_BLOCKING R8, 0x100"), KernelGate((more,), HERE))
    assert [d.code for d in found] == ["GATE_COUNT"] * 5
    assert [(d.got, d.wanted) for d in found] == [("2", "1"), ("2", "1"), ("2", "1"), ("1", "0"), ("0", "1")]
    assert "GATE_COUNT" in codes(loop(*STEP), KernelGate((replace(LOOP, products=3, order=()),), HERE))


def test_local_memory_in_a_product_loop_is_found() -> None:
    d = only(loop(*STEP, "LDL R5, [R1+0x8]", "STL.64 [R1+0x10], R2"))
    assert (d.code, d.got) == ("GATE_LOCAL_MEMORY", "2")


def test_local_memory_outside_product_loops_is_allowed() -> None:
    assert codes(listing("STL [R1], R2", ".L_x_0:", *STEP, "@P0 BRA `(.L_x_0)", "LDL R2, [R1]", "EXIT")) == []


def test_overhead_has_limits() -> None:
    assert codes(loop(*STEP, *["R2UR UR4, R5"] * 4, *["MOV R5, R6"] * 4, *["IMAD.MOV.U32 R7, RZ, RZ, R8"] * 4)) == []
    literals = ["MOV R5, 0xff800000", "IMAD.MOV.U32 R7, RZ, RZ, -0x800000"]  # such as the -inf of `where`
    assert codes(loop(*STEP, *literals * 20)) == []
    assert only(loop(*STEP, *["R2UR UR4, R5"] * 5)).code == "GATE_OVERHEAD"
    assert only(loop(*STEP, *["MOV R5, R6"] * 4, *["IMAD.MOV.U32 R7, RZ, RZ, R8"] * 5)).code == "GATE_OVERHEAD"


def test_overhead_in_a_rare_arm_is_allowed() -> None:
    assert codes(listing(
        ".L_x_0:", *STEP, "@P1 BRA `(.L_x_1)", *["MOV R5, R6"] * 20, ".L_x_1:", "@P0 BRA `(.L_x_0)", "EXIT",
    )) == []  # fmt: skip


def test_a_changed_order_is_found() -> None:
    swapped = [*STEP[:4], STEP[-1], *STEP[5:-1], STEP[4]]
    d = only(loop(*swapped))
    assert d.code == "GATE_ORDER"
    assert d.got == "issue 1, issue 1, wait until 0 pending, wait until 1 pending"


def test_serialised_products_are_found() -> None:
    """One wait after each product: the counts, not the log, tell."""
    step = (STEP[0], STEP[1], STEP[4], STEP[2], STEP[3], "WARPGROUP.DEPBAR.LE gsb0, 0x0", *STEP[4:])
    assert "GATE_COUNT" in codes(loop(*step))


def test_each_loop_meets_the_expectation_that_fits_it() -> None:
    single = replace(LOOP, name="the fold", products=1, commits=1, waits=1, arrivals=1, order=(), under=())
    both = KernelGate((LOOP, single), HERE)
    second = ("WARPGROUP.ARRIVE", STEP[1], "WARPGROUP.DEPBAR.LE gsb0, 0x0")
    two = (".L_x_1:", *second, "@P0 BRA `(.L_x_1)", ".L_x_0:", *STEP, "@P0 BRA `(.L_x_0)", "EXIT")
    assert codes(listing(*two), both) == []


def test_a_loop_may_be_dropped_that_runs_never_or_once() -> None:
    single = replace(LOOP, name="the fold", products=1, commits=1, waits=1, arrivals=1, order=(), under=())
    both = KernelGate((LOOP, single), HERE)
    step = ("WARPGROUP.ARRIVE", STEP[1], "WARPGROUP.DEPBAR.LE gsb0, 0x0")
    body = (".L_x_0:", *STEP, "@P0 BRA `(.L_x_0)")
    assert codes(listing(*body, "EXIT"), both) == []
    assert codes(listing(*step, *body, "EXIT"), both) == []
    missing = only(listing(*step, *step, *body, "EXIT"), both)
    assert missing.code == "GATE_LOOP_MISSING"
    assert "the fold" in missing.message
    assert codes(listing(*step, *step, *body, "EXIT"), replace(both, products_outside=1)) == []
    assert codes(listing(*step, *step, *body, "EXIT"), replace(both, products_outside=2)) == []


def test_a_loop_that_the_plan_has_not_is_found() -> None:
    assert codes(loop(*STEP), KernelGate((), HERE)) == ["GATE_LOOP_UNKNOWN"]


def test_evidence_and_registers_are_compared() -> None:
    gate = replace(KERNEL, evidence=(("UTMALDG", 1),), registers=(24, 240))
    assert codes(loop(*STEP), gate) == ["GATE_EVIDENCE", "GATE_REGISTERS"]
    good = listing(
        "USETMAXREG.DEALLOC.CTAPOOL 0x18", "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xf0", "UTMALDG.2D [UR4], [UR10]",
        ".L_x_0:", *STEP, "@P0 BRA `(.L_x_0)", "EXIT",
    )  # fmt: skip
    assert codes(good, gate) == []


@pytest.mark.parametrize("mode", ["static", "table"])
def test_products_in_the_loop_over_items_are_the_plans_own(mode: str) -> None:
    """Where nothing is streamed no other loop has them."""
    text = f"""
    kernel held {{
      size M  input A: f16[M, 64]  input B: f16[64, 64]  output C: f16[M, 64]
      tile a[m, k] = A[m, k]  tile b[k, n] = B[k, n]
      C[m, n] = sum[k](a[m, k] * b[k, n])
      schedule hopper {{ block m 64 consumers 1 over m persistent {mode} }}
    }}"""
    plan = lower(loaded(text))
    made = build(plan)
    assert made.diagnostics == ()
    (gate,) = expectations(plan).loops
    assert gate.name == "consumer: work items"
    function = parse_sass(made.sass).function(kernel_name(plan.name))
    assert codes(function, replace(expectations(plan), loops=())) == ["GATE_LOOP_UNKNOWN"]
