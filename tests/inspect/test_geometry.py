"""Where `explain` says that tiles lie is where kernels move them: every box that the emulator sees, and no other."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import tilegen
from tests.cli.test_commands import fails
from tests.cli.test_commands import tilegen as command
from tilegen.emulate.ptx import tma_engine
from tilegen.inspect.drawing import element_piece, shared_lines, svg
from tilegen.inspect.geometry import PlacedTile, moved_by_tma, place_tile, tile_axes
from tilegen.ir.plan import MapParam
from tilegen.ir.scheduled import Scheduled
from tilegen.oracle import random_inputs
from tilegen.passes.pipeline import to_scheduled
from tilegen.passes.synchronise import synchronise
from tilegen.runtime.kernel import Kernel
from tilegen.sema.loading import load
from tilegen.syntax.reading import read_source
from tilegen.targets.hopper.box import PIECE

SAMPLES = Path(__file__).parents[2] / "samples"
GEMM = (SAMPLES / "gemm.tile").read_text(encoding="utf-8")
TALL = GEMM.replace("m 128, n 256, k 64", "m 64, n 64, k 320").replace("consumers 2", "consumers 1")
TALL = TALL.replace("a 3, b 3", "a 2, b 2")
PIECES = GEMM.replace("stages a 3, b 3", "stages a 3, b 3, C 2").replace("via C auto", "via C tma")
TOGETHER = GEMM.replace("stages a 3, b 3", "stages a 4, b 2  multicast a over n, b over m")


@dataclass
class Seen:
    """(tensor map, coordinates) of every box that moved, and (tensor map, coordinates, shared address) of loads."""

    boxes: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    places: set[tuple[str, tuple[int, ...], int]] = field(default_factory=set)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    found = Seen()

    def watch(name: str) -> None:
        original = getattr(tma_engine, name)

        def watched(machine: Any, shared: int, descriptor: int, coordinates: Any, *rest: Any) -> Any:
            which = tma_engine.map_name(machine, descriptor)
            found.boxes.add((which, tuple(coordinates)))
            found.places.add((which, tuple(coordinates), shared))
            return original(machine, shared, descriptor, coordinates, *rest)

        monkeypatch.setattr(tma_engine, name, watched)

    watch("load")
    watch("store")
    return found


@pytest.mark.parametrize(
    ("spec", "parameters", "sizes"),
    [
        (SAMPLES / "fa3_fwd.tile", {"D": 64}, {"B": 2, "Sq": 300, "Sk": 150, "Hk": 1, "G": 2}),
        (SAMPLES / "fa3_fwd.tile", {"D": 80}, {"B": 1, "Sq": 40, "Sk": 100, "Hk": 2, "G": 1}),
        (SAMPLES / "attention_decode.tile", {"causal": False}, {"B": 1, "Sq": 3, "Sk": 75, "Hk": 2, "G": 11}),
        (SAMPLES / "copy.tile", {}, {"M": 137, "N": 136}),
        (TALL, {}, {"M": 70, "N": 72, "K": 400}),
        (TOGETHER, {}, {"M": 300, "N": 264, "K": 72}),
        (PIECES, {}, {"M": 130, "N": 264, "K": 72}),
        (PIECES.replace("C 2", "C 3  multicast b over m"), {}, {"M": 300, "N": 264, "K": 72}),
    ],
    ids=[
        "rings and parts",
        "padding",
        "rows of two axes",
        "columns",
        "several boxes of rows",
        "shares of a cluster",
        "pieces",
        "pieces in a cluster",
    ],
)
def test_the_boxes_of_a_kernel_are_those_foretold(
    seen: Seen, spec: Any, parameters: dict[str, Any], sizes: dict[str, int]
) -> None:
    kernel = tilegen.compile(spec, **parameters)
    kernel(**random_inputs(kernel.program, sizes, 0))
    names = map_names(kernel, sizes)
    scheduled = to_scheduled(kernel.program.variant("hopper", sizes))
    moved = moved_by_tma(kernel.variant(**sizes).plan)
    assert {names[which] for which, _ in seen.boxes} == set(moved)
    base = min(address for _, _, address in seen.places)
    for name in moved:
        foretold = {
            (placed.box.coordinates, placed.shared_byte, tile.buffer.stage_bytes * tile.buffer.parts)
            for tile in everywhere(name, scheduled, sizes)
            for placed in tile.boxes
        }
        assert {c for which, c in seen.boxes if names[which] == name} == {c for c, _, _ in foretold}
        stages = next(pitch for _, _, pitch in foretold)  # bytes from a stage to the next
        issued = {(c, (address - base) % stages) for which, c, address in seen.places if names[which] == name}
        assert issued == {(c, start % stages) for c, start, _ in foretold}


def map_names(kernel: Kernel, sizes: dict[str, int]) -> dict[str, str]:
    """The tensor map that each kernel parameter is."""
    plan = kernel.variant(**sizes).plan
    return {f"{plan.name}_param_{n}": p.descriptor for n, p in enumerate(plan.params) if isinstance(p, MapParam)}


def everywhere(name: str, scheduled: Scheduled, sizes: dict[str, int]) -> Iterator[PlacedTile]:
    """The tile at every position of its axes."""
    program = scheduled.program.tile
    plan = synchronise(scheduled)
    leaves = [a for a in program.axes if a.split is None]
    extents = {a.name: a.extent.evaluate(sizes) for a in leaves}
    wanted = set(tile_axes(name, scheduled))
    for axis in program.axes:
        if axis.split and axis.name in wanted:
            wanted |= {axis.split.outer, axis.split.inner}
    steps = {n: range(0, extents[n], 8) if extents[n] > 16 else range(extents[n]) for n in extents if n in wanted}
    for positions in product(*steps.values()):
        at = {a.name: 0 for a in program.axes} | dict(zip(steps, positions, strict=True))
        for axis in program.axes:
            if axis.split:
                at[axis.name] = at[axis.split.outer] * extents[axis.split.inner] + at[axis.split.inner]
        yield place_tile(name, scheduled, plan, sizes, at, at)


# ---- the command -----------------------------------------------------------------------------------

FA3 = str(SAMPLES / "fa3_fwd.tile")


def test_without_a_position_the_axes_are_listed_and_the_example_works() -> None:
    told = command("explain", FA3, "k", "-D", "D=64").stdout
    assert [line.split()[0] for line in told.splitlines()[2:6]] == ["b", "j", "g", "d"]
    assert "bank" in followed(told)
    assert "bank" in followed(command("explain", FA3.replace("fa3_fwd", "fa3_varlen"), "k").stdout)


def followed(told: str) -> str:
    """What the command that is given as an example prints."""
    words = shlex.split(told.splitlines()[-1].removeprefix("for example: "))
    assert words[0] == "tilegen"
    return command(*words[1:]).stdout


def test_the_example_is_of_the_sizes_that_were_asked_for() -> None:
    told = command("explain", FA3, "k", "-D", "D=64", "--size", "Sk=2050,G=2", "--size", "Hk=4,scale=0.1").stdout
    assert "Sk=2050, Hk=4, G=2" in followed(told)
    ragged = command("explain", FA3.replace("fa3_fwd", "fa3_varlen"), "k", "--size", "Sk=[3,300],Sq=[4,500]").stdout
    assert "Sk=[3, 300]" in followed(ragged)


def test_the_document_shows_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES.parent)
    page = (SAMPLES.parent / "docs/explain.md").read_text(encoding="utf-8")
    given, *lines = re.findall(r"^    (.*)$", page[page.index("    $ tilegen") :].split("\n- *")[0], re.M)
    told = [line.rstrip() for line in command(*given.removeprefix("$ tilegen ").split()).stdout.splitlines()]
    assert [line for line in lines if line not in (*told, "…")] == []


def test_sizes_that_nobody_gave_are_named() -> None:
    sizes = ("--size", "Sk=2050,G=2,Hk=4")
    for more in ((), ("--at", "b=0,j=80")):
        assert "give them: B=1, Sq=2048\n" in command("explain", FA3, "k", *sizes, *more).stdout
        assert "assumed" not in command("explain", FA3, "k", *sizes, "--size", "B=1,Sq=2", *more).stdout


def test_clipping_corners_barrier_and_bank() -> None:
    """The numbers by hand: K[1, 2050, 4, 128] in bf16, the box from j = 2000 on, head 1."""
    told = command(
        "explain", FA3, "k", "--at", "b=0,h=3,j=2040", "--size", "Sk=2050,G=2,Hk=4", "--element", "d=17"
    ).stdout  # fmt: skip
    assert "the tile holds j 2000 to 2049, d 0 to 127" in told
    assert "[0, 2000, 0, 1, 0]" in told
    assert "6400 elements  3840 elements: dim 1 (Sk) from 2050 on" in told
    assert "each full barrier expects 20480 bytes" in told
    assert f"byte {2000 * 4 * 128 * 2 + 128 * 2}\n" in told
    assert f"byte {(2040 * 4 + 1) * 256 + 17 * 2} of it" in told
    # line 40 of the slot, whose number mod 8 is 0: no piece moves
    assert f"byte {40 * 128 + 17 * 2} of the slot" in told
    assert "bank 8" in told


def test_pieces_of_an_output_lie_in_their_stages(tmp_path: Path) -> None:
    spec = tmp_path / "pieces.tile"
    spec.write_text(PIECES, encoding="utf-8")
    place = ("explain", str(spec), "C", "--size", "M=300,N=600,K=64", "--at", "m=10,n=100")
    told = json.loads(command(*place, "--json").stdout)
    offset, apart = told["buffer"]["offset"], told["buffer"]["stage_bytes"] * told["buffer"]["parts"]
    boxes = [b for b in told["boxes"] if b["part"] == 0]
    assert [(b["coordinates"][0], b["stage"]) for b in boxes] == [(0, 0), (64, 1), (128, 0), (192, 1)]
    assert [b["shared_byte"] for b in boxes] == [offset + b["stage"] * apart for b in boxes]
    assert told["element"]["shared_byte"] == offset + apart + told["element"]["slot_byte"]
    assert "for stage 1" in command(*place).stdout
    assert "[[" in command(*place, "--map").stdout


def test_json_says_the_same() -> None:
    told = json.loads(command("explain", FA3, "k", "--at", "j=81", "--size", "Sk=90", "--json").stdout)
    assert told["at"]["j"] == 81
    assert told["held"]["j"] == [80, 90]
    (box,) = told["boxes"]
    assert box["coordinates"] == [0, 80, 0, 0, 0]
    assert box["inside"] == [[0, 64], [0, 10], [0, 2], [0, 1], [0, 1]]
    assert told["barrier_bytes"] == box["bytes"] == 20480
    assert told["element"]["slot_byte"] == 128 + 16  # row 1: the first 16 bytes change places with the second


def test_the_axes_are_listed_as_json_too() -> None:
    told = json.loads(command("explain", FA3, "k", "--size", "Sk=90,Hk=4,G=2", "--json").stdout)
    axes = {a["axis"]: (a["positions"], a["extent"], a["held"]) for a in told["axes"]}
    assert axes == {"b": (1, "B", 1), "j": (90, "Sk", 80), "g": (4, "Hk", 1), "d": (128, "128", 128)}
    assert told["tile"] == "k" and "bank" in followed(told["example"])


OPEN = (SAMPLES / "gemm.tile").read_text().replace("via C auto", "via a auto, b auto, C auto")


@pytest.fixture
def left_open(tmp_path: Path) -> Path:
    file = tmp_path / "open.tile"
    file.write_text(OPEN)
    return file


@pytest.mark.parametrize(
    ("tile", "sizes", "boxes", "says"),
    [
        ("a", "N=256", True, ""),
        ("C", "N=256", True, ""),
        (
            "a",
            "N=250",
            False,
            "`via a tma` in the schedule, in place of `via a auto`",
        ),  # B's rows alone keep it from that
        ("b", "N=250", False, "B: neighbours along dim 0 (K) do not lie a multiple of 16 bytes apart"),
        ("C", "N=250", False, "C: neighbours along dim 0 (M) do not lie a multiple of 16 bytes apart"),
        ("C", "M=1,N=250", False, "C: rows along dim 1 (N) do not end with whole 16 bytes"),
        ("b", "M=1,K=1,N=250", True, ""),  # a single row has no next one
        ("b", "K=60", False, "in place of `via b auto`"),
        ("C", "K=60", False, "in place of `via C auto`"),  # as a variant that copies stores rows
    ],
)
def test_what_is_shown_is_of_the_variant_that_a_launch_takes(
    left_open: Path, tile: str, sizes: str, boxes: bool, says: str
) -> None:
    """On arrays without gaps; where the mover hangs on their alignment, and so on sizes."""
    numbers = {name: int(n) for name, _, n in (pair.partition("=") for pair in sizes.split(","))}
    kernel = tilegen.compile(left_open)
    taken = kernel.variant(**{"M": 2048, "N": 2048, "K": 2048, **numbers})
    number = kernel.variants.index(taken) + 1
    assert (tile in moved_by_tma(taken.plan)) == boxes
    result = command("explain", left_open, tile, "--at", "m=0" if tile != "b" else "n=0", "--size", sizes)
    assert (result.exit_code == 0) == boxes
    if boxes:
        assert f"variant {number} of 5, " in result.stdout
        return
    how = "stored in rows from registers" if tile == "C" else "copied by threads"
    assert f"error[NOT_BOXED]: {tile} is {how} at these sizes" in result.stderr
    assert says in result.stderr and "TILE auto" not in result.stderr


def test_sizes_that_no_schedule_is_for_are_refused_with_what_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "limited.tile"
    file.write_text(OPEN.replace("schedule hopper {", "schedule hopper if M <= 64 {"))
    assert command("explain", file, "a", "--size", "M=64").exit_code == 0
    result = command("explain", file, "a", "--size", "M=65")
    assert "error[NO_VARIANT]" in result.stderr and "wanted: " in result.stderr


def test_pictures_show_every_piece_once(tmp_path: Path) -> None:
    file = tmp_path / "new" / "k.svg"
    told = command("explain", FA3, "k", "--at", "j=81", "--size", "Sk=90", "--map", "--svg", file).stdout
    assert "[[81,0]]" in told
    assert "(90,16)" in told
    assert "lines like these" in told
    root = ElementTree.parse(file).getroot()
    cells = [e.text for e in root.iter() if e.tag.endswith("text") and e.get("text-anchor") == "middle"]
    assert len(cells) == 2 * 80 * 16
    assert len(set(cells)) == 80 * 16


def test_pieces_lie_where_their_elements_do() -> None:
    kernel = tilegen.compile(FA3, D=80)
    sizes = {"B": 1, "Sq": 40, "Sk": 100, "Hk": 1, "G": 1}
    scheduled = to_scheduled(kernel.program.variant("hopper", sizes))
    tiles = list(everywhere("k", scheduled, sizes))
    for tile in tiles[:: len(tiles) // 8]:
        lines = shared_lines(tile)
        piece = lines[tile.element.slot_byte // 128][tile.element.slot_byte % 128 // PIECE]
        assert piece is not None
        assert piece.at == element_piece(tile)
        assert piece.state == "inside"
    states = {p.state for line in shared_lines(tiles[-1]) for p in line if p is not None}
    assert states == {"inside", "outside"}
    assert svg(tiles[-1], "a < b").count("a &lt; b") == 1


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.tile")), ids=lambda f: f.stem)
def test_every_tile_of_every_sample_is_placed(sample: Path) -> None:
    program = load(read_source(sample), {})
    for variant in program.variants("hopper"):
        scheduled = to_scheduled(variant)
        plan = synchronise(scheduled)
        sizes = {z.name: 3 if z.name in ("B", "H", "Hk", "G") else 136 for z in program.sizes}
        values = sizes | {s.name: 5 for s in program.scalars}
        for ragged in program.ragged:
            values |= {f"{ragged.size}.tokens": 3 * 136, f"{ragged.size}.start": 136}
        at = {a.name: 0 for a in program.axes}
        assert moved_by_tma(plan)
        for name in moved_by_tma(plan):
            tile = place_tile(name, scheduled, plan, values, at, at)
            assert tile.store or sum(b.box.map.box_bytes for b in tile.boxes) == tile.barrier_bytes * tile.buffer.parts
            assert tile.element.inside


@pytest.mark.parametrize(("shift", "possible"), [(8, True), (3, False)])
def test_tma_is_advised_for_what_it_takes(shift: int, possible: bool, tmp_path: Path) -> None:
    spec = tmp_path / "back.tile"
    text = (SAMPLES / "copy.tile").read_text(encoding="utf-8")
    text = (
        text[: text.index("schedule")]
        .replace("X[i, j]", f"X[i, j + {shift}]")
        .replace("X: T[M, N]", f"X: T[M, N + {shift}]")
    )
    spec.write_text(f"{text}schedule hopper {{ via x cp_async }} }}", encoding="utf-8")
    told = fails(2, "explain", str(spec), "x")
    assert ("`via x tma` in the schedule, in place of `via x cp_async`" in told) is possible
    assert ("TMA cannot bring the tile x" in told) is not possible


def test_mistakes_are_named() -> None:
    assert "did you mean `q`?" in fails(2, "explain", FA3, "qq", "--at", "i=0")
    assert "`k` is a tile of it" in fails(2, "explain", FA3, "K")
    told = fails(2, "explain", FA3, "LSE")
    assert "NOT_BOXED" in told and "LSE has one number a row" in told and "via LSE tma" not in told
    assert "`via Y tma` in the schedule\n" in fails(2, "explain", str(SAMPLES / "row_softmax.tile"), "Y")
    assert "did you mean `j`?" in fails(2, "explain", FA3, "k", "--at", "J=3")
    assert "--at with it" in fails(2, "explain", FA3, "k", "--map")
    assert "0 to 2047" in fails(2, "explain", FA3, "k", "--at", "j=2048")
    assert "0 to 2047" in fails(2, "explain", FA3, "k", "--at", "j=-1")
    assert "g=1, or leave it out" in fails(2, "explain", FA3, "k", "--at", "h=3,g=0")
    assert "is a position along an axis" in fails(2, "explain", FA3, "k", "--at", "j=x")
    assert "--at gives j twice" in fails(2, "explain", FA3, "k", "--at", "j=1,j=2")
    assert "TMA_STRIDE_ALIGNMENT" in fails(
        2, "explain", str(SAMPLES / "gemm.tile"), "a", "--at", "m=1", "--size", "K=44"
    )
    assert "does not hold" in fails(2, "explain", FA3, "k", "--at", "j=1", "--element", "j=90")
