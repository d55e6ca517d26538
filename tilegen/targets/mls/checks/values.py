"""What registers hold, worked out without running: which instruction made a value, and the range it lies in.

A value is the result of one instruction (the last that it gave), of a meeting of ways, or what was there at the start.
Facts about ranges narrow behind branches, which is how a guard in front of a load is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tilegen.targets.mls import isa
from tilegen.targets.mls.checks.flow import Block, Flow, Site
from tilegen.targets.mls.program import SGPR, VGPR, Instruction, Int, Operand, Signed, Special

VCC, M0, EXEC, SCC, VECTORS = 102, 104, 105, 106, 200  # places of the others behind s0 … s101; v0 is at VECTORS
_LOW, _HIGH = -(1 << 31), (1 << 32) - 1  # signed and unsigned readings of 32 bits
_WIDEN = 4  # visits of a block after which ranges that still grow are given up


@dataclass(frozen=True)
class Range:
    """Whole numbers from low to high. A register's pattern is read as the number itself, if it is one of 32 bits."""

    low: int
    high: int

    def hull(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))

    def cut(self, low: int, high: int) -> Range:
        """What of it lies from low to high (both ends, if nothing does: the way is never taken)."""
        return Range(max(self.low, low), min(self.high, high)) if self.low <= high and self.high >= low else self


ANY = Range(_LOW, _HIGH)
SIGNED = Range(_LOW, (1 << 31) - 1)


@dataclass(frozen=True)
class Made:
    """The result of an instruction, in register `place`; sources: its operands, a value or a literal each."""

    site: int
    place: int


@dataclass(frozen=True)
class Met:
    """What a register holds where ways meet that bring different values."""

    block: int
    place: int


@dataclass(frozen=True)
class Given:
    """What a register holds at the start."""

    place: int


Value = Made | Met | Given | int  # an int is a literal, as a number


@dataclass(frozen=True)
class Guard:
    """A branch on a value: block `branch` ends with it; block `away` follows where the value is too large."""

    branch: int
    away: int


@dataclass(frozen=True)
class State:
    """At one place: the value in each register, ranges of values, and the branches that have narrowed them."""

    values: dict[int, Value] = field(default_factory=dict)
    ranges: dict[Value, Range] = field(default_factory=dict)
    guards: dict[Value, frozenset[Guard]] = field(default_factory=dict)

    def value(self, place: int) -> Value:
        return self.values.get(place, Given(place))

    def range(self, value: Value) -> Range:
        return Range(value, value) if isinstance(value, int) else self.ranges.get(value, ANY)


def register_name(place: int) -> str:
    """A place as the text writes it."""
    if place >= VECTORS:
        return f"v{place - VECTORS}"
    return {VCC: "vcc", VCC + 1: "vcc", M0: "m0", EXEC: "exec", SCC: "scc"}.get(place, f"s{place}")


def places(operand: Operand) -> tuple[int, ...]:
    """The registers of an operand, one place each."""
    match operand:
        case SGPR(index, count):
            return tuple(range(index, index + count))
        case VGPR(index, count):
            return tuple(range(VECTORS + index, VECTORS + index + count))
        case Special("m0"):
            return (M0,)
        case Special("vcc"):
            return (VCC, VCC + 1)
        case Special("exec"):
            return (EXEC,)
        case Signed(of):
            return places(of)
    return ()


def written_places(instruction: Instruction) -> list[int]:
    """The registers that an instruction writes."""
    opcode = isa.OPCODES[instruction.name]
    explicit = [p for o, f in zip(instruction.operands, opcode.forms, strict=True) if f.written for p in places(o)]
    return explicit + [{"scc": SCC, "exec": EXEC}[name] for name in opcode.writes]


class Values:
    """The values at every instruction of a program."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.sources: dict[int, tuple[tuple[Value, ...], ...]] = {}  # of each instruction, a tuple an operand
        self.carry: dict[int, Value] = {}  # scc in front of each instruction
        self.meetings: dict[Met, dict[int, Value]] = {}  # by the block that a way comes from
        self.sites = {site.number: site for _, site in flow.sites()}
        self._visits = [0] * len(flow.blocks)
        self._entry: list[State | None] = [None] * len(flow.blocks)
        self._leaving: dict[tuple[int, int], State] = {}
        self._solve()

    def states(self) -> Iterator[tuple[Block, Site, State]]:
        """Each instruction that can be reached, with the state in front of it."""
        for block in self.flow.blocks:
            state = self._entry[block.number]
            if state is None:
                continue
            for site in block.sites:
                yield block, site, state
                state = self._step(site, state)

    # ---- the solution ----

    def _solve(self) -> None:
        self._entry[0] = State()
        waiting = [0]
        while waiting:
            number = min(waiting)
            waiting.remove(number)
            block = self.flow.blocks[number]
            state = self._entry[number]
            assert state is not None
            for site in block.sites:
                state = self._step(site, state)
            for place, follower in enumerate(block.after):
                self._leaving[number, follower] = self._narrowed(block, state, place)
                if self._meet(follower):
                    waiting += [follower] if follower not in waiting else []

    def _meet(self, number: int) -> bool:
        """Work out the state at a block's beginning again; whether it has changed."""
        ways = {b: self._leaving[b, number] for b in self.flow.before[number] if (b, number) in self._leaving}
        if number == 0:
            ways[-1] = State()
        self._visits[number] += 1
        values: dict[int, Value] = {}
        ranges: dict[Value, Range] = {}
        guards: dict[Value, frozenset[Guard]] = {}
        for place in {p for s in ways.values() for p in s.values}:
            brought = {b: s.value(place) for b, s in ways.items()}
            met = Met(number, place)
            others = {v for v in brought.values() if v != met}
            if len(others) == 1:
                values[place] = next(iter(others))
                continue
            values[place] = met
            self.meetings[met] = brought
            ranges[met] = _hull(s.range(v) for s, v in zip(ways.values(), brought.values(), strict=True))
        for value in next(iter(ways.values())).ranges:
            if value not in ranges:
                ranges[value] = _hull(way.range(value) for way in ways.values())
        for way in ways.values():
            for value, found in way.guards.items():
                guards[value] = guards.get(value, frozenset()) | found
        before = self._entry[number]
        if before is not None and self._visits[number] > _WIDEN:
            ranges = {v: r for v, r in ranges.items() if before.range(v) == r}
        made = State(values, {v: r for v, r in ranges.items() if r != ANY}, guards)
        self._entry[number] = made
        return made != before

    def _step(self, site: Site, state: State) -> State:
        instruction = site.instruction
        sources = tuple(_sources(o, state) for o in instruction.operands)
        self.sources[site.number] = sources
        self.carry[site.number] = state.value(SCC)
        written = written_places(instruction)
        if not written:
            return state
        values, ranges, guards = dict(state.values), dict(state.ranges), dict(state.guards)
        for place in written:
            made = Made(site.number, place)
            values[place] = made
            ranges.pop(made, None)
            guards.pop(made, None)
            found = ANY if place in (SCC, EXEC) else _result(instruction.name, sources, state)
            if found != ANY:
                ranges[made] = found
        return State(values, ranges, guards)

    def _narrowed(self, block: Block, state: State, place: int) -> State:
        """What is known on one of the ways that leave a block."""
        last = block.sites[-1].instruction
        made = state.value(SCC)
        if not last.name.startswith("s_cbranch_scc") or len(block.after) < 2 or not isinstance(made, Made):
            return state
        compare = self.sites[made.site].instruction.name
        if not compare.startswith("s_cmp_"):
            return state
        true = (last.name == "s_cbranch_scc1") == (place == 1)
        _, _, relation, kind = compare.split("_")
        (left,), (right,) = self.sources[made.site]
        state = _refined(state, left, right, relation if true else _NOT[relation], kind == "u32")
        away = block.after[1 - place]
        for value, other in ((left, right), (right, left)):
            if not isinstance(value, int) and isinstance(other, int):
                guard = Guard(block.number, away)
                known = state.guards.get(value, frozenset()) | {guard}
                state = replace(state, guards={**state.guards, value: known})
        return state


def _hull(ranges: Iterable[Range]) -> Range:
    first, *rest = ranges
    for other in rest:
        first = first.hull(other)
    return first


_NOT = {"eq": "lg", "lg": "eq", "gt": "le", "le": "gt", "ge": "lt", "lt": "ge"}
_MIRROR = {"eq": "eq", "lg": "lg", "gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}


def _refined(state: State, left: Value, right: Value, relation: str, unsigned: bool) -> State:
    """With `left relation right` known."""
    ranges = dict(state.ranges)
    for value, other, how in ((left, right, relation), (right, left, _MIRROR[relation])):
        if isinstance(value, int):
            continue
        old, bound = state.range(value), state.range(other)
        if unsigned:  # as signed numbers where both are known to be none below 0, which reads the same
            if bound.low < 0:
                continue
            if old.low < 0:
                old = Range(0, _HIGH) if how in ("lt", "le", "eq") else old
            if old.low < 0:
                continue
        else:
            old, bound = _signed(old), _signed(bound)
        low, high = {
            "lt": (_LOW, bound.high - 1),
            "le": (_LOW, bound.high),
            "gt": (bound.low + 1, _HIGH),
            "ge": (bound.low, _HIGH),
            "eq": (bound.low, bound.high),
            "lg": (_LOW, _HIGH),
        }[how]
        ranges[value] = old.cut(low, high)
    return replace(state, ranges={v: r for v, r in ranges.items() if r != ANY})


def _sources(operand: Operand, state: State) -> tuple[Value, ...]:
    if isinstance(operand, Int):
        return (operand.value,)
    return tuple(state.value(p) for p in places(operand))


def _result(name: str, sources: tuple[tuple[Value, ...], ...], state: State) -> Range:
    """The range of a scalar instruction's result."""
    if name == "s_mov_b32":
        return state.range(sources[1][0]) if sources[1] else ANY
    if name not in _RANGES or not sources[1] or not sources[2]:
        return ANY
    found = _RANGES[name](state.range(sources[1][0]), state.range(sources[2][0]))
    return found if found.low >= _LOW and found.high <= _HIGH else ANY


def _product(a: Range, b: Range) -> Range:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Range(min(corners), max(corners))


def _left(a: Range, b: Range) -> Range:
    if not 0 <= b.low == b.high < 32:
        return ANY
    return Range(a.low << b.low, a.high << b.low)


def _right(a: Range, b: Range) -> Range:
    if a.low < 0 or not 0 <= b.low == b.high < 32:
        return ANY
    return Range(a.low >> b.low, a.high >> b.low)


def _and(a: Range, b: Range) -> Range:
    tops = [r.high for r in (a, b) if r.low >= 0]
    return Range(0, min(tops)) if tops else ANY


def _or(a: Range, b: Range) -> Range:
    if a.low < 0 or b.low < 0:
        return ANY
    return Range(max(a.low, b.low), (1 << max(a.high.bit_length(), b.high.bit_length())) - 1)


def _signed(a: Range) -> Range:
    """A range as signed instructions read it."""
    return a if a.high <= SIGNED.high else SIGNED


_RANGES: dict[str, Callable[[Range, Range], Range]] = {
    "s_add_u32": lambda a, b: Range(a.low + b.low, a.high + b.high),
    "s_add_i32": lambda a, b: Range(a.low + b.low, a.high + b.high),
    "s_sub_i32": lambda a, b: Range(a.low - b.high, a.high - b.low),
    "s_sub_u32": lambda a, b: Range(a.low - b.high, a.high - b.low),
    "s_mul_i32": _product,
    "s_lshl_b32": _left,
    "s_lshr_b32": _right,
    "s_and_b32": _and,
    "s_or_b32": _or,
    "s_max_i32": lambda a, b: Range(max(_signed(a).low, _signed(b).low), max(_signed(a).high, _signed(b).high)),
    "s_min_i32": lambda a, b: Range(min(_signed(a).low, _signed(b).low), min(_signed(a).high, _signed(b).high)),
    "s_cselect_b32": lambda a, b: a.hull(b),
}
