"""A kernel's plan and its machine code, which is made when something first asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, Protocol, TypeVar

from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.plan import Plan
from tilegen.ir.uniform import condition_text


class Artefacts(Protocol):
    """What building a plan yields: its notes then tell of the machine code too."""

    @property
    def plan(self) -> Plan: ...
    @property
    def cuda(self) -> str: ...
    @property
    def ptx(self) -> str: ...
    @property
    def cubin(self) -> bytes: ...
    @property
    def sass(self) -> str: ...


_A = TypeVar("_A", bound=Artefacts)
_Made = TypeVar("_Made", bound=Artefacts, covariant=True)


class Variant(Generic[_Made]):
    """One of a kernel's variants: the plan for the launches where its guard holds and no earlier one's does.

    What was generated: `cuda`, `ptx`, `sass` (texts), `cubin` (bytes). The first to ask for any of it compiles it,
    which may raise TilegenError.
    """

    def __init__(self, plan: Plan, build: Callable[[], _Made]) -> None:
        self._plan = plan
        self._build = build
        self._made: _Made | None = None
        self._turn = Lock()

    @staticmethod
    def of(made: _A) -> Variant[_A]:
        """One that is built already."""
        return Variant(made.plan, lambda: made)

    def __repr__(self) -> str:
        return f"<variant of {self._plan.name}{f' if {self.guard}' if self.guard else ''}>"

    @property
    def built(self) -> _Made:
        """All that building the plan yields."""
        if self._made is None:
            with self._turn:
                if self._made is None:
                    self._made = self._build()
        return self._made

    @property
    def guard(self) -> str | None:
        """The condition on sizes, integer scalars and arrays' alignment, None where it always holds."""
        return None if self._plan.guard is None else condition_text(self._plan.guard)

    @property
    def plan(self) -> Plan:
        """The plan; its notes tell of the machine code once that is there."""
        return self._plan if self._made is None else self._made.plan

    @property
    def cuda(self) -> str:
        """The CUDA C++ text."""
        return self.built.cuda

    @property
    def ptx(self) -> str:
        return self.built.ptx

    @property
    def cubin(self) -> bytes:
        return self.built.cubin

    @property
    def sass(self) -> str:
        return self.built.sass


def build_all(variants: Sequence[Variant[Artefacts]]) -> None:
    """Make the machine code of these, beside each other: most of the time is spent outside Python. Raises TilegenError
    with the faults of every one."""
    if len(variants) == 1:
        _ = variants[0].built
        return
    from concurrent.futures import ThreadPoolExecutor  # which a kernel from the cache does without

    faults: list[Diagnostic] = []
    with ThreadPoolExecutor(len(variants)) as together:
        for building in [together.submit(lambda v: v.built, variant) for variant in variants]:
            try:
                building.result()
            except TilegenError as error:
                faults += error.diagnostics
    if faults:
        raise TilegenError(tuple(dict.fromkeys(faults)))
