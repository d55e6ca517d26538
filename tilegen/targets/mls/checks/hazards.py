"""Scalars that a matrix load or read takes before the machine can see them (docs/mls.md, section 7)."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, Note
from tilegen.targets.mls import isa
from tilegen.targets.mls.checks.flow import Block, Flow, Site
from tilegen.targets.mls.checks.values import places, register_name, written_places
from tilegen.targets.mls.program import Instruction, Int

_WAITS = {"v_readfirstlane_b32": 5, "v_readlane_b32": 5}


def hazards(flow: Flow) -> Iterator[Diagnostic]:
    """Scalars that a matrix load or read takes before the machine can see them."""
    for block in flow.blocks:
        for index, site in enumerate(block.sites):
            if isa.OPCODES[site.instruction.name].unit not in (isa.MLS, isa.LDS_MATRIX):
                continue
            forms = isa.OPCODES[site.instruction.name].forms
            wanted = {
                p for o, f in zip(site.instruction.operands, forms, strict=True) if not f.written for p in places(o)
            }
            yield from _recent(flow, block, index, site, wanted)


def _recent(flow: Flow, block: Block, index: int, site: Site, wanted: set[int]) -> Iterator[Diagnostic]:
    for distance, writer in _backwards(flow, block, index, max(_WAITS.values())):
        written = set(written_places(writer.instruction))
        unit = isa.OPCODES[writer.instruction.name].unit
        least = _WAITS.get(writer.instruction.name, 1 if unit == isa.SALU else 0)
        if distance < least and written & wanted:
            what = (
                f"it takes {register_name(min(written & wanted))}, written {distance} instructions before: at least "
                f"{least} must stand between"
            )
            yield fault(Code.MLS_HAZARD, site.span, notes=(Note(writer.span, "written here"),), what=what)
            return


def _backwards(flow: Flow, block: Block, index: int, most: int) -> Iterator[tuple[int, Site]]:
    """Instructions in front of one, on every way, with how many (slots of s_nop) stand between."""
    waiting = [(block.number, index, 0)]
    while waiting:
        number, position, distance = waiting.pop()
        for site in reversed(flow.blocks[number].sites[:position]):
            if distance >= most:
                break
            yield distance, site
            distance += _slots(site.instruction)
        else:
            if distance < most:
                waiting += [(b, len(flow.blocks[b].sites), distance) for b in flow.before[number]]


def _slots(instruction: Instruction) -> int:
    match instruction:
        case Instruction("s_nop", (Int(count),)):
            return 1 + count
    return 1
