"""A spec's path compiled, and how long it took: what every command starts with."""

from __future__ import annotations

import time

from tilegen.cli.values import Wanted
from tilegen.runtime.compilation import Compilation, compile_source
from tilegen.syntax.reading import read_source


def compile_spec(wanted: Wanted) -> tuple[Compilation, float]:
    """The compilation and the seconds that it took. Raises TilegenError with all that is wrong."""
    started = time.perf_counter()
    done = compile_source(read_source(wanted.spec), wanted.parameters, wanted.target, wanted.use_cache)
    return done, time.perf_counter() - started


def how_long(done: Compilation, seconds: float) -> str:
    """The time that a compilation took, or that it took none."""
    return f"from the cache in {seconds:.2f} s" if done.cached else f"compiled in {seconds:.2f} s"
