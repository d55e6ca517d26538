"""Which tiles are looked through, and what plans promise about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.passes.specs import loaded, sample, text_of
from tests.plan import edits
from tilegen.checks.movement.check import check_movement
from tilegen.checks.pipeline import check
from tilegen.checks.trials import trials
from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import TilegenError
from tilegen.ir import plan as ir
from tilegen.ir.plan_verify import InvalidPlan, verify
from tilegen.ir.plan_walk import all_operations
from tilegen.ir.uniform import evaluate
from tilegen.passes.pipeline import lower, to_scheduled
from tilegen.syntax.span import Span

HERE = Span("sample.tile", 1, 1, 1, 2)
CAUSAL = lower(sample("fa3_fwd", D=128, causal=True))
SHARED_TILE = """kernel shared_tile(T: bf16 | f16 = bf16) {
  size   M, N
  input  Q: T[M, 64]
  input  C: T[N, 64]
  output O: T[M, 64]
  axis   i in M, j in N
  domain i, j: j <= i
  tile q[i, d] = Q[i, d]
  tile c[j, d] = C[j, d]
  s[i, j] = sum[d](q[i, d] * c[j, d])
  p[i, j] = softmax[j](s[i, j])
  O[i, d] = sum[j](T(p[i, j]) * c[j, d])
  schedule hopper { consumers 2 over i  block i 128, j 64 }
}"""


def scanned(text: str, **params: object) -> set[str]:
    return {t.tile for t in to_scheduled(loaded(text, **params)).tiles if t.scan}  # type: ignore[arg-type]


def test_a_tile_whose_positions_a_domain_cuts_is_looked_through() -> None:
    assert scanned(text_of("fa3_fwd"), causal=True) == {"v"}
    assert scanned(text_of("attention_window")) == {"v"}


def test_positions_past_the_tensor_are_zero_already() -> None:
    assert scanned(text_of("fa3_fwd")) == set()
    assert scanned(text_of("gemm")) == set()


def test_isolate_fast_looks_through_nothing() -> None:
    for option, wanted in (("fast", set()), ("exact", {"v"})):
        text = text_of("fa3_fwd").replace("skip_rows", f"skip_rows  isolate {option}")
        assert scanned(text, causal=True) == wanted


def test_a_tile_that_is_read_in_another_way_is_refused() -> None:
    """Its entries have to leave it for one product and to stay for the other."""
    with pytest.raises(TilegenError) as caught:
        scanned(SHARED_TILE)
    assert [d.code for d in caught.value.diagnostics] == [Code.SCAN_SHARED.name]
    assert scanned(SHARED_TILE.replace("j 64 }", "j 64  isolate fast }")) == set()
    assert scanned(SHARED_TILE.replace("domain i, j: j <= i", "")) == set()
    apart = SHARED_TILE.replace("tile c[j, d] = C[j, d]", "tile c[j, d] = C[j, d] tile v[j, d] = C[j, d]")
    assert scanned(apart.replace("T(p[i, j]) * c[", "T(p[i, j]) * v[")) == {"v"}


HELD = """
kernel held {
  size   I, J
  input  A: f16[I, 64]
  input  B: f16[J, 64]
  output C: f16[I, J] else 0
  axis   i in I, j in J, k in 64
  domain i, k: i > k
  tile a[i, k] = A[i, k]
  tile b[j, k] = B[j, k]
  C[i, j] = sum[k](f16(2 * a[i, k]) * b[j, k])
  schedule hopper { block i 128, j 64 }
}
"""


def test_what_no_scan_reaches_is_refused() -> None:
    """A domain that cuts what is contracted and not streamed: 0 * NaN would reach every row."""
    with pytest.raises(TilegenError) as caught:
        scanned(HELD)
    assert [d.code for d in caught.value.diagnostics] == [Code.SCAN_HELD.name]
    assert scanned(HELD.replace("j 64 }", "j 64  isolate fast }")) == set()
    assert scanned(HELD.replace("domain i, k: i > k", "domain i, j: i > j")) == set()


def test_rows_that_the_domain_leaves_out_do_not_vote() -> None:
    text = """
    kernel weights {
      size   B, I, J
      input  X: f16[B, I, J]
      output Y: f16[B, I, J] else 0
      axis   b in B, i in I, j in J
      domain b, i: b + i < 50
      tile x[i, j] = X[b, i, j]
      Y[b, i, j] = softmax[j](x[i, j])
      schedule hopper { persistent static  stale_max }
    }
    """
    program = loaded(text)
    assert check_movement(lower(program), program).diagnostics == ()


def test_a_program_without_a_scan_has_no_scanner() -> None:
    assert [r.name for r in lower(sample("fa3_fwd", D=128)).roles] == ["producer", "consumer"]
    assert [r.name for r in CAUSAL.roles] == ["producer", "scanner", "consumer"]


def test_rows_that_are_not_stored_do_not_vote() -> None:
    """Behind a sequence's end stand a neighbour's rows; past a tensor's end stand zeros, which are calm."""

    def voters(plan: ir.Plan) -> tuple[ir.Bound, ...]:
        body = [o for role, _, o in all_operations(plan) if role.name == "consumer"]
        votes = [o.value for o in body if isinstance(o, ir.Map) and o.out == "p_max.grown"]
        assert votes
        for value in votes:
            assert isinstance(value, ir.Compute)
            assert value.args[2] in (ir.Literal(1.0), ir.Element("rows.voting"))
        masks = [o for o in body if isinstance(o, ir.Mask) and o.fragment == "rows.voting"]
        assert bool(masks) == (votes[0].args[2] == ir.Element("rows.voting"))
        return tuple(b for m in masks for group in m.alternatives for b in group if isinstance(b, ir.Bound))

    assert voters(CAUSAL) == ()
    (bound,) = voters(lower(sample("fa3_varlen", D=128)))
    assert (bound.row_factor, bound.col_factor) == (-1, 0)
    held = {"Sq": 100, "i.0": 0, "warpgroup": 1}
    assert evaluate(bound.offset, held) == 100 - 1 - 64  # row 35 of the second warpgroup is the last


# ---- what the verifier holds plans to -----------------------------------------------------------

SLOT = ir.Slot("v", "v_read")
V = CAUSAL.ring("v")
assert V.scan is not None
BREACHES = {
    "passers-by that keep the slot": (
        edits.change(CAUSAL, "consumer", ir.WaitClean, lambda o: (ir.WaitFull(o.slot, o.span),)),
        "does not wait until the slot has been looked through",
    ),
    "readers pass the scanner by": (
        edits.change(CAUSAL, "consumer", ir.WaitClean, lambda o: (ir.WaitFull(o.slot, o.span),), nth=1),
        "does not wait until the slot has been looked through",
    ),
    "a scanner that frees nothing": (
        edits.drop(CAUSAL, "scanner", ir.ArriveEmpty),
        "empty barriers take 6 arrivals, 3 come",
    ),
    "too few warps": (
        edits.role(CAUSAL, "scanner", warps=(1, 2)),
        "clean barriers take 3 arrivals, 2 come",
    ),
    "the producer's warp": (edits.role(CAUSAL, "scanner", warps=(0, 3)), "warpgroup 0 also runs producer"),
    "a warpgroup of its own": (edits.role(CAUSAL, "scanner", first=1), "first warp of warpgroup 1 stands before it"),
    "registers twice": (edits.role(CAUSAL, "scanner", registers=40), "registers are set by the role"),
    "no warps": (edits.role(CAUSAL, "scanner", warps=None), "a scanner lacks warps of its own"),
    "a consumer with warps": (edits.role(CAUSAL, "consumer", warps=(1, 2)), "a consumer has warps of its own"),
    "no scan": (
        replace(CAUSAL, rings=tuple(replace(r, scan=None) for r in CAUSAL.rings)),
        "no role looks through the slots of v",
    ),
    "passed on unseen": (
        edits.drop(CAUSAL, "scanner", ir.WaitFull),
        "the slot is passed on without waiting until it is full",
    ),
    "a consumer that scans": (
        edits.after(CAUSAL, "consumer", ir.WaitClean, ir.ScanSlot(SLOT, HERE)),
        "a consumer does not do this",
    ),
    "a scanner that stores": (
        edits.after(CAUSAL, "scanner", ir.WaitFull, ir.GroupSync(9, HERE)),
        "a scanner does not do this",
    ),
    "waits in the branch": (
        edits.change(
            CAUSAL, "consumer", ir.IfSpoiled, lambda o: (replace(o, body=(*o.body, ir.WaitClean(SLOT, HERE))),)
        ),
        "a WaitClean that some warps may not reach",
    ),
    "a flag in a barrier": (
        replace(
            CAUSAL,
            rings=tuple(replace(r, scan=replace(r.scan, flag=r.full)) if r.scan else r for r in CAUSAL.rings),
        ),
        "overlap those of the full barriers of v",
    ),
    "a crooked flag": (
        replace(
            CAUSAL,
            rings=tuple(replace(r, scan=replace(r.scan, flag=r.scan.flag + 2)) if r.scan else r for r in CAUSAL.rings),
        ),
        "a flag of 4 bytes does not stand at",
    ),
}


@pytest.mark.parametrize("what", BREACHES)
def test_a_breach_is_found(what: str) -> None:
    plan, message = BREACHES[what]
    with pytest.raises(InvalidPlan) as caught:
        verify(plan)
    assert message in str(caught.value)


def waiting_for_none(plan: ir.Plan) -> ir.Plan:
    """Blocks that a warpgroup passes by, however many, are not waited for until they have been looked through."""

    def let_go(loop: ir.For) -> tuple[ir.For]:
        return (replace(loop, body=tuple(o for o in loop.body if not isinstance(o, ir.If))),)

    return edits.change(plan, "consumer", ir.For, let_go)


FEW_SLOTS_SCHEDULE = """
  schedule hopper {
    block i 192, j 16  consumers 3 over i  stages k 3, v 2
    late O by 1  batch O, s  walk j down  skip_rows
  }
}"""  # and no turns, by which the warpgroups would know of each other
FEW_SLOTS = lower(loaded(text_of("fa3_fwd").partition("  schedule")[0] + FEW_SLOTS_SCHEDULE, causal=True))
FAULTS = {  # plans that verify, and what their run reports
    "no fence": (edits.drop(CAUSAL, "scanner", ir.FenceAsync), "PIPELINE_FENCE"),
    "passed on once only": (edits.drop(CAUSAL, "scanner", ir.ArriveClean), "PIPELINE_DEADLOCK"),
    "a round passed by": (waiting_for_none(FEW_SLOTS), "PIPELINE_SKIPPED"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_the_pipeline_check_finds(what: str) -> None:
    plan, code = FAULTS[what]
    found = {d.code for trial in trials(plan) for d in check(plan, trial)}
    assert code in found


def test_the_pipeline_of_the_sample_is_sound() -> None:
    for plan in (CAUSAL, FEW_SLOTS):
        assert [d for trial in trials(plan) for d in check(plan, trial)] == []


def test_a_slot_that_is_passed_by_is_not_waited_for_longer_than_until_it_is_full() -> None:
    loop = next(o for role, _, o in all_operations(CAUSAL) if role.name == "consumer" and isinstance(o, ir.For))
    waits = [o for o in loop.body if isinstance(o, ir.WaitFull | ir.WaitClean)]
    assert [(type(o), o.slot.ring) for o in waits] == [(ir.WaitFull, "k"), (ir.WaitFull, "v")]
    (last,) = [o for o in loop.body if isinstance(o, ir.If)]
    taken = [evaluate(last.condition, {"j.skipped": 5, "j.step": step}) for step in range(5)]
    assert taken == [1, 1, 1, 0, 0]  # the depth of the ring but one
