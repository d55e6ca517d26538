"""What a block of a tile takes is counted on the way of a whole block, in the loop that streams it."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tilegen.inspect.moving import Moving, Registers, movings
from tilegen.ir.plan import Plan
from tilegen.ir.tile import TileProgram
from tilegen.passes.pipeline import lower
from tilegen.sema.loading import load
from tilegen.syntax.span import Source
from tilegen.targets.hopper.sass import Function, parse_sass

ROOT = Path(__file__).parents[2]
SPEC = """kernel k() {
  size M, K
  input  A: f16[M, K]
  input  B: f16[K, 64]
  output C: f16[M, 64]
  axis m in M, n in 64, k in K
  tile a[m, k] = A[m, k]
  tile b[k, n] = B[k, n]
  C[m, n] = sum[k](a[m, k] * b[k, n])
  schedule hopper { block m 128, n 64, k 64  consumers 2 over m  stages a 2, b 2  persistent static }
}
"""


@pytest.fixture(scope="module")
def planned() -> tuple[TileProgram, Plan]:
    program = load(Source("k.tile", SPEC), {})
    return program, lower(program)


def listing(*lines: str) -> Function:
    """ "opcode operands :spec line" or "label:", at one address after the other."""
    text, address = [".text.k:"], 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
            continue
        code, _, number = line.rpartition(":")
        text.append(f'\t//## File "k.tile", line {number}')
        text.append(f"        /*{address:04x}*/                   {code.strip()} ;")
        address += 16
    return parse_sass("\n".join(text)).function("k")


def only(planned: tuple[TileProgram, Plan], *lines: str) -> Moving:
    (found,) = movings(*planned, listing(*lines))
    return found


STREAM = (
    "UMOV UR9, URZ :7",  # in front of the loop
    "UTMALDG.2D [UR8], [UR10] :7",
    "SYNCS.ARRIVE.TRANS64 RZ, [UR4], R2 :7",
    ".L_x_0:",
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4+0x8], R2 :7",
    "@!P0 BRA `(.L_x_9) :7",
    ".L_x_1:",
    "SYNCS.ARRIVE.TRANS64 RZ, [UR4], R3 :7",
    "UIADD3 UR12, UR12, 0x1, URZ :6",  # another line's
    "UTMALDG.2D [UR8], [UR10] :7",
    "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR6], RZ :7",
    "@P1 BRA `(.L_x_0) :6",
    "EXIT :1",
    ".L_x_9:",  # out of line: once more
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4+0x8], R2 :7",
    "@!P0 BRA `(.L_x_9) :7",
    "BRA `(.L_x_1) :7",
)


def test_a_box_is_counted_as_the_streamed_loop_brings_it(planned: tuple[TileProgram, Plan]) -> None:
    found = only(planned, *STREAM)
    assert (found.tile, found.shape, found.bytes, found.mover) == ("a", "128 x 64 f16", 16384, "TMA")
    assert (found.copies, found.instructions, found.warps, found.slots) == (1, 5, 1, 5)
    assert found.addressing == Registers(0, 2)
    assert found.named == Registers(2, 4)  # R2, R3; UR4, UR6, UR8, UR10
    assert found.predicates == 1


def test_an_unrolled_loop_counts_by_the_block(planned: tuple[TileProgram, Plan]) -> None:
    body = STREAM[7:11]
    twice = (*STREAM[:11], *body, *STREAM[11:])
    assert only(planned, *twice).instructions == (5 + 3) // 2
    assert only(planned, *twice).copies == 1


COPIES = (
    ".L_x_0:",
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4+0x8], R2 :7",
    "@P2 BRA `(.L_x_5) :7",
    *(f"LDGSTS.E.BYPASS.128 [R20+{n}], desc[UR10][R14.64] :7" for n in range(8)),
    "BRA `(.L_x_7) :7",
    ".L_x_5:",  # at an edge: piece by piece
    "LDGSTS.E.BYPASS.128.ZFILL [R20], desc[UR10][R16.64], P3 :7",
    "@P4 BRA `(.L_x_5) :7",
    ".L_x_7:",
    "ARRIVES.LDGSTSBAR.64.ARVCNT [UR4] :7",
    "@P1 BRA `(.L_x_0) :6",
    "EXIT :1",
)


def test_copies_of_a_whole_block_are_counted_and_those_at_an_edge_are_not(planned: tuple[TileProgram, Plan]) -> None:
    found = only(planned, *COPIES)
    assert (found.mover, found.copies, found.instructions) == ("cp.async", 8, 12)
    assert found.addressing == Registers(3, 1)  # R20, R14 and R15; UR10


def test_every_warp_that_copies_takes_slots(planned: tuple[TileProgram, Plan]) -> None:
    program, plan = planned
    roles = tuple(replace(r, elected=False) for r in plan.roles)
    found = only((program, replace(plan, roles=roles)), *COPIES)
    assert (found.warps, found.issued_copies, found.slots) == (4, 32, 48)


def test_code_that_brings_nothing_has_no_rows(planned: tuple[TileProgram, Plan]) -> None:
    assert movings(*planned, listing("MOV R1, c[0x0][0x28] :7", "EXIT :1")) == ()


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    spec = importlib.util.spec_from_file_location("evidence", ROOT / "tools" / "evidence.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "evidence", module)
    spec.loader.exec_module(module)
    return module


def test_a_document_of_other_counts_is_out_of_date(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "DOCUMENT", tmp_path / "evidence.md")
    monkeypatch.setattr(tool, "KERNELS", (("copy", {"T": "f16"}, ("tma",)),))
    assert tool.main(["--check"]) == 1
    assert tool.main([]) == 0
    text = tool.DOCUMENT.read_text()
    assert "| copy T=f16 | x | 128 x 64 f16 | 16384 | TMA | 2 |" in text
    assert tool.main(["--check"]) == 0
    assert tool.main(["--nvrtc"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] in text
    tool.DOCUMENT.write_text(text.replace("| TMA | 2 |", "| TMA | 3 |"))
    assert tool.main(["--check"]) == 1
    assert "-| copy T=f16 | x | 128 x 64 f16 | 16384 | TMA | 3 |" in capsys.readouterr().out
