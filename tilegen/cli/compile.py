"""A spec's path compiled, and how long it took: what every command starts with."""

from __future__ import annotations

import time
from pathlib import Path

from tilegen.cli.values import Parameters
from tilegen.runtime.compilation import Compilation, compile_source
from tilegen.sema import read_source


def compile_spec(spec: Path, parameters: Parameters, target: str) -> tuple[Compilation, float]:
    """The compilation and the seconds that it took. Raises TilegenError with all that is wrong."""
    started = time.perf_counter()
    done = compile_source(read_source(spec), parameters, target)
    return done, time.perf_counter() - started
