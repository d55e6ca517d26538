"""What a launch's faults are told in terms of: areas of shared memory, roles of warps, statements of the spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.emulate.ptx.watch.declared import Declared, declared
from tilegen.ir.plan import Plan
from tilegen.ir.tile import TileProgram
from tilegen.syntax.span import Span


@dataclass(frozen=True)
class Area:
    """A buffer: bytes [begin, end) of dynamic shared memory, in slots of `slot` bytes; `parts` of them a stage."""

    name: str
    begin: int
    end: int
    slot: int
    parts: int

    def describe(self, at: int) -> str:
        """A byte of it, in words."""
        number, inside = divmod(at - self.begin, self.slot)
        stage, part = divmod(number, self.parts)
        whose = f", part {part}" if self.parts > 1 else ""
        return f"byte {inside} of {self.name}, stage {stage}{whose}"


@dataclass(frozen=True)
class Role:
    """Warps [first, last) run it."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class Tensor:
    """A tensor of a launch: address of its first element, extents and strides in bytes."""

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    size: int
    output: bool

    @property
    def forward(self) -> bool:
        """Whether there are elements, and none lies below the first."""
        return 0 not in self.shape and min(self.strides, default=0) >= 0

    @property
    def span(self) -> int:
        """Bytes from the first element to the end of the last."""
        if not self.forward:
            return 0
        return sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + self.size


@dataclass(frozen=True)
class Context:
    """atomic: offsets, in dynamic shared memory, of words that threads read and write without an order. Everything may
    be empty: faults then name addresses and warps."""

    areas: tuple[Area, ...] = ()
    roles: tuple[Role, ...] = ()
    atomic: tuple[int, ...] = ()
    program: TileProgram | None = None
    tensors: tuple[Tensor, ...] = ()
    declared: Declared | None = None

    def place(self, at: int) -> str:
        """A byte of dynamic shared memory, in words."""
        for area in self.areas:
            if area.begin <= at < area.end:
                return area.describe(at)
        return f"byte {at} of shared memory"

    def area(self, at: int) -> str:
        """The name of the buffer that a byte lies in; "" for none."""
        return next((area.name for area in self.areas if area.begin <= at < area.end), "")

    def role(self, warp: int) -> str:
        """A warp, in words."""
        for role in self.roles:
            if role.first <= warp < role.last:
                return f"the {role.name} (warp {warp})"
        return f"warp {warp}"

    def statement(self, place: Span | None) -> Span | None:
        """The statement of the spec that a place lies in, else the place itself."""
        if place is None or self.program is None or place.file != self.program.source.name:
            return place
        spans = [m.span for m in self.program.moves] + [d.span for d in self.program.definitions]
        return next((s for s in spans if s.line <= place.line <= s.end_line), place)


def of_plan(plan: Plan, program: TileProgram | None, tensors: tuple[Tensor, ...], sizes: Mapping[str, int]) -> Context:
    """What a plan says of its areas and roles."""
    areas = tuple(
        Area(b.name, b.offset, b.offset + b.stage_bytes * b.stages * b.parts, b.stage_bytes, b.parts)
        for b in plan.buffers
        if b.host is None
    )
    roles = []
    for role in sorted(plan.roles, key=lambda r: r.warps is None):  # those of some warps stand before those of all
        first, count = role.warps_of_group
        begin = 4 * role.first + first
        roles.append(Role(role.name, begin, begin + 4 * (role.thread_groups - 1) + count))
    atomic = tuple(ring.scan.flag for ring in plan.rings if ring.scan is not None)
    declaration = None if program is None else declared(program, plan, sizes)
    return Context(areas, tuple(roles), atomic, program, tensors, declaration)
