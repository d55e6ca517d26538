"""A spec's path compiled, and how long it took: what every command starts with."""

from __future__ import annotations

import time

import click

from tilegen.cli.values import Sizes, Wanted
from tilegen.runtime.compilation import Compilation, compile_source
from tilegen.syntax.reading import read_source
from tilegen.syntax.span import Source


def compile_spec(wanted: Wanted, sizes: Sizes | None = None) -> tuple[Compilation, float]:
    """The compilation and the seconds that it took. Raises TilegenError with all that is wrong.

    `sizes` choose among tuned schedules, where one is wanted; which one is taken, if any, is said on stderr.
    """
    started = time.perf_counter()
    source = read_source(wanted.spec)
    if wanted.tuned:
        source = _tuned(source, wanted, sizes or {})
    done = compile_source(source, wanted.parameters, wanted.target, wanted.use_cache)
    return done, time.perf_counter() - started


def _tuned(source: Source, wanted: Wanted, sizes: Sizes) -> Source:
    from tilegen.tune.store import applied

    lengths = {name: value for name, value in sizes.items() if not isinstance(value, float)}
    source, kept = applied(source, wanted.parameters, lengths)
    if kept is None:
        click.echo("no tuned schedule is kept for this spec, GPU and tilegen: its own is taken", err=True)
    else:
        click.echo(f"tuned schedule of {kept.title}: {kept.schedule}", err=True)
    return source


def how_long(done: Compilation, seconds: float) -> str:
    """The time that a compilation took, or that it took none."""
    return f"from the cache in {seconds:.2f} s" if done.cached else f"compiled in {seconds:.2f} s"
