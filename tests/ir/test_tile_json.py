"""Every Tile program survives the way to JSON text and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilegen.ir.codec import CodecError
from tilegen.ir.tile_json import program_from_json, program_to_json
from tilegen.sema import load

ROOT = Path(__file__).parents[2]
SPECS = sorted([*(ROOT / "samples").glob("*.tile"), *(ROOT / "tests" / "specs").glob("*.tile")])


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_each_program_comes_back_as_it_was(spec: Path) -> None:
    program = load(spec, {})
    assert program_from_json(json.loads(json.dumps(program_to_json(program)))) == program


def test_what_is_no_program_is_refused() -> None:
    value = program_to_json(load(SPECS[0], {}))
    assert isinstance(value, dict)
    with pytest.raises(CodecError, match="TileProgram lacks domain"):
        program_from_json({name: item for name, item in value.items() if name != "domain"})
    with pytest.raises(CodecError, match=r"TileProgram\.name"):
        program_from_json({**value, "name": 7})
