"""From `.tile` text to syntax tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilegen.syntax import ast
    from tilegen.syntax.span import Source


def parse(source: Source) -> ast.Kernel:
    """The tree of a file with one kernel. Raises TilegenError with all its syntax errors."""
    # the diagnostics need tilegen.syntax.span, and the parser needs the diagnostics
    from tilegen.syntax.parsing import parse as parse_source

    return parse_source(source)
