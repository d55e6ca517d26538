from __future__ import annotations

from dataclasses import replace

import pytest

from tests.passes.specs import loaded, text_of
from tests.plan import edits
from tests.plan.plans import F32, at, attention, gemm
from tilegen.checks.grid import check_grid
from tilegen.checks.resources import check, register_needs
from tilegen.diagnostics.core import Diagnostic
from tilegen.ir import plan as ir
from tilegen.ir.liveness import OVERHEAD, live_points
from tilegen.ir.uniform import Int, op
from tilegen.passes.pipeline import lower, lower_all

G, A = gemm(), attention()


@pytest.mark.parametrize("plan", [gemm(), gemm(4), gemm(consumers=3), gemm(1, 1), attention()])
def test_good_plans_fit(plan: ir.Plan) -> None:
    assert check(plan) == []


def unsplit(consumers: int) -> ir.Plan:
    """So many warpgroups of consumers, that all keep the registers that they have at entry."""
    plan = edits.role(G, "consumer", warpgroups=consumers, registers=None)
    return edits.role(plan, "producer", registers=None)


def only(plan: ir.Plan) -> Diagnostic:
    (diagnostic,) = check(plan)
    return diagnostic


def test_shared_memory_names_each_tile_and_what_to_shrink() -> None:
    d = only(gemm(stages=10))
    assert d.code == "SHARED_MEMORY_FULL"
    assert d.got == "262464 bytes"
    assert f"{262464 - 232448} bytes more" in d.message
    assert [n.text for n in d.notes] == [
        "a: 10 stages x 16384 bytes = 163840 bytes",
        "b: 10 stages x 8192 bytes = 81920 bytes",
        "c_out: 8192 bytes x 2 consumers = 16384 bytes",
    ]
    assert d.fixes[0] == "give a fewer stages: `stages a 8`"
    assert d.span == at(5)


def test_aliased_tiles_do_not_count_twice() -> None:
    (d,) = check(edits.buffer(replace(A, shared_bytes=240_000), "q", stages=1))
    assert "o_out" not in " ".join(n.text for n in d.notes)


def test_a_tile_in_one_stage_asks_for_a_smaller_block() -> None:
    plan = edits.buffer(replace(G, shared_bytes=240_000), "c_out", stage_bytes=60_000)
    assert only(plan).fixes[0] == "use a smaller block for the axes of c_out"


def test_threads() -> None:
    d = check(replace(unsplit(8), threads=1152, registers_at_entry=56))[0]
    assert (d.code, d.got, d.span) == ("TOO_MANY_THREADS", "1152 threads", at(4))


def test_named_barriers() -> None:
    d = only(edits.alter(A, "consumer", ir.GroupSync, first_id=15))
    assert (d.code, d.got, d.span) == ("TOO_MANY_BARRIERS", "17 named barriers", at(14))


def test_register_file() -> None:
    d = only(edits.role(G, "producer", registers=32))
    assert d.code == "REGISTER_FILE_FULL"
    assert d.got == "128 x 32 + 256 x 240 = 65536 registers"
    assert d.wanted == "at most 384 x 168 = 64512"


def test_roles_without_a_split_keep_what_they_have_at_entry() -> None:
    both = edits.role(edits.role(G, "producer", registers=None), "consumer", registers=None)
    assert check(both) == []
    assert only(edits.role(both, "consumer", registers=176)).got == "128 x 168 + 256 x 176 = 66560 registers"


def peak(plan: ir.Plan) -> dict[str, int]:
    place = register_needs(plan)[1].peak
    assert place is not None
    return dict(place.fragments)


def test_registers_are_those_of_the_values_alive_together() -> None:
    # under O: o, s and pa in flight or in use, and the row values of the softmax between its steps
    assert peak(A) == {"o": 32, "s": 32, "pa": 16, "alpha": 2, "m": 2, "r": 2, "z": 2}
    assert register_needs(A)[1].registers == 88 + OVERHEAD["consumer"]
    assert register_needs(A)[0].peak is None


def test_fragments_that_share_registers_count_once() -> None:
    shared = edits.fragment(A, "r", storage="z")
    assert peak(shared) == {"o": 32, "s": 32, "pa": 16, "alpha": 2, "m": 2, "z": 2}


def test_an_operand_in_flight_is_alive_until_it_is_awaited() -> None:
    # pa is not read after its product is issued, and is alive in the softmax all the same
    live = {p.operation.statement: p.live for p in live_points(A.roles[1], 1) if isinstance(p.operation, ir.RowFold)}
    assert "pa" in live["p"]
    early = edits.before(edits.drop(A, "consumer", ir.MmaWait, 2), "consumer", ir.OrderPass, nth=1)
    early = edits.alter(early, "consumer", ir.MmaWait, 1, pending=0, retires=("ts", "to"))
    live = {
        p.operation.statement: p.live for p in live_points(early.roles[1], 1) if isinstance(p.operation, ir.RowFold)
    }
    assert "pa" not in live["p"]


def test_a_value_alive_around_the_loop_counts_in_all_of_it() -> None:
    points = live_points(A.roles[1], 1)
    loop = next(p.path for p in points if isinstance(p.operation, ir.For))
    inside = [p for p in points if p.path[: len(loop)] == loop and len(p.path) > len(loop)]
    assert all({"o", "z"} <= p.live for p in inside)


def test_too_many_values_name_the_place_and_the_largest() -> None:
    wide = edits.fragment(A, "o", cols=256)
    d = only(edits.role(edits.role(wide, "consumer", registers=200), "producer", registers=24))
    assert d.code == "REGISTERS_FULL"
    assert d.got == "184 for values + 18 for addresses and counters = 202"
    assert d.wanted == "at most 200 a thread"
    assert d.notes[0].text == "o: 128 registers"
    assert "o takes most" in d.message
    assert d.span == at(13)


WIDE = """kernel wide {
  size   M
  input  X: bf16[M, 256]
  input  R: bf16[M, 256]
  output Y: bf16[M, 256]
  tile x[i, d] = X[i, d]
  tile r[i, d] = R[i, d]
  h[i, d] = x[i, d] + r[i, d]
  mean[i] = sum[d](h[i, d]) / 256
  Y[i, d] = (h[i, d] - mean[i]) * rsqrt(sum[d]((h[i, d] - mean[i]) * (h[i, d] - mean[i])))
  schedule hopper { STREAM }
}"""


def test_rows_that_are_held_whole_are_to_be_streamed() -> None:
    d = only(lower(loaded(WIDE.replace("STREAM", ""))))
    assert d.code == "REGISTERS_FULL"
    assert len(d.fixes) == 1
    assert "`stream AXIS`" in d.fixes[0]
    assert check(lower(loaded(WIDE.replace("STREAM", "stream d")))) == []


def test_needs_are_given_for_each_statement() -> None:
    need = dict(register_needs(A)[1].statements)
    assert need["p"].registers == 88
    assert need["LSE"].registers < need["O"].registers <= need["p"].registers


def test_sweeps_and_votes() -> None:
    """What a sweep makes for itself takes no registers; what a vote may change is alive around it."""
    here = at(9)
    sweep = ir.Sweep((ir.Map("h", ir.Element("c"), here), ir.RowFold("r", "h", "sum", "thread", here)), here)
    vote = ir.IfVote("r", (ir.Map("c", ir.Element("old"), here),), here)
    init = ir.Init("old", 1.0, here)
    extra = (
        ir.Fragment("h", "acc", 64, 64, F32, "", here),
        ir.Fragment("r", "row", 64, 1, F32, "r", here),
        ir.Fragment("old", "acc", 64, 64, F32, "old", here),
    )
    plan = edits.role(G, "consumer", fragments=(*G.roles[1].fragments, *extra))
    plan = edits.before(plan, "consumer", ir.WriteShared, init, sweep, vote)
    assert peak(plan) == {"c": 32, "old": 32, "r": 2}
    live = {type(p.operation): p.live for p in live_points(plan.roles[1], 1)}
    assert live[ir.IfVote] == {"c", "old", "r"}
    assert live[ir.WriteShared] == {"c"}


@pytest.mark.parametrize(
    ("code", "inside", "outside"),
    [
        ("SHARED_MEMORY_FULL", replace(G, shared_bytes=232448), replace(G, shared_bytes=232449)),
        (
            "TOO_MANY_THREADS",
            replace(unsplit(7), threads=1024, registers_at_entry=64),
            replace(unsplit(8), threads=1152, registers_at_entry=56),
        ),
        (
            "TOO_MANY_BARRIERS",
            edits.alter(A, "consumer", ir.GroupSync, first_id=14),
            edits.alter(A, "consumer", ir.GroupSync, first_id=15),
        ),
        ("REGISTER_FILE_FULL", edits.role(G, "producer", registers=24), edits.role(G, "producer", registers=32)),
        (
            "REGISTERS_FULL",
            edits.role(A, "consumer", registers=88 + OVERHEAD["consumer"]),
            edits.role(A, "consumer", registers=87 + OVERHEAD["consumer"]),
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_each_limit_on_both_sides(code: str, inside: ir.Plan, outside: ir.Plan) -> None:
    assert check(inside) == []
    assert code in [d.code for d in check(outside)]


def test_grid() -> None:
    symbols = {"M": 128, "N": 64, "K": 64, "sm_count": 132}
    assert check_grid(G, symbols) == []
    single = replace(G, grid=op("mul", "M", Int(2**25)))
    (d,) = check_grid(single, symbols)
    assert (d.code, d.got) == ("GRID_TOO_LARGE", "4294967296 CTAs")
    most = replace(G, grid=op("mul", "M", 1))
    assert check_grid(most, {**symbols, "M": 2**31 - 1}) == []
    assert [d.code for d in check_grid(most, {**symbols, "M": 2**31})] == ["GRID_TOO_LARGE"]


def test_a_grid_is_of_whole_clusters() -> None:
    symbols = {"M": 6, "N": 64, "K": 64, "sm_count": 132}
    plan = replace(G, grid=op("mul", "M", 1), cluster=2)
    assert check_grid(plan, symbols) == []
    (d,) = check_grid(plan, {**symbols, "M": 5})
    assert (d.code, d.got, d.wanted) == ("GRID_CLUSTERS", "5 CTAs", "a multiple of 2")


def test_fragments_of_no_use_are_not_alive() -> None:
    plan = edits.role(
        G, "consumer", fragments=(*G.roles[1].fragments, ir.Fragment("x", "acc", 64, 256, F32, "x", at(1)))
    )
    plan = edits.before(plan, "consumer", ir.For, ir.Init("x", 0.0, at(1)))
    assert "x" not in peak(plan)


@pytest.mark.parametrize(
    ("D", "DV"),
    [(128, 128), (136, 104), (152, 104), (168, 72), (192, 64), (192, 72), (200, 56), (216, 40), (248, 32), (256, 256)],
)
def test_heads_of_any_two_sizes_fit(D: int, DV: int) -> None:
    """Lines of shared memory hold more than the columns of a size that is no multiple of their own."""
    for plan in lower_all(loaded(text_of("attention_mixed_heads"), D=D, DV=DV)):
        assert check(plan) == []
