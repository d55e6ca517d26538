"""From a path or a source to a Tile program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilegen.ir.dtypes import DType
from tilegen.ir.tile import TileProgram
from tilegen.sema.analysis import analyse
from tilegen.syntax.parsing import parse
from tilegen.syntax.reading import read_source
from tilegen.syntax.span import Source


def load(path_or_source: str | Path | Source, params: Mapping[str, str | int | float | bool | DType]) -> TileProgram:
    """Read, parse and analyse: a path, or a Source made by hand. Raises TilegenError."""
    source = path_or_source if isinstance(path_or_source, Source) else read_source(path_or_source)
    return analyse(parse(source), source, params)
