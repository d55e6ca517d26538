"""From a spec to everything that its compilation yields: what `tilegen.compile` and every command start with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tilegen import disk
from tilegen.ir.plan import Plan
from tilegen.ir.variants import file_stem
from tilegen.runtime import cache, entry
from tilegen.runtime.variants import Variant, build_all
from tilegen.syntax.span import Source
from tilegen.targets.hopper.built import Built

if TYPE_CHECKING:
    from tilegen.ir.tile import ParamValue, TileProgram
    from tilegen.runtime.kernel import Kernel


@dataclass(frozen=True)
class Compilation:
    """A spec with its parameters bound, and what became of it.

    title: the kernel and its parameters in one line. variants: one for each schedule that a launch may take. If there
    are several, their machine code is made when it is first asked for.
    """

    title: str
    variants: tuple[Variant[Built], ...]
    _program: Callable[[], TileProgram] = field(repr=False)
    _compiled: Sequence[str] = field(repr=False)  # what was not in the cache; grows

    @property
    def cached(self) -> bool:
        """Whether all that was made so far was compiled before, and is read from the cache."""
        return not self._compiled

    @property
    def plans(self) -> tuple[Plan, ...]:
        return tuple(variant.plan for variant in self.variants)

    @cached_property
    def program(self) -> TileProgram:
        return self._program()

    def build(self) -> None:
        """Make the machine code of all variants. Raises TilegenError with the faults of every one."""
        build_all(self.variants)

    def kernel(self) -> Kernel:
        from tilegen.runtime.kernel import Kernel  # NumPy, which writing files does without

        return Kernel(self.program, self.variants)


def compile_source(
    source: Source, params: Mapping[str, str | ParamValue], target: str = "hopper", use_cache: bool = True
) -> Compilation:
    """Compile a spec and run every static check, those on the machine code of several variants when it is made. Raises
    TilegenError with all that is wrong.

    What was compiled before, by any process, comes from the cache; only what is free of faults is kept there.
    """
    place = _Place.of(source, params, target) if use_cache else None
    compiled: list[str] = []
    if place and (body := place.read()) and (kept := entry.decode(body)):
        return Compilation(
            kept.title, _variants(kept.plans, kept.built, kept.program, place, compiled), kept.program, compiled
        )
    # here, not at the top: the compiler takes longer to load than a kernel from the cache
    from tilegen.runtime.compiler import compile_plan, plan_spec

    program, plans = plan_spec(source, params, target)
    title = program.title
    built = compile_plan(plans[0], file_stem(plans, 0), program) if len(plans) == 1 else None
    compiled.append(title)
    if place:
        place.write(entry.encode(title, program, plans, built))
    return Compilation(title, _variants(plans, built, lambda: program, place, compiled), lambda: program, compiled)


def _variants(
    plans: tuple[Plan, ...],
    built: Built | None,
    program: Callable[[], TileProgram],
    place: _Place | None,
    compiled: list[str],
) -> tuple[Variant[Built], ...]:
    """built: what has been made of the only plan."""
    if built is not None:
        return (Variant.of(built),)
    return tuple(
        Variant(p, partial(_built, p, file_stem(plans, n), partial(_variant, program, p.target, n), place, compiled))
        for n, p in enumerate(plans)
    )


def _variant(program: Callable[[], TileProgram], target: str, number: int) -> TileProgram:
    from tilegen.passes.pipeline import program_of  # with the compiler

    return program_of(program(), target, number)


def _built(
    plan: Plan, stem: str, program: Callable[[], TileProgram], place: _Place | None, compiled: list[str]
) -> Built:
    """One of several variants, from its own entry of the cache or compiled."""
    if place and (body := place.read(stem)) and (kept := entry.decode_built(body, plan)):
        return kept
    from tilegen.runtime.compiler import compile_plan

    built = compile_plan(plan, stem, program())
    compiled.append(stem)
    if place:
        place.write(entry.encode_built(built), stem)
    return built


@dataclass(frozen=True)
class _Place:
    """Where the cache keeps one compilation: in an entry, and in one for each of several variants."""

    source: Source
    params: Mapping[str, str | ParamValue]
    target: str
    folder: Path
    key: str

    @staticmethod
    def of(source: Source, params: Mapping[str, str | ParamValue], target: str) -> _Place | None:
        folder = disk.folder()
        key = cache.key_of(source, params, target) if folder else None
        return _Place(source, params, target, folder, key) if folder and key else None

    def read(self, variant: str = "") -> bytes | None:
        return disk.read(self.folder, self._name(variant))

    def write(self, body: bytes, variant: str = "") -> None:
        # the key again: code that changed while it was being loaded is neither the old nor the new
        if cache.key_of(self.source, self.params, self.target) == self.key:
            disk.write(self.folder, self._name(variant), body)

    def _name(self, variant: str) -> str:
        return f"{self.key}{disk.OF}{variant}" if variant else self.key
