"""From a path or a source to a Tile program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import DType
from tilegen.ir.tile import TileProgram
from tilegen.sema.analysis import analyse
from tilegen.syntax.parsing import parse
from tilegen.syntax.span import Source, Span


def read_source(path: str | Path) -> Source:
    """The text of a `.tile` file. Raises TilegenError if it cannot be read as one."""
    file = Path(path)
    name = str(path)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        near = sorted(p.name for p in file.parent.glob("*.tile")) if file.parent.is_dir() else []
        fail(Code.FILE_MISSING, None, wanted=", ".join(near[:8]), path=name)
    except IsADirectoryError:
        inside = sorted(p.name for p in file.glob("*.tile"))
        fail(Code.FILE_IS_FOLDER, None, wanted=", ".join(inside[:8]), path=name)
    except OSError as error:
        fail(Code.FILE_UNREADABLE, None, path=name, why=error.strerror or str(error))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        span = Span(name, line, column, line, column + 1)
        fail(Code.FILE_ENCODING, span, got=f"byte {data[error.start]:#04x}", wanted="UTF-8", path=name)
    return Source(name, text)


def load(path_or_source: str | Path | Source, params: Mapping[str, str | int | float | bool | DType]) -> TileProgram:
    """Read, parse and analyse: a path, or a Source made by hand. Raises TilegenError."""
    source = path_or_source if isinstance(path_or_source, Source) else read_source(path_or_source)
    return analyse(parse(source), source, params)
