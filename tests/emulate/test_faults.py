"""What the emulator says when a program is wrong: each entry of the catalogue's emulation section fires."""

# ruff: noqa: E501 — lines of CUDA and PTX are not wrapped

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.device import DEVICE
from tests.emulate.support import PRELUDE, compile_ptx, module_of, run
from tilegen.diagnostics.core import TilegenError
from tilegen.emulate.memory import GlobalMemory
from tilegen.emulate.ptx import launch, parse

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def failure(source: str, *arguments: object, **options: object) -> TilegenError:
    with pytest.raises(TilegenError) as caught:
        run(source, *arguments, **options)  # type: ignore[arg-type]
    assert len(caught.value.diagnostics) == 1
    return caught.value


def body(text: str) -> str:
    return (
        HEAD
        + '.file 1 "spec.tile"\n.visible .entry k()\n{\n.reg .b32 %r<4>;\n.reg .pred %p<2>;\n'
        + text
        + "\nret;\n}\n"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("frobnicate.b32 %r1, %r2;", "frobnicate.b32: no such instruction"),
        ("add.s32.fancy %r1, %r2, %r3;", "modifier .fancy is not known"),
        ("add.f128 %r1, %r2, %r3;", "it has no type"),
        ("shfl.sync.sideways.b32 %r1, %r2, 1, 31, -1;", "it needs one of .up, .down, .bfly, .idx"),
        ("wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%r1}, %r2, %r3, 1, 1, 1, 0, 0;", "do not go together"),
        ("tcgen05.mma %r1;", "tcgen05.mma: no such instruction"),
        ("fence.proxy.quantum;", "modifier .quantum is not known here"),
        ("or.b32 %r1, %r2, %r3, %r2;", "it has 4 operands, not 3"),
        (
            "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
            "[%r1], [%r2, {%r3}], [%r1];",
            "operands",
        ),
        ("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group.L2::cache_hint [%r1, {%r2}], [%r3];", "operands"),
    ],
)
def test_an_unknown_instruction_is_named_with_both_lines(line: str, words: str) -> None:
    with pytest.raises(TilegenError) as caught:
        parse(body(f".loc 1 17 5\n{line}"))
    (found,) = caught.value.diagnostics
    assert found.code == "PTX_UNKNOWN_INSTRUCTION" and words in found.message and "PTX line 10" in found.message
    assert found.span is not None and (found.span.file, found.span.line, found.span.column) == ("spec.tile", 17, 5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (body("add.s32 %r1, %r9, %r2;"), "%r9 is neither a declared register nor a special register"),
        (body("bra NOWHERE;"), "label NOWHERE is not declared"),
        (body("mov.u32 %r1 %r2;"), "expected ',' or ';'"),
        (HEAD + "quux\n", "cannot read 'quux' here"),
        (HEAD + ".visible .entry k() {\n.reg .b32 %r<2>;\n", "the body of k does not end"),
        (HEAD + '.visible .entry k() {\n.pragma "nounroll"\n', "the text ends in the middle of a statement"),
        (HEAD + ".visible .entry k(.param .b32 a", "the text ends in the middle of a statement"),
    ],
)
def test_syntax_faults(text: str, words: str) -> None:
    with pytest.raises(TilegenError) as caught:
        parse(text)
    assert caught.value.diagnostics[0].code == "PTX_SYNTAX" and words in str(caught.value)


def test_line_information_comes_from_the_spec() -> None:
    source = """
#line 30 "/specs/fa.tile"
extern "C" __global__ void k(u32* o) {
  o[threadIdx.x * 100] = 1;
}"""
    module = parse(compile_ptx(source, "-lineinfo"))
    memory = GlobalMemory()
    address = memory.alloc(np.zeros(8, np.uint32))
    with pytest.raises(TilegenError) as caught:
        launch(module, "k", (1, 1, 1), (32, 1, 1), [address.to_bytes(8, "little")], memory, 0)
    (found,) = caught.value.diagnostics
    assert found.code == "EMULATED_FAULT" and found.span is not None
    assert (found.span.file, found.span.line) == ("/specs/fa.tile", 31)
    assert "thread (1, 0, 0), warp 0 lane 1, of CTA (0, 0, 0)" in found.message
    assert f"{address + 400:#x}" in found.message and "st.global" in found.message


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("o[1 << 20] = 1;", "lie in no allocation; the nearest below is uint32[16] at"),
        ("*(u32*)((u8*)o + 2) = 1;", "is not aligned to 4 bytes"),
        ("__shared__ u32 s[4]; ((volatile u32*)s)[threadIdx.x * 64 + 4] = 1;", "are outside shared memory"),
        ("asm volatile(\"trap;\");", "the kernel has stopped itself"),
        ("__shared__ u64 b; arrive(shared(&b));", "no mbarrier has been initialised"),
        ("__shared__ u64 b; init(shared(&b), o[0]);", "arrival count must be 1 to"),
        ("__shared__ u64 b; init(shared(&b), 1); asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0], 2;\" :: \"r\"(shared(&b)));", "2 arrivals on mbarrier"),
        ("__shared__ u64 b; init(shared(&b), 1); expect(shared(&b), 1 << 20);", "over its limit"),
        ("bar_sync(3, 48 + o[0]);", "no multiple of 32"),
        ("bar_sync(16 + o[0], 32);", "there are barriers 0 to 15"),
        ("asm volatile(\"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%2];\" :: \"r\"(1024), \"l\"(o), \"r\"(0));", "128 bytes at"),
        ("asm volatile(\"cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\" :: \"l\"(o), \"r\"(1024), \"r\"(o[0] + 24));", "multiples of 16 bytes"),
        ("__shfl_sync(1, threadIdx.x, 0);", "whose member mask does not name it"),
    ],
)  # fmt: skip
def test_faults_name_thread_and_instruction(statement: str, words: str) -> None:
    out = np.zeros(16, np.uint32)
    source = DEVICE + f'extern "C" __global__ void k(volatile u32* o) {{ {statement} }}'
    block = 32 if "shfl" in statement or "bar_sync" in statement else 1
    found = failure(source, out, block=block).diagnostics[0]
    assert found.code == "EMULATED_FAULT" and words in found.message, found.message
    assert "PTX line" in found.message and "of CTA (0, 0, 0)" in found.message


def test_a_read_only_array_cannot_be_written() -> None:
    array = np.zeros(32, np.uint32)
    array.flags.writeable = False
    assert "read-only" in str(failure('extern "C" __global__ void k(u32* o) { o[threadIdx.x] = 1; }', array))


def test_wgmma_needs_a_whole_warpgroup() -> None:
    source = """extern "C" __global__ void k() { float d[4] = {0, 0, 0, 0};
      asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(0ull)); }"""
    assert "a warpgroup of 128 threads, this one has 64" in str(failure(source, block=64))
    assert "outside shared memory" in str(failure(source, block=128))


def test_a_hang_says_who_waits_for_what() -> None:
    source = (
        DEVICE
        + """extern "C" __global__ void k(u32* o) {
      __shared__ __align__(8) u64 b[2]; u32 t = threadIdx.x;
      if (t == 0) { init(shared(b), 3); init(shared(b + 1), 1); } __syncthreads();
      if (t < 128) { if (t == 0) expect(shared(b), 640); wait(shared(b), 0); }
      else if (t < 160) bar_sync(5, 96);
      else if (t == 200) { arrive(shared(b + 1)); wait(shared(b + 1), 1); }
      o[0] = 1;
    }"""
    )
    found = failure(source, np.zeros(1, np.uint32), block=224).diagnostics[0]
    assert found.code == "EMULATED_HANG"
    lines = found.message.splitlines()
    assert "CTA (0, 0, 0) hangs" in lines[0]
    text = found.message
    assert "warps 0, 1, 2, 3: waiting for parity 0 of the mbarrier at shared address 0x400" in text
    assert "phase 0 (parity 0) is running with 2 of 3 arrivals and 640 bytes outstanding" in text
    assert "warp 4: waiting at barrier 5: 32 of 96 threads have come" in text
    assert "warp 6 lane 8: waiting for parity 1 of the mbarrier at shared address 0x408" in text
    assert "phase 1 (parity 1) is running" in text
    assert all("PTX line" in line for line in lines[1:])


def test_a_hang_points_into_the_spec() -> None:
    source = (
        DEVICE
        + """
extern "C" __global__ void k(u32* o) {
  __shared__ __align__(8) u64 b; init(shared(&b), 1);
#line 12 "/specs/ring.tile"
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W; }" :: "r"(shared(&b)));
  o[0] = 1;
}"""
    )
    memory = GlobalMemory()
    pointer = memory.alloc(np.zeros(1, np.uint32)).to_bytes(8, "little")
    with pytest.raises(TilegenError) as caught:
        launch(parse(compile_ptx(source, "-lineinfo")), "k", (1, 1, 1), (1, 1, 1), [pointer], memory, 0)
    (found,) = caught.value.diagnostics
    assert found.code == "EMULATED_HANG" and found.span is not None
    assert (found.span.file, found.span.line) == ("/specs/ring.tile", 12)
    assert [n.span.line for n in found.notes] == [12] and "mbarrier" in found.notes[0].text


def test_a_hang_over_registers_shows_the_pool() -> None:
    source = """extern "C" __global__ void __launch_bounds__(384, 1) k(u32* o) {
      if (threadIdx.x < 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 PRODUCER;");
      else asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
      o[threadIdx.x] = 1; }"""
    # 3 x 168 registers at entry are 24 + 2 x 240, and 8 too few with 32 for the producer.
    out = np.zeros(384, np.uint32)
    run(source.replace("PRODUCER", "24"), out, block=384)
    assert out.all()
    text = str(failure(source.replace("PRODUCER", "32"), out, block=384))
    assert "EMULATED_HANG" in text
    assert "waiting for 9216 registers (168 to 240 a thread), the CTA's pool has 8192 free" in text


def test_lanes_that_never_come_are_named() -> None:
    source = (
        DEVICE
        + """extern "C" __global__ void k(u32* o) { __shared__ __align__(8) u64 b; u32 t = threadIdx.x;
      if (t == 0) init(shared(&b), 1); __syncwarp();
      if (t == 3) wait(shared(&b), 0);
      asm volatile("bar.warp.sync -1;"); o[t] = 1; }"""
    )
    text = str(failure(source, np.zeros(32, np.uint32)))
    assert "warp 0 lane 3: waiting for parity 0 of the mbarrier" in text
    assert "waiting for warp 0 lane 3 to reach bar.warp.sync" in text


def test_the_step_limit_stops_an_endless_loop() -> None:
    source = 'extern "C" __global__ void k(volatile u32* o) { while (o[0] == 0) {} o[1] = 1; }'
    found = failure(source, np.zeros(2, np.uint32), step_limit=2000).diagnostics[0]
    assert found.code == "EMULATED_STEP_LIMIT" and "2000 steps" in found.message


def test_impossible_launches() -> None:
    plain = 'extern "C" __global__ void __launch_bounds__(64) k(u32* o) { o[0] = 1; }'
    out = np.zeros(4, np.uint32)
    assert "has no kernel nope (it has: k)" in str(failure(plain, out, entry="nope"))
    assert "it allows 1 to 64" in str(failure(plain, out, block=96))
    assert "has 1 parameters, 2 were given" in str(failure(plain, out, 3))
    assert "parameter 0 of k has 8 bytes, 4 were given" in str(failure(plain, 3))
    assert "over the limit of 232448" in str(failure(plain, out, shared=300000))
    cluster = 'extern "C" __global__ void __cluster_dims__(2, 1, 1) k(u32* o) { o[0] = 1; }'
    found = failure(cluster, out).diagnostics[0]
    assert found.code == "EMULATED_LAUNCH" and "clusters (2, 1, 1)" in found.message


def test_recursion_and_missing_bodies_are_refused() -> None:
    recursive = """__device__ __noinline__ u32 f(u32 n) { return n < 2 ? 1 : f(n - 1) + f(n - 2); }
      extern "C" __global__ void k(u32* o, u32 n) { o[0] = f(n); }"""
    assert "is called recursively" in str(failure(recursive, np.zeros(1, np.uint32), 5, block=1))
    ptx = HEAD + ".extern .func elsewhere;\n.visible .entry k()\n{\ncall.uni elsewhere;\nret;\n}\n"
    with pytest.raises(TilegenError, match="calls elsewhere, whose body is not in the module"):
        launch(parse(ptx), "k", (1, 1, 1), (1, 1, 1), [], GlobalMemory(), 0)


def test_the_module_tells_what_it_is() -> None:
    module = module_of('extern "C" __global__ void __launch_bounds__(128, 1) k(u32* o, u64 n) { o[0] = n; }')
    function = module.functions["k"]
    assert module.target.startswith("sm_90a") and function.max_threads == 128 and function.min_blocks == 1
    assert [p.size for p in function.params] == [8, 8] and PRELUDE
