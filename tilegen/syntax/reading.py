"""The text of a `.tile` file, before anything is known of its form."""

from __future__ import annotations

import difflib
from pathlib import Path

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.syntax.span import Source, Span


def read_source(path: str | Path) -> Source:
    """The text of a `.tile` file. Raises TilegenError if it cannot be read as one."""
    file = Path(path)
    name = str(path)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        near = sorted(p.name for p in file.parent.glob("*.tile")) if file.parent.is_dir() else []
        close = difflib.get_close_matches(file.stem, [n.removesuffix(".tile") for n in near], 1)
        fail(Code.FILE_MISSING, None, wanted=f"did you mean {close[0]}.tile?" if close else _some(near), path=name)
    except IsADirectoryError:
        inside = sorted(p.name for p in file.glob("*.tile"))
        fail(Code.FILE_IS_FOLDER, None, wanted=_some(inside), path=name)
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


def _some(names: list[str]) -> str:
    return ", ".join([*names[:8], *(["…"] if len(names) > 8 else [])])
