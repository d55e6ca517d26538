"""What the statements of one role refer to: arrays, slots, barriers, pointers, each by its C++ spelling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tilegen.ir.dtypes import DType
from tilegen.ir.plan import (
    CLUSTER_RANK,
    For,
    Fragment,
    If,
    IfSpoiled,
    IfVote,
    LetFloat,
    Mma,
    Operation,
    Plan,
    RolePlan,
    Sharers,
    Slot,
    Work,
)
from tilegen.ir.plan_rules.roles import WARPGROUP
from tilegen.ir.uniform import Int, Uniform, op
from tilegen.targets.hopper.emit.flight import Flight
from tilegen.targets.hopper.emit.functions import Functions
from tilegen.targets.hopper.emit.integers import Integers
from tilegen.targets.hopper.emit.names import Names

ELEMENT = {
    DType.BF16: "unsigned short",
    DType.F16: "unsigned short",
    DType.F32: "float",
    DType.I32: "int",
    DType.BOOL: "unsigned char",
}
# What L2 is told of the lines that a hinted instruction touches.
PRIORITY = {"keep": "evict_last", "stream": "evict_first"}
# Exponent bits of 16-bit types: all set in infinities and NaN alone.
EXPONENT = {DType.BF16: "0x7f80", DType.F16: "0x7c00"}


@dataclass(frozen=True)
class RoleScope:
    """One role of a plan while its text is made. `integers` knows what is bound at the place being printed.

    one: of the warpgroups that are the same threads, that which is printed for; None where there are none such.
    """

    plan: Plan
    role: RolePlan
    names: Names
    functions: Functions
    integers: Integers
    one: int | None = None

    def each(self) -> tuple[RoleScope, ...]:
        """A scope for each of the warpgroups that are the same threads."""
        if self.role.together == 1:
            return (self,)
        made = (replace(self, one=n) for n in range(self.role.together))
        return tuple(replace(r, integers=r.integers.called(WARPGROUP, r.warpgroup)) for r in made)

    @property
    def warpgroup(self) -> str:
        """The variable that holds the index of the warpgroup printed for."""
        return WARPGROUP if self.one is None else self.names.give((WARPGROUP, self.one), f"{WARPGROUP}_{self.one}")

    # ---- values ----

    def integer(self, e: Uniform) -> str:
        return self.integers.text(e)

    def scalar(self, name: str) -> str:
        return self.names["symbol", name]

    @cached_property
    def fragments(self) -> dict[str, Fragment]:
        return {f.name: f for f in self.role.fragments}

    @cached_property
    def whole(self) -> frozenset[str]:
        """Names bound to elements of i32 tensors, which are whole numbers."""
        loads = (o for o in walk(self.role.body) if isinstance(o, LetFloat) and o.load is not None)
        return frozenset(o.name for o in loads if o.load and self.plan.tensor(o.load[0]).dtype is DType.I32)

    def array(self, fragment: str) -> str:
        """The array that holds a fragment: its own, or that of the fragment whose registers it shares."""
        storage = self.fragments[fragment].storage
        if self.one is None:
            return self.names.give(("array", storage), storage)
        return self.names.give(("array", storage, self.one), f"{storage}_{self.one}")

    def policy(self, hint: str) -> str:
        """The variable that holds the cache policy of a hint, made once in the role."""
        return self.names.give(("policy", hint), f"{hint}_policy")

    def ctas(self, sharers: Sharers) -> str:
        """The mask of the CTAs that share."""
        mask, first = sum(1 << rank for rank in sharers.ranks(0)), self.integers.factor(first_rank(self.plan, sharers))
        return f"{mask:#x}" if first == "0" else f"{mask:#x} << {first}"

    @cached_property
    def products(self) -> dict[str, list[Mma]]:
        """The products issued under each token."""
        found: dict[str, list[Mma]] = {}
        for o in walk(self.role.body):
            if isinstance(o, Mma):
                found.setdefault(o.token, []).append(o)
        return found

    @cached_property
    def flight(self) -> Flight:
        return Flight(self.role.body)

    # ---- rings ----

    def cursor(self, name: str) -> tuple[str, str]:
        """(stage, phase) of a cursor."""
        return (
            self.names.give(("stage", name), f"{name}_stage"),
            self.names.give(("phase", name), f"{name}_phase"),
        )

    def slot(self, slot: Slot, offset: int = 0, warpgroup: int = 0, share: tuple[int, Uniform] = (0, Int(0))) -> str:
        """Address of `offset` bytes, and of `warpgroup` more for each warpgroup index, into a slot; and of the bytes of
        a share times its number."""
        ring = self.plan.ring(slot.ring)
        start = self.names["buffer", ring.buffer]
        return _sum(
            start,
            self._times(self.plan.buffer(ring.buffer).stage_bytes, self._number(slot)),
            str(offset) if offset else "",
            self._times(warpgroup, self.warpgroup),
            self._times(share[0], self.integer(share[1])) if share[0] else "",
        )

    def barrier(self, slot: Slot, kind: str) -> str:
        """Address of the slot's full or empty barrier."""
        return _sum(self.names[kind, slot.ring], self._times(8, self._number(slot)))

    def part(self, buffer: str, stage: int = 0, offset: int = 0) -> str:
        """Address of `offset` bytes into this warpgroup's copy of a stage of a buffer that is no ring."""
        b = self.plan.buffer(buffer)
        inside = stage * b.parts * b.stage_bytes + offset
        own = self._times(b.stage_bytes, self.warpgroup if b.parts > 1 else "")
        return _sum(self.names["buffer", buffer], own, str(inside) if inside else "")

    def _number(self, slot: Slot) -> str:
        """stage * parts + part, "" for 0."""
        ring = self.plan.ring(slot.ring)
        stage = self.cursor(slot.cursor)[0] if ring.depth > 1 else ""
        if ring.parts == 1:
            return stage
        part = self.warpgroup if slot.part is None else str(slot.part) if slot.part else ""
        return _sum(self._times(ring.parts, stage), part)

    @staticmethod
    def _times(factor: int, number: str) -> str:
        if not factor or not number:
            return ""
        if number.isdigit():
            return str(factor * int(number))
        if factor == 1:
            return number
        return f"{factor} * ({number})" if " " in number else f"{factor} * {number}"

    # ---- global memory ----

    def element(self, tensor: str, index: tuple[Uniform, ...]) -> str:
        """Pointer to an element."""
        terms = [self.names["pointer", tensor]]
        for dim, at in enumerate(index):
            if at != Int(0):
                stride = self.stride(tensor, dim)
                wide = f"(long long){self.integers.factor(at)}"
                terms.append(wide if stride == "1" else f"{wide} * {stride}")
        return " + ".join(terms)

    def stride(self, tensor: str, dim: int) -> str:
        """Stride of a dimension in elements; the innermost is 1 unless it is a parameter."""
        if ("stride", tensor, dim) in self.names:
            return self.names["stride", tensor, dim]
        if dim == len(self.plan.tensor(tensor).dims) - 1:
            return "1"
        raise ValueError(f"{tensor}: the plan has no parameter for the stride of dimension {dim}")

    def left(self, limit: Uniform, start: Uniform) -> str:
        """How many positions are left from `start` to `limit`."""
        return self.integer(op("sub", limit, start))


def first_rank(plan: Plan, sharers: Sharers) -> Uniform:
    """The rank of the first of the CTAs that share with this one."""
    if sharers.count == plan.cluster:
        return Int(0)
    return op("sub", CLUSTER_RANK, op("mul", sharers.number, sharers.stride))


def _sum(*terms: str) -> str:
    return " + ".join(t for t in terms if t) or "0"


def walk(body: tuple[Operation, ...]) -> Iterator[Operation]:
    """Every operation, bodies included, in order."""
    for o in body:
        yield o
        if isinstance(o, Work | For | If | IfVote | IfSpoiled):
            yield from walk(o.body)
