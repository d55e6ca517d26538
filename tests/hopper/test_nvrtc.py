"""Compiling with NVRTC: both outputs, the log's figures, and errors placed on the spec line."""

from __future__ import annotations

import pytest

from tests.hopper.snippets import MMA, SAXPY
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.targets.hopper import nvrtc, nvrtc_library
from tilegen.targets.hopper.nvrtc import Usage, compile_cuda, parse_usage, scan_log
from tilegen.targets.hopper.nvrtc_library import nvrtc_version


def faults(source: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(TilegenError) as caught:
        compile_cuda(source, "k")
    return caught.value.diagnostics


def test_one_program_gives_ptx_and_cubin() -> None:
    c = compile_cuda(SAXPY, "saxpy")
    assert ".target sm_90a" in c.ptx
    assert ".entry saxpy" in c.ptx
    assert "fma.rn.f32" in c.ptx
    assert not c.ptx.endswith("\0")
    assert c.cubin[:4] == b"\x7fELF"
    assert c.nvrtc_version >= (13, 0)
    assert 0 < c.seconds < 60
    (usage,) = c.usage
    assert usage.entry == "saxpy"
    assert 4 <= usage.registers <= 64
    assert usage.spill_store_bytes == usage.spill_load_bytes == 0


def test_an_empty_log_is_not_written_into_shared_bytes() -> None:
    """CPython has one object for every b" ": a NUL in it breaks whatever is imported next."""
    ok, log, ptx, _ = nvrtc._compile(SAXPY, "saxpy.cu", ["--gpu-architecture=compute_90a"], ("PTX",))
    assert ok
    assert log == ""
    assert b".entry saxpy" in ptx
    assert bytes([32])[0] == 32


def test_compiling_again_keeps_the_figures_of_the_log() -> None:
    """Where there is a driver, from its cache NVRTC would bring the machine code alone."""
    first, second = (compile_cuda(SAXPY, "saxpy") for _ in range(2))
    assert first.usage == second.usage != ()


def test_line_directives_reach_the_ptx_under_their_own_names() -> None:
    ptx = compile_cuda(SAXPY, "saxpy").ptx
    assert '"axpy.tile"' in ptx
    assert '"saxpy.cu"' in ptx
    assert "axpy.tile" not in compile_cuda(SAXPY, "saxpy", include_line_info=False).ptx


def test_division_stays_exact() -> None:
    """No fast-math flag: an IEEE division is not turned into an approximate one."""
    source = 'extern "C" __global__ void k(float* p) { p[0] = p[1] / p[2]; }'
    assert "div.rn.f32" in compile_cuda(source, "k").ptx


def test_all_errors_are_placed_on_the_spec_line() -> None:
    source = """extern "C" __global__ void k(float* p) {
#line 12 "fa3.tile"
  p[0] = q;
#line 3 "k.cu"
  p[1] = z;
}
"""
    first, second = faults(source)
    assert (first.code, second.code) == ("CUDA_COMPILE", "CUDA_COMPILE")
    assert str(first.span) == "fa3.tile:12:1"
    assert '"q" is undefined' in first.message
    assert second.span is None
    assert second.got == "k.cu:3"


def test_an_error_of_the_assembler_is_placed_on_the_spec_line() -> None:
    source = """extern "C" __global__ void k(float* p) {
#line 7 "fa3.tile"
  p[1] = 2;
#line 12 "fa3.tile"
  asm volatile("foo.bar %0;" :: "f"(p[0]));
}
"""
    found = faults(source)
    assert {d.code for d in found} == {"CUDA_COMPILE"}
    assert {str(d.span) for d in found} == {"fa3.tile:12:1"}
    assert any("foo" in d.message for d in found)


def test_serialised_products_are_an_error_on_the_spec_line() -> None:
    source = (
        MMA
        + """
extern "C" __global__ void __launch_bounds__(128, 1) k(float* p, u64 a, u64 b) {
  float d[4] = {p[0], p[1], p[2], p[3]};
  FENCE();
#line 21 "fa3.tile"
  MMA8(d, a, b);
  d[0] += 1.0f;
#line 22 "fa3.tile"
  MMA8(d, a, b);
  COMMIT(); WAIT(0);
  p[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
"""
    )
    found = faults(source)
    assert "MMA_SERIALISED" in [d.code for d in found]
    assert {d.span.file for d in found if d.span} <= {"fa3.tile"}
    if nvrtc_version() >= (13, 5):  # older ones do not say where
        assert all(d.span for d in found)


def test_an_injected_wait_is_an_error() -> None:
    source = (
        MMA
        + """
extern "C" __global__ void __launch_bounds__(128, 1) k(float* p, u64 a, u64 b) {
  float d[4] = {p[0], p[1], p[2], p[3]};
  FENCE();
  MMA8(d, a, b);
  COMMIT();
  p[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
"""
    )
    assert [d.code for d in faults(source)] == ["WAIT_INJECTED"]
    good = source.replace("COMMIT();\n  p", "COMMIT(); WAIT(0);\n  p")
    assert compile_cuda(good, "k").cubin


def test_an_ignored_register_split_is_an_error() -> None:
    source = """extern "C" __global__ void __launch_bounds__(128) k(float* p) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
  p[threadIdx.x] = 1;
}
"""
    (d,) = faults(source)
    assert d.code == "SET_REGISTERS_IGNORED"
    assert "register count at entry" in d.message
    assert compile_cuda(source.replace("(128)", "(128, 1)"), "k").cubin


def test_messages_are_matched_by_text_not_by_code() -> None:
    log = """ptxas info    : (C9999) Potential Performance Loss: wgmma.mma_async instructions are serialized due to X in the function 'k'
ptxas info    : (C1) warpgroup.arrive is injected in around line 5 by compiler to allow use of registers in function 'k'
ptxas info    : (C2) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility into 'extern' call.
ptxas info    : 0 bytes gmem"""  # noqa: E501
    assert [d.code for d in scan_log(log)] == ["MMA_SERIALISED", "WAIT_INJECTED", "SET_REGISTERS_IGNORED"]


def test_usage_is_read_for_each_entry() -> None:
    log = """ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
ptxas         .     72 bytes stack frame, 116 bytes spill stores, 120 bytes spill loads
ptxas info    : Used 128 registers, used 16 barriers, 72 bytes cumulative stack size
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers"""
    assert parse_usage(log) == (Usage("a", 128, 72, 116, 120, 16), Usage("b", 10, 0, 0, 0, 0))


@pytest.mark.parametrize("error", [OSError, RuntimeError, ImportError])
def test_a_missing_library_is_told_in_words(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise error("libnvrtc.so.13 not found")

    monkeypatch.setattr(nvrtc_library, "_library", absent)
    with pytest.raises(TilegenError, match=r"NVRTC_MISSING.*libnvrtc"):
        nvrtc_version()


def test_a_library_in_no_wheel_is_looked_for_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc_library, "nvrtc_library", lambda: None)
    nvrtc_library._library.cache_clear()
    try:
        assert nvrtc_version() >= (13, 0)
    finally:
        nvrtc_library._library.cache_clear()


def test_a_failing_call_is_told_in_words() -> None:
    with pytest.raises(TilegenError, match=r"NVRTC_FAILED.*INVALID_OPTION"):
        nvrtc._compile(SAXPY, "saxpy.cu", ["--no-such-option"], ("PTX",))
