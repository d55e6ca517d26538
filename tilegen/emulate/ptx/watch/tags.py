"""What registers hold, as far as it can be told: elements of accumulators, rows of them, and pairs packed for the next
product. Followed through moves and arithmetic, one step an instruction that can meet one of them.

Registers of a warpgroup hold the same element of each thread's own, so one tag speaks for all threads. It is followed
along the way of the warpgroup's first thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilegen.emulate.ptx.module import Immediate, Instruction, Not, Operand, Pair, Register, Vector
from tilegen.emulate.ptx.types import Array
from tilegen.emulate.ptx.watch.values import Values

#: Kinds of tags: element i of an accumulator; elements 2 i and 2 i + 1, packed; a number of row half i; something of
#: rows or columns that do not belong together.
ELEMENT, PACKED, ROW, MIXED = 0, 1, 2, 3
_NONE = 0  # of constants, and what is the same for all elements
#: The tag of data that comes another way.
UNKNOWN = 1
Key = tuple[int, int]  # width and index of a register
NO_REGISTER: Key = (0, 0)  # a number stands there


def tag(value: int, kind: int, index: int) -> int:
    """A tag as one number, above UNKNOWN; those of an accumulator's elements follow each other."""
    return (value + 1) << 12 | kind << 10 | index


def fields(t: int) -> tuple[int, int, int]:
    """(value, kind, index)."""
    return (t >> 12) - 1, t >> 10 & 3, t & 1023


@dataclass(frozen=True)
class Step:
    """What an instruction does to tags: "merge" sources, "select" one of two, "pack" two, "quad" (what another lane of
    the quad has), "hide" an element behind a number, "keep" what there was, or "clear": nobody knows. `choice`: what
    it does instead where its predicate is the same for all threads."""

    how: str
    to: tuple[Key, ...]
    sources: tuple[Key, ...]
    choice: Choice | None = None

    def taken(self, holds: Array | None) -> Step:
        """The same where the predicate holds for some threads as `holds` says; None: that is not known."""
        if self.choice is None:
            return self
        if holds is None:
            return Step("clear", self.to, ())
        if holds.all():
            return self.choice.yes
        return self if holds.any() else self.choice.no


@dataclass(frozen=True)
class Choice:
    """What is done where the predicate of this index holds, and where it does not."""

    predicate: int
    yes: Step
    no: Step


def steps_of(instruction: Instruction, constants: Mapping[Key, int]) -> Step | None:
    """None for what makes no register of 16 or 32 bits. constants: registers that hold one number for good."""
    op, mods = instruction.opcode, instruction.modifiers
    if op in ("st", "red", "bra", "setp", "stmatrix", "wgmma", "bar", "mbarrier", "fence", "cp", "ret", "prefetch"):
        return None
    if not instruction.operands:
        return None
    first, *rest = instruction.operands
    to = _keys(first)
    if not to:
        return None
    if op in ("ld", "ldmatrix", "vote", "redux", "atom", "movmatrix", "match", "elect", "call"):
        return Step("clear", to, ())
    sources = tuple(k for o in rest for k in _keys(o))
    if op == "shfl":
        by = rest[1]
        lanes = by.value if isinstance(by, Immediate) else constants.get(_keys(by)[0]) if _keys(by) else None
        near = "bfly" in mods and lanes in (1, 2)
        return Step("quad" if near else "clear", to[:1], _keys(rest[0]))
    if op == "cvt" and any(m in ("bf16x2", "f16x2") for m in mods) and len(sources) == 2:
        return Step("pack", to, sources)
    if op == "mov" and isinstance(first, Register) and isinstance(rest[0], Vector):
        if len(sources) == 2 and sources[0][0] == 16:
            return Step("pack", to, sources[::-1])
        return Step("clear", to, sources)
    if op == "selp" and instruction.guard is None:
        return Step("select", to, sources, _of_select(to, rest, constants))
    if instruction.guard is not None:
        return Step("select", to, sources + to, _of_guard(instruction, Step("merge", to, sources)))
    return Step("merge", to, sources)


def _of_select(to: tuple[Key, ...], operands: Sequence[Operand], constants: Mapping[Key, int]) -> Choice | None:
    predicate = operands[2]
    negated = isinstance(predicate, Not)
    register = predicate.operand if isinstance(predicate, Not) else predicate
    if not isinstance(register, Register):
        return None
    keys = [_keys(o) for o in operands[:2]]
    numbers = [
        o.value if isinstance(o, Immediate) else constants.get(k[0]) if k else None
        for o, k in zip(operands, keys, strict=False)
    ]
    sides = []
    for number, own, other in zip(numbers, keys, keys[::-1], strict=True):
        hides = number is not None and number != 0  # accumulators begin with zeros, and masks are no zeros
        sides.append(Step("hide", to, other) if hides else Step("merge", to, own if number is None else ()))
    return Choice(register.index, *(sides[::-1] if negated else sides))


def _of_guard(instruction: Instruction, done: Step) -> Choice | None:
    assert instruction.guard is not None
    sides = (done, Step("keep", done.to, ()))
    return Choice(instruction.guard.index, *(sides[::-1] if instruction.guard_negated else sides))


def _keys(operand: Operand) -> tuple[Key, ...]:
    match operand:
        case Register(_, width, index) if width in (16, 32):
            return ((width, index),)
        case Vector(items):
            return tuple(k for item in items for k in _keys(item))
        case Pair(first, _):
            return _keys(first)
    return ()


class Tainted:
    """Of a program's instructions, those that can meet a tag: found once, by what accumulators reach.

    plain: registers that hold a constant where they have no tag.
    """

    def __init__(self, code: Sequence[Instruction]) -> None:
        constants = _constants(code)
        steps = [(i, n, s) for n, i in enumerate(code) if (s := steps_of(i, constants)) is not None]
        reached: set[Key] = set()
        for i in code:
            if i.opcode == "wgmma" and i.operands:
                reached.update(_keys(i.operands[0]))
        while True:
            size = len(reached)
            for _, _, s in steps:
                if not reached.isdisjoint(s.sources):
                    reached.update(s.to)
            if len(reached) == size:
                break
        self.steps = {n: s for _, n, s in steps if not reached.isdisjoint(s.to)}
        self.plain = (reached | constants.keys()) - _loaded([(i, s) for i, _, s in steps], reached)


def _loaded(steps: Sequence[tuple[Instruction, Step]], reached: set[Key]) -> set[Key]:
    """Registers that may hold data which came by no accumulator: loaded, of other lanes, or made of wider registers.
    What is made of such data and of what accumulators reach is theirs."""
    loaded: set[Key] = set()
    for i, s in steps:
        wide = any(isinstance(o, Register) and o.width > 32 for o in i.operands[1:])
        if wide or (s.how == "clear" and not (i.opcode == "ld" and "param" in i.modifiers)):
            loaded.update(s.to)
    ways = []
    for _, s in steps:
        theirs = [k for k in s.sources if k in reached] if s.how == "merge" else []
        ways.append((frozenset(theirs or s.sources), s.to))
    while True:
        size = len(loaded)
        for sources, to in ways:
            if not loaded.isdisjoint(sources):
                loaded.update(to)
        if len(loaded) == size:
            return loaded


def predicates_of(instruction: Instruction) -> frozenset[int]:
    """The predicates that an instruction may write."""
    first = instruction.operands[0] if instruction.operands else None
    named = (first.first, first.second) if isinstance(first, Pair) else (first,)
    return frozenset(o.index for o in named if isinstance(o, Register) and o.width == 1)


def _constants(code: Sequence[Instruction]) -> dict[Key, int]:
    """Registers that only one instruction writes, which moves a number there."""
    writes: Counter[Key] = Counter()
    moved: dict[Key, int] = {}
    for i in code:
        for key in _keys(i.operands[0]) if i.operands else ():
            writes[key] += 1
        if i.opcode == "mov" and isinstance(i.operands[1], Immediate) and i.guard is None:
            moved.update({key: int(i.operands[1].value) for key in _keys(i.operands[0])})
    return {key: value for key, value in moved.items() if writes[key] == 1}


class Tags:
    """Those of one warpgroup's registers."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._tags: dict[Key, int] = {}
        self._merged: dict[tuple[int, int], int] = {}

    def get(self, key: Key) -> int:
        """A register's tag; 0 if it has none."""
        return self._tags.get(key, _NONE)

    def put(self, key: Key, t: int) -> None:
        self._tags[key] = t

    def pass_by(self, steps: Sequence[Step]) -> None:
        """These instructions are passed by, by some threads at least: what holds a number where they would write an
        element hides one."""
        before = {key: self._tags.get(key, _NONE) for step in steps for key in step.to}
        self.follow(steps)
        for key, t in before.items():
            made = self._tags[key]
            hides = t == _NONE and made > UNKNOWN and fields(made)[1] == ELEMENT
            self._tags[key] = made if hides else t

    def follow(self, steps: Iterable[Step]) -> None:
        """These instructions are executed."""
        tags, merged = self._tags, self._merged
        for step in steps:
            result = _NONE
            if step.how == "merge":
                for source in step.sources:
                    t = tags.get(source, _NONE)
                    if t == UNKNOWN:
                        result = result or UNKNOWN
                    elif t and t != result:
                        if result <= UNKNOWN:
                            result = t
                        else:
                            pair = (result, t)
                            known = merged.get(pair)
                            if known is None:
                                known = merged[pair] = self._merge(result, t)
                            result = known
            elif step.how == "pack":
                result = self._pack(tags.get(step.sources[1], _NONE), tags.get(step.sources[0], _NONE))
            elif step.how == "quad":
                t = tags.get(step.sources[0], _NONE)
                value, kind, index = fields(t)
                result = tag(value, ROW, _half(kind, index)) if t > UNKNOWN and kind != MIXED else t
            elif step.how == "keep":
                continue
            elif step.how == "hide":
                t = max((tags.get(source, _NONE) for source in step.sources), default=_NONE)
                result = t if t <= UNKNOWN or fields(t)[1] == ELEMENT else _NONE
            elif step.how == "select":
                result = self._select([t for s in step.sources if (t := tags.get(s, _NONE))])
            else:
                result = UNKNOWN
            for key in step.to:
                tags[key] = result

    def _select(self, found: Sequence[int]) -> int:
        """Of two of these, which one may hang on the lane: what both have in common."""
        if len(set(found)) <= 1:
            return found[0] if found else _NONE
        if UNKNOWN in found:
            return UNKNOWN
        value, kind, index = fields(found[0])
        for other in found[1:]:
            v, k, i = fields(other)
            if MIXED in (kind, k) or _half(kind, index) != _half(k, i) or not self._values.agree(value, v, False):
                return UNKNOWN
        return tag(value, ROW, _half(kind, index))

    def _pack(self, low: int, high: int) -> int:
        if low <= UNKNOWN or high <= UNKNOWN:
            return _NONE if low == high == _NONE else UNKNOWN
        value, kind, index = fields(low)
        other, other_kind, other_index = fields(high)
        if kind == other_kind == ROW and index == other_index and self._values.agree(value, other, False):
            return low
        together = kind == other_kind == ELEMENT and index % 2 == 0 and other_index == index + 1
        if together and self._values.agree(value, other, True):
            return tag(value, PACKED, index // 2)
        if {kind, other_kind} == {ROW, ELEMENT}:
            return UNKNOWN  # one of them may be a number that stands for an element
        return tag(value, MIXED, 0)

    def _merge(self, one: int, other: int) -> int:
        value, kind, index = fields(one)
        v, k, i = fields(other)
        if MIXED in (kind, k):
            return tag(value, MIXED, 0)
        if kind == ROW and k != ROW:
            return self._merge(other, one)
        half, h = _half(kind, index), _half(k, i)
        if half != h or not self._values.agree(value, v, kind == k != ROW and index == i):
            return tag(value, MIXED, 0)
        if (kind == k and index == i) or k == ROW:
            return one
        if kind == k == ELEMENT:
            return tag(value, ROW, half)
        return tag(value, MIXED, 0)


def _half(kind: int, index: int) -> int:
    return index >> 1 & 1 if kind == ELEMENT else index & 1
