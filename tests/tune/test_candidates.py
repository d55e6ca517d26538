"""Which candidates are tried first, and that arithmetic turns away nothing that would compile."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tilegen.checks import resources
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.schedule import Alias
from tilegen.passes.pipeline import plan_with
from tilegen.sema.loading import load
from tilegen.tune.candidates import SAME, planned, points, ranked
from tilegen.tune.estimate import cycles
from tilegen.tune.fits import REGISTERS, SHARED, refusal
from tilegen.tune.space import Point, Space, space_of

SAMPLES = Path(__file__).parents[2] / "samples"
EXTENTS = {
    "fa3_fwd": {"b": 2, "h": 16, "g": 16, "r": 1, "i": 8192, "j": 8192, "d": 128, "e": 128},
    "gemm": {"m": 8192, "n": 8192, "k": 8192},
    "row_softmax": {"i": 8192, "j": 8192},
}
SMS = 132


def space(name: str, **params: object) -> Space:
    return space_of(load(SAMPLES / f"{name}.tile", params))  # type: ignore[arg-type]


def refused(s: Space, point: Point) -> set[str]:
    """The codes that compiling gives before NVRTC runs."""
    try:
        return {d.code for d in resources.check(plan_with(s.program, s.directives(point), s.target))}
    except TilegenError as error:
        return {d.code for d in error.diagnostics}


@pytest.mark.parametrize("params", [("fa3_fwd", {"D": 64}), ("fa3_fwd", {"causal": True}), ("fa3_fwd", {"D": 256}),
                                    ("gemm", {}), ("row_softmax", {}), ("attention_bias", {})])  # fmt: skip
def test_the_filter_turns_away_nothing_that_would_compile(params: tuple[str, dict[str, object]]) -> None:
    s = space(params[0], **params[1])
    found: Counter[str] = Counter()
    drawn = list(islice(points(s, 11), 300))
    for point in random.Random(5).sample(drawn, 25):
        try:
            code = refusal(s.scheduled(point))
        except TilegenError as error:
            code = error.diagnostics[0].code
        if code is not None:
            found[code] += 1
            assert refused(s, point), (code, s.told(point))
    assert found[SHARED]  # else this looked at nothing


def test_the_filter_knows_the_registers_that_were_measured() -> None:
    s = space("fa3_fwd")

    def point(consumers: int, keys: int, stages: int) -> Point:
        said = {"consumers": consumers - 1, "block j": [32, 48, 64, 80, 96].index(keys), "stages": stages - 1}
        return tuple(said.get(c.name, n) for c, n in zip(s.choices, s.own, strict=True))

    assert refusal(s.scheduled(point(3, 80, 2))) is None
    assert refusal(s.scheduled(point(3, 96, 2))) is None or refused(s, point(3, 96, 2))
    assert refusal(s.scheduled(point(4, 64, 1))) == REGISTERS
    assert refusal(s.scheduled(point(3, 80, 6))) == SHARED


def test_depths_of_one_tile_aliases_and_registers_are_among_the_candidates_that_fit() -> None:
    """They are tried, and what cannot be is told by its code: too deep a ring, an output in the bytes of a tile that
    has two stages, or is smaller."""
    s = space("fa3_fwd", D=128, causal=True)
    told: Counter[str] = Counter()
    found = ranked(s, EXTENTS["fa3_fwd"], SMS, 3, lambda code: told.update([code]), limit=200)
    kinds = Counter(
        next((c.name for c, n, own in zip(s.choices, x.point, s.own, strict=True) if n != own), "") for x in found
    )
    assert {"stages of k", "stages of v", "registers"} <= set(kinds)
    assert told[SHARED] and told[SAME]
    aliased = [x for x in found if any(isinstance(d, Alias) for d in x.directives)]
    assert aliased
    refusals: list[str] = []
    plans = [plan_with(s.program, c.directives) for c in planned(s, aliased[:12], 12, refusals.append)]
    assert all(plan.buffer("O.staging").host == "q" for plan in plans)
    assert plans and len(plans) + len(refusals) == len(aliased[:12])
    assert set(refusals) <= {"ALIAS_ROOM", "SHARED_MEMORY_FULL", "REGISTERS_FULL", SAME}


def test_a_longer_kernel_is_estimated_longer_and_what_hides_work_shorter() -> None:
    s = space("fa3_fwd")
    own = s.scheduled(s.own)
    twice = {**EXTENTS["fa3_fwd"], "j": 16384}
    assert 1.8 < cycles(own, twice, SMS) / cycles(own, EXTENTS["fa3_fwd"], SMS) < 2.2
    assert cycles(own, EXTENTS["fa3_fwd"], SMS // 2) > 1.8 * cycles(own, EXTENTS["fa3_fwd"], SMS)
    plain = tuple(0 if c.name in ("maximum", "turns", "body") else n for c, n in zip(s.choices, s.own, strict=True))
    assert cycles(s.scheduled(plain), EXTENTS["fa3_fwd"], SMS) > cycles(own, EXTENTS["fa3_fwd"], SMS)


def test_what_only_moves_is_estimated_by_its_bytes() -> None:
    s = space("copy")
    once = cycles(s.scheduled(s.own), {"i": 1 << 14, "j": 1 << 14}, SMS)
    assert once > 2 * 2 * (1 << 28) / 64 / SMS  # bf16, in and out, at no more than 64 bytes a cycle
    assert cycles(s.scheduled(s.own), {"i": 1 << 14, "j": 1 << 13}, SMS) < 0.6 * once


def test_the_estimate_of_a_product_is_about_what_tensor_cores_allow() -> None:
    s = space("gemm")
    least = 2 * 8192**3 / 4096 / SMS
    assert least < cycles(s.scheduled(s.own), EXTENTS["gemm"], SMS) < 1.5 * least


@pytest.mark.parametrize("name", ["fa3_fwd", "gemm", "row_softmax"])
def test_candidates_are_ranked_and_planned_the_same_every_time(name: str) -> None:
    s = space(name)
    said: list[list[str]] = []
    for _ in range(2):
        codes: Counter[str] = Counter()
        drawn = ranked(s, EXTENTS[name], SMS, 3, lambda code, codes=codes: codes.update([code]), limit=60)
        assert drawn[0].own
        assert len(drawn) + codes.total() == 60
        said.append([c.told for c in planned(s, drawn, 4, lambda code: None)])
    assert said[0] == said[1]
    assert said[0][0] == "own"
    assert len(set(said[0])) == 4


def test_the_first_candidates_vary_in_many_ways() -> None:
    s = space("gemm")
    drawn = ranked(s, EXTENTS["gemm"], SMS, 0, lambda code: None, limit=300)[:24]
    differing = {n for c in drawn for n, (a, b) in enumerate(zip(c.point, s.own, strict=True)) if a != b}
    assert len(differing) == len(s.choices)
    shapes = {tuple(n for choice, n in zip(s.choices, c.point, strict=True) if choice.kind == "shape") for c in drawn}
    assert len(shapes) > 6
    near = [c.estimate for c in drawn if sum(a != b for a, b in zip(c.point, s.own, strict=True)) == 1]
    assert max(near) < 1.4 * drawn[0].estimate


def test_two_schedules_of_one_plan_are_one_candidate() -> None:
    s = space("gemm")
    own, other, *_ = ranked(s, EXTENTS["gemm"], SMS, 3, lambda code: None, limit=30)
    codes: list[str] = []
    again = replace(own, told="`isolate exact` is what there is without it")
    assert list(planned(s, [own, again, other], 5, codes.append)) == [own, other]
    assert codes == [SAME]


def test_plans_are_made_in_as_many_processes_as_asked_for() -> None:
    s = space("row_softmax")
    drawn = ranked(s, EXTENTS["row_softmax"], SMS, 3, lambda code: None, limit=12)
    told: tuple[list[str], list[str]] = [], []
    here, there = (list(planned(s, drawn, 5, codes.append, n)) for codes, n in zip(told, (1, 2), strict=True))
    assert here == there and told[0] == told[1]


def test_what_the_passes_refuse_is_counted_by_its_code() -> None:
    s = space("attention_bias")  # `skip_rows` and the like are fixed in it
    codes: Counter[str] = Counter()
    ranked(s, dict.fromkeys([a.name for a in s.program.tile.axes], 512), SMS, 0, lambda c: codes.update([c]), limit=80)
    assert codes[SHARED]
