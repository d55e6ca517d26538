"""Directives as rewrites of the Scheduled program: what each changes, and that it changes nothing else."""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from tests.passes.specs import CASES, case_id, loaded, sample, schedule_of, text_of, unscheduled
from tilegen.ir.folded_text import print_folded
from tilegen.ir.scheduled import Batch, Scheduled, Store, Stream, TileBuffer
from tilegen.ir.scheduled_text import print_scheduled
from tilegen.ir.scheduled_verify import verify
from tilegen.ir.tile import ParamValue
from tilegen.passes.pipeline import lower, to_scheduled
from tilegen.passes.schedule import REGISTERS

ATTENTION = text_of("fa3_fwd")
GEMM = text_of("gemm")
ROWS = text_of("row_softmax")
FIELDS = [f.name for f in fields(Scheduled) if f.name not in ("program", "span")]


def scheduled(text: str, directives: str, **params: ParamValue) -> Scheduled:
    return to_scheduled(loaded(schedule_of(text, directives), **params))


def plain(node: Any) -> Any:
    """A node without its places in the spec."""
    if isinstance(node, tuple):
        return tuple(map(plain, node))
    if is_dataclass(node):
        return (type(node).__name__, *(plain(getattr(node, f.name)) for f in fields(node) if f.name != "span"))
    return node


def changes(before: Scheduled, after: Scheduled) -> set[str]:
    """Parts of the program that differ."""
    assert print_folded(before.program) == print_folded(after.program), "a schedule touches no equation"
    return {name for name in FIELDS if plain(getattr(before, name)) != plain(getattr(after, name))}


def stream(s: Scheduled) -> Stream:
    return next(p for p in s.phases if isinstance(p, Stream))


def body(s: Scheduled) -> list[str]:
    """The loop body in short: `O+s` a batch, `O'` a step that is late, the wait behind a colon."""

    def short(item: Any) -> str:
        if not isinstance(item, Batch):
            return f"{item.op}{chr(39) * item.distance}"
        return "+".join(f"{x.op}{chr(39) * x.distance}" for x in item.steps) + f":{item.wait}"

    return [short(item) for item in stream(s).body]


BASE = "block i 128, j 64 consumers 2 over i"
VALUES = ["s_live", "p_max", "p", "p_sum", "p_bf16"]  # of attention, in their order

# spec, base schedule, directive, what it changes
EFFECTS: list[tuple[str, str, str, set[str]]] = [
    (GEMM, "", "block n 64", {"roles"}),
    (GEMM, "", "consumers 1 over m", {"workers"}),
    (GEMM, "", "consumers 3 over m", {"workers"}),
    (GEMM, "", "registers 240, 24", {"workers"}),
    (GEMM, "", "stages a 5", {"tiles"}),
    (GEMM, "", "stages a 1", {"tiles", "phases"}),
    (GEMM, "", "walk k down", {"phases"}),
    (GEMM, "", "persistent static", {"order"}),
    (GEMM, "", "persistent table", {"order"}),
    (GEMM, "", "order longest_first", set()),  # all items are equally long
    (ATTENTION, BASE, "order longest_first", {"order"}),
    (GEMM, "", "order n, m", {"order"}),
    (GEMM, "", "group m by 4", {"order"}),
    (GEMM, "", "group n by 2 MB", set()),  # items that read the same stand together already
    (GEMM, "order n, m", "group n by 2 MB", {"order"}),
    (GEMM, "", "via C tma", {"stores"}),
    (GEMM, "", "take_turns over C", {"turns"}),
    (GEMM, "", "batch C", {"phases"}),
    (GEMM, "", "issue C", {"phases"}),
    (GEMM, "", "late C by 1", {"phases"}),
    (GEMM, "", "skip_rows", set()),  # every consumer's rows need every block
    (GEMM, "", "dependent_launch", {"dependent"}),
    (ATTENTION.replace("causal: bool = false", "causal: bool = true"), BASE, "isolate fast", {"tiles"}),
    (ATTENTION, BASE, "isolate exact", set()),
    (GEMM, "", "stream k", set()),
    (GEMM, "", "grid m, n", set()),
    (ATTENTION, BASE, "late O by 1", {"phases"}),
    (ATTENTION, BASE, "ahead s by 1", {"phases"}),
    (ATTENTION, BASE + " late O by 1", "batch O, s", {"phases"}),
    (ATTENTION, BASE + " late O by 1", "issue s, O", {"phases"}),
    (ATTENTION, BASE + " late O by 1 issue s, O", "under O: p", set()),
    (ATTENTION, BASE, "under O: p", {"phases"}),
    (ATTENTION, BASE, "take_turns over s, O", {"turns"}),
    (ATTENTION, BASE, "stale_max", {"stale"}),
    (ATTENTION, BASE, "walk j down", {"phases"}),
    (ATTENTION, BASE, "skip_rows", {"phases"}),
    (ATTENTION, BASE, "alias O, q", {"stores"}),
    (ATTENTION, BASE, "via O tma", {"stores"}),
    (ATTENTION, BASE, "stages O 2", {"stores"}),
    (ATTENTION, BASE, "via O rows", set()),
    (ATTENTION, BASE, "place p shared", {"placed"}),
    (ATTENTION, BASE, "place p registers", set()),
    (ATTENTION, BASE, "place q shared", set()),  # as tiles are
    (ATTENTION, BASE, "hint k keep, q stream", {"tiles"}),
    (ATTENTION, BASE, "hint k normal", set()),
    (ATTENTION, f"{BASE} via O tma", "hint O stream", {"stores"}),
    (ATTENTION, BASE, "late O by 0", set()),
    (ATTENTION, BASE, "ahead s by 0", set()),
    (ATTENTION, BASE, "hold d, e", set()),
    (ATTENTION, BASE + " order longest_first", "group h by 8 MB", {"order"}),
    (ROWS, "", "walk j down", {"phases"}),
    (ROWS, "", "stages x 3", {"tiles"}),
]


@pytest.mark.parametrize(
    ("text", "base", "directive", "changed"), EFFECTS, ids=[f"{e[2]}-{n}" for n, e in enumerate(EFFECTS)]
)
def test_a_directive_changes_what_it_speaks_of_and_nothing_else(
    text: str, base: str, directive: str, changed: set[str]
) -> None:
    params: dict[str, ParamValue] = {"causal": True} if text == ATTENTION else {}
    before, after = scheduled(text, base, **params), scheduled(text, f"{base} {directive}", **params)
    assert changes(before, after) == changed
    verify(after)


# ---- one by one ------------------------------------------------------------------------------------


def test_block_changes_one_axis() -> None:
    before, after = scheduled(GEMM, ""), scheduled(GEMM, "block n 64")
    assert [(r.axis, r.block) for r in before.roles] == [("m", 128), ("n", 128), ("k", 64)]
    assert [(r.axis, r.block) for r in after.roles] == [("m", 128), ("n", 64), ("k", 64)]
    assert {r.role for r in before.roles} == {r.role for r in after.roles}


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_consumers_come_with_their_registers(count: int) -> None:
    workers = scheduled(GEMM, f"consumers {count} over m").workers
    assert (workers.count, workers.axes) == (count, ("m",))
    found = (workers.consumer_registers, workers.producer_registers)
    assert found == (REGISTERS[count] or (None, None))


def test_stated_registers_stand_whatever_the_order() -> None:
    for text in ("registers 152, 40 consumers 3 over m", "consumers 3 over m registers 152, 40"):
        workers = scheduled(GEMM, text).workers
        assert (workers.count, workers.consumer_registers, workers.producer_registers) == (3, 152, 40)


def test_consumers_over_another_axis_take_their_tiles_apart() -> None:
    text = text_of("copy")
    assert scheduled(text, "consumers 2 over i").tile("x").apart
    s = scheduled(GEMM, "consumers 2 over n")
    assert not any(t.apart for t in s.tiles)


def test_stages_change_one_ring() -> None:
    tiles = {t.tile: t.depth for t in scheduled(GEMM, "stages a 5").tiles}
    assert tiles == {"a": 5, "b": 2}


def test_a_ring_of_one_slot_keeps_no_product_in_flight() -> None:
    assert body(scheduled(GEMM, "")) == ["C_acc:next"]
    assert body(scheduled(GEMM, "stages a 1")) == ["C_acc:now"]
    assert body(scheduled(GEMM, "stages b 2")) == ["C_acc:next"]


def test_late_moves_the_product_to_the_front() -> None:
    assert body(scheduled(ATTENTION, BASE)) == ["s:now", *VALUES, "O_acc_rescaled", "O_acc:now"]
    assert body(scheduled(ATTENTION, BASE + " late O by 1")) == ["O_acc':now", "s:now", *VALUES, "O_acc_rescaled"]


def test_ahead_is_a_distance_of_all_the_others() -> None:
    late = [f"{v}'" for v in VALUES]
    assert body(scheduled(ATTENTION, BASE + " ahead s by 1")) == [*late, "O_acc_rescaled'", "O_acc':now", "s:now"]


def test_batch_issues_together_and_first() -> None:
    s = scheduled(ATTENTION, BASE + " late O by 1 batch O, s")
    assert body(s) == ["O_acc'+s:now", *VALUES, "O_acc_rescaled"]
    swapped = scheduled(ATTENTION, BASE + " late O by 1 batch s, O")
    assert body(swapped) == ["s+O_acc':now", *VALUES, "O_acc_rescaled"]


def test_issue_and_under_leave_products_to_be_awaited_where_they_are_needed() -> None:
    s = scheduled(ATTENTION, BASE + " late O by 1 issue s, O")
    assert body(s) == ["s:needed", "O_acc':needed", *VALUES, "O_acc_rescaled"]
    assert body(scheduled(ATTENTION, BASE + " under O: p"))[-1] == "O_acc:needed"


def test_products_that_only_accumulate_share_a_batch() -> None:
    s = to_scheduled(loaded(unscheduled(text_of("swiglu"))))
    assert body(s) == ["gate+up:next"]


def test_turns_name_products_by_their_equations() -> None:
    assert scheduled(ATTENTION, BASE + " take_turns over s, O").turns == ("s", "O_acc")


def test_stale_max_names_exponents_whose_weights_are_summed() -> None:
    assert scheduled(ATTENTION, BASE + " stale_max").stale == ("p_max",)


@pytest.mark.parametrize("text", [ATTENTION, ROWS])
def test_walk_turns_every_loop_over_the_axis(text: str) -> None:
    s = scheduled(text, "walk j down")
    assert [p.direction for p in s.phases if isinstance(p, Stream)] == ["down"] * (1 if text == ATTENTION else 2)


def test_longest_first_puts_the_far_rows_of_all_first() -> None:
    order = scheduled(ATTENTION, BASE + " order longest_first", causal=True).order
    assert order.axes == ("h", "b", "i")
    assert order.descending == ("i",)


def test_a_stated_order_is_taken_as_it_stands() -> None:
    order = scheduled(ATTENTION, BASE + " order b, i, h").order
    assert (order.axes, order.descending) == (("b", "i", "h"), ())


def test_groups_are_counted_or_measured() -> None:
    assert scheduled(GEMM, "group m by 4").order.group == ("m", None, 4)
    assert scheduled(GEMM, "order n, m group m by 4").order.group == ("m", None, 4)
    assert scheduled(GEMM, "order n, m group n by 2 MB").order.group == ("n", 2 << 20, None)


def test_an_alias_is_a_store_through_the_bytes_of_the_tile() -> None:
    for text in ("alias O, q", "via O tma alias O, q", "alias O, q via O tma"):
        assert plain(scheduled(ATTENTION, f"{BASE} {text}").store("O")) == plain(
            Store("O", "tma", "q", sample("copy").span)
        )


def test_stages_of_an_output_are_places_that_it_leaves_through_by_tma() -> None:
    for text in ("stages O 2", "via O tma stages O 2", "stages O 2 via O tma"):
        assert plain(scheduled(ATTENTION, f"{BASE} {text}").store("O")) == plain(
            Store("O", "tma", None, sample("copy").span, stages=2)
        )


def test_roles_override_the_default() -> None:
    s = scheduled(text_of("copy"), "stream j")
    assert s.role("j").role == "stream"
    assert isinstance(s.phases[0], Stream)
    assert plain(s.tile("x")) == plain(TileBuffer("x", 2, False, s.span))


# ---- defaults --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_every_sample_lowers_without_a_schedule(case: tuple[str, dict[str, ParamValue]]) -> None:
    name, params = case
    program = loaded(unscheduled(text_of(name)), **params)
    s = to_scheduled(program)
    verify(s)
    assert lower(program).threads == 384
    assert s.order.persistent is None
    assert all(step.distance == 0 for p in s.phases for step in p.steps)


def test_held_streamed_and_grid_axes_by_default() -> None:
    roles = {r.axis: r.role for r in to_scheduled(loaded(unscheduled(ATTENTION))).roles}
    assert roles == {"b": "grid", "h": "grid", "i": "grid", "j": "stream", "d": "hold", "e": "hold"}


def test_weights_that_are_stored_get_a_second_loop() -> None:
    """It computes again what is no fold, and reads the finished exponent and sum."""
    first, second = (p for p in scheduled(ROWS, "").phases if isinstance(p, Stream))
    assert [x.op for x in first.steps] == ["Y_argument", "Y_argument_live", "Y_max", "Y_weight", "Y_sum"]
    assert [x.op for x in second.steps] == ["Y_argument", "Y_argument_live", "Y_weight", "Y_out", "Y_store"]


def test_folds_that_stay_relative_need_no_second_loop() -> None:
    text = ROWS.replace("output Y: T[M, N]", "output Y: f32[M]").replace(
        "Y[i, j] = softmax[j](x[i, j])", "Y[i] = sum[j](softmax[j](x[i, j]) * x[i, j])"
    )
    assert len([p for p in scheduled(text, "").phases if isinstance(p, Stream)]) == 1
    squared = text.replace("softmax[j](x[i, j]) * x[i, j]", "softmax[j](x[i, j]) * exp(softmax[j](x[i, j]))")
    assert len([p for p in scheduled(squared, "").phases if isinstance(p, Stream)]) == 2


# ---- the file's order means nothing ------------------------------------------------------------------

FLAGSHIP = [
    "block i 192, j 80",
    "consumers 3 over i",
    "registers 160, 32",
    "stages k 3, v 3",
    "late O by 1",
    "batch O, s",
    "take_turns over s, O",
    "stale_max",
    "walk j down",
    "skip_rows",
    "persistent static",
    "order longest_first",
    "group h by 32 MB",
    "via O tma",
    "alias O, q",
]
ANOTHER = [
    "late O by 1",
    "issue s, O",
    "under O: p",
    "block i 128, j 64",
    "consumers 2 over i",
    "stages k 2, v 2, O 2",
    "via O tma",
    "hint O stream",
]


@pytest.mark.parametrize("directives", [FLAGSHIP, ANOTHER], ids=["batch", "issue"])
def test_directives_may_stand_in_any_order(directives: list[str]) -> None:
    wanted = scheduled(ATTENTION, " ".join(directives), causal=True)
    rng = random.Random(7)
    for _ in range(8):
        shuffled = rng.sample(directives, len(directives))
        assert print_scheduled(scheduled(ATTENTION, " ".join(shuffled), causal=True)) == print_scheduled(wanted), (
            shuffled
        )


def test_the_first_schedule_whose_condition_holds_counts() -> None:
    text = schedule_of(GEMM, "block n 64").replace("hopper {", "hopper if T == bf16 {").rstrip()
    text = text[:-1] + "  schedule hopper { block n 128 }\n}"
    assert to_scheduled(loaded(text)).role("n").block == 64
