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
from tests.movers import with_mover
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
        ("EMULATED_FAULT", r"st\.shared", 0, "st.shared.b32 [16777216], 1;", "outside shared memory"),
        ("EMULATED_FAULT", r"st\.shared", 0, "ld.shared.b32 %r1, [16777216];", "outside shared memory"),
        ("EMULATED_FAULT", r"stmatrix", 0, "stmatrix.sync.aligned.m8n8.x1.shared.b16 [16777216], {%r1};", "outside"),
        ("EMULATED_FAULT", r"stmatrix", 0, "cp.async.cg.shared.global [16777216], [%rd1], 16, 0;", "outside shared"),
        ("EMULATED_UNAWAITED", r"cp\.async\.bulk\.wait_group 0", 0, "//", "ends while a store of its own may still"),
    ],
)  # fmt: skip
def test_what_is_undefined_is_a_fault(code: str, pattern: str, number: int, by: str, words: str) -> None:
    fault = found(edited(pattern, number, by))
    assert fault.code == code and words in fault.message


LOAD, STORE = r"cp\.async\.bulk\.tensor.*global\.tile\.mbarrier", r"cp\.async\.bulk\.tensor.*bulk_group"


def moved(pattern: str, number: int, coordinate: int, by: int) -> str:
    """The kernel's PTX with one coordinate of a transfer moved, innermost first."""
    (line,) = [edited_line for n, edited_line in enumerate(lines_of(pattern)) if n == number]
    found = re.search(r"\{(.*?)\}", line)
    assert found is not None
    words = found[1].split(", ")
    own = words[coordinate]
    words[coordinate] = "moved"
    new = line.replace(found[1], ", ".join(words))
    return edited(pattern, number, f"{{\n.reg .b32 moved;\nadd.s32 moved, {own}, {by};\n{new}\n}}")


def lines_of(pattern: str) -> list[str]:
    return [line for line in attention().ptx.splitlines() if re.match(pattern, line.strip())]


# The transfers of this kernel in its text: K's first block, Q of each consumer, V …
K, Q, V = 0, 1, 5


@pytest.mark.parametrize(
    ("pattern", "number", "coordinate", "by", "statement", "words"),
    [
        (LOAD, K, 0, 8, "s", "d = 0 of q meets d = 8 of k"),
        (LOAD, K, 1, 1, "O", "j = 257 of the factor in registers meets j = 256 of v"),
        (LOAD, K, 2, 1, "s", "h = 0 meets g = 1 in q and k"),
        (LOAD, Q, 1, 64, "O", "stores what is of i = 320 to O at i = 256"),
        (LOAD, V, 2, 1, "O", "g = 0 of the factor in registers meets g = 1 of v"),
        (STORE, 0, 1, -1, "O", "stores what is of i = 256 to O at i = 255"),
    ],
)
def test_a_wrong_tile_is_told(pattern: str, number: int, coordinate: int, by: int, statement: str, words: str) -> None:
    fault = found(moved(pattern, number, coordinate, by))
    assert fault.code == "EMULATED_TILE" and words in fault.message
    assert fault.span == attention().program.definition(statement).span


def test_a_block_that_is_left_out_of_a_sum_is_told() -> None:
    """Both factors come from 64 positions further on, so that they belong together, and the first 64 are missed."""
    gemm = tilegen.compile(SAMPLES / "gemm.tile")
    sizes = {"M": 64, "N": 64, "K": 192}
    given = {**random_inputs(gemm.program, sizes, 0), **poisoned(gemm.program, sizes)}
    ptx = gemm.variant(**sizes).built.ptx
    loads = re.findall(rf"(?m)^\s*{LOAD}.*$", ptx)
    (k,) = set.intersection(*(set(re.findall(r"\{(.*?)\}", load)[0].split(", ")) for load in loads))
    for load in loads:
        ptx = ptx.replace(load, f"{{\n.reg .b32 moved;\nadd.s32 moved, {k}, 64;\n{load.replace(k, 'moved')}\n}}")
    with pytest.raises(TilegenError) as caught:
        gemm.emulate(given, ptx=ptx)
    (fault,) = caught.value.diagnostics
    assert fault.code == "EMULATED_TILE" and "is not summed over k = 0" in fault.message
    gemm.emulate(given)


def test_zeros_that_are_scaled_by_rows_are_no_value(tmp_path: Path) -> None:
    """A schedule that rescales before its first product: the accumulator holds nothing but zeros then."""
    text = (SAMPLES / "fa3_fwd.tile").read_text()
    spec = tmp_path / "exact.tile"
    schedule = "schedule hopper {\n block i 64, j 64\n consumers 1 over i\n stages k 2, v 2\n }\n}\n"
    spec.write_text(text[: text.index("schedule hopper")] + schedule)
    kernel = tilegen.compile(spec, D=64)
    sizes = {"B": 1, "Sq": 64, "Sk": 100, "Hk": 1, "G": 1}
    kernel.emulate({**random_inputs(kernel.program, sizes, 0), **poisoned(kernel.program, sizes)})


def test_an_output_that_is_left_out_is_told() -> None:
    fault = found(moved(STORE, 0, 2, 64))
    assert fault.code == "EMULATED_OUTPUT" and fault.span == attention().program.definition("O").span
    assert "nothing has written O[0, 0, 0, 0]" in fault.message


def test_a_transposed_operand_is_told() -> None:
    line = lines_of("wgmma.mma_async")[0]
    fault = found(edited("wgmma.mma_async", 0, line.replace("0, 0;", "0, 1;")))
    assert fault.code == "EMULATED_TILE" and "only one of q and k is contracted along d" in fault.message


def test_rows_that_are_exchanged_are_told() -> None:
    """O divided by the sum of other rows: a thread's registers are of rows t and t + 8, by turns two and two."""
    scaled = [n for n, line in enumerate(lines_of(r"mul\.rn\.f32")) if line.count("%f") == 3][-32:]
    lines = lines_of(r"mul\.rn\.f32")
    one, other = (lines[n].split()[-1] for n in (scaled[0], scaled[2]))
    assert one != other
    fault = found(edited(r"mul\.rn\.f32", scaled[0], lines[scaled[0]].replace(one, other)))
    assert fault.code == "EMULATED_TILE" and "mixes rows" in fault.message


def test_a_fault_names_statement_role_and_slot() -> None:
    fault = found(edited(r"mbarrier\.try_wait", 1, _PASSED))
    program = attention().program
    assert fault.span == program.definition("s").span
    assert "a product of the consumer (warp 4)" in fault.message and "byte 0 of q, stage 0, part 0" in fault.message
    (note,) = fault.notes
    assert note.span == next(m.span for m in program.moves if m.name == "q")


@pytest.mark.parametrize("seed", [None, 0, 1])
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


@pytest.mark.parametrize("width", [4, 8])
def test_copies_of_parts_of_16_bytes_raise_none(width: int) -> None:
    """Each lands in bytes of its own, and others may be under way beside it."""
    text = (SAMPLES / "copy.tile").read_text(encoding="utf-8").replace("block i", "via x cp_async  block i")
    x = np.arange(9.0 * 70, dtype=np.float32).reshape(9, 70)[:, : 70 - width // 4]
    out = np.full(x.shape, np.nan, np.float32)
    tilegen.compile(text, T="f32").emulate({"X": x, "Y": out}, seed=0)
    assert np.array_equal(out, x)


ARRIVALS = (
    DEVICE
    + """
extern "C" __global__ void k(u32 count) {
  extern __shared__ __align__(128) char smem[];
  u32 b = shared(smem);
  if (threadIdx.x == 0) { init(b, count); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
  __syncthreads();
  BODY
}
"""
)
EACH = 'if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory");'
BEHIND_COPIES = 'asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(b) : "memory");'
ALL = 'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory");'


def arrive(body: str, count: int, watched: bool) -> None:
    run(ARRIVALS.replace("BODY", body), count, block=64, shared=128, watch=Context() if watched else None)


@pytest.mark.parametrize(
    ("body", "fewest", "watched"),
    [
        (EACH, 2, True),  # a warp in the phase that another has ended
        (f"{EACH} wait(b, 0); {EACH}", 2, True),
        (ALL, 64, True),  # lanes of one warp
        (BEHIND_COPIES, 64, True),
        (BEHIND_COPIES, 64, False),
    ],
)
def test_arrivals_are_no_more_than_a_phase_expects(body: str, fewest: int, watched: bool) -> None:
    arrive(body, fewest, watched)
    for count in {1, fewest - 1}:
        with pytest.raises(TilegenError) as caught:
            arrive(body, count, watched)
        assert caught.value.diagnostics[0].code == "EMULATED_ARRIVAL"


BESIDE = """kernel beside(T: f16 | f32 = f16, D: 8 .. 128 by 8 = 72) {
  size M
  input  X: T[M, D]
  output Y: T[M, D]
  axis   i in M, d in D
  tile x[i, d] = X[i, d]
  Y[i, d] = 2 * x[i, d]
  schedule hopper { block i 64  consumers 1 over i  via Y tma }
}"""


@pytest.mark.parametrize(("T", "D"), [("f16", 8), ("f16", 72), ("f16", 104), ("f32", 24), ("f32", 72)])
def test_what_a_box_reads_beside_the_tensor_need_not_be_written(T: str, D: int) -> None:
    kernel = tilegen.compile(BESIDE, T=T, D=D)
    x = np.random.default_rng(D).standard_normal((70, D)).astype(T.replace("f", "float"))
    out = np.full_like(x, np.nan)
    kernel.emulate({"X": x, "Y": out}, seed=3)
    assert np.array_equal(out, 2 * x)


APART = (
    DEVICE
    + """
extern "C" __global__ void k() {
  extern __shared__ __align__(128) char smem[];
  u32 b = shared(smem), t = threadIdx.x, first = b + 128 + 16 * (t % 32), second = first + 512, v;
  if (t == 0) { init(b, 32); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
  __syncthreads();
  if (t >= 32) {
    wait(b, 0);
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(READ) : "memory");
  } else if (t < 16) {
    asm volatile("st.volatile.shared.u32 [%0], %1;" :: "r"(first), "r"(t) : "memory"); ARRIVE
    asm volatile("st.volatile.shared.u32 [%0], %1;" :: "r"(second), "r"(t) : "memory");
  } else {
    asm volatile("st.volatile.shared.u32 [%0], %1;" :: "r"(first), "r"(t + 1) : "memory"); ARRIVE
    asm volatile("st.volatile.shared.u32 [%0], %1;" :: "r"(second), "r"(t + 2) : "memory");
  }
}
""".replace("ARRIVE", ALL)
)


@pytest.mark.parametrize("seed", range(6))
def test_lanes_that_go_apart_tell_what_each_did_before(seed: int) -> None:
    """Half a warp tells of its first write, writes on, and then comes the other half: the first ones are over then."""

    def launched(read: str) -> None:
        run(APART.replace("READ", read), block=64, shared=2048, watch=Context(), seed=seed)

    launched("first")
    with pytest.raises(TilegenError, match="EMULATED_RACE"):
        launched("second")


@pytest.mark.parametrize("seed", [3, 4, 6])
def test_elements_that_threads_copy_one_by_one_are_there(seed: int) -> None:
    """Lanes of a row that ends run ahead of the others, into the next rounds of the loop."""
    text = with_mover((SAMPLES / "row_softmax.tile").read_text(encoding="utf-8"), "auto", T="bf16")
    kernel = tilegen.compile(text, T="bf16")
    sizes = {"M": 70, "N": 331}
    outputs = poisoned(kernel.program, sizes)
    kernel.emulate({**random_inputs(kernel.program, sizes, seed), **outputs}, seed=seed)
    assert np.isfinite(outputs["Y"].astype(np.float32)).all()


MEET = 'asm volatile("bar.sync %0, 32;" :: "r"({}) : "memory");'


def meet(first: str, second: str) -> None:
    """One warp does the first, the other the second."""
    arrive(f"if (threadIdx.x < 32) {{ {first} }} else {{ {second} }}", 1, True)


def test_a_named_barrier_is_of_those_who_know_the_last_meeting_over() -> None:
    one, other = MEET.format(1), MEET.format(2)
    with pytest.raises(TilegenError, match=r"EMULATED_BARRIER.*comes to barrier 1"):
        meet(one, one)
    meet(one, other)
    meet(f"{one} {EACH}", f"wait(b, 0); {one}")
    meet(f"{one} {one}", f"{other} {other}")


def test_who_has_waited_may_arrive_in_the_next_phase() -> None:
    arrive(f"if (threadIdx.x < 32) {{ {EACH} }} else {{ wait(b, 0); {EACH} }}", 1, True)
    arrive(f"if (threadIdx.x < 32) {{ {BEHIND_COPIES} }} else {{ wait(b, 0); {BEHIND_COPIES} }}", 32, True)
