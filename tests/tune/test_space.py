"""The schedules that there are to try for a spec."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tilegen.ir.schedule import Directive
from tilegen.ir.tile import TileProgram
from tilegen.ir.tile_text import directive_text
from tilegen.passes.schedule import registers_at_entry
from tilegen.sema.loading import load
from tilegen.syntax.span import Source
from tilegen.tune.candidates import neighbours, points
from tilegen.tune.space import Point, Space, space_of, splits
from tilegen.tune.spelling import listed, schedule_text, with_schedule

SAMPLES = Path(__file__).parents[2] / "samples"
NAMES = ["fa3_fwd", "gemm", "row_softmax"]

BARE = """kernel bare {
  size   M, N, K
  input  A: bf16[M, K]
  input  B: bf16[K, N]
  output C: f32[M, N]
  tile a[m, k] = A[m, k]
  tile b[k, n] = B[k, n]
  C[m, n] = sum[k](a[m, k] * b[k, n])
}
"""


def program(name: str, **params: object) -> TileProgram:
    return load(SAMPLES / f"{name}.tile", params)  # type: ignore[arg-type]


def unplaced(directives: tuple[Directive, ...], program: TileProgram) -> set[Directive]:
    return {replace(d, span=program.span) for d in directives}


def ways(space: Space, name: str) -> list[str]:
    (choice,) = [c for c in space.choices if c.name == name]
    return [listed(way) for way in choice.ways]


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.tile")), ids=lambda p: p.stem)
def test_the_own_schedule_of_each_sample_is_a_point_of_its_space(path: Path) -> None:
    loaded = load(path, {})
    space = space_of(loaded)
    assert set(space.directives(space.own)) == unplaced(loaded.directives("hopper"), loaded)
    assert space.told(space.own) == "own"
    assert next(points(space, 7)) == space.own


def test_what_varies_in_attention_follows_from_its_equations() -> None:
    space = space_of(program("fa3_fwd", causal=True))
    assert ways(space, "consumers") == [
        "block i 64  consumers 1 over i", "block i 128  consumers 2 over i", "block i 192  consumers 3 over i",
        "block i 256  consumers 4 over i",
    ]  # fmt: skip
    assert "block j 80" in ways(space, "block j")
    assert ways(space, "stages")[:2] == ["stages k 1, v 1", "stages k 2, v 2"]
    assert ways(space, "stages of the others") == ["", "stages q 2"]
    assert ways(space, "stages of k") == ["", *(f"stages k {n}" for n in range(1, 9))]
    assert ways(space, "registers")[:3] == ["", "registers 240, 24", "registers 224, 48"]
    assert ways(space, "body") == ["", "late O by 1  batch O, s", "late O by 1  issue s, O  under O: p"]
    assert ways(space, "place p") == ["", "place p shared"]
    assert ways(space, "turns") == ["", "take_turns over s, O"]
    assert ways(space, "maximum") == ["", "stale_max"]
    assert ways(space, "walk") == ["", "walk j down"]
    assert ways(space, "skip_rows") == ["", "skip_rows"]
    assert ways(space, "persistent") == ["", "persistent static", "persistent table"]
    assert ways(space, "order") == ["", "order longest_first"]
    assert ways(space, "group") == ["", "group h by 16 MB", "group h by 32 MB"]
    assert ways(space, "store O") == ["", "via O auto", "stages O 1", "stages O 2", "alias O, q", "via O tma"]
    assert not space.fixed


def test_what_varies_in_a_product_follows_from_its_equations() -> None:
    space = space_of(program("gemm"))
    names = [c.name for c in space.choices]
    assert {"block n", "block k", "stages"} <= set(names)
    assert not {"maximum", "body", "walk", "skip_rows"} & set(names)
    assert ways(space, "order") == ["", "order n, m"]
    assert ways(space, "group") == ["", *(f"group m by {n}" for n in (4, 8, 16, 32))]
    assert ways(space, "store C") == ["", "via C auto", "stages C 1", "stages C 2"]


def at(space: Space, **said: str) -> Point:
    """The own schedule but for these choices."""
    number = {
        c.name: [listed(way) for way in c.ways].index(said[key])
        for c in space.choices
        if (key := c.name.replace(" ", "_")) in said
    }
    assert len(number) == len(said)
    return tuple(number.get(c.name, c.own) for c in space.choices)


def test_a_depth_of_one_tile_is_said_over_that_of_all() -> None:
    space = space_of(program("fa3_fwd", causal=True))
    said = listed(space.directives(at(space, stages="stages k 2, v 2", stages_of_k="stages k 4")))
    assert "stages k 4, v 2" in said and said.count("stages") == 1
    scheduled = space.scheduled(at(space, stages="stages k 2, v 2", stages_of_v="stages v 3"))
    assert [scheduled.tile(t).depth for t in ("k", "v")] == [2, 3]


def test_registers_are_said_where_there_are_as_many_consumers() -> None:
    space = space_of(program("fa3_fwd", causal=True))
    for consumers, kept in ((1, False), (2, True), (3, False), (4, False)):
        rows = f"block i {64 * consumers}  consumers {consumers} over i"
        said = listed(space.directives(at(space, consumers=rows, registers="registers 240, 24")))
        assert ("registers" in said) == kept
    for count in (2, 3, 4):
        entry = registers_at_entry(count)
        assert splits(count)
        for consumer, producer in splits(count):
            assert (consumer % 8, producer % 8) == (0, 0) and producer >= 24
            # all that there is, but for less than a step of eight for each
            assert 0 <= entry * (count + 1) - (consumer * count + producer) < 8 * count


def test_what_a_domain_does_not_need_stays_as_the_schedule_has_it() -> None:
    space = space_of(program("fa3_fwd", causal=False))
    assert listed(space.fixed) == "walk j down  skip_rows  order longest_first"


def test_row_softmax_has_no_product_to_vary() -> None:
    names = {c.name for c in space_of(program("row_softmax")).choices}
    assert "turns" not in names
    assert {"consumers", "block j", "stages", "maximum"} <= names


def test_rows_of_several_axes_grow_along_the_outermost() -> None:
    space = space_of(program("attention_decode"))
    assert ways(space, "consumers")[:2] == [
        "block i 8, r 8  consumers 1 over i, r", "block i 16, r 8  consumers 2 over i, r",
    ]  # fmt: skip
    # what one warpgroup alone cannot do is left out
    turns = next(n for n, c in enumerate(space.choices) if c.name == "turns")
    with_turns = (*space.own[:turns], 1, *space.own[turns + 1 :])
    assert set(space.directives(with_turns)) == set(space.directives(space.own))


def test_a_spec_without_a_schedule_begins_with_the_default_one() -> None:
    space = space_of(load(Source("<text>", BARE), {}))
    assert listed(space.directives(space.own)) == ("block m 128, k 64, n 128  consumers 2 over m  stages a 2, b 2")


@pytest.mark.parametrize("name", NAMES)
def test_points_are_the_same_every_time_and_each_is_one_of_its_own(name: str) -> None:
    space = space_of(program(name))
    first = list(points(space, 3, 200))
    assert first == list(points(space_of(program(name)), 3, 200))
    assert len(set(first)) == len(first) == 200
    assert first != list(points(space, 4, 200))
    assert set(neighbours(space)) <= set(first)


@pytest.mark.parametrize("name", NAMES)
def test_every_point_can_be_written_into_the_spec_and_read_again(name: str) -> None:
    source = Source("<text>", (SAMPLES / f"{name}.tile").read_text(encoding="utf-8"))
    own = load(source, {})
    space = space_of(own)
    for point in islice(points(space, 5), 0, 200, 20):
        said = space.directives(point)
        read = load(with_schedule(source, listed(said)), {})
        assert unplaced(read.directives("hopper"), own) == set(said)
        assert [d.span.line for d in read.definitions] == [d.span.line for d in own.definitions]


def test_a_schedule_is_written_as_people_write_it() -> None:
    loaded = program("fa3_fwd", causal=True).variants("hopper")[-1]
    assert schedule_text(loaded.directives("hopper"), "hopper", "D == 128 and causal") == "\n".join([
        "  schedule hopper if D == 128 and causal {",
        "    block i 192, j 64",
        "    consumers 3 over i",
        "    stages k 3, v 3",
        "    via O tma",
        "    late O by 1  batch O, s",
        "    take_turns over s, O",
        "    stale_max",
        "    walk j down  skip_rows",
        "    persistent table  order longest_first  group h by 32 MB",
        "  }",
    ])  # fmt: skip


def test_a_spec_without_a_schedule_gets_one_before_its_end() -> None:
    text = with_schedule(Source("<text>", BARE), "block m 64  # small\nconsumers 1 over m").text
    assert text.endswith("schedule hopper if true { block m 64 consumers 1 over m } }\n")
    read = load(Source("<text>", text), {})
    assert [directive_text(d) for d in read.directives("hopper")] == ["block m 64", "consumers 1 over m"]
