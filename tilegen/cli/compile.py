"""A spec's path compiled, and how long it took: what every command starts with."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tilegen.cli.usage import wrong_usage
from tilegen.cli.values import Sizes, Wanted
from tilegen.ir.plan import ABOUT_DOMAIN
from tilegen.ir.variants import heading, limits
from tilegen.runtime.compilation import Compilation, compile_source
from tilegen.syntax.reading import read_source
from tilegen.syntax.span import Source

if TYPE_CHECKING:
    from tilegen.runtime.kernel import Kernel


def compile_spec(wanted: Wanted, sizes: Sizes | None = None) -> tuple[Compilation, float]:
    """The compilation, with the machine code of every variant, and the seconds that it took. Raises TilegenError with
    all that is wrong.

    `sizes` choose among tuned schedules, where one is wanted; which one is taken, if any, is said on stderr.
    """
    done, seconds = plan_spec(wanted, sizes)
    started = time.perf_counter()
    done.build()
    return done, seconds + time.perf_counter() - started


def plan_spec(wanted: Wanted, sizes: Sizes | None = None) -> tuple[Compilation, float]:
    """`compile_spec`, but of several variants none is compiled before it is asked for."""
    started = time.perf_counter()
    source = source_of(wanted, sizes or {})
    done = compile_source(source, wanted.parameters, wanted.target, wanted.use_cache)
    return done, time.perf_counter() - started


def source_of(wanted: Wanted, sizes: Sizes) -> Source:
    """The spec's text, with the tuned schedule if one is wanted and kept."""
    if wanted.tuned and wanted.target != "hopper":
        wrong_usage("--tuned is of the target hopper", got="--tuned", wanted=f"--target {wanted.target} without it")
    source = read_source(wanted.spec)
    return _tuned(source, wanted, sizes) if wanted.tuned else source


def _tuned(source: Source, wanted: Wanted, sizes: Sizes) -> Source:
    from tilegen.tune.store import applied

    lengths = {name: value for name, value in sizes.items() if not isinstance(value, float)}
    source, kept = applied(source, wanted.parameters, lengths)
    for each in kept:
        click.echo(f"tuned schedule of {each.title}: {each.schedule}", err=True)
    if not kept:
        click.echo("no tuned schedule is kept for this spec, GPU and tilegen: its own is taken", err=True)
    return source


def how_long(done: Compilation, seconds: float) -> str:
    """The time that a compilation took, or that it took none."""
    return f"from the cache in {seconds:.2f} s" if done.cached else f"compiled in {seconds:.2f} s"


@dataclass(frozen=True)
class Chosen:
    """A kernel, the heading of the variant that certain sizes take, the seconds that compiling that took, and what is
    to be known of its domain."""

    kernel: Kernel
    heading: str
    seconds: float
    notes: tuple[str, ...]


def choose(done: Compilation, numbers: Mapping[str, int | float]) -> Chosen:
    """Compile what a launch of these sizes and scalars takes. Raises TilegenError, and where none is for them."""
    started = time.perf_counter()
    kernel = done.kernel()
    variant = kernel.variant(**numbers)
    _ = variant.built
    seconds = time.perf_counter() - started
    notes = tuple(note for note in variant.plan.notes if note.startswith(ABOUT_DOMAIN))
    return Chosen(kernel, headings(done)[kernel.variants.index(variant)], seconds, notes)


def headings(done: Compilation) -> list[str]:
    """What tells a compilation's variants apart, a line each: "variant 1 of 2, if Sq <= 1024". Of one alone: ""."""
    return [heading(done.plans, n) for n in range(len(done.plans))]


def remarks(done: Compilation) -> list[str]:
    """What is to be known of launches, a line each: which of them no variant is for."""
    needed = limits(done.plans)
    return [] if needed is None else [f"note: no schedule is for other launches than {needed}"]
