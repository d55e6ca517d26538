"""Names, types, axes and shapes: from syntax tree to Tile program."""

from tilegen.sema.analysis import analyse
from tilegen.sema.loading import load

__all__ = ["analyse", "load"]
