"""From a spec to everything that its compilation yields: what `tilegen.compile` and every command start with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tilegen.ir.plan import Plan
from tilegen.runtime import cache, entry
from tilegen.syntax.span import Source
from tilegen.targets.hopper.built import Built

if TYPE_CHECKING:
    from tilegen.ir.tile import ParamValue, TileProgram
    from tilegen.runtime.kernel import Kernel


@dataclass(frozen=True)
class Compilation:
    """A spec with its parameters bound, and what became of it.

    title: the kernel and its parameters in one line. cached: it was compiled before, and is read from the cache.
    """

    title: str
    built: Built
    cached: bool
    _program: Callable[[], TileProgram] = field(repr=False)

    @property
    def plan(self) -> Plan:
        return self.built.plan

    @cached_property
    def program(self) -> TileProgram:
        return self._program()

    def kernel(self) -> Kernel:
        from tilegen.runtime.kernel import Kernel  # NumPy, which writing files does without

        return Kernel(self.program, self.plan, self.built)


def compile_source(
    source: Source, params: Mapping[str, str | ParamValue], target: str = "hopper", use_cache: bool = True
) -> Compilation:
    """Compile a spec and run every static check. Raises TilegenError with all that is wrong.

    What was compiled before, by any process, comes from the cache; only what is free of faults is kept there.
    """
    place = cache.folder() if use_cache else None
    key = cache.key_of(source, params, target) if place else None
    if place and key and (body := cache.read(place, key)) and (kept := entry.decode(body)):
        return Compilation(kept.title, kept.built, True, kept.program)
    # here, not at the top: the compiler takes longer to load than a kernel from the cache
    from tilegen.runtime.compiler import compile_spec

    program, built = compile_spec(source, params, target)
    title = program.title
    # the key again: code that changed while it was being loaded is neither the old nor the new
    if place and key and cache.key_of(source, params, target) == key:
        cache.write(place, key, entry.encode(title, program, built))
    return Compilation(title, built, False, lambda: program)
