"""Disassembly, its parser, and the control flow found in it."""

from __future__ import annotations

import pytest

from tests.hopper.snippets import SAXPY, STREAM
from tilegen.diagnostics.core import TilegenError
from tilegen.targets.hopper import sass
from tilegen.targets.hopper.nvrtc import compile_cuda
from tilegen.targets.hopper.sass import Function, Place, count, disassemble, histogram, parse_sass


def built(source: str, name: str) -> Function:
    return parse_sass(disassemble(compile_cuda(source, name).cubin)).function(name)


def test_instructions_carry_the_lines_that_the_text_named() -> None:
    f = built(SAXPY, "saxpy")
    (fma,) = [i for i in f.instructions if i.is_a("FFMA")]
    assert fma.places[0] == Place("axpy.tile", 6)
    assert fma.operands[0].startswith("R")
    assert len(fma.operands) == 4
    assert count(f.instructions, "STG") == 1
    assert count(f.instructions, "ST") == 0
    assert f.loops == ()


def test_inlining_is_told_from_the_inside_out() -> None:
    source = """__device__ __forceinline__ float twice(float x) {
#line 3 "a.tile"
  return x * x;
}
extern "C" __global__ void k(float* p) {
#line 9 "a.tile"
  p[0] = twice(p[1]);
}
"""
    (mul,) = [i for i in built(source, "k").instructions if i.is_a("FMUL")]
    assert mul.places == (Place("a.tile", 3), Place("a.tile", 9))


def test_the_streamed_loop_is_found_with_its_products() -> None:
    f = built(STREAM, "stream")
    (loop,) = f.product_loops
    code = f.code(loop.always)
    assert count(code, "HGMMA") == 2
    assert count(code, "WARPGROUP.DEPBAR") == 2
    assert count(code, "WARPGROUP.ARRIVE") == 2
    assert count(code, "MUFU.EX2") == 4
    assert histogram(code)["HGMMA.64x8x16.F32.BF16"] == 2
    assert {i.places[0] for i in code if i.is_a("MUFU.EX2")} == {Place("stream.tile", 30)}
    (spin,) = [p for p in f.loops if p.header in loop.children]
    assert count(f.code(sorted(spin.blocks)), "SYNCS.PHASECHK") == 1
    assert f.evidence()["HGMMA"] == 2
    assert f.evidence()["UTMALDG"] == 0


def test_arrivals_that_expect_no_bytes_are_not_evidence_of_counted_bytes() -> None:
    f = listing("SYNCS.ARRIVE.TRANS64 RZ, [UR4], R0", "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4+0x8], RZ", "EXIT")
    assert f.evidence()["SYNCS.ARRIVE.TRANS64"] == 1


def test_register_splits_and_elections_are_evidence() -> None:
    source = """extern "C" __global__ void __launch_bounds__(384, 1) k(float* p) {
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    unsigned one;
    asm volatile("{ .reg .pred q; elect.sync _|q, 0xffffffff; selp.u32 %0, 1, 0, q; }" : "=r"(one));
    if (one) p[1] = 3;
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    p[threadIdx.x] = 2;
  }
}
"""
    f = built(source, "k")
    assert sorted(f.register_counts()) == [24, 240]
    assert f.evidence()["ELECT"] == 1
    assert f.evidence()["USETMAXREG"] == 2


def listing(*lines: str) -> Function:
    """A function from "label:" and "[predicate] opcode operands" lines."""
    text, address = [".text.k:"], 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
        else:
            text.append(f"        /*{address:04x}*/                   {line} ;")
            address += 16
    return parse_sass("\n".join(text)).function("k")


def test_operands_annotations_and_predicates_are_told_apart() -> None:
    f = listing('@!UP1 STL.64 [R1+0x8], R2   (*"SpillRefill"*)', "MUFU.EX2 R3, -R4", "EXIT")
    store, mufu, leave = f.instructions
    assert (store.predicate, store.opcode, store.operands) == ("@!UP1", "STL.64", ("[R1+0x8]", "R2"))
    assert store.is_a("STL")
    assert not store.is_a("STL.128", "ST")
    assert mufu.operands == ("R3", "-R4")
    assert leave.operands == ()
    assert str(store) == "@!UP1 STL.64 [R1+0x8], R2"


def test_a_loop_with_a_cold_arm_and_a_spin_out_of_line() -> None:
    f = listing(
        "MOV R0, RZ",
        ".L_x_0:",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R8",
        "@!P0 BRA `(.L_x_9)",
        ".L_x_1:",
        "HGMMA.64x8x16.F32.BF16 R24, gdesc[UR4], R24, gsb0",
        "@P1 BRA `(.L_x_2)",
        "FMUL R1, R1, R2",
        ".L_x_2:",
        "WARPGROUP.DEPBAR.LE gsb0, 0x0",
        "@P2 BRA `(.L_x_0)",
        "EXIT",
        ".L_x_9:",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R8",
        "@!P0 BRA `(.L_x_9)",
        "BRA `(.L_x_1)",
    )
    outer, spin = f.loops
    assert f.product_loops == (outer,)
    assert outer.children == (spin.header,)
    assert count(f.code(sorted(outer.blocks)), "SYNCS") == 2
    assert [i.opcode for i in f.code(outer.always)] == [
        "SYNCS.PHASECHK.TRANS64.TRYWAIT", "BRA", "HGMMA.64x8x16.F32.BF16", "BRA", "WARPGROUP.DEPBAR.LE", "BRA",
    ]  # fmt: skip
    assert [i.opcode for i in f.code(sorted(spin.blocks))] == ["SYNCS.PHASECHK.TRANS64.TRYWAIT", "BRA"]


def test_a_nest_has_its_innermost_product_loop_only() -> None:
    f = listing(
        ".L_x_0:",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4], R24",
        ".L_x_1:",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4], R24",
        "@P0 BRA `(.L_x_1)",
        "@P1 BRA `(.L_x_0)",
        "EXIT",
    )
    outer, inner = f.loops
    assert inner.blocks < outer.blocks
    assert outer.children == (inner.header,)
    assert f.product_loops == (inner,)


def test_a_divergent_region_rejoins_where_its_bssy_says() -> None:
    """BSYNC goes to the target of the BSSY that reaches it, not to the next instruction."""
    f = listing(
        ".L_x_0:",
        "BSSY B0, `(.L_x_3)",
        "@P0 BRA `(.L_x_2)",
        "BSYNC B0",
        "EXIT",
        ".L_x_2:",
        "BSYNC B0",
        ".L_x_3:",
        "@P1 BRA `(.L_x_0)",
        "EXIT",
    )
    (loop,) = f.loops
    assert count(f.code(sorted(loop.blocks)), "BSYNC") == 2
    assert [i.opcode for i in f.code(loop.always)] == ["BSSY", "BRA", "BRA"]


def test_code_after_an_unconditional_exit_is_in_no_loop() -> None:
    f = listing("EXIT", ".L_x_0:", "HGMMA.64x8x16.F32 R24, gdesc[UR4], R24", "BRA `(.L_x_0)")
    assert f.product_loops == ()


def test_an_absent_or_failing_disassembler_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TilegenError, match="DISASSEMBLER_FAILED"):
        disassemble(b"no cubin")
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", "/dev/null/nowhere")
        with pytest.raises(TilegenError, match=r"DISASSEMBLER_FAILED.*Not a directory"):
            disassemble(b"")
    monkeypatch.setattr(sass, "nvdisasm", lambda: None)
    with pytest.raises(TilegenError, match="DISASSEMBLER_MISSING"):
        disassemble(b"")
