"""Barriers that not every wave comes to, and tiles that are read with no wait or barrier behind their loads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, Note
from tilegen.targets.mls import isa
from tilegen.targets.mls.checks.flow import Flow, Site
from tilegen.targets.mls.checks.values import EXEC, SCC, VCC, Given, Made, Met, Value, Values, written_places
from tilegen.targets.mls.program import Instruction

_PLACES = {"scc": SCC, "exec": EXEC, "vcc": VCC}
_Placed = tuple[int, Site]  # a block and an instruction in it


def barriers(values: Values) -> Iterator[Diagnostic]:
    """Barriers that stand behind a branch which not all waves of a workgroup take alike."""
    told: set[int] = set()
    for block, between in _Differing(values).branches.items():
        branch = values.flow.blocks[block].sites[-1]
        for number in sorted(between):
            for site in values.flow.blocks[number].sites:
                if site.instruction.name == "s_barrier" and site.number not in told:
                    told.add(site.number)
                    what = "not every wave comes to this barrier: a branch in front of it depends on the wave"
                    yield fault(Code.MLS_HANG, site.span, notes=(Note(branch.span, "the branch"),), what=what)


class _Differing:
    """Which values may differ between the waves of a workgroup: what is made of the wave's number, what is read from
    LDS, and what ways bring that differing branches part.

    branches: the blocks that end with such a branch, each with the blocks up to where its ways meet again.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._flow = values.flow
        self._users: dict[Value, list[Value]] = {}
        self._conditions: dict[Value, list[int]] = {}
        self._met: dict[int, list[Met]] = {}
        self.branches: dict[int, set[int]] = {}
        self._found: set[Value] = set()
        self._waiting: list[Value] = [Given(isa.WAVE)]
        self._collect()
        while self._waiting:
            value = self._waiting.pop()
            if value in self._found:
                continue
            self._found.add(value)
            self._waiting += self._users.get(value, [])
            for block in self._conditions.get(value, []):
                self._part(block)

    def _collect(self) -> None:
        """Who uses which value, and which branches hang on it."""
        for block, site, state in self._values.states():
            opcode = isa.OPCODES[site.instruction.name]
            sources = self._values.sources[site.number]
            read = [v for o, f in zip(sources, opcode.forms, strict=True) if not f.written for v in o]
            implicit = [state.value(_PLACES[name]) for name in opcode.reads]
            made: list[Value] = [Made(site.number, p) for p in written_places(site.instruction)]
            for value in (*read, *implicit):
                self._users.setdefault(value, []).extend(made)
            if opcode.unit in (isa.LDS, isa.LDS_MATRIX):
                self._waiting += made
            if site.instruction.name.startswith("s_cbranch") and len(block.after) > 1:
                for value in implicit:
                    self._conditions.setdefault(value, []).append(block.number)
        for met, ways in self._values.meetings.items():
            self._met.setdefault(met.block, []).append(met)
            for value in ways.values():
                self._users.setdefault(value, []).append(met)

    def _part(self, block: int) -> None:
        """The waves may take different ways behind a block."""
        end = self._flow.meeting(block)
        inside: set[int] = set()
        for way in self._flow.blocks[block].after:
            if way != end:
                inside |= {way} | self._flow.reachable(way, end)
        self.branches[block] = inside - {end}
        for number in inside | ({end} if end is not None else set()):
            for met in self._met.get(number, []):
                brought = {v for way, v in self._values.meetings[met].items() if way == block or way in inside}
                if len(brought) > 1:
                    self._waiting.append(met)


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
