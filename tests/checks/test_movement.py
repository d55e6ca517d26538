"""The movement of plans against their specs: each fault is found, at its statement, and plans that are right pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.mutations.plan_kinds import Site, put, shifted, sites
from tests.passes.specs import TWO_LOOPS, loaded, schedule_of, text_of
from tilegen.checks.movement.check import Judgement, check_movement
from tilegen.checks.movement.declared import Declared
from tilegen.checks.movement.walk import Movement
from tilegen.checks.trials import check_all
from tilegen.diagnostics.core import Diagnostic
from tilegen.ir import plan as ir
from tilegen.ir.tile import TileProgram
from tilegen.ir.uniform import Int, Op, Sym, evaluate, op
from tilegen.passes.pipeline import lower

SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "gemm": ("gemm", {}),
    "bias": ("gemm_bias_gelu", {}),
    "decode": ("attention_decode", {"D": 64}),
    "ragged": ("fa3_varlen", {"D": 64}),
    "several boxes of an output": ("fa3_fwd", {"D": 72, "causal": True}),
}


@cache
def built(name: str) -> tuple[TileProgram, ir.Plan]:
    sample, params = SPECS[name]
    program = loaded(text_of(sample), **params).variants("hopper")[0]
    return program, lower(program)


def altered(name: str, kind: type, change: Callable[[Any], Any], nth: int = 0) -> Judgement:
    """The judgement of a spec's plan with its nth operation of a class replaced; None drops it."""
    program, plan = built(name)
    site: Site = list(sites(plan, kind))[nth]
    new = change(site.operation)
    return check_movement(put(plan, site, *(() if new is None else (new,))), program)


def load_of(tile: str, name: str) -> int:
    loads = [s.operation for s in sites(built(name)[1], ir.TmaLoad)]
    return next(n for n, o in enumerate(loads) if o.descriptor == tile)


def first(judgement: Judgement, code: str) -> Diagnostic:
    return next(d for d in judgement.diagnostics if d.code == code)


@pytest.mark.parametrize("name", SPECS)
def test_nothing_is_said_of_plans_that_are_right(name: str) -> None:
    program, plan = built(name)
    assert check_movement(plan, program) == Judgement((), ())


ONE_BY_ONE = """
kernel one_by_one {
  size   B = 3, S, H, N
  input  cu: i32[B + 1]
  input  X: bf16[B, S, H, 64]
  input  K: bf16[B, N, 64]
  output Y: f32[B, S, H]
  ragged S over B by cu
  axis   s in S, h in H, n in N
  tile q[h, d] = X[b, s, h, d]
  tile k[n, d] = K[b, n, d]
  Y[b, s, h] = logsumexp[n](sum[d](q[h, d] * k[n, d]) / 8)
  schedule hopper { block h 64, n 64 consumers 1 over h }
}
"""


def test_lengths_of_sequences_are_no_numbers_of_heads() -> None:
    """Of an axis that is walked position by position they may be as small as those."""
    program = loaded(ONE_BY_ONE)
    assert check_movement(lower(program), program) == Judgement((), ())


AHEAD = """
kernel ahead {
  size M, N, H
  scalar w: i32 <= 1 = 1
  input  A: f16[M, 64]
  input  B: f16[H, N + 1, 64]
  output L: f32[H, M]
  axis   h in H, m in M, n in N
  domain n: n + w >= 0
  tile a[m, k] = A[m, k]
  tile b[n, k] = B[h, n + w, k]
  L[h, m] = logsumexp[n](sum[k](a[m, k] * b[n, k]))
  schedule hopper { block m 64, n 64 consumers 1 over m }
}
"""


def test_scalars_keep_to_what_the_spec_says_of_them() -> None:
    program = loaded(AHEAD)
    assert check_movement(lower(program), program) == Judgement((), ())


MAXIMA = """
kernel maxima {
  size   M, N
  input  A: bf16[M, 64]
  input  B: bf16[N, 64]
  output top: f32[M]

  axis   i in M, j in N
  domain i, j: j <= i + N - M

  tile a[i, d] = A[i, d]
  tile b[j, d] = B[j, d]

  top[i] = max[j](sum[d](a[i, d] * b[j, d]))
}
"""


def test_a_vector_along_heads_that_do_not_fill_their_block() -> None:
    directives = "block i 16, r 8, j 64 consumers 2 over i, r walk j down persistent table"
    program = loaded(schedule_of(text_of("attention_alibi"), directives), D=64)
    assert check_movement(lower(program), program) == Judgement((), ())


ELSE = """
kernel weights {
  size   M, N
  input  X: bf16[M, N]
  output P: f32[M, N] else 3
  axis   i in M, j in N
  domain i, j: j <= i
  tile x[i, j] = X[i, j]
  P[i, j] = softmax[j](x[i, j])
}
"""


WINDOW = {"B": 1, "Sq": 200, "Sk": 140, "Hk": 1, "G": 1, "left": 3, "right": 5, "sm_count": 3}  # 55 rows see no key


def judged_at(plan: ir.Plan, program: TileProgram, sizes: dict[str, int]) -> set[str]:
    movement = Movement(plan, Declared(program, plan.target))
    ctas = evaluate(plan.grid, sizes)
    movement.run(sizes, range(ctas), ctas)
    return {d.code for d in movement.found.diagnostics.values()}


def test_what_is_no_number_until_the_step_is_done_again() -> None:
    """Rows without a key vote for the exact step by a sum that is no number; without the vote it is stored."""
    program = loaded(text_of("attention_window"), D=64).variants("hopper")[-1]
    plan = lower(program)
    assert judged_at(plan, program, WINDOW) == set()
    voteless = [put(plan, site) for site in sites(plan, ir.IfVote)]
    assert {"POISON_PRODUCT", "POISON_STORE"} in [judged_at(x, program, WINDOW) for x in voteless]


def test_points_outside_the_domain_get_the_constant_that_is_declared() -> None:
    program = loaded(ELSE)
    plan = lower(program)
    assert check_movement(plan, program) == Judgement((), ())
    other = replace(program, tensors=tuple(replace(t, otherwise=4.0 if t.output else None) for t in program.tensors))
    assert "POISON_STORE" in {d.code for d in check_movement(plan, other).diagnostics}


@pytest.mark.parametrize("change", ["dropped", "a row more"])
def test_with_a_constant_each_element_is_written_once_all_the_same(change: str) -> None:
    program = loaded(ELSE)
    plan = lower(program)
    for site in list(sites(plan, ir.StoreRows)):
        o = site.operation
        plan = put(
            plan, site, replace(o, row_limit=op("add", o.row_limit, 1) if change == "a row more" else o.row_limit)
        )
    if change == "dropped":
        plan = put(plan, next(iter(sites(plan, ir.StoreRows))))
    assert "MOVEMENT_STORE" in {d.code for d in check_movement(plan, program).diagnostics}


def test_a_last_half_step_of_an_operand_is_zero() -> None:
    """40 columns become an operand of 48, and a product contracts them."""
    program = loaded(TWO_LOOPS)
    plan = lower(program)
    assert check_movement(plan, program) == Judgement((), ())
    nth = next(s for s in sites(plan, ir.Mma) if isinstance(s.operation.a, ir.FragmentOperand))
    across = put(plan, nth, replace(nth.operation, b=replace(nth.operation.b, offsets=(32, 0, 64))))
    assert "MOVEMENT_PLACE" in {d.code for d in check_movement(across, program).diagnostics}


FOLDS_OF_FOLDS = """
kernel folds {
  size   I
  input  X: bf16[I, 128]
  input  Y: bf16[64, 128]
  input  Z: bf16[I, 64]
  output A: f32[I] else 0
  output B: f32[I] else 0
  axis   i in I, j in 64, k in 128
  domain i, j: i - j <= 3
  tile x[i, k] = X[i, k]
  tile y[j, k] = Y[j, k]
  tile z[i, j] = Z[i, j]
  p[i, j] = softmax[j](z[i, j])
  a[i, k] = sum[j](bf16(p[i, j]) * y[j, k])
  m[i]    = max[j](z[i, j])
  A[i] = sum[k](a[i, k])
  B[i] = sum[k](x[i, k] * m[i])
}
"""


@pytest.mark.parametrize("directive", ["isolate fast", "stream j"])
def test_folds_of_what_a_fold_has_taken_in_nothing_for(directive: str) -> None:
    """Rows from 68 on: their values are made of 0 and -inf, whole items of no steps among them."""
    text = schedule_of(FOLDS_OF_FOLDS, directive)
    program = loaded(text)
    plan = lower(program)
    assert check_movement(plan, program) == Judgement((), ())
    site = next(iter(sites(plan, ir.Mask)))
    assert "POISON_FOLD" in {d.code for d in check_movement(put(plan, site), program).diagnostics}


def test_a_factor_of_0_makes_the_specs_value() -> None:
    program = loaded(MAXIMA.replace("max[j](", "max[j](0 * "))
    assert check_movement(lower(program), program) == Judgement((), ())


def test_a_condition_may_choose_between_sums_of_several_kinds() -> None:
    scores = "sum[d](a[i, d] * b[j, d])"
    for chosen in (f"where(j < 9, i, {scores})", f"where(j < 9, {scores} / 2, {scores} + i * {scores})"):
        program = loaded(MAXIMA.replace(scores, chosen))
        assert check_movement(lower(program), program) == Judgement((), ()), chosen


def test_what_only_decides_which_value_stands_is_not_in_it() -> None:
    scores = "sum[d](a[i, d] * b[j, d])"
    assert scores in MAXIMA
    program = loaded(MAXIMA.replace(scores, f"where({scores} > 0, 1.5, -inf)"))
    assert check_movement(lower(program), program) == Judgement((), ())


INFINITIES = """
kernel infinities {
  size   M, N
  input  X: bf16[M, N]
  output D: %s
  tile x[i, j] = X[i, j]
  %s
}
"""


@pytest.mark.parametrize(
    ("output", "equation"),
    [
        ("bf16[M, N]", "D[i, j] = inf * x[i, j]"),
        ("bf16[M, N]", "D[i, j] = bf16(inf * x[i, j] + x[i, j])"),
        ("f32[M]", "D[i] = inf - max[j](x[i, j])"),
        ("f32[M]", "D[i] = inf * max[j](x[i, j])"),
    ],
)
@pytest.mark.parametrize("target", ["hopper", "sm_80"])
def test_an_infinity_that_the_spec_writes_makes_the_specs_value(target: str, output: str, equation: str) -> None:
    program = loaded(INFINITIES % (output, equation))
    assert check_movement(lower(program, target), program) == Judgement((), ())


def test_an_infinity_stays_in_its_sum() -> None:
    """Terms of both signs cancel to no number, none are 0; times a fill it is no number, which a mask takes out."""
    program = loaded(INFINITIES % ("f32[M]", "D[i] = sum[j](inf * x[i, j])"))
    plan = lower(program)
    assert check_movement(plan, program) == Judgement((), ())
    maps = [s.operation for s in sites(plan, ir.Map)]
    assert [o.out for o in maps if ir.Literal(float("inf")) in getattr(o.value, "args", ())] == ["D_terms", "D_terms"]
    site = next(iter(sites(plan, ir.Mask)))
    assert check_movement(put(plan, site), program).diagnostics


def test_rows_without_a_position_hold_what_a_fold_begins_with() -> None:
    program = loaded(MAXIMA)
    assert check_movement(lower(program), program) == Judgement((), ())


def rebased(o: ir.Map) -> ir.Map:
    """The reciprocal of a sum without the select that keeps rows without a key at 0."""
    assert isinstance(o.value, ir.Compute)
    return replace(o, value=o.value.args[2]) if o.value.op == "select" else o


def step(o: Any, **fields: Any) -> Any:
    return replace(o, b=replace(o.b, **fields))


def on(dim: int, by: int) -> Callable[[Any], Any]:
    return lambda o: shifted(built("gemm")[1], dim, "coordinates", o, by)


def in_row(by: int) -> Callable[[ir.TmaLoad], ir.TmaLoad]:
    return lambda o: replace(o, coordinates=(op("add", o.coordinates[0], by), *o.coordinates[1:]))


def group_0(o: ir.TmaLoad) -> ir.TmaLoad:
    return replace(o, coordinates=tuple(Int(0) if c == Sym("g") else c for c in o.coordinates))


def limit(field: str, by: int) -> Callable[[Any], Any]:
    return lambda o: replace(o, **{field: op("add", getattr(o, field), by)})


def gone(o: ir.Operation) -> None:
    return None


# (spec, class of the operation, which of them, change, code)
CASES: dict[str, tuple[str, type, int, Callable[[Any], Any], str]] = {
    "a tile one on": ("decode", ir.TmaLoad, load_of("k", "decode"), on(1, 1), "MOVEMENT_PLACE"),
    "another head": ("decode", ir.TmaLoad, load_of("v", "decode"), group_0, "MOVEMENT_PLACE"),
    "one box of several": ("gemm", ir.TmaLoad, 2, on(1, 8), "MOVEMENT_BOXES"),
    "a box inside 16 bytes": ("gemm", ir.TmaLoad, 0, in_row(4), "MOVEMENT_BOXES"),
    "a stride": ("gemm", ir.Mma, 0, lambda o: step(o, stride=2 * o.b.stride), "MOVEMENT_OPERAND"),
    "a sum begun twice": ("gemm", ir.Mma, 1, lambda o: replace(o, zero=True), "MOVEMENT_FOLD"),
    "a row too many": ("bias", ir.StoreRows, 0, limit("row_limit", 1), "MOVEMENT_STORE"),
    "a row too few": ("bias", ir.StoreRows, 0, limit("row_limit", -1), "MOVEMENT_STORE"),
    "nothing stored": ("bias", ir.StoreRows, 0, gone, "MOVEMENT_STORE"),
    "elements behind a tensor": ("bias", ir.LoadVector, 0, limit("limit", 8), "MOVEMENT_BOUNDS"),
    "nothing mended": ("decode", ir.Mend, 0, gone, "MOVEMENT_MEND"),
    "no mask": ("decode", ir.Mask, 0, gone, "POISON_FOLD"),
    "no scan": ("decode", ir.ScanSlot, 0, gone, "POISON_PRODUCT"),
    "rows that do not vote": ("ragged", ir.Mask, 0, gone, "POISON_VOTE"),
}


@pytest.mark.parametrize("case", CASES)
def test_faults_of_movement(case: str) -> None:
    name, kind, nth, change, code = CASES[case]
    found = first(altered(name, kind, change, nth), code)
    assert found.span is not None


def test_a_mask_that_is_one_off_either_way() -> None:
    """The second condition of the first mask: the diagonal."""

    def by(n: int) -> Callable[[ir.Mask], ir.Mask]:
        def change(o: ir.Mask) -> ir.Mask:
            conditions = list(o.alternatives[0])
            bound = conditions[1]
            assert isinstance(bound, ir.Bound)
            conditions[1] = replace(bound, offset=op("add", bound.offset, n))
            return replace(o, alternatives=(tuple(conditions),))

        return change

    more, less = (first(altered("decode", ir.Mask, by(n)), "POISON_FOLD") for n in (1, -1))
    assert (more.wanted, less.wanted) == ("-inf there", "the value there")


def test_an_element_that_is_masked_and_stored() -> None:
    """The weights of a softmax, in a second loop over the blocks: the last one's mask hides a column too many."""
    program = loaded(text_of("row_softmax"))
    plan = lower(program)
    site = list(sites(plan, ir.Mask))[-1]
    (condition,) = site.operation.alternatives[0]
    less = replace(site.operation, alternatives=((replace(condition, offset=op("sub", condition.offset, 1)),),))
    found = first(check_movement(put(plan, site, less), program), "POISON_STORE")
    assert (found.got, found.wanted) == ("0", "the spec's value")


def test_the_way_of_poison_is_told_from_load_to_store() -> None:
    found = first(altered("decode", ir.ScanSlot, lambda o: None), "POISON_PRODUCT")
    words = [note.text for note in found.notes]
    assert any(w.startswith("k: tma_load") for w in words)
    assert any(w.startswith("s: mma") for w in words)
    assert any(w.startswith("v: tma_load") for w in words)
    assert found.got == "0 times an entry that may be no finite number at a position outside the domain"


def test_a_row_without_a_key_is_not_divided_by_nothing() -> None:
    maps = [s.operation for s in sites(built("decode")[1], ir.Map)]
    nth = next(n for n, o in enumerate(maps) if o.out == "O_out.row")
    assert first(altered("decode", ir.Map, rebased, nth), "POISON_STORE").span is not None


@pytest.mark.parametrize("name", ["attention_decode", "fa3_varlen"])
def test_isolate_fast_takes_the_users_word(name: str) -> None:
    """Of a neighbour's entries, which lie behind a sequence's end, too; but nothing is known of stale bytes."""
    text = text_of(name).replace("walk j down", "walk j down isolate fast")
    program = loaded(text, D=64).variants("hopper")[-1]
    plan = lower(program)
    assert check_movement(plan, program).diagnostics == ()
    loads = [s for s in sites(plan, ir.TmaLoad) if s.operation.slot.ring == "v"]
    gone = plan
    for site in reversed(loads):
        gone = put(gone, site)
    assert "POISON_PRODUCT" in {d.code for d in check_movement(gone, program).diagnostics}


def test_the_word_of_the_targets_own_schedule_is_taken() -> None:
    def judged(directives: str) -> set[str]:
        text = text_of("fa3_fwd")
        program = loaded(f"{text[: text.rindex('}')]} schedule sm_80 {{ {directives} }} }}", D=64, causal=True)
        plan = lower(program, "sm_80")
        assert check_movement(plan, program).diagnostics == ()
        other = program.schedule("sm_80")
        assert other is not None
        return {
            d.code
            for d in check_movement(plan, replace(program, schedules=(replace(other, directives=()),))).diagnostics
        }

    assert judged("isolate fast") == {"POISON_PRODUCT", "POISON_STORE"}
    assert judged("isolate exact") == set()


CHUNKS = """
kernel chunks {
  size   C, P
  input  Q: bf16[P * C, 64]
  input  K: bf16[P * C, 64]
  output m: f32[P * C]
  axis   i in P * C, j in P * C
  split  i into ci, oi by C
  split  j into cj, oj by C
  domain i, j: ci == cj and j <= i
  tile q[i, d] = Q[i, d]
  tile k[j, d] = K[j, d]
  m[i] = max[j](sum[d](q[i, d] * k[j, d]))
}
"""


@pytest.mark.parametrize("over", ["i, j", "i, j, ci, cj"])
def test_a_domain_may_name_parts_of_the_axes_that_it_is_over(over: str) -> None:
    program = loaded(CHUNKS.replace("domain i, j", f"domain {over}"))
    plan = lower(program)
    assert check_movement(plan, program) == Judgement((), ())
    site = next(iter(sites(plan, ir.Mask)))
    assert "POISON_FOLD" in {d.code for d in check_movement(put(plan, site), program).diagnostics}


def test_the_fill_of_a_product_is_zero() -> None:
    program, plan = built("gemm")
    nan = replace(plan, descriptors=(replace(plan.descriptors[0], fill="nan"), *plan.descriptors[1:]))
    assert "POISON_PRODUCT" in {d.code for d in check_movement(nan, program).diagnostics}


def test_what_cannot_be_judged_is_said() -> None:
    above = ir.Compute("gt", (ir.Element("s"), ir.Literal(0.0)))
    found = altered("decode", ir.Mask, lambda o: replace(o, alternatives=((above,),)))
    assert found.unknown == ("a condition on computed values",)


def test_a_division_by_zero_is_a_fault_of_the_plan() -> None:
    program, plan = built("gemm")
    site = next(iter(sites(plan, ir.Let)))
    broken = put(plan, site, replace(site.operation, value=Op("floordiv", (site.operation.value, Sym("N")))))
    assert {d.code for d in check_all(broken)} == {"DIVISION_BY_ZERO"}
    assert "DIVISION_BY_ZERO" in {d.code for d in check_movement(broken, program).diagnostics}
