"""What moving tiles costs: figures that follow from what was emitted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.movers import with_mover
from tilegen.cli.main import main
from tilegen.inspect.cost import INVARIANTS, Emitted, TileCost, costs
from tilegen.passes.pipeline import lower, lower_all
from tilegen.sema.loading import load
from tilegen.targets.mls.build import MlsBuilt, build

SAMPLES = Path(__file__).parents[2] / "samples"


def found(name: str) -> tuple[tuple[TileCost, ...], MlsBuilt]:
    program = load(SAMPLES / f"{name}.tile", {})
    built = build(program)
    return costs(program, Emitted(lower(program)), built, Emitted(lower(program, "sm_80"))), built


@pytest.mark.parametrize("name", ["fa3_fwd", "gemm", "row_softmax"])
def test_bytes_are_those_that_the_instructions_move(name: str) -> None:
    tiles, built = found(name)
    program = load(SAMPLES / f"{name}.tile", {})
    plan, by_threads = lower(program), lower(program, "sm_80")
    assert [t.tile for t in tiles] == [r.tile for r in built.plan.rings]
    for tile in tiles:
        tma, copies, by_warps, mls = tile.ways
        ring = plan.ring(tile.tile)
        assert tma.bytes == copies.bytes == ring.bytes * ring.parts
        ring = by_threads.ring(tile.tile)
        assert by_warps.bytes == ring.bytes * ring.parts
        held = built.plan.ring(tile.tile)
        assert (
            dict(mls.detail)["matrix loads, of a wave"] * held.piece.bytes * built.plan.waves == mls.bytes == held.bytes
        )


def test_a_machine_without_bounds_issues_more() -> None:
    tiles, _ = found("fa3_fwd")
    for tile in tiles:
        tma, *others = (way.instructions / way.bytes for way in tile.ways)
        assert tma < min(others)
        assert [way.predicates > 0 for way in tile.ways] == [False, True, True, True]
        assert [way.counted for way in tile.ways] == [False, False, False, True]  # nothing was compiled here


def test_the_command_prints_tables_and_json() -> None:
    spec = str(SAMPLES / "gemm.tile")
    shown = CliRunner().invoke(main, ["cost", spec])
    assert shown.exit_code == 0, shown.output
    assert all(i.what in shown.stdout for i in INVARIANTS)
    data = json.loads(CliRunner().invoke(main, ["cost", spec, "--json"]).stdout)
    assert [t["tile"] for t in data["tiles"]] == ["a", "b"]
    assert [w["mover"] for w in data["tiles"][0]["ways"]] == ["TMA", "copies", "copies", "matrix loads"]
    tma, copies, by_warps, mls = data["tiles"][0]["ways"]
    assert (by_warps["machine"], by_warps["counted"], by_warps["issuers"]) == ("sm_80", True, 4)
    assert data["tiles"][0]["sm_80"] == "128 x 64"
    assert tma["detail"]["TMA instructions, of all warps"] == 1
    assert 1 < tma["instructions"] < copies["instructions"]
    assert [way["counted"] for way in (tma, copies, mls)] == [True, False, True]
    assert len(data["invariants"]) == len(INVARIANTS)


def test_tiles_that_threads_copy_show_their_copies(tmp_path: Path) -> None:
    spec = tmp_path / "gemm.tile"
    spec.write_text(with_mover((SAMPLES / "gemm.tile").read_text(), "cp_async", ("b",)))
    data = json.loads(CliRunner().invoke(main, ["cost", str(spec), "--json"]).stdout)
    a, b = data["tiles"]
    assert [w["mover"] for w in a["ways"]] == ["TMA", "copies", "copies", "matrix loads"]
    assert [w["mover"] for w in b["ways"]] == ["copies", "copies", "matrix loads"]
    assert b["ways"][0]["counted"]
    assert b["ways"][0]["detail"]["cp.async instructions, of all warps"] * 32 * 16 == b["ways"][0]["bytes"]


def test_tiles_that_ctas_load_together_say_so(tmp_path: Path) -> None:
    spec = tmp_path / "gemm.tile"
    text = (SAMPLES / "gemm.tile").read_text()
    spec.write_text(text.replace("stages a 3, b 3", "stages a 3, b 3  multicast b over m", 1))
    a, b = json.loads(CliRunner().invoke(main, ["cost", str(spec), "--json"]).stdout)["tiles"]
    assert (a["ways"][0]["mover"], b["ways"][0]["mover"]) == ("TMA", "TMA, 2 CTAs together")
    assert b["ways"][0]["detail"]["TMA instructions, of all warps"] == 2  # of 4 boxes
    assert b["ways"][0]["bytes"] == 2 * a["ways"][0]["bytes"]


COLUMNS = """kernel columns(D: 8 .. 64 by 8) {
  size   M
  input  X: bf16[M, D]
  output Y: f32[M]
  axis   i in M, d in D
  tile x[i, d] = X[i, d]
  Y[i] = sum[d](x[i, d])
  schedule sm_80 { block i 64  consumers 1 over i }
}
"""


@pytest.mark.parametrize(("columns", "counted"), [(64, True), (40, False)])
def test_copies_that_stand_in_a_loop_are_computed_in_place_of_counted(
    columns: int, counted: bool, tmp_path: Path
) -> None:
    spec = tmp_path / "columns.tile"
    spec.write_text(COLUMNS)
    data = json.loads(CliRunner().invoke(main, ["cost", str(spec), "-D", f"D={columns}", "--json"]).stdout)
    assert data["left_out"] == {}
    (x,) = data["tiles"]
    (by_warps,) = (way for way in x["ways"] if way["machine"] == "sm_80")
    assert by_warps["counted"] == counted
    assert by_warps["bytes"] == 64 * 64 * 2  # 40 columns take two chunks of 32
    assert by_warps["issuers"] == 4


def test_copies_element_by_element_load_and_store() -> None:
    program = load(SAMPLES / "gemm.tile", {})
    hopper, by_warps = Emitted(lower(program)), lower_all(program, "sm_80")
    aligned, thin = (costs(program, hopper, None, Emitted(p))[0].ways[-1] for p in (by_warps[0], by_warps[-1]))
    assert (aligned.machine, thin.machine) == ("sm_80", "sm_80")
    assert "16 bytes a copy" in aligned.source
    assert "2 bytes a copy" in thin.source
    each = aligned.predicates
    assert thin.predicates == 8 * each
    assert thin.instructions - aligned.instructions == (7 * each * 4 + each) * 4  # a store for 8 elements; 4 warps


BEFORE = """kernel before {
  size   M, N
  input  X: bf16[M, N]
  output Y: bf16[M, N] else 0
  axis   i in M, j in N
  domain i: i >= 5
  tile x[i, j] = X[i - 5, j]
  Y[i, j] = x[i, j]
}
"""


@pytest.mark.parametrize("machine", ["mls", "sm_80"])
def test_a_machine_that_does_not_take_the_spec_is_left_out_and_says_why(machine: str, tmp_path: Path) -> None:
    spec, why = SAMPLES / "fa3_varlen.tile", "this is not built for sm_80: sequences of different lengths"
    if machine == "mls":
        spec, why = tmp_path / "before.tile", "this is not built for mls: tile x, which can begin before its tensor"
        spec.write_text(BEFORE)
    shown = CliRunner().invoke(main, ["cost", str(spec)])
    assert shown.exit_code == 0, shown.output
    assert f"{machine} is left out: {why}" in shown.stdout
    data = json.loads(CliRunner().invoke(main, ["cost", str(spec), "--json"]).stdout)
    assert data["left_out"] == {machine: why}
    assert {w["machine"] for t in data["tiles"] for w in t["ways"]} == {"hopper", "sm_80", "mls"} - {machine}
