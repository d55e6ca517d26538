"""Registers of loads that an instruction touches before they have been waited for."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, Note
from tilegen.targets.mls import isa
from tilegen.targets.mls.checks.flow import Flow, Site
from tilegen.targets.mls.checks.values import places, register_name

_Pending = dict[int, tuple[str, int, int, bool]]  # place: counter, later issues at least, instruction, a scalar load


def registers(flow: Flow) -> Iterator[Diagnostic]:
    """Registers of a load that are read or written before its wait, on some way."""
    entry: list[_Pending | None] = [None] * len(flow.blocks)
    entry[0] = {}
    waiting = [0]
    while waiting:
        block = flow.blocks[waiting.pop()]
        state = dict(entry[block.number] or {})
        for site in block.sites:
            _issue(site, state)
        for number in block.after:
            joined = _joined(entry[number], state)
            if joined != entry[number]:
                entry[number] = joined
                waiting.append(number)
    told: set[int] = set()
    sites = {site.number: site for _, site in flow.sites()}
    for block in flow.blocks:
        state = dict(entry[block.number] or {})
        for site in block.sites:
            touched = {p for o in site.instruction.operands for p in places(o)}
            for place in sorted(touched & state.keys()):
                load = sites[state[place][2]]
                if site.number not in told:
                    told.add(site.number)
                    what = f"it touches {register_name(place)}, which is being loaded: no s_waitcnt waits for it"
                    notes = (Note(load.span, "the load"),)
                    yield fault(Code.MLS_NOT_WAITED, site.span, notes=notes, what=what)
            _issue(site, state)


def _joined(a: _Pending | None, b: _Pending) -> _Pending:
    if a is None:
        return b
    found = dict(a)
    for place, pending in b.items():
        old = found.get(place)
        found[place] = pending if old is None or pending[1] < old[1] else old
    return found


def _issue(site: Site, state: _Pending) -> None:
    """What an instruction does to the registers that are waited for."""
    instruction = site.instruction
    opcode = isa.OPCODES[instruction.name]
    if instruction.name == "s_waitcnt":
        vm, lgkm = instruction.modifier("vmcnt"), instruction.modifier("lgkmcnt")
        for place, (counter, later, _, scalar_load) in list(state.items()):
            count = vm if counter == "vm" else lgkm
            if count is not None and (count == 0 if scalar_load else later >= count):
                del state[place]
        return
    if not opcode.counter:
        return
    scalar_load = opcode.unit == isa.SMEM
    most = isa.VMCNT_MAX if opcode.counter == "vm" else isa.LGKMCNT_MAX
    for place, (counter, later, number, scalar) in list(state.items()):
        if counter == opcode.counter and not (scalar_load and not scalar):
            state[place] = (counter, min(later + 1, most), number, scalar)
    for operand, form in zip(instruction.operands, opcode.forms, strict=True):
        if form.written:
            for place in places(operand):
                state[place] = (opcode.counter, 0, site.number, scalar_load)
