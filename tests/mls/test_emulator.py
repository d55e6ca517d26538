"""The emulator: right programs give right results whatever the seed, and each kind of fault is named with its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mls.programs import COPY, GEMM, head, program
from tests.mls.running import Array, copy, gemm, poison, random, softmax
from tilegen.diagnostics.core import TilegenError
from tilegen.emulate.mls import Report, launch
from tilegen.sema.loading import load
from tilegen.targets.mls.build import build

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("m", "n"), [(16, 32), (1, 8), (17, 40), (48, 96), (33, 64)])
def test_copy(m: int, n: int) -> None:
    got, want, _ = copy(m, n)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("m", "n", "k"), [(16, 32, 32), (8, 8, 8), (17, 40, 72), (40, 72, 104)])
@pytest.mark.parametrize("seed", [0, 1])
def test_gemm(m: int, n: int, k: int, seed: int) -> None:
    got, want, report = gemm(m, n, k, seed=seed)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * k**0.5)
    assert report.count("v_mmac") == 2 * 2 * -(-m // 16) * -(-n // 32) * -(-k // 32)


@pytest.mark.parametrize("m", [1, 16, 37])
def test_softmax(m: int) -> None:
    got, want, _ = softmax(m)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_small_tensor_can_lie_across_4_gib() -> None:
    got, want, _ = copy(33, 64, straddle=["X", "Y"])
    np.testing.assert_array_equal(got, want)


Case = Callable[..., tuple[Array, Array, Report]]


def fault(case: Case, sizes: tuple[int, ...], text: str) -> str:
    """What the emulator says of a program: code, line, message."""
    with pytest.raises(TilegenError) as caught:
        case(*sizes, program(text), step_limit=20_000)
    (d,) = caught.value.diagnostics
    return f"{d.code} line {d.span.line if d.span else 0}: {d.message}"


def edited(text: str, old: str, new: str) -> str:
    assert old in text, old
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "code", "says"),
    [
        ("s_addc_u32 s21, s9, s17", "s_mov_b32 s21, s9", "CARRY", "tile x: X[48, 0] lies at 0x"),
        ("s_mov_b32 s22, s13", "s_lshl_b32 s22, s13, 1", "WRONG_ELEMENT", "X[1, 0] is meant, at"),
        ("s_lshl_b32 s23, s18, 8", "s_mov_b32 s23, 1024", "WRONG_ELEMENT", "zero fill: the filter is too large"),
        ("s_or_b32 s23, s23, s19", "s_nop 0", "WRONG_ELEMENT", "outside what is to be loaded: the filter is too small"),
        ("s_mov_b32 m0, 0", "s_mov_b32 m0, 8", "BAD_ACCESS", "LDS address 8 is no multiple of 16"),
        ("s_mov_b32 m0, 0", "s_mov_b32 m0, 64", "BAD_ACCESS", "LDS bytes 64 to 1087 are not within"),
        ("s_waitcnt vmcnt(0)", "s_nop 0", "RACE", "this wave has loaded in line 41, and this wave has not waited"),
        ("v8, v3 offset:0", "v8, v3 offset:2", "WRONG_ELEMENT", "X[0, 0] of 0x"),
        ("s_waitcnt lgkmcnt(0)\n    global", "s_nop 0\n    global", "NOT_WAITED", "it touches v8"),
        ("s_cmp_lt_i32 s26, 16", "s_cmp_lt_i32 s26, 14", "STORE", "were never written, first Y[14, 0]"),
        ("s_add_i32 s26, s26, 2", "s_add_i32 s26, s26, 1", "WRONG_ELEMENT", "X[1, 0] of 0x"),
        ("s_and_saveexec_b64 s[30:31], s[28:29]", "s_mov_b64 s[30:31], -1", "WRONG_ELEMENT", "a lane writes Y["),
        ("v_cmp_lt_i32 vcc, v5, s13", "v_cmp_lt_i32 vcc, v5, 64", "STORE", "were never written, first Y[0, 64]"),
        ("v_lshlrev_b32 v9, 1, v9", "v_lshlrev_b32 v9, 2, v9", "WRONG_ELEMENT", "Y[0, 1] is meant, at"),
        ("s_add_u32 s20, s8, s16", "s_add_u32 s20, s8, 8", "BAD_ACCESS", "is no multiple of 16"),
        ("s_addc_u32 s21, s9, s17", "s_addc_u32 s21, s9, 65536", "BAD_ACCESS", "bits 31:16 must be 0"),
        ("s_lshl_b32 s14, s3, 4", "s_lshl_b32 s60, s3, 4", "UNINITIALISED", "it reads s14, which nothing has written"),
    ],
)
def test_a_fault_of_one_wave_is_named(old: str, new: str, code: str, says: str) -> None:
    found = fault(copy, (65, 72), edited(COPY, old, new))
    assert found.startswith(f"MLS_{code} ")
    assert says in found
    assert code == "STORE" or re.search(r"`.*`, wave 0 of workgroup \(\d, \d, 0\)", found)


@pytest.mark.parametrize(
    ("old", "new", "code", "says"),
    [
        ("    s_barrier\n", "", "RACE", "which wave 1 has read in line"),
        ("s_waitcnt vmcnt(0)\n", "s_nop 0\n", "RACE", "has not waited for it"),
        ("s_xor_b32 s24, s25, 1", "s_mov_b32 s24, s25", "RACE", "race: reads LDS byte"),
        ("offset:3072 {b", "offset:2560 {b", "WRONG_ELEMENT", "tile b: B[16, 0] of 0x"),
        ("s_cbranch_scc1 none\n", "s_branch none\n", "DIRTY_LDS", "were never written, where A[0, 32] was to be"),
        ("s_add_i32 s23, s22, 32 ", "s_add_i32 s23, s22, 0 ", "STEP_LIMIT", "is not done within its limit"),
    ],
)
def test_a_fault_between_waves_is_named(old: str, new: str, code: str, says: str) -> None:
    found = fault(gemm, (16, 32, 96), edited(GEMM, old, new))
    assert found.startswith(f"MLS_{code} ")
    assert says in found


def test_an_endless_loop_is_named() -> None:
    text = head("endless", 1, 0, "0 n: i32") + "again:\n    s_branch again\n"
    with pytest.raises(TilegenError, match="MLS_STEP_LIMIT"):
        launch(program(text), (1, 1, 1), {"n": 0}, step_limit=1000)


def test_a_wave_that_ends_while_others_wait_is_named() -> None:
    text = (
        head("hang", 2, 0, "0 n: i32")
        + "    s_cmp_eq_u32 s5, 0\n    s_cbranch_scc1 end\n    s_barrier\nend:\n    s_endpgm\n"
    )
    with pytest.raises(TilegenError, match="MLS_HANG: it waits for ever: wave 0 has ended"):
        launch(program(text), (1, 1, 1), {"n": 0})


# A column of two row blocks; the second block of X's rows is not there. Word 3 and the guard are filled in.
TAIL = (
    head("tail", 1, 2048, "0 X: input bf16[2]; 8 Y: output bf16[1]", "x: bf16 at 0, 2 of 1024")
    + """\
    s_load_dwordx2 s[8:9], s[0:1], 0
    s_load_dwordx2 s[10:11], s[0:1], 8
    s_mov_b32 s14, 32
    s_mov_b32 s15, 0
    s_mov_b32 m0, 0
    s_waitcnt lgkmcnt(0)
    s_mov_b64 s[12:13], s[8:9]
    matrix_load_16x32_b16 s[12:15], m0 t lds {x: X[line, run]}
    s_add_u32 s12, s12, 1024
    s_addc_u32 s13, s13, 0
    s_mov_b32 s15, 4096
    s_mov_b32 m0, 1024
    s_nop 0
    LOAD
    s_waitcnt vmcnt(0) lgkmcnt(0)
    s_mov_b32 m0, 1024
    s_nop 0
    ds_read_matrix_b16 v[2:3], m0 {x: X[16 + line, run]}
    s_mov_b64 exec, 1
    v_mov_b32 v4, 0
    s_waitcnt lgkmcnt(0)
    global_store_short v4, v2, s[10:11]
    s_endpgm
"""
)


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ("matrix_load_16x32_b16 s[12:15], m0 t lds {x: X[16 + line, run]}",
         "MLS_TAIL: tile x: X[16, 0]: the filter (16 of 16 lines, 0 of 32 positions) removes everything"),
        ("s_nop 0", "MLS_DIRTY_LDS: tile x: 512 bytes of LDS, from byte 1024 on, were never written, where X[16, 0]"),
    ],
)  # fmt: skip
def test_a_block_that_is_not_there(load: str, says: str) -> None:
    """A load that brings nothing meets the unmapped page behind the tensor; none at all leaves LDS as it was."""
    x, y = random((16, 32), "bfloat16", 0), poison((1,), "bfloat16")
    with pytest.raises(TilegenError) as caught:
        launch(program(TAIL.replace("LOAD", load)), (1, 1, 1), {"X": x, "Y": y})
    assert says in str(caught.value)


def test_zeros_written_by_lanes_are_what_a_read_outside_is_to_find() -> None:
    zero = "    v_lshlrev_b32 v1, 4, v0\n" + "".join(f"    v_mov_b32 v{4 + k}, 0\n" for k in range(4))
    zero += "    ds_write_b128 v1, v[4:7] offset:1024 {x}"
    x, y = random((16, 32), "bfloat16", 0), poison((1,), "bfloat16")
    launch(program(TAIL.replace("    LOAD", zero)), (1, 1, 1), {"X": x, "Y": y})
    assert y[0] == 0


def test_stale_rows_are_named_with_what_they_are() -> None:
    """The read finds the first block, which stands in the slot of the second."""
    text = TAIL.replace("    LOAD\n", "").replace("s_mov_b32 m0, 0\n", "s_mov_b32 m0, 1024\n")
    x, y = random((16, 32), "bfloat16", 0), poison((1,), "bfloat16")
    with pytest.raises(TilegenError) as caught:
        launch(program(text), (1, 1, 1), {"X": x, "Y": y})
    message = str(caught.value)
    assert (
        "MLS_DIRTY_LDS: tile x: byte 1024 of LDS (512 bytes are wrong; line 18 wrote it) is stale: it holds X[0, 0]"
        in message
    )
    assert "zeros are to be read, for X[16, 0] lies outside" in message


def test_an_argument_that_is_missing_is_named() -> None:
    with pytest.raises(TilegenError) as caught:
        launch(program(GEMM), (1, 1, 1), {"A": poison((16, 32), np.float32), "M": 16, "K": 32})
    (d,) = caught.value.diagnostics
    assert d.code == "MLS_ARGUMENTS"
    assert d.message.endswith(" is launched without B, C, N")
    assert d.fixes == ("give each by its name: A, B, C, M, N, K",)


def test_the_launch_that_the_document_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gemm.mls").write_text(build(load(ROOT / "samples" / "gemm.tile", {})).text)
    monkeypatch.chdir(tmp_path)
    (shown,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "mls.md").read_text(), re.M | re.S)
    names: dict[str, Any] = {}
    exec(shown, names)
    a, b, c = (names[n].astype(np.float64) for n in "abc")
    np.testing.assert_allclose(c, a @ b, rtol=2**-8, atol=1e-4)
    assert names["report"].count("matrix_load") == (a.nbytes + b.nbytes) // 4 // 1024  # bytes of bf16, of a load
