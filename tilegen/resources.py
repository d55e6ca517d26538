"""Where grammar, templates and samples are: inside the package in a wheel, at the top level in a source tree."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(*parts: str) -> Path:
    """The path of a data file or folder, such as `resource("grammar", "tile.lark")`.

    Raises FileNotFoundError if neither the installed package nor a source tree holds it.
    """
    for root in (_PACKAGE / "_data", _PACKAGE.parent):
        path = root.joinpath(*parts)
        if path.exists():
            return path
    raise FileNotFoundError(f"{'/'.join(parts)} is missing: tilegen is not installed whole; install it again")
