"""The grammar's text."""

from __future__ import annotations

from functools import cache

from tilegen.resources import resource


@cache
def grammar_text() -> str:
    """The text of `grammar/tile.lark`, from a wheel, an sdist or a source tree alike."""
    return resource("grammar", "tile.lark").read_text(encoding="utf-8")
