"""Filters of matrix loads: none may reach the tile's size, and where a guard sees to it, its other way writes zeros."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, Note
from tilegen.targets.mls import isa
from tilegen.targets.mls.checks.flow import Site
from tilegen.targets.mls.checks.values import Guard, Made, Met, Range, State, Value, Values
from tilegen.targets.mls.program import Instruction

_FIELD = 8  # bits of a filter
_MOST = (1 << _FIELD) - 1
_NONE = Range(0, 0)
_UNKNOWN = Range(0, _MOST)


@dataclass(frozen=True)
class _Filters:
    """Ranges of the two filters of a descriptor's last word, and the values that they were made of."""

    run: Range
    lines: Range
    of: frozenset[Value]


def tail(values: Values) -> Iterator[Diagnostic]:
    """Loads whose filter may remove everything, and guards behind which nothing zeroes the tile instead."""
    told: set[int] = set()
    for _, site, state in values.states():
        instruction = site.instruction
        if instruction.name not in isa.SHAPES:
            continue
        shape = isa.SHAPES[instruction.name]
        filters = _filters(values.sources[site.number][0][3], state, values, frozenset())
        for name, found, size in (("lines", filters.lines, shape.lines), ("positions", filters.run, shape.run)):
            if found.high >= size:
                what = (
                    f"{_tile(instruction)}the filter of this load may remove {min(found.high, _MOST)} of {size} {name}"
                    ": no branch in front of it keeps a load away that would bring nothing"
                )
                yield fault(Code.MLS_TAIL, site.span, what=what)
        for guard in sorted(_guards(filters, state), key=lambda g: g.branch):
            branch = values.flow.blocks[guard.branch].sites[-1]
            if branch.number in told or not _is_read(values, guard, instruction):
                continue
            if _least_written(values, guard, site) < shape.bytes:
                told.add(branch.number)
                what = (
                    f"{_tile(instruction)}where the filter reaches the tile's size its load is passed by, and on that "
                    f"way nothing writes the {shape.bytes} bytes of LDS that it would have written"
                )
                notes = (Note(site.span, "the load that is passed by"),)
                yield fault(Code.MLS_DIRTY_LDS, branch.span, notes=notes, what=what)


def _tile(instruction: Instruction) -> str:
    return f"tile {instruction.access.tile}: " if instruction.access else ""


def _guards(filters: _Filters, state: State) -> set[Guard]:
    return {guard for value in filters.of for guard in state.guards.get(value, ())}


def _filters(value: Value, state: State, values: Values, seen: frozenset[Value]) -> _Filters:
    """What is known of the filters in a word."""
    if isinstance(value, int):
        return _Filters(Range(value & _MOST, value & _MOST), Range(value >> 8 & _MOST, value >> 8 & _MOST), frozenset())
    of = frozenset({value})
    whole = state.range(value)
    if isinstance(value, Made) and value not in seen:
        name, sources = values.sites[value.site].instruction.name, values.sources[value.site]
        seen = seen | of
        if name == "s_mov_b32" and sources[1]:
            return _filters(sources[1][0], state, values, seen)
        if name == "s_or_b32" and sources[1] and sources[2]:
            a, b = (_filters(s[0], state, values, seen) for s in sources[1:])
            return _Filters(_both(a.run, b.run), _both(a.lines, b.lines), a.of | b.of)
        if name == "s_lshl_b32" and sources[1] and sources[2] == (_FIELD,):
            inner = sources[1][0]
            found = state.range(inner)
            if found.low >= 0 and found.high <= _MOST:
                return _Filters(_NONE, found, frozenset({inner}))
            return _Filters(_NONE, _UNKNOWN, frozenset({inner}))
    if isinstance(value, Met) and value not in seen:
        parts = [_filters(v, state, values, seen | of) for v in values.meetings[value].values()]
        run, lines = parts[0].run, parts[0].lines
        for part in parts[1:]:
            run, lines = run.hull(part.run), lines.hull(part.lines)
        return _Filters(run, lines, frozenset().union(*(p.of for p in parts)))
    if whole.low >= 0 and whole.high <= _MOST:
        return _Filters(whole, _NONE, of)
    return _Filters(_UNKNOWN, _UNKNOWN, of)


def _both(a: Range, b: Range) -> Range:
    """Two fields joined by or."""
    if a == _NONE:
        return b
    return a if b == _NONE else Range(max(a.low, b.low), min(a.high + b.high, _MOST))


def _is_read(values: Values, guard: Guard, load: Instruction) -> bool:
    """Whether the load's tile may be read where a guard leads."""
    flow = values.flow
    behind = {guard.away} | flow.reachable(guard.away)
    return any(
        load.access is None or (s.instruction.access is not None and s.instruction.access.tile == load.access.tile)
        for number in behind
        for s in flow.blocks[number].sites
        if isa.OPCODES[s.instruction.name].unit == isa.LDS_MATRIX or s.instruction.name.startswith("ds_read")
    )


def _least_written(values: Values, guard: Guard, load: Site) -> int:
    """Bytes of the load's tile that lanes write, or other loads bring, at least, from where a guard leads away to where
    the ways meet again."""
    flow = values.flow
    end = flow.meeting(guard.branch)
    access = load.instruction.access
    tile = access.tile if access else None
    known: dict[int | None, int] = {end: 0}

    def written(number: int) -> int:
        if number not in known:
            known[number] = 0  # around a loop nothing more is counted
            block = flow.blocks[number]
            own = sum(_writes(site.instruction, tile) for site in block.sites)
            known[number] = own + min(map(written, block.after), default=0)
        return known[number]

    return written(guard.away)


def _writes(instruction: Instruction, tile: str | None) -> int:
    if tile is not None and (instruction.access is None or instruction.access.tile != tile):
        return 0
    if instruction.name in isa.SHAPES:
        return isa.SHAPES[instruction.name].bytes
    if instruction.name.startswith("ds_write"):
        return isa.LANES * isa.OPCODES[instruction.name].bytes
    return 0
