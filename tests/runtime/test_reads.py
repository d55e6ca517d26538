"""Indices that stay inside or not as a launch has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tilegen
from tilegen.cli.main import main
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.outside import undecided
from tilegen.runtime.reads import check_reads
from tilegen.sema import load
from tilegen.syntax.span import Source

SHIFTED = """kernel shifted {
  size   M, S, N
  input  Z: f32[M, N]
  input  X: f32[S, N]
  output Y: f32[M, N] else 0
  scalar k: i32 = 9
  axis   i in M, n in N
  domain i, n: n <= i
  tile x[i, n] = Z[i, n]
  tile y[i, n] = X[i + k, n]
  Y[i, n] = x[i, n] + y[i, n]
}
"""
SPLIT = """kernel k { size N, C input X: f32[N * C] output Y: f32[N * C] else 0 axis i in N * C
    split i into u, v by C domain u: u > 0 Y[i] = X[i - 64] }"""


def test_a_launch_is_refused_that_makes_an_index_leave(tmp_path: Path) -> None:
    spec = tmp_path / "shifted.tile"
    spec.write_text(SHIFTED)
    kernel = tilegen.compile(spec)
    X: np.ndarray[Any, Any] = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    got = kernel(Z=X[:8], X=X, k=8)
    np.testing.assert_allclose(got, np.tri(8, 16) * (X[:8] + X[8:]), rtol=1e-6)
    with pytest.raises(TilegenError) as error:
        kernel(Z=X[:8], X=X, k=9)
    (found,) = error.value.diagnostics
    assert (found.code, found.got, found.wanted) == ("INDEX_AT_LAUNCH", "16 at i = 7, n = 0", "0 to 15")
    assert "M = 8, N = 16, S = 16, k = 9" in found.message
    assert "`domain i: i + k < S`" in found.fixes[1]
    with pytest.raises(TilegenError, match="-1 at i = 0"):
        kernel(Z=X[:8], X=X, k=-1)


@pytest.mark.parametrize("target", ["hopper", "sm_80", "mls"])
def test_a_run_says_so_of_the_spec_and_not_of_itself(target: str, tmp_path: Path) -> None:
    spec = tmp_path / "shifted.tile"
    spec.write_text(SHIFTED)
    arguments = ["run", str(spec), "--target", target, "--size", "M=8,S=16,N=16"]
    done = CliRunner().invoke(main, arguments if target == "mls" else [*arguments, "--emulate"])
    assert done.exit_code and "INDEX_AT_LAUNCH" in done.output
    assert "fault of tilegen" not in done.output


@pytest.mark.parametrize(("C", "leaves"), [(64, False), (65, False), (63, True)])
def test_parts_whose_extent_is_a_size_are_judged_at_the_launch(C: int, leaves: bool) -> None:
    program = load(Source("spec.tile", SPLIT), {})
    if leaves:
        with pytest.raises(TilegenError, match=f"{C - 64} at i = {C}"):
            check_reads(program, undecided(program), {"N": 3, "C": C})
    else:
        check_reads(program, undecided(program), {"N": 3, "C": C})


def test_lengths_of_sequences_do_not_keep_other_axes_from_being_judged() -> None:
    text = """kernel k { size B, S, N scalar l: i32 = 1 input cu: i32[B + 1] input X: f32[B, S, N]
        output Y: f32[B, S, N] ragged S over B by cu axis b in B, i in S, n in N Y[b, i, n] = X[b, i, n - l] }"""
    program = load(Source("spec.tile", text), {})
    check_reads(program, undecided(program), {"B": 2, "S": [3, 4], "N": 8, "l": 0})
    with pytest.raises(TilegenError, match="-1 at n = 0"):
        check_reads(program, undecided(program), {"B": 2, "S": [3, 4], "N": 8, "l": 1})
