"""Branches, calls, exits, register reallocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.ptx.decode import Control, Decoded, Modifiers, instruction
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.module import Immediate, Instruction, Label, Operand, Symbol, Vector
from tilegen.emulate.ptx.types import TYPES
from tilegen.emulate.ptx.unit import Group, Unit, Wait

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine


@instruction("bra")
def bra(ins: Instruction) -> Decoded:
    """bra{.uni}: lanes that differ part."""
    mods = Modifiers(ins)
    uniform = mods.flag("uni")
    mods.done()
    (label,) = mods.operands(1)
    assert isinstance(label, Label)
    guard, negated = ins.guard, ins.guard_negated

    def bind(machine: Machine) -> Control:
        target = machine.program.binding_base + label.target
        p = None if guard is None else machine.predicates[guard.index]

        def control(unit: Unit, group: Group) -> bool:
            taken = group.bits
            if p is not None:
                taken = unit.bits_where(group, p)
                if negated:
                    taken = group.bits & ~taken
                if taken and machine.watch is not None:
                    machine.watch.passed_by(unit, group, target)
            if taken == group.bits:
                group.pc = target
                unit.moved(group)
            elif taken == 0:
                unit.advance(group)
            elif uniform:
                raise FaultError("bra.uni, but its threads do not agree")
            else:
                group.bits &= ~taken
                other = Group(taken, target, group.stack)
                unit.groups.append(other)
                unit.moved(other)
                unit.advance(group)
            return True

        return control

    return Decoded(bind, control=True)


@instruction("brx")
def brx(ins: Instruction) -> Decoded:
    """brx.idx{.uni}."""
    mods = Modifiers(ins)
    mods.need("idx")
    mods.flag("uni")
    mods.done()
    index, table = mods.operands(2)
    if not isinstance(table, Vector):
        mods.unknown("it wants a list of branch targets")
    guard, negated = ins.guard, ins.guard_negated

    def bind(machine: Machine) -> Control:
        base = machine.program.binding_base
        targets = [base + t.target for t in table.items if isinstance(t, Label)]
        row = machine.src(index, TYPES["u32"])

        def control(unit: Unit, group: Group) -> bool:
            if guard is not None:
                on = unit.bits_where(group, machine.predicates[guard.index])
                on = group.bits & ~on if negated else on
                if on == 0:
                    return unit.advance(group)
                if on != group.bits:
                    unit.split(group, group.bits & ~on, group.pc + 1)
            for value in np.unique(row[unit.lanes(group.bits).threads]):
                if value >= len(targets):
                    raise FaultError(f"brx.idx with index {value}, its table has {len(targets)} targets")
                bits = unit.bits_where(group, row == value)
                other = Group(bits, targets[int(value)], group.stack)
                unit.groups.append(other)
                unit.moved(other)
            unit.groups.remove(group)
            return True

        return control

    return Decoded(bind, control=True)


@instruction("ret")
def ret(ins: Instruction) -> Decoded:
    """ret{.uni}: back to the caller, or the end of the thread."""
    mods = Modifiers(ins)
    mods.flag("uni")
    mods.done()
    return Decoded(lambda machine: return_control, control=True)


def return_control(unit: Unit, group: Group) -> bool:
    """Return from the current function."""
    if not group.stack:
        _leave(unit, group)
        return True
    *rest, group.pc = group.stack
    group.stack = tuple(rest)
    machine = unit.cta.machine
    machine.copy_frame(unit.lanes(group.bits).threads, machine.return_copies[group.pc])
    unit.moved(group)
    return True


def _leave(unit: Unit, group: Group) -> None:
    watch = unit.cta.machine.watch
    if watch is not None:
        watch.exit(unit, group.bits)
    unit.exit(group)


@instruction("exit")
def exit_thread(ins: Instruction) -> Decoded:
    """The thread ends."""
    Modifiers(ins).done()

    def control(unit: Unit, group: Group) -> bool:
        _leave(unit, group)
        return True

    return Decoded(lambda machine: control, control=True)


@instruction("trap", "brkpt")
def trap(ins: Instruction) -> Decoded:
    """The kernel stops itself."""
    Modifiers(ins).done()

    def control(unit: Unit, group: Group) -> bool:
        raise FaultError("the kernel has stopped itself")

    return Decoded(lambda machine: control, control=True)


@instruction("call")
def call(ins: Instruction) -> Decoded:
    """A direct call of a function whose body is in the module."""
    mods = Modifiers(ins)
    mods.flag("uni")
    mods.done()
    operands: list[Operand] = list(ins.operands)
    results: tuple[Operand, ...] = ()
    if isinstance(operands[0], Vector):
        results = operands[0].items
        del operands[0]
    callee = operands.pop(0)
    arguments = operands[0].items if operands and isinstance(operands[0], Vector) else ()
    if not isinstance(callee, Label):
        mods.unknown("calls through a register are not supported")

    def bind(machine: Machine) -> Control:
        function = machine.module.functions.get(callee.name)
        if function is None:
            missing = callee.name

            def fail(unit: Unit, group: Group) -> bool:
                raise FaultError(f"calls {missing}, whose body is not in the module")

            return fail
        entry = machine.program.base[callee.name]
        copies = [
            (_frame(machine, a), _frame(machine, Symbol(p.name)), p.size)
            for a, p in zip(arguments, function.params, strict=True)
        ]
        returns = [
            (_frame(machine, Symbol(p.name)), _frame(machine, r), p.size)
            for r, p in zip(results, function.results, strict=True)
        ]

        def control(unit: Unit, group: Group) -> bool:
            if group.pc + 1 in group.stack or len(group.stack) > 64:
                raise FaultError(f"{callee.name} is called recursively, which the emulator does not support")
            machine.copy_frame(unit.lanes(group.bits).threads, copies)
            machine.return_copies[group.pc + 1] = returns
            group.stack = (*group.stack, group.pc + 1)
            group.pc = entry
            unit.moved(group)
            return True

        return control

    return Decoded(bind, control=True)


def _frame(machine: Machine, operand: Operand) -> int:
    if not isinstance(operand, Symbol):
        raise FaultError("a call passes something that is no .param variable")
    return machine.address_of(operand)


@instruction("setmaxnreg")
def setmaxnreg(ins: Instruction) -> Decoded:
    """setmaxnreg.inc/dec: a warpgroup takes registers from the CTA's pool, or gives some back."""
    mods = Modifiers(ins)
    action = mods.need("inc", "dec")
    mods.need("sync")
    mods.need("aligned")
    mods.need("u32")
    mods.done()
    (operand,) = mods.operands(1)
    if not isinstance(operand, Immediate) or not 24 <= operand.value <= 256 or int(operand.value) % 8:
        mods.unknown("its count must be a multiple of 8 from 24 to 256")
    count = int(operand.value)

    def control(unit: Unit, group: Group) -> bool:
        cta = unit.cta
        if not unit.gather_all(group, unit.alive, ins.name):
            return False
        if not cta.machine.entry_registers:
            # Without a known register count at entry the assembler ignores the instruction.
            return unit.advance(group)
        change = (count - unit.registers) * unit.size
        if action == "dec" and change > 0:
            raise FaultError(
                f"setmaxnreg.dec to {count}, but the warpgroup has only {unit.registers} registers a thread"
            )
        if action == "inc" and change < 0:
            raise FaultError(
                f"setmaxnreg.inc to {count}, but the warpgroup already has {unit.registers} registers a thread"
            )
        if change > cta.free_registers:
            return unit.block(
                group,
                Wait(
                    "registers",
                    None,
                    lambda: (
                        f"waiting for {change} registers ({unit.registers} to {count} a thread), "
                        f"the CTA's pool has {cta.free_registers} free"
                    ),
                ),
            )
        unit.registers = count
        cta.free_registers -= change
        cta.events += 1
        if change < 0:
            cta.wake("registers", None)
        return unit.advance(group)

    return Decoded(lambda machine: control, control=True)
