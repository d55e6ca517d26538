"""The static checks on programs made of specs: right ones pass, and each defect put back is found before running."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.cli.main import main
from tilegen.sema.loading import load
from tilegen.targets.mls.build import build
from tilegen.targets.mls.checks import check

SAMPLES = Path(__file__).parents[2] / "samples"
CODES = {"carry": "MLS_CARRY", "tail": "MLS_TAIL", "dirty-lds": "MLS_DIRTY_LDS"}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("fa3_fwd", {"causal": "true"}),
        ("attention_chunks", {}),
        ("gemm", {}),
        ("row_softmax", {}),
    ],
)
def test_nothing_is_found_in_a_right_program(name: str, parameters: dict[str, str]) -> None:
    program = load(SAMPLES / f"{name}.tile", parameters)
    assert check(build(program).program) == []


@pytest.mark.parametrize("name", ["fa3_fwd", "gemm"])
@pytest.mark.parametrize("defect", CODES)
def test_each_defect_is_found_and_nothing_else(name: str, defect: str) -> None:
    found = check(build(load(SAMPLES / f"{name}.tile", {}), frozenset({defect})).program)
    assert {d.code for d in found} == {CODES[defect]}
    assert all(d.message.startswith("tile ") and d.span is not None for d in found)


@pytest.mark.parametrize("defect", CODES)
def test_the_command_names_a_defect_without_running(defect: str) -> None:
    result = CliRunner().invoke(main, ["check", str(SAMPLES / "copy.tile"), "--target", "mls", "--defect", defect])
    assert result.exit_code == 1
    assert f"error[{CODES[defect]}]: tile x: " in result.output
