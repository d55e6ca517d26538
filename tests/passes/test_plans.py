"""Plans of the samples: their texts, and what they promise about waits, turns, masks and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.passes.specs import CASES, case_id, loaded, planned_sample, sample, schedule_of, text_of
from tilegen.checks.pipeline import check, run
from tilegen.ir import plan as ir
from tilegen.ir.plan_text import print_plan
from tilegen.ir.plan_verify import verify
from tilegen.ir.plan_walk import all_operations, operations
from tilegen.ir.tile import ParamValue
from tilegen.ir.uniform import evaluate, op, symbols
from tilegen.passes.pipeline import lower

_T = TypeVar("_T")
ATTENTION = text_of("fa3_fwd")
GOLDEN: list[tuple[str, dict[str, ParamValue]]] = [
    ("fa3_fwd", {"D": 128}),
    ("fa3_fwd", {"D": 128, "causal": True}),
    ("gemm", {}),
    ("row_softmax", {}),
    ("copy", {}),
    ("swiglu", {}),
    ("difference", {}),
]


@pytest.mark.parametrize("case", GOLDEN, ids=case_id)
def test_plan_texts(case: tuple[str, dict[str, ParamValue]], golden: Callable[..., None]) -> None:
    name, params = case
    golden(print_plan(planned_sample(name, **params)))


# ---- every sample ----------------------------------------------------------------------------------


def ops(plan: ir.Plan, kind: type[_T], role: str | None = None) -> list[_T]:
    return [o for r, _, o in all_operations(plan) if isinstance(o, kind) and role in (None, r.name)]


def loops(plan: ir.Plan) -> list[ir.For]:
    """The consumers' loops that hold products or folds."""
    return [f for f in ops(plan, ir.For, "consumer") if any(isinstance(o, ir.Mma | ir.RowFold) for o in f.body)]


def position(body: tuple[ir.Operation, ...], kind: type, **wanted: object) -> int:
    """Where the only operation of this kind stands in a body."""
    (found,) = [
        n
        for n, o in enumerate(body)
        if isinstance(o, kind) and all(getattr(o, name) == value for name, value in wanted.items())
    ]
    return found


every_sample = pytest.mark.parametrize("case", CASES, ids=case_id)


@every_sample
def test_expected_bytes_are_the_boxes_of_one_fill(case: tuple[str, dict[str, ParamValue]]) -> None:
    name, params = case
    plan = planned_sample(name, **params)
    verify(plan)
    for role_index, role in enumerate(plan.roles):
        expected: list[tuple[ir.Slot, int]] = []
        for _, o in operations(role, role_index):
            if isinstance(o, ir.Expect):
                assert o.bytes == plan.ring(o.slot.ring).bytes
                expected.append((o.slot, 0))
            elif isinstance(o, ir.TmaLoad):
                slot, total = expected[-1]
                assert slot == o.slot
                expected[-1] = (slot, total + o.bytes)
        assert all(total == plan.ring(slot.ring).bytes for slot, total in expected)
        assert bool(expected) == (role.name == "producer")


@every_sample
def test_masks_stand_in_straddling_blocks_alone(case: tuple[str, dict[str, ParamValue]]) -> None:
    name, params = case
    plan = planned_sample(name, **params)
    for loop in loops(plan):
        masked = any(isinstance(o, ir.Mask) for o in loop.body)
        assert masked == (loop.label.startswith("straddling") or loop.label.endswith("masked")), loop.label


@every_sample
def test_a_slot_is_released_behind_the_await_of_its_last_reader(case: tuple[str, dict[str, ParamValue]]) -> None:
    """In every body: after a release no operation reads the slot, and no product that does is in flight."""
    name, params = case
    plan = planned_sample(name, **params)
    for body in [loop.body for loop in loops(plan)]:
        flying: dict[str, set[str]] = {}
        for o in body:
            if isinstance(o, ir.Mma):
                flying[o.token] = {s.slot.ring for s in (o.a, o.b) if isinstance(s, ir.SlotOperand)}
            elif isinstance(o, ir.MmaWait):
                flying = {} if o.pending == 0 else {t: r for t, r in flying.items() if t not in o.retires}
            elif isinstance(o, ir.ArriveEmpty) and o.slot.cursor.endswith("_read"):
                assert not any(o.slot.ring in rings for rings in flying.values())


@every_sample
def test_waits_of_the_inner_loop_are_full_barriers_and_one_for_products(
    case: tuple[str, dict[str, ParamValue]],
) -> None:
    name, params = case
    plan = planned_sample(name, **params)
    streamed = {r.name for r in plan.rings if r.depth > 1}
    for loop in loops(plan):
        waits = [o for o in loop.body if isinstance(o, ir.WaitFull)]
        assert {w.slot.ring for w in waits} <= streamed
        assert len(waits) == len({w.slot.ring for w in waits})
        products = sum(isinstance(o, ir.Mma) for o in loop.body)
        assert sum(isinstance(o, ir.MmaWait) for o in loop.body) == min(products, 1)
        assert not any(isinstance(o, ir.WaitEmpty | ir.StoreWait | ir.GroupSync | ir.If | ir.For) for o in loop.body)


SIZES: dict[str, list[dict[str, int]]] = {
    "fa3_fwd": [
        {"B": 1, "Sq": Sq, "Sk": Sk, "Hk": 2, "G": 1}
        for Sq, Sk in [(0, 100), (1, 0), (1, 1), (200, 64), (200, 300), (500, 1000), (1000, 130)]
    ],
    "gemm": [{"M": 300, "N": 300, "K": K} for K in (0, 1, 64, 65, 200, 700)],
    "row_softmax": [{"M": 300, "N": N} for N in (0, 1, 64, 65, 200, 700)],
    "difference": [
        {"M": M, "N": N, "lag": lag} for M, N, lag in [(0, 8, 1), (1, 8, 1), (300, 136, 0), (300, 136, 200)]
    ],
    "copy": [{"M": M, "N": N} for M, N in [(0, 1), (1, 1), (300, 129)]],
    "gemm_logsumexp": [{"M": 300, "V": V} for V in (0, 1, 128, 129, 400, 900)],
}
WINDOWS = {"attention_window": {"left": 70, "right": 0}, "attention_global_tokens": {"globals": 70, "window": 20}}
SIZES |= {name: [{**sizes, **scalars} for sizes in SIZES["fa3_fwd"]] for name, scalars in WINDOWS.items()}
SIZES |= {
    "attention_documents": SIZES["fa3_fwd"],
    "gemm_bias_gelu": SIZES["gemm"],
    "swiglu": SIZES["gemm"],
}
SIZES |= {f"attention_{score}": SIZES["fa3_fwd"] for score in ("alibi", "bias", "sink", "softcap")}


@every_sample
def test_every_sample_runs_through_at_any_length(case: tuple[str, dict[str, ParamValue]]) -> None:
    """Loops of no, one and two rounds, fewer than the rings are deep and more; items one after the other."""
    name, params = case
    plan = planned_sample(name, **params)
    for sizes in SIZES[name]:
        assert check(plan, {**sizes, "sm_count": 2}) == [], sizes


# ---- the flagship ----------------------------------------------------------------------------------


def flagship(causal: bool = True) -> ir.Plan:
    return planned_sample("fa3_fwd", D=128, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
def test_the_product_of_the_last_step_flies_with_the_scores_of_this_one(causal: bool) -> None:
    """A distance of 1: one batch, O first, on the weights of the step before; they are made behind its await."""
    for loop in loops(flagship(causal)):
        late, scores = position(loop.body, ir.Mma, token="O_acc"), position(loop.body, ir.Mma, token="s")
        commit, wait = position(loop.body, ir.MmaCommit), position(loop.body, ir.MmaWait)
        assert late < scores < commit < wait
        assert loop.body[commit].tokens == ("O_acc", "s")  # type: ignore[union-attr]
        (packed,) = [o for o in loop.body if isinstance(o, ir.Relayout | ir.Sweep)]
        assert loop.body.index(packed) > wait
        operand = loop.body[late].a  # type: ignore[union-attr]
        assert operand == ir.FragmentOperand("p_bf16")


def tokens(body: tuple[ir.Operation, ...]) -> list[str]:
    return [o.token for o in body if isinstance(o, ir.Mma)]


def test_the_first_step_is_peeled_and_the_last_product_drained() -> None:
    (work,) = [o for o in flagship().role("consumer").body if isinstance(o, ir.Work)]
    first, last = [o.body for o in work.body if isinstance(o, ir.If)]
    assert tokens(first) == ["s"]
    assert tokens(last) == ["O_acc"]
    starts = [o.start for o in first if isinstance(o, ir.For) and tokens(o.body)]
    assert len(starts) == 2, "straddling blocks and blocks inside"
    assert not any(isinstance(o, ir.Map) and o.out == "O_acc" for o in first), "nothing is accumulated to rescale yet"


@pytest.mark.parametrize("causal", [False, True])
def test_every_body_takes_one_turn_and_hands_it_on(causal: bool) -> None:
    plan = flagship(causal)
    bodies = [f.body for f in ops(plan, ir.For, "consumer")] + [i.body for i in ops(plan, ir.If, "consumer")]
    bodies = [b for b in bodies if tokens(b) or any(isinstance(o, ir.ArriveEmpty) for o in b)]
    assert len(bodies) > 2
    for body in bodies:
        taken = [type(o) for o in body if isinstance(o, ir.OrderWait | ir.OrderPass)]
        assert taken == [ir.OrderWait, ir.OrderPass]
        if tokens(body):
            issue = [n for n, o in enumerate(body) if isinstance(o, ir.Mma)]
            assert position(body, ir.OrderWait) < issue[0]
            assert issue[-1] < position(body, ir.OrderPass) < position(body, ir.MmaWait)


@pytest.mark.parametrize(("Sq", "Sk"), [(200, 0), (1, 1), (200, 200), (500, 700), (700, 300)])
def test_every_warpgroup_takes_the_same_number_of_turns(Sq: int, Sk: int) -> None:
    """Also where blocks are passed by, and where rows stand past the end."""
    trace = run(flagship(), {"B": 1, "Sq": Sq, "Sk": Sk, "Hk": 1, "G": 1, "sm_count": 2}, [0])
    assert trace.diagnostics == ()
    turns = Counter(e.process for e in trace.events if isinstance(e.operation, ir.OrderWait))
    assert len(set(turns.values())) <= 1
    assert len(turns) == (3 if Sk else 0)


def test_states_start_over_with_every_item() -> None:
    (work,) = [o for o in flagship(causal=False).role("consumer").body if isinstance(o, ir.Work)]
    inits = {o.fragment: o.value for o in work.body if isinstance(o, ir.Init)}
    assert inits["p_sum"] == inits["p_max.shift"] == 0
    assert inits["p_max"] == float("-inf")
    assert "O_acc" not in inits, "its first product overwrites it"
    *_, none = [o.body for o in work.body if isinstance(o, ir.If)]
    assert [o.fragment for o in none if isinstance(o, ir.Init)] == ["O_acc"], "where no step runs"


FIRST_PRODUCTS: list[tuple[str, str, set[object]]] = [
    ("gemm", "", {True, False}),
    ("swiglu", "", {True, False}),
    ("fa3_fwd", "late O by 1 batch O, s", {op("eq", "j.step", 1), op("eq", "j.steps", 1)}),
    ("fa3_fwd", "late O by 1 issue s, O", {op("eq", "j.step", 1), op("eq", "j.steps", 1)}),
    ("fa3_fwd", "", {False}),  # rescaled before its first product
    ("fa3_fwd", "ahead s by 1", {False}),
    ("fa3_fwd", "consumers 2 over i skip_rows late O by 1", {False}),  # the first is another for each warpgroup
]


@pytest.mark.parametrize(("name", "order", "zeros"), FIRST_PRODUCTS)
def test_the_first_product_overwrites(name: str, order: str, zeros: set[object]) -> None:
    """By what is known of the loop's first time; zeros are then filled in only where there is no product."""
    plan = lower(loaded(schedule_of(ATTENTION, order), causal=True) if name == "fa3_fwd" else sample(name))
    held = [o for o in ops(plan, ir.Mma) if o.accumulator != "s"]
    assert {o.zero for o in held} == zeros
    (work,) = ops(plan, ir.Work, "consumer")
    filled = {o.fragment for o in work.body if isinstance(o, ir.Init)}
    assert {o.accumulator in filled for o in held} == {zeros == {False}}


def test_the_registers_of_scores_become_those_of_weights() -> None:
    fragments = {f.name: f for f in flagship().role("consumer").fragments}
    assert fragments["p"].storage == "s"
    assert fragments["O_out"].storage == "O_acc"
    assert fragments["p_bf16"].storage == "p_bf16"


def test_the_producer_loads_what_is_needed_first() -> None:
    """The first scores' tile, then the rows, then by turns the last step's values and this step's keys."""
    loads = [o.slot.ring for o in ops(flagship(), ir.TmaLoad, "producer")]
    assert loads == ["k", "q", "q", "q", "v", "k", "v"]


# ---- other orders ----------------------------------------------------------------------------------

OTHER = "block i 128, j 64 consumers 2 over i stages k 2, v 2 late O by 1 issue s, O under O: p walk j down"


def other(more: str = "", causal: bool = True) -> ir.Plan:
    return lower(loaded(schedule_of(ATTENTION, f"{OTHER} {more}"), causal=causal))


@pytest.mark.parametrize("more", ["", "take_turns over s, O"])
def test_scores_are_awaited_with_the_last_product_still_in_flight(more: str) -> None:
    """issue s, O under O: p: s is waited for with one group pending, and the softmax runs before the wait for O."""
    for loop in loops(other(more)):
        waits = [(n, o) for n, o in enumerate(loop.body) if isinstance(o, ir.MmaWait)]
        assert [(o.pending, o.retires) for _, o in waits] == [(1, ("s",)), (0, ("O_acc",))]
        (weights,) = [n for n, o in enumerate(loop.body) if isinstance(o, ir.Map) and o.out == "p"]
        pack = position(loop.body, ir.Relayout)
        assert waits[0][0] < weights < waits[1][0] < pack, "the operand of the product in flight is not written"
        released = [o.slot.ring for o in loop.body[waits[0][0] : waits[1][0]] if isinstance(o, ir.ArriveEmpty)]
        assert released == ["k"]


@pytest.mark.parametrize("Sk", [0, 1, 64, 65, 200, 700])
@pytest.mark.parametrize("more", ["", "take_turns over s, O", "persistent static alias O, q"])
def test_the_other_order_runs_through_at_any_length(more: str, Sk: int) -> None:
    assert check(other(more), {"B": 1, "Sq": 300, "Sk": Sk, "Hk": 2, "G": 1, "sm_count": 3}) == []


def test_an_alias_stores_from_the_bytes_of_the_tile_before_it_is_released() -> None:
    plan = other("alias O, q via O tma persistent static")
    staging = plan.buffer("O.staging")
    assert staging.host == "q"
    assert staging.offset == plan.buffer("q").offset
    assert not plan.ring("q").depth > 1
    kinds = [
        type(o).__name__
        for o in ops(plan, ir.Work, "consumer")[0].body
        if isinstance(o, ir.WriteShared | ir.TmaStore | ir.StoreCommit | ir.StoreWait | ir.FenceAsync | ir.ArriveEmpty)
    ]
    assert kinds[-5:] == ["FenceAsync", "TmaStore", "StoreCommit", "StoreWait", "ArriveEmpty"]
    assert plan.shared_bytes < other("via O tma").shared_bytes


@pytest.mark.parametrize(
    ("D", "stages", "columns", "places", "waits"),
    [
        (256, 2, [0, 64, 128, 192], [0, 1, 0, 1], [1, 1, 1, 1]),
        (192, 2, [0, 64, 128], [0, 1, 0], [0, 2, 1]),  # the next item begins with the place of the last piece
        (192, 1, [0, 64, 128], [0, 0, 0], [0, 0, 0]),
        (128, 3, [0, 64], [0, 1], [1, 1]),
        (64, 2, [0], [0], [0]),
        (40, 2, [0], [0], [0]),
    ],
)
def test_an_output_leaves_in_pieces_through_its_stages(
    D: int, stages: int, columns: list[int], places: list[int], waits: list[int]
) -> None:
    text = schedule_of(ATTENTION, f"block i 128, j 32 consumers 2 over i stages k 1, v 1, O {stages}")
    plan = lower(loaded(text, D=D))
    body = ops(plan, ir.Work, "consumer")[0].body
    writes = [o for o in body if isinstance(o, ir.WriteShared)]
    stores = [o for o in body if isinstance(o, ir.TmaStore)]
    assert [o.first for o in writes] == columns
    assert [o.stage for o in writes] == [o.stage for o in stores] == places
    assert [o.pending for o in body if isinstance(o, ir.StoreWait)] == waits
    buffer = plan.buffer("O.staging")
    assert buffer.stages == max(places) + 1
    assert buffer.cols == buffer.chunk or len(columns) == 1
    assert check(plan, {"B": 1, "Sq": 300, "Sk": 70, "Hk": 2, "G": 1, "sm_count": 3}) == []


def test_pieces_take_less_room_than_the_whole() -> None:
    whole, pieces = (other(how) for how in ("via O tma", "stages O 1"))
    assert pieces.shared_bytes < whole.shared_bytes


def test_a_store_of_its_own_bytes_waits_for_the_one_before() -> None:
    plan = other("via O tma persistent static")
    body = ops(plan, ir.Work, "consumer")[0].body
    assert position(body, ir.StoreWait) < position(body, ir.WriteShared) < position(body, ir.TmaStore)
    assert plan.buffer("O.staging").host is None
    assert isinstance(plan.role("consumer").body[-1], ir.StoreWait)


def test_products_that_only_accumulate_keep_one_group_in_flight() -> None:
    plan = planned_sample("swiglu")
    (loop,) = loops(plan)
    wait = loop.body[position(loop.body, ir.MmaWait)]
    assert isinstance(wait, ir.MmaWait)
    assert (wait.pending, wait.retires) == (1, ("gate", "up"))
    assert {c.name for c in plan.role("consumer").cursors} >= {"x_read", "x_free", "w1_free", "w2_free"}
    freed = {o.slot.cursor for o in ops(plan, ir.ArriveEmpty)}
    assert freed == {"x_free", "w1_free", "w2_free"}


def test_a_tile_read_element_by_element_is_released_by_every_warp() -> None:
    assert planned_sample("row_softmax").ring("x").release == "warp"
    assert planned_sample("gemm").ring("a").release == "warpgroup"


def test_groups_keep_items_together() -> None:
    """The items of a group come before the next group's, and every tile of the output is computed once."""
    plan = lower(loaded(schedule_of(text_of("gemm"), "block m 128, n 128 order n, m group m by 3")))
    sizes = {"M": 128 * 7, "N": 128 * 2, "K": 64, "sm_count": 2}
    found: list[tuple[int, int]] = []
    for cta in range(14):
        names = {**sizes, "work.item": cta}
        for let in (o for o in ops(plan, ir.Work, "producer")[0].body if isinstance(o, ir.Let)):
            if symbols(let.value) <= set(names):  # the others are the loop's
                names[let.name] = evaluate(let.value, names)
        found.append((names["m.0"] // 128, names["n.0"] // 128))
    assert sorted(found) == [(m, n) for m in range(7) for n in range(2)]
    assert [{m for m, _ in found[n : n + 6]} for n in (0, 6)] == [{0, 1, 2}, {3, 4, 5}]


def test_parameters_are_those_that_the_plan_uses() -> None:
    plan = planned_sample("gemm")
    kinds = Counter(type(p).__name__ for p in plan.params)
    assert kinds == {"MapParam": 3, "SizeParam": 3}
    assert [t.name for t in plan.tensors] == [t.name for t in sample("gemm").tensors]
