"""Ragged sizes: plans on numpy against the oracle, whatever the lengths; the deal of their items; what checks see."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.passes import interpret
from tests.passes.specs import loaded, run_symbols, sample, schedule_of, text_of
from tilegen.checks.integers import check_integers
from tilegen.checks.pipeline import check
from tilegen.checks.sequences import length_symbol
from tilegen.checks.trials import check_all, trials
from tilegen.diagnostics.core import TilegenError
from tilegen.ir import plan as ir
from tilegen.ir.deal import deal_sequences, items_of, starts_fault
from tilegen.ir.plan import ItemTable, Plan, Sequences, SizeParam
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.plan_text import print_plan
from tilegen.ir.plan_verify import InvalidPlan, verify
from tilegen.ir.tile import TileProgram
from tilegen.ir.uniform import Int, Sym, evaluate, op
from tilegen.oracle import compare, random_inputs, scalar_values
from tilegen.oracle import evaluate as value_of
from tilegen.passes.pipeline import lower

RAGGED = text_of("ragged")
SCHEDULED = schedule_of(
    RAGGED,
    "block i 128, j 64 consumers 2 over i late O by 1 batch O, s take_turns over s, O stale_max walk j down skip_rows "
    "persistent table order longest_first group h by 1",
)
# only one side is ragged, rows are stored as a vector, a size of the sequence at hand stands in the arithmetic
KEYS_ONLY = """kernel pooled() {
  size   B, S, M
  input  cu: i32[B + 1]
  input  Q: bf16[B, M, 64]
  input  K: bf16[B, S, 64]
  output Y: f32[B, M]
  ragged S over B by cu
  axis   i in M, j in S
  tile q[i, d] = Q[b, i, d]
  tile k[j, d] = K[b, j, d]
  s[i, j] = sum[d](q[i, d] * k[j, d])
  Y[b, i] = logsumexp[j](s[i, j]) + S
}"""
QUERIES_ONLY = """kernel rows() {
  size   B, S, N
  input  cu: i32[B + 1]
  input  X: bf16[B, S, 64]
  input  W: bf16[N, 64]
  input  scale: f32[B, S]
  output Y: bf16[B, S, N]
  output mean: f32[B, S]
  ragged S over B by cu
  axis   i in S, n in N
  tile x[i, d] = X[b, i, d]
  tile w[n, d] = W[n, d]
  s[i, n] = sum[d](x[i, d] * w[n, d])
  Y[b, i, n]  = bf16(scale[b, i] * s[i, n] + i)
  mean[b, i] = scale[b, i] * S
}"""
ATTENTION_LENGTHS = [
    ([0, 9, 130], [5, 9, 137]),
    ([0, 0, 300], [0, 1, 200]),
    ([12, 137, 64], [137, 12, 65]),
    ([0, 0, 0], [3, 0, 9]),
    ([5, 7, 1], [0, 0, 0]),
    ([1], [1]),
    ([129, 128, 127, 1, 2, 3], [63, 64, 65, 300, 2, 1]),
]


@cache
def planned(text: str, **params: bool | int) -> tuple[TileProgram, Plan]:
    program = loaded(text, **params)
    return program, lower(program)


def table_of(plan: Plan) -> tuple[ItemTable, Sequences]:
    assert plan.table is not None
    assert plan.table.sequences is not None
    return plan.table, plan.table.sequences


def agrees(program: TileProgram, plan: Plan, sizes: dict[str, Any], seed: int = 3) -> None:
    """The plan computes what the equations say, every element of it, and its pipeline runs through."""
    scalars = scalar_values(program, sizes, {})
    inputs = random_inputs(program, sizes, seed)
    dense = {k: v for k, v in sizes.items() if isinstance(v, int)}
    got = interpret.run(plan, dense, scalars, inputs, lazy=True)
    for name, result in value_of(program, sizes, scalars, inputs).items():
        assert got[name].shape == result.value.shape
        found = compare(result, got[name], ())
        assert found.right, (name, found)
    integers = {name: n for name, n in scalars.items() if isinstance(n, int)}
    assert check(plan, {**run_symbols(sizes), **integers, "sm_count": 3}) == []


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("text", [RAGGED, SCHEDULED], ids=["default", "scheduled"])
@pytest.mark.parametrize(("q", "k"), ATTENTION_LENGTHS, ids=str)
def test_attention_of_any_lengths(text: str, q: list[int], k: list[int], causal: bool) -> None:
    """Cases 9 and 21 among them: sequences without queries, without keys, of neither."""
    agrees(*planned(text, causal=causal), {"B": len(q), "Sq": q, "Sk": k, "H": 2})


CAUSAL = "  domain i, j: j <= i + Sk - Sq if causal"
WINDOW = SCHEDULED.replace("scalar scale", "scalar left: i32 >= -1 = 20\n  scalar scale").replace(
    CAUSAL, f"{CAUSAL}\n  domain i, j: i + Sk - Sq - left <= j or j < 3 or j >= Sk - 1 if left >= 0"
)
DOCUMENTS = SCHEDULED.replace(
    "  input  Q:", "  input  doc: i32[B, Sk]\n  input  mine: i32[B, Sq]\n  input  Q:"
).replace(CAUSAL, f"{CAUSAL}\n  domain b, i, j: mine[b, i] == doc[b, j] or j < 2")
SCORES = (
    SCHEDULED.replace(
        "  input  Q:", "  input  slope: f32[H]\n  input  sink: f32[H]\n  input  heat: f32[B, Sq]\n  input  Q:"
    )
    .replace("= scale * sum[d]", "= heat[b, i] / sqrt(Sk) * 20 * tanh((slope[h] * (j - i - Sk + Sq) + scale * sum[d]")
    .replace("k[j, d])\n", "k[j, d])) / 20)\n")
    .replace("softmax[j](s[i, j])", "softmax[j](s[i, j]; sink[h])")
)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("text", [WINDOW, DOCUMENTS, SCORES], ids=["window", "documents", "scores"])
def test_domains_and_scores_count_from_the_sequences_own_ends(text: str, causal: bool) -> None:
    """Ranges of a disjunction, a guard on a scalar, conditions on data stored over tokens, lengths in arithmetic."""
    for q, k in (ATTENTION_LENGTHS[2], ATTENTION_LENGTHS[6]):
        agrees(*planned(text, causal=causal), {"B": len(q), "Sq": q, "Sk": k, "H": 2})


@pytest.mark.parametrize("seed", range(4))
def test_attention_of_random_lengths(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9))
    q, k = (rng.integers(0, 2 ** rng.integers(1, 9, count)).tolist() for _ in range(2))
    agrees(*planned(SCHEDULED, causal=bool(seed % 2)), {"B": count, "Sq": q, "Sk": k, "H": 2}, seed)


@pytest.mark.parametrize("D", [64, 128, 256])
def test_the_sample(D: int) -> None:
    program = sample("fa3_varlen", D=D, causal=D != 128)
    agrees(program, lower(program), {"B": 3, "Sq": [70, 0, 300], "Sk": [200, 3, 81], "Hk": 1, "G": 2})


def test_query_heads_share_the_rows_of_a_sequences_tiles() -> None:
    rows = "block i 16, r 8, j 64 consumers 2 over i, r stages k 2, v 2 late O by 1 batch O, s stale_max walk j down"
    program, plan = planned(schedule_of(text_of("fa3_varlen"), rows), D=64, causal=True)
    agrees(program, plan, {"B": 4, "Sq": [1, 0, 17, 40], "Sk": [70, 9, 200, 33], "Hk": 2, "G": 5})


@pytest.mark.parametrize("lengths", [[7, 0, 150], [0, 0], [64, 128, 1]], ids=str)
def test_one_side_alone_may_be_ragged(lengths: list[int]) -> None:
    agrees(*planned(KEYS_ONLY), {"B": len(lengths), "S": lengths, "M": 130})
    if sum(lengths):
        agrees(*planned(QUERIES_ONLY), {"B": len(lengths), "S": lengths, "N": 136})


# ---- the deal --------------------------------------------------------------------------------------


def starts(lengths: list[int]) -> np.ndarray[Any, Any]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def dealt(plan: Plan, q: list[int], k: list[int], H: int, ctas: int) -> tuple[Any, dict[str, Any], Any]:
    table, _ = table_of(plan)
    values = {"B": len(q), "H": H, "Sq.tokens": sum(q), "Sk.tokens": sum(k), "scale": 1}
    given = {"cu_q": starts(q), "cu_k": starts(k)}
    items, costs = items_of(table, values, given)
    return deal_sequences(table, values, given, ctas), items, costs


def test_every_block_of_every_sequence_is_dealt_once() -> None:
    q, k = [0, 129, 300, 1], [5, 0, 700, 128]
    plan = planned(SCHEDULED, causal=True)[1]
    table, items, _ = dealt(plan, q, k, 3, 4)
    total = evaluate(table_of(plan)[0].total, {"B": 4, "H": 3, "Sq.tokens": sum(q), "Sk.tokens": sum(k)})
    wanted = {(b, h, i) for b, n in enumerate(q) for h in range(3) for i in range(0, n, 128)}
    blocks = list(zip(items["b"], items["h"], items["i.0"], strict=True))
    assert set(blocks) == wanted
    assert len(blocks) == len(wanted) <= total
    live = []
    for column in table.transpose(1, 0, 2):
        end = next(n for n, row in enumerate(column) if row[0] == total)
        live += [int(row[0]) for row in column[:end]]
    assert sorted(live) == list(range(len(wanted)))


def test_the_costliest_items_come_first_and_are_shared_out_evenly() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(512, 8192, 16).tolist()
    for causal in (False, True):
        plan = planned(RAGGED, causal=causal)[1]
        table, items, costs = dealt(plan, lengths, lengths, 8, 132)
        assert (np.diff(costs) <= 0).all()
        count = len(costs)
        loads = [sum(int(costs[row[0]]) for row in column if row[1:].any() > 0) for column in table.transpose(1, 0, 2)]
        assert sum(loads) == costs.sum()
        assert max(loads) <= 1.02 * costs.sum() / 132, (max(loads), costs.sum() / 132, count)
        assert items["Sq"].max() == max(lengths)


def test_items_of_a_group_of_heads_come_before_the_next_groups() -> None:
    plan = planned(SCHEDULED, causal=True)[1]  # a head a group
    _, items, costs = dealt(plan, [300, 100], [900, 200], 3, 2)
    heads = items["h"].tolist()
    assert heads == sorted(heads)
    assert all((np.diff(costs[items["h"] == h]) <= 0).all() for h in range(3))


@pytest.mark.parametrize(
    ("cu", "found"),
    [
        ([1, 5, 9], (0, 0, 1, 0, 9)),
        ([0, 10, 9], (0, 2, 9, 10, 9)),
        ([0, 5, 8], (0, 2, 8, 5, 9)),
        ([0, -3, 9], (0, 1, -3, 0, 9)),
        ([0, 9, 9], None),
        ([0, 0, 9], None),
    ],
    ids=str,
)
def test_starts_that_are_no_running_sums(cu: list[int], found: tuple[int, ...] | None) -> None:
    _, q = table_of(planned(RAGGED, causal=True)[1])
    values = {"B": 2, "Sq.tokens": 9, "Sk.tokens": 4}
    assert starts_fault(q, values, {"cu_q": np.array(cu), "cu_k": np.array([0, 4, 4])}) == found


# ---- texts and checks ------------------------------------------------------------------------------


def test_a_plan_says_how_its_items_are_made_and_comes_back_from_json() -> None:
    plan = planned(SCHEDULED, causal=True)[1]
    text = print_plan(plan)
    assert "made by the device, from the lengths of sequences" in text
    assert "Sq.start = cu_q[b], Sq = cu_q[b + 1] - Sq.start" in text
    assert "units of a sequence Sq cdiv 128" in text
    assert plan_from_json(plan_to_json(plan)) == plan


def _changed(plan: Plan, **fields: Any) -> Plan:
    table, q = table_of(plan)
    return replace(plan, table=replace(table, sequences=replace(q, **fields)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p, q: _changed(p, params=q.params[1:]), "takes one TableParam"),
        (lambda p, q: _changed(p, params=(*q.params, ir.FaultParam())), "takes one FaultParam"),
        (lambda p, q: _changed(p, params=q.params[:-1]), "no parameter carries group.size"),
        (lambda p, q: _changed(p, params=q.params[:4] + q.params[5:]), "no parameter carries the address of cu_q"),
        (lambda p, q: _changed(p, lengths=(replace(q.lengths[0], starts="Q"),)), "Q is no vector of whole numbers"),
        (lambda p, q: _changed(p, count=Sym("X")), "nothing named X is in scope"),
        (lambda p, q: _changed(p, units=Sym("work.item")), "nothing named work.item is in scope"),
        (lambda p, q: _changed(p, items=Sym("Sq")), "nothing named Sq is in scope"),
        (lambda p, q: _changed(p, ranking=()), "nothing binds work.rank"),
        (lambda p, q: _changed(p, unit="other"), "nothing named work.unit is in scope"),
        (lambda p, q: replace(p, table=replace(p.table, fields=(*p.table.fields, "x"))), "nothing binds the field x"),
        (
            lambda p, q: replace(p, table=replace(p.table, cost=Sym("work.units"))),
            "nothing named work.units is in scope",
        ),
        (lambda p, q: replace(p, table=replace(p.table, cost=Sym("work.item"))), "nothing named work.item is in scope"),
        (lambda p, q: replace(p, params=(*p.params, ir.CtasParam())), "only a kernel that deals out items"),
    ],
)
def test_the_verifier_sees_what_the_dealing_kernel_lacks(change: Any, words: str) -> None:
    plan = planned(SCHEDULED, causal=True)[1]
    verify(plan)
    with pytest.raises(InvalidPlan, match=words):
        verify(change(plan, table_of(plan)[1]))


def test_sequences_that_no_size_counts_are_refused() -> None:
    plan = _changed(planned(SCHEDULED, causal=True)[1], count=op("mul", Sym("B"), Int(2)))
    verify(plan)
    assert "INVALID_PLAN" in {d.code for d in check_all(plan)}


def test_no_length_is_a_parameter_of_the_kernel() -> None:
    plan = planned(SCHEDULED, causal=True)[1]
    names = {p.name for p in plan.params if isinstance(p, SizeParam)}
    assert names == {"B", "H", "Sq.tokens", "Sk.tokens"}


def test_the_trials_try_sequences_of_no_one_and_many_blocks() -> None:
    plan = planned(SCHEDULED, causal=True)[1]
    lengths = {tuple(t[length_symbol("Sq", n)] for n in range(3)) for t in trials(plan)}
    assert {n for each in lengths for n in each} >= {0, 1, 128, 129, 257}
    assert check_all(plan) == []


def test_too_many_tokens_for_32_bits_are_refused() -> None:
    plan = planned(SCHEDULED, causal=True)[1]
    small = {"B": 2, "H": 2, "sm_count": 132, "Sq.tokens": 2**20, "Sk.tokens": 2**20}
    check_integers(plan, small)
    with pytest.raises(TilegenError, match=r"INTEGER_RANGE.*tokens"):
        check_integers(plan, {**small, "Sq.tokens": 2**31 - 1})
