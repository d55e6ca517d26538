"""Barriers that not every wave comes to, and tiles that are read with no wait or barrier behind their loads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, Note
from tilegen.targets.mls import isa
from tilegen.targets.mls.checks.flow import Flow, Site
from tilegen.targets.mls.checks.values import SCC, VECTORS, Given, Made, Met, Value, Values
from tilegen.targets.mls.program import Instruction

_Placed = tuple[int, Site]  # a block and an instruction in it


def barriers(values: Values) -> Iterator[Diagnostic]:
    """Barriers that stand behind a branch which not all waves of a workgroup take alike."""
    flow = values.flow
    differing = _Differing(values)
    for block, site, state in values.states():
        if not site.instruction.name.startswith("s_cbranch") or len(block.after) < 2:
            continue
        if "scc" in site.instruction.name and not differing.differs(state.value(SCC)):
            continue
        end = flow.meeting(block.number)
        inside = set()
        for way in block.after:
            if way != end:
                inside |= {way} | flow.reachable(way, end)
        for number in sorted(inside - {end}):
            for other in flow.blocks[number].sites:
                if other.instruction.name == "s_barrier":
                    what = "not every wave comes to this barrier: a branch in front of it depends on the wave"
                    yield fault(Code.MLS_HANG, other.span, notes=(Note(site.span, "the branch"),), what=what)


class _Differing:
    """Which values may differ between the waves of a workgroup."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._known: dict[Value, bool] = {}

    def differs(self, value: Value) -> bool:
        if isinstance(value, int):
            return False
        if value not in self._known:
            self._known[value] = False  # while it is asked for itself, around a loop
            self._known[value] = self._ask(value)
        return self._known[value]

    def _ask(self, value: Value) -> bool:
        match value:
            case Given(place):
                return place == isa.WAVE or place >= VECTORS
            case Met():
                return any(self.differs(v) for v in self._values.meetings[value].values())
            case Made(number, _):
                site = self._values.sites[number]
                opcode = isa.OPCODES[site.instruction.name]
                if opcode.unit in (isa.VALU, isa.LDS, isa.LDS_MATRIX, isa.GLOBAL, isa.MATRIX):
                    return True
                sources = self._values.sources[number]
                read = [v for o, f in zip(sources, opcode.forms, strict=True) if not f.written for v in o]
                carry = [self._values.carry[number]] if "scc" in opcode.reads else []
                return "exec" in opcode.reads or any(self.differs(v) for v in (*read, *carry))
        return True


def tiles(flow: Flow) -> Iterator[Diagnostic]:
    """Tiles whose loads and reads no wait, or no barrier, ever parts."""
    loads: dict[str, list[_Placed]] = {}
    reads: dict[str, list[_Placed]] = {}
    for block, site in flow.sites():
        access, unit = site.instruction.access, isa.OPCODES[site.instruction.name].unit
        if access is None:
            continue
        if unit == isa.MLS:
            loads.setdefault(access.tile, []).append((block.number, site))
        elif unit == isa.LDS_MATRIX or site.instruction.name.startswith("ds_read"):
            reads.setdefault(access.tile, []).append((block.number, site))
    for tile in sorted(loads.keys() & reads.keys()):
        parts: list[tuple[Callable[[Instruction], bool], str]] = [(_waits_for_loads, "s_waitcnt vmcnt")]
        if flow.program.waves > 1:
            parts.append((_is_barrier, "s_barrier"))
        for parting, name in parts:
            found = _unparted(flow, loads[tile], reads[tile], parting)
            if found is not None:
                load, read = found
                what = f"tile {tile} is read here, and no {name} stands between its load and this read, on some way"
                yield fault(Code.MLS_RACE, read.span, notes=(Note(load.span, "the load"),), what=what)


def _waits_for_loads(instruction: Instruction) -> bool:
    return instruction.name == "s_waitcnt" and instruction.modifier("vmcnt") is not None


def _is_barrier(instruction: Instruction) -> bool:
    return instruction.name == "s_barrier"


def _unparted(
    flow: Flow, loads: list[_Placed], reads: list[_Placed], parting: Callable[[Instruction], bool]
) -> tuple[Site, Site] | None:
    """A load and a read of a tile that nothing parts: the read may follow at once and, if the two stand in one loop,
    the load the read in turn. (In a loop with a ring, a load may well stand in front of reads of other slots.)"""
    for load in loads:
        near = _followers(flow, load, parting)
        anywhere = _followers(flow, load, lambda _: False)
        for read in reads:
            if read[1].number not in near:
                continue
            back = _followers(flow, read, parting)
            looped = read[1].number in anywhere and load[1].number in _followers(flow, read, lambda _: False)
            if load[1].number in back or not looped:
                return load[1], read[1]
    return None


def _followers(flow: Flow, of: _Placed, stop: Callable[[Instruction], bool]) -> set[int]:
    """Instructions that may run after one with none in between for which `stop` holds."""
    found: set[int] = set()
    block = flow.blocks[of[0]]
    rest = [s for s in block.sites if s.number > of[1].number]
    waiting: list[int] = []
    seen: set[int] = set()

    def pass_through(sites: Sequence[Site], after: tuple[int, ...]) -> None:
        for site in sites:
            if stop(site.instruction):
                return
            found.add(site.number)
        waiting.extend(after)

    pass_through(rest, block.after)
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen.add(number)
            pass_through(flow.blocks[number].sites, flow.blocks[number].after)
    return found
