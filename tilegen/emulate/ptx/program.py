"""The code of a launch: all functions in one list, bound to the machine, cut into runs free of decisions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen.emulate.ptx.control import return_control
from tilegen.emulate.ptx.decode import Control, Decoded, Step
from tilegen.emulate.ptx.faults import FaultError, unknown_instruction
from tilegen.emulate.ptx.module import Function, Instruction, Module, Place

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine


_END = Instruction("ret", (), (), Place(0))
_RETURN = Decoded(lambda machine: return_control, control=True)


@dataclass
class Run:
    """Steps from `start` on, then (if any) the control instruction at `end`. `executions` counts warps that ran it."""

    start: int
    end: int
    steps: list[Step]
    control: Control | None
    executions: int = 0
    controls: int = 0


class Program:
    """`base[name]` is where a function begins; program counters count through all functions."""

    def __init__(self, module: Module) -> None:
        self.code: list[Instruction] = []
        self.order: list[int] = []
        self.base: dict[str, int] = {}
        self.function_of: list[Function] = []
        self._decoded: list[Decoded] = []
        self._leaders: set[int] = set()
        self._runs: dict[int, Run] = {}
        self._bound: dict[int, Any] = {}
        #: While an instruction is being bound: where its function begins.
        self.binding_base = 0
        #: … and where itself stands.
        self.binding_at = 0
        for function in module.functions.values():
            start = self.base[function.name] = len(self.code)
            # One slot more than instructions: falling off the end is a return.
            self.code += function.instructions
            self.code.append(_END)
            self.order += function.order
            self._decoded += [*function.decoded, _RETURN]
            self.function_of += [function] * (len(function.instructions) + 1)
            self._leaders |= {start + i for i in function.leaders}

    def bind(self, machine: Machine) -> None:
        """Bind to a machine; instructions are bound when they are first reached."""
        self._machine = machine

    def run_at(self, pc: int) -> Run:
        """The run that begins at `pc`."""
        run = self._runs.get(pc)
        if run is None:
            run = self._runs[pc] = self._build(pc)
        return run

    def _build(self, pc: int) -> Run:
        steps: list[Step] = []
        at = pc
        while True:
            decoded = self._decoded[at]
            bound = self._bound.get(at)
            if bound is None:
                self.binding_base, self.binding_at = self.base[self.function_of[at].name], at
                bound = self._bound[at] = self._bind(at, decoded)
            if decoded.control:
                return Run(pc, at, steps, bound)
            steps.append(bound)
            at += 1
            if at in self._leaders:
                return Run(pc, at, steps, None)

    def _bind(self, at: int, decoded: Decoded) -> Any:
        try:
            return decoded.bind(self._machine)
        except FaultError as fault:
            unknown_instruction(self.code[at].name, fault.what, self.code[at].place)

    def counts(self) -> Counter[str]:
        """Warp instructions executed, by opcode with modifiers."""
        out: Counter[str] = Counter()
        for run in self._runs.values():
            for at in range(run.start, run.start + len(run.steps)):
                out[self.code[at].name] += run.executions
            if run.control is not None:
                out[self.code[run.end].name] += run.controls
        return out
