"""The Tile program as JSON and back, exactly."""

from __future__ import annotations

from typing import cast, get_type_hints

from tilegen.ir import dtypes, poly, schedule, tile, uniform
from tilegen.ir.codec import Codec, Json, classes_of
from tilegen.ir.tile import TileProgram
from tilegen.syntax import span

# `Expr` is the text of a union, of which `Expr | None` cannot be made: a field that has it tells the union itself
_CODEC = Codec(classes_of(tile, schedule, poly, uniform, dtypes, span), {"Expr": get_type_hints(tile.Cast)["value"]})


def program_to_json(program: TileProgram) -> Json:
    """The program as a value that `json` can write."""
    return _CODEC.encode(program)


def program_from_json(value: Json) -> TileProgram:
    """The program that `program_to_json` gave. Raises CodecError for any other value."""
    return cast(TileProgram, _CODEC.decode(TileProgram, value))
