"""Cases 35 to 47 of the list that tests/test_cases.py begins: boxes, pitches, barriers and their counts. What the
right kernel does is run in the emulator; what a wrong plan would do is told by the checks, by name."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tests import formulas
from tests.emulate.support import run as emulate
from tests.hopper.dumps import at
from tests.passes.test_refusals import schedule_of
from tests.plan import edits
from tilegen.checks.pipeline import check
from tilegen.diagnostics.core import TilegenError
from tilegen.ir import plan as ir
from tilegen.ir.plan_verify import InvalidPlan, verify
from tilegen.ir.plan_walk import all_operations
from tilegen.ir.uniform import Op, Sym, op
from tilegen.runtime.kernel import Kernel
from tilegen.targets.hopper.tensor_map import TensorMap

SAMPLES = Path(__file__).parents[1] / "samples"
GEMM = (SAMPLES / "gemm.tile").read_text(encoding="utf-8")
BF16 = ml_dtypes.bfloat16
P, C = "producer", "consumer"


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(BF16)


def framed(rows: int, columns: int) -> tuple[Any, Any]:
    """(a part, all of it): an output of NaN inside of more NaN."""
    whole = np.full((rows + 2, columns), np.nan, BF16)
    return whole[1 : 1 + rows], whole


def check_product(kernel: Kernel, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m + n + k)
    a, b = normal(rng, m, k), normal(rng, k, n)
    c, whole = framed(m, n)
    kernel(A=a, B=b, C=c)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), expected, atol=0.1 * k**0.5, rtol=2e-2)
    assert np.isnan(whole[[0, -1]].astype(np.float32)).all()


@cache
def gemm(schedule: str) -> Kernel:
    return tilegen.compile(schedule_of(GEMM, schedule))


def test_case_35_what_is_no_multiple_of_16_bytes_is_refused() -> None:
    """Where it is written: at build; as an array: at the call; in a tensor map; and by the engine itself."""
    with pytest.raises(TilegenError) as caught:
        tilegen.compile("""kernel k {
          size   M
          input  X: bf16[M, 4]
          output Y: f32[M]
          tile x[i, d] = X[i, d]
          Y[i] = sum[d](x[i, d])
        }""")
    assert [d.code for d in caught.value.diagnostics] == ["INNER_EXTENT"]
    narrow = TensorMap("bf16", 4096, (4, 64), (16,), (4, 64))
    assert [d.code for d in narrow.check("X")] == ["TMA_BOX_BYTES"]
    plan = edits.descriptor(gemm("block m 64, n 64, k 64 consumers 1 over m").plan, "a", dims=(ir.MapDim(1, 60),))
    with pytest.raises(InvalidPlan, match="120 bytes, no multiple of 16"):
        verify(plan)
    copy = """extern "C" __global__ void k(const u8* x, u32 size) {
      __shared__ __align__(16) u8 to[64]; __shared__ __align__(8) u64 bar;
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :: "r"(shared(to)), "l"(x), "r"(size), "r"(shared(&bar)) : "memory");
    }"""
    with pytest.raises(TilegenError, match="multiples of 16 bytes"):
        emulate(copy, np.zeros(64, np.uint8), 24, block=1)


@pytest.mark.parametrize(
    ("schedule", "notes"),
    [
        ("block m 64, n 64, k 512 consumers 1 over m stages a 1, b 1", {"a": (8, 64), "b": (2, 256)}),
        ("block m 64, n 64, k 320 consumers 1 over m stages a 1, b 2", {"a": (5, 64), "b": (2, 160)}),
    ],
)
def test_case_37_a_side_over_256_is_split_and_the_bytes_are_the_sum(
    schedule: str, notes: dict[str, tuple[int, int]]
) -> None:
    plan = gemm(schedule).plan
    loads = [o for _, _, o in all_operations(plan) if isinstance(o, ir.TmaLoad)]
    for tile, (boxes, side) in notes.items():
        mine = [o for o in loads if o.descriptor == tile]
        assert len(mine) == boxes
        assert side in [m.box for m in plan.descriptor(tile).dims]
        assert sum(o.bytes for o in mine) == plan.ring(tile).bytes
        assert any(note.startswith(f"tile {tile}: ") and f"{boxes} boxes of {side}" in note for note in plan.notes)
    check_product(gemm(schedule), 70, 72, 1000)


def test_case_39_columns_that_are_padded_keep_their_pitch() -> None:
    """In shared memory, 80 columns lie in lines of 32; in global memory, rows may lie further apart than they need."""
    D = 80
    kernel = tilegen.compile(SAMPLES / "fa3_fwd.tile", D=D)
    sizes = {"B": 1, "Sq": 70, "Sk": 75, "Hk": 2, "G": 1}
    k = kernel.variant(**sizes).plan.buffer("k")
    assert (k.cols, k.chunk * -(-k.cols // k.chunk), k.line) == (D, 96, 64)
    rng = np.random.default_rng(D)
    pitch = D + 24
    wide = {name: normal(rng, 1, n, 2, pitch) for name, n in (("Q", 70), ("K", 75), ("V", 75))}
    for a in wide.values():
        a[..., D:] = np.nan
    inputs = {name: a[..., :D] for name, a in wide.items()}
    out = kernel(**inputs)
    q, keys, v = (inputs[n].astype(np.float64) for n in ("Q", "K", "V"))
    o, _ = formulas.attention(q, keys, v, scale=D**-0.5)
    np.testing.assert_allclose(out.O.astype(np.float64), o, atol=2e-2, rtol=2e-2)


def test_case_42_two_products_into_one_sum() -> None:
    kernel = tilegen.compile("""kernel both(T: bf16 | f16 = bf16) {
      size   M, N, K
      input  A: T[M, K]
      input  B: T[K, N]
      input  D: T[M, K]
      input  E: T[K, N]
      output C: T[M, N]
      axis   m in M, n in N, k in K
      tile a[m, k] = A[m, k]
      tile b[k, n] = B[k, n]
      tile d[m, k] = D[m, k]
      tile e[k, n] = E[k, n]
      C[m, n] = sum[k](a[m, k] * b[k, n]) + sum[k](d[m, k] * e[k, n])
      schedule hopper { block m 64, n 64, k 64 consumers 1 over m stages a 2, b 2, d 2, e 2 }
    }""")
    rng = np.random.default_rng(42)
    a, b, d, e = normal(rng, 70, 136), normal(rng, 136, 72), normal(rng, 70, 136), normal(rng, 136, 72)
    c = kernel(A=a, B=b, D=d, E=e).astype(np.float64)
    expected = a.astype(np.float64) @ b.astype(np.float64) + d.astype(np.float64) @ e.astype(np.float64)
    np.testing.assert_allclose(c, expected, atol=0.3, rtol=2e-2)


SMALL = "block m 128, n 64, k 64 consumers 2 over m stages a 2, b 2 persistent static"
SIZES = {"M": 128, "N": 192, "K": 320, "sm_count": 1}  # three items of five steps for the one CTA


def told(plan: ir.Plan) -> set[str]:
    """What the verifier and the checks' run say of a plan: codes, and the words of breaches."""
    try:
        verify(plan)
    except InvalidPlan as error:
        return {v.message for v in error.violations}
    return {d.code for d in check(plan, SIZES)}


def some(found: set[str], words: str) -> bool:
    return any(words in f for f in found)


def test_case_42_a_load_under_a_condition_leaves_no_side_waiting() -> None:
    plan = gemm(SMALL).plan
    assert told(plan) == set()
    even = op("eq", Op("mod", (Sym(loop_of(plan, P).var), op("add", 2, 0))), 0)
    conditional = edits.change(plan, P, ir.TmaLoad, lambda o: (ir.If(even, (o,), at(1)),))
    assert some(told(conditional), "PIPELINE_BYTES") or some(told(conditional), "bytes")
    whole = edits.change(plan, P, ir.For, lambda o: (replace(o, body=(ir.If(even, o.body, at(1)),)),))
    assert told(whole) == {"PIPELINE_DEADLOCK"}


def loop_of(plan: ir.Plan, role: str) -> ir.For:
    return next(o for r, _, o in all_operations(plan) if r.name == role and isinstance(o, ir.For))


def test_case_43_the_barrier_on_the_back_edge_is_missed() -> None:
    """Both consumers read b; without the producer's wait, or a consumer's release, the next load would overwrite it."""
    plan = gemm(SMALL).plan
    for nth in (0, 1):
        found = {d.code for d in check(edits.drop(plan, P, ir.WaitEmpty, nth), SIZES)}
        assert found & {"PIPELINE_ARRIVALS", "PIPELINE_UNORDERED", "PIPELINE_LAPPED"}
    released = edits.change(plan, C, ir.ArriveEmpty, lambda o: (ir.If(op("eq", "warpgroup", 0), (o,), at(1)),))
    assert {d.code for d in check(released, SIZES)} == {"PIPELINE_DEADLOCK"}
    assert some(told(released), "nothing in this body was done with the position")


def test_case_45_bytes_counts_and_phases_are_reported_as_what_they_are() -> None:
    plan = gemm(SMALL).plan
    ring = plan.ring("a")
    for wrong in (ring.bytes - 16, ring.bytes + 16):
        other = edits.ring(plan, "a", bytes=wrong)
        other = edits.alter(other, P, ir.Expect, bytes=wrong)
        assert some(told(other), "bytes")
        assert "PIPELINE_BYTES" in {d.code for d in check(other, SIZES)}
    for wrong in (ring.empty_arrivals - 1, ring.empty_arrivals + 1):
        found = told(edits.ring(plan, "a", empty_arrivals=wrong))
        assert some(found, f"take {wrong} arrivals, {ring.empty_arrivals} come")
    cursor = next(c.name for c in plan.role(C).cursors if c.ring == "a")
    ahead = edits.before(plan, C, ir.Work, ir.Advance(cursor, at(1)))
    assert {d.code for d in check(ahead, SIZES)} & {"PIPELINE_DEADLOCK", "PIPELINE_SKIPPED", "PIPELINE_STALE"}


@pytest.mark.parametrize("rows", [1, 5, 31, 33])
def test_case_47_fewer_rows_than_a_warp_has_threads_are_all_stored_by_the_elected_one(rows: int) -> None:
    kernel = gemm("block m 64, n 64, k 64 consumers 1 over m via C tma")
    assert any(isinstance(o, ir.TmaStore) for _, _, o in all_operations(kernel.plan))
    check_product(kernel, rows, 72, 72)
